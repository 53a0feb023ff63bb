"""What pods of the cluster ask for, so that a new node brings first what is likely to be started on it next.

A hint and no more: what cannot be read from a pod's specification is no wish, and then the key comes in its turn. Only pods
that carry glowplug's mode as a label are asked for: the API server filters, and a fleet of agents does not read all pods of a
cluster. The list comes from the server's memory and not from etcd, and namespaces are asked for once in a while only.

Whoever may create pods decides what is read here, so it has measures: of each pod only what the engine's command is made of is
kept, of pods that ask for the same one (a Deployment's all do), and of all together some megabytes, the shortest first, since long
commands are rarely an engine's. They are followed in that order too, until the time for it is over; what is known stays known for
the next round. One pod's fault is that pod's only.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from glowplug.agent.ranking import Wish
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.errors import NotFoundError
from glowplug.engines import registry
from glowplug.engines.command import see_through
from glowplug.manifests import images, podspec, recipe
from glowplug.manifests.marks import DOMAIN_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from glowplug.agent.settings import Settings
    from glowplug.core.clock import Clock
    from glowplug.kube.contract import Api, Object

_MOST_PODS: Final = 20_000
_MOST_OF_A_POD: Final = 64 << 10
"""Characters of what a pod starts; no program takes more than twice that as one argument."""
_MOST_TOGETHER: Final = 16 << 20
_SECONDS: Final = 60.0
_FOLLOWING_SECONDS: Final = 10.0
_NAMESPACE_SECONDS: Final = 1800.0
_OVER: Final = frozenset(("Succeeded", "Failed"))
_OF_A_CONTAINER: Final = ("name", "image", "command", "args", "env", "envFrom")
_OF_A_POD: Final = ("enableServiceLinks", "serviceAccountName")


class Asking:
    """See the module's text. One for the life of an agent: it remembers. For one thread."""

    def __init__(
        self, api: Api, settings: Settings, *, tick: Callable[[], None] = lambda: None, clock: Clock = SYSTEM
    ) -> None:
        """`tick` is called between pods."""
        self._api = api
        self._settings = settings
        self._tick = tick
        self._clock = clock
        self._known: dict[str, Wish | None] = {}
        self._namespaces: dict[str, tuple[float, str]] = {}

    def __call__(self) -> Mapping[str, Sequence[Wish]]:
        """By trust domain, each once, those that most pods have first. Raises the API's errors."""
        soon = Deadline.after(_SECONDS, self._clock)
        survey = _Survey()
        counts: Counter[tuple[str, str]] = Counter()
        for one in self._api.survey_pods(survey.keep, labels=f"{recipe.MODE_LABEL}={self._settings.mode.value}"):
            self._tick()
            if soon.passed():
                break
            counts[one["namespace"], one["template"]] += 1
        domains = self._domains(dict.fromkeys(namespace for (namespace, _), _ in counts.most_common()), soon)
        wanted = {template for namespace, template in counts if domains.get(namespace) in self._settings.domains}
        self._known = dict(self._follow({name: survey.texts[name] for name in wanted if name in survey.texts}))
        found: dict[str, Counter[Wish]] = {}
        for (namespace, template), number in counts.items():
            wish = self._known.get(template)
            if wish is not None and template in wanted:
                found.setdefault(domains[namespace], Counter())[wish] += number
        return {
            domain: sorted(of_domain, key=lambda wish: (-of_domain[wish], wish.model, wish.tp))
            for domain, of_domain in found.items()
        }

    def _follow(self, texts: Mapping[str, str]) -> Iterator[tuple[str, Wish | None]]:
        soon = Deadline.after(_FOLLOWING_SECONDS, self._clock)
        for template, text in sorted(texts.items(), key=lambda item: len(item[1])):
            if template in self._known:
                yield template, self._known[template]
            elif not soon.passed():
                self._tick()
                yield template, _followed(text)

    def _domains(self, namespaces: Mapping[str, None], soon: Deadline) -> dict[str, str]:
        """The trust domain of each namespace, as far as there is time to ask. Raises the API's errors."""
        now = self._clock.monotonic()
        self._namespaces = {
            name: known for name, known in self._namespaces.items() if name in namespaces and now < known[0]
        }
        for name in namespaces:
            if name not in self._namespaces and not soon.passed():
                self._tick()
                self._namespaces[name] = (now + _NAMESPACE_SECONDS, _label(self._api, name))
        return {name: self._settings.domain_of(name, label) for name, (_, label) in self._namespaces.items()}


