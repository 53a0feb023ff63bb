"""What must not leave the machine: names that look like credentials, and values that are.

Two tools, used in different places. *By structure*: a variable or argument whose name looks like a credential is shown as
`sha256:<12 digits>`, so that two documents can still be compared. *By value*: the values of this process's own credential-like
variables are searched for in bytes that are about to be published; only the process that has them can do that.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAME: Final = re.compile(
    r"(?:^|[_\-.])(?:api[_\-]?key|access[_\-]?key|secret|token|passw(?:or)?d|passwd|pwd|credentials?|private[_\-]?key"
    r"|auth|bearer|signature|session[_\-]?key|ssh[_\-]?key)(?:$|[_\-.]|s$|id$)",
    re.IGNORECASE,
)
# Names that match the pattern above and hold no secret.
_HARMLESS: Final = re.compile(
    r"max[_\-].*tokens?|.*_tokens?_(?:limit|count|budget)|num[_\-].*tokens?|tokenizer.*|.*token[_\-]?file"
    r"|.*credentials?[_\-]?file|.*token[_\-]?ids?|.*batched[_\-]tokens|(?:old)?pwd|.*auth_sock",
    re.IGNORECASE,
)
_USERINFO: Final = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.\-]*://)[^/@\s]+@")
_SHORTEST_SECRET: Final = 8


def looks_secret(name: str) -> bool:
    """Whether a variable or argument of this name usually holds a credential."""
    bare = name.lstrip("-")
    return bool(_NAME.search(bare)) and not _HARMLESS.fullmatch(bare)


def hashed(value: str) -> str:
    """A stand-in for a secret that can be compared but not read."""
    return f"sha256:{hashlib.sha256(value.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def value(name: str, text: str) -> str:
    """`text`, or its stand-in where `name` looks like a credential; user:password@ in a URL is always hidden."""
    if looks_secret(name):
        return hashed(text)
    return _USERINFO.sub(r"\g<scheme>…@", text)


def arguments(argv: Iterable[str]) -> list[str]:
    """A command line for a document: `--api-key X` and `--api-key=X` with X replaced."""
    shown: list[str] = []
    secret_next = ""
    for item in argv:
        if secret_next and not item.startswith("-"):
            shown.append(hashed(item))
            secret_next = ""
            continue
        secret_next = ""
        name, equals, rest = item.partition("=")
        if looks_secret(name) and (name.startswith("-") or equals):
            if equals:
                shown.append(f"{name}={hashed(rest)}")
            else:
                shown.append(item)
                secret_next = name
            continue
        shown.append(_USERINFO.sub(r"\g<scheme>…@", item))
    return shown


def secret_values(environ: Mapping[str, str], argv: Iterable[str] = ()) -> dict[str, bytes]:
    """Name → bytes of each credential-like value known here that is long enough to be searched for without false alarms."""
    found = {
        name: text.encode("utf-8", "surrogateescape")
        for name, text in environ.items()
        # The id of an access key is hidden where it is shown, but it names a key and is none.
        if looks_secret(name) and not name.lower().endswith("_id") and len(text) >= _SHORTEST_SECRET
    }
    previous = ""
    for item in argv:
        name, equals, rest = item.partition("=")
        if equals and name.startswith("-") and looks_secret(name) and len(rest) >= _SHORTEST_SECRET:
            found[name] = rest.encode("utf-8", "surrogateescape")
        elif (
            previous.startswith("-")
            and "=" not in previous
            and looks_secret(previous)
            and not item.startswith("-")
            and len(item) >= _SHORTEST_SECRET
        ):
            found[previous] = item.encode("utf-8", "surrogateescape")
        previous = item
    return found
