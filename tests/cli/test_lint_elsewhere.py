"""How other repositories run `glowplug lint`: the GitHub Action and the pre-commit hooks, carried out as those programs do it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Call

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
BAD = """\
apiVersion: v1
kind: Pod
metadata: {name: vllm}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.33.0
      args: [--model=s3://bucket/model, --enforce-eager]
"""


def _lint_step(tmp_path: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """The last step of the action, in bash as the runner calls it, with inputs as variables."""
    step = ACTION["runs"]["steps"][-1]
    given = {name: str(value["default"]) for name, value in ACTION["inputs"].items()} | inputs
    names = {variable: text.removeprefix("${{ inputs.").removesuffix(" }}") for variable, text in step["env"].items()}
    assert set(names.values()) <= set(given)
    program = tmp_path / "temp" / "glowplug" / "bin" / "glowplug"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} -m glowplug "$@"\n')
    program.chmod(0o755)
    environ = {variable: given[name] for variable, name in names.items()}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path / "temp"), "HOME": str(tmp_path), **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_the_action_annotates_fails_and_writes_sarif(tmp_path: Path) -> None:
    (tmp_path / "k8s").mkdir()
    (tmp_path / "k8s/pod.yaml").write_text(BAD)
    done = _lint_step(tmp_path, paths="k8s\nk8s/pod.yaml", args="--select eager-mode", **{"sarif-file": "out.sarif"})
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::warning file=k8s/pod.yaml,line=8,")
    [run] = json.loads((tmp_path / "out.sarif").read_text())["runs"]
    assert [one["ruleId"] for one in run["results"]] == ["eager-mode"]
    assert _lint_step(tmp_path, args="--select eager-mode --exit-zero").returncode == 0


@pytest.mark.slow
def test_an_input_of_the_action_is_no_script(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(BAD)
    done = _lint_step(tmp_path, paths="pod.yaml; touch owned", args='$(touch owned) `touch owned` * "')
    assert done.returncode == 2
    assert not (tmp_path / "owned").exists()


def test_the_action_is_one_that_runners_take() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for step in ACTION["runs"]["steps"]:
        assert ("uses" in step) != ("run" in step)
        assert "run" not in step or step["shell"] == "bash"
        assert "${{" not in step.get("run", ""), "inputs come as variables, never into the script"


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["id"]))
def test_a_hook_is_a_call_that_there_is(call: Call, tmp_path: Path, hook: dict[str, Any]) -> None:
    assert hook["language"] == "python"
    assert hook["types_or"] == ["yaml", "json"]
    path, same = tmp_path / "pod.yaml", tmp_path / "pod.json"
    path.write_text(BAD)
    same.write_text(json.dumps(yaml.safe_load(BAD), indent=2))
    program, *arguments = shlex.split(hook["entry"])
    assert program == "glowplug"
    answer = call(*arguments, path, same)
    assert answer.status == 1
    assert answer.out.count(" eager-mode ") == 2


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["id"]))
@pytest.mark.parametrize(
    ("path", "tags", "given"),
    [
        ("k8s/pod.yaml", {"yaml"}, True),
        ("k8s/pod.json", {"json"}, True),
        ("k8s/pod.txt", {"text"}, False),
        ("chart/templates/pod.yaml", {"yaml"}, False),
        ("tsconfig.json", {"json"}, False),
        ("web/tsconfig.app.json", {"json"}, False),
        (".vscode/settings.json", {"json"}, False),
        ("mytsconfig.json", {"json"}, True),
    ],
)
def test_which_files_a_hook_is_given(hook: dict[str, Any], path: str, tags: set[str], given: bool) -> None:
    """As pre-commit chooses: by `types_or` of what the file is, and by a search for `exclude` in its path."""
    assert (bool(tags & set(hook["types_or"])) and not re.search(hook["exclude"], path)) == given


def test_hooks() -> None:
    assert [hook["id"] for hook in HOOKS] == ["glowplug-lint", "glowplug-lint-fix"]
