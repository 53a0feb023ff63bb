"""A log as a start: real logs, torn logs, logs of several starts, and any bytes at all."""

from __future__ import annotations

import io
import itertools
import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glowplug.core.clock import from_iso
from glowplug.core.documents import codec
from glowplug.core.documents.start import Compile, Start
from glowplug.engines import registry
from glowplug.starts.from_log import UNRECOGNISED, from_log, lines

LOGS = Path(__file__).parent / "logs"
NOW = from_iso("2026-12-01T00:00:00Z")
READERS = {adapter.name: adapter.log_reader for adapter in registry.ADAPTERS}

BANNER = "(APIServer pid=1) INFO 11-30 09:00:{0:02} [api_server.py:1] vLLM API server version 0.11.0"
ENGINE = "(EngineCore pid=9) INFO 11-30 09:00:{0:02} [core.py:1] Initializing a V1 LLM engine (v0.11.0) with config: model='m'"
HIT = "(Worker pid=9) INFO 11-30 09:00:{0:02} [b.py:1] Directly load AOT compilation from path /c/model"
MISS = "(Worker pid=9) INFO 11-30 09:00:{0:02} [b.py:1] Compiling a graph for dynamic shape takes 6.00 s"
TOTAL = "(Worker pid=9) INFO 11-30 09:00:{0:02} [monitor.py:1] torch.compile takes 7.00 s in total"
WEIGHTS = "(Worker pid=9) INFO 11-30 09:00:{0:02} [loader.py:1] Loading weights took 3.40 seconds"
USING = "(Worker pid=9) INFO 11-30 09:00:{0:02} [b.py:1] Using cache directory: /c/vllm for vLLM's torch.compile"
OFF = "(Worker pid=9) INFO 11-30 09:00:{0:02} [b.py:1] vLLM's torch.compile cache is disabled."
REJECTED = (
    "WARNING 11-30 09:00:{0:02} [d.py:1] Compiling model again due to a load failure from /c/model, reason: guards"
)
INIT = "(EngineCore pid=9) INFO 11-30 09:00:{0:02} [core.py:1] init engine (profile, create kv cache) took 9.50 seconds"
READY = "INFO:     Application startup complete."


def start_of(data, **options):
    data = data if isinstance(data, bytes) else data.encode()
    return from_log(lines(io.BytesIO(data)), name="vllm.log", now=NOW, readers=READERS, **options)


def log(*templates):
    return "\n".join(template.format(second) for second, template in enumerate(templates, 10)) + "\n"


def check(start):
    """What holds for every start, whatever it was read from."""
    assert all(phase.seconds > 0 for phase in start.phases)
    for one, two in itertools.pairwise(start.phases):
        assert one.start_seconds + one.seconds <= two.start_seconds + 1e-6
    if start.ready_seconds is not None and start.phases:
        assert math.isclose(sum(phase.seconds for phase in start.phases), start.ready_seconds, abs_tol=1e-5)
    assert codec.from_json(Start, json.loads(json.dumps(codec.to_json(start)))).id == start.id


REAL = {
    "aot-1-cold": (Compile.MISS, 32.98, 35.57, 75.26),
    "aot-2-hit": (Compile.HIT, 1.95, 3.48, 29.01),
    "aot-3-hit": (Compile.HIT, 1.87, 4.52, 32.19),
    "aot-4-new-node": (Compile.HIT, 1.79, 3.85, 30.27),
    "mega-aot-2-hit": (Compile.HIT, 7.06, 10.17, 86.06),
    # Loads its function, throws it away and compiles again; its lines do not say for how long.
    "stock-aot-2-hit": (Compile.REJECTED, None, 15.65, 68.43),
}


