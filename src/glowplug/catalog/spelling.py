"""How names are compared, and what a person may have meant by one that is not known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST: Final = 100  # no name of the catalogue is longer; difflib takes minutes for a name of a million letters
_CUTOFF: Final = 0.6
_BETWEEN: Final = re.compile(r"[\W_]+", re.ASCII)


def folded(name: str) -> str:
    """A name without its case and with one `-` for whatever separates its words: `NVIDIA H100 80GB` → `nvidia-h100-80gb`."""
    return _BETWEEN.sub("-", name.lower()).strip("-")


def nearest(name: str, known: Iterable[str], count: int = 3, alike: float = _CUTOFF) -> list[str]:
    """The known names that are most like this one, the best first; none where nothing is alike.

    `alike` is the least share of letters in common, 0 to 1 (difflib's ratio).
    """
    if len(name) > LONGEST:
        return []
    import difflib  # for names that are wrong

    return difflib.get_close_matches(name, list(known), count, alike)


def shown(name: str) -> str:
    """A name as part of a message: quoted, printable and not endless."""
    return repr(name if len(name) <= LONGEST else name[:LONGEST] + "…")


def did_you_mean(names: Iterable[str]) -> str:
    """`did you mean p5.4xlarge or p5.48xlarge?`, "" without a name."""
    several = list(dict.fromkeys(names))
    if not several:
        return ""
    *first, last = several
    return f"did you mean {', '.join(first)} or {last}?" if first else f"did you mean {last}?"
