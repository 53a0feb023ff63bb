"""What counts as a version, and what is said of one that the catalogue does not have."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.catalog.releases import version_key
from glowplug.core.errors import UsageError
from glowplug.plan.outcome import Plan
from glowplug.plan.versions import engine_version, streamer_version
from glowplug.render.serving import serving
from tests.plan.known import plan, rules


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.21.0", "0.21.0"),
        ("v0.21.0", "0.21.0"),
        ("V1", "1"),
        (" 0.10.1.1 ", "0.10.1.1"),
        ("0.5.6.post2", "0.5.6.post2"),
        ("0.22.0rc1", "0.22.0rc1"),
        ("1.2.0rc6.post3", "1.2.0rc6.post3"),
        ("9.9", "9.9"),
    ],
)
def test_versions(text: str, version: str) -> None:
    assert engine_version(text, "vllm") == version
    assert streamer_version(text) == version
    assert version_key(version) < version_key("no version")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest",
        "Latest",
        "nightly",
        "main",
        "0.21.0-cu129",
        "0.21.x",
        ">=0.21",
        "0..1",
        "0.21.",
        ".21",
        "vv1",
        "1.2.3.4.5",
        "0.21 && true",
        "0.21.0\n",
        "٣.١",
        "1" * 10**5,
        "$(id)",
    ],
)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_what_is_no_version_is_refused_with_those_that_are(text: str, engine: str) -> None:
    if text.strip() == "0.21.0":
        return
    with pytest.raises(UsageError) as caught:
        engine_version(text, engine)
    assert caught.value.exit_status == 2
    assert len(str(caught.value)) < 200
    newest = {"vllm": "0.33.0", "sglang": "0.5.23", "tensorrt-llm": "1.2.3"}[engine]
    assert newest in caught.value.hint
    with pytest.raises(UsageError, match="--streamer-version") as caught:
        streamer_version(text)
    assert "0.17.1" in caught.value.hint


def test_latest_has_an_answer_of_its_own() -> None:
    with pytest.raises(UsageError, match="moves") as caught:
        engine_version("latest", "vllm")
    assert caught.value.hint.startswith("leave it out")


@given(st.text(max_size=30))
def test_any_text_is_a_version_or_our_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert version_key(engine_version(text, "vllm")) < version_key("no version")


def message(found: Plan, rule: str) -> str:
    return next(one.message for one in found.findings if one.rule == rule and one.severity == "info")


@pytest.mark.parametrize(
    ("engine", "version", "planned"),
    [
        ("vllm", "9.9", "planned as 0.33.0"),
        ("vllm", "0.21.7", "planned as 0.21.0"),
        ("vllm", "0.22.0rc1", "planned as 0.21.0"),
        ("vllm", "0.6.6", "before 0.10.0"),
        ("sglang", "1.0", "planned as 0.5.23"),
        ("tensorrt-llm", "1.2.0rc6", "nothing in this plan depends on it"),
    ],
)
def test_a_version_that_nobody_listed_is_served_and_said(engine: str, version: str, planned: str) -> None:
    found = plan(30, engine=engine, engine_version=version)
    assert found.engine_version == version
    assert planned in message(found, "engine-version-unknown")
    assert "was released" not in found.why("--streamer-version")


def test_it_is_planned_as_the_release_that_it_says() -> None:
    """0.21.7 is not in any table: `distributed` is as unsafe as in 0.21.0."""
    one, other = (plan(30, engine_version=version, tensor_parallel_size=2) for version in ("0.21.7", "0.21.0"))
    assert (one.streaming, one.streamer_version) == (other.streaming, other.streamer_version)
    assert not one.streaming.distributed


@pytest.mark.parametrize("version", ["0.21.0", "v0.33.0", "0.33.0"])
def test_a_known_version_is_no_news(version: str) -> None:
    found = plan(30, engine_version=version)
    assert "engine-version-unknown" not in rules(found)
    assert "was released" in found.why("--streamer-version")


@pytest.mark.parametrize(
    ("version", "planned"),
    [
        ("9.9", "planned as 0.17.1"),
        ("0.16.7", "planned as 0.16.1"),
        ("0.1", "before 0.8.0"),
        ("0.17.1", ""),
        ("0.16.0", ""),
    ],
)
@pytest.mark.parametrize("profile", ["auto", "guide"])
def test_a_streamer_that_nobody_listed_too(version: str, planned: str, profile: str) -> None:
    found = plan(30, streamer_version=version, profile=profile)
    assert found.streamer_version == version
    assert ("streamer-version-unknown" in rules(found)) is bool(planned)
    assert not planned or planned in message(found, "streamer-version-unknown")


def test_an_engine_without_a_list_of_releases_is_planned_as_the_image_that_is_rendered() -> None:
    found = plan(30, engine="tensorrt-llm")
    assert serving("tensorrt-llm").image_of(found.engine_version).endswith(":1.0.0")
    assert found.engine_version == "1.0.0"
    assert "newest" not in found.why("--engine-version")