class _Survey:
    """What pods of one list start: each text once, by its digest, and all of them within a measure."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._uids: set[str] = set()
        self._sizes: list[tuple[int, str]] = []
        self._together = 0

    def keep(self, pod: Object) -> Object | None:
        """What has to be told of a pod: its namespace, and the digest of what it starts. Raises nothing."""
        text = _template(pod)
        if text is None:
            return None
        metadata = _mapping(pod.get("metadata"))
        uid, namespace = str(metadata.get("uid")), metadata.get("namespace")
        if not isinstance(namespace, str):
            return None
        if uid not in self._uids and len(self._uids) >= _MOST_PODS:
            return None
        self._uids.add(uid)
        template = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        self._take(template, text)
        return {"metadata": {"uid": uid}, "namespace": namespace, "template": template}

    def _take(self, template: str, text: str) -> None:
        if template in self.texts:
            return
        self.texts[template] = text
        heapq.heappush(self._sizes, (-len(text), template))
        self._together += len(text)
        while self._together > _MOST_TOGETHER:
            _, longest = heapq.heappop(self._sizes)
            self._together -= len(self.texts.pop(longest))


def wished(pod: Object) -> Wish | None:
    """What one pod asks for; None where it is over, or where its specification does not say it. Raises nothing."""
    text = _template(pod)
    return None if text is None else _followed(text)


def _template(pod: Object) -> str | None:
    """What of a pod says what it starts, as one text; the same for all pods of a template. Raises nothing.

    None where the pod is over, or its specification too long or of no shape that can be read.
    """
    try:
        text = _said(pod)
    except Exception:  # noqa: BLE001 - it is a hint; whatever is wrong with one pod is no reason to do without the others'
        return None
    return text if text is not None and len(text) <= _MOST_OF_A_POD else None


def _said(pod: Object) -> str | None:
    metadata, spec, status = (_mapping(pod.get(name)) for name in ("metadata", "spec", "status"))
    if status.get("phase") in _OVER:
        return None
    containers = [
        {name: one[name] for name in _OF_A_CONTAINER if name in one}
        for one in spec.get("containers") or ()
        if isinstance(one, dict)
    ]
    said = {
        "metadata": {"namespace": metadata.get("namespace")},
        "spec": {**{name: spec[name] for name in _OF_A_POD if name in spec}, "containers": containers},
    }
    return json.dumps(said, sort_keys=True)


def _followed(text: str) -> Wish | None:
    try:
        return _asked(json.loads(text))
    except Exception:  # noqa: BLE001 - as in `_template`
        return None


def _asked(pod: Object) -> Wish | None:
    """Raises GlowplugError where what a pod starts cannot be followed."""
    asked = podspec.asked(pod)
    if asked is None or not asked.argv:
        return None
    seen = see_through(asked.argv, {**asked.environ}, pass_others=True)
    found = registry.recognise(seen, wanted=asked.environ.get("GLOWPLUG_ENGINE") or "auto", read_text=_in_the_pod)
    launch = found.launch
    if launch is None or not launch.model or podspec.is_open(launch.model):
        return None
    image = images.read(asked.image)
    return Wish(launch.engine, launch.model, launch.layout.tp, image.version if image.engine == launch.engine else "")


def _label(api: Api, namespace: str) -> str:
    try:
        found = api.namespace(namespace, remembered=True)
    except NotFoundError:
        return ""
    return str(_mapping(_mapping(found.get("metadata")).get("labels")).get(DOMAIN_LABEL, ""))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _in_the_pod(path: str) -> str:
    raise FileNotFoundError(path)
