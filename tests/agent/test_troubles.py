"""What an agent that gets nothing from its store says: to kubelet, on its node, and as an event when it lasts."""

from __future__ import annotations

from pathlib import Path

import pytest

from glowplug.agent.troubles import Troubles
from glowplug.check import standing
from glowplug.core.errors import UnavailableError
from glowplug.store.contract import Store
from glowplug.store.schemes import open_store
from tests.agent.hearing import DOMAIN, Heard, prewarm, settings
from tests.clocks import Held

NO_BUCKET = UnavailableError("there is no bucket lab-x", code="no-bucket")


@pytest.fixture
def heard() -> Heard:
    return Heard()


def away() -> Store:
    raise NO_BUCKET


def test_not_ready_is_said_in_words_that_name_nothing(tmp_path: Path, heard: Heard) -> None:
    """Whoever reaches the port may ask; the node's file is for who is on the node."""
    clock = Held()
    troubles = Troubles(settings(tmp_path), heard, clock)
    one = prewarm(settings(tmp_path), heard, away, troubles=troubles)
    assert one.begin()
    assert one.unready() == f"domain {DOMAIN}: what its pods are likely to need is being fetched"
    assert not one.round()
    troubles.pausing(15.0)
    said = one.unready()
    assert said.startswith(f"domain {DOMAIN}: the store gave no_bucket (")
    assert said.endswith("; tried again in 15.0 s")
    assert "lab-x" not in said
    found = standing.read(tmp_path)
    assert found is not None
    fault = found.faults[DOMAIN]
    assert (found.node, fault.code, fault.error) == ("n1", "no_bucket", "there is no bucket lab-x")


def test_a_store_that_answers_again_leaves_nothing_of_it(tmp_path: Path, heard: Heard) -> None:
    there = False

    def opened() -> Store:
        return open_store((tmp_path / "bucket").as_uri(), {}) if there else away()

    one = prewarm(settings(tmp_path), heard, opened)
    assert one.begin()
    assert not one.round()
    there = True
    assert one.round()
    assert one.unready() == ""
    found = standing.read(tmp_path)
    assert found is not None
    assert found.faults == {}


def test_it_lasts_after_a_minute(tmp_path: Path, heard: Heard) -> None:
    clock = Held()
    troubles = Troubles(settings(tmp_path), heard, clock)
    for second in (0.0, 30.0, 60.0, 61.0, 90.0):
        clock.at = second
        troubles.failed([DOMAIN], "list", NO_BUCKET)
    assert heard.of("lasting") == [((DOMAIN,), "no-bucket", 61.0), ((DOMAIN,), "no-bucket", 90.0)]
    troubles.over([DOMAIN])
    troubles.failed([DOMAIN], "list", NO_BUCKET)
    assert len(heard.of("lasting")) == 2, "it begins anew"


def test_the_words_of_the_agent_before_go(tmp_path: Path, heard: Heard) -> None:
    Troubles(settings(tmp_path), heard).failed([DOMAIN], "list", NO_BUCKET)
    Troubles(settings(tmp_path), heard).begin()
    found = standing.read(tmp_path)
    assert found is not None
    assert found.faults == {}


def test_nothing_is_written_where_nothing_is_kept(tmp_path: Path, heard: Heard) -> None:
    Troubles(settings(tmp_path, kept=False), heard).failed([DOMAIN], "list", NO_BUCKET)
    assert list(tmp_path.iterdir()) == []
