"""`glowplug render`: manifests on stdout and nothing else there, words for people on stderr, statuses that scripts can rely on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Call

SIZED = ("s3://models/llama", "--size", "67GB", "--instance", "p5.48xlarge")
TOO_LARGE = ("s3://models/llama", "--size", "900GB", "--instance", "g6.xlarge")


def _documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def test_the_guides_deployment(call: Call) -> None:
    answer = call("render", "deployment", *SIZED, "--profile", "guide", "--mode", "shared")
    (found,) = _documents(answer.out)
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert (answer.status, found["kind"], found["metadata"]["name"]) == (0, "Deployment", "vllm-inference")
    assert container["args"] == [
        "--model=s3://models/llama",
        "--load-format=runai_streamer",
        '--model-loader-extra-config={"concurrency":17,"distributed":true}',
        "--tensor-parallel-size=2",
        "--max-model-len=8192",
        "--host=0.0.0.0",
        "--port=8000",
    ]
    assert container["image"] == "vllm/vllm-openai:v0.21.0"


def test_the_engine_names_the_workload(call: Call) -> None:
    (found,) = _documents(call("render", "deployment", *SIZED, "--engine", "sglang").out)
    assert found["metadata"]["name"] == "sglang-inference"


def test_the_default_mode_is_direct_and_node_for_the_agent(call: Call) -> None:
    assert "initContainers" in call("render", "deployment", *SIZED).out
    assert "--mode=node" in call("render", "agent").out


def test_text_and_yaml_are_the_same_and_json_is_what_they_say(call: Call) -> None:
    for kind in ("deployment", "all", "nodepool", "network", "iam"):
        text, as_yaml, as_json = (call("render", kind, *SIZED, "-o", form).out for form in ("text", "yaml", "json"))
        assert text == as_yaml
        value = json.loads(as_json)
        assert _documents(text) == (value["items"] if value.get("kind") == "List" else [value])


def test_the_same_call_gives_the_same_bytes(call: Call) -> None:
    assert call("render", "all", *SIZED, "--mode", "node") == call("render", "all", *SIZED, "--mode", "node")


def test_every_option_reaches_the_manifest(call: Call) -> None:
    given = {
        "--name": "llama",
        "--namespace": "team",
        "--nodepool": "gpus",
        "--service-account": "serving",
        "--image": "mine/vllm:1",
        "--glowplug-image": "mine/glowplug:1",
        "--store": "s3://cache/fleet",
        "--domain": "team-a",
        "--replicas": "3",
        "--region": "eu-central-1",
        "--max-model-len": "4096",
        "--tp": "4",
        "--chunk-size": "1GiB",
    }
    words = [word for pair in given.items() for word in pair]
    (found,) = _documents(call("render", "deployment", *SIZED, *words).out)
    shown = json.dumps(found)
    values = ["llama", "team", "gpus", "serving", "mine/vllm:1", "mine/glowplug:1", "s3://cache/fleet", "team-a"]
    values += ["eu-central-1", "--max-model-len=4096", "--tensor-parallel-size=4", "1073741824"]
    assert [value for value in values if f'"{value}"' not in shown] == []
    assert found["spec"]["replicas"] == 3


def test_options_are_variables_too(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"STORE": "s3://cache/fleet", "COMPUTE": "auto-mode", "MODE": "node", "NAME": "llama"}.items():
        monkeypatch.setenv(f"GLOWPLUG_{name}", value)
    out = call("render", "all", *SIZED).out
    assert {"--store=s3://cache/fleet", "/mnt/.ephemeral/glowplug", "llama-bake"} <= set(
        out.replace('"', "").replace(":", " ").replace("s3 //", "s3://").split()
    )


def test_the_region_comes_from_the_option_before_the_environment(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    assert "us-east-2" in call("render", "deployment", *SIZED).out
    named = call("render", "deployment", *SIZED, "--region", "eu-central-1").out
    assert ("us-east-2" in named, "eu-central-1" in named) == (False, True)


def test_what_does_not_fit_prints_nothing_to_apply(call: Call) -> None:
    for kind in ("deployment", "bake", "all"):
        answer = call("render", kind, *TOO_LARGE)
        assert (answer.status, answer.out) == (1, "")
        assert answer.err.startswith("error[does-not-fit]: ")
        assert "hint: " in answer.err


def test_a_model_is_read_where_no_size_is_given(call: Call, tmp_path: Path) -> None:
    answer = call("render", "deployment", tmp_path, "--instance", "p5.48xlarge")
    assert answer.status != 0
    assert answer.out == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["deployment"], "usage", "needs a model"),
        (["bake"], "usage", "needs a model"),
        (["all"], "usage", "needs a model"),
        (["agent", "s3://models/llama"], "usage", "takes no model"),
        (["agent", "--mode", "direct"], "usage", "no agent"),
        (["service"], "usage", "service"),
        (["deployment", "67GB", "--instance", "p5.48xlarge"], "usage", "the model's address"),
        (["deployment", "S3:/b", "--size", "1GB"], "bad-model", "two slashes"),
        (["deployment", "hf://org/model", "--size", "1GB"], "bad-model", "hf://org/model"),
        (["deployment", *SIZED, "--name", "Llama"], "usage", "--name"),
        (["deployment", *SIZED, "--namespace", "a.b"], "usage", "--namespace"),
        (["deployment", *SIZED, "--namespace", ""], "usage", "--namespace"),
        (["deployment", *SIZED, "--service-account", "a b"], "usage", "--service-account"),
        (["deployment", *SIZED, "--nodepool", "a/b"], "usage", "--nodepool"),
        (["deployment", *SIZED, "--domain", "../x"], "usage", "--domain"),
        (["deployment", *SIZED, "--image", "a b"], "usage", "--image"),
        (["deployment", *SIZED, "--store", "bucket"], "bad-store-url", "--store"),
        (["deployment", *SIZED, "--replicas", "-1"], "usage", "replicas"),
        (["deployment", *SIZED, "--compute", "fargate"], "usage", "fargate"),
        (["deployment", *SIZED, "--mode", "hostpath"], "usage", "hostpath"),
        (["deployment", *SIZED, "--region", "Frankfurt"], "usage", "--region"),
        (["deployment", *SIZED, "--gpu", "h100"], "usage", "--gpu"),
        (["deployment", "s3://b/m", "--size", "soon", "--instance", "p5.48xlarge"], "bad-size", "soon"),
        (["deployment", "s3://b/m", "--size", "67GB", "--instance", "p5.48xlarg"], "unknown-instance", "p5.48xlarg"),
        (["deployment", *SIZED, "one-too-many"], "usage", "one-too-many"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(call: Call, arguments: list[str], code: str, words: str) -> None:
    answer = call("render", *arguments)
    assert answer.out == ""
    assert answer.status == 2
    assert answer.err.startswith(f"error[{code}]: ")
    assert words in answer.err


def test_names_are_checked_before_a_model_is_read(call: Call) -> None:
    """A model in a bucket would take seconds, and credentials, to answer."""
    answer = call("render", "deployment", "s3://models/llama", "--instance", "p5.48xlarge", "--name", "Llama")
    assert (answer.status, "--name" in answer.err) == (2, True)


def test_what_a_person_has_to_know_is_on_stderr(call: Call) -> None:
    answer = call("render", "deployment", *SIZED)
    assert "--glowplug-image" in answer.err
    assert "--service-account" in answer.err
    assert "glowplug: " not in answer.out.replace("'glowplug: ", "")
