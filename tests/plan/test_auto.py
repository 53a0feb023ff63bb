"""Profile `auto`: what it decides over versions and machines, and that each setting has a reason with a source."""

from __future__ import annotations

from typing import Any

import pytest

from glowplug.models.contents import Model
from glowplug.plan.outcome import Plan
from tests.plan.known import LLAMA_8B, LLAMA_70B, gpus, plan, rules, size

MIB = 2**20
GIB = 2**30


@pytest.mark.parametrize(
    ("engine", "version", "ranks", "distributed", "said"),
    [
        ("vllm", "0.33.0", 2, True, set()),
        ("vllm", "0.22.0", 2, True, set()),
        ("vllm", "v0.22.1", 2, True, set()),
        ("vllm", "0.99.0", 2, True, set()),  # an unknown newer version is served
        ("vllm", "nightly", 2, True, set()),
        ("vllm", "0.21.0", 2, False, {"distributed-corrupts", "distributed-missing"}),
        ("vllm", "0.20.1", 2, False, {"distributed-corrupts", "distributed-missing"}),
        ("vllm", "0.11.1", 2, False, {"distributed-corrupts", "distributed-missing"}),
        ("vllm", "0.11.0", 2, False, {"distributed-missing"}),
        ("vllm", "0.10.0", 2, False, {"distributed-missing"}),
        ("vllm", "0.33.0", 1, False, set()),
        ("vllm", "0.21.0", 1, False, set()),
        ("sglang", "0.5.23", 2, False, {"distributed-corrupts", "distributed-missing"}),
        ("sglang", "0.5.23", 1, False, set()),
    ],
)
def test_distributed(engine: str, version: str, ranks: int, distributed: bool, said: set[str]) -> None:
    found = plan(30, engine=engine, engine_version=version, tensor_parallel_size=ranks)
    assert found.streaming.distributed is distributed
    assert found.streaming.extra_config.get("distributed", False) is distributed
    assert rules(found) & {"distributed-corrupts", "distributed-missing"} == said
    assert found.why("distributed")


@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.21.0"), ("sglang", "0.5.23")])
def test_what_stays_off_is_no_warning(engine: str, version: str) -> None:
    found = plan(30, engine=engine, engine_version=version, tensor_parallel_size=2)
    assert "corrupt" in found.why("distributed")
    assert {one.severity for one in found.findings if one.rule.startswith("distributed-")} == {"info"}
    assert any("stays off" in one.message for one in found.findings if one.rule == "distributed-corrupts")


@pytest.mark.parametrize(
    ("machine", "said", "not_said"),
    [
        (gpus("h100", 8), "is not known", "50 Gbit/s"),
        ("g6.12xlarge", "50 Gbit/s", "is not known"),
    ],
)
def test_the_reason_of_a_chunk_says_nothing_of_a_network_that_is_not_known(
    machine: Any, said: str, not_said: str
) -> None:
    why = plan(30, machine).why("RUNAI_STREAMER_CHUNK_BYTESIZE")
    assert said in why
    assert not_said not in why


def test_distributed_needs_room_for_its_buffers() -> None:
    """Two staging buffers of the largest tensor beside the weights, on each GPU."""
    roomy = Model("s3://b/m", 140_000_000_000, largest_tensor_bytes=7 * GIB)
    tight = Model("s3://b/m", 140_000_000_000, largest_tensor_bytes=8 * GIB)
    assert plan(roomy, tensor_parallel_size=2).streaming.distributed
    found = plan(tight, tensor_parallel_size=2)
    assert not found.streaming.distributed
    assert "distributed-missing" in rules(found)


@pytest.mark.parametrize(
    ("gb", "machine", "asked", "chunk"),
    [
        (67, "p5.48xlarge", {}, 4 * GIB),
        (67, "g6e.12xlarge", {}, 4 * GIB),  # 100 Gbit/s
        (16, "g6.xlarge", {}, 256 * MIB),  # 2.5 Gbit/s
        (40, "g6.12xlarge", {}, 256 * MIB),  # 40 Gbit/s
        (67, "p5.48xlarge", {"streamer_version": "0.15.9", "tensor_parallel_size": 2}, 4 * GIB),
        (10, "p5.48xlarge", {"streamer_version": "0.15.9"}, 1 * GIB),  # one chunk is one client's work there
        (1, "p5.48xlarge", {"streamer_version": "0.15.9"}, 256 * MIB),
        (67, "p5.48xlarge", {"chunk_bytes": 64 * MIB}, 64 * MIB),
        (67, gpus("h100", 8), {}, 256 * MIB),  # the network is not known
    ],
)
def test_chunk(gb: float, machine: Any, asked: dict[str, Any], chunk: int) -> None:
    found = plan(gb, machine, **asked)
    assert found.streaming.chunk_bytes == chunk
    assert found.streaming.env["RUNAI_STREAMER_CHUNK_BYTESIZE"] == str(chunk)


