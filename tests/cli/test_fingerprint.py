"""`glowplug fingerprint`: the key that the same start has under `run` and while baking."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from glowplug.cache.quarantine import Quarantine
from glowplug.cli import fingerprint
from glowplug.cli.main import main
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Fact, Fingerprint
from glowplug.host import cpu
from glowplug.launch.options import RunOptions
from glowplug.supervise.prepare import prepare
from lab import engine
from tests.cli.conftest import Call, Program
from tests.parts import requires

ENGINE = engine.find()


def _run(tmp_path: Path, *arguments: str, command: list[str]) -> str | None:
    """The key digest in the document of a start."""
    report = tmp_path / "report.json"
    report.unlink(missing_ok=True)
    options = ["--cache-root", str(tmp_path / "root"), "--report", str(report), *arguments]
    main(["run", *options, "--", *command])
    digest = json.loads(report.read_text())["key_digest"]
    assert digest is None or isinstance(digest, str)
    return digest


def test_one_digest_for_one_start(call: Call, program: Program, tmp_path: Path) -> None:
    command = [str(program.python), str(program.script)]
    common = ["--engine", "torch"]
    shown = call("fingerprint", *common, "--cache-root", tmp_path / "root", "-o", "json", "--", *command)
    assert shown.status == 0
    digest = shown.json["key_digest"]
    assert re.fullmatch("[0-9a-f]{64}", digest)
    store = ["--store", str(tmp_path / "store")]
    assert _run(tmp_path, *common, command=command) == digest
    assert _run(tmp_path, *common, *store, command=command) == digest
    assert _run(tmp_path, *common, *store, "--exit-when-ready", "--ready-timeout", "5s", command=command) == digest


SPELLINGS = (
    ["{vllm}", "serve", "{model}", "-tp", "2"],
    ["{vllm}", "serve", "{model}", "--tensor-parallel-size=2", "--port", "8001"],
    ["{python}", "-m", "vllm.entrypoints.openai.api_server", "--model", "{model}", "--tensor-parallel-size", "2"],
    ["sh", "-c", "exec {vllm} serve {model} --tensor-parallel-size 2"],
    ["env", "FOO=bar", "{vllm}", "serve", "{model}", "-tp=2"],
)


@pytest.mark.parametrize("spelling", SPELLINGS, ids=range(len(SPELLINGS)))
def test_vllm_as_people_write_it(call: Call, program: Program, tmp_path: Path, spelling: list[str]) -> None:
    _same_key(call, tmp_path, program.vllm, program.python, spelling)


@requires("engine")
@pytest.mark.parametrize("spelling", SPELLINGS, ids=range(len(SPELLINGS)))
def test_a_real_vllm(call: Call, tmp_path: Path, spelling: list[str]) -> None:
    assert ENGINE is not None
    document = _same_key(call, tmp_path, ENGINE.parent / "vllm", ENGINE, spelling)
    assert document["fields"]["torch"]["source"].startswith("observed:")
    assert document["key"]["engine_version"].startswith("0.")


@requires("engine")
def test_a_real_torch(call: Call, tmp_path: Path) -> None:
    assert ENGINE is not None
    command = [str(ENGINE), "-c", "raise SystemExit(0)"]
    shown = call("fingerprint", "--engine", "torch", "--cache-root", tmp_path / "root", "-o", "json", "--", *command)
    assert shown.status == 0, shown
    assert _run(tmp_path, "--engine", "torch", command=command) == shown.json["key_digest"]


def _same_key(call: Call, tmp_path: Path, vllm: Path, python: Path, spelling: list[str]) -> dict[str, dict[str, str]]:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    words = [word.format(vllm=vllm, python=python, model=model) for word in spelling]
    root = str(tmp_path / "root")
    answer = call("fingerprint", "--cache-root", root, "-o", "json", "--", *words)
    assert answer.status == 0, answer
    prepared = prepare(
        RunOptions(cache_root=root),
        words,
        dict(os.environ),
        deadline=Deadline.after(20),
        quarantine=Quarantine(tmp_path / "state"),
        say=lambda _: None,
    )
    assert prepared.fingerprint is not None
    document = answer.json
    assert document["schema"] == "glowplug.fingerprint/1"
    assert document["key_digest"] == prepared.fingerprint.key_digest
    assert document["key"]["layout"]["tp"] == 2
    assert document["guards"] == dict(prepared.fingerprint.guards)
    assert "model_config_sha256" in document["guards"]
    plain = call("fingerprint", "--cache-root", root, "-o", "json", "--", str(vllm), "serve", str(model), "-tp", "2")
    assert document["key_digest"] == plain.json["key_digest"]
    return dict(document)


def test_what_it_prints_can_be_handed_in(call: Call, program: Program, tmp_path: Path, store: Path) -> None:
    answer = call(
        "fingerprint", "--cache-root", tmp_path / "root", "-o", "json", "--", program.vllm, "serve", "org/model"
    )
    (tmp_path / "f.json").write_text(answer.out)
    why = call("cache", "why", "--fingerprint", tmp_path / "f.json", "-o", "json")
    assert why.json["key_digest"] == answer.json["key_digest"]
    assert why.json["reason"] == "no_keys"


def test_text(call: Call, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    answer = call(
        "fingerprint", "--domain", "team", "--cache-root", "/compile-cache", "--", program.vllm, "serve", "org/model"
    )
    assert answer.status == 0
    text = answer.out.replace(str(tmp_path), "/tmp").replace(sys.version.split()[0], "PYTHON")
    text = text.replace(f"python{sys.version_info.major}.{sys.version_info.minor}", "python3")
    text = text.replace(os.uname().machine, "MACHINE")
    text = re.sub(r"cpu:\S+", "PROCESSOR", re.sub("[0-9a-f]{64}", "DIGEST", text))
    assert re.sub("  +", "  ", text) == snapshot("""\
