"""render/bake.py: the same start as the Deployment's, that publishes and ends, or fails."""

from __future__ import annotations

from typing import Any

import pytest

from glowplug.engines.command import see_through
from glowplug.render import kinds
from glowplug.render.options import Mode
from tests.render.planned import AUTO, GUIDE, SGLANG, options


def bake(**given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    account, job = kinds.render("bake", options(given.pop("plan", AUTO), **given)).value["items"]
    return account, job


def test_it_has_an_account_of_its_own() -> None:
    account, job = bake(namespace="team", service_account="serving")
    assert (account["kind"], account["metadata"]) == (
        "ServiceAccount",
        {"name": "vllm-inference-bake", "namespace": "team"},
    )
    assert job["metadata"]["name"] == job["spec"]["template"]["spec"]["serviceAccountName"] == "vllm-inference-bake"


@pytest.mark.parametrize("plan", [AUTO, GUIDE, SGLANG], ids=["auto", "guide", "sglang"])
def test_it_is_the_start_of_the_deployment(plan: Any) -> None:
    """What the key is made of: image, command, arguments, and variables but the client's own."""
    given = {"store": "s3://cache/fleet", "region": "eu-central-1"}
    _, job = bake(plan=plan, **given)
    baked = job["spec"]["template"]["spec"]["containers"][0]
    served = kinds.render("deployment", options(plan, **given)).value["spec"]["template"]["spec"]["containers"][0]
    assert baked["image"] == served["image"]
    assert baked["resources"]["limits"] == served["resources"]["limits"]
    assert baked["volumeMounts"] == served["volumeMounts"]
    own = {"GLOWPLUG_NO_PUBLISH", "GLOWPLUG_READY_TIMEOUT"}
    assert [one for one in baked["env"] if one["name"] not in own] == [
        one for one in served["env"] if one["name"] not in own
    ]
    seen = [see_through([*one["command"], *one["args"]], {}) for one in (baked, served)]
    assert seen[0] == seen[1]
    assert seen[0].opaque == ""


def test_it_publishes_and_the_deployment_does_not() -> None:
    _, job = bake()
    names = {entry["name"]: entry.get("value") for entry in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert "GLOWPLUG_NO_PUBLISH" not in names
    assert names["GLOWPLUG_READY_TIMEOUT"] == "630s"


def test_it_ends() -> None:
    spec = bake()[1]["spec"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["backoffLimit"] == 1
    assert spec["activeDeadlineSeconds"] > 2 * 630
    assert spec["ttlSecondsAfterFinished"] > 0
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [5, 125])
    assert rule["onExitCodes"]["containerName"] == spec["template"]["spec"]["containers"][0]["name"]


def test_no_traffic_comes_to_it() -> None:
    _, job = bake()
    assert job["spec"]["template"]["metadata"]["labels"]["app"] != "vllm-inference"
    assert not {"readinessProbe", "startupProbe", "livenessProbe"} & set(
        job["spec"]["template"]["spec"]["containers"][0]
    )


@pytest.mark.parametrize("mode", Mode)
def test_it_is_the_same_job_in_every_mode(mode: Mode) -> None:
    assert bake(mode=mode) == bake()
