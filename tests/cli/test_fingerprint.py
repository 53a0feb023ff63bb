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
from glowplug.cli.main import main
from glowplug.core.clock import Deadline
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
        ["--pod", "pod.yaml"],
        ["--pod", "pod.yaml", "--", "vllm", "serve", "m"],
        ["--engine", "llama", "--", "x"],
        ["--cache-root", "relative", "--", "vllm", "serve", "m"],
        ["--", "vllm", "serve", "m", "-tp", "none"],
    ],
)
def test_usage(call: Call, arguments: list[str]) -> None:
    answer = call("fingerprint", *arguments)
    assert answer.status == 2
    assert answer.err.startswith("error[")
    if "--pod" in arguments:
        assert "reads no pods" in answer.err
