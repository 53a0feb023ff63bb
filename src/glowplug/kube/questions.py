"""What is asked of an API server, as data: so it can be sent again, and each message says in the same words what it was.

Names come from manifests, command lines and the server itself; none gets into a path unless an object can be called so, since
`../secrets` would ask for something else with the same rights.
"""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import BadInputError
from glowplug.kube import answers

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
MOST_ANSWER: Final = 1 << 29
"""Bytes of one answer that is kept whole."""
AGENT_ANSWER: Final = 64 << 20
"""The same for an agent, whose memory has a limit: what is read of it takes several times as much."""
_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._:-]{1,253}\Z")


@dataclass(frozen=True)
class Question:
    """One request. `asked` says it in words, for messages; `path` is below the server's address."""

    asked: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    body: object = None
    content_type: str = JSON


def part(text: str) -> str:
    """A name as a part of a path. Raises BadInputError for what no object is called: it would name another path."""
    if not _NAME.match(text):
        raise BadInputError(f"no name of a Kubernetes object: {answers.line(text) or 'nothing'}")
    return urllib.parse.quote(text, safe="")


def within(namespace: str, root: str = "api/v1") -> str:
    """The path of a namespace."""
    return f"{root}/namespaces/{part(namespace)}"


def selectors(*, labels: str = "", fields: str = "") -> dict[str, str]:
    """The query that selects objects."""
    return {**({"labelSelector": labels} if labels else {}), **({"fieldSelector": fields} if fields else {})}
