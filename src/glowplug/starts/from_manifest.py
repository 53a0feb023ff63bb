"""A pod in a manifest, or as `kubectl get pod -o json` has it → the fingerprint of its start, as far as it can be inferred.

The engine's version stands in the image's tag, where that is the engine's own; torch follows from it by the catalogue of releases;
the GPU from what the pod selects its node by. What an image sets or has instead nobody sees from here: each such value is marked
`inferred:…`, and what cannot be known makes the key unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from glowplug.catalog import labels
from glowplug.catalog.instances import instances
from glowplug.catalog.releases import release
from glowplug.core.documents.fingerprint import Fact, Fingerprint
from glowplug.core.errors import BadInputError, NotFoundError
from glowplug.fingerprint.hardware import Hardware
from glowplug.fingerprint.software import Software
from glowplug.host import writable
from glowplug.manifests import images, podspec
from glowplug.starts import inferring

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from glowplug.manifests.podspec import Asked, Object

_KEY: Final = (
    *("domain", "engine", "engine_version", "torch", "gpu", "machine", "tp", "pp", "dp", "ep"),
    *("model", "args", "env", "cache_root"),
)
_WAYS: Final = ("items", "spec", "template", "jobTemplate", "leaderWorkerTemplate", "leaderTemplate", "workerTemplate")
_DEPTH: Final = 8
_NAMESPACE: Final = "default"
_ARCHITECTURES: Final[Mapping[str, str]] = {"amd64": "x86_64", "arm64": "aarch64"}
_X86: Final = ("cpu:x86-64", "cpu:avx")
"""What processors of one kind alone are called (`host/cpu.py`)."""
_ARCH: Final = ("kubernetes.io/arch", "beta.kubernetes.io/arch")


@dataclass(frozen=True)
class Given:
    """What the caller knows better; "" and `auto` for nothing. `gpu` is NVML's name, the versions are those of the image."""

    domain: str = ""
    cache_root: str = ""
    gpu: str = ""
    engine: str = "auto"
    engine_version: str = ""
    torch: str = ""
    machine: str = ""


@dataclass(frozen=True)
class Inferred:
    """A pod's fingerprint. `notes` are what one has to know to believe it, a sentence each."""

    fingerprint: Fingerprint
    notes: tuple[str, ...] = ()


def infer(documents: Iterable[Any], given: Given = Given()) -> Inferred:
    """The fingerprint of the one pod with an engine among these objects.

    Raises NotFoundError where there is none, BadInputError where there are more.
    """
    found = [
        (pod, one) for document in documents for pod in _pods(document, "", 0) for one in _engines(pod, given.engine)
    ]
    if not found:
        raise NotFoundError(
            "no pod with an engine is in it", hint="name the engine with --engine where it is known by nothing"
        )
    if len(found) > 1:
        names = ", ".join(sorted({one.container for _, one in found}))
        raise BadInputError(
            f"{len(found)} engines are in it (containers {names})", hint="give the object of one of them"
        )
    return _inferred(*found[0], given)


def _engines(pod: Object, engine: str) -> Sequence[Asked]:
    if engine == "auto":
        return podspec.engines(pod)
    named = podspec.engines(pod) or podspec.containers(pod)
    return [replace(one, environ={**one.environ, "GLOWPLUG_ENGINE": engine}) for one in named]


def _pods(value: Any, namespace: str, depth: int) -> Iterator[Object]:
    """Pods, and the templates of what makes pods; each with the namespace of the object that it is in, `default` without one."""
    if isinstance(value, list):
        for one in value:
            yield from _pods(one, namespace, depth)
    if not isinstance(value, Mapping) or depth > _DEPTH:
        return
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    namespace = str(metadata.get("namespace") or namespace)
    spec = value.get("spec")
    if isinstance(spec, Mapping) and isinstance(spec.get("containers"), list):
        yield {**value, "metadata": {**metadata, "namespace": namespace or _NAMESPACE}}
        return
    for way in _WAYS:
        yield from _pods(value.get(way), namespace, depth + 1)


