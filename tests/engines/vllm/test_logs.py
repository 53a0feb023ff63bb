"""What the engine said, in the wording of every version."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.documents.start import PHASES
from glowplug.engines.adapter import Trace
from glowplug.engines.registry import by_name

LOGS = Path(__file__).parent / "logs"
RANGE = "compile range (1, 2048)"


def read(lines: list[str], step: float = 0.5) -> Trace:
    adapter = by_name("vllm")
    assert adapter is not None
    reader = adapter.log_reader()
    for place, line in enumerate(lines):
        reader.feed(line, place * step)
    return reader.trace()


def trace(name: str) -> Trace:
    return read((LOGS / f"{name}.log").read_text("utf-8").split("\n"))


def test_every_fixture_is_understood() -> None:
    for path in LOGS.glob("*.log"):
        found = trace(path.stem)
        says_something = found.loaded or found.compiled or found.disabled or found.engine_init_seconds
        assert says_something, path.name
        if path.name.startswith("0.32.0"):
            assert found.started
            assert found.engine_version == "0.32.0"


@pytest.mark.parametrize("name", ["aot", "mega-aot"])
def test_recorded_cold_start(name: str) -> None:
    found = trace(f"0.32.0-{name}-cold")
    assert found.compiled == (RANGE,)
    assert found.loaded == ()
    assert len(found.saved) == 1
    assert found.saved[0].endswith("/rank_0_0/model")
    assert found.compile_seconds is not None
    assert found.engine_init_seconds is not None
    assert 20 < found.compile_seconds < found.engine_init_seconds


@pytest.mark.parametrize("name", ["aot", "mega-aot"])
def test_recorded_hit(name: str) -> None:
    found = trace(f"0.32.0-{name}-hit")
    assert found.compiled == ()
    assert found.saved == ()
    assert found.rejections == ()
    assert any(path.endswith("/rank_0_0/model") for path in found.loaded)


def test_recorded_piecewise_hit() -> None:
    cold, hit = trace("0.32.0-vllm-compile-cold"), trace("0.32.0-vllm-compile-hit")
    assert (cold.compiled, cold.loaded) == ((RANGE,), ())
    assert (hit.compiled, hit.loaded) == ((), (RANGE,))
    assert cold.saved == hit.saved == ()


def test_recorded_rejection() -> None:
    found = trace("0.32.0-stock-aot-hit")
    assert len(found.rejections) == 1
    assert "'function' object has no attribute 'finalize_loading'" in found.rejections[0]
    assert found.loaded == ()


def test_the_recorded_rejection_is_of_compilation_mode_2() -> None:
    """docs/engines.md says so: mode 1 never comes to AOT."""
    text = (LOGS / "0.32.0-stock-aot-hit.log").read_text()
    assert "'mode': <CompilationMode.DYNAMO_TRACE_ONCE: 2>" in text
    assert "'VLLM_USE_AOT_COMPILE'" not in text


def test_0_10_hit_of_two_ranks() -> None:
    found = trace("0.10.2-hit-tp2")
    assert found.engine_version == "0.10.2"
    assert found.loaded == ("dynamic shape",)
    assert found.compiled == ()
    assert found.compile_seconds == 6.80
    assert found.weights_seconds == 10.02
    assert found.weights_bytes == 2 * round(14.0786 * 2**30)
    assert found.model_load_seconds == 10.747948
    assert found.graph_capture_seconds == 18
    assert found.engine_init_seconds == 31.45
    assert found.started


def test_0_10_miss() -> None:
    found = trace("0.10.0-miss")
    assert found.compiled == ("dynamic shape",)
    assert found.compile_seconds == 21.38
    assert found.engine_init_seconds == 46.2


def test_0_14_bad_aot_entry() -> None:
    found = trace("0.14.1-bad-aot")
    assert found.rejections[0].startswith(
        "Compile package was created with a different PyTorch version: 2.9.0 (/compile-cache/"
    )
    assert found.compiled == ("compile range (1, 8192)",)


def test_0_21_hit_with_streamed_weights() -> None:
    found = trace("0.21.0-hit-streamed")
    assert found.loaded[0] == RANGE
    assert found.loaded[1].endswith("/rank_0_0/model")
    assert found.weights_bytes == 2 * round(27.3 * 2**30)
    assert found.weights_seconds == 4.91
    assert found.compile_seconds == 4.38
    assert found.warmup_seconds == 0.11


def test_cache_off() -> None:
    found = trace("0.21.0-cache-off")
    assert "cache is disabled" in found.disabled
    assert found.compile_seconds == 31.38


def test_debug_level_and_lines_behind_a_collectors_prefix() -> None:
    found = trace("0.33.0-hit-debug")
    assert found.loaded == (RANGE,)
    assert found.compile_seconds == 2.10


def test_colours_tags_and_carriage_returns_change_nothing() -> None:
    plain = (LOGS / "0.21.0-hit-streamed.log").read_text("utf-8").splitlines()
    dressed = [f"\x1b[32m{line.replace('] Directly', '] [backbone] Directly')}\x1b[0m" for line in plain]
    bar = "Loading safetensors using Runai Model Streamer:  {0}% Completed | {0}/100 [00:0{1}<00:00, 9it/s]"
    dressed[2:2] = ["\r".join(bar.format(done, done // 30) for done in (0, 50, 100))]
    one, other = read(plain), read(dressed)
    for name in (
        "loaded",
        "compiled",
        "weights_bytes",
        "weights_seconds",
        "compile_seconds",
        "engine_init_seconds",
        "started",
    ):
        assert getattr(one, name) == getattr(other, name)


def test_a_progress_bar_alone_gives_the_seconds_of_the_weights() -> None:
    bar = "Loading safetensors using Runai Model Streamer:  {}% Completed | {}/100 [00:0{}<00:00, 9it/s]"
    found = read([bar.format(0, 0, 0), bar.format(50, 50, 2), bar.format(100, 100, 4)], step=2.0)
    assert found.weights_seconds == 4.0
    assert ("weights", 0.0, 4.0) in found.marks


def test_marks_are_phases_in_order() -> None:
    for path in LOGS.glob("*.log"):
        marks = trace(path.stem).marks
        assert [mark[1] for mark in marks] == sorted(mark[1] for mark in marks)
        assert {mark[0] for mark in marks} <= set(PHASES)
        assert all(start >= 0 and seconds >= 0 for _, start, seconds in marks)


def test_the_argument_line_is_no_evidence() -> None:
    line = (
        "INFO 11-30 09:04:10 [api_utils.py:286] non-default args: {'api_key': ['sk torch.compile took 1 s in total']}"
    )
    found = read([line])
    assert found.lines == ()
    assert found.compile_seconds is None


def test_a_silent_line_is_cheap() -> None:
    adapter = by_name("vllm")
    assert adapter is not None
    reader = adapter.log_reader()
    line = 'INFO:     127.0.0.1:37522 - "POST /v1/completions HTTP/1.1" 200 OK' + " x" * 200
    begun = time.process_time()
    for _ in range(20_000):
        reader.feed(line, 1.0)
    assert time.process_time() - begun < 2.0


TELLING = st.sampled_from(
    [
        "Directly load",
        " AOT compilation from path ",
        "torch.compile took ",
        " s in total",
        "init engine (",
        ") took ",
        "1.5",
        "9" * 40,
        "[RunAI Streamer] Overall time to stream ",
        " GiB",
        " of all files: ",
        "s,",
        "\r",
        "\x1b[31m",
        "(Worker pid=1) ",
        "100% Completed | 1/1 [00:01<",
    ]
)


@given(st.lists(st.one_of(TELLING, st.text(max_size=20)), max_size=12).map("".join), st.floats(0, 1e6))
def test_any_line(line: str, at: float) -> None:
    adapter = by_name("vllm")
    assert adapter is not None
    reader = adapter.log_reader()
    reader.feed(line, at)
    reader.feed(line.encode("utf-8", "surrogateescape").decode("latin-1"), at)
    assert isinstance(reader.trace(), Trace)


@pytest.mark.parametrize(
    "line",
    [
        "Directly load the compiled graph(s) for " * 4000,
        "(" * 100_000,
        "torch.compile took " + "9" * 100_000,
        "\x1b[" * 50_000,
    ],
)
def test_hostile_lines_take_no_time(line: str) -> None:
    begun = time.process_time()
    read([line] * 20)
    assert time.process_time() - begun < 2.0
