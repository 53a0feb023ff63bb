"""Of several that write conditionally at once exactly one succeeds: threads, processes, and processes that are killed."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from glowplug.core.clock import Deadline
from glowplug.core.errors import ConflictError, NotFoundError, UnavailableError
from glowplug.store.contract import Store
from tests.clocks import soonest
from tests.store.conftest import Place

_RACER = Path(__file__).with_name("racing.py")


def at_once(count: int, work: Callable[[int], str]) -> Counter[str]:
    """How the calls of `work` ended that began together: what they returned, or the name of their error."""
    gate = threading.Barrier(count)
    ends: list[str] = []

    def run(number: int) -> None:
        gate.wait()
        try:
            ends.append(f"won {work(number)}")
        except Exception as error:  # noqa: BLE001 - counted
            ends.append(type(error).__name__)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(end.split()[0] for end in ends)


@pytest.mark.slow
@pytest.mark.parametrize("stores", [1, 16], ids=["one-store", "a-store-each"])
def test_sixteen_threads_have_one_winner(shared_place: Place, soon: Deadline, stores: int) -> None:
    opened: list[Store] = [shared_place.open() for _ in range(stores)]
    one_winner = Counter({"won": 1, ConflictError.__name__: 15})

    def new(number: int) -> str:
        return opened[number % stores].put_new("m", b"new %d" % number, soon)

    assert at_once(16, new) == one_winner
    for turn in range(3):
        found = opened[0].get("m", soon)

        # Contents differ from turn to turn: a version stands for a content, and who writes what is there changes nothing.
        def replace(number: int, version: str = found.meta.version, turn: int = turn) -> str:
            return opened[number % stores].put_if("m", b"%d %d" % (turn, number), version, soon)

        assert at_once(16, replace) == one_winner


def test_sixteen_threads_have_one_winner_in_memory(soon: Deadline) -> None:
    store = Place("memory://", {}).open()
    assert at_once(16, lambda number: store.put_new("m", b"%d" % number, soon))["won"] == 1
    version = store.get("m", soon).meta.version
    assert at_once(16, lambda number: store.put_if("m", b"x%d" % number, version, soon))["won"] == 1


def start_racer(place: Place, rounds: int, name: str) -> subprocess.Popen[str]:
    search = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, str(_RACER), place.url, str(rounds), name],
        env={"PYTHONPATH": search, "PATH": os.environ["PATH"], **place.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_eight_processes_lose_no_update(shared_place: Place, soon: Deadline) -> None:
    racers = [start_racer(shared_place, 10, f"p{number}") for number in range(8)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    outputs = [racer.communicate(timeout=300)[0].split() for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 8
    assert [won for won, _ in outputs] == ["10"] * 8
    counted = Counter(shared_place.open().get("counter", soon).data.decode().split())
    assert counted == {f"p{number}": 10 for number in range(8)}


def wrote(place: Place, line: bytes, limit: Deadline) -> bool:
    limit.check("waiting for the racer")
    try:
        return line in place.open().get("counter", limit, max_bytes=1 << 24).data
    except NotFoundError:
        return False


def test_a_killed_writer_blocks_nobody(tmp_path: Path) -> None:
    """SIGKILL at random moments of writers in a directory: the others go on, and the object is always whole."""
    place = Place((tmp_path / "store").as_uri(), {})
    for number in range(6):
        racer = start_racer(place, 10_000, f"dead{number}")
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
        limit = Deadline.after(60)
        while not wrote(place, f"dead{number}\n".encode(), limit):
            time.sleep(0.01)
        time.sleep(secrets.randbelow(50) / 1000)
        racer.kill()
        racer.communicate()
        store = place.open()
        found = store.get("counter", limit, max_bytes=1 << 24)
        assert found.data.endswith(b"\n")
        assert all(line.startswith(b"dead") for line in found.data.splitlines())
        store.put_if("counter", b"dead\n", found.meta.version, limit)  # a lock that died with its holder would end this


def test_a_stopped_holder_costs_others_their_deadline_only(tmp_path: Path, soon: Deadline) -> None:
    """A process that is frozen with the lock in its hand: others say so in time."""
    place = Place((tmp_path / "store").as_uri(), {})
    store = place.open()
    store.put_new("m", b"1", soon)
    program = (
        "import fcntl, os, pathlib, sys, time\n"
        "held = [os.open(path, os.O_RDWR) for path in pathlib.Path(sys.argv[1]).iterdir()]\n"
        "[fcntl.flock(one, fcntl.LOCK_EX) for one in held]\n"
        "print(flush=True); time.sleep(600)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "store" / ".glowplug-locks")], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()

        def put() -> None:
            with pytest.raises(UnavailableError, match="out of time") as caught:
                store.put("m", b"2", Deadline.after(0.5))
            assert caught.value.code == "timeout"

        assert soonest(put, 1.5) < 1.5
        assert store.get("m", soon).data == b"1"
    finally:
        holder.kill()
        holder.communicate()
    store.put("m", b"2", soon)
    assert store.get("m", soon).data == b"2"


def test_a_store_that_was_opened_before_a_fork_says_so() -> None:
    """Silence until the deadline would be the alternative. A process of its own, since this one has threads."""
    program = (
        "import os\n"
        "from glowplug.core.clock import Deadline\n"
        "from glowplug.core.errors import InternalError\n"
        "from glowplug.store.schemes import open_store\n"
        "store = open_store('memory://', {})\n"
        "store.put('a', b'1', Deadline.after(60))\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        store.get('a', Deadline.after(600))\n"
        "    except InternalError:\n"
        "        os._exit(7)\n"
        "    os._exit(1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    search = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": search}, timeout=120)
    assert done.returncode == 7
