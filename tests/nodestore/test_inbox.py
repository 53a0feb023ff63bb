"""An outbox as an enemy would fill it: the agent gets what is sound, nothing else, in bounded time and space, and never raises."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glowplug.core.clock import Deadline
from glowplug.core.documents import codec
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.node import ENTRY, OutboxPart
from glowplug.core.documents.start import Start
from glowplug.core.errors import BadInputError, GlowplugError, IntegrityError, UnavailableError
from glowplug.nodestore import inbox as reading
from glowplug.nodestore import layout, write
from glowplug.nodestore.inbox import LIMITS, Caps, Inbox
from glowplug.nodestore.outbox import Outbox
from glowplug.tree import archive, hostile
from glowplug.tree.index import scan
from tests.clocks import by
from tests.nodestore import making as nodes

POD = "0f0b3d4e-8b4a-4c58-9d0f-3f6a9c1d2e3f"
SOUND = "50dd"
EVIL = "ev11"


@pytest.fixture
def mount(root: Path, key: Key, tree: Path) -> Path:
    """One pod's outbox, with one start and one archive that are sound."""
    write.prepare(root, nodes.DOMAIN)
    folder = layout.outbox(root, POD)
    folder.mkdir()
    files = [item for path, item in scan(tree).files.items() if path.startswith("vllm/e1/")]
    box = Outbox(folder)
    box.put_part(SOUND, OutboxPart(key, ENTRY, "e1"), tree, files, deadline=Deadline.after(60))
    box.put_start(Start(SOUND, "exec", "2026-11-30T00:00:00.000Z"))
    return folder


def read_all(root: Path, into: Path, caps: Caps = Caps()) -> tuple[list[str], list[str], Inbox]:  # noqa: B008 - frozen
    """The ids of the starts, the names of the archives that unpack, and the inbox; as an agent reads, and in time."""
    inbox = Inbox(root, caps)
    good = []
    with by(60) as deadline:
        for sealed in inbox.archives(POD, deadline):
            try:
                archive.unpack(sealed, into / sealed.name, LIMITS)
            except GlowplugError:
                continue
            good.append(sealed.name)
        starts = [start.id for start in inbox.starts(POD)]
    return starts, good, inbox


def _link_to_file(path: Path, target: Path) -> None:
    path.symlink_to(target)


def _link_to_nothing(path: Path, target: Path) -> None:
    path.symlink_to(target.parent / "nothing")


def _hard_link(path: Path, target: Path) -> None:
    os.link(target, path)


def _pipe(path: Path, target: Path) -> None:
    os.mkfifo(path)


def _directory(path: Path, target: Path) -> None:
    path.mkdir()


