"""What an agent has to tell: every decision once, for log, metrics and events alike.

Those who decide call this and know nothing of Prometheus, of Kubernetes' events or of log lines; `agent/voice.py` does.
Nothing here raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.agent.pods import Pod
    from glowplug.core.documents.start import PublishResult, Start


class Telling(Protocol):
    """Seconds are durations; `domain` and `key` (a digest) say what it is about, "" where that is not known."""

    def started(self, pod: Pod, start: Start) -> None:
        """A pod's start has a verdict. May be called again for the same start: it is told once."""
        ...

    def published(
        self, pod: Pod | None, domain: str, key: str, result: PublishResult, *, again: float | None = None
    ) -> None:
        """What a pod compiled was published, or why not; `result.reason` is a word. `again`: not now, and it is tried again by
        itself after so many seconds; None: that is all there is to it."""
        ...

    def damaged(self, domain: str, key: str, part: str) -> None:
        """The store's object of a part (its digest) is damaged: read once more, it was not what its digest says either."""
        ...

    def refused(self, pod: Pod | None, uid: str, reason: str, detail: str) -> None:
        """Something in an outbox was not believed. `reason` is a word: `claim:<field>`, `publisher`, `pod_unknown`, `damaged`,
        `too_large`, `no_domain` …; `pod` is None where the API does not know the pod."""
        ...

    def set_aside(self, pod: Pod, domain: str, key: str, detail: str) -> None:
        """This node does without parts of a key from now on, since starts of `pod` ended before they were ready with them; `detail`
        says which, until when, and how that is lifted."""
        ...

    def unkept(self, pod: Pod) -> None:
        """A pod of node mode is on this node and of a trust domain that the agent does not keep. May be called again for it: it is
        told once."""
        ...

    def lasting(self, domains: Sequence[str], error: BaseException, seconds: float) -> None:
        """What these trust domains are to have of the store has not come for so many seconds; `error` is the last one's. May be
        called again while it lasts."""
        ...

    def waiting(self, size: int, archives: int) -> None:
        """What lies in the outboxes of this node and is not published yet: bytes, and sealed archives."""
        ...

    def fetched(self, domain: str, key: str, size: int, parts: int, seconds: float) -> None:
        """Parts of a key came into the node store; `size` is what they are unpacked."""
        ...

    def removed(self, domain: str, key: str, reason: str) -> None:
        """A key left the node store: `space`, `damaged`, `blocked` …"""
        ...

    def prewarmed(self, domain: str, keys: int, size: int, seconds: float) -> None:
        """The first fetch of a domain is done, so that its pods wait for nothing more; `keys` of it are on the node then."""
        ...

    def held(self, size: int, keys: int, inodes: int) -> None:
        """What the node store is now."""
        ...

    def filled(self, put: int, left: int, faults: int, size: int, seconds: float) -> None:
        """Shared mode's directory was filled: entries that were put there, that were left alone since something of them is there,
        and that did not work; `size` is what was put."""
        ...

    def nvme(self, *, backed: bool, where: str) -> None:
        """Whether the root lies on an NVMe instance store."""
        ...

    def taint(self, outcome: str, seconds: float) -> None:
        """What became of the startup taint: `removed`, `absent`, `put_back`, `failed`; seconds since the node's creation."""
        ...

    def failed(self, what: str, error: BaseException) -> None:
        """Something did not work and will be tried again. `what` is a word: `list`, `fetch`, `publish`, `api`, `taint` …"""
        ...
