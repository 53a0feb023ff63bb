"""Documents → Kubernetes objects, the pods in them, and the engines in those.

Where a kind keeps its pod templates is one table (`_TEMPLATES`); a kind that it does not have is looked into where most have
one, at `spec.template`. Lists are opened. What is no Kubernetes object (a chart's values, a Compose file) is skipped and told.
"""

from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import GlowplugError
from glowplug.core.units import parse_size
from glowplug.engines.written import written
from glowplug.lint import commands, landing, nodes, pods, unseen
from glowplug.lint.view import Manifests, Object, Option, Variable, Workload
from glowplug.manifests import values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.lint.view import Container
    from glowplug.manifests.source import Source
    from glowplug.manifests.values import Value

WEIGHTS: Final = "glowplug.dev/weights"

_DEEPEST_LIST: Final = 8
_EACH: Final = "*"
_MOST_NAMES: Final = 3
_TEMPLATES: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "Pod": ((),),
    "PodTemplate": (("template",),),
    "CronJob": (("spec", "jobTemplate", "spec", "template"),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
    "RayCluster": (("spec", "headGroupSpec", "template"), ("spec", "workerGroupSpecs", _EACH, "template")),
    "RayService": (
        ("spec", "rayClusterConfig", "headGroupSpec", "template"),
        ("spec", "rayClusterConfig", "workerGroupSpecs", _EACH, "template"),
    ),
    "RayJob": (
        ("spec", "rayClusterSpec", "headGroupSpec", "template"),
        ("spec", "rayClusterSpec", "workerGroupSpecs", _EACH, "template"),
    ),
    "JobSet": (("spec", "replicatedJobs", _EACH, "template", "spec", "template"),),
}
_USUAL: Final = (("spec", "template"),)
# Kinds whose pod's spec stands in the object itself; its labels and annotations are the object's.
_BARE: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "LLMInferenceService": (
        ("spec", "template"),
        ("spec", "worker"),
        ("spec", "prefill", "template"),
        ("spec", "prefill", "worker"),
    ),
    "LLMInferenceServiceConfig": (("spec", "template"), ("spec", "worker")),
    "InferenceService": (("spec", "predictor"), ("spec", "predictor", "workerSpec")),
    "ServingRuntime": (("spec",),),
    "ClusterServingRuntime": (("spec",),),
}
_KSERVE_MODELS: Final = "/mnt/models"


@dataclass(frozen=True)
class _Pod:
    """A pod of an object. `model` is KServe's `predictor.model`, a container whose image and command a runtime gives."""

    object: Object
    template: Value
    spec: Value
    model: Value | None = None
    given: tuple[Variable, ...] = ()


def read(sources: Sequence[Source], *, compute: str = "", weights_bytes: int | None = None) -> Manifests:
    """All that the sources hold. Raises BadInputError for what is no YAML."""
    with _collector_at_rest():
        return _read(sources, compute, weights_bytes)


@contextlib.contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Nothing that is read becomes garbage; looking for some among a million nodes takes longer than reading them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(sources: Sequence[Source], compute: str, weights_bytes: int | None) -> Manifests:
    objects: list[Object] = []
    skipped: list[tuple[str, int]] = []
    for source in sources:
        for document in values.load(source):
            found = tuple(_objects(document, "", "", 0))
            objects += found
            if not found and not _is_empty_list(document):
                line = source.position(document.span.start)[0]
                skipped.append((source.name, line))
    manifests = Manifests(tuple(objects), (), (), compute, _told(skipped))
    # Workloads and the whole point at each other: the circle is closed here, once.
    object.__setattr__(manifests, "nodes", nodes.read(manifests))
    places = landing.Landing(manifests)
    workloads = tuple(
        one for each in objects for pod in _pods(each) for one in _workloads(pod, manifests, places, weights_bytes)
    )
    object.__setattr__(manifests, "workloads", workloads)
    object.__setattr__(manifests, "notes", tuple(unseen.notes(manifests)))
    return manifests


