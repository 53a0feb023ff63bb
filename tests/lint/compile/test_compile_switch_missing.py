"""SGLang's switch, and a cache that waits for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.lint.checking import fixed
from tests.lint.compile import manifests
from tests.lint.compile.manifests import SGLANG, cached, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)


def sglang(args: Sequence[str], volume: str = manifests.NVME, *, env: Mapping[str, str] | None = None) -> str:
    """SGLang with a volume for compiled artifacts."""
    return cached(
        volume,
        env=SGLANG if env is None else env,
        image="lmsysorg/sglang:v0.5.23",
        command=["python3", "-m", "sglang.launch_server"],
        args=args,
    )


FIRES = {
    "a cache, no switch": Fires(sglang(["--model-path=/m"]), ("sglang.launch_server",), "--enable-torch-compile"),
    "a cache by its name": Fires(
        sglang(["--model-path=/m"], env={}), ("sglang.launch_server",), "does not use torch.compile"
    ),
    "by Inductor's variable": Fires(
        sglang(["--model-path=/m"], env={"TORCHINDUCTOR_CACHE_DIR": "/compile-cache/i"}), ("sglang.launch_server",)
    ),
    "the piecewise compiler's default": Fires(
        sglang(["--model-path=/m", "--enable-piecewise-cuda-graph"]), ("sglang.launch_server",)
    ),
    "with the launcher": Fires(
        sglang(["--model-path=/m"], "emptyDir: {}", env={"GLOWPLUG_STORE": "s3://b/c"}), ("sglang.launch_server",)
    ),
}

SILENT = {
    "the switch": Silent(sglang(["--model-path=/m", "--enable-torch-compile"])),
    "the piecewise compiler": Silent(sglang(["--model-path=/m", "--piecewise-cuda-graph-compiler=inductor"])),
    "no cache": Silent(
        pod(
            image="lmsysorg/sglang:v0.5.23", command=["python3", "-m", "sglang.launch_server"], args=["--model-path=/m"]
        )
    ),
    "vLLM": Silent(cached()),
    "TensorRT-LLM": Silent(
        cached(
            image="nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
            command=["trtllm-serve"],
            args=["/m"],
            env={"TORCHINDUCTOR_CACHE_DIR": "/compile-cache/i"},
        )
    ),
    "a script nobody can follow": Silent(
        cached(
            image="lmsysorg/sglang:v0.5.23",
            env=SGLANG,
            command=["bash", "-c"],
            args=['"if true; then python3 -m sglang.launch_server --model-path /m; fi"'],
        )
    ),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_the_unsafe_fix_adds_the_switch() -> None:
    text = sglang(["--model-path=/m", "--port=30000"])
    assert fixed(RULE, text) == text
    mended = sglang(["--model-path=/m", "--port=30000", "--enable-torch-compile"])
    assert fixed(RULE, text, unsafe=True) == mended
