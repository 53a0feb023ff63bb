"""What is seen of a cache root while an engine runs: opened files, quiet, readiness, output beside it."""

from __future__ import annotations

import contextlib
import http.server
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from glowplug.observe import fanotify, opens
from glowplug.observe.opens import OpenWatch
from glowplug.observe.outside import Outside
from glowplug.observe.ready import QUIET_SECONDS, QuietProbe, UrlProbe
from tests.clocks import SLACK


@pytest.fixture(params=["inotify", "fanotify"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By which of the kernel's two ways opens are seen."""
    kind = str(request.param)
    if kind == "inotify":

        def refuse(*_: object) -> object:
            raise fanotify.Unavailable("refused by the test")

        monkeypatch.setattr(opens, "OpenersWatch", refuse)
    elif os.geteuid() != 0:
        pytest.skip("fanotify needs CAP_SYS_ADMIN")
    return kind


LINGER = "import sys; print(flush=True); sys.stdin.read()"
"""An opener that is gone when its event is looked at does not count: whose it was cannot be asked any more. So it stays until
`up_to_here` has seen that all of its events were looked at."""


def watching(root: Path, paths: Iterable[str]) -> OpenWatch:
    """A watch for whom this process is the engine."""
    watch = OpenWatch(root, paths)
    watch.attach(os.getpid())
    return watch


def up_to_here(watch: OpenWatch, root: Path) -> None:
    """Until the watch has looked at all that has happened: events come in order, and this one is the last."""
    (root / LAST).read_bytes()
    assert until(lambda: LAST in watch.opened())


def until(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


@pytest.fixture
def root(tmp_path: Path, kernel: str) -> Path:
    del kernel
    for name in ("a/one", "a/two", "b/three", "top", LAST):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"artifact" * 100)
    return tmp_path


LAST = "z/last"
EVERY = ["a/one", "a/two", "b/three", "top", LAST]


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("open('a/one', 'rb').read()", {"a/one"}),
        ("open('a/one', 'rb'); open('top')", {"a/one", "top"}),
        ("open('a/one', 'r+b').read(1)", {"a/one"}),
        ("import mmap; f = open('b/three', 'rb'); mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)[:]", {"b/three"}),
        ("import os; os.stat('a/one'); os.listdir('a'); os.path.exists('top')", set()),
        ("open('a/one', 'wb').write(b'new')", set()),
        ("import os; open('a/x', 'wb').write(b'new'); os.replace('a/x', 'a/one')", set()),
        ("open('a/one', 'rb').read(); open('a/one', 'wb').write(b'new')", {"a/one"}),
        ("open('a/one', 'wb').write(b'new'); open('a/one', 'rb').read()", {"a/one"}),
        ("import os; os.unlink('a/one'); os.rename('b', 'c')", set()),
        ("open('a/unlisted', 'w'); open('a/unlisted').read()", set()),
        ("import os; os.open('a/two', os.O_RDONLY)", {"a/two"}),
        ("import shutil; shutil.rmtree('a')", set()),
    ],
)
def test_what_another_process_opens_to_read_is_seen(root: Path, code: str, seen: set[str]) -> None:
    watch = watching(root, EVERY)
    assert watch.available
    command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", f"{code}\n{LINGER}"]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"\n"
        up_to_here(watch, root)
        other.communicate()
    assert watch.stop() == seen | {LAST}
    assert watch.opened() == seen | {LAST}


def test_a_file_that_is_still_open_counts(root: Path) -> None:
    watch = watching(root, EVERY)
    with (root / "a/one").open("rb"):
        assert watch.stop() == {"a/one"}


def test_nothing_is_seen_after_the_end(root: Path) -> None:
    watch = watching(root, EVERY)
    assert watch.stop() == frozenset()
    (root / "a/one").read_bytes()
    assert watch.stop() == watch.opened() == frozenset()


def test_nothing_to_watch_and_nowhere_to_watch(root: Path) -> None:
    assert not watching(root, []).available
    gone = watching(root, ["no/such/folder/file", "a/one"])
    assert not gone.available, "half a watch proves nothing by its silence"
    (root / "a/one").read_bytes()
    assert gone.stop() == {"a/one"}, "but what it saw it saw"


