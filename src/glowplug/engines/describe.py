"""The tables of the adapters as text for people: `docs/cache-key.md` is generated from here, so that it cannot be wrong.

Data in, Markdown out; the command that writes the file is elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.core.documents.fingerprint import GUARDS, KEY_VERSION
from glowplug.core.tables import source, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_VLLM: Final = "glowplug.engines.vllm"

_FIELDS: Final = (
    ("domain", "Trust domain: two domains share nothing.", "`--domain`, the namespace in a cluster"),
    ("engine", "Which engine.", "the command line"),
    ("engine_version", "Its version without the tag of a build (`+cu129`).", "the name of its `*.dist-info` folder"),
    ("torch", "Public version of torch.", "the name of its `*.dist-info` folder"),
    (
        "gpu",
        "NVML's name of the GPU; without one `cpu:` and the instruction sets that change code.",
        "NVML, the driver",
    ),
    ("machine", "Architecture.", "`uname`"),
    ("layout", "`tp`, `pp`, `dp`, `ep`: tensor, pipeline, data and expert parallel sizes.", "the command line"),
    ("model", "The model as spelled: its path is in the engine's own hash.", "the command line"),
    ("args", "The arguments of the tables below that are set and are not the default.", "the command line, `--config`"),
    ("env", "The variables of the tables below that are set and are not the default.", "the environment"),
    ("cache_root", "Absolute paths are inside the artifacts.", "`--cache-root`"),
)

_GUARD_MEANINGS: Final = {
    "triton": "Version of triton.",
    "cuda": "CUDA that torch was built for.",
    "python": "Whole version of Python: AOT artifacts of another patch version are refused.",
    "capability": "Compute capability of the GPU.",
    "model_config_sha256": "Digest of the model's `config.json`.",
    "image_digest": "Digest of the container image.",
}


def cache_key() -> str:
    """The whole of `docs/cache-key.md`."""
    parts = [
        "# What the cache key is made of",
        "<!-- Generated from the adapters' tables (src/glowplug/engines/*/data). Do not edit. -->",
        (
            "The key decides what is offered to a start; the engine's own hash still decides what it uses. So the key"
            " holds what every party always knows and what the engine may forget to check. The digest is SHA-256 over"
            f" the canonical JSON of the key and the key version (now {KEY_VERSION})."
        ),
        "## Fields",
        _markdown(("field", "meaning", "from"), _FIELDS),
        "## Guards",
        "Compared only where both sides know them; a difference is a miss with the reason `guard:<name>`.",
        _markdown(("guard", "meaning"), [(f"`{name}`", _GUARD_MEANINGS[name]) for name in GUARDS]),
        "## vLLM: arguments",
        source(_VLLM, "key_args"),
        _markdown(
            ("argument", "left out when", "why", "source"),
            [
                (
                    f"`--{row['name']}`",
                    f"`{row['default']}`" if row["default"] else "absent",
                    row["reason"],
                    row["source"],
                )
                for row in table(_VLLM, "key_args")
            ],
        ),
        "## vLLM and torch: variables",
        source(_VLLM, "key_env"),
        _markdown(
            ("variable", "in the key", "left out when", "why", "source"),
            [
                (
                    f"`{row['name']}`",
                    "no" if row["treat"] == "never" else "yes",
                    f"`{row['default']}`" if row["default"] else "unset",
                    row["reason"],
                    row["source"],
                )
                for row in table(_VLLM, "key_env")
            ],
        ),
        "## Variables that make vLLM miss",
        source(_VLLM, "volatile"),
        _markdown(
            ("variable", "differs by", "what to do", "source"),
            [(f"`{row['name']}`", row["differs"], row["advice"], row["source"]) for row in table(_VLLM, "volatile")],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)
