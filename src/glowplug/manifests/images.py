"""What the name of an image says: which engine is in it, of which version, and what it starts when the pod names no command.

The version is read from the tag, and only where the tag is the engine's own: `vllm/vllm-openai:v0.21.0` and a mirror of it, not
NVIDIA's `nvcr.io/nvidia/vllm:25.09-py3` nor LMCache's `lmcache/vllm-openai:v0.3.9`, which count their own versions.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Final

_KIND: Final = r"(?:-(?:cpu|gpu|cuda\d*|rocm|tpu|neuron|xpu|hpu|arm64|dev|base|server|runtime|nightly|release))*"
_ENGINES: Final = (
    ("vllm", re.compile(rf"(?:.*/)?(?:vllm(?:-openai|server)?{_KIND}|llm-d(?:-cuda|-aws|-dev)?)")),
    ("sglang", re.compile(rf"(?:.*/)?sglang{_KIND}")),
    ("tensorrt-llm", re.compile(r"(?:.*/)?(?:tensorrt-llm(?:/(?:release|devel))?|trtllm)")),
)
# Those of other makers, whose tags are versions of their own.
_OTHERS: Final = re.compile(
    r"(?:.*/)?(?:lmcache|rocm|intel|kserve|nvcr\.io/nvidia/(?:vllm|sglang)|llm-d[^/]*|.*/llm-d[^/]*)(?:/.*)?"
)
_VERSION: Final = re.compile(r"v?(\d+\.\d+\.\d+(?:\.post\d+|rc\d+)?)(?:[-_.+].*)?", re.ASCII)
# `ENTRYPOINT` is the server (docker/Dockerfile of vllm-project/vllm: `python3 -m vllm.entrypoints.openai.api_server`, later
# `vllm serve`); those of SGLang and of NVIDIA start what they are given.
_SERVER: Final = re.compile(rf"(?:.*/)?vllm-openai{_KIND}")

_LONGEST: Final = 1024
"""What registries take is half as long; longer text is nobody's name, and neither looked through nor remembered."""


@dataclass(frozen=True)
class Image:
    """`engine` "" where the name does not say one; `starts_server`: its own command is the engine's server."""

    engine: str
    version: str
    starts_server: bool


def read(text: str) -> Image:
    """What the image of that name is."""
    return _read(text) if len(text) <= _LONGEST else Image("", "", starts_server=False)


@functools.lru_cache(maxsize=1024)
def _read(text: str) -> Image:
    name = text.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    repository, tag = (head, tag) if colon and "/" not in tag else (name, "")
    engine = next((engine for engine, names in _ENGINES if names.fullmatch(repository)), "")
    version = _VERSION.fullmatch(tag) if engine and not _OTHERS.fullmatch(repository) else None
    return Image(engine, version.group(1) if version else "", bool(_SERVER.fullmatch(repository)))
