"""Which variables the streamer reads, and which one a misspelt name means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.catalog.streamer import nearest, variable, variables

LIVING = [one.name for one in variables() if not one.dead]


def test_the_guides_variables() -> None:
    chunk = variable("RUNAI_STREAMER_CHUNK_BYTESIZE")
    timeout = variable("RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS")
    speed = variable("RUNAI_STREAMER_S3_LOW_SPEED_LIMIT")
    assert chunk is not None
    assert timeout is not None
    assert speed is not None
    assert (chunk.type, chunk.default_number, chunk.minimum, chunk.unit) == ("integer", 8388608, 5242880, "bytes")
    assert (timeout.default_number, timeout.minimum) == (1000, 3000)
    assert speed.default_number == 0


def test_the_dead_one_names_its_successor() -> None:
    dead = variable("RUNAI_STREAMER_S3_ENDPOINT")
    assert dead is not None
    assert dead.dead
    assert dead.instead == "AWS_ENDPOINT_URL"
    assert [dead.known_to(version) for version in ("0.8.0", "0.9.0", "0.11.2", "0.12.0", "0.17.1")] == [
        False, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "version", "known"),
    [
        ("RUNAI_STREAMER_CONCURRENCY", "0.8.0", True),
        ("RUNAI_STREAMER_OBJ_CONCURRENCY", "0.16.1", False),
        ("RUNAI_STREAMER_OBJ_CONCURRENCY", "0.17.0", True),
        ("RUNAI_STREAMER_S3_UNSIGNED", "0.15.8", False),
        ("AWS_REGION", "0.8.0", True),
        ("RUNAI_STREAMER_RING_BUFFERS", "9.9", True),
    ],
)
def test_since_when(name: str, version: str, known: bool) -> None:
    found = variable(name)
    assert found is not None
    assert found.known_to(version) is known


@pytest.mark.parametrize("name", ["runai_streamer_concurrency", "RUNAI_STREAMER_CONCURRENCY ", "", "PATH"])
def test_names_are_exact(name: str) -> None:
    assert variable(name) is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("RUNAI_STREAMER_CONCURENCY", "RUNAI_STREAMER_CONCURRENCY"),
        ("RUNAI_STREAMER_CHUNK_SIZE", "RUNAI_STREAMER_CHUNK_BYTESIZE"),
        ("RUNAI_STREAMR_CONCURRENCY", "RUNAI_STREAMER_CONCURRENCY"),
        ("RUN_AI_STREAMER_CONCURRENCY", "RUNAI_STREAMER_CONCURRENCY"),
        ("runai_streamer_memory_limit", "RUNAI_STREAMER_MEMORY_LIMIT"),
        ("RUNAI-STREAMER-S3-TIMEOUT", "RUNAI_STREAMER_S3_TIMEOUT"),
        ("RUNAI_STREAMER_S3_ENDPOINT_URL", "AWS_ENDPOINT_URL"),
        ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        ("AWS_S3_ENDPOINT", "AWS_ENDPOINT_URL"),
        ("AWS_ENDPONT_URL", "AWS_ENDPOINT_URL"),
        ("AWS_REGON", "AWS_REGION"),
        ("AWS_DEFAULT_REGIN", "AWS_DEFAULT_REGION"),
        ("AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
        ("AWS_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_misspelt(written: str, meant: str) -> None:
    assert nearest(written) == meant


@pytest.mark.parametrize(
    "name",
    [
        *[one.name for one in variables()],
        *[
            "AWS_STS_REGIONAL_ENDPOINTS",
            "AWS_ENDPOINT_URL_STS",
            "AWS_ROLE_SESSION_NAME",
            "AWS_PAGER",
            "AZURE_CLIENT_ID",
        ],
        *["AWS_SECRET_NAME", "AWS_BUCKET", "AWS_S3_BUCKET", "AWS_LOG_GROUP"],
        *["HOME", "PATH", "REGION", "ROLE_ARN", "CONFIG_FILE", "RUN_ID", "RUNTIME_ENV", "LOG_LEVEL", "CONCURRENCY"],
        *["RUNAI_JOB_NAME", "RUNAI_NUM_OF_GPUS", "RUNAI_STREAMER_", "RUNAI_STREAMER_FOO", "", "_"],
    ],
)
def test_right_or_unlike_any(name: str) -> None:
    assert nearest(name) is None


@given(st.sampled_from(LIVING).flatmap(lambda name: st.tuples(st.just(name), st.integers(0, len(name) - 1))))
def test_one_letter_forgotten_after_the_prefix(case: tuple[str, int]) -> None:
    name, at = case
    prefix = next((prefix for prefix in ("RUNAI_STREAMER_", "AWS_", "AZURE_STORAGE_") if name.startswith(prefix)), "")
    if prefix and at >= len(prefix):
        assert nearest(name[:at] + name[at + 1 :]) == name


@given(st.text() | st.text().map("RUNAI_STREAMER_".__add__) | st.text().map("AWS_".__add__))
def test_any_text_is_answered_with_a_living_variable_or_none(text: str) -> None:
    assert nearest(text) in {None, *LIVING}


def test_long_text_is_answered_at_once() -> None:
    assert nearest("RUNAI_STREAMER_" + "A" * 10**6) is None
