"""Words written anew where they stand: in an item of `command` or `args` as they are, in a shell's script in its quotes.

Whatever is written into a script is read again by the same shell reader before it is offered; what does not come out as it was
meant is not offered.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from glowplug.engines import shell
from glowplug.lint import places
from glowplug.lint.references import resolved, stand_in, written_in
from glowplug.manifests.edit import Replace, Splice
from glowplug.manifests.kubelet import literal

if TYPE_CHECKING:
    from glowplug.lint.view import Environment, Word
    from glowplug.manifests.edit import Operation

_BARE: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]*", re.ASCII)


def rewritten(word: Word, start: int, end: int, new: str, environment: Environment) -> Operation | None:
    """Characters `start` to `end` of a word's text give way to others.

    None where that is not safe: for what came from elsewhere, by a variable, and for what the shell would read differently there.
    """
    found = places.range_of(word.written, start, end)
    if found is None or found.origin is not word.value or word.shared or word.elsewhere:
        return None
    if word.alone:
        if found.start == 0 and found.end == len(word.value.text):
            return Replace(word.value, literal(new))
        spliced = word.value.text[: found.start] + new + word.value.text[found.end :]
        return (
            Splice(word.value, found.start, found.end, new) if literal(spliced) == spliced or "$" not in new else None
        )
    if "$" in new or "`" in new or not stands_in_script(word, environment):
        return None
    raw = word.value.text[word.start : word.end]
    meant = word.text[:start] + new + word.text[end:]
    first, last = found.start - word.start, found.end - word.start
    text = _quoted(raw, first, new)
    if text is not None and _reads(raw[:first] + text + raw[last:], meant, environment):
        return Splice(word.value, found.start, found.end, text)
    text = shlex.quote(meant)
    return (
        Splice(word.value, word.start, word.end, text) if "$" not in raw and _reads(text, meant, environment) else None
    )


def stands_in_script(word: Word, environment: Environment) -> bool:
    """Whether it is a word of the script itself, and not of one that the script quotes (`sh -c "sh -c '…'"`)."""
    try:
        found = shell.words(resolved(written_in(word.value), environment.variables))
    except shell.OpaqueError:
        return False
    ranges = [one.spot.range for one in found if one.spot is not None]
    return any((one.start, one.end) == (word.start, word.end) for one in ranges)


def _quoted(raw: str, at: int, new: str) -> str | None:
    """The text as it is written at that place of a word as spelled; None where it cannot be."""
    quote = _quote_at(raw, at)
    if quote == "'":
        return new if "'" not in new else None
    if quote == '"':
        return re.sub(r'(["\\])', r"\\\1", new)
    return new if _BARE.fullmatch(new) else None


def _quote_at(raw: str, at: int) -> str:
    quote = ""
    place = 0
    while place < at:
        character = raw[place]
        if character == "\\" and quote != "'":
            place += 1
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        place += 1
    return quote


def _reads(raw: str, meant: str, environment: Environment) -> bool:
    environ = {name: stand_in(name) if one.value is None else one.value for name, one in environment.variables.items()}
    try:
        found = shell.follow("x " + resolved(raw, environment.variables), "x", (), environ)
    except shell.OpaqueError:
        return False
    return found.words == ("x", meant)
