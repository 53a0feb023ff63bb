"""The pods of this node as the API knows them, those just gone too: whose outbox it is, and what they were told to start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from glowplug.kube.contract import Object


@dataclass(frozen=True)
class Pod:
    """One pod. `domain` is the trust domain that its namespace means; `object` what the API said of it last.

    `gone`: it is no more.
    """

    uid: str
    namespace: str
    name: str
    account: str
    domain: str
    object: Object
    gone: bool = False


class Said(Mapping[str, Any]):
    """An object as text, parsed by each look at it and held by none: parsed, it takes ten times the memory.

    `anew`: the text is not all of it, and the API is asked at each look; that may raise the API's errors.
    """

    def __init__(self, text: str, anew: Callable[[], Object] | None = None) -> None:
        self._text = text
        self._anew = anew

    @property
    def size(self) -> int:
        """Characters that it holds."""
        return len(self._text)

    def __getitem__(self, name: str) -> Any:
        return self._object()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._object())

    def __len__(self) -> int:
        return len(self._object())

    def _object(self) -> Object:
        if self._anew is not None:
            return self._anew()
        found: Object = json.loads(self._text)
        return found
