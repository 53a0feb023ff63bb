"""The three standard streams, any of which a caller may have closed (`<&-`, `>&-`)."""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

from glowplug.core.errors import BadInputError


def occupy() -> None:
    """Give the numbers 0, 1 and 2 that are closed to /dev/null, so that no file opened later is taken for a stream.

    They are not handed on: a program started from here finds closed what was closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)  # the lowest number that is free


def standard_input() -> BinaryIO:
    """The bytes of stdin. Raises BadInputError where it is closed."""
    if sys.stdin is None:
        raise BadInputError("stdin is closed")
    return sys.stdin.buffer
