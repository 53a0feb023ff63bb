"""`kube/contract.py`'s Api, kept: objects as the API sends them, pages, patches, events, logs.

Nothing is read into models: they would drop the fields of a server that is newer than they are. Where the cluster is and whom to
trust is `connect.py`'s matter; how long a question may take and when it is asked again, `link.py`'s.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import BadInputError, ConflictError, NotFoundError, UnavailableError, UsageError
from glowplug.kube import answers, listing, watching
from glowplug.kube.questions import JSON_PATCH, MERGE_PATCH, Question, part, selectors, within

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from glowplug.kube.contract import Change, Object
    from glowplug.kube.link import Link

PAGE: Final = 250
"""Objects an answer: pods of 10 to 40 kB make some megabytes."""
_LOG_SECONDS: Final = 120.0
_LISTINGS: Final = 3
_WORKLOADS: Final = {
    "deployment": "apis/apps/v1",
    "statefulset": "apis/apps/v1",
    "daemonset": "apis/apps/v1",
    "replicaset": "apis/apps/v1",
    "job": "apis/batch/v1",
}


class Client:
    """One cluster, asked by one identity. `default_namespace` is the one that the kubeconfig or the pod stands in."""

    def __init__(self, link: Link, *, default_namespace: str = "default", page: int = PAGE) -> None:
        self._link = link
        self._page = page
        self.default_namespace = default_namespace

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; nothing can be asked then."""
        self._link.close()

    def node(self, name: str) -> Object:
        """One node."""
        return self._get("nodes", name)

    def nodes(self, *, labels: str = "") -> Iterator[Object]:
        """All nodes, of a label selector."""
        return self._list("list nodes", "api/v1/nodes", selectors(labels=labels))

    def namespace(self, name: str, *, remembered: bool = False) -> Object:
        """One namespace; `remembered`: as the server has it in memory."""
        query = {"resourceVersion": "0"} if remembered else {}
        return self._link.ask(Question(f"get namespace {name}", f"api/v1/namespaces/{part(name)}", query))

    def pod(self, namespace: str, name: str) -> Object:
        """One pod."""
        return self._link.ask(Question(f"get pod {namespace}/{name}", f"{within(namespace)}/pods/{part(name)}"))

    def pods(self, *, namespace: str = "", labels: str = "", node: str = "") -> Iterator[Object]:
        """Pods of a namespace ("": of all), a label selector, a node."""
        return self._pods(namespace, labels, node)

    def survey_pods(self, keep: Callable[[Object], Object | None], *, labels: str = "") -> Iterator[Object]:
        """Pods of all namespaces as the server remembers them; of each what `keep` returns, nothing for None."""
        # Where it does not remember any more what it said, the list comes from etcd, as each list does without a version.
        return self._pods("", labels, "", {"resourceVersion": "0"}, keep)

    def _pods(
        self,
        namespace: str,
        labels: str,
        node: str,
        more: Mapping[str, str] = MappingProxyType({}),
        keep: Callable[[Object], Object | None] = listing.whole,
    ) -> Iterator[Object]:
        path = f"{within(namespace)}/pods" if namespace else "api/v1/pods"
        chosen = selectors(labels=labels, fields=f"spec.nodeName={part(node)}" if node else "")
        return self._list(f"list pods{f' in {namespace}' if namespace else ''}", path, {**chosen, **more}, keep)

    def watch_pods(self, *, node: str, stop: threading.Event) -> Iterator[Change]:
        """All pods of a node, then each change, until `stop` is set. Raises AccessDeniedError."""
        what = watching.Watched(f"pods of node {node}", "api/v1/pods", selectors(fields=f"spec.nodeName={part(node)}"))
        return watching.watch(self._link, what, stop, page=self._page)

    def workload(self, kind: str, namespace: str, name: str) -> Object:
        """A Deployment, StatefulSet, DaemonSet, Job or ReplicaSet, by its kind in lower case. Raises UsageError for another."""
        root = _WORKLOADS.get(kind)
        if root is None:
            raise UsageError(f"{kind} is no kind of workload; there are {', '.join(sorted(_WORKLOADS))}")
        path = f"{within(namespace, root)}/{kind}s/{part(name)}"
        return self._link.ask(Question(f"get {kind} {namespace}/{name}", path))

    def events(self, namespace: str, uid: str) -> Iterator[Object]:
        """Events about the object with this UID."""
        chosen = selectors(fields=f"involvedObject.uid={part(uid)}")
        return self._list(f"list events in {namespace}", f"{within(namespace)}/events", chosen)

    def log(
        self, namespace: str, pod: str, container: str, *, previous: bool = False, most_bytes: int = 64 << 20
    ) -> str:
        """What a container wrote, from its beginning, cut at a size; each line begins with its moment (RFC 3339).

        Raises NotFoundError too where the container has not begun, or has no earlier run.
        """
        query = {"container": part(container), "timestamps": "true", "limitBytes": str(most_bytes)}
        asked = f"read the {'earlier ' if previous else ''}log of {namespace}/{pod}, container {container}"
        path = f"{within(namespace)}/pods/{part(pod)}/log"
        question = Question(asked, path, {**query, "previous": "true"} if previous else query)
        try:
            return self._link.read(question, most_bytes=most_bytes, seconds=_LOG_SECONDS).decode("utf-8", "replace")
        except BadInputError as error:
            raise NotFoundError(error.message) from error

    def patch_node(self, name: str, operations: Sequence[Mapping[str, Any]]) -> Object:
        """A JSON patch (RFC 6902) of a node. Raises ConflictError where one of its tests does not hold."""
        body = [dict(one) for one in operations]
        try:
            return self._patch(name, body, JSON_PATCH)
        except answers.UnappliedError as error:
            if any(one.get("op") == "test" for one in body):
                raise ConflictError(f"patch node {name}: it is no longer what the change began from") from error
            raise

    def annotate_node(self, name: str, annotations: Mapping[str, str | None]) -> Object:
        """Set annotations of a node, remove those that are None."""
        return self._patch(name, {"metadata": {"annotations": dict(annotations)}}, MERGE_PATCH)

    def put_event(self, event: Object) -> bool:
        """Create an Event (v1); False where one of its name is there already."""
        namespace = str(event.get("metadata", {}).get("namespace") or "default")
        path = f"{within(namespace)}/events"
        body = {"apiVersion": "v1", "kind": "Event", **event}
        try:
            self._link.ask(Question(f"create an event in {namespace}", path, method="POST", body=body))
        except ConflictError as error:
            if answers.exists(error):
                return False
            raise
        return True

    def _get(self, plural: str, name: str) -> Object:
        return self._link.ask(Question(f"get {plural.removesuffix('s')} {name}", f"api/v1/{plural}/{part(name)}"))

    def _patch(self, node: str, body: object, content_type: str) -> Object:
        path = f"api/v1/nodes/{part(node)}"
        return self._link.ask(
            Question(f"patch node {node}", path, method="PATCH", body=body, content_type=content_type)
        )

    def _list(
        self, asked: str, path: str, query: Mapping[str, str], keep: Callable[[Object], Object | None] = listing.whole
    ) -> Iterator[Object]:
        """Page by page. Where the next page has expired the list begins again, without what was told before."""
        told: set[str] = set()
        for attempt in range(1, _LISTINGS + 1):
            try:
                for items, _ in listing.pages(self._link, asked, path, query, self._page, keep):
                    for item in items:
                        metadata = item.get("metadata")
                        uid = str(metadata.get("uid") or "") if isinstance(metadata, dict) else ""
                        if uid not in told:
                            told.add(uid)
                            yield item
            except answers.ExpiredError as error:
                query = {name: value for name, value in query.items() if name != "resourceVersion"}
                if attempt == _LISTINGS:
                    raise UnavailableError(f"{asked}: its pages expire faster than they are read") from error
            else:
                return
