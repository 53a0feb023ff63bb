"""Versions in order, and which release a version stands for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.catalog.releases import newest, release, release_or_older, releases, version_key
from glowplug.core.errors import NotFoundError

IN_ORDER = [
    "0.9", "0.10.0.dev1", "0.10.0a1", "0.10.0b2", "0.10.0rc1", "0.10.0rc2", "0.10.0", "0.10.0.post1", "0.10.0.post2",
    "0.10.1", "0.10.1.1", "0.10.2", "0.21.0", "1.0",
]  # fmt: skip


def test_versions_sort_as_they_were_released() -> None:
    keys = [version_key(version) for version in IN_ORDER]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("one", "other"), [("0.21", "0.21.0"), ("v0.21.0", "0.21.0"), ("0.21.0+cu129", "0.21.0"), (" 0.21.0\n", "0.21.0")]
)
def test_spellings_of_one_version(one: str, other: str) -> None:
    assert version_key(one) == version_key(other)


@given(st.text())
def test_what_is_no_version_counts_as_new(text: str) -> None:
    key = version_key(text)
    assert key > version_key("999999.0") or text.strip().lower().lstrip("v")[:1].isdigit()


def test_digits_without_end_are_no_version() -> None:
    assert version_key("1" * 10**6) > version_key("999999.0")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_newest_is_last(engine: str) -> None:
    assert newest(engine) == releases(engine)[-1]
    assert newest(engine).date == max(one.date for one in releases(engine))


def test_an_engine_without_a_table() -> None:
    assert releases("tensorrt-llm") == ()
    assert release("tensorrt-llm", "1.0") is None
    with pytest.raises(NotFoundError):
        newest("tensorrt-llm")


def test_the_guides_version() -> None:
    found = release("vllm", "v0.21.0")
    assert found is not None
    assert (found.torch, found.triton, found.streamer_minimum, found.newest_streamer) == (
        "2.11.0",
        "3.6.0",
        "0.15.7",
        "0.15.9",
    )


@pytest.mark.parametrize(
    ("version", "exact", "served"),
    [
        ("0.21.0", "0.21.0", "0.21.0"),
        ("0.21.1", None, "0.21.0"),
        ("0.21.0rc1", None, "0.20.2"),
        ("99.0", None, "0.33.0"),
        ("main", None, "0.33.0"),
        ("0.9.2", None, None),
    ],
)
def test_an_unlisted_version_is_served_like_the_one_before(version: str, exact: str | None, served: str | None) -> None:
    found, older = release("vllm", version), release_or_older("vllm", version)
    assert (found.version if found else None) == exact
    assert (older.version if older else None) == served


@pytest.mark.parametrize(
    ("engine", "version", "minimum"),
    [
        ("vllm", "0.10.0", "0.13.3"),
        ("vllm", "0.33.0", "0.15.7"),
        ("sglang", "0.5.5", None),
        ("sglang", "0.5.9", None),  # only its extra for diffusion models requires the streamer
        ("sglang", "0.5.10", "0.15.7"),
    ],
)
def test_lower_bound_of_the_streamer(engine: str, version: str, minimum: str | None) -> None:
    found = release(engine, version)
    assert found is not None
    assert found.streamer_minimum == minimum
