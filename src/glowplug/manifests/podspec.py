"""A pod as the API gives it → the engine's start that it asks for: what can be known without looking into the pod.

Not of YAML as people write it (that is `lint/pods.py`, with places): plain objects, whose defaults the API server has filled in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Asked:
    """The start that an engine's container asks for.

    `argv` is `command` and `args` with kubelet's references replaced, wrappers and glowplug's own launcher still before the engine.
    `environ` are the variables whose value stands in the pod; `unknown` the names of those that come from elsewhere (Secrets,
    ConfigMaps, the status); `open` whether there may be more of them (`envFrom`). `mode` is how glowplug is in the pod: `node`,
    `direct`, `shared` or "".
    """

    container: str
    image: str
    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    open: bool = False
    mode: str = ""