@pytest.mark.parametrize("name", REAL)
def test_real_logs(name):
    verdict, compile_seconds, init, ready = REAL[name]
    start = start_of((LOGS / f"vllm-0.32.0-{name}.log").read_bytes())
    check(start)
    assert start.verdict.compile is verdict
    assert start.verdict.compile_seconds == (compile_seconds and pytest.approx(compile_seconds))
    assert start.verdict.evidence
    assert start.engine_init_seconds == pytest.approx(init)
    assert start.workload["engine"] == "vllm"
    assert start.workload["engine_version"] == "0.32.0"
    assert start.workload["model"] == "s3://models/tiny"
    assert start.workload["layout"] == {"tp": 1, "pp": 1, "dp": 1}
    # The first line comes some seconds after the process began, which only a watcher knows.
    assert 0.8 * ready < start.ready_seconds < ready
    compiled = math.fsum(phase.seconds for phase in start.phases if phase.name == "compile")
    assert compiled == pytest.approx(compile_seconds or 0.0, abs=0.01)
    assert start.started_at.startswith("2026-11-30T09:")


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ((HIT, TOTAL), Compile.HIT),
        ((MISS, TOTAL), Compile.MISS),
        ((HIT, MISS), Compile.PARTIAL),
        ((HIT, REJECTED, MISS), Compile.REJECTED),
        ((OFF, MISS), Compile.DISABLED),
        ((USING, TOTAL), Compile.UNKNOWN),
        ((), Compile.UNKNOWN),
    ],
)
def test_verdicts(said, verdict):
    start = start_of(log(BANNER, USING, *said, INIT, READY))
    check(start)
    assert start.verdict.compile is verdict
    assert bool(start.verdict.reason) is (verdict is not Compile.HIT)


def test_a_hit_that_compiled_for_long_is_told():
    start = start_of(log(BANNER, HIT, TOTAL.replace("7.00", "31.0")))
    assert start.verdict.compile is Compile.HIT
    assert "31 s" in start.verdict.reason


def test_phases_have_the_engines_seconds():
    start = start_of(log(BANNER, ENGINE, *[USING] * 5, WEIGHTS, *[USING] * 8, TOTAL, READY))
    check(start)
    assert {phase.name: phase.seconds for phase in start.phases if phase.name != "unattributed"} == {
        "imports": 1.0,
        "weights": 3.4,
        "compile": 7.0,
    }


def test_lines_without_stamps_give_seconds_but_no_phases():
    bare = "".join(line.split("] ", 1)[-1] + "\n" for line in log(BANNER, WEIGHTS, HIT, TOTAL, INIT).splitlines())
    start = start_of(bare)
    check(start)
    assert start.phases == ()
    assert start.started_at == ""
    assert start.ready_seconds is None
    assert start.weights.seconds == pytest.approx(3.4)
    assert start.engine_init_seconds == pytest.approx(9.5)
    assert start.verdict.compile is Compile.HIT


def test_the_last_of_several_starts_is_reported():
    first, second = log(BANNER, MISS, TOTAL, INIT, READY), log(BANNER, HIT, INIT, READY).replace(" 09:00", " 11:00")
    start = start_of(first + second)
    check(start)
    assert start.workload["starts_in_log"] == 2
    assert start.verdict.compile is Compile.HIT
    assert start.ready_seconds == pytest.approx(2.0)
    assert start.started_at.endswith("T11:00:10.000Z")


def test_real_starts_after_one_another():
    names = ("1-cold", "2-hit", "3-hit", "4-new-node")
    whole = b"".join((LOGS / f"vllm-0.32.0-aot-{name}.log").read_bytes() for name in names)
    start = start_of(whole)
    alone = start_of((LOGS / "vllm-0.32.0-aot-4-new-node.log").read_bytes())
    assert start.workload["starts_in_log"] == len(names)
    assert (start.ready_seconds, start.phases, start.verdict) == (alone.ready_seconds, alone.phases, alone.verdict)


def test_a_crash_loop_counts_every_start():
    start = start_of(log(BANNER, USING) * 4)
    assert start.workload["starts_in_log"] == 4
    assert start.ready_seconds is None


def test_servers_side_by_side_are_one_start():
    other = BANNER.replace("APIServer", "ApiServer_1")
    assert start_of(log(BANNER, other, MISS, INIT, READY)).workload["starts_in_log"] == 1


def test_engines_of_data_parallel_ranks_are_one_start():
    assert start_of(log(ENGINE, ENGINE, MISS, INIT, READY)).workload["starts_in_log"] == 1


