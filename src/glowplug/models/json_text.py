"""JSON that somebody else wrote, read into memory that its length bounds.

`json.loads` makes a list of 64 bytes out of every `[],`; what a text can become is bounded by how many values its commas and
brackets announce, and that is counted before anything is made.
"""

from __future__ import annotations

import json
from typing import Any, Final

from glowplug.core.printable import one_line

_SHOWN: Final = 100


class JsonError(ValueError):
    """The bytes are no JSON that is read here. The text is one line that names the fault."""


def load(data: bytes, most_values: int) -> Any:
    """The value. NaN and Infinity pass, as in Python. Raises JsonError, also for more than `most_values` values."""
    values = sum(map(data.count, (b",", b"[", b"{"))) + 1
    if values > most_values:
        raise JsonError(f"it holds up to {values} values, more than {most_values}")
    try:
        return json.loads(data.decode())
    except UnicodeDecodeError as error:
        raise JsonError("it is not UTF-8") from error
    except RecursionError as error:
        raise JsonError("it is nested too deeply") from error
    except ValueError as error:
        raise JsonError(f"it is no JSON: {one_line(str(error))[:_SHOWN]}") from error