@pytest.mark.parametrize(
    ("gb", "machine", "asked", "clients"),
    [
        (67, "p5.48xlarge", {}, 18),  # as many as there are ring buffers
        (140, "p5.48xlarge", {}, 16),  # 64 on the node, shared by four ranks
        (140, "p5.48xlarge", {"tensor_parallel_size": 8}, 8),
        (30, "p5.48xlarge", {}, 18),
        (60, "p5.48xlarge", {"streamer_version": "0.15.9"}, 14),  # one for each chunk of 4 GiB
        (67, "p5.48xlarge", {"engine_version": "0.21.0"}, 16),  # each rank reads all 16 chunks
        (16, "g6.xlarge", {}, 8),
        (16, "g6.8xlarge", {}, 25),  # about one for each Gbit/s
        (40, "g6.12xlarge", {}, 8),  # 32 shared by four
        (16, "g5.12xlarge", {"tensor_parallel_size": 1}, 32),  # more gained nothing on 40 Gbit/s
        (67, "p5.48xlarge", {"chunk_bytes": 8 * MIB}, 32),  # small chunks: more are in flight than buffers
        (0.1, "g6.8xlarge", {"streamer_version": "0.15.9"}, 1),
    ],
)
def test_concurrency(gb: float, machine: str, asked: dict[str, Any], clients: int) -> None:
    found = plan(gb, machine, **asked)
    assert found.streaming.concurrency == clients
    assert found.streaming.extra_config["concurrency"] == clients
    assert f'"concurrency":{clients}' in found.streaming.args[1]


def test_host_memory_bounds_buffers_then_clients() -> None:
    small = plan(LLAMA_8B, "g6.xlarge")  # 16 GiB of host memory
    assert int(small.streaming.env["RUNAI_STREAMER_MEMORY_LIMIT"]) < 16e9
    assert int(small.streaming.env["RUNAI_STREAMER_MEMORY_LIMIT"]) >= (LLAMA_8B.largest_tensor_bytes or 0)
    assert small.resources.host_memory_bytes <= 16 * GIB * 0.9
    assert "host-memory-bound" not in rules(small)
    assert "RUNAI_STREAMER_MEMORY_LIMIT" not in plan(LLAMA_8B, "g6.8xlarge").streaming.env


def test_what_the_host_cannot_hold_is_said() -> None:
    """Streamers before 0.17 ignore their limit when ranks share the reading."""
    found = plan(80, "g6.12xlarge", streamer_version="0.16.1", tensor_parallel_size=4)
    assert found.streaming.distributed
    assert found.resources.host_memory_bytes < 185e9
    large = Model("s3://b/m", 16_000_000_000, largest_tensor_bytes=14 * GIB)
    assert "host-memory-bound" in rules(plan(large, "g6.xlarge"))


@pytest.mark.parametrize(
    ("streamer", "env"),
    [
        ("0.17.1", {"RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS": "30000", "RUNAI_STREAMER_S3_TIMEOUT": "60"}),
        ("0.17.0", {"RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS": "30000", "RUNAI_STREAMER_S3_TIMEOUT": "60"}),
        ("0.16.1", {"RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS": "30000"}),
        ("0.13.3", {"RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS": "30000"}),
    ],
)
def test_only_timeouts_that_help_and_that_the_version_reads(streamer: str, env: dict[str, str]) -> None:
    found = plan(30, streamer_version=streamer).streaming.env
    assert {name: value for name, value in found.items() if "TIMEOUT" in name} == env
    assert "RUNAI_STREAMER_S3_LOW_SPEED_LIMIT" not in found


@pytest.mark.parametrize("version", ["0.10.0", "0.15.9", "0.16.0", "0.16.1", "0.17.0", "0.17.1"])
def test_every_streamer_variable_is_one_that_the_version_reads(version: str) -> None:
    from glowplug.catalog.streamer import variable

    found = plan(LLAMA_8B, "g6.xlarge", streamer_version=version, endpoint="https://s3.example/", unsigned=True)
    for name in found.streaming.env:
        known = variable(name)
        assert known is not None, name
        assert known.known_to(version) or not name.startswith("RUNAI_"), name


@pytest.mark.parametrize(
    ("engine", "version", "streamer", "inferred"),
    [
        ("vllm", None, "0.17.1", True),
        ("vllm", "0.21.0", "0.15.9", True),
        ("vllm", "0.21.0", "0.17.0", False),
        ("vllm", "0.21.3", "0.15.9", True),  # not in the catalogue: as the release before it
        ("vllm", "1.0", "0.17.1", True),
        ("vllm", "0.6.6", "0.13.3", True),  # older than the catalogue: its oldest
        ("sglang", "0.5.12", "0.15.9", True),
    ],
)
def test_the_streamer_is_inferred_unless_named(engine: str, version: str | None, streamer: str, inferred: bool) -> None:
    named = None if inferred else streamer
    found = plan(30, engine=engine, engine_version=version, streamer_version=named)
    assert found.streamer_version == streamer
    assert ("inferred" in found.why("--streamer-version")) is inferred


