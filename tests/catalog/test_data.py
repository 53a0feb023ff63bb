"""The tables themselves: every row whole, in range, dated, with a source, and in agreement with the others."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path

import pytest

import glowplug
from glowplug.catalog.gpus import Gpu, gpus
from glowplug.catalog.instances import Instance, instance, instances
from glowplug.catalog.limits import Fact, fact, facts
from glowplug.catalog.prices import prices
from glowplug.catalog.releases import releases, version_key
from glowplug.catalog.streamer import Variable, variable, variables
from glowplug.core.tables import source, table

PACKAGE = "glowplug.catalog"
TABLES = {
    "gpus": ("name",),
    "instances": ("name",),
    "releases": ("engine", "version"),
    "streamer": ("name",),
    "neighbours": ("name",),
    "limits": ("name",),
    "prices": ("instance", "region"),
    "max_pods": ("name",),
    "endpoints": ("suffix",),
}
DATED = ("gpus", "instances", "streamer", "limits", "prices")
ENGINES = ("vllm", "sglang")
SOURCES = Path(glowplug.__file__).parent
DATE = re.compile(r"20(?:1[89]|2\d)(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?")
VERSION = re.compile(r"\d+(?:\.\d+)+")
each_instance = pytest.mark.parametrize("machine", instances(), ids=lambda one: one.name)
each_gpu = pytest.mark.parametrize("card", gpus(), ids=lambda one: one.name)
each_variable = pytest.mark.parametrize("one", variables(), ids=lambda one: one.name)
each_fact = pytest.mark.parametrize("one", facts(), ids=lambda one: one.name)
each_engine = pytest.mark.parametrize("engine", ENGINES)


def test_every_table_is_listed_here() -> None:
    assert {path.stem for path in (SOURCES / "catalog" / "data").iterdir()} == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_a_tables_head_says_where_it_comes_from(name: str) -> None:
    assert "Source" in source(PACKAGE, name)


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_whole(name: str) -> None:
    rows = table(PACKAGE, name)
    assert rows
    for row in rows:
        assert None not in row
        assert None not in row.values(), row
        assert all(cell == cell.strip() for cell in row.values()), row
        assert all(row[column] for column in TABLES[name]), row


@pytest.mark.parametrize("name", TABLES)
def test_no_row_is_there_twice(name: str) -> None:
    counted = Counter(tuple(row[column] for column in TABLES[name]) for row in table(PACKAGE, name))
    assert [key for key, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("name", DATED)
def test_every_row_has_a_date_and_a_source(name: str) -> None:
    for row in table(PACKAGE, name):
        assert DATE.fullmatch(row["date"]), row
        assert len(row["source"]) > 5 or row["source"] == "SDK", row


# GPUs


@each_gpu
def test_a_gpus_row(card: Gpu) -> None:
    assert re.fullmatch(r"sm_\d{2,3}", card.capability)
    assert re.fullmatch(r"[a-z0-9-]+", card.name)
    assert 8 * 1024**3 < card.memory_bytes < 512 * 1024**3
    assert all(alias == alias.strip() for alias in card.aliases)


@each_gpu
def test_ec2_and_nvml_speak_of_the_same_card(card: Gpu) -> None:
    if card.nvml_memory_bytes is not None:
        assert abs(card.ec2_memory_bytes / card.nvml_memory_bytes - 1) < 0.15


@each_gpu
def test_a_label_is_what_feature_discovery_makes_of_the_name(card: Gpu) -> None:
    kept = re.sub(r"[^A-Za-z0-9\-_. ]", "", card.nvml_name)
    assert card.label == "-".join(kept.split())


@each_gpu
def test_a_gpus_families_are_those_of_the_instances_that_have_it(card: Gpu) -> None:
    assert set(card.families) == {one.family for one in instances() if one.gpu == card}


def test_only_memory_tells_the_cards_of_one_ec2_name_apart() -> None:
    by_name: dict[str, list[int]] = {}
    for card in gpus():
        by_name.setdefault(card.ec2_name, []).append(card.ec2_memory_bytes)
    assert {name for name, sizes in by_name.items() if len(sizes) > 1} == {"a100"}
    assert all(large > 1.5 * small for sizes in by_name.values() for small, large in itertools.pairwise(sorted(sizes)))


# Instances


@each_instance
def test_an_instances_row(machine: Instance) -> None:
    assert re.fullmatch(r"[a-z0-9-]+\.(?:large|\d*xlarge|metal)", machine.name)
    assert machine.gpu in gpus()
    assert machine.gpus in ({0} if machine.fractional else {1, 2, 4, 8})
    assert 2 <= machine.vcpus <= 192
    assert 4 * 1024**3 < machine.memory_bytes <= 4 * 1024**4
    assert 0 <= machine.nvme_bytes <= 31e12
    assert machine.arch in {"amd64", "arm64"}
    assert machine.network_how in {"one card", "stated", "divided"}


@each_instance
def test_gpu_memory_of_an_instance(machine: Instance) -> None:
    if machine.fractional:
        assert machine.gpu_memory_bytes < machine.gpu.memory_bytes
    else:
        assert machine.gpu_memory_bytes == machine.gpu.memory_bytes


@each_instance
def test_cards_add_up_to_the_label(machine: Instance) -> None:
    """Where EC2 states a card's share, its label may count more: EFA on p6-b200, 16 of 17 cards on p6-b300."""
    together = machine.network_cards * machine.primary_network_bps
    assert machine.primary_network_bps <= machine.network_bps
    assert (machine.network_cards == 1) == (machine.network_how == "one card")
    if machine.family in {"p6-b200", "p6-b300"}:
        assert machine.network_bps / 2 <= together <= machine.network_bps
        assert "EC2 states" in machine.note
    else:
        assert together == machine.network_bps
    if machine.network_how == "divided":
        assert "by division" in machine.note