def _inferred(pod: Object, asked: Asked, given: Given) -> Inferred:
    domain, root = _domain(pod, asked, given), _cache_root(asked, given)
    followed = inferring.follow(asked, {name: podspec.stand_in(name) for name in asked.unknown})
    if isinstance(followed, inferring.Unfollowed):
        known = {name: fact for name, fact in (("domain", domain), ("cache_root", root)) if fact.value}
        if followed.engine:
            known["engine"] = Fact(followed.engine, "inferred:pod")
        unknown = tuple(name for name in _KEY if name not in known)
        return Inferred(
            Fingerprint(known, {}, None, None, unknown), (f"nothing is known of this command: {followed.why}",)
        )
    wanted = _wanted(pod)
    gpu, candidates = _gpu(wanted, given)
    machine = _machine(wanted, candidates, given)
    software = _software(asked, followed.launch.engine, given)
    found = inferring.fingerprint(
        followed,
        domain=domain,
        cache_root=root,
        software=software,
        hardware=Hardware(gpu, machine, accelerated=_is_gpu(gpu)),
    )
    notes = [f"nothing is compiled or cached: {followed.launch.disabled}"] if followed.launch.disabled else []
    if len(candidates) > 1:
        notes.append(f"the GPU may be {' or '.join(candidates)}: name it with --gpu")
    if asked.open:
        notes.append("what `envFrom` brings is not seen; a variable of the key among it would change the key")
    if "engine_version" in found.unknown:
        notes.append("the image's name says no version of the engine: name it with --engine-version")
    if "torch" in found.unknown:
        why = (
            "that image is not in"
            if "engine_version" not in found.unknown
            else "an image of no known version is not in"
        )
        notes.append(f"which torch is in {why} the catalogue: name it with --torch")
    if "gpu" in found.unknown and not candidates:
        notes.append(
            "no node selector says which GPU: name it with --gpu (of a pod on CPUs: cpu:… as keys have it, or cpu for a "
            "processor like this machine's)"
        )
    elif "machine" in found.unknown:
        notes.append("neither a node selector nor the GPU says the kind of machine: name it with --machine")
    notes.append(
        "versions, and what the image itself sets, are inferred: `glowplug fingerprint -- …` in the pod observes them"
    )
    return Inferred(found, tuple(notes))


def _domain(pod: Object, asked: Asked, given: Given) -> Fact:
    """As the launcher is told; the agent's configuration has the last word in node mode."""
    if given.domain:
        return Fact(given.domain, "given:domain")
    if asked.environ.get("GLOWPLUG_DOMAIN"):
        return Fact(asked.environ["GLOWPLUG_DOMAIN"], "inferred:GLOWPLUG_DOMAIN")
    if "GLOWPLUG_DOMAIN" in asked.unknown:
        return Fact("", "unknown")
    return Fact(pod["metadata"]["namespace"], "inferred:namespace")


def _cache_root(asked: Asked, given: Given) -> Fact:
    if given.cache_root:
        return Fact(given.cache_root, "given:cache_root")
    if "GLOWPLUG_CACHE_ROOT" in asked.unknown:
        return Fact("", "unknown")
    root = asked.environ.get("GLOWPLUG_CACHE_ROOT", "")
    return Fact(root, "inferred:GLOWPLUG_CACHE_ROOT") if root else Fact(writable.DEFAULT, "inferred:default")


def _software(asked: Asked, engine: str, given: Given) -> Software:
    image = images.read(asked.image)
    facts: dict[str, Fact] = {}
    if given.engine_version:
        facts["engine_version"] = Fact(given.engine_version, "given:engine_version")
    elif image.engine == engine and image.version:
        facts["engine_version"] = Fact(image.version, "inferred:image tag")
    known = release(engine, str(facts["engine_version"].value)) if "engine_version" in facts else None
    if given.torch:
        facts["torch"] = Fact(given.torch, "given:torch")
    elif known is not None and known.torch:
        facts["torch"] = Fact(known.torch, "inferred:catalogue of releases")
    return Software(facts)


def _wanted(pod: Object) -> Mapping[str, str]:
    """The labels that a node must have for this pod, of which it names one value."""
    spec = pod["spec"]
    found: dict[str, str] = {}
    affinity: Any = spec
    for name in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"):
        affinity = affinity.get(name) if isinstance(affinity, Mapping) else None
    terms: Sequence[Any] = (
        affinity if isinstance(affinity, list) and len(affinity) == 1 else ()
    )  # several are alternatives
    for term in terms:
        expressions = term.get("matchExpressions") if isinstance(term, Mapping) else None
        for one in expressions if isinstance(expressions, list) else ():
            values = one.get("values") if isinstance(one, Mapping) else None
            if isinstance(values, list) and len(values) == 1 and one.get("operator") == "In":
                found[str(one.get("key"))] = str(values[0])
    selector = spec.get("nodeSelector")
    if isinstance(selector, Mapping):
        found.update({str(name): str(value) for name, value in selector.items()})
    return found


def _gpu(wanted: Mapping[str, str], given: Given) -> tuple[Fact | None, tuple[str, ...]]:
    if given.gpu:
        return Fact(given.gpu, "given:gpu"), (given.gpu,)
    names = labels.named(wanted)
    return (Fact(names[0], "inferred:node selector") if len(names) == 1 else None), names


def _is_gpu(gpu: Fact | None) -> bool:
    return gpu is None or not str(gpu.value).startswith("cpu:")


def _machine(wanted: Mapping[str, str], candidates: Sequence[str], given: Given) -> Fact:
    if given.machine:
        return Fact(given.machine, "given:machine")
    named = next((wanted[label] for label in _ARCH if label in wanted), "")
    if named:
        return Fact(_ARCHITECTURES.get(named, named), "inferred:node selector")
    if given.gpu.startswith(_X86):
        return Fact("x86_64", "given:gpu")
    carrying = {one.arch for one in instances() if one.gpu.nvml_name in candidates}
    if len(carrying) == 1:
        return Fact(_ARCHITECTURES[carrying.pop()], "inferred:catalogue of instances")
    return Fact("", "unknown")
