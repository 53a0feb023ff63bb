"""What is asked of a Kubernetes API, in prose. `kube/client.py` keeps these promises; its tests ask a real server.

- Objects are what the API sends as JSON: mappings, lists, texts, numbers. Fields that are not there are not filled in.
- Lists are read page by page, so that ten thousand pods are no one answer; an expired page begins again.
- Every call ends: by its own timeout of seconds, not by the network's. A watch is the exception; it ends when it is told to.
- Failures are NotFoundError (`not-found`), AccessDeniedError (`access-denied`, with the verb and the resource that the role lacks),
  ConflictError (`conflict`: a `test` of a JSON patch did not hold, or another was faster), UnavailableError (with `retry_after`
  where the server gave it) and BadInputError (the server or an admission policy refuses the object; its words are in the message).
  Nothing else is raised for a foreseeable fault. No message holds a token.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping, Sequence

Object: TypeAlias = "Mapping[str, Any]"


class Seen(enum.Enum):
    """What a watch has to say. A full listing is what comes between `LISTING` and `SYNCED`: all else is gone.

    One that breaks off is followed by another `LISTING`.
    """

    LISTING = "listing"
    HERE = "here"
    GONE = "gone"
    SYNCED = "synced"


@dataclass(frozen=True)
class Change:
    """One word of a watch; `object` is empty for LISTING and SYNCED."""

    seen: Seen
    object: Object


class Api(Protocol):
    """See the module's text for the promises. May be used from several threads."""

    def node(self, name: str) -> Object:
        """One node."""
        ...

    def nodes(self, *, labels: str = "") -> Iterator[Object]:
        """All nodes, of a label selector."""
        ...

    def namespace(self, name: str, *, remembered: bool = False) -> Object:
        """One namespace; `remembered`: from the server's memory, some moments old, and cheap for it."""
        ...

    def pod(self, namespace: str, name: str) -> Object:
        """One pod."""
        ...

    def pods(self, *, namespace: str = "", labels: str = "", node: str = "") -> Iterator[Object]:
        """Pods of a namespace ("": of all), a label selector, a node."""
        ...

    def survey_pods(self, keep: Callable[[Object], Object | None], *, labels: str = "") -> Iterator[Object]:
        """Pods of all namespaces and a label selector, from the server's memory: some moments old, and cheap for it.

        `keep` is called for each while the list is read, in another thread, and may be for one pod twice; what it returns is told,
        nothing for None, and of the rest nothing stays in memory. It must not raise.
        """
        ...

    def watch_pods(self, *, node: str, stop: threading.Event) -> Iterator[Change]:
        """All pods of a node, then each change, until `stop` is set. It connects again by itself, more and more slowly while the
        server does not answer; raises only AccessDeniedError."""
        ...

    def workload(self, kind: str, namespace: str, name: str) -> Object:
        """A Deployment, StatefulSet, DaemonSet, Job or ReplicaSet, by its kind in lower case."""
        ...

    def events(self, namespace: str, uid: str) -> Iterator[Object]:
        """Events about the object with this UID."""
        ...

    def log(
        self, namespace: str, pod: str, container: str, *, previous: bool = False, most_bytes: int = 64 << 20
    ) -> str:
        """What a container wrote, from its beginning, cut at a size; each line begins with its moment (RFC 3339)."""
        ...

    def patch_node(self, name: str, operations: Sequence[Mapping[str, Any]]) -> Object:
        """A JSON patch (RFC 6902) of a node. Raises ConflictError where one of its tests does not hold."""
        ...

    def annotate_node(self, name: str, annotations: Mapping[str, str | None]) -> Object:
        """Set annotations of a node, remove those that are None."""
        ...

    def put_event(self, event: Object) -> bool:
        """Create an Event (v1); False where one of its name is there already."""
        ...
