"""A vLLM plugin that makes a CPU compile the way a GPU does.

vLLM's CPU platform replaces compilation mode VLLM_COMPILE by a plain Inductor pass. Caches, log lines and cache hits
of that path resemble nothing that a GPU fleet runs, so a test on it would prove nothing. This plugin lets the
platform do all its other work and then puts the mode back; it also keeps the KV cache small. It is found through the
`*.dist-info` folder beside it, so PYTHONPATH alone turns it on and nothing has to be installed into the engine's
environment.

It runs on the engine's interpreter, in every process that vLLM starts, and imports vLLM only when it is called.
"""

from __future__ import annotations

from typing import Any

_MARK = "_glowplug_lab_keeps_vllm_compile"
_BLOCKS = 64
"""Enough for the tests' prompts. The least that vLLM takes on a CPU by itself is 1 GiB, and where the hypervisor has yet to give a
machine that memory, clearing it is now one second of the initialisation and now five, which no cache has a part in."""


def register() -> None:
    """Wrap `CpuPlatform.check_and_update_config`; vLLM calls this once in each process, more calls change nothing."""
    from vllm.compilation.passes.utility.fix_functionalization import FixFunctionalizationPass
    from vllm.config import CompilationMode
    from vllm.platforms.cpu import CpuPlatform

    if getattr(CpuPlatform, _MARK, False):
        return
    platform_check = CpuPlatform.check_and_update_config.__func__

    def check_and_update_config(cls: type[Any], vllm_config: Any) -> None:
        compilation = vllm_config.compilation_config
        requested = compilation.mode
        platform_check(cls, vllm_config)
        if vllm_config.cache_config.num_gpu_blocks_override is None:
            vllm_config.cache_config.num_gpu_blocks_override = _BLOCKS
        if requested != CompilationMode.VLLM_COMPILE or compilation.mode == CompilationMode.NONE:
            return
        compilation.mode = requested
        compilation.backend = "inductor"
        if compilation.compile_sizes is None:
            compilation.compile_sizes = []

    def leave_graph_as_it_is(self: Any, graph: Any) -> None:
        """The pass undoes functionalization of CUDA custom operators that a CPU build does not have."""

    CpuPlatform.check_and_update_config = classmethod(check_and_update_config)
    FixFunctionalizationPass.__call__ = leave_graph_as_it_is
    setattr(CpuPlatform, _MARK, True)
