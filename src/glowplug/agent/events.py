"""Kubernetes events that an agent writes: which there are, what to do about each, and the objects.

Their names follow from what they say (`once`): an agent that is started again, or is asked to tell the same twice, meets its own
event and writes no second one. What quotes a pod's words is one line, short, and without what looks like a credential.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.core import redact
from glowplug.core.clock import iso
from glowplug.core.printable import one_line

if TYPE_CHECKING:
    from glowplug.agent.pods import Pod

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
COMPONENT: Final = "glowplug.dev/agent"
_MESSAGE: Final = 1000
_NAME: Final = 200


@dataclass(frozen=True)
class Reason:
    """One kind of event. `about` is `Pod` or `Node`; `advice` what to do about it, "" for nothing."""

    name: str
    type: str
    about: str
    means: str
    advice: str = ""


HIT: Final = Reason("CompileCacheHit", NORMAL, "Pod", "The engine used what was restored and compiled nothing.")
PARTIAL: Final = Reason(
    "CompileCachePartial",
    NORMAL,
    "Pod",
    "The engine used what was restored, and still compiled something; the message says what.",
    "The next start has what this one added. Compile output outside of the cache root stays lost: the message has the path.",
)
MISS: Final = Reason(
    "CompileCacheMiss",
    NORMAL,
    "Pod",
    "The engine compiled everything; the message has the reason, the field that differed, and the seconds.",
    "Nothing for the first start of a workload. Later ones: `glowplug cache why`, docs/howto/why-did-it-miss.md.",
)
REJECTED: Final = Reason(
    "CompileCacheRejected",
    WARNING,
    "Pod",
    "The engine found what was restored, and threw it away.",
    "Two such starts block the key: `glowplug cache show` says why, `glowplug cache quarantine --lift` lifts it.",
)
DISABLED: Final = Reason(
    "CompileCacheDisabled",
    NORMAL,
    "Pod",
    "The command turns compilation or its cache off.",
    "`glowplug lint` names the argument.",
)
UNKNOWN: Final = Reason(
    "CompileCacheUnknown",
    NORMAL,
    "Pod",
    "What happened to compilation is not known, also where the engine ended before it was ready and was not the container's first "
    "process: the end of that one ends the watcher too, and nobody is left to say so.",
    "The message has the reason; `glowplug startup pod/NAME` shows the rest.",
)
PUBLISHED: Final = Reason(
    "CompileCachePublished", NORMAL, "Pod", "What this pod compiled is in the store: other nodes fetch it."
)
UNPUBLISHED: Final = Reason(
    "CompileCacheNotPublished",
    WARNING,
    "Pod",
    "What this pod compiled is not in the store; the message has the reason.",
    "Where it says `tried again by itself`, the agent does that until it works or the time is over: `no_credentials` ends when "
    "there are some; `store_unavailable` and `access_denied` are about its way to the store, or its role.",
)
REFUSED: Final = Reason(
    "OutboxRefused",
    WARNING,
    "Pod",
    "The agent does not believe what this pod handed over, and publishes nothing of it.",
    "`publisher`: add the service account to `--publish-from`, or let it be. `claim:<field>`: what the pod says of itself is not "
    "what the API says; a variable that the image sets has to stand in the pod, too.",
)
SET_ASIDE: Final = Reason(
    "CompileCacheSetAside",
    WARNING,
    "Pod",
    "A start of this pod ended before it was ready with what was restored, the next became ready without it: this node does "
    "without these parts for a while.",
    "Why did the start end? Its previous log says it. The message has until when, and how to lift it before.",
)
UNKEPT: Final = Reason(
    "CompileCacheNotKept",
    WARNING,
    "Pod",
    "The agent of this node does not keep the pod's trust domain: the pod waits for it in vain and starts cold, and what it "
    "compiles is not published.",
    "A typo in the agent's `--domain`, or a `--domain` of it that is missing; or the namespace's label `glowplug.dev/domain`.",
)
PREWARMED: Final = Reason(
    "CompileCachePrewarmed", NORMAL, "Node", "The first fetch is done: pods of the domain wait for nothing more."
)
DAMAGED: Final = Reason(
    "CompileCacheDamaged",
    WARNING,
    "Node",
    "A part in the store is not what its digest says; this node does without it.",
    "Nothing where pods of the node publish: the next one that compiles it mends it. `glowplug cache verify` finds all of them.",
)
NOT_FETCHING: Final = Reason(
    "CompileCacheNotFetched",
    WARNING,
    "Node",
    "For more than a minute the agent has not got from the store what it is to hold; the message has the code and the words of the "
    "last try.",
    "The code says which: the bucket's name, the agent's role, the way to S3. It is tried again by itself; pods start meanwhile "
    "with what the node holds.",
)
NOT_NVME: Final = Reason(
    "InstanceStoreMissing",
    WARNING,
    "Node",
    "The agent's root is not on an NVMe instance store; it lies on the boot volume, or nothing is kept.",
    "Instance types without local NVMe have none; else the node class needs `instanceStorePolicy: RAID0`. `glowplug check node`.",
)
TAINT_REMOVED: Final = Reason("StartupTaintRemoved", NORMAL, "Node", "The node is warm and takes pods.")
TAINT_FAILED: Final = Reason(
    "StartupTaintNotRemoved",
    WARNING,
    "Node",
    "The startup taint could not be removed; the agent tries again.",
    "Look at its role and the admission policy; `glowplug agent release` frees the node later.",
)
TAINT_RELEASED: Final = Reason(
    "StartupTaintReleased",
    WARNING,
    "Node",
    "The node's agent left the startup taint on for too long, so `glowplug agent release` took it away: pods start, cold.",
    "Look at the agent's pod on that node: is it there, does it run, what does its log say?",
)

REASONS: Final = (
    HIT,
    PARTIAL,
    MISS,
    REJECTED,
    DISABLED,
    UNKNOWN,
    PUBLISHED,
    UNPUBLISHED,
    REFUSED,
    SET_ASIDE,
    UNKEPT,
    PREWARMED,
    DAMAGED,
    NOT_FETCHING,
    NOT_NVME,
    TAINT_REMOVED,
    TAINT_FAILED,
    TAINT_RELEASED,
)


def about_pod(pod: Pod, reason: Reason, message: str, *, node: str, now: float, once: str) -> dict[str, Any]:
    """An event about a pod, `now` in seconds since the epoch. Equal pod, reason and `once` have one name."""
    who = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return _event(who, pod.namespace, pod.uid, reason, message, node=node, now=now, once=once)


def about_node(name: str, reason: Reason, message: str, *, now: float, once: str) -> dict[str, Any]:
    """An event about a node. As kubelet does, its UID is its name: that is how `kubectl describe node` finds it."""
    who = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": name}
    return _event(who, "default", name, reason, message, node=name, now=now, once=once)


def quoted(text: str) -> str:
    """Words of others: one line, without what looks like a credential, cut where it is long."""
    plain = one_line(redact.known_forms(text[: 4 * _MESSAGE]))
    return plain if len(plain) <= _MESSAGE else f"{plain[: _MESSAGE - 1]}…"


def _event(
    who: dict[str, str], namespace: str, uid: str, reason: Reason, message: str, *, node: str, now: float, once: str
) -> dict[str, Any]:
    same = hashlib.sha256("\0".join((uid, reason.name, once)).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    moment = f"{iso(now)[:19]}Z"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{who['name'][:_NAME].rstrip('-.')}.{same}", "namespace": namespace},
        "involvedObject": who,
        "reason": reason.name,
        "message": quoted(message),
        "type": reason.type,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
    }