@each_instance
def test_what_bursts_says_so_and_is_small(machine: Instance) -> None:
    assert machine.burst_bps >= machine.primary_network_bps
    assert machine.ebs_bps >= machine.ebs_baseline_bps > 0
    if machine.burst_bps > machine.primary_network_bps:
        assert machine.vcpus <= fact("ec2.burst_vcpus_max").value
        assert "burst" in machine.note


@each_instance
def test_pcie_is_the_rate_of_some_generation(machine: Instance) -> None:
    if machine.pcie_bytes_per_second is not None:
        assert machine.pcie_bytes_per_second in {15.75e9, 32e9, 64e9, 128e9}
        assert not machine.fractional


def test_a_family_shares_what_a_family_shares() -> None:
    for _, group in itertools.groupby(instances(), key=lambda one: one.family):
        family = list(group)
        assert (
            len({(one.gpu, one.arch, one.auto_mode, one.fractional, one.pcie_bytes_per_second) for one in family}) == 1
        )


def test_rows_of_a_family_stand_together() -> None:
    families = [name for name, _ in itertools.groupby(one.family for one in instances())]
    assert len(families) == len(set(families))


def test_auto_mode_has_the_families_of_its_guide() -> None:
    assert {one.family for one in instances() if not one.auto_mode} == {"g7", "g6f", "gr6f"}


# Prices


def test_prices_are_of_instances_that_exist() -> None:
    assert {one.instance for one in prices()} <= {one.name for one in instances()}
    assert {one.region for one in prices()} == {"us-east-1"}
    assert all(0.1 < one.usd_per_hour < 200 for one in prices())


def test_a_machine_that_has_more_of_everything_costs_more() -> None:
    for small, large in itertools.permutations(instances(), 2):
        if small.family != large.family or small.usd_per_hour is None or large.usd_per_hour is None:
            continue
        if small.gpus <= large.gpus and small.vcpus < large.vcpus and small.memory_bytes <= large.memory_bytes:
            assert small.usd_per_hour < large.usd_per_hour, (small.name, large.name)


# Releases


@each_engine
def test_releases_are_dated_in_the_order_of_their_versions(engine: str) -> None:
    dates = [one.date for one in releases(engine)]
    assert dates == sorted(dates)
    assert all(DATE.fullmatch(date) and len(date) == len("2026-11-30") for date in dates)


@each_engine
def test_what_a_release_carries_never_goes_back(engine: str) -> None:
    for older, newer in itertools.pairwise(releases(engine)):
        assert version_key(older.torch) <= version_key(newer.torch)
        assert version_key(older.newest_streamer or "0") <= version_key(newer.newest_streamer or "0")
        assert float(older.cuda) <= float(newer.cuda)


@each_engine
def test_versions_of_a_release(engine: str) -> None:
    for one in releases(engine):
        assert version_key(one.version) < version_key("no version")
        assert VERSION.fullmatch(one.torch)
        assert VERSION.fullmatch(one.triton.removeprefix("~="))
        assert VERSION.fullmatch(one.cuda)
        assert one.newest_streamer is not None
        if one.streamer_minimum is not None:
            assert version_key(one.streamer_minimum) <= version_key(one.newest_streamer)


def test_torch_and_triton_go_together() -> None:
    pairs = {(one.torch, one.triton, one.cuda) for engine in ENGINES for one in releases(engine)}
    assert len({torch for torch, _, _ in pairs}) == len(pairs)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_release_with_a_bound_has_it_read(engine: str) -> None:
    for one in releases(engine):
        bounds = [part for part in one.streamer.split("; ") if ">=" in part and "diffusion" not in part]
        assert (one.streamer_minimum is not None) == bool(bounds), one.version


# Variables of the streamer

BELOW_WHAT_COUNTS = {"RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS": "the SDK raises its own default of 1 s to 3 s"}


