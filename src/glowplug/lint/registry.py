"""All rules by name, and the choice of those that a call asks for. A rule is a module below `rules/` and a row of its area."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import UsageError
from glowplug.lint.rule import AREAS, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ALL: Final = "all"


def _read() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for area in AREAS:
        of_area: tuple[Rule, ...] = importlib.import_module(f"glowplug.lint.rules.{area}").RULES
        rules |= {one.name: one for one in of_area}
    return rules


RULES: Final[Mapping[str, Rule]] = _read()
"""In the order in which they are documented: by area, then as the area has them."""


def rule(name: str) -> Rule:
    """The rule of that name. Raises UsageError (`rule-unknown`) with the nearest name."""
    found = RULES.get(name)
    if found is None:
        raise _unknown(name, RULES)
    return found


def nearest(name: str, names: Iterable[str]) -> str:
    """The most similar of these names, "" where none is."""
    return next(iter(difflib.get_close_matches(name[:80].lower(), names, n=1)), "")


def chosen(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> tuple[Rule, ...]:
    """The rules that `--select` names (none named: all) without those that `--ignore` names; both take areas and `all` too, and
    what is named more exactly wins: `--ignore compile --select eager-mode` is that one rule. Raises UsageError (`rule-unknown`)."""
    wanted = {name: _weight(name) for name in select} or {ALL: 0}
    unwanted = {name: _weight(name) for name in ignore}

    def weight(one: Rule, named: Mapping[str, int]) -> int:
        return max((named[name] for name in (ALL, one.area, one.name) if name in named), default=-1)

    return tuple(one for one in RULES.values() if weight(one, wanted) > weight(one, unwanted))


def _weight(name: str) -> int:
    if name == ALL:
        return 0
    if name in AREAS:
        return 1
    rule(name)
    return 2


def _unknown(name: str, names: Iterable[str]) -> UsageError:
    near = nearest(name, (*names, *AREAS, ALL))
    return UsageError(
        f"there is no rule {name[:80]!r}",
        code="rule-unknown",
        hint=f"did you mean {near}? `glowplug rules` lists them" if near else "`glowplug rules` lists them",
    )