def test_without_inotify_it_does_without(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> object:
        raise OSError("no libc")

    monkeypatch.setattr(opens.ctypes, "CDLL", refused)
    watch = watching(root, EVERY)
    assert (watch.available, watch.stop()) == (False, frozenset())


def test_only_the_engine_counts_where_the_kernel_says_who_opened(root: Path, kernel: str) -> None:
    """A backup, a scanner, another engine in the same root: none of them proves a hit."""
    read = "import sys; open(sys.argv[1], 'rb').read(); sys.stdin.read()"
    engine = subprocess.Popen([sys.executable, "-c", read, root / "a/one"], stdin=subprocess.PIPE, process_group=0)
    watch = OpenWatch(root, EVERY)
    watch.attach(engine.pid)
    (root / "b/three").read_bytes()
    subprocess.run(["cat", root / "a/two"], stdout=subprocess.DEVNULL, check=True)
    engine.communicate()
    seen = watch.stop()
    assert watch.attributed == (kernel == "fanotify")
    assert not watch.attributed or seen <= {"a/one"}


def test_a_grandchild_of_the_engine_counts(root: Path) -> None:
    script = f'{sys.executable} -c \'open("a/one", "rb").read(); import sys; sys.stdin.read()\'; true'
    watch = OpenWatch(root, EVERY)
    engine = subprocess.Popen(["sh", "-c", script], cwd=root, process_group=0, stdin=subprocess.PIPE)
    watch.attach(engine.pid)
    until(lambda: bool(watch.opened()))
    engine.communicate()
    assert watch.stop() == {"a/one"}


@pytest.mark.parametrize("kernel", ["inotify"], indirect=True)
def test_a_lost_event_is_admitted(root: Path) -> None:
    """More events than the kernel keeps: silence is no longer proof of anything (fanotify's reader is a thread that keeps up)."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("the kernel's queue is too long to fill in a test")
    watch = watching(root, ["a/one"])
    first, second = str(root / "a/one"), str(root / "a/two")
    for _ in range(limit // 4 + 100):
        os.close(os.open(second, os.O_RDONLY))
        os.close(os.open(first, os.O_RDONLY))
    assert "a/one" in watch.stop()
    assert not watch.available


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_descriptors_are_given_back(root: Path) -> None:
    before = descriptors()
    for _ in range(5):
        watching(root, EVERY).stop()
        watching(root, []).stop()
    assert descriptors() == before


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def relevant(path: str) -> bool:
    return not path.endswith(".log")


def test_quiet_is_five_seconds_without_a_change(root: Path) -> None:
    clock = Clock()
    probe = QuietProbe(root, relevant, clock)
    for change in (
        lambda: (root / "a/new").write_bytes(b"x"),
        lambda: (root / "a/new").write_bytes(b"longer"),
        lambda: os.utime(root / "a/new", ns=(5, 5)),
        lambda: (root / "a/new").rename(root / "a/other"),
        lambda: shutil.rmtree(root / "b"),
    ):
        change()
        assert not probe.ready()
        clock.now += QUIET_SECONDS - 0.1
        assert not probe.ready()
        clock.now += 0.2
        assert probe.ready()


def test_what_does_not_matter_does_not_disturb(root: Path) -> None:
    clock = Clock()
    probe = QuietProbe(root, relevant, clock)
    clock.now += QUIET_SECONDS
    (root / "engine.log").write_text("words")
    (root / "a" / "folder").mkdir()
    (root / "link").symlink_to("a/one")
    os.mkfifo(root / "pipe")
    assert probe.ready()


def test_emptiness_is_not_quiet(tmp_path: Path) -> None:
    clock = Clock()
    for place in (tmp_path, tmp_path / "missing"):
        probe = QuietProbe(place, relevant, clock)
        clock.now += 100
        assert not probe.ready()


def test_a_deep_tree_and_a_circle_of_links_end(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path)
    with contextlib.chdir(tmp_path):
        for _ in range(1200):
            Path("d").mkdir()
            os.chdir("d")
        Path("f").write_text("x")
    clock = Clock()
    probe = QuietProbe(tmp_path, relevant, clock)
    clock.now += 10
    assert probe.ready() in (True, False)
    # pytest's own removal is recursive
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


@pytest.fixture
def answers() -> Iterator[tuple[str, list[int]]]:
    """A server's address, and the statuses that it answers with, the last one again and again."""
    statuses = [200]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
            if status == 0:
                self.wfile.write(b"no http\r\n")
                return
            self.send_response(status)
            self.send_header("Location", "/again")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/health", statuses
        server.shutdown()


@pytest.mark.parametrize(
    ("statuses", "ready"),
    [([200], True), ([204], True), ([302, 200], True), ([503], False), ([404], False), ([302], False), ([0], False)],
    ids=str,
)
def test_ready_is_a_health_url_that_answers_well(
    answers: tuple[str, list[int]], monkeypatch: pytest.MonkeyPatch, statuses: list[int], ready: bool
) -> None:
    url, planned = answers
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    planned[:] = statuses
    assert UrlProbe(url).ready(60.0) is ready


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "http://no-such-host.invalid/", "https://127.0.0.1:1/", "nothing", "http://[::/"]
)
def test_what_does_not_answer_is_not_ready(url: str) -> None:
    assert UrlProbe(url).ready() is False


def test_outside_names_what_appeared(tmp_path: Path) -> None:
    there, later = tmp_path / "torchinductor_me", tmp_path / "later"
    there.mkdir()
    (there / "old").write_text("x")
    (there / "rewritten").write_text("x")
    outside = Outside([str(there), str(later), "relative/path"])
    assert outside.appeared() == ()
    (there / "rewritten").write_text("longer")
    (there / "new").write_text("x")
    (there / "x.lock").write_text("x")
    (there / "y.tmp").write_text("x")
    (there / "link").symlink_to("/etc")
    (later / "deep").mkdir(parents=True)
    (later / "deep" / "kernel.so").write_text("x")
    assert outside.appeared() == (str(later / "deep/kernel.so"), str(there / "new"), str(there / "rewritten"))


def test_a_server_that_trickles_is_not_waited_for() -> None:
    """A byte a second keeps every single read within its time; the answer as a whole has a limit all the same."""
    stop = threading.Event()

    def trickle(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one, _ = listening.accept()
            with one:
                for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 1000:
                    if stop.wait(0.5):
                        return
                    one.sendall(bytes([byte]))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=trickle, args=(listening,), daemon=True)
        thread.start()
        began = time.monotonic()
        assert not UrlProbe(f"http://127.0.0.1:{listening.getsockname()[1]}/").ready(1.0)
        assert time.monotonic() - began < 1.0 + SLACK
        stop.set()


def test_a_tree_that_takes_long_to_walk_is_walked_seldom(tmp_path: Path) -> None:
    """A twentieth of the time at the most, whatever the size of the tree."""
    clock = Clock()
    probe = QuietProbe(tmp_path, relevant, clock)
    walks: list[float] = []

    def slow(_top: str) -> list[tuple[str, int, int]]:
        walks.append(clock.now)
        clock.now += 2.0
        return []

    probe._stamps = slow  # type: ignore[method-assign]
    end = clock.now + 400
    while clock.now < end:
        probe.ready()
        clock.now += 0.25
    assert len(walks) <= 11
