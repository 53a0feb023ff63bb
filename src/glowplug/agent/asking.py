"""What pods of the cluster ask for, so that a new node brings first what is likely to be started on it next.

A hint and no more: what cannot be read from a pod's specification is no wish, and then the key comes in its turn. Only pods
that carry glowplug's mode as a label are asked for: the API server filters, and a fleet of agents does not read all pods of a
cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.agent.ranking import Wish
from glowplug.core.errors import GlowplugError, NotFoundError, UsageError
from glowplug.engines import registry
from glowplug.engines.command import see_through
from glowplug.manifests import images, podspec, recipe
from glowplug.manifests.marks import DOMAIN_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.agent.settings import Settings
    from glowplug.kube.contract import Api, Object

_MOST: Final = 5000
_OVER: Final = frozenset(("Succeeded", "Failed"))


def wishes(api: Api, settings: Settings) -> Mapping[str, Sequence[Wish]]:
    """By trust domain, each once, those that most pods have first. Raises the API's errors."""
    counts: dict[str, dict[Wish, int]] = {}
    domains: dict[str, str] = {}
    for number, pod in enumerate(api.pods(labels=f"{recipe.MODE_LABEL}={settings.mode.value}")):
        if number >= _MOST:
            break
        namespace = str(pod.get("metadata", {}).get("namespace", ""))
        if namespace not in domains:
            domains[namespace] = settings.domain_of(namespace, _label(api, namespace))
        wish = wished(pod) if domains[namespace] in settings.domains else None
        if wish is not None:
            of_domain = counts.setdefault(domains[namespace], {})
            of_domain[wish] = of_domain.get(wish, 0) + 1
    return {
        domain: sorted(found, key=lambda wish: (-found[wish], wish.model, wish.tp)) for domain, found in counts.items()
    }


def wished(pod: Object) -> Wish | None:
    """What one pod asks for; None where it is over, or where its specification does not say it. Raises nothing."""
    if pod.get("status", {}).get("phase") in _OVER:
        return None
    asked = podspec.asked(pod)
    if asked is None or not asked.argv:
        return None
    try:
        seen = see_through(asked.argv, {**asked.environ}, pass_others=True)
        found = registry.recognise(seen, wanted=asked.environ.get("GLOWPLUG_ENGINE") or "auto", read_text=_in_the_pod)
    except (GlowplugError, UsageError, OSError, ValueError):
        return None
    launch = found.launch
    if launch is None or not launch.model or podspec.is_open(launch.model):
        return None
    image = images.read(asked.image)
    return Wish(launch.engine, launch.model, launch.layout.tp, image.version if image.engine == launch.engine else "")


def _label(api: Api, namespace: str) -> str:
    try:
        return str((api.namespace(namespace).get("metadata", {}).get("labels") or {}).get(DOMAIN_LABEL, ""))
    except NotFoundError:
        return ""


def _in_the_pod(path: str) -> str:
    raise FileNotFoundError(path)