key  DIGEST

FIELD  VALUE  SOURCE
domain  team  given:domain
engine  vllm  observed:command
engine_version  0.32.0  observed:/tmp/venv/lib/python3/site-packages/vllm-0.32.0.dist-info
torch  2.13.0  observed:/tmp/venv/lib/python3/site-packages/torch-2.13.0.dist-info
gpu  PROCESSOR  observed:/proc/cpuinfo
machine  MACHINE  observed:uname
tp  1  observed:command
pp  1  observed:command
dp  1  observed:command
ep  1  observed:command
model  org/model  observed:command
args  observed:command
env  observed:environment
cache_root  /compile-cache  given:cache_root

GUARD  VALUE  SOURCE
python  PYTHON  observed:/tmp/venv/bin/python
triton  3.6.0  observed:/tmp/venv/lib/python3/site-packages/triton-3.6.0.dist-info

NOT IN THE KEY  VALUE  SOURCE
other_env  CUDA_VISIBLE_DEVICES=  observed:environment
""")


def test_a_key_that_cannot_be_known(call: Call, tmp_path: Path) -> None:
    command = ["--engine", "torch", "--", "/nowhere/python", "x.py"]
    answer = call("fingerprint", *command)
    assert answer.status == 1
    assert "torch           ?" in answer.out
    assert "not known: engine_version, torch" in answer.err
    document = call("fingerprint", "-o", "json", *command).json
    assert (document["key"], document["key_digest"]) == (None, None)
    assert document["unknown"] == ["engine_version", "torch"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["sleep", "1"], "engine_unknown"),
        (["python", "-m", "sglang.launch_server"], "engine_not_supported"),
        (["sh", "-c", "if true; then vllm serve x; fi"], "command_opaque"),
    ],
)
def test_a_command_that_is_no_engine(call: Call, command: list[str], reason: str) -> None:
    answer = call("fingerprint", "-o", "json", "--", *command)
    assert answer.status == 1
    assert answer.json["key"] is None
    assert reason in answer.err


def test_nothing_is_made(call: Call, program: Program, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert call("fingerprint", "--cache-root", tmp_path / "root", "--", program.vllm, "serve", "org/m").status == 0
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--"],
        ["--pod", "pod.yaml", "--", "vllm", "serve", "m"],
        ["--pod", "pod.yaml", "--gpu", "gameboy"],
        ["--gpu", "h100", "--", "vllm", "serve", "m"],
        ["--engine-version", "0.21.0", "--", "vllm", "serve", "m"],
        ["--torch", "2.11.0", "--", "vllm", "serve", "m"],
        ["--machine", "x86_64", "--", "vllm", "serve", "m"],
        ["--domain", "", "--", "vllm", "serve", "m"],
        ["--engine", "llama", "--", "x"],
        ["--cache-root", "relative", "--", "vllm", "serve", "m"],
        ["--", "vllm", "serve", "m", "-tp", "none"],
    ],
)
def test_usage(call: Call, arguments: list[str]) -> None:
    answer = call("fingerprint", *arguments)
    assert answer.status == 2
    assert answer.err.startswith("error[")


DEPLOYMENT = """\
apiVersion: v1
kind: Service
metadata: {name: vllm}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm, namespace: team-a}
spec:
  template:
    spec:
      nodeSelector: {eks.amazonaws.com/instance-gpu-name: h100}
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.21.0
        args: [--model, "s3://models/llama", --tensor-parallel-size, "2", --api-key, $(KEY), --max-model-len, 8k]
        env:
        - {name: KEY, valueFrom: {secretKeyRef: {name: a, key: b}}}
        - {name: VLLM_USE_AOT_COMPILE, value: "1"}
