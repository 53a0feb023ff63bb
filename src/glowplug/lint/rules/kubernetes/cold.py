"""How long a cold start takes, as `render` counts it when it sets a probe, and what a probe gives it.

A start that finds everything compiled is shorter, but no pod can count on it: the first one on a new node, the first after an
upgrade and the one whose cache was lost start cold. So the estimate is always the cold one. What a manifest does not say makes
it smaller, never larger: without a size the weights are nothing, without a machine it is the fastest of the catalogue that has
so many GPUs.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.catalog.instances import instances
from glowplug.catalog.limits import fact
from glowplug.core.errors import GlowplugError
from glowplug.engines.vllm.caches import behaviour
from glowplug.lint.rules.compile.off import compiling_off
from glowplug.lint.rules.kubernetes import parallel
from glowplug.models.read import of_size
from glowplug.plan.decide import decide
from glowplug.plan.request import Machine, Request
from glowplug.render import budget
from glowplug.render.serving import serving

if TYPE_CHECKING:
    from glowplug.catalog.instances import Instance
    from glowplug.lint.view import Workload
    from glowplug.manifests.values import Value

MARGIN: Final = 1.5
_NOTHING: Final = 1
_NEWEST: Final = re.compile(r"(?:.*/)?vllm/vllm-openai(?::latest|:nightly[\w.-]*)?", re.ASCII)
_STREAMED: Final = ("s3://", "gs://", "az://")
_PERIOD, _FAILURES = 10, 3  # Kubernetes' defaults of a probe
# Options of vLLM by which it may compile less or nothing.
_MAY_NOT_COMPILE: Final = ("enforce-eager", "compilation-config", "optimization-level")


@dataclass(frozen=True)
class Estimate:
    """Seconds of a cold start, at least, with the parts that were counted in words; `startup` is for how long `render` would let
    no probe end it."""

    seconds: float
    words: str
    startup: int


def estimate(workload: Workload) -> Estimate:
    """The least that a cold start of this pod is to be given."""
    compiles = _compiles(workload)
    weights = workload.weights_bytes if _streams(workload) else None
    seconds, startup = _planned(
        weights or _NOTHING,
        workload.engine.name,
        workload.engine.version,
        parallel.asked(workload.container) or 1,
        _machines(workload),
    )
    if not compiles:
        seconds -= fact("guide.compile_seconds_max").value
    parts = [f"weights of {weights / 1e9:.0f} GB" if weights else "weights of no known size not counted"]
    parts.append("everything compiled" if compiles else "nothing compiled")
    return Estimate(seconds, ", ".join(parts), max(startup, math.ceil(MARGIN * seconds)))


def _streams(workload: Workload) -> bool:
    """Whether the weights come over the network: a model in the image or on a volume takes as long as that takes."""
    model = workload.engine.model
    return model is not None and (model.value or "").lower().startswith(_STREAMED)


def _compiles(workload: Workload) -> bool:
    """Whether it certainly compiles."""
    engine = workload.engine
    if engine.name == "sglang":
        return engine.flag("enable-torch-compile")
    if engine.name != "vllm" or not engine.lacks(*_MAY_NOT_COMPILE) or any(True for _ in compiling_off(workload)):
        return False
    if engine.version:
        return behaviour("compiles_by_default", engine.version) == "yes"
    image = workload.container.image
    return image is not None and _NEWEST.fullmatch(image.text) is not None


def _machines(workload: Workload) -> tuple[str, ...]:
    """Names of the instance types that the pod may run on, () where anything is possible."""
    names: list[str] = []
    for machine in workload.machines:
        if machine.instance is not None:
            names.append(machine.instance.name)
        elif machine.gpu is not None:
            names += [one.name for one in instances() if one.gpu == machine.gpu]
        else:
            return ()
    return tuple(dict.fromkeys(names))


@functools.lru_cache(maxsize=1024)
def _planned(weights: int, engine: str, version: str, gpus: int, names: tuple[str, ...]) -> tuple[float, int]:
    """The shortest cold start on any of these machines, and the longest that a probe is rendered with."""
    able = [one for one in instances() if max(one.gpus, 1) >= gpus and (not names or one.name in names)]
    if not names or not able:
        able = [_fastest(able or list(instances()))]
    found = [plan for one in able if (plan := _plan(weights, engine, version, gpus, one)) is not None]
    if not found:
        return fact("guide.compile_seconds_max").value + fact("plan.init_seconds").value, 0
    return round(min(seconds for seconds, _ in found), 1), max(startup for _, startup in found)


def _plan(weights: int, engine: str, version: str, gpus: int, machine: Instance) -> tuple[float, int] | None:
    """By both profiles: which of them a pod follows shows in settings that are not compared here."""
    found = []
    for profile in ("guide", "auto"):
        request = Request(
            model=of_size(weights, "s3://bucket/model"),
            profile="guide" if profile == "guide" else "auto",
            machine=Machine.of_instance(machine),
            engine=engine,
            engine_version=version or None,
            tensor_parallel_size=min(gpus, max(machine.gpus, 1)),
        )
        try:
            plan = decide(request)
        except GlowplugError:  # an engine that is not planned for
            return None
        found.append((budget.cold_seconds(plan), budget.undisturbed_seconds(plan)))
    return min(seconds for seconds, _ in found), max(startup for _, startup in found)


def _fastest(able: list[Instance]) -> Instance:
    return max(able, key=lambda one: one.primary_network_bps)


@dataclass(frozen=True)
class Allowed:
    """What a probe gives a start before kubelet may end the container, in seconds, with its parts."""

    seconds: int
    delay: int
    period: int
    failures: int

    @property
    def written(self) -> str:
        """As a person counts it."""
        delay = f"{self.delay} s + " if self.delay else ""
        return f"{delay}{self.failures - 1} × {self.period} s"


def allowed(probe: Value) -> Allowed | None:
    """What a probe allows, None where a number of it is none."""
    numbers = [
        _number(probe, name, default)
        for name, default in (("initialDelaySeconds", 0), ("periodSeconds", _PERIOD), ("failureThreshold", _FAILURES))
    ]
    delay, period, failures = numbers
    if delay is None or not period or not failures:
        return None
    return Allowed(budget.earliest_end(delay, period, failures), delay, period, failures)


def _number(probe: Value, name: str, default: int) -> int | None:
    found = probe.get(name)
    if found is None or found.data is None:
        return default
    return found.data if isinstance(found.data, int) and not isinstance(found.data, bool) and found.data >= 0 else None


def asks_engine(workload: Workload, probe: Value) -> bool:
    """Whether it is the engine that answers a probe, which it does not before it is ready: HTTP or TCP on its own port."""
    found = probe.get("httpGet") or probe.get("tcpSocket")
    port = found.get("port") if found is not None else None
    if found is None or port is None or found.get("host") is not None:
        return False
    wanted = _named_port(workload, port.text) if port.is_text and not port.text.isdigit() else port.text
    own = workload.engine.option("port")
    if own is not None:
        return own.value is not None and wanted == own.value
    return not workload.engine.opaque and wanted == str(serving(workload.engine.name).port)


def _named_port(workload: Workload, name: str) -> str:
    ports = workload.container.value.get("ports")
    for entry in ports.elements() if ports is not None else ():
        named, number = entry.get("name"), entry.get("containerPort")
        if named is not None and number is not None and named.text == name:
            return number.text
    return ""
