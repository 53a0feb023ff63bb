"""Where engines, and what compiles below them, keep their caches where no variable says it: directories of the home directory.

A volume that is mounted at one of them is used without any variable, and no longer once one is set.
"""

from __future__ import annotations

from typing import Final, Optional

_BELOW_HOME: Final = {
    "VLLM_CACHE_ROOT": ".cache/vllm",
    "SGLANG_CACHE_DIR": ".cache/sglang",
    "TRITON_CACHE_DIR": ".triton",
    "FLASHINFER_WORKSPACE_BASE": ".cache/flashinfer",
    "DG_JIT_CACHE_DIR": ".deep_gemm",
    "CUDA_CACHE_PATH": ".nv",
}
# torch adds the user's name.
_TEMPORARY: Final = {"TORCHINDUCTOR_CACHE_DIR": "/tmp/torchinductor_"}  # noqa: S108 - in a container, recognised


def default(name: str, home: str) -> Optional[str]:
    """The directory that a variable moves, for a user of this home; None where that is not below a home."""
    below = _BELOW_HOME.get(name)
    return None if below is None else f"{home.rstrip('/')}/{below}"


def is_default(name: str, path: str) -> bool:
    """Whether a directory is the one that a variable moves, or lies in it, whoever's home it is in."""
    path = path.rstrip("/") + "/"
    if name in _TEMPORARY:
        return path.startswith(_TEMPORARY[name])
    return name in _BELOW_HOME and f"/{_BELOW_HOME[name]}/" in path
