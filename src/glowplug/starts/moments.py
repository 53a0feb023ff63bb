"""When a log line was written, from the stamps that engines and log collectors put before it.

vLLM writes `INFO 11-30 09:15:02 [file.py:1]`: no year, whole seconds, local time. Collectors (`kubectl logs --timestamps`,
containerd's files, journald's short-iso) write RFC 3339 before that, which is better and therefore wins. A reader takes the
stamps of one log in order, so that midnight and New Year pass without a jump.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field
from typing import Final

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_WHERE: Final = re.compile(r"\s*\[?pod/\S{1,300}\s+|\s*\S{1,100}\s+\|\s?")
"""`[pod/vllm-0/vllm] ` of `kubectl logs --prefix`, `vllm-1  | ` of docker compose."""
_RFC3339: Final = re.compile(
    r"\s*(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d)?\s*(?:std(?:out|err) [FP] )?"
)
_SHORT: Final = re.compile(
    r"(?:\(\w[^()]{0,80}\)\s+)?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)()\b"
)
_GLOG: Final = re.compile(r"\[?[DIWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6,9})\b")
_HALF_YEAR: Final = 182 * 86_400.0


@dataclass(frozen=True)
class Dated:
    """A line without what collectors put before it. `moment`: seconds since the epoch, None where the line has no stamp."""

    text: str
    moment: float | None


def _fraction(digits: str | None) -> float:
    return float(f"0.{digits}") if digits else 0.0


def _moment(year: int, parts: tuple[str, ...], zone: dt.tzinfo = dt.UTC) -> float | None:
    month, day, hour, minute, second = (int(part) for part in parts)
    try:
        return dt.datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp()
    except (ValueError, OverflowError):
        return None


@dataclass
class MomentReader:
    """Reads the lines of one log in order. `now` (seconds since the epoch) tells which year a stamp without one means."""

    now: float
    _last: float | None = field(default=None, init=False)
    _collector: bool = field(default=False, init=False)

    def read(self, line: str) -> Dated:
        """The line, bare, and when it was written. Never raises."""
        text = _COLOUR.sub("", line) if "\x1b" in line else line
        where = _WHERE.match(text)
        if where:
            text = text[where.end() :]
        moment = None
        stamp = _RFC3339.match(text)
        if stamp:
            moment = _stamped(stamp)
            if moment is not None:
                text = text[stamp.end() :]
        short = _SHORT.match(text) or _GLOG.match(text)
        if short and moment is not None:
            # A collector stamps every line; what is left without one (pieces of a progress bar) may be in another time zone.
            self._collector = True
        elif short and not self._collector:
            moment = self._without_year(short)
        if moment is not None:
            self._last = moment
        return Dated(text, moment)

    def _without_year(self, stamp: re.Match[str]) -> float | None:
        """The moment nearest to the line before; for the first line the latest that is not in the future."""
        parts = stamp.groups()[:5]
        reference = self.now + 86_400 if self._last is None else self._last + _HALF_YEAR
        try:
            year = dt.datetime.fromtimestamp(reference, dt.UTC).year
        except (ValueError, OverflowError, OSError):
            return None
        for candidate in range(year, max(year - 9, 0), -1):
            moment = _moment(candidate, parts)
            if moment is not None and moment <= reference:
                return moment + _fraction(stamp.group(6))
        return None


def _stamped(stamp: re.Match[str]) -> float | None:
    zone: dt.tzinfo = dt.UTC
    text = stamp.group(8)
    if text and text != "Z":
        minutes = int(text[1:3]) * 60 + int(text[-2:])
        if minutes >= 1440:
            return None
        zone = dt.timezone(dt.timedelta(minutes=minutes if text[0] == "+" else -minutes))
    moment = _moment(int(stamp.group(1)), stamp.groups()[1:6], zone)
    return None if moment is None else moment + _fraction(stamp.group(7))
