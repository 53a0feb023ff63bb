"""Standard streams that are closed, pipes where files belong, and text that would move a terminal's cursor."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from glowplug.cli import errors
from glowplug.cli.output import Output, note
from tests.cli import trees
from tests.cli.conftest import Call

Write = Callable[..., Path]
NASTY = "a\x1b]0;title\x07\x1b[2J\x9b31m\x85\x7f\u202e\u2028\rb"
UNSAFE = frozenset(map(chr, (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x2028, 0x202E)))


def _shell(line: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'exec "$0" -m glowplug {line}', sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "line",
    [
        "cache ls",
        "cache ls -o json",
        "cache show 00000000",
        "fingerprint -- vllm serve m",
        "--help",
        "nonsense",
        "startup -",
    ],
)
def test_closed_streams(store: Path, line: str, closed: str) -> None:
    done = _shell(f"{line} {closed}")
    assert done.returncode in (0, 1, 2)
    assert "Traceback" not in done.stdout + done.stderr
    assert "error[internal]" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("line", ["startup -", "report -", "cache why --fingerprint -"])
def test_stdin_is_closed(store: Path, line: str) -> None:
    done = _shell(f"{line} <&-")
    assert done.returncode == 2
    assert "stdin is closed" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_disk_is_told_without_a_traceback(published: str, form: str) -> None:
    done = _shell(f"cache ls -o {form} > /dev/full")
    assert done.returncode == 3
    assert done.stderr.startswith("error[os]")
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("stream", ["2>/dev/full", "2>&-", "2>/dev/full >/dev/full"])
@pytest.mark.parametrize(
    ("line", "status"),
    [("nonsense", 2), ("cache ls --nonsense", 2), ("check store --store nonsense", 2), ("cache", 2)],
)
def test_the_status_is_the_same_where_nobody_reads_the_error(store: Path, line: str, status: int, stream: str) -> None:
    assert _shell(f"{line} {stream}").returncode == status


def test_notes_that_nobody_can_read_do_not_stop_the_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        monkeypatch.setattr("sys.stderr", full)
        note("words")
        Output("json").warning("words")
        Output("json").document({"a": 1}, str)
        with contextlib.suppress(OSError):
            full.close()
    assert json.loads(capsys.readouterr().out) == {"a": 1}


def test_a_full_disk_has_its_name_and_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    document = tmp_path / "a.json"
    document.write_text('{"schema": "glowplug.x/1"}')

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    answer = call("report", document, "--out", tmp_path / "page.html")
    assert answer.status == 3
    assert answer.err == (
        f"error[os]: {tmp_path}/page.html: No space left on device\nhint: free space, or choose another directory\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "store", "--store", "s3a://" + "x" * 100_000],
        ["check", "network", "--bucket", "x" * 100_000],
        ["cache", "ls", "--store", "s3://bucket", "-o", "y" * 100_000],
        ["z" * 100_000],
    ],
)
def test_long_values_are_cut_in_error_lines_and_a_hint_has_one_line(call: Call, arguments: list[str]) -> None:
    answer = call(*arguments)
    assert answer.status == 2
    lines = answer.err.splitlines()
    assert 1 <= len(lines) <= 2
    assert all(len(line) < 600 for line in lines)


def test_a_hint_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    errors.show("usage", "a\nb", "c\nd\x1b[31m")
    assert capsys.readouterr().err == "error[usage]: a b\nhint: c d\\x1b[31m\n"


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "missing"])
def test_a_configuration_that_is_no_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "config.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    done = _shell('fingerprint -- vllm serve --config "$1"', path)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "error[internal]" not in done.stderr


@pytest.mark.parametrize(
    "verb", [["ls"], ["ls", "-o", "wide"], ["show"], ["why"], ["diff"], ["verify"], ["stats"]], ids="-".join
)
@pytest.mark.parametrize("form", ["text", "json", "yaml"])
def test_what_a_store_holds_moves_no_cursor(
    call: Call, published: str, write: Write, tmp_path: Path, verb: list[str], form: str
) -> None:
    strange = {
        "args": {NASTY: NASTY, "x": NASTY},
        "env": {NASTY: NASTY},
        "model": NASTY,
        "gpu": NASTY,
        "machine": NASTY,
    }
    f = write("strange.json", **strange)
    assert call("cache", "publish", "--cache-root", tmp_path / "node", "--fingerprint", f).status == 0
    theirs = next(
        item["key_digest"] for item in call("cache", "ls", "-o", "json").json["keys"] if item["key_digest"] != published
    )
    command = ["cache", *verb]
    if verb == ["show"]:
        command.append(theirs)
    if verb == ["diff"]:
        command += [published, theirs]
    if verb == ["why"]:
        command += ["--fingerprint", str(write("other.json", tp=4))]
    if "-o" not in verb:
        command += ["-o", form]
    answer = call(*command)
    assert not UNSAFE & set(answer.out + answer.err)
    if "-o" not in verb and form != "text":
        value = json.loads(answer.out) if form == "json" else yaml.safe_load(answer.out)
        if verb in (["ls"], ["show"]):
            shown = next(item for item in value["keys"] if item["key_digest"] == theirs)
            assert shown["key"]["args"] == strange["args"]
            assert shown["key"]["model"] == NASTY


def test_mistakes_move_no_cursor(call: Call, store: Path, tmp_path: Path) -> None:
    for command in (
        ["cache", "show", NASTY],
        ["cache", NASTY],
        [NASTY],
        ["cache", "ls", f"--{NASTY}"],
        ["startup", f"{tmp_path}/{NASTY}"],
        ["report", f"{tmp_path}/{NASTY}"],
        ["cache", "ls", "--store", f"file://{tmp_path}/{NASTY}"],
        ["cache", "ls", "--store", f"{NASTY}://x"],
        ["fingerprint", "--cache-root", NASTY, "--", "vllm", "serve", "m"],
        ["fingerprint", "--", "vllm", "serve", NASTY],
        ["fingerprint", "--domain", NASTY, "--", "vllm", "serve", "m", f"--{NASTY}", NASTY],
    ):
        answer = call(*command)
        assert not UNSAFE & set(answer.out + answer.err), command


def test_huge_numbers_in_a_manifest_are_damage(call: Call, published: str, store: Path) -> None:
    from glowplug.core import canonical

    (path,) = (item for item in (store / "v1").rglob("*.json") if published in item.name or published in str(item))
    value = json.loads(path.read_bytes())
    del value["digest"]
    value.pop("signature", None)
    value["parts"][0]["unpacked_bytes"] = 10**400
    path.write_bytes(canonical.encode({**value, "digest": canonical.digest(value), "signature": None}))
    answer = call("cache", "stats", "-o", "json")
    assert (answer.status, answer.json["domains"][0]["unreadable"]) == (0, 1)
    assert call("cache", "ls", "-o", "json").json["unreadable"][0]["code"] == "bad-manifest"
    assert call("cache", "stats").status == 0
    assert trees.FLAT["domain"] in call("cache", "stats").out


LOG = (
    "(APIServer pid=1) INFO 11-30 09:15:02 [api_server.py:1] vLLM API server version 0.21.0\n"
    "(APIServer pid=1) INFO 11-30 09:15:09 [x.py:1] \x1b]0;owned\x07 Application startup complete.\n"
)


@pytest.mark.parametrize("colours", [True, False])
def test_the_colours_of_a_start_are_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], colours: bool
) -> None:
    from glowplug.cli import output
    from glowplug.cli.main import main

    monkeypatch.setattr(output, "colour", lambda: colours)
    path = tmp_path / f"a{NASTY.replace('/', '')}"
    path.write_text(LOG)
    main(["startup", str(path)])
    out = capsys.readouterr().out
    assert ("\x1b[1m" in out) == colours
    assert "\\x1b" not in out
    assert not UNSAFE & set(re.sub(r"\x1b\[[0-9;]*m", "", out))


@pytest.mark.parametrize("code", ["\x1b[2J", "\x1b[8m", "\x1b[1;5m", "\x1b]0;x\x07", "\x1b[1", "\x9b1m"])
def test_a_styled_text_has_bold_and_colours_only(capsys: pytest.CaptureFixture[str], code: str) -> None:
    from glowplug.cli.output import Output

    Output().document(None, lambda: f"\x1b[1;33ma{code}b\x1b[0m", styled=True)
    assert not UNSAFE & set(capsys.readouterr().out)
