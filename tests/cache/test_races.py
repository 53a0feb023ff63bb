"""Eight processes publish one key at once, some are killed: one whole manifest, whole parts, nobody ever sees less."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from glowplug.cache import commit, layout
from glowplug.cache.format import Manifest
from glowplug.cache.restore import restore_exact
from glowplug.cache.verify import verify
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.store.contract import Store
from tests.cache import making
from tests.cache.conftest import Place

_PUBLISHING = Path(__file__).with_name("publishing.py")
_REPOSITORY = Path(__file__).parents[2]
_PROCESSES = 8


class Publisher:
    """One of the eight; started again after it was killed."""

    def __init__(self, place: Place, number: int, folder: Path) -> None:
        self.name = f"p{number}"
        environ = {**place.environ, "PATH": os.environ["PATH"], "PYTHONPATH": f"{_REPOSITORY / 'src'}:{_REPOSITORY}"}
        self._command = [sys.executable, str(_PUBLISHING), place.url, self.name, str(folder / self.name)]
        self._environ = environ
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command, env=self._environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def begin(self, number: int, salt: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number} {salt}\n")
        self._process.stdin.flush()

    def outcome(self) -> str:
        """What it printed; "" where it was killed before."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()

    def restart(self) -> None:
        self._process.communicate()
        self._process = self._start()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Reader(threading.Thread):
    """Reads the manifest all the time: each one whole, and never with less in it than the one before."""

    def __init__(self, store: Store, key: Key) -> None:
        super().__init__()
        self._store, self._key = store, key
        self._stop_asked = threading.Event()
        self.fault = ""
        self.looks = 0

    def run(self) -> None:
        seen: set[str] = set()
        while not self._stop_asked.is_set() and not self.fault:
            current = commit.read(self._store, layout.manifest_path(self._key), Deadline.after(60))
            now = {part.sha256 for part in current.manifest.parts} if current.manifest else set()
            self.looks += 1
            if current.damaged:
                self.fault = "a damaged manifest"
            elif not seen <= now:
                self.fault = f"{len(seen - now)} parts went away"
            seen = now

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()


def race(publishers: list[Publisher], place: Place, number: int, draw: random.Random) -> Manifest:
    """One round; everything that must hold is asserted."""
    key = making.key(args={"round": str(number)})
    store = place.open()
    reader = Reader(store, key)
    doomed = draw.sample(publishers, draw.randrange(1, 5))
    reader.start()
    try:
        for publisher in publishers:
            publisher.begin(number, "x")
        for publisher in doomed:
            time.sleep(draw.random() * 0.15)
            publisher.kill()
        outcomes = {publisher.name: publisher.outcome() for publisher in publishers}
    finally:
        reader.stop()
    assert reader.fault == ""
    survivors = [publisher.name for publisher in publishers if publisher not in doomed]
    assert {outcomes[name] for name in survivors} <= {"published -"}, outcomes
    manifest = commit.read(store, layout.manifest_path(key), Deadline.after(60)).manifest
    assert manifest is not None
    names = [part.name for part in manifest.entries()]
    assert len(names) == len(set(names))
    assert {*survivors, "shared"} <= set(names)
    assert all(manifest.support(entry) is not None for entry in manifest.entries())
    checked = verify(store, key.domain, Deadline.after(120), digits=key.digest(), deep=True)
    assert checked.faults == ()
    for publisher in doomed:
        publisher.restart()
    for publisher in doomed:
        publisher.wait_until_ready()
    return manifest


def races(place: Place, folder: Path, rounds: int) -> None:
    draw = random.Random(rounds)  # noqa: S311 - moments, not secrets
    publishers = [Publisher(place, number, folder / "trees") for number in range(_PROCESSES)]
    killed_early = 0
    try:
        for publisher in publishers:
            publisher.wait_until_ready()
        for number in range(rounds):
            manifest = race(publishers, place, number, draw)
            killed_early += len(manifest.entries()) < _PROCESSES + 1
            if number == 0:
                restore_exact(place.open(), manifest.key, {}, folder / "root", deadline=Deadline.after(60))
    finally:
        for publisher in publishers:
            publisher.end()
    assert killed_early, "no kill came before the end of a publish: this race proves nothing"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twenty_rounds(shared_place: Place, tmp_path: Path) -> None:
    races(shared_place, tmp_path, 20)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_hundred_rounds(shared_place: Place, tmp_path: Path) -> None:
    races(shared_place, tmp_path, 200)
