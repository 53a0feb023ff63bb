"""Switches that keep the engine from storing what it compiles."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed
from tests.lint.compile.manifests import cached, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "vLLM's": Fires(pod(env={"VLLM_DISABLE_COMPILE_CACHE": "1"}), ('"1"',), "VLLM_DISABLE_COMPILE_CACHE=1"),
    "vLLM's with a cache": Fires(
        cached(env={"VLLM_CACHE_ROOT": "/compile-cache/vllm", "VLLM_DISABLE_COMPILE_CACHE": "1"}), ('"1"',)
    ),
    "Inductor's": Fires(pod(env={"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}), ('"1"',), "Inductor"),
    "both": Fires(
        pod(env={"VLLM_DISABLE_COMPILE_CACHE": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}), ('"1"', '"1"')
    ),
    "Inductor's under SGLang": Fires(
        pod(
            image="lmsysorg/sglang:v0.5.23",
            command=["python3", "-m", "sglang.launch_server"],
            args=["--model-path=/m"],
            env={"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"},
        ),
        ('"1"',),
    ),
    "in the configuration": Fires(
        pod(args=["--model=/m", '-cc={"inductor_compile_config":{"force_disable_caches":true}}']),
        ('{"inductor_compile_config":{"force_disable_caches":true}}',),
        "force_disable_caches",
    ),
    "before the command": Fires(
        pod(command=["sh", "-c"], args=["exec env VLLM_DISABLE_COMPILE_CACHE=1 vllm serve /m"]), ("1",)
    ),
}

SILENT = {
    "nothing": Silent(pod()),
    "off": Silent(pod(env={"VLLM_DISABLE_COMPILE_CACHE": "0"})),
    "empty": Silent(pod(env={"VLLM_DISABLE_COMPILE_CACHE": ""})),
    "vLLM's switch beside SGLang": Silent(
        pod(
            image="lmsysorg/sglang:v0.5.23",
            command=["python3", "-m", "sglang.launch_server"],
            args=["--model-path=/m"],
            env={"VLLM_DISABLE_COMPILE_CACHE": "1"},
        )
    ),
    "from a ConfigMap nobody gave": Silent(
        pod(env={"VLLM_DISABLE_COMPILE_CACHE": "valueFrom: {configMapKeyRef: {name: c, key: k}}"})
    ),
    "force_disable_caches is false": Silent(
        pod(args=["--model=/m", '-cc={"inductor_compile_config":{"force_disable_caches":false}}'])
    ),
    "no AOT is no lost cache": Silent(pod(env={"VLLM_USE_AOT_COMPILE": "0"})),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_the_variable_goes_when_that_is_asked_for() -> None:
    text = pod(env={"VLLM_DISABLE_COMPILE_CACHE": "1", "HF_HOME": "/hf"})
    assert fixed(RULE, text) == text
    assert fixed(RULE, text, unsafe=True) == pod(env={"HF_HOME": "/hf"})
