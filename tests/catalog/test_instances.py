"""Instance types by name, and what their numbers mean."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.catalog.instances import instance, instances
from glowplug.core.errors import GlowplugError, UsageError


def test_the_guides_machine() -> None:
    machine = instance("p5.48xlarge")
    assert (machine.gpus, machine.gpu.name) == (8, "h100-80gb")
    assert machine.network_bps == 3.2e12
    assert (machine.network_cards, machine.primary_network_bps) == (32, 100e9)
    assert (machine.vcpus, machine.memory_bytes, machine.nvme_bytes) == (192, 2 * 1024**4, 30_400 * 1000**3)
    assert (machine.auto_mode, machine.arch, machine.fractional) == (True, "amd64", False)


@pytest.mark.parametrize(
    ("name", "cards", "gbps", "how"),
    [
        ("p4d.24xlarge", 4, 100, "stated"),
        ("p5en.48xlarge", 16, 200, "stated"),
        ("p6-b200.48xlarge", 8, 200, "stated"),
        ("p6-b300.48xlarge", 17, 350, "stated"),
        ("g6e.12xlarge", 1, 100, "one card"),
        ("g6e.48xlarge", 4, 100, "divided"),
        ("g7e.48xlarge", 4, 400, "stated"),
        ("g6.xlarge", 1, 2.5, "one card"),
    ],
)
def test_s3_traffic_has_one_card(name: str, cards: int, gbps: float, how: str) -> None:
    machine = instance(name)
    assert (machine.network_cards, machine.primary_network_bps, machine.network_how) == (cards, gbps * 1e9, how)


def test_small_types_are_listed_with_what_lasts() -> None:
    machine = instance("g6.xlarge")
    assert (machine.primary_network_bps, machine.burst_bps) == (2.5e9, 10e9)
    assert (machine.ebs_baseline_bps, machine.ebs_bps) == (1e9, 5e9)
    assert "burst" in machine.note


@pytest.mark.parametrize(("name", "mib"), [("g6f.large", 2861), ("g6f.4xlarge", 11444), ("gr6f.4xlarge", 11444)])
def test_a_fractional_type_has_no_gpu_by_ec2s_count_and_the_parts_memory(name: str, mib: int) -> None:
    machine = instance(name)
    assert machine.fractional
    assert machine.gpus == 0
    assert machine.gpu.name == "l4"
    assert machine.gpu_memory_bytes == mib * 1024**2


@pytest.mark.parametrize("written", ["P5.48xlarge", " p5.48xlarge ", "P5.48XLARGE"])
def test_case_does_not_matter(written: str) -> None:
    assert instance(written).name == "p5.48xlarge"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("p5.48xlrge", "p5.48xlarge"),
        ("p5", "p5.4xlarge or p5.48xlarge"),
        ("g6e12xlarge", "g6e.12xlarge"),
        ("p4d", "p4d.24xlarge"),
    ],
)
def test_unknown_names_come_with_what_was_meant(written: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        instance(written)
    assert caught.value.code == "unknown-instance"
    assert meant in caught.value.hint


def test_price_is_known_or_none() -> None:
    assert instance("g6.xlarge").usd_per_hour == 0.8048
    assert instance("p5e.48xlarge").usd_per_hour is None


@given(st.text() | st.sampled_from([one.name for one in instances()]).flatmap(lambda s: st.text().map(s.__add__)))
def test_any_text_is_a_type_or_our_error(text: str) -> None:
    try:
        assert instance(text) in instances()
    except GlowplugError as error:
        assert error.code == "unknown-instance"
        assert "\n" not in error.message


def test_long_text_is_answered_at_once() -> None:
    began = time.process_time()
    with pytest.raises(UsageError) as caught:
        instance("p" * 10**6)
    assert time.process_time() - began < 2
    assert len(caught.value.message) < 300
