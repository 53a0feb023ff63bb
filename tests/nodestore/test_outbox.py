"""What a pod hands over is whole or not there, within its caps, and its agent reads what it meant."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glowplug.core.atomic import TEMPORARY_PREFIX
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Fact, Key
from glowplug.core.documents.node import ENTRY, OutboxPart
from glowplug.core.documents.start import Compile, Start, Verdict
from glowplug.core.errors import BadInputError, ConflictError, GlowplugError, IntegrityError, UnavailableError
from glowplug.nodestore import layout, outbox, write
from glowplug.nodestore.inbox import LIMITS, Inbox
from glowplug.nodestore.outbox import Caps, Outbox
from glowplug.tree import archive
from glowplug.tree.index import diff, scan
from glowplug.tree.model import File
from tests.cache import making
from tests.clocks import Held
from tests.nodestore import making as nodes
from tests.parts import requires

POD = "0f0b3d4e-8b4a-4c58-9d0f-3f6a9c1d2e3f"
START = "00112233aabbccdd"
_PUTTING = Path(__file__).with_name("putting.py")
_REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def mount(root: Path) -> Path:
    """As kubelet makes it for one pod."""
    write.prepare(root, nodes.DOMAIN)
    folder = layout.outbox(root, POD)
    folder.mkdir()
    return folder


@pytest.fixture
def part(key: Key) -> OutboxPart:
    return OutboxPart(
        key, ENTRY, "e1", index=("vllm/e1/model",), guards={"triton": "3.5.0"}, observed={"compile_ms": 38700}
    )


def files_of(tree: Path) -> tuple[File, ...]:
    return tuple(item for path, item in scan(tree).files.items() if path.startswith("vllm/e1/"))


def names(mount: Path) -> list[str]:
    return sorted(path.name for path in mount.iterdir())


def test_the_agent_gets_what_the_pod_put(
    root: Path, mount: Path, part: OutboxPart, tree: Path, tmp_path: Path, soon: Deadline
) -> None:
    path = Outbox(mount).put_part(START, part, tree, files_of(tree), deadline=soon)
    assert path == mount / f"{START}-1.sealed"
    assert names(mount) == [f"{START}-1.json", f"{START}-1.sealed"]
    inbox = Inbox(root)
    assert inbox.pods() == (POD,)
    for sealed in inbox.archives(POD, soon):
        assert (sealed.name, sealed.start_id, sealed.part) == (path.name, START, part)
        archive.unpack(sealed, tmp_path / "unpacked", LIMITS)
    assert not inbox.refused
    found = scan(tmp_path / "unpacked")
    assert found.files.keys() == {item.path for item in files_of(tree)}
    assert not diff(scan(tree, select=found.files.__contains__), found).rewritten


def test_the_agent_may_read_it_whatever_the_engines_umask_is(
    mount: Path, part: OutboxPart, tree: Path, soon: Deadline
) -> None:
    before = os.umask(0o077)
    try:
        Outbox(mount).put_part(START, part, tree, files_of(tree), deadline=soon)
        Outbox(mount).put_start_bytes(START, b"{}")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in mount.iterdir()} == {0o644}


def test_further_archives_get_further_numbers(mount: Path, part: OutboxPart, tree: Path, soon: Deadline) -> None:
    box = Outbox(mount)
    for start in (START, START, "other"):
        box.put_part(start, part, tree, files_of(tree), deadline=soon)
    assert [name for name in names(mount) if name.endswith(".sealed")] == [
        f"{START}-1.sealed",
        f"{START}-2.sealed",
        "other-1.sealed",
    ]


def test_a_start_is_read_as_it_was_put(root: Path, mount: Path) -> None:
    start = Start(
        START,
        "exec",
        "2026-11-30T00:00:00.000Z",
        verdict=Verdict(Compile.HIT, 1.25, "", ("é\u2028",)),
        fingerprint={"gpu": Fact("NVIDIA L4", "observed:nvml")},
    )
    Outbox(mount).put_start(dataclasses.replace(start, verdict=Verdict(Compile.UNKNOWN)))
    Outbox(mount).put_start(start)
    assert Inbox(root).starts(POD) == (start,)


@pytest.mark.parametrize("start_id", ["", "../x", "a/b", "a.b", "-", "a-1", "x" * 64, "a\n", ".hidden"])
def test_an_id_that_is_no_name_is_refused(
    mount: Path, part: OutboxPart, tree: Path, soon: Deadline, start_id: str
) -> None:
    with pytest.raises(BadInputError):
        Outbox(mount).put_start_bytes(start_id, b"{}")
    with pytest.raises(BadInputError):
        Outbox(mount).put_part(start_id, part, tree, files_of(tree), deadline=soon)
    assert names(mount) == []


class TestWhatIsRefusedLeavesNothing:
    def test_a_secret(self, mount: Path, part: OutboxPart, tree: Path, soon: Deadline) -> None:
        with pytest.raises(BadInputError, match="HF_TOKEN"):
            Outbox(mount).put_part(
                START, part, tree, files_of(tree), deadline=soon, secrets={"HF_TOKEN": b"index of e1"}
            )
        assert names(mount) == []

    def test_a_tree_that_never_holds_still(
        self, mount: Path, part: OutboxPart, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def changing(*arguments: object, **named: object) -> None:
            raise ConflictError("it changes", code="tree-changing")

        monkeypatch.setattr(outbox.archive, "pack", changing)
        clock = Held()
        with pytest.raises(ConflictError):
            Outbox(mount).put_part(START, part, tree, files_of(tree), deadline=Deadline.after(60, clock))
        assert len(clock.slept) == 2
        assert names(mount) == []

    def test_more_than_the_outbox_may_hold(self, mount: Path, part: OutboxPart, tree: Path, soon: Deadline) -> None:
        box = Outbox(mount, Caps(bytes=40_000))
        box.put_part(START, part, tree, files_of(tree), deadline=soon)
        before = names(mount)
        with pytest.raises(IntegrityError) as caught:
            box.put_part(START, part, tree, files_of(tree), deadline=soon)
        assert caught.value.code == "archive-limit"
        assert names(mount) == before

    def test_more_archives_than_it_may_hold(self, mount: Path, part: OutboxPart, tree: Path, soon: Deadline) -> None:
        box = Outbox(mount, Caps(archives=1))
        box.put_part(START, part, tree, files_of(tree), deadline=soon)
        with pytest.raises(IntegrityError):
            box.put_part(START, part, tree, files_of(tree), deadline=soon)

    def test_a_document_without_measure(self, mount: Path) -> None:
        with pytest.raises(IntegrityError):
            Outbox(mount).put_start_bytes(START, b" " * (2 << 20))
        assert names(mount) == []

    def test_out_of_time(self, mount: Path, part: OutboxPart, tree: Path) -> None:
        with pytest.raises(UnavailableError) as caught:
            Outbox(mount).put_part(START, part, tree, files_of(tree), deadline=Deadline.after(0))
        assert caught.value.code == "timeout"
        assert names(mount) == []

    def test_an_outbox_that_is_not_there(self, tmp_path: Path, part: OutboxPart, tree: Path, soon: Deadline) -> None:
        box = Outbox(tmp_path / "absent")
        box.sweep()
        for put in (
            lambda: box.put_start_bytes(START, b"{}"),
            lambda: box.put_part(START, part, tree, files_of(tree), deadline=soon),
        ):
            with pytest.raises(UnavailableError) as caught:
                put()
            assert caught.value.code == "outbox-unwritable"


@requires("root")
class TestAFullDisk:
    """A real one, of a few pages."""

    @pytest.fixture
    def small(self, tmp_path: Path) -> Iterator[Path]:
        folder = tmp_path / "small"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True)
        if done.returncode:
            pytest.skip("no file system can be mounted here")
        yield folder
        subprocess.run(["umount", folder], check=True)

    def test_is_seen_before_anything_is_written(
        self, small: Path, part: OutboxPart, tmp_path: Path, soon: Deadline
    ) -> None:
        large = making.tree(tmp_path / "large", size=100_000)
        with pytest.raises(UnavailableError) as caught:
            Outbox(small).put_part(START, part, large, files_of(large), deadline=soon)
        assert caught.value.code == "no-space"
        assert names(small) == []

    @pytest.mark.parametrize("left", [0, 4096, 8192, 12288, 16384, 20480])
    def test_that_others_fill_leaves_nothing_half(
        self, small: Path, part: OutboxPart, tree: Path, soon: Deadline, monkeypatch: pytest.MonkeyPatch, left: int
    ) -> None:
        """As if there had been room when it was asked for."""
        monkeypatch.setattr(outbox.room, "check", lambda *_: None)
        (small / "others").write_bytes(bytes((64 << 10) - left))
        box = Outbox(small)
        for put in (
            lambda: box.put_start_bytes(START, b" " * 10_000),
            lambda: box.put_part(START, part, tree, files_of(tree), deadline=soon),
        ):
            try:
                put()
            except GlowplugError as error:
                assert error.code == "no-space"
        whole = {f"{START}.json", f"{START}-1.sealed", f"{START}-1.json", "others"}
        assert set(names(small)) <= whole
        assert (f"{START}-1.sealed" in names(small)) == (f"{START}-1.json" in names(small))


class TestLeftovers:
    def test_of_a_killed_writer_go_with_the_next(
        self, root: Path, mount: Path, part: OutboxPart, tree: Path, soon: Deadline
    ) -> None:
        writer = subprocess.Popen(
            [sys.executable, _PUTTING, mount, tree],
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": f"{_REPOSITORY}:{_REPOSITORY / 'src'}", "PATH": os.environ["PATH"]},
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        half = [name for name in names(mount) if name.startswith(TEMPORARY_PREFIX)]
        assert len(half) == 1
        os.utime(mount / half[0], (0, 0))
        Outbox(mount).sweep()
        assert half[0] in names(mount), "its writer lives"
        writer.send_signal(signal.SIGKILL)
        writer.stdout.close()
        writer.wait()
        assert list(Inbox(root).archives(POD, soon)) == []
        Outbox(mount).put_part(START, part, tree, files_of(tree), deadline=soon)
        assert names(mount) == [f"{START}-1.json", f"{START}-1.sealed"]

    def test_of_just_now_may_be_somebodys(self, mount: Path) -> None:
        (mount / f"{TEMPORARY_PREFIX}12").touch()
        Outbox(mount).sweep()
        assert len(names(mount)) == 1


def test_what_is_said_fits_its_schema(mount: Path, part: OutboxPart, tree: Path, soon: Deadline) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    path = Outbox(mount).put_part(START, part, tree, files_of(tree), deadline=soon)
    schema = json.loads((_REPOSITORY / "docs" / "schema" / "outbox-part-1.json").read_text())
    jsonschema.validate(json.loads(layout.description(path).read_text()), schema)
