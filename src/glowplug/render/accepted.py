"""What a person asked for by name and lint would object to: done, and accepted where everybody sees it.

Whoever names a model of a hub, an old engine, or a model and GPUs without room for `distributed` gets just that; the notice on
stderr says what it costs. The same reason stands on the object, as the annotation by which `glowplug lint` leaves a finding alone:
so nobody has to find out again whether it was meant, and a manifest that nobody changed has no finding. Nothing else is ever
accepted here: what the rendering itself brings has to be good.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from glowplug.plan.loaders import Loader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.plan.outcome import Plan
    from glowplug.render.options import Options

PREFIX: Final = "ignore.glowplug.dev/"
"""Before the name of a rule: an annotation whose value is the reason why its findings are left alone."""

_OF_A_HUB: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_FILES: Final = (".gguf", ".safetensors", ".bin", ".pt", ".json")
_FROM_A_HUB: Final = ("vllm", "sglang")
_STREAMED: Final = ("s3://", "gs://", "az://")


def metadata(options: Options) -> dict[str, Any]:
    """What the object that holds the pod has in its metadata for it, {} where nothing is accepted."""
    found = reasons(options)
    return {"annotations": {f"{PREFIX}{rule}": reason for rule, reason in found.items()}} if found else {}


def reasons(options: Options) -> dict[str, str]:
    """By rule; none in profile guide, which is the guide's as it is."""
    if options.plan is None or options.profile == "guide":
        return {}
    return dict(_accepted(options.plan, options.model or ""))


def _accepted(plan: Plan, model: str) -> Iterator[tuple[str, str]]:
    if plan.engine in _FROM_A_HUB and _OF_A_HUB.fullmatch(model) and not model.lower().endswith(_FILES):
        yield "model-unpinned", f"{model} was asked for by its name alone, whatever its repository holds"
    if not model.startswith(_STREAMED):
        return
    loader = Loader(plan.engine, plan.engine_version)
    for one in plan.findings:
        if one.rule == "engine-never-hits":
            yield one.rule, f"{loader.name} was asked for, which compiles a streamed model anew at every start"
        elif one.rule == "distributed-missing" and one.severity == "warning" and loader.shares:
            # A version without the key, or one that is not safe with it, is nothing that lint objects to.
            yield one.rule, one.message
