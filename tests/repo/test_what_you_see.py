"""What `docs/howto/warm-pods-on-a-cluster.md` says that somebody sees is what the program writes."""

from __future__ import annotations

import re
from pathlib import Path

import glowplug
from glowplug.agent import bounding, events

_PAGE = Path(__file__).parents[2] / "docs" / "howto" / "warm-pods-on-a-cluster.md"
_SOURCE = "".join(path.read_text() for path in Path(glowplug.__file__).parent.rglob("*.py"))


def _seen() -> list[str]:
    """The first column of "When it is not so"."""
    table = _PAGE.read_text().partition("| you see | it is | do |\n|---|---|---|\n")[2].partition("\n\n")[0]
    found = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()]
    assert len(found) > 10
    return found


def test_events_are_those_that_there_are() -> None:
    named = {name for cell in _seen() for name in re.findall(r"event `(\w+)`", cell)}
    assert len(named) > 2
    assert named - {reason.name for reason in events.REASONS} == set()


def test_reasons_are_those_that_there_are() -> None:
    named = {name for cell in _seen() for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", cell)}
    assert len(named) > 1
    assert named - bounding.REASONS == set()


def test_messages_are_written_like_this() -> None:
    quoted = [text for cell in _seen() for text in re.findall(r"`([^`]+)`", cell)]
    messages = [text for text in quoted if "…" in text and " " in text and not text.startswith("kubectl ")]
    assert messages
    assert [piece for text in messages for piece in text.split("…") if piece not in _SOURCE] == []