@each_variable
def test_a_variables_row(one: Variable) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9_]+", one.name)
    assert one.type in {"integer", "float", "boolean", "enum", "list", "text", "path", "url"}
    assert one.what
    assert not one.since or VERSION.fullmatch(one.since)
    assert not one.until or VERSION.fullmatch(one.until)
    assert not one.until or version_key(one.since) < version_key(one.until)
    assert bool(one.instead) == one.dead
    if one.instead:
        assert variable(one.instead) is not None


@each_variable
def test_a_variables_numbers(one: Variable) -> None:
    if one.type not in {"integer", "float"}:
        assert one.minimum is one.maximum is one.default_number is None
        return
    assert one.default == "" or one.default_number is not None
    if one.default_number is not None:
        assert one.maximum is None or one.default_number <= one.maximum
        below = one.minimum is not None and one.default_number < one.minimum
        assert below == (one.name in BELOW_WHAT_COUNTS)


@each_variable
def test_a_variables_words(one: Variable) -> None:
    assert bool(one.values) == (one.type == "enum")
    if one.type == "enum":
        assert one.default in one.values
    if one.type == "boolean":
        assert one.default in {"0", "1", "true", "false"}


def test_neighbours_are_not_the_streamers() -> None:
    assert not {row["name"] for row in table(PACKAGE, "neighbours")} & {one.name for one in variables()}


# Limits


@each_fact
def test_a_facts_row(one: Fact) -> None:
    assert re.fullmatch(r"[a-z0-9_]+\.[a-z0-9_]+", one.name)
    assert one.value >= 0
    assert one.unit in {"bit/s", "byte/s", "byte", "s", "ms", "1/s", "count", "share", "GB", "USD/GB", "USD/h"}
    assert one.unit != "share" or one.value <= 1


@each_fact
def test_a_facts_name_says_its_unit(one: Fact) -> None:
    words = {
        "bit/s": "bits_per_second",
        "USD/GB": "usd_per_gb",
        "USD/h": "usd_per_hour",
        "1/s": "per_second",
        "s": "seconds",
    }
    assert words.get(one.unit, "") in one.name


@each_fact
def test_a_secondary_source_says_so(one: Fact) -> None:
    assert ("secondary" in one.note) == ("secondary" in one.source or "blog" in one.source)


def test_a_least_is_not_above_a_most() -> None:
    names = {one.name for one in facts()}
    for name in names:
        if name.endswith("_max") and name.removesuffix("_max") in names:
            assert fact(name.removesuffix("_max")).value <= fact(name).value
        if name.endswith("_max") and f"{name.removesuffix('_max')}_min" in names:
            assert fact(f"{name.removesuffix('_max')}_min").value <= fact(name).value


def test_an_unknown_fact_is_a_fault_of_the_program() -> None:
    with pytest.raises(KeyError):
        fact("nat.no_such_thing")


def test_every_fact_that_the_package_asks_for_is_there() -> None:
    asked = {
        name
        for path in SOURCES.rglob("*.py")
        for name in re.findall(r"\bfact\(\s*\"([^\"{]+)\"", path.read_text("utf-8"))
    }
    assert asked - {one.name for one in facts()} == set()


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("streamer.concurrency", "RUNAI_STREAMER_OBJ_CONCURRENCY"),
        ("streamer.chunk_bytes", "RUNAI_STREAMER_CHUNK_BYTESIZE"),
        ("streamer.ring_buffers", "RUNAI_STREAMER_RING_BUFFERS"),
        ("streamer.memory_limit_bytes", "RUNAI_STREAMER_MEMORY_LIMIT"),
        ("streamer.staging_bytes_min", "RUNAI_STREAMER_DIST_BUFFER_MIN_BYTESIZE"),
    ],
)
def test_a_fact_and_a_variables_default_agree(name: str, of: str) -> None:
    found = variable(of)
    assert found is not None
    assert fact(name).value == found.default_number


@pytest.mark.parametrize(
    ("name", "of", "bound"),
    [
        ("streamer.concurrency_max", "RUNAI_STREAMER_CONCURRENCY", "maximum"),
        ("streamer.chunk_bytes_min", "RUNAI_STREAMER_CHUNK_BYTESIZE", "minimum"),
        ("streamer.request_timeout_ms_min", "RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS", "minimum"),
    ],
)
def test_a_fact_and_a_variables_bound_agree(name: str, of: str, bound: str) -> None:
    assert fact(name).value == getattr(variable(of), bound)


def test_the_guides_numbers() -> None:
    assert fact("guide.chunk_bytes").value == 4294967296
    assert fact("guide.request_timeout_ms").value == 3000
    assert fact("guide.low_speed_limit_bytes_per_second").value == 1048576
    assert fact("nat.bits_per_second_max").value == 100e9
    assert fact("nat.connections_per_destination").value == 55_000
    assert instance("p5.48xlarge").primary_network_bps <= fact("s3.bits_per_second_per_instance").value
