"""Which instruction sets of this processor change compiled code.

Inductor compiles C++ with `-march=native` and picks vector code by what the processor has; oneDNN picks kernels
likewise. So without a GPU the instruction sets are what the GPU's name is otherwise. The list is short and stable:
the x86-64 level as one word, and the extensions that Inductor (torch/_inductor/cpu_vec_isa.py), oneDNN and the
compiler's vectoriser look at; model names and caches are not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_V3: Final = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"})
_V4: Final = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
_EXTENSIONS: Final = frozenset(
    {
        *("amx_bf16", "amx_fp16", "amx_int8", "amx_tile"),
        *("avx512_bf16", "avx512_bitalg", "avx512_fp16", "avx512_vbmi2", "avx512_vnni", "avx512_vpopcntdq"),
        *("avx512ifma", "avx512vbmi", "avx_ifma", "avx_ne_convert", "avx_vnni", "avx_vnni_int8", "gfni"),
    }
)
_ARM: Final = frozenset(
    {"asimd", "asimddp", "asimdhp", "bf16", "i8mm", "sme", "sme2", "sve", "sve2", "svebf16", "svei8mm"}
)


def describe(cpuinfo: str) -> str:
    """`cpu:x86-64-v4+amx_bf16+…` of the text of /proc/cpuinfo; `cpu:generic` where it names no instruction sets."""
    sets = _common(cpuinfo)
    words: list[str] = []
    if sets >= _V3 | _V4:
        words = ["x86-64-v4", *sorted(sets & _EXTENSIONS)]
    elif sets >= _V3:
        words = ["x86-64-v3", *sorted(sets & (_EXTENSIONS | _V4))]
    else:
        words = sorted(sets & (_EXTENSIONS | _V3 | _V4)) or sorted(sets & _ARM)
    return "cpu:" + "+".join(words or ["generic"])


def _common(cpuinfo: str) -> frozenset[str]:
    """What all processors have: big and little cores may differ."""
    found: list[frozenset[str]] = []
    for line in cpuinfo.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() in ("flags", "Features"):
            found.append(frozenset(value.split()))
    return frozenset.intersection(*found) if found else frozenset()


def here() -> str:
    """The description of this machine's processor."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        text = ""
    return describe(text)
