"""A small client of a Kubernetes API server: one HTTP request a call, no models, nothing cached but what kinds there are.

It exists because tests need what ordinary clients hide: the server's own words in a refusal, its warnings, strict validation of
fields, and acting as somebody else.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

Document = Mapping[str, Any]
_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_BETWEEN_DOCUMENTS = re.compile(r"^---$", re.MULTILINE)
_WARNING = '299 - "'
FIELD_MANAGER = "glowplug-lab"


class RefusedError(Exception):
    """The server said no. `message` is its own sentence, `reason` its word (Invalid, Forbidden, NotFound, …)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True)
class Answer:
    """What the server answered: the object as it understood it, and its warnings, if any."""

    document: dict[str, Any]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Resource:
    plural: str
    namespaced: bool


@dataclass(frozen=True)
class Client:
    """Speaks to the server at `host`:`port` as whoever `token` belongs to, perhaps on behalf of somebody else (`headers`).

    Every method raises RefusedError when the server refuses and OSError when nobody answers. Objects without a namespace go
    to "default".
    """

    host: str
    port: int
    authority: Path
    token: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 60.0
    """Seconds that an answer may take."""
    _kinds: dict[str, dict[str, _Resource]] = field(default_factory=dict, repr=False, compare=False)

    def with_token(self, token: str) -> Client:
        """The same server spoken to by the holder of another token."""
        return replace(self, token=token, headers={})

    def impersonating(self, user: str, groups: Sequence[str] = (), extra: Mapping[str, str] | None = None) -> Client:
        """Acts as `user`; the token's owner must have the right to impersonate. At most one group is sent on."""
        headers = {"Impersonate-User": user}
        if groups:
            (headers["Impersonate-Group"],) = groups
        for name, value in (extra or {}).items():
            headers[f"Impersonate-Extra-{urllib.parse.quote(name, safe='')}"] = value
        return replace(self, headers=headers)

    def apply(self, document: Document, *, dry_run: bool = False, manager: str = FIELD_MANAGER) -> Answer:
        """Server-side apply with strict validation: an unknown or doubled field is refused. A dry run stores nothing."""
        return self._apply(document, document, manager, dry_run)

    def apply_text(self, stream: str, *, dry_run: bool = False, manager: str = FIELD_MANAGER) -> list[Answer]:
        """Apply each document of a YAML stream, in its order, as `kubectl apply` would: the server itself reads the text."""
        answers = []
        for text in _BETWEEN_DOCUMENTS.split(stream):
            document = yaml.safe_load(text)
            if document is not None:
                answers.append(self._apply(document, text, manager, dry_run))
        return answers

    def create(self, document: Document, *, dry_run: bool = False) -> Answer:
        """Create with strict validation; refused (AlreadyExists) when the object is there."""
        collection = self.path_of(document).rpartition("/")[0]
        return self.request("POST", collection, document, _options(dry_run))

    def patch(self, document: Document, change: Document, *, subresource: str = "", dry_run: bool = False) -> Answer:
        """Merge `change` into the object that `document` names (RFC 7386), or into one of its subresources."""
        path = self.path_of(document) + (f"/{subresource}" if subresource else "")
        return self.request("PATCH", path, change, _options(dry_run), kind=_MERGE)

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Answer:
        """One object."""
        return self.request("GET", self.path(api_version, kind, name, namespace))

    def list(self, api_version: str, kind: str, namespace: str = "") -> Sequence[dict[str, Any]]:
        """All objects of the kind, of one namespace or of all."""
        answer = self.request("GET", self._collection(api_version, kind, namespace))
        items: list[dict[str, Any]] = answer.document["items"]
        return items

    def delete(self, document: Document) -> Answer:
        """Delete the object at once."""
        return self.request("DELETE", self.path_of(document), {"gracePeriodSeconds": 0})

    def token_of(self, pod: Document) -> str:
        """A token as kubelet mounts it into that pod: of its service account, naming the pod and, once bound, its node."""
        metadata = self.request("GET", self.path_of(pod)).document["metadata"]
        account = pod["spec"].get("serviceAccountName", "default")
        path = self.path("v1", "ServiceAccount", account, metadata["namespace"])
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
        token: str = self.request("POST", f"{path}/token", asked).document["status"]["token"]
        return token

    def path_of(self, document: Document) -> str:
        """Where the server keeps the object. Raises RefusedError (NotFound) for a kind that the server does not have."""
        metadata = document.get("metadata", {})
        kind = document["kind"]
        return self.path(document["apiVersion"], kind, metadata.get("name", ""), metadata.get("namespace", ""))

    def path(self, api_version: str, kind: str, name: str, namespace: str = "") -> str:
        """Where the server keeps an object, "default" standing for no namespace."""
        in_namespace = namespace or ("default" if self._resource(api_version, kind).namespaced else "")
        return f"{self._collection(api_version, kind, in_namespace)}/{urllib.parse.quote(name)}"

    def request(
        self,
        method: str,
        path: str,
        body: Document | str | None = None,
        query: Mapping[str, str] | None = None,
        *,
        kind: str = _JSON,
    ) -> Answer:
        """One request; `kind` is the content type of `body`, of which a text is sent as it is."""
        headers = {"Accept": _JSON, "Authorization": f"Bearer {self.token}", "Content-Type": kind, **self.headers}
        connection = http.client.HTTPSConnection(
            self.host, self.port, timeout=self.timeout, context=_trusting(self.authority)
        )
        target = path + (f"?{urllib.parse.urlencode(query)}" if query else "")
        try:
            connection.request(method, target, _bytes(body), headers)
            response = connection.getresponse()
            text = response.read()
            warnings = tuple(map(_warning, response.headers.get_all("Warning") or ()))
        except http.client.HTTPException as error:
            raise OSError(f"{self.host}:{self.port}: {error!r}") from error
        finally:
            connection.close()
        if response.status >= 400:
            raise _refusal(response.status, text)
        return Answer(_object(text), warnings)

    def _apply(self, document: Document, body: Document | str, manager: str, dry_run: bool) -> Answer:
        query = {"fieldManager": manager, "force": "true"} | _options(dry_run)
        return self.request("PATCH", self.path_of(document), body, query, kind=_APPLY)

    def _collection(self, api_version: str, kind: str, namespace: str) -> str:
        resource = self._resource(api_version, kind)
        within = f"/namespaces/{urllib.parse.quote(namespace)}" if resource.namespaced and namespace else ""
        return f"{_root(api_version)}{within}/{resource.plural}"

    def _resource(self, api_version: str, kind: str) -> _Resource:
        """How the server calls the kind; asked anew when it is unknown, since definitions are added while we speak."""
        known = self._kinds.get(api_version, {})
        if kind not in known:
            listed = self.request("GET", _root(api_version)).document["resources"]
            known = {one["kind"]: _Resource(one["name"], one["namespaced"]) for one in listed if "/" not in one["name"]}
            self._kinds[api_version] = known
        if kind not in known:
            raise RefusedError(404, "NotFound", f"the server has no {kind} in {api_version}")
        return known[kind]


def wait_for(seconds: float, what: str, done: Callable[[], object]) -> None:
    """Call `done()` until it is true; raises TimeoutError naming `what` when it does not become so."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.1)


def _bytes(body: Document | str | None) -> bytes | None:
    if body is None:
        return None
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _options(dry_run: bool) -> dict[str, str]:
    return {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _trusting(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority))


def _warning(header: str) -> str:
    """The text of a Warning header (RFC 7234, section 5.5), as Kubernetes writes it."""
    return header.removeprefix(_WARNING).removesuffix('"').replace('\\"', '"').replace("\\\\", "\\")


def _object(text: bytes) -> dict[str, Any]:
    """A JSON object; what is none (health checks answer "ok") is left out."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _refusal(status: int, text: bytes) -> RefusedError:
    said = _object(text)
    return RefusedError(status, said.get("reason", ""), said.get("message") or text.decode(errors="replace")[:2000])