def test_the_engine_is_the_newest_release() -> None:
    from glowplug.catalog.releases import newest

    assert plan(30).engine_version == newest("vllm").version
    assert plan(30, engine="sglang").engine_version == newest("sglang").version


def test_engines_that_cannot_stream_say_what_to_do_instead() -> None:
    for asked in ({"engine": "tensorrt-llm"}, {"engine": "sglang", "engine_version": "0.5.9"}):
        for profile in ("auto", "guide"):
            found = plan(67, profile=profile, **asked)
            assert found.streaming.load_format == "auto"
            assert (found.streaming.args, found.streaming.extra_config) == ((), {})
            assert not [name for name in found.streaming.env if name.startswith("RUNAI_")]
            assert next(one for one in found.findings if one.rule == "streamer-missing").hint
            assert found.streamer_version is None
            assert (found.streaming.chunk_bytes, found.streaming.concurrency, found.resources.connections) == (0, 0, 0)
            assert "no streamer" in found.why("concurrency")
            assert found.engine_version in (asked.get("engine_version"), "1.0.0")


@pytest.mark.parametrize("nodes", [1, 10])
def test_a_copy_takes_nobody_knows_how_long_and_costs_the_model_once_a_node(nodes: int) -> None:
    found = plan(67, engine="tensorrt-llm", tensor_parallel_size=8, nodes=nodes).estimate
    times = (found.load_seconds_single, found.load_seconds_fleet_nat, found.load_seconds_fleet_endpoint)
    assert (found.bound, found.network_gbps, times) == ("unknown", 100.0, (None, None, None))
    assert found.nat_cost_usd == pytest.approx(67 * 0.045 * nodes, abs=0.01)


@pytest.mark.parametrize(
    ("engine", "enabled", "args", "variable"),
    [
        ("vllm", True, (), "VLLM_CACHE_ROOT"),
        ("sglang", True, ("--enable-torch-compile",), "SGLANG_CACHE_DIR"),
        ("tensorrt-llm", False, (), "TRTLLM_DG_CACHE_DIR"),
    ],
)
def test_compile_caches_by_the_engines_own_variables(
    engine: str, enabled: bool, args: tuple[str, ...], variable: str
) -> None:
    found = plan(30, engine=engine).compile
    assert (found.enabled, found.args, found.cache_root) == (enabled, args, "/compile-cache")
    assert {variable, "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH"} <= set(found.env)
    assert all(value.startswith("/compile-cache/") for value in found.env.values())
    assert "XDG_CACHE_HOME" not in found.env


def test_the_cache_variables_are_those_that_run_sets() -> None:
    from glowplug.engines.command import see_through
    from glowplug.engines.registry import recognise

    found = plan(LLAMA_8B, engine_version="0.33.0")
    words = ["vllm", "serve", LLAMA_8B.source, "--load-format", "runai_streamer"]
    seen = recognise(see_through(words, {}))
    assert seen.adapter is not None
    assert seen.launch is not None
    placed = seen.adapter.place("/compile-cache", seen.launch, {}, engine_version="0.33.0", gpu=True)
    streamers = {name: value for name, value in found.streaming.env.items() if name in placed.variables}
    assert {**found.compile.env, **streamers} == placed.variables


def settings(found: Plan) -> set[str]:
    """Every setting that a plan makes, under the name of its reason."""
    names = {argument.partition("=")[0] for argument in found.streaming.args} - {"--model-loader-extra-config"}
    return {"--tensor-parallel-size", *names, *found.streaming.extra_config, *found.streaming.env}


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        (67, {}),
        (67, {"profile": "guide"}),
        (LLAMA_8B, {"machine": "g6.xlarge", "region": "eu-west-1"}),
        (LLAMA_8B, {"endpoint": "http://s3.example:8333", "region": "us-east-1", "unsigned": True}),
        (LLAMA_70B, {"engine_version": "0.21.0"}),
        (LLAMA_70B, {"engine": "sglang"}),
    ],
)
def test_every_setting_has_a_reason_with_a_source(model: Any, asked: dict[str, Any]) -> None:
    found = plan(model, **asked)
    reasons = {reason.setting: reason for reason in found.reasons}
    assert settings(found) - {"AWS_ENDPOINT_URL"} <= set(reasons)
    assert all(reason.why and reason.source for reason in found.reasons)


def test_a_fleet_that_nat_cannot_hold() -> None:
    assert "nat-connections" in rules(plan(LLAMA_8B, "p5.48xlarge", nodes=100))
    assert "nat-connections" not in rules(plan(LLAMA_8B, "p5.48xlarge", nodes=1))


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_other_object_stores_get_no_settings_of_s3(scheme: str) -> None:
    found = plan(size(30, f"{scheme}://bucket/model"), endpoint="http://s3.example", region="eu-west-1")
    assert not [name for name in found.streaming.env if "_S3_" in name or name.startswith("AWS_")]
    assert found.streaming.chunk_bytes == 8 * MIB