def _told(skipped: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """One line for all of them: a repository has many files of YAML and JSON that are no manifests."""
    if not skipped:
        return ()
    if len(skipped) == 1:
        name, line = skipped[0]
        return (f"{name}, line {line}: no Kubernetes object (it has no apiVersion and kind)",)
    names = list(dict.fromkeys(name for name, _ in skipped))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    files = "1 file" if len(names) == 1 else f"{len(names)} files"
    what = "are no Kubernetes objects (they have no apiVersion and kind)"
    return (f"{len(skipped)} documents in {files} {what}: {', '.join(names[:_MOST_NAMES])}{more}",)


def _objects(value: Value, api_version: str, kind: str, depth: int) -> Iterator[Object]:
    api_version = pods.text_of(value.get("apiVersion")) or api_version
    kind = pods.text_of(value.get("kind")) or kind
    if not api_version or not kind or not value.is_mapping:
        return
    items = value.get("items")
    if kind.endswith("List") and items is not None and items.is_sequence:
        if depth < _DEEPEST_LIST:
            for item in items.elements():
                # The items of a typed list (DeploymentList) may leave out what they are.
                yield from _objects(item, api_version, kind.removesuffix("List"), depth + 1)
        return
    metadata = value.get("metadata")
    name = pods.text_of(metadata.get("name")) if metadata is not None else ""
    if metadata is not None and not name:
        name = pods.text_of(metadata.get("generateName"))
    namespace = pods.text_of(metadata.get("namespace")) if metadata is not None else ""
    yield Object(value, api_version, kind, name, namespace)


def _is_empty_list(value: Value) -> bool:
    return pods.text_of(value.get("kind")).endswith("List") and value.get("items") is not None


def templates(one: Object) -> list[Value]:
    """Where the annotations of an object's pods stand, beside its own."""
    return [pod.template for pod in _pods(one) if pod.template is not one.value]


def _pods(one: Object) -> Iterator[_Pod]:
    given = tuple(_given(one))
    for path in _BARE.get(one.kind, ()):
        spec = one.value.get(*path)
        if spec is not None and spec.is_mapping:
            model = spec.get("model") if one.kind == "InferenceService" else None
            yield _Pod(one, one.value, spec, model if model is not None and model.is_mapping else None, given)
    if one.kind in _BARE:
        return
    for path in _TEMPLATES.get(one.kind, _USUAL):
        for template in _at(one.value, path):
            spec = template.get("spec")
            if spec is not None and spec.is_mapping:
                yield _Pod(one, template, spec, None, given)


def _at(value: Value, path: tuple[str, ...]) -> Iterator[Value]:
    if not path:
        yield value
    elif path[0] == _EACH:
        for element in value.elements():
            yield from _at(element, path[1:])
    else:
        below = value.get(path[0])
        if below is not None:
            yield from _at(below, path[1:])


def _given(one: Object) -> Iterator[Variable]:
    """Variables that a kind's controller puts into every container (LeaderWorkerSet: docs/reference/labels-annotations…)."""
    if one.kind != "LeaderWorkerSet":
        return
    size = one.value.get("spec", "leaderWorkerTemplate", "size")
    for name in ("LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX"):
        yield Variable(name, None, one.value, None, "field")
    known = written(size.text, size) if size is not None else None
    yield Variable("LWS_GROUP_SIZE", known, size if size is not None else one.value, None, "field")


def _workloads(
    pod: _Pod, manifests: Manifests, places: landing.Landing, weights_bytes: int | None
) -> Iterator[Workload]:
    def config_map(name: str) -> Object | None:
        return manifests.named("ConfigMap", name, pod.object.namespace)

    claims = pod.object.value.get("spec", "volumeClaimTemplates") if pod.object.kind == "StatefulSet" else None
    volumes = pods.volumes(pod.spec, claims)
    every = pods.containers(pod.spec, "containers", volumes, config_map, pod.given)
    if pod.model is not None:
        every = (pods.container(pod.model, volumes, config_map, pod.given), *every)
    engines = [(one, _engine(pod, one, config_map)) for one in every]
    if not any(found for _, found in engines):
        return
    init = pods.containers(pod.spec, "initContainers", volumes, config_map, pod.given)
    # The environment of an engine has what its command line sets; the others see the same container.
    by_name = {id(one): replace(one, environment=found[1]) for one, found in engines if found}
    every = tuple(by_name.get(id(one), one) for one in every)
    size = weights_bytes if weights_bytes is not None else _weights(pod)
    for container, found in engines:
        if found is None:
            continue
        own = by_name[id(container)]
        landed = places.of(pod.spec, own)
        yield Workload(
            object=pod.object,
            template=pod.template,
            spec=pod.spec,
            container=own,
            engine=found[0],
            containers=every,
            init_containers=init,
            volumes=volumes,
            nodes=landed.nodes,
            machines=landed.machines,
            compute=landed.compute,
            weights_bytes=size,
            everything=manifests,
        )


def _engine(pod: _Pod, container: Container, config_map: commands.ConfigMaps) -> commands.Found | None:
    runtime = _runtime(pod, container)
    found = commands.engine_of(container, config_map, runtime=runtime)
    if found is None or pod.model is not container.value or found[0].model is not None:
        return found
    # KServe fetches the model first and names the directory in the runtime's own arguments.
    address = pod.model.get("storageUri")
    if address is None or not address.text or found[0].opaque:
        return found
    model = Option("model", _KSERVE_MODELS, address, address)
    return replace(found[0], model=model), found[1]


def _runtime(pod: _Pod, container: Container) -> str:
    """The engine of the runtime behind a container of KServe's, "" where it is a container like any other."""
    if pod.object.kind == "LLMInferenceService" and container.image is None:
        return "vllm"
    if pod.model is None or container.value is not pod.model:
        return ""
    form = pods.text_of(pod.model.get("modelFormat", "name")).lower()
    runtime = pods.text_of(pod.model.get("runtime")).lower()
    for engine in ("vllm", "sglang"):
        if engine in runtime or form == engine:
            return engine
    return ""


def _weights(pod: _Pod) -> int | None:
    for value in (pod.template, pod.object.value):
        written_size = pods.text_of(value.get("metadata", "annotations", WEIGHTS))
        if written_size:
            try:
                return parse_size(written_size)
            except GlowplugError:
                return None
    return None
