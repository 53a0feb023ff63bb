"""Every option is also a variable `GLOWPLUG_<OPTION>`; booleans are 1 and 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from glowplug.cli import main as commands
from tests.cli import trees
from tests.cli.conftest import Call

Write = Callable[..., Path]


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield (*path, name), found
        if isinstance(found, click.Group):
            yield from _commands(found, (*path, name))


ALL = dict(_commands(commands.group))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_option_has_its_variable(path: tuple[str, ...]) -> None:
    command = ALL[path]
    context = click.Context(command, info_name=path[-1], **command.context_settings)
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and "--help" not in parameter.opts:
            flat = "GLOWPLUG_" + max(parameter.opts, key=len).lstrip("-").replace("-", "_").upper()
            assert f"{context.auto_envvar_prefix}_{str(parameter.name).upper()}" == flat


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_help_says_how(call: Call, path: tuple[str, ...]) -> None:
    answer = call(*path, "--help")
    assert answer.status == 0
    assert "Example" in answer.out
    assert f"glowplug {path[0]}" in answer.out.partition("Example")[2]


def test_all_of_restore_by_variables(
    call: Call, published: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "FINGERPRINT": write(),
        "TO": tmp_path / "to",
        "OUTPUT": "json",
        "DOMAIN": "default",
        "TIMEOUT": "20s",
        "REPLACE": "1",
    }.items():
        monkeypatch.setenv(f"GLOWPLUG_{name}", str(value))
    answer = call("cache", "restore")
    assert (answer.status, answer.json["outcome"]) == (0, "restored")


@pytest.mark.parametrize(("value", "left"), [("1", 1), ("0", 0)])
def test_booleans(call: Call, published: str, monkeypatch: pytest.MonkeyPatch, value: str, left: int) -> None:
    monkeypatch.setenv("GLOWPLUG_DRY_RUN", value)
    monkeypatch.setenv("GLOWPLUG_OLDER_THAN", "0s")
    assert call("cache", "gc").status == 0
    assert len(call("cache", "ls", "-o", "json").json["keys"]) == left


def test_other_variables(
    call: Call, published: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOWPLUG_LIFT", "1")
    assert "was not blocked" in call("cache", "quarantine", published).err
    monkeypatch.setenv("GLOWPLUG_DEEP", "1")
    assert "every byte" in call("cache", "verify").out
    monkeypatch.setenv("GLOWPLUG_ALL_DOMAINS", "1")
    assert "DOMAIN" in call("cache", "ls").out
    monkeypatch.setenv("GLOWPLUG_GPU", "h200")
    assert call("cache", "ls").out == ""
    monkeypatch.setenv("GLOWPLUG_PUBLISH", "off")
    assert "publish  off" in call("cache", "control").out
    monkeypatch.setenv("GLOWPLUG_CACHE_ROOT", str(trees.vllm(tmp_path / "more", "mega-aot")))
    monkeypatch.setenv("GLOWPLUG_FINGERPRINT", str(write()))
    assert "publish_off" in call("cache", "publish").out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--older-than", "soon"],
        ["--keep", "-1"],
        ["--keep", "many"],
        ["--timeout", "x"],
        ["--domain", ""],
        ["--domain", "a", "--all-domains"],
        ["-o", "xml"],
        ["--no-such-option"],
        ["argument"],
    ],
)
def test_usage(call: Call, store: Path, arguments: list[str]) -> None:
    answer = call("cache", "gc", *arguments)
    assert answer.status == 2
    assert answer.err.startswith("error[")


def test_a_misspelt_command(call: Call) -> None:
    for arguments, near in ((("cache", "lst"), "ls"), (("cach",), "cache")):
        answer = call(*arguments)
        assert answer.status == 2
        assert f"did you mean '{near}'" in answer.err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("render", "agent", "--dry-run"), "kubectl apply --dry-run=server"),
        (("inject", "--dry-run", "x.yaml"), "--diff"),
        (("lint", "--dry-run", "x.yaml"), "--diff"),
    ],
)
def test_who_expects_a_dry_run_is_told_what_there_is_instead(call: Call, arguments: tuple[str, ...], hint: str) -> None:
    answer = call(*arguments)
    assert answer.status == 2
    assert answer.err.startswith("error[usage]: No such option")
    assert hint in answer.err.partition("\nhint: ")[2]
    assert "Did you mean" not in answer.err


@pytest.mark.parametrize("arguments", [("check", "network", "--nodes", "x"), ("cache", "gc", "--keep", "x")])
def test_a_number_that_is_none_is_told_in_words_of_numbers(call: Call, arguments: tuple[str, ...]) -> None:
    answer = call(*arguments)
    assert answer.status == 2
    assert "'x' is not a whole number from" in answer.err
