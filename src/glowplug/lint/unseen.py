"""What lint did not see and no rule speaks of: commands that cannot be followed, runtimes that start an engine by themselves, and
values that the API server refuses before any engine starts. "No findings" would be misread without."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Container, Manifests, Object, Workload
    from glowplug.manifests.values import Value

# KServe's own server, which starts vLLM where it can and takes its options beside those of its own.
_HUGGINGFACE: Final = re.compile(r"(?:.*/)?kserve/huggingfaceserver(?:[:@].*)?")
# Reasons that quote the script, which may hold a credential.
_QUOTING: Final = ("export ", "${")
_RUNTIMES: Final = ("ServingRuntime", "ClusterServingRuntime")


def notes(manifests: Manifests) -> Iterator[str]:
    """In the order of the objects, one for each."""
    seen = {id(workload.object.value) for workload in manifests.workloads}
    for workload in manifests.workloads:
        yield from _of_workload(workload)
    for one in manifests.objects:
        if id(one.value) not in seen and _starts_by_itself(one):
            yield (
                f"{_where(one.value)}: {one.title}: KServe's runtime for Hugging Face models, which may start vLLM with options of "
                "its own, is not known: nothing of this pod is looked at"
            )


def _of_workload(workload: Workload) -> Iterator[str]:
    why = workload.engine.opaque
    if why:
        if why.startswith(_QUOTING):
            why = "its script cannot be followed"
        yield (
            f"{_where(workload.container.value)}: {workload.object.title}: the command is not seen ({why}): rules about options "
            "and the model say nothing"
        )
    for container in (*workload.init_containers, *workload.containers):
        yield from _no_strings(workload, container)


def _no_strings(workload: Workload, container: Container) -> Iterator[str]:
    listed = container.value.get("env")
    for entry in listed.elements() if listed is not None else ():
        name, value = entry.get("name"), entry.get("value")
        if name is None or value is None or value.is_text or value.data is None:
            continue
        yield (
            f"{_where(value)}: {workload.object.title}: the value of {name.text} is no string, and the API server refuses the "
            "object: put it in quotes"
        )


def _starts_by_itself(one: Object) -> bool:
    if one.kind == "InferenceService":
        model = one.value.get("spec", "predictor", "model")
        if model is None:
            return False
        named = (model.get("modelFormat", "name"), model.get("runtime"))
        return any(value is not None and "huggingface" in value.text.lower() for value in named)
    if one.kind not in _RUNTIMES:
        return False
    containers = one.value.get("spec", "containers")
    images = [each.get("image") for each in (containers.elements() if containers is not None else ())]
    return any(image is not None and _HUGGINGFACE.fullmatch(image.text) for image in images)


def _where(value: Value) -> str:
    return f"{value.source.name}, line {value.source.position(value.span.start)[0]}"
