"""Options of a rendering with a plan of fixed numbers, so that what is compared changes only when rendering does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from glowplug.catalog.instances import instance
from glowplug.models.contents import Model
from glowplug.plan.outcome import Compile, Estimate, Placement, Plan, Reason, Resources, Streaming
from glowplug.render.options import Options

MODEL = "s3://models/llama"
GIB = 1 << 30
MIB = 1 << 20
GUIDE_ENV = {
    "RUNAI_STREAMER_CHUNK_BYTESIZE": "4294967296",
    "RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS": "3000",
    "RUNAI_STREAMER_S3_LOW_SPEED_LIMIT": "1048576",
}
GUIDE_CACHES = {
    "XDG_CACHE_HOME": "/compile-cache",
    "TORCHINDUCTOR_CACHE_DIR": "/compile-cache/inductor",
    "TRITON_CACHE_DIR": "/compile-cache/triton",
}
_EXTRA = {"concurrency": 17, "distributed": True}
_ARGS = ("--load-format=runai_streamer", '--model-loader-extra-config={"concurrency":17,"distributed":true}')

AUTO = Plan(
    profile="auto",
    engine="vllm",
    engine_version="0.33.0",
    streamer_version="0.17.1",
    max_model_len=8192,
    nodes=1,
    model=Model(MODEL, 67 * 10**9),
    placement=Placement("p5.48xlarge", "h100-80gb", 80 * GIB, 8, 2, 4, fits=True),
    streaming=Streaming(
        "runai_streamer", 4 * GIB, 17, True, _EXTRA, _ARGS, {"RUNAI_STREAMER_CHUNK_BYTESIZE": str(4 * GIB)}
    ),
    compile=Compile(True, "/compile-cache", (), {"VLLM_CACHE_ROOT": "/compile-cache/vllm"}),
    resources=Resources(100 * GIB, 400, 1000),
    estimate=Estimate("primary-network", 100.0, 5.4, 107.2, 5.4, 3.0),
    reasons=(
        Reason("concurrency", 17, "one client for each chunk", "somewhere"),
        Reason("distributed", True, "the ranks share the reading", "somewhere"),
        Reason("--tensor-parallel-size", 2, "the fewest GPUs that hold it", "somewhere"),
        Reason("RUNAI_STREAMER_CHUNK_BYTESIZE", str(4 * GIB), "the chunk that was best", "somewhere"),
    ),
)
GUIDE = replace(
    AUTO,
    profile="guide",
    engine_version="0.21.0",
    streaming=replace(AUTO.streaming, env=GUIDE_ENV),
    compile=Compile(True, "/compile-cache", (), GUIDE_CACHES),
)
SGLANG = replace(
    AUTO,
    engine="sglang",
    engine_version="0.5.23",
    compile=Compile(True, "/compile-cache", ("--enable-torch-compile",), {"SGLANG_CACHE_DIR": "/compile-cache/sglang"}),
)
TENSORRT = replace(
    AUTO,
    engine="tensorrt-llm",
    engine_version="1.2.0",
    streaming=Streaming("auto", 4 * GIB, 1, False),
    compile=Compile(False, "/compile-cache"),
)


def options(plan: Plan = AUTO, **given: Any) -> Options:
    """A rendering of that plan; `given` are Options' own fields."""
    machine = instance(plan.placement.instance) if plan.placement.instance else None
    own = {"model": MODEL, "plan": plan, "instance": machine, "engine": plan.engine, "profile": plan.profile}
    return Options(**{"name": f"{plan.engine}-inference", **own, **given})


def one_gpu(plan: Plan = AUTO) -> Plan:
    """The same without tensor parallelism."""
    streaming = replace(plan.streaming, distributed=False, extra_config={"concurrency": 17})
    return replace(plan, placement=replace(plan.placement, tensor_parallel_size=1), streaming=streaming)


def of_gpus(gpu: str, plan: Plan = AUTO) -> Plan:
    """The same where only the GPU is known."""
    estimate = Estimate("unknown", None, None, None, None, None)
    return replace(plan, placement=replace(plan.placement, instance=None, gpu=gpu), estimate=estimate)
