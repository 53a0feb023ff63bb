"""kill -9 of `glowplug run` at any moment of its work: the next start converges, and nothing is torn."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from lab.faults import Hang, Proxy, Slow
from tests.parts import requires
from tests.supervise.machine import PATIENCE, Machine, Started

LARGE = ("--bytes", "3000000", "--graphs", "a,b,c,d")


def kill(started: Started) -> None:
    """The whole group: the supervisor's, and its engine's where it runs already."""
    children = f"/proc/{started.process.pid}/task/{started.process.pid}/children"
    with open(children) as file:  # noqa: PTH123 - gone as soon as we are
        engines = [int(word) for word in file.read().split()]
    started.process.send_signal(signal.SIGKILL)
    started.process.wait()
    for engine in engines:
        try:
            os.kill(engine, signal.SIGKILL)
        except ProcessLookupError:
            continue


def assert_converges(machine: Machine) -> None:
    """Publishes what was not, restores all of it elsewhere, and leaves no workspace behind."""
    first = machine.run(*LARGE, timeout=240)
    assert first.status == 0
    assert first.verdict in ("miss", "hit", "partial")
    assert first.publish[0] in ("published", "unchanged")
    made = machine.artifacts()
    assert not list((machine.root / ".glowplug").glob("work-*")), "of the dead one"
    machine.move()
    second = machine.run(*LARGE, timeout=240)
    assert (second.restore, second.verdict) == (("restored", ""), "hit"), second
    assert machine.artifacts() == made


@requires("s3")
@pytest.mark.slow
def test_in_the_middle_of_a_restore(remote: Machine, proxy: Proxy) -> None:
    remote.run(*LARGE)
    remote.move()
    met = proxy.add(Slow(200_000), path="*/blobs/*", times=None)
    started = remote.start(*LARGE)
    assert met.wait(PATIENCE)
    time.sleep(1)
    kill(started)
    assert not remote.artifacts(), "nothing half-done is where an engine would look"
    proxy.clear()
    assert_converges(remote)


@requires("s3")
@pytest.mark.slow
def test_in_the_middle_of_a_publish(remote: Machine, proxy: Proxy) -> None:
    met = proxy.add(Hang(), method="PUT", path="*/blobs/*", times=1)
    started = remote.start(*LARGE)
    assert met.wait(PATIENCE)
    kill(started)
    proxy.clear()
    assert_converges(remote)


@requires("s3")
@pytest.mark.slow
def test_between_the_blobs_and_the_manifest(remote: Machine, proxy: Proxy) -> None:
    met = proxy.add(Hang(), method="PUT", path="*/keys/*", times=1)
    started = remote.start(*LARGE)
    assert met.wait(PATIENCE)
    kill(started)
    proxy.clear()
    assert_converges(remote)


@pytest.mark.slow
def test_at_random_moments(machine: Machine) -> None:
    drawn = random.Random(20260301)  # noqa: S311 - moments, no secrets
    for _ in range(6):
        if drawn.random() < 0.5:
            machine.move()
        started = machine.start(*LARGE)
        time.sleep(drawn.uniform(0.15, 1.5))
        if started.process.poll() is None:
            kill(started)
    assert_converges(machine)
