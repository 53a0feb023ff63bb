"""An agent that is killed leaves nothing that a pod could take for whole, and the next one completes what is missing."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glowplug.agent import housekeeping
from glowplug.core.clock import Deadline
from glowplug.core.documents.start import RestoreOutcome
from glowplug.nodestore import layout as nodes
from glowplug.nodestore.read import NodeStore
from glowplug.nodestore.restore import restore
from lab import faults
from tests.agent.hearing import DOMAIN, Heard, entries, mount, prewarm, put, settings
from tests.cache import making
from tests.parts import requires
from tests.store.conftest import Place, proxy, s3_place, s3_server

__all__ = ["proxy", "s3_place", "s3_server"]

pytestmark = [requires("s3"), pytest.mark.slow]
KEYS = 6
KILLS = 8
BLOBS = "*/blobs/*"


def test_at_any_moment(s3_place: Place, proxy: faults.Proxy, tmp_path: Path) -> None:
    """Eight kills, each in another part of the work: an interpreter has to start for each.

    Some before anything is fetched, all others in the middle of a fetch, whatever time this machine takes to come there.
    """
    store, root = s3_place.open(), tmp_path / "glowplug"
    keys = [
        put(store, tmp_path / "trees", making.key(model=f"m{number}"), files=40, size=20_000) for number in range(KEYS)
    ]
    draw = random.Random(8)  # noqa: S311 - no secret
    for kill in range(KILLS):
        proxy.clear()
        if kill % 3 == 2:
            proxy.add(faults.Slow(10**9), method="GET", path=BLOBS, times=2)
        fetching = proxy.add(faults.Slow(30_000), method="GET", path=BLOBS, times=None)
        agent = subprocess.Popen(
            [sys.executable, "-m", "tests.agent.filling", s3_place.url, str(root)],
            env={**os.environ, **proxy.server.env(), "PYTHONPATH": os.pathsep.join(["src", "."])},
            stdout=subprocess.PIPE,
            text=True,
        )
        with agent:
            assert agent.stdout is not None
            assert agent.stdout.readline() == "begun\n"
            assert kill % 3 == 0 or fetching.wait(60)
            time.sleep(draw.uniform(0.0, 0.2))
            assert agent.poll() is None, "it was at work"
            agent.kill()
        _is_sound(root, tmp_path)
    proxy.clear()
    heard = Heard()
    one = prewarm(settings(root), heard, store)
    assert one.begin()
    assert one.round()
    assert [entries(root, key) for key in keys] == [{"e1"}] * KEYS
    assert heard.of("removed") == []
    left = [item.name for item in mount(root).iterdir() if item.name.startswith((".gone-", ".glowplug-tmp"))]
    assert not left
    assert not list((mount(root) / ".glowplug").iterdir())


def _is_sound(root: Path, tmp_path: Path) -> None:
    """Whatever is named is whole: a pod gets it, or gets nothing."""
    held = NodeStore(mount(root))
    for digest in housekeeping.keys(root, DOMAIN):
        if not nodes.key_document(held.mount, digest).exists():
            continue
        assert housekeeping.intact(root, DOMAIN, digest, Deadline.after(60))
        found = held.held(digest)
        assert found is not None
        done = restore(held, found.key, {}, tmp_path / "pods" / digest, deadline=Deadline.after(60), wait_seconds=0)
        assert done.outcome in (RestoreOutcome.RESTORED, RestoreOutcome.SKIPPED)
