"""Setting the variables that place caches, without ever overriding a user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.engines.adapter import Placement
from glowplug.host import user

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def below(path: str, root: str) -> bool:
    """Whether a path is the root or lies in it, by its spelling."""
    root = root.rstrip("/")
    return path.rstrip("/") == root or path.startswith(root + "/")


def placed(
    wanted: Mapping[str, str],
    environ: Mapping[str, str],
    cache_root: str,
    *,
    costs: Sequence[str] = (),
    free: Sequence[str] = (),
    escapes: Sequence[str] = (),
) -> Placement:
    """`wanted` minus what the user has set. A kept directory outside the root costs the hit, unless its name is in
    `free`.
    """
    variables: dict[str, str] = {}
    kept: dict[str, str] = {}
    said: list[str] = []
    outside: list[str] = []
    for name, value in wanted.items():
        own = environ.get(name)
        if own is None or own == value:
            variables[name] = value
            continue
        kept[name] = own
        if value.startswith("/") and not below(own, cache_root):
            outside.append(own)
            if name not in free:
                said.append(
                    f"{name}={own} leads out of the cache root: what is written there is neither restored nor published"
                )
    return Placement(variables, kept, (*said, *costs), tuple(dict.fromkeys([*escapes, *outside])))


def home_and_temporary(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Directories outside any cache root where torch, Triton, FlashInfer, DeepGEMM and CUDA leave output by
    default.
    """
    found: list[str] = []
    temporary = next((environ[name] for name in ("TMPDIR", "TEMP", "TMP") if environ.get(name)), "/tmp")  # noqa: S108
    account = "".join("_" if character in '\\/:*?"<>|' else character for character in user.name(environ))
    found.append(f"{temporary.rstrip('/')}/torchinductor_{account}")
    home = environ.get("HOME", "").rstrip("/")
    if home:
        found += [f"{home}/{name}" for name in (".triton/cache", ".nv/ComputeCache", ".cache/flashinfer", ".deep_gemm")]
        found += [f"{home}/.cache/torch_extensions", f"{home}/.tilelang/cache"]
    return tuple(found)