def test_a_library_call_after_another_is_a_new_start():
    assert start_of(log(ENGINE, MISS, INIT, ENGINE, HIT, INIT)).workload["starts_in_log"] == 2


def test_midnight_and_new_year_pass():
    text = (
        "INFO 12-31 23:59:50 [a.py:1] vLLM API server version 0.11.0\nINFO 01-01 00:00:10 [a.py:1] Route: /health\n"
        + READY
    )
    start = start_of(text)
    assert start.ready_seconds == pytest.approx(20.0)
    assert start.started_at == "2025-12-31T23:59:50.000Z"


def test_what_comes_after_ready_does_not_change_the_start():
    text = log(BANNER, MISS, TOTAL, INIT, READY)
    later = text + "INFO 11-30 12:00:00 [loggers.py:1] Engine 000: Avg prompt throughput\n" * 50
    assert start_of(text) == start_of(later)


def test_no_engine_is_unknown():
    start = start_of("hello\nworld\n")
    check(start)
    assert start.verdict.reason == UNRECOGNISED


def test_a_named_engine_is_believed():
    start = start_of("hello\n", engine="vllm")
    assert start.workload["engine"] == "vllm"
    assert start.verdict.compile is Compile.UNKNOWN


def test_credentials_in_the_models_address_are_hidden():
    line = "INFO 11-30 09:00:01 [a.py:1] non-default args: {'model': 'https://me:hunter2@host/m'}"
    start = start_of(f"{BANNER.format(1)}\n{line}\n{READY}\n")
    assert "hunter2" not in json.dumps(codec.to_json(start))


def test_progress_bars_do_not_hide_a_line():
    text = f"{BANNER.format(1)}\nLoading: 0%|  |\rLoading: 99%|##|\r{HIT.format(5)}\n"
    assert start_of(text).verdict.compile is Compile.HIT


@pytest.mark.parametrize(
    "collector", ["2026-11-30T09:{0:02}:00.5Z ", "[pod/v-0/vllm] ", "2026-11-30T09:{0:02}:00.5Z stderr F "]
)
def test_collectors(collector):
    text = "".join(
        collector.format(minute) + line + "\n"
        for minute, line in enumerate(log(BANNER, MISS, INIT, READY).splitlines())
    )
    start = start_of(text)
    check(start)
    assert start.verdict.compile is Compile.MISS
    assert start.ready_seconds == pytest.approx(180.0 if "Z" in collector else 2.0)


FRAGMENTS = [BANNER, ENGINE, HIT, MISS, TOTAL, WEIGHTS, USING, OFF, REJECTED, INIT, READY]
HUGE = st.integers(0, 10**12).map(str)
LINES = st.one_of(
    st.binary(max_size=80),
    st.tuples(st.sampled_from(FRAGMENTS), st.integers(0, 99)).map(lambda item: item[0].format(item[1]).encode()),
    st.tuples(st.sampled_from(FRAGMENTS), HUGE).map(lambda item: item[0].format(1).replace("7.00", item[1]).encode()),
    st.tuples(st.sampled_from(FRAGMENTS), st.integers(0, 60)).map(lambda item: item[0].format(1)[: item[1]].encode()),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(LINES, max_size=12), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_any_bytes_are_a_start(pieces, end):
    check(start_of(end.join(pieces)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 18_000), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_torn_and_shuffled_real_logs_are_a_start(cuts, random):
    whole = (LOGS / "vllm-0.32.0-aot-1-cold.log").read_bytes()
    pieces = [whole[one:two] for one, two in itertools.pairwise(sorted(cuts))]
    random.shuffle(pieces)
    check(start_of(b"".join(pieces)))


def test_lines_are_read_in_pieces():
    class Endless:
        left = 300

        def read(self, size):
            assert size <= 1 << 20
            self.left -= 1
            return b"x" * size if self.left > 0 else b""

    assert max(len(line) for line in lines(Endless())) <= 1 << 16


def test_a_large_log_is_read_quickly():
    body = (INIT.format(11) + "\n" + 'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 20) * 5000
    assert start_of(log(BANNER) + body).workload["starts_in_log"] == 1