"""


def test_a_pod_s_manifest(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(DEPLOYMENT)
    answer = call("fingerprint", "--pod", file)
    assert answer.status == 0
    assert answer.out == snapshot("""\
key  e392d4a470d23eb30dbeb8fdfc0bd52fabdfda91f74e4f389bb2a3c1a80df899

FIELD           VALUE                   SOURCE
domain          team-a                  inferred:namespace
engine          vllm                    inferred:pod
engine_version  0.21.0                  inferred:image tag
torch           2.11.0                  inferred:catalogue of releases
gpu             NVIDIA H100 80GB HBM3   inferred:node selector
machine         x86_64                  inferred:catalogue of instances
tp              2                       inferred:pod
pp              1                       inferred:pod
dp              1                       inferred:pod
ep              1                       inferred:pod
model           s3://models/llama       inferred:pod
args            max_model_len=8000      inferred:pod
env             VLLM_USE_AOT_COMPILE=1  inferred:pod
cache_root      /compile-cache          inferred:default
""")
    assert answer.err == snapshot("""\
glowplug: versions, and what the image itself sets, are inferred: `glowplug fingerprint -- …` in the pod observes them
""")


def test_a_pod_whose_gpu_nobody_says_has_no_key_until_somebody_does(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(DEPLOYMENT.replace("h100", "a100"))
    answer = call("fingerprint", "--pod", file, "-o", "json")
    assert (answer.status, answer.json["key"], answer.json["unknown"]) == (1, None, ["gpu"])
    named = call("fingerprint", "--pod", file, "--gpu", "a100-40gb", "--domain", "prod", "-o", "json")
    assert named.status == 0
    assert (named.json["key"]["gpu"], named.json["key"]["domain"]) == ("NVIDIA A100-SXM4-40GB", "prod")
    assert {fact["source"].partition(":")[0] for fact in named.json["fields"].values()} == {"inferred", "given"}


def test_a_pod_of_a_private_image_has_a_key_once_somebody_says_what_is_in_it(call: Call, tmp_path: Path) -> None:
    file, own = tmp_path / "public.yaml", tmp_path / "own.yaml"
    file.write_text(DEPLOYMENT)
    own.write_text(
        DEPLOYMENT.replace(
            "image: vllm/vllm-openai:v0.21.0", "image: registry.example/llm:7\n        command: [vllm, serve]"
        )
    )
    answer = call("fingerprint", "--pod", own, "-o", "json")
    assert (answer.status, answer.json["unknown"]) == (1, ["engine_version", "torch"])
    assert "name it with --engine-version" in answer.err
    public = call("fingerprint", "--pod", file, "-o", "json").json
    named = call("fingerprint", "--pod", own, "--engine-version", "0.21.0", "-o", "json").json
    assert (named["key"]["torch"], named["fields"]["torch"]["source"]) == (
        public["key"]["torch"],
        "inferred:catalogue of releases",
    )
    assert named["fields"]["engine_version"] == {"value": "0.21.0", "source": "given:engine_version"}
    other = call("fingerprint", "--pod", own, "--engine-version", "0.99.0", "-o", "json")
    assert (other.status, other.json["unknown"]) == (1, ["torch"])
    assert "name it with --torch" in other.err
    both = call("fingerprint", "--pod", own, "--engine-version", "0.99.0", "--torch", "2.99.0", "-o", "json")
    assert (both.status, both.json["key"]["torch"]) == (0, "2.99.0")


@pytest.mark.parametrize("processor", ["cpu:x86-64-v4+avx512_bf16", "cpu"])
def test_a_pod_on_cpus_has_a_key_once_somebody_says_so(call: Call, tmp_path: Path, processor: str) -> None:
    """By the words that the node's own agent would have: of a processor like this one, or as a key says it."""
    own = tmp_path / "own.yaml"
    own.write_text(DEPLOYMENT.replace("      nodeSelector: {eks.amazonaws.com/instance-gpu-name: h100}\n", ""))
    nothing = call("fingerprint", "--pod", own, "-o", "json")
    assert (nothing.status, nothing.json["unknown"]) == (1, ["gpu", "machine"])
    assert "name it with --gpu (of a pod on CPUs: cpu:" in nothing.err
    more = ("--machine", "aarch64") if processor == "cpu" else ()
    named = call("fingerprint", "--pod", own, "--gpu", processor, *more, "--torch", "2.11.0+cpu", "-o", "json")
    assert named.status == 0, named.err
    assert named.json["key"]["gpu"] == (cpu.here() if processor == "cpu" else processor)
    assert named.json["key"]["machine"] == ("aarch64" if more else "x86_64")
    vague = call("fingerprint", "--pod", own, "--gpu", "cpu:generic", "-o", "json")
    assert vague.json["unknown"] == ["machine"]
    assert "name it with --machine" in vague.err


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_on_a_terminal_long_values_are_cut_and_nowhere_else(call: Call, tmp_path: Path, columns: int) -> None:
    facts = {"engine": Fact("vllm", "inferred:pod"), "other_env": Fact({"NAME": "v" * 400}, "inferred:pod")}
    known = Fingerprint(facts, {}, None, None, ("gpu",))
    assert max(map(len, fingerprint.text(known, columns).splitlines())) <= columns
    assert "…" in fingerprint.text(known, columns)
    assert "v" * 400 in fingerprint.text(known, None)


