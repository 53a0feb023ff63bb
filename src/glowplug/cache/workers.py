"""A few threads for requests that may run side by side, given up at once when a person interrupts.

`ThreadPoolExecutor` alone waits at its end for whatever still runs; after Ctrl-C that would be as long as a hanging store likes.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def workers(count: int) -> Iterator[concurrent.futures.ThreadPoolExecutor]:
    """A pool that is waited for at the end of the block, except when the block is interrupted."""
    pool = concurrent.futures.ThreadPoolExecutor(count, thread_name_prefix="glowplug-cache")
    wait = True
    try:
        yield pool
    except (KeyboardInterrupt, SystemExit):
        wait = False
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)
