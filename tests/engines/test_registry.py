"""Which engine a command line starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.errors import GlowplugError, UsageError
from glowplug.engines import registry
from glowplug.engines.command import see_through

VLLM = [
    ["vllm", "serve", "m"],
    ["/opt/venv/bin/vllm", "serve", "m"],
    ["python3", "/opt/venv/bin/vllm", "serve", "m"],
    ["python", "-u", "-X", "dev", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"],
    ["python3", "-OO", "-m", "vllm.entrypoints.api_server", "--model=m"],
    ["python3", "-m", "vllm.entrypoints.cli.main", "serve", "m"],
]


@pytest.mark.parametrize("argv", VLLM)
def test_vllm_servers(argv: list[str]) -> None:
    found = registry.recognise(see_through(argv, {}))
    assert found.engine == "vllm"
    assert found.launch is not None
    assert found.launch.model == "m"
    assert found.adapter is registry.by_name("vllm")


@pytest.mark.parametrize(
    ("argv", "wanted", "engine", "reason"),
    [
        (["python3", "-m", "sglang.launch_server", "--model-path", "m"], "auto", "sglang", "engine_not_supported"),
        (["trtllm-serve", "m"], "auto", "tensorrt-llm", "engine_not_supported"),
        (["whatever"], "sglang", "sglang", "engine_not_supported"),
        (["vllm", "bench", "latency"], "auto", "", "engine_unknown"),
        (["vllm", "serve", "--help"], "auto", "", "engine_unknown"),
        (["sleep", "1"], "vllm", "vllm", "engine_unknown"),
        (["python3", "train.py"], "auto", "", "engine_unknown"),
        (["sh", "start.sh"], "auto", "", "command_opaque: a shell script in a file"),
        ([], "auto", "", "command_opaque: no program to start"),
    ],
)
def test_others_are_named_or_unknown(argv: list[str], wanted: str, engine: str, reason: str) -> None:
    found = registry.recognise(see_through(argv, {}), None, wanted)
    assert (found.engine, found.reason) == (engine, reason)
    assert found.adapter is None
    assert found.launch is None


def test_torch_only_by_name() -> None:
    found = registry.recognise(see_through(["python3", "dir/train.py"], {}), None, "torch")
    assert found.launch is not None
    assert found.launch.model == "dir/train.py"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UsageError, match="no engine 'llama'"):
        registry.recognise(see_through(["x"], {}), None, "llama")


@given(
    st.lists(st.text(max_size=12), max_size=6),
    st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
    st.sampled_from(registry.CHOICES),
)
def test_only_our_errors(words: list[str], environ: dict[str, str], wanted: str) -> None:
    for argv in (words, ["vllm", "serve", *words], ["python3", "-m", "vllm.entrypoints.openai.api_server", *words]):
        try:
            registry.recognise(see_through(argv, environ), environ, wanted)
        except GlowplugError:
            continue