def _socket(path: Path, target: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket must be short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def _sparse(path: Path, target: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _unreadable_word(path: Path, target: Path) -> None:
    path.write_bytes(b"\xff" * 1000)


KINDS = [_link_to_file, _link_to_nothing, _hard_link, _pipe, _directory, _sparse, _unreadable_word]


class TestUnderASoundName:
    """Where our own writer's names lead to something else."""

    @pytest.mark.filterwarnings("ignore::ResourceWarning")
    @pytest.mark.parametrize("kind", [*KINDS, _socket])
    @pytest.mark.parametrize("name", [f"{EVIL}-1.sealed", f"{EVIL}-1.json", f"{EVIL}.json"])
    def test_lies_what_is_no_file(
        self, root: Path, mount: Path, tmp_path: Path, kind: Callable[[Path, Path], None], name: str
    ) -> None:
        """All the rest of that archive or start is sound, and so is what a link leads to."""
        for suffix in ("-1.sealed", "-1.json", ".json"):
            if EVIL + suffix != name:
                text = (mount / (SOUND + suffix)).read_bytes()
                (mount / (EVIL + suffix)).write_bytes(text.replace(SOUND.encode(), EVIL.encode()))
        target = tmp_path / "target"
        target.write_bytes((mount / name.replace(EVIL, SOUND)).read_bytes().replace(SOUND.encode(), EVIL.encode()))
        kind(mount / name, target)
        starts, good, inbox = read_all(root, tmp_path)
        evil_archive = not name.endswith("-1.sealed") and not name.endswith("-1.json")
        assert good == [f"{SOUND}-1.sealed", *([f"{EVIL}-1.sealed"] if evil_archive else [])]
        assert starts == [SOUND, *([] if name == f"{EVIL}.json" else [EVIL])]
        if kind is not _unreadable_word or not name.endswith(".sealed"):
            assert [item.name for item in inbox.refused] == [name.replace("-1.json", "-1.sealed")]

    @pytest.mark.parametrize(
        "change",
        [
            {"kind": "other"},
            {"name": ""},
            {"name": "n" * 5000},
            {"of": "e1"},
            {"index": ["/etc/passwd"]},
            {"index": ["../x"]},
            {"index": [f"f{number}" for number in range(1000)]},
            {"guards": {"g" * 5000: "x"}},
            {"guards": {f"g{number}": "" for number in range(1000)}},
            {"observed": {"compile_ms": 10**19}},
            {"observed": {"compile_ms": 1.5}},
            {"key": {}},
            {"min_reader": 2},
            {"schema": "glowplug.node-key/1"},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_lie_words_that_are_none(self, root: Path, mount: Path, tmp_path: Path, change: dict[str, object]) -> None:
        sound = json.loads((mount / f"{SOUND}-1.json").read_text())
        shutil.copy(mount / f"{SOUND}-1.sealed", mount / f"{EVIL}-1.sealed")
        (mount / f"{EVIL}-1.json").write_text(json.dumps({**sound, **change}))
        _, good, inbox = read_all(root, tmp_path)
        assert [item.name for item in inbox.refused] == [f"{EVIL}-1.sealed"]
        assert good == [f"{SOUND}-1.sealed"]

    @pytest.mark.parametrize(
        "data",
        [
            b'{"schema":"glowplug.start/1"}',
            b'{"schema":"glowplug.start/1","id":"50dd","source":"exec","started_at":""}',
            b'{"schema":"glowplug.start/1","id":"ev11","source":"exec","started_at":"","ready_seconds":NaN}',
            b'{"schema":"glowplug.start/1","id":"ev11","source":"exec","started_at":"","ready_seconds":1e999}',
            b'{"schema":"glowplug.start/1","id":"ev11","source":"exec","started_at":"","ready_seconds":-Infinity}',
            b'{"schema":"glowplug.start/1","id":"ev11","source":"\\ud800","started_at":""}',
            b'{"schema":"glowplug.start/1","id":"ev11","source":"exec","started_at":"","id":"ev11"}',
            b'{"schema":"glowplug.start/1","id":"ev11","source":"exec","started_at":"","exit_status":'
            + b"1" * 900_000
            + b"}",
            b'{"workload":' * 100_000,
        ],
    )
    def test_lies_a_start_that_is_none(self, root: Path, mount: Path, tmp_path: Path, data: bytes) -> None:
        (mount / f"{EVIL}.json").write_bytes(data)
        starts, _, inbox = read_all(root, tmp_path)
        assert starts == [SOUND]
        assert [item.name for item in inbox.refused] == [f"{EVIL}.json"]


@pytest.mark.parametrize(
    "name",
    [".sealed", "x.sealed", "a b-1.sealed", "x-.sealed", "x-1.sealed.sealed", "x-1e3.sealed", "é-1.sealed"],
)
def test_other_names_are_nobodys(root: Path, mount: Path, tmp_path: Path, name: str) -> None:
    shutil.copy(mount / f"{SOUND}-1.sealed", mount / name)
    assert read_all(root, tmp_path)[:2] == ([SOUND], [f"{SOUND}-1.sealed"])


def test_a_name_that_is_no_text_harms_nobody(root: Path, mount: Path, tmp_path: Path) -> None:
    os.close(os.open(os.fsencode(mount) + b"/\xff\xfe-1.sealed", os.O_CREAT | os.O_WRONLY))
    assert read_all(root, tmp_path)[:2] == ([SOUND], [f"{SOUND}-1.sealed"])


def test_names_without_number_cost_a_bounded_listing(root: Path, mount: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(500):
        (mount / f"x{number}-1.sealed").touch()
        (mount / f"x{number}.json").touch()
    opened = []
    original = reading._open

    def count(folder: int, name: str) -> tuple[int, int]:
        opened.append(name)
        return original(folder, name)

    monkeypatch.setattr(reading, "_open", count)
    inbox = Inbox(root, Caps(names=100, starts=10, archives=10))
    assert sum(1 for _ in inbox.archives(POD, Deadline.after(60))) <= 10
    inbox.starts(POD)
    assert len(opened) <= 30


class TestAnArchive:
    def put(self, mount: Path, data: bytes) -> None:
        shutil.copy(mount / f"{SOUND}-1.json", mount / f"{EVIL}-1.json")
        (mount / f"{EVIL}-1.sealed").write_bytes(data)

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
    @given(data=st.data())
    def test_with_any_byte_changed_or_cut_is_no_archive(
        self, root: Path, mount: Path, tmp_path: Path, data: st.DataObject
    ) -> None:
        sound = bytearray((mount / f"{SOUND}-1.sealed").read_bytes())
        place = data.draw(st.integers(0, len(sound) - 1))
        if data.draw(st.booleans()):
            sound[place] ^= data.draw(st.integers(1, 255))
        else:
            del sound[place:]
        self.put(mount, bytes(sound))
        into = tmp_path / os.urandom(8).hex()
        into.mkdir()
        assert read_all(root, into)[1] == [f"{SOUND}-1.sealed"]
        assert [path.name for path in into.iterdir()] == [f"{SOUND}-1.sealed"]

    def test_larger_than_allowed_is_not_opened_for_reading(self, root: Path, mount: Path, tmp_path: Path) -> None:
        _, good, inbox = read_all(root, tmp_path, Caps(archive_bytes=5000))
        assert good == []
        assert [item.name for item in inbox.refused] == [f"{SOUND}-1.sealed"]

    def test_with_a_table_that_would_take_all_memory_is_refused_by_its_claim(
        self, root: Path, mount: Path, tmp_path: Path
    ) -> None:
        header = bytearray((mount / f"{SOUND}-1.sealed").read_bytes()[:512])
        header[124:136] = b"%011o\0" % (40 << 20)
        self.put(mount, bytes(header) + b"[" * (40 << 20))
        inbox = Inbox(root)
        for sealed in inbox.archives(POD, Deadline.after(60)):
            if sealed.start_id == EVIL:
                with pytest.raises(IntegrityError) as caught:
                    archive.unpack(sealed, tmp_path / "unpacked", LIMITS)
                assert caught.value.code == "archive-limit"
                assert sealed._left > 39 << 20

    def test_that_grows_while_it_is_read_ends_where_it_ended(self, root: Path, mount: Path) -> None:
        path = mount / f"{SOUND}-1.sealed"
        size = path.stat().st_size
        for sealed in Inbox(root).archives(POD, Deadline.after(60)):
            with path.open("ab") as file:
                file.write(bytes(1 << 20))
            count = 0
            while piece := sealed.read(1000):
                count += len(piece)
            assert count == size

    def test_that_changes_while_it_is_read_is_believed_only_as_it_was_written(
        self, root: Path, mount: Path, tmp_path: Path
    ) -> None:
        """The pod overwrites a file's bytes after its table was read."""
        path = mount / f"{SOUND}-1.sealed"

        class Changing:
            def __init__(self, sealed: reading.Sealed) -> None:
                self.sealed, self.reads = sealed, 0

            def read(self, size: int, /) -> bytes:
                self.reads += 1
                if self.reads == 4:
                    with path.open("r+b") as file:
                        file.seek(-5000, os.SEEK_END)
                        file.write(b"evil")
                return self.sealed.read(size)

        for sealed in Inbox(root).archives(POD, Deadline.after(60)):
            with pytest.raises(IntegrityError):
                archive.unpack(Changing(sealed), tmp_path / "unpacked", LIMITS)
        assert not (tmp_path / "unpacked").exists()

    def test_is_read_until_the_deadline_and_no_longer(self, root: Path, mount: Path, tmp_path: Path) -> None:
        for sealed in Inbox(root).archives(POD, Deadline.after(0)):
            with pytest.raises(UnavailableError):
                archive.unpack(sealed, tmp_path / "unpacked", LIMITS)


class TestTheFolders:
    @pytest.mark.parametrize("name", ["..", "a/b", "", "x" * 64, ".hidden", "a\n"])
    def test_a_name_that_is_no_uid_is_refused(self, root: Path, mount: Path, name: str) -> None:
        with pytest.raises(BadInputError):
            Inbox(root).starts(name)

    def test_a_link_in_place_of_an_outbox_is_not_followed(self, root: Path, mount: Path) -> None:
        (mount.parent / "linked").symlink_to(mount)
        inbox = Inbox(root)
        assert inbox.pods() == (POD,)
        assert (inbox.starts("linked"), list(inbox.archives("linked", Deadline.after(60)))) == ((), [])
        assert not inbox.clear("linked", Deadline.after(60))
        assert mount.exists()

    def test_an_agent_without_outboxes_has_no_pods(self, tmp_path: Path) -> None:
        inbox = Inbox(tmp_path)
        assert (inbox.pods(), inbox.starts(POD)) == ((), ())


class TestDropping:
    def test_an_archive_goes_with_what_is_said_of_it(self, root: Path, mount: Path) -> None:
        Inbox(root).drop(POD, f"{SOUND}-1.sealed")
        assert [path.name for path in mount.iterdir()] == [f"{SOUND}.json"]

    def test_a_start_goes_alone(self, root: Path, mount: Path) -> None:
        Inbox(root).drop(POD, f"{SOUND}.json")
        assert sorted(path.name for path in mount.iterdir()) == [f"{SOUND}-1.json", f"{SOUND}-1.sealed"]

    @pytest.mark.parametrize("name", ["../node.json", "other", "/etc/passwd", "", "a/b.json"])
    def test_nothing_else_can_be_named(self, root: Path, mount: Path, name: str) -> None:
        (mount.parent / "node.json").touch()
        Inbox(root).drop(POD, name)
        assert (mount.parent / "node.json").exists()
        assert len(list(mount.iterdir())) == 3


class TestClearing:
    def test_a_pods_outbox_is_gone(self, root: Path, mount: Path, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "precious").touch()
        (mount / "link").symlink_to(outside)
        os.mkfifo(mount / "pipe")
        (mount / "a" / "b").mkdir(parents=True)
        (mount / "a" / "b" / "link").symlink_to(outside)
        assert Inbox(root).clear(POD, Deadline.after(60))
        assert not mount.exists()
        assert (outside / "precious").exists()

    def test_directories_without_a_bottom(self, root: Path, mount: Path) -> None:
        """Deeper than any stack, any number of descriptors, and any path."""
        depth = 3000
        here = os.open(mount, os.O_RDONLY)
        for _ in range(depth):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
        with by(60) as deadline:
            assert Inbox(root).clear(POD, deadline)
        assert not mount.exists()

    def test_ends_at_the_deadline_and_goes_on_with_the_next(self, root: Path, mount: Path) -> None:
        assert not Inbox(root).clear(POD, Deadline.after(0))
        assert mount.exists()
        assert Inbox(root).clear(POD, Deadline.after(60))

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        assert not hostile.remove(tmp_path / "absent", Deadline.after(60))


def test_a_start_survives_the_way_through_json(root: Path, mount: Path) -> None:
    text = (mount / f"{SOUND}.json").read_text()
    assert json.loads(text) == codec.to_json(Inbox(root).starts(POD)[0])
