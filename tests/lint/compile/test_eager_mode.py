"""Eager mode: what turns compiling off, and what only looks like it."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed
from tests.lint.compile.manifests import cached, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "flag": Fires(pod(args=["--model=/m", "--enforce-eager"]), ("--enforce-eager",), "CUDA graphs"),
    "flag with a value": Fires(pod(args=["--model=/m", "--enforce-eager=true"]), ("--enforce-eager",)),
    "flag in a script": Fires(
        pod(command=["sh", "-c"], args=["exec vllm serve /m --enforce-eager --port 8000"]), ("--enforce-eager",)
    ),
    "level 0": Fires(pod(args=["--model=/m", "-O0"]), ("0",), "`-O0`"),
    "long level 0": Fires(pod(args=["--model=/m", "--optimization-level", "'0'"]), ("'0'",)),
    "mode 0 in JSON": Fires(pod(args=["--model=/m", '--compilation-config={"mode":0}']), ('{"mode":0}',), "mode `0`"),
    "mode by its name": Fires(pod(args=["--model=/m", '--compilation-config={"mode":"NONE"}']), ('{"mode":"NONE"}',)),
    "mode by a dotted name": Fires(pod(args=["--model=/m", "-cc.mode=0"]), ("0",)),
    "backend eager": Fires(
        pod(args=["--model=/m", '-cc={"backend":"eager"}']), ('{"backend":"eager"}',), "compiles nothing"
    ),
    "torch's switch": Fires(pod(env={"TORCH_COMPILE_DISABLE": "1"}), ('"1"',), "TORCH_COMPILE_DISABLE"),
    "dynamo's switch": Fires(pod(env={"TORCHDYNAMO_DISABLE": "1"}), ('"1"',)),
    "torch's switch for SGLang": Fires(
        pod(
            image="lmsysorg/sglang:v0.5.23",
            command=["python3", "-m", "sglang.launch_server"],
            args=["--model-path=/m"],
            env={"TORCH_COMPILE_DISABLE": "1"},
        ),
        ('"1"',),
    ),
}

SILENT = {
    "nothing": Silent(pod()),
    "switched off": Silent(pod(args=["--model=/m", "--enforce-eager=false"])),
    "the other form": Silent(pod(args=["--model=/m", "--no-enforce-eager"])),
    "level 2": Silent(pod(args=["--model=/m", "-O2"])),
    "mode 3 wins over the level": Silent(pod(args=["--model=/m", "-O0", '--compilation-config={"mode":3}'])),
    "a reference nobody knows": Silent(pod(args=["--model=/m", "--compilation-config=$(COMPILATION)"])),
    "JSON that is none": Silent(pod(args=["--model=/m", "--compilation-config={mode:0}"])),
    "torch's switch is off": Silent(pod(env={"TORCH_COMPILE_DISABLE": "0"})),
    "switch from a Secret": Silent(pod(env={"TORCH_COMPILE_DISABLE": "valueFrom: {secretKeyRef: {name: s, key: k}}"})),
    "no cuda graphs for SGLang": Silent(
        pod(
            image="lmsysorg/sglang:v0.5.23",
            command=["python3", "-m", "sglang.launch_server"],
            args=["--model-path=/m", "--disable-cuda-graph"],
        )
    ),
    "a script nobody can follow": Silent(
        pod(command=["sh", "-c"], args=['"if true; then vllm serve /m --enforce-eager; fi"'])
    ),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_only_an_unsafe_fix_takes_it_back() -> None:
    text = pod(args=["--model=/m", "--enforce-eager", "--port=8000"], env={"TORCH_COMPILE_DISABLE": "1"})
    assert fixed(RULE, text) == text
    mended = fixed(RULE, text, unsafe=True)
    assert "eager" not in mended
    assert "TORCH_COMPILE_DISABLE" not in mended
    assert "--port=8000" in mended


def test_a_flag_in_a_script_goes_alone() -> None:
    text = cached(command=["sh", "-c"], args=["exec vllm serve /m --enforce-eager --port 8000"])
    assert "exec vllm serve /m --port 8000" in fixed(RULE, text, unsafe=True)
