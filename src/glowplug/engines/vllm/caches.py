"""vLLM's cache trees: where they are put, which files are an entry, what may travel.

| since | tree below the cache root |
|---|---|
| 0.10 | `vllm/torch_compile_cache/<10 hex>/rank_<r>_<dp>/<part>/` with `vllm_compile_cache.py` as its index |
| 0.13, off by default | `vllm/torch_aot_compile/<64 hex>/rank_*/model` |
| 0.17.1 | `vllm/torch_compile_cache/torch_aot_compile/<64 hex>/rank_*/model`, and beside the ranks `inductor_cache/` |

An AOT `model` is what decides a hit where there is one; without mega AOT it still loads the artifacts of the
ten-digit tree, which therefore is an entry of its own. Inductor and Triton directories inside a key directory are
support: content-addressed, shared by ranks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Optional

from glowplug.core.tables import table
from glowplug.engines import inductor
from glowplug.engines.adapter import Entry, Launch, Placement, Reach
from glowplug.engines.places import home_and_temporary, placed
from glowplug.engines.temporary import is_lock, is_unfinished
from glowplug.engines.versions import parts, within
from glowplug.engines.vllm import keys
from glowplug.engines.vllm.arguments import Arguments
from glowplug.engines.vllm.command import on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.tree.model import Index

_PACKAGE: Final = "glowplug.engines.vllm"
_AOT: Final = re.compile(r"vllm/(?:torch_compile_cache/)?(torch_aot_compile/[0-9a-f]{64})/(rank_[^/]*)/(.+)")
_PIECEWISE: Final = re.compile(r"vllm/(torch_compile_cache/[0-9a-f]{10})/(rank_[^/]*)/(.+)")
_OWN_CACHES: Final = ("inductor_cache/", "triton_cache/")
_AOT_INDEX: Final = "model"
_PIECEWISE_INDEX: Final = "vllm_compile_cache.py"
_INDUCTOR: Final = "TORCHINDUCTOR_CACHE_DIR"
_TRITON: Final = "TRITON_CACHE_DIR"
REASONS: Final = {
    "VLLM_XLA_CACHE_PATH": "Not for XLA: vLLM to 0.26.0 hashes this path into its compile key, which is to be the same everywhere."
}
"""For a comment where a variable stands in a manifest and its name says something else."""
ADAPTOR_SWITCH: Final = "VLLM_USE_STANDALONE_COMPILE"
REDIRECTING: Final = "InductorAdaptor"
# With torch 2.8; before it the switch is not looked at.
_SINCE_SWITCH: Final = "0.10.2"
_STREAMED: Final = ("s3://", "gs://", "az://")

_PORTABLE: Final = (
    "vllm/torch_compile_cache/",
    "vllm/torch_aot_compile/",
    "vllm/modelinfos/",
    "vllm/flashinfer_autotune_cache/",
    "vllm/deep_gemm/",
    "inductor/",
    "triton/",
    "flashinfer/",
    "deep_gemm/",
    "nv/",
)
_NODE_LOCAL: Final = ("vllm/startup_plan/", "vllm/gpu_p2p_access_cache_for_")


def reach(path: str) -> Reach:
    """Portable is what is content-addressed or keyed by the engine; node-local is measured on one machine; the rest
    never travels.
    """
    if path.startswith(_PORTABLE):
        return Reach.PORTABLE
    return Reach.NODE_LOCAL if path.startswith(_NODE_LOCAL) else Reach.NEVER


@dataclass
class _Draft:
    """An entry while its files are being found."""

    ranks: dict[str, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    unfinished: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def entries(index: Index, launch: Launch) -> tuple[Entry, ...]:
    """All entries of a tree, AOT first, since the AOT function is what vLLM looks for first."""
    aot: dict[str, _Draft] = defaultdict(_Draft)
    piecewise: dict[str, _Draft] = defaultdict(_Draft)
    for path, file in sorted(index.files.items()):
        for pattern, drafts in ((_AOT, aot), (_PIECEWISE, piecewise)):
            match = pattern.fullmatch(path)
            if match is None or match.group(3).startswith(_OWN_CACHES):
                continue
            draft = drafts[match.group(1)]
            if is_unfinished(match.group(3)):
                draft.unfinished.append(path)
            elif not is_lock(match.group(3)):
                unit = match.group(3).rpartition("/")[0] if pattern is _PIECEWISE else ""
                draft.ranks[match.group(2)][unit.partition("/")[0]].append(path)
                if file.size == 0:
                    draft.empty.append(path)
    found = [_entry(name, draft, _AOT_INDEX, launch) for name, draft in sorted(aot.items())]
    found += [_entry(name, draft, _PIECEWISE_INDEX, launch) for name, draft in sorted(piecewise.items())]
    whole = tuple(entry for entry in found if entry is not None)
    # Stock Inductor (compilation mode 1 or 2, and vLLM on CPU) keeps no tree of vLLM's: Inductor's own caches are the entry.
    stock = inductor.entry(index, launch) if not whole or _stock(launch) else None
    return whole if stock is None else (stock, *whole)


def _stock(launch: Launch) -> bool:
    compilation = Arguments("", {"c": launch.args.get("compilation_config", "{}")}).json("c")
    mode = str(compilation.get("mode", compilation.get("level", ""))).lower()
    return mode in ("1", "2", "stock_torch_compile", "dynamo_trace_once")


def _entry(name: str, draft: _Draft, index_name: str, launch: Launch) -> Optional[Entry]:
    files = tuple(sorted(path for units in draft.ranks.values() for paths in units.values() for path in paths))
    index_files = tuple(path for path in files if path.rpartition("/")[2] == index_name)
    if not index_files and not draft.unfinished:
        return None
    return Entry(name, index_files, files, _incomplete(draft, index_files, launch))


def _incomplete(draft: _Draft, index_files: tuple[str, ...], launch: Launch) -> str:
    if draft.unfinished:
        return f"a write was not finished: {draft.unfinished[0]}"
    if draft.empty:
        return f"{draft.empty[0]} is empty"
    if launch.local_ranks is None:
        return "the ranks of this machine cannot be known in a layout over several nodes"
    saved = {path.split("/rank_", 1)[1].partition("/")[0] for path in index_files}
    if len(saved) < launch.local_ranks:
        return f"{len(saved)} of {launch.local_ranks} ranks saved their artifacts"
    missing = _missing_unit(draft, index_files) if launch.layout.pp == 1 else ""
    return f"{missing} has no index" if missing else ""


def _missing_unit(draft: _Draft, index_files: tuple[str, ...]) -> str:
    """A compiled part that some rank saved and another did not; pipeline stages may differ, ranks of one stage may
    not.
    """
    units = {unit for found in draft.ranks.values() for unit in found}
    for rank in sorted(draft.ranks):
        for unit in sorted(units):
            part = f"/{rank}/{unit}/" if unit else f"/{rank}/"
            if not any(part in path for path in index_files):
                return f"{rank}/{unit}".rstrip("/")
    return ""


def behaviour(name: str, version: str) -> str:
    """The value of a behaviour in a version, "" where none is recorded. A newer version than any checked counts as
    the newest.
    """
    for row in table(_PACKAGE, "behaviour"):
        if row["behaviour"] == name and within(version, row["from_version"], row["to_version"]):
            return row["value"]
    return ""


def place(cache_root: str, launch: Launch, environ: Mapping[str, str], *, engine_version: str, gpu: bool) -> Placement:
    """Variables for vLLM and what compiles below it.

    `VLLM_ASSETS_CACHE` is placed although nothing in it travels: the path of a streamed model's config.json is the
    model's name in vLLM's own hash, so it has to be the same on every machine. The streamer says bytes and seconds
    only with its log on stderr.
    """
    root = cache_root.rstrip("/") or "/"
    wanted = {
        "VLLM_CACHE_ROOT": f"{root}/vllm",
        "VLLM_ASSETS_CACHE": f"{root}/vllm/assets",
        "TORCHINDUCTOR_CACHE_DIR": f"{root}/inductor",
        "TRITON_CACHE_DIR": f"{root}/triton",
        "FLASHINFER_WORKSPACE_BASE": f"{root}/flashinfer",
        "DG_JIT_CACHE_DIR": f"{root}/deep_gemm",
        "CUDA_CACHE_PATH": f"{root}/nv",
    }
    if engine_version and parts(engine_version) <= parts("0.26.0"):
        wanted["VLLM_XLA_CACHE_PATH"] = f"{root}/vllm/xla_cache"
    if not gpu:
        wanted["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"
    if launch.other_args.get("load_format", "").startswith("runai") or launch.model.startswith(_STREAMED):
        wanted["RUNAI_STREAMER_LOG_TO_STDERR"] = "1"
    free = ["VLLM_XLA_CACHE_PATH", *overwritten(engine_version, environ)]
    costs = [*_header_cost(environ, gpu=gpu), *keys.poisons(environ, engine_version)]
    return placed(wanted, environ, root, costs=costs, free=free, escapes=home_and_temporary(environ))


def overwritten(version: str, environ: Mapping[str, str]) -> frozenset[str]:
    """The variables that vLLM sets itself, for the whole process, whatever the caller has set.

    AOT does so, and InductorAdaptor, which redirects what torch keeps into vLLM's tree; InductorStandaloneAdaptor writes whole
    artifacts there instead and leaves the variables alone.
    """
    found = set()
    if behaviour(f"{_INDUCTOR}_overwritten_by_aot", version) == "yes" and not _aot_off(environ):
        found.add(_INDUCTOR)
    if adaptor(version, environ) == REDIRECTING:
        found.update(
            name for name in (_INDUCTOR, _TRITON) if behaviour(f"{name}_overwritten_by_adaptor", version) == "yes"
        )
    return frozenset(found)


def adaptor(version: str, environ: Mapping[str, str]) -> str:
    """By which of its classes vLLM calls Inductor, "" where that was not looked up for the version."""
    usual = behaviour("compiler_adaptor", version)
    chosen = environ.get(ADAPTOR_SWITCH)
    if chosen is None or not usual or parts(version) < parts(_SINCE_SWITCH):
        return usual
    return "InductorStandaloneAdaptor" if chosen == "1" else REDIRECTING


def _aot_off(environ: Mapping[str, str]) -> bool:
    chosen = environ.get("VLLM_USE_AOT_COMPILE", "").strip()
    return (bool(chosen) and not on(environ, "VLLM_USE_AOT_COMPILE")) or on(environ, "VLLM_BATCH_INVARIANT")


def _header_cost(environ: Mapping[str, str], *, gpu: bool) -> list[str]:
    name = "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"
    if gpu or environ.get(name, "0") == "0":
        return []
    return [
        f"{name}={environ[name]}: Inductor keeps 149 MB of headers in the temporary directory and makes them anew on every machine"
    ]
