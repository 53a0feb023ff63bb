"""render/copying.py: an engine that cannot read S3 finds its model in a directory, or its pod does not start."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glowplug.catalog.instances import instance
from glowplug.core.errors import UsageError
from glowplug.plan.outcome import Plan
from glowplug.render import copying, kinds
from glowplug.render.options import Compute, Mode
from tests.render.planned import AUTO, SGLANG, TENSORRT, options

READ = replace(TENSORRT, model=replace(TENSORRT.model, shards=4))
GIB = 1 << 30


def spec(plan: Plan = TENSORRT, kind: str = "deployment", **given: Any) -> dict[str, Any]:
    value = kinds.render(kind, options(plan, **given)).value
    found = value["items"][-1] if value["kind"] == "List" else value
    return dict(found["spec"]["template"]["spec"])


def copier(**given: Any) -> dict[str, Any]:
    (found,) = [one for one in spec(**given)["initContainers"] if one["name"] == "copy-model"]
    return dict(found)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("kind", ["deployment", "bake"])
def test_the_engine_reads_the_copy(mode: Mode, kind: str) -> None:
    found = spec(kind=kind, mode=mode, model="s3://models/teams/llama-8b/")
    engine = found["containers"][0]
    copied = found["initContainers"][-1]
    assert engine["args"][0] == "/models/llama-8b"
    assert copied["args"][:2] == ["s3://models/teams/llama-8b/", "/models/llama-8b"]
    assert copied["image"].startswith("public.ecr.aws/aws-cli/aws-cli:2.")
    (volume,) = [one for one in found["volumes"] if one["name"] == "model"]
    assert volume == {"name": "model", "emptyDir": {}}
    assert {"name": "model", "mountPath": "/models"} in copied["volumeMounts"]
    assert {"name": "model", "mountPath": "/models", "readOnly": True} in engine["volumeMounts"]


def test_the_disk_that_it_takes_is_asked_for() -> None:
    gib = int(spec()["containers"][0]["resources"]["requests"]["ephemeral-storage"].removesuffix("Gi"))
    assert 67e9 * 1.1 < gib * GIB < 67e9 * 1.1 + 4 * GIB


@pytest.mark.parametrize(("plan", "model"), [(AUTO, "s3://b/m"), (SGLANG, "s3://b/m"), (TENSORRT, "/models/m")])
def test_nothing_is_copied_where_the_engine_can_read_it(plan: Plan, model: str) -> None:
    found = spec(plan, mode=Mode.SHARED, model=model)
    assert "initContainers" not in found
    assert "ephemeral-storage" not in str(found)


@pytest.mark.parametrize(
    ("model", "path"),
    [("s3://bucket", "/models/bucket"), ("s3://b/a b", "/models/model"), ("s3://b/$(HOME)", "/models/model")],
)
def test_its_directory_has_a_plain_name(model: str, path: str) -> None:
    assert copier(model=model)["args"][1] == path


def test_kubelet_replaces_nothing_in_the_address() -> None:
    assert copier(model="s3://b/$(HOME)")["args"][0] == "s3://b/$$(HOME)"


def test_server_region_and_missing_signature_are_passed_on() -> None:
    found = copier(region="eu-central-1", endpoint="http://minio.storage:9000", unsigned=True)
    assert {one["name"]: one["value"] for one in found["env"]} == {
        "AWS_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL": "http://minio.storage:9000",
    }
    assert "--no-sign-request" in found["args"]
    assert copier()["env"] == []


def test_what_no_engine_reads_is_left_out_where_the_weights_are_known_to_be_safetensors() -> None:
    assert "--exclude=*.bin" not in copier()["args"]
    assert {"--exclude=*.bin", "--exclude=original/*"} <= set(copier(plan=READ)["args"])
    assert not any("safetensors" in word or "json" in word for word in copier(plan=READ)["args"])


@pytest.mark.parametrize("model", ["gs://b/m", "az://b/m"])
def test_only_s3_is_copied(model: str) -> None:
    with pytest.raises(UsageError, match="only models in S3") as caught:
        spec(model=model)
    assert "absolute path" in caught.value.hint


def test_the_roll_out_waits_for_the_copy() -> None:
    slow = replace(TENSORRT, estimate=replace(TENSORRT.estimate, load_seconds_fleet_nat=2000.0))
    copied, read = (
        kinds.render("deployment", options(slow, model=model)).value["spec"]["progressDeadlineSeconds"]
        for model in ("s3://b/m", "/models/m")
    )
    assert copied - read == 4000


def test_it_is_said() -> None:
    told = kinds.render("deployment", options(TENSORRT, mode=Mode.SHARED)).notes
    assert any("init container copies it" in note for note in told)
    auto_mode = kinds.render("deployment", options(TENSORRT, compute=Compute.AUTO_MODE)).notes
    assert any("ephemeralStorage.size" in note for note in auto_mode)


@pytest.mark.parametrize(
    ("machine", "gpus", "gigabytes", "said"), [("g4dn.12xlarge", 4, 300, True), ("g4dn.12xlarge", 4, 60, False)]
)
def test_too_small_a_disk_is_said(machine: str, gpus: int, gigabytes: int, said: bool) -> None:
    model = replace(TENSORRT.model, weights_bytes=gigabytes * 10**9)
    placement = replace(TENSORRT.placement, instance=machine, pods_per_node=gpus)
    asked = options(replace(TENSORRT, model=model, placement=placement), instance=instance(machine))
    assert any("copies of the model" in note for note in kinds.render("deployment", asked).notes) == said


# ---- the line of sh, with a program `aws` that does what the real one would

FAKE = """#!/bin/sh
printf '%s\\n' "$@" > "$SEEN"
[ "$1 $2" = "s3 sync" ] || exit 9
for last in "$@"; do :; done
[ -z "$FILES" ] || { mkdir -p "$last" && : > "$last/$FILES"; }
exit "${STATUS:-0}"
"""


def run(tmp_path: Path, *flags: str, **environ: str) -> tuple[int, str, list[str]]:
    """Exit status, stderr, and the words that `aws` got."""
    program = tmp_path / "aws"
    program.write_text(FAKE)
    program.chmod(0o755)
    words = copier()["command"]
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SEEN": str(tmp_path / "seen"), **environ}
    done = subprocess.run(
        [*words, "s3://b/a 'b'", str(tmp_path / "to"), *flags], env=env, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr, (tmp_path / "seen").read_text().splitlines()


def test_the_words_reach_aws_as_they_are(tmp_path: Path) -> None:
    status, said, seen = run(tmp_path, "--no-sign-request", "--exclude=*.bin", FILES="config.json")
    assert (status, said) == (0, "")
    assert seen == [
        "s3",
        "sync",
        "--only-show-errors",
        "--no-sign-request",
        "--exclude=*.bin",
        "s3://b/a 'b'",
        str(tmp_path / "to"),
    ]


@pytest.mark.parametrize(
    "environ", [{"STATUS": "1"}, {"STATUS": "1", "FILES": "half"}, {}], ids=["refused", "broken off", "nothing there"]
)
def test_a_copy_that_is_not_whole_fails(tmp_path: Path, environ: dict[str, str]) -> None:
    status, said, _ = run(tmp_path, **environ)
    assert status == 1
    assert "was not copied, or holds nothing" in said


def test_the_image_has_a_version() -> None:
    assert copying.IMAGE.rpartition(":")[2].count(".") == 2
