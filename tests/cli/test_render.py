"""`glowplug render`: manifests on stdout and nothing else there, words for people on stderr, statuses that scripts can rely on."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from glowplug.cli.render import command
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
        (["deployment", *SIZED, "--image", "IMAGE"], "usage", "--image"),
        (["agent", "--glowplug-image", "IMAGE"], "usage", "the repository in lower case"),
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


@pytest.mark.parametrize("words", [(), ("--mode", "node"), ("--mode", "node", "--store", "s3://b/c", "-o", "json")])
@pytest.mark.parametrize("kind", ["bake", "all"])
def test_what_does_not_work_is_said_last_and_begins_with_that_word(
    call: Call, kind: str, words: tuple[str, ...]
) -> None:
    answer = call("render", kind, *SIZED, *words)
    lines = answer.err.splitlines()
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert warnings
    assert lines[-len(warnings) :] == warnings
    assert answer.status == 0
    if "json" not in words:
        assert "\n# warning: " in answer.out.partition("\napiVersion: ")[0]


def test_the_examples_of_the_help_work_and_warn_of_nothing(call: Call) -> None:
    text = call("render", "--help").out
    examples = [line.strip() for line in text.splitlines() if line.strip().startswith("glowplug render ")]
    assert len(examples) >= 4
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])[1:]
        sized = (
            words
            if "--size" in words or not any(word.startswith("s3:") for word in words)
            else [*words, "--size", "67GB"]
        )
        answer = call(*sized)
        assert (answer.status, "warning" in answer.err) == (0, False), example


# ---- what comes from the environment


def test_a_value_that_nobody_typed_is_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    monkeypatch.setenv("GLOWPLUG_STORE", "s3://cache/fleet")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://10.0.0.5:9000/")
    (told,) = [line for line in call("render", "deployment", *SIZED).err.splitlines() if "your environment" in line]
    assert set(told.removeprefix("glowplug: from your environment: ").split(", ")) == {
        "AWS_REGION=us-east-2",
        "GLOWPLUG_STORE=s3://cache/fleet",
        "AWS_ENDPOINT_URL=http://10.0.0.5:9000/",
    }
    typed = call("render", "deployment", *SIZED, "--region", "eu-central-1", "--store", "s3://c").err
    assert "AWS_REGION=" not in typed
    assert "GLOWPLUG_STORE=" not in typed


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_an_address_of_this_machine_gets_into_no_manifest(
    call: Call, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    answer = call("render", "deployment", *SIZED, "--engine", engine, "--mode", "shared")
    manifest = [line for line in answer.out.splitlines() if not line.startswith("#")]
    assert "127.0.0.1" not in "\n".join(manifest)
    assert "warning: http://127.0.0.1:9000" in answer.err
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://10.0.0.5:9000")
    assert "value: http://10.0.0.5:9000" in call("render", "deployment", *SIZED, "--engine", engine).out


def test_the_agents_server_is_the_one_of_its_store(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ("render", "agent", "-n", "inference", "--store", "s3://b/c")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://10.0.0.5:9000")
    answer = call(*agent)
    assert "value: http://10.0.0.5:9000" in answer.out
    assert "from your environment: AWS_ENDPOINT_URL=http://10.0.0.5:9000" in answer.err
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    answer = call(*agent)
    assert "AWS_ENDPOINT_URL" not in answer.out.partition("\napiVersion: ")[2]
    assert "warning: http://127.0.0.1:9000" in answer.err


def test_a_bake_that_has_nowhere_to_publish_is_a_warning(call: Call) -> None:
    for kind in ("bake", "all"):
        told = "warning: the bake job compiles for nothing: no --store"
        assert told in call("render", kind, *SIZED).err
        assert told not in call("render", kind, *SIZED, "--store", "s3://b/c").err


@pytest.mark.parametrize("separator", [",", " ", " , ", ", "])
def test_a_repeatable_option_is_a_list_in_its_variable(
    call: Call, monkeypatch: pytest.MonkeyPatch, separator: str
) -> None:
    tables = ["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"]
    repeated = call("render", "network", *(word for table in tables for word in ("--route-table", table))).out
    assert call("render", "network", "--route-table", ",".join(tables)).out == repeated
    monkeypatch.setenv("GLOWPLUG_ROUTE_TABLE", separator.join(tables))
    assert call("render", "network").out == repeated
    monkeypatch.setenv("GLOWPLUG_PUBLISH_FROM", separator.join(["a", "b/c"]))
    found = call("render", "agent").out
    assert ("--publish-from=a" in found, "--publish-from=b/c" in found) == (True, True)


# ---- a model that is not in an object store


@pytest.mark.parametrize("model", ["./llama8b", "../llama8b", "llama8b", "~/llama8b", ".", "a/b/c"])
@pytest.mark.parametrize("kind", ["deployment", "bake", "all"])
def test_a_path_of_this_directory_is_none_of_a_pods(call: Call, kind: str, model: str) -> None:
    answer = call("render", kind, model, "--size", "16GB", "--instance", "g6.2xlarge")
    assert (answer.status, answer.out) == (2, "")
    assert "which pods do not have" in answer.err
    assert "hint: write s3://bucket/prefix, or the absolute path" in answer.err


def test_a_path_that_looks_like_a_name_of_the_hub_is_one_when_it_is_not_here(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("render", "deployment", "models/llama", "--size", "16GB", "--instance", "g6.2xlarge")
    assert call(*words).status == 0
    (tmp_path / "models" / "llama").mkdir(parents=True)
    assert call(*words).status == 2


def test_an_absolute_path_is_taken_and_what_has_to_be_there_is_said(call: Call) -> None:
    answer = call("render", "deployment", "/models/llama", "--size", "16GB", "--instance", "g6.2xlarge")
    assert answer.status == 0
    assert "/models/llama: no volume is rendered for it" in answer.err


# ---- hints


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("network", "--route-table", "subnet-0123456789abcdef0"), "glowplug check network"),
        (("network", "--vpc", "prod"), "aws eks describe-cluster"),
        (("iam", "s3://b/m", "--kms-key", "alias/mine"), "aws kms describe-key"),
        (("iam", "s3://b/m", "--oidc-provider", "https://oidc.eks.eu-central-1.amazonaws.com/id/A"), "oidc.issuer"),
        (("agent", "--role-arn", "arn:aws:iam::1234:role/x"), "aws iam get-role"),
        (("nodepool", "--cluster", "arn:aws:eks:eu-central-1:1:cluster/x"), "aws eks list-clusters"),
        (("nodepool", "--node-role", "arn:aws:iam::123456789012:role/x"), "behind the last /"),
        (("agent", "--publish-from", "a/b/c"), "--publish-from inference/vllm"),
        (("agent", "--region", "Frankfurt"), "eu-central-1"),
        (("agent", "--namespace", "A"), "kubectl get namespaces"),
        (("agent", "--mode", "direct"), "--mode node"),
    ],
)
def test_a_wrong_value_says_where_a_right_one_is_found(call: Call, words: tuple[str, ...], hint: str) -> None:
    answer = call("render", *words)
    assert answer.status == 2
    (line,) = [line for line in answer.err.splitlines() if line.startswith("hint: ")]
    assert hint in line


KINDS = ("deployment", "bake", "all", "nodepool", "network", "iam")
SECRET = "geheim"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "model",
    [
        *(
            "s3://AKIA:geheim@bucket/m",
            "s3://AKIA:p/geheim@b/m",
            "s3://bucket/m?X-Amz-Signature=geheim",
            "//u:geheim@x",
        ),
        *("s3://bucket//m", "s3://bucket/../m", "s3://Bucket/m", "s3://", "\udcff", "", "m" * 300_000),
    ],
    ids=lambda model: ascii(model)[:30],
)
def test_one_rule_for_a_models_address_whatever_is_rendered(call: Call, kind: str, model: str) -> None:
    answer = call("render", kind, model, *SIZED[1:], "--mode", "shared")
    assert (answer.status, answer.out) == (2, "")
    assert "error[bad-model]" in answer.err
    assert SECRET not in answer.err
    assert len(answer.err) < 700


@pytest.mark.parametrize(
    "option",
    [
        *("--store=s3://u:geheim@b/m", "--store=s3://u:p/geheim@b/m", "--store=s3://b/m?X-Amz-Signature=geheim"),
        *("--image=user:geheim@reg/x", "--image=user:ge@geheim@reg/x:1", "--glowplug-image=user:geheim@reg/x:1"),
        *(f"--image=user:geheim@reg/x@sha256:{'0' * 64}", "--name=u:geheim@x", "--namespace=u:geheim@x"),
        *("--service-account=u:geheim@x", "--publish-from=u:geheim@x", "--role-arn=u:geheim@x", "--vpc=u:geheim@x"),
        *("--kms-key=u:geheim@x", "--oidc-provider=https://u:geheim@x", "--region=u:geheim@x", "--domain=u:geheim@x"),
    ],
)
def test_a_password_in_an_option_is_refused_and_not_repeated(call: Call, option: str) -> None:
    answer = call("render", "deployment", *SIZED, option)
    assert (answer.status, answer.out) == (2, "")
    assert option.partition("=")[0] in answer.err
    assert SECRET not in answer.err


OPTIONS = sorted(
    parameter.opts[-1] for parameter in command.params if isinstance(parameter, click.Option) and not parameter.is_flag
)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_empty_value_is_refused_by_the_options_name(call: Call, option: str) -> None:
    for value in ("", " "):
        answer = call("render", "deployment", *SIZED, option, value)
        assert (answer.status, answer.out) == (2, "")
        assert option in answer.err or value


@pytest.mark.parametrize("option", OPTIONS)
def test_no_value_makes_a_line_long(call: Call, option: str) -> None:
    for value in ("a" * 100_000, "9" * 400, "\uff13"):
        answer = call("render", "deployment", *SIZED, option, value)
        assert (answer.status, answer.out) == (2, "")
        assert len(answer.err) < 2000


@pytest.mark.parametrize("replicas", ["9" * 400, str(2**31), "-1", "\uff13", "1e3", "1_000"])
def test_replicas_are_what_kubernetes_counts(call: Call, replicas: str) -> None:
    answer = call("render", "deployment", *SIZED, "--replicas", replicas)
    assert (answer.status, answer.out) == (2, "")
    assert "--replicas" in answer.err
    assert call("render", "deployment", *SIZED, "--replicas", str(2**31 - 1)).status == 0


@pytest.mark.parametrize("kind", KINDS)
def test_two_machines_are_one_too_many(call: Call, kind: str) -> None:
    answer = call("render", kind, *SIZED, "--gpu", "h100", "--mode", "shared")
    assert (answer.status, answer.out) == (2, "")
    assert "--gpu" in answer.err


def test_a_directorys_address_is_its_path(call: Call) -> None:
    by_address, by_path = (
        call("render", "deployment", model, *SIZED[1:]).out for model in ("file:///models/x", "/models/x")
    )
    assert by_address == by_path
    assert "--model=/models/x" in by_path


@pytest.mark.parametrize("model", ["s3://b/m", "s3://b", "S3://bucket/a/m_1.2+x=y@z//"])
def test_a_role_is_for_what_the_pod_asks_for(call: Call, model: str) -> None:
    (pod,) = _documents(call("render", "deployment", model, *SIZED[1:], "--mode", "shared").out)
    told = pod["spec"]["template"]["spec"]["containers"][0]["args"][0].removeprefix("--model=s3://")
    role = call("render", "iam", model, "--store", "s3://cache/fleet", "--mode", "shared", "-o", "json")
    granted = json.dumps(role.json).replace("${AWS::Partition}", "aws")
    assert f'"arn:aws:s3:::{told}/*"' in granted
