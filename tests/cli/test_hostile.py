"""Input that nobody would write, and surroundings that nobody wants: a line and a status each time, never a traceback."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glowplug.cli.cache import progress
from glowplug.cli.main import main
from tests.cli import trees
from tests.cli.conftest import Call
from tests.clocks import SLACK
from tests.silence import Silent
from tests.supervise.machine import AS_AT_LOGIN

Write = Callable[..., Path]
DEEP = "[" * 200_000
VERBS: list[list[str]] = [
    ["why"],
    ["restore", "--to", "/nowhere/at/all"],
    ["publish", "--cache-root", "."],
]


def _flat(**changes: Any) -> bytes:
    return json.dumps({**trees.FLAT, **changes}).encode()


FILES: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "not JSON": b"domain: default\n",
    "not UTF-8": b"\xff\xfe{}",
    "a list": b"[]",
    "null": b"null",
    "NaN": b'{"tp": NaN}',
    "infinite": _flat().replace(b'"tp": 1', b'"tp": Infinity'),
    "deep": DEEP.encode(),
    "deep inside": b'{"args": ' + DEEP.encode(),
    "a huge number": _flat().replace(b'"tp": 1', b'"tp": 1' + b"0" * 5000),
    "half a surrogate": _flat().replace(b"s3://models/tiny", b"s3://\\ud800"),
    "fields missing": b'{"domain": "default"}',
    "tp is text": _flat(tp="2"),
    "tp is nothing": _flat(tp=0),
    "tp is true": _flat(tp=True),
    "tp is half": _flat(tp=1.5),
    "model is a list": _flat(model=["s3://models/tiny"]),
    "args is a list": _flat(args=[]),
    "args has objects": _flat(args={"a": {}}),
    "env has NaN": _flat().replace(b'"tp": 1', b'"tp": 1, "env": {"A": NaN}'),
    "another document": b'{"schema": "glowplug.plan/1"}',
    "schema is a list": b'{"schema": []}',
    "a fingerprint without a key": b'{"schema": "glowplug.fingerprint/1", "key": null, "unknown": ["gpu"]}',
    "a fingerprint with a strange key": b'{"schema": "glowplug.fingerprint/1", "key": [], "guards": {}}',
    "a start without a fingerprint": b'{"schema": "glowplug.start/1", "fingerprint": {}}',
    "a start with strange facts": b'{"schema": "glowplug.start/1", "fingerprint": {"tp": [], "gpu": 3}}',
    "too large": b" " * (17 << 20),
}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
@pytest.mark.parametrize("name", FILES)
def test_a_fingerprint_that_is_none(call: Call, store: Path, tmp_path: Path, verb: list[str], name: str) -> None:
    (tmp_path / "f").write_bytes(FILES[name])
    answer = call("cache", *verb, "--fingerprint", tmp_path / "f")
    assert answer.status == 2
    assert answer.err.startswith("error[bad-fingerprint]: ")
    assert answer.out == ""


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
@pytest.mark.parametrize("path", ["missing", ".", "a\0b", ""])
def test_a_fingerprint_that_cannot_be_read(call: Call, store: Path, verb: list[str], path: str) -> None:
    answer = call("cache", *verb, "--fingerprint", path)
    assert answer.status == 2
    assert "error[bad-fingerprint]" in answer.err


def test_a_fingerprint_from_stdin(call: Call, published: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + _flat())))
    answer = call("cache", "why", "--fingerprint", "-", "-o", "json")
    assert (answer.status, answer.json["key_digest"]) == (0, published)


def test_the_three_forms_have_one_digest(call: Call, published: str, write: Write, tmp_path: Path) -> None:
    key = call("cache", "show", published, "-o", "json").json["keys"][0]["key"]
    forms = [
        {"schema": "glowplug.fingerprint/1", "key": key, "guards": {}, "fields": {}, "key_digest": "0" * 64},
        {
            "schema": "glowplug.start/1",
            "fingerprint": {name: {"value": value, "source": "observed:x"} for name, value in trees.FLAT.items()},
        },
    ]
    for form in forms:
        (tmp_path / "form").write_text(json.dumps(form))
        assert call("cache", "why", "--fingerprint", tmp_path / "form", "-o", "json").json["key_digest"] == published


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from([*trees.FLAT, "schema", "args", "env", "pp", "key", "guards"]), _JSON))
def test_any_fingerprint(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    (tmp_path / "any").write_text(json.dumps({**trees.FLAT, **changes}))
    assert main(["cache", "why", "--fingerprint", str(tmp_path / "any")]) in (1, 2)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert "error[internal]" not in err


# stores


@pytest.mark.parametrize(
    "url", ["", "ftp://host/x", "s3:/bucket", "s3://", "s3://u:p@bucket/x", "https://x", "bucket/x", "file://host/x"]
)
@pytest.mark.parametrize(
    "verb", [["ls"], ["show", "0" * 8], ["stats"], ["control"], ["verify"], ["gc"]], ids=lambda verb: verb[0]
)
def test_an_address_that_is_none(call: Call, verb: list[str], url: str) -> None:
    answer = call("cache", *verb, "--store", url)
    assert answer.status == 2
    assert "hint:" in answer.err
    assert "u:p" not in answer.err


def test_no_store(call: Call) -> None:
    answer = call("cache", "ls")
    assert (answer.status, answer.err.splitlines()[0]) == (2, "error[usage]: no store is named")


def test_a_store_of_garbage(call: Call, published: str, store: Path) -> None:
    keys = store / "v1/default/keys"
    good = next(keys.rglob("*.json"))
    for place, data in {
        "v1/default/keys/x": b"x",
        "v1/default/keys/a/b/c/d/e/not-a-digest.json": b"{}",
        f"v1/default/keys/a/b/c/d/e/{'0' * 64}.json": b"\x00\xff" * 100,
        f"v1/default/keys/a/b/c/d/e/{'1' * 64}.json": b"[" * 100_000,
        f"v1/default/keys/a/b/c/d/e/{'2' * 64}.json": b"",
        f"v1/default/keys/a/b/c/d/e/{'3' * 64}.json": good.read_bytes(),
        f"v1/default/keys/a/b/c/d/e/{'4' * 64}.json": b" " * (2 << 20),
        "v1/default/blobs/sha256/zz/nothing.tar.zst": b"x",
        "v1/default/uses/what": b"x",
        "v1/default/gc.json": b"[]",
        "v1/stray": b"x",
        "v1/strange/x": b"x",
        "other": b"x",
    }.items():
        (store / place).parent.mkdir(parents=True, exist_ok=True)
        (store / place).write_bytes(data)
    ls = call("cache", "ls", "-o", "json")
    assert ls.status == 0
    assert [key["key_digest"] for key in ls.json["keys"]] == [published]
    assert len(ls.json["unreadable"]) == 5
    for domains in ([], ["--all-domains"]):
        assert call("cache", "ls", *domains).status == 0
        assert call("cache", "stats", *domains).status == 0
        assert call("cache", "verify", *domains).status == 4
        assert call("cache", "gc", *domains).status == 0
        assert call("cache", "show", "00000000", *domains).status == 4
        assert call("cache", "show", published, *domains).status == 0
    assert call("cache", "copy", store, store.parent / "copy").status == 5
    assert call("cache", "rm", "00000000", "1" * 64).status == 0


@pytest.fixture
def silent() -> Iterator[Silent]:
    with Silent() as server:
        yield server


def _s3(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "a" * 16,
        "AWS_SECRET_ACCESS_KEY": "b" * 16,
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("kind", ["refuses", "hangs"])
def test_a_store_that_does_not_answer(
    call: Call, write: Write, tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    _s3(monkeypatch, f"http://127.0.0.1:{silent.port}" if kind == "hangs" else "http://127.0.0.1:9")
    f, common = write(), ("--store", "s3://bucket/cache", "--timeout", "1s")
    trees.vllm(tmp_path / "node")
    # Three calls of a second each.
    began = time.monotonic()
    assert call("cache", "ls", *common).status == 3
    restore = call("cache", "restore", "--fingerprint", f, "--to", tmp_path / "to", "-o", "json", *common)
    assert (restore.status, restore.json["outcome"]) == (3, "failed")
    assert restore.json["reason"] in ("deadline", "store_unavailable")
    assert not (tmp_path / "to").exists()
    publish = call("cache", "publish", "--cache-root", tmp_path / "node", "--fingerprint", f, "-o", "json", *common)
    assert (publish.status, publish.json["outcome"]) == (3, "failed")
    assert "error[" in publish.err
    assert time.monotonic() - began < 3 + SLACK


# directories


@pytest.mark.parametrize("to", ["/proc/1/nothing", "/dev/null/x", "/dev/null"])
def test_a_target_that_cannot_be_written(call: Call, published: str, to: str) -> None:
    answer = call("cache", "restore", published, "--to", to, "-o", "json")
    assert answer.status == 3
    assert answer.json["outcome"] == "failed"
    assert answer.err.count("error[") == 1


def test_no_target(call: Call, published: str, write: Write) -> None:
    assert call("cache", "restore", published).status == 2
    assert call("cache", "restore", published, "--to", "").status == 2
    assert call("cache", "restore", "--to", "/x").status == 2
    assert call("cache", "restore", published, "--fingerprint", write(), "--to", "/x").status == 2


@pytest.mark.parametrize("root", ["missing", "f.json", "/dev/null"])
def test_no_tree(call: Call, store: Path, write: Write, tmp_path: Path, root: str) -> None:
    f = write()
    answer = call("cache", "publish", "--cache-root", tmp_path / root, "--fingerprint", f)
    assert answer.status == 2
    assert "no such directory" in answer.err


def test_a_link_in_the_way(call: Call, published: str, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "to").mkdir()
    (tmp_path / "to/vllm").symlink_to(tmp_path / "outside")
    assert call("cache", "restore", published, "--to", tmp_path / "to").status == 3
    assert list((tmp_path / "outside").iterdir()) == []


def test_text_of_a_store_moves_no_cursor(call: Call, store: Path, write: Write, tmp_path: Path) -> None:
    trees.vllm(tmp_path / "node")
    f = write(gpu="H100\x1b[2J\r\n", model="s3://x\u202ey")
    assert call("cache", "publish", "--cache-root", tmp_path / "node", "--fingerprint", f).status == 0
    for form in ("text", "wide"):
        shown = call("cache", "ls", "-o", form).out
        assert not any(character in shown for character in "\x1b\r\u202e")
        assert len(shown.splitlines()) == 2


# signals and pipes


def _process(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    command = [*AS_AT_LOGIN, sys.executable, "-m", "glowplug", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **options)


def test_an_interrupt_waits_for_nobody(
    write: Write, tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    _s3(monkeypatch, f"http://127.0.0.1:{silent.port}")
    arguments = ("--fingerprint", write(), "--to", tmp_path / "to", "--store", "s3://bucket/cache", "--timeout", "600s")
    with _process("cache", "restore", *arguments, stdout=subprocess.PIPE) as process:
        assert silent.asked.wait(60)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SLACK)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert b"error[interrupted]" in err
    assert not (tmp_path / "to").exists()


def test_an_interrupt_while_files_are_put_in_place(published: str, store: Path, tmp_path: Path) -> None:
    """Whatever is there afterwards, no entry lacks what it needs, and the next restore completes it."""
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import sys, time\n"
        "from glowplug.tree import place\n"
        "put, placed = place._Mover.put, []\n"
        "def slowly(self, item):\n"
        "    put(self, item)\n"
        "    placed.append(item)\n"
        "    print('placed', flush=True)\n"
        "    time.sleep(600 if len(placed) == 5 else 0)\n"
        "place._Mover.put = slowly\n"
        "from glowplug.cli.main import entry\n"
        "entry()\n"
    )
    command = [*AS_AT_LOGIN, sys.executable, str(slow), "cache", "restore", published, "--to", str(tmp_path / "to")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(5):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert b"Traceback" not in err
    there = trees.snapshot(tmp_path / "to")
    assert there
    assert not [path for path in there if path.endswith("/model")]
    assert not [path for path in (tmp_path / "to/.glowplug").iterdir() if path.name.startswith("work-")]
    assert main(["cache", "restore", published, "--to", str(tmp_path / "to")]) == 0
    whole = trees.snapshot(tmp_path / "to")
    assert whole.items() <= trees.snapshot(tmp_path / "node").items()
    assert [path for path in whole if path.endswith("/model")]


@pytest.mark.parametrize(
    "arguments", [["ls", "-o", "json"], ["ls"], ["stats"], ["verify"], ["gc", "--dry-run"]], ids=lambda item: item[0]
)
def test_a_reader_that_has_gone(published: str, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with _process("cache", *arguments, stdout=writing) as process:
        os.close(writing)
        _, err = process.communicate(timeout=90)
    assert process.returncode == 0
    assert b"Traceback" not in err
    assert b"Exception" not in err


def test_names_that_are_no_unicode(store: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = trees.vllm(tmp_path / "node", "mega-aot")
    for folder in (next(node.rglob("model")).parent, node, node / "inductor"):
        (folder / os.fsdecode(b"caf\xe9.1.tmp")).parent.mkdir(exist_ok=True)
        (folder / os.fsdecode(b"caf\xe9.1.tmp")).write_bytes(b"x")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    for form in ("text", "json"):
        arguments = ("--cache-root", node, "--fingerprint", write(), "-o", form)
        with _process("cache", "publish", *arguments, stdout=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=90)
        assert process.returncode == 0
        assert b"skipped: inductor/caf" in err
        assert b"error[" not in err
    assert json.loads(out)["outcome"] == "unchanged"
    with _process("cache", "ls", "--model", "caf\u00e9", stdout=subprocess.PIPE) as process:
        process.communicate(timeout=90)
    assert process.returncode == 0


def test_nothing_is_drawn_without_a_terminal(published: str, tmp_path: Path) -> None:
    with _process("cache", "restore", published, "--to", tmp_path / "to", stdout=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=90)
    assert process.returncode == 0
    assert b"\x1b" not in out + err
    assert b"\r" not in out + err


def test_something_is_drawn_on_a_terminal(
    published: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_watched", lambda: True)
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    assert main(["cache", "restore", published, "--to", str(tmp_path / "to")]) == 0
    assert "restoring: " in capsys.readouterr().err


@pytest.mark.parametrize("domain", ["x" * 200, "Team B / Prod", "..", "default-12345678", "a\x1bb", "日本"])
def test_any_name_of_a_domain(call: Call, published: str, write: Write, tmp_path: Path, domain: str) -> None:
    f = write(domain=domain)
    assert call("cache", "publish", "--cache-root", tmp_path / "node", "--fingerprint", f).status == 0
    (theirs,) = call("cache", "ls", "--domain", domain, "-o", "json").json["keys"]
    everything = call("cache", "ls", "--all-domains", "-o", "json").json["keys"]
    assert {(key["domain"], key["key_digest"]) for key in everything} == {
        ("default", published),
        (domain, theirs["key_digest"]),
    }
    assert call("cache", "show", theirs["key_digest"], "--all-domains").status == 0
    assert call("cache", "show", theirs["key_digest"]).status == 1