def test_an_empty_stdin_is_the_fault_of_what_comes_before_it(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as handle:
        monkeypatch.setattr("sys.stdin", handle)
        answer = call("fingerprint", "--pod", "-")
    assert answer.status == 1
    assert answer.err.startswith("error[not-found]: stdin is empty\nhint: the command before the pipe")


def test_a_pod_on_stdin(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(DEPLOYMENT)
    with file.open() as handle:
        monkeypatch.setattr("sys.stdin", handle)
        answer = call("fingerprint", "--pod", "-", "-o", "json")
    assert answer.json["key_digest"] == call("fingerprint", "--pod", file, "-o", "json").json["key_digest"]


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (None, 1, "error[not-found]"),
        ("kind: Service\n", 1, "error[not-found]: no pod with an engine"),
        ("a: [\n", 2, "error[bad-yaml]"),
        (DEPLOYMENT + "---\n" + DEPLOYMENT, 2, "error[bad-input]: 2 engines are in it"),
    ],
)
def test_a_file_without_a_pod(call: Call, tmp_path: Path, text: str | None, status: int, said: str) -> None:
    file = tmp_path / "x.yaml"
    if text is not None:
        file.write_text(text)
    answer = call("fingerprint", "--pod", file)
    assert answer.status == status
    assert answer.err.startswith(said)
