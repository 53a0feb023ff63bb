"""Names of images, by the grammar that kubelet and registries hold them to (github.com/distribution/reference).

A name that breaks it is only refused on the node, as `InvalidImageName`, when everything else has been applied.
"""

from __future__ import annotations

import re
from typing import Final

_MOST_NAME: Final = 255
_MOST: Final = _MOST_NAME + 1 + 128 + 1 + 135
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]{{1,5}})?"
_PATH: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DIGEST: Final = r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}"
_REFERENCE: Final = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PATH}(?:/{_PATH})*)(?::\w[\w.-]{{0,127}})?(?:@(?:{_DIGEST}))?", re.ASCII
)
_IDENTIFIER: Final = re.compile(r"[0-9a-f]{64}")


def is_reference(text: str) -> bool:
    """Whether `text` names an image: `[host[:port]/]path[:tag][@digest]`. Capitals are for a host and a tag alone."""
    if len(text) > _MOST:
        return False
    found = _REFERENCE.fullmatch(text)
    # 64 hexadecimal digits alone are what Docker calls an image by, and no name.
    return found is not None and len(found["name"]) <= _MOST_NAME and not _IDENTIFIER.fullmatch(text)
