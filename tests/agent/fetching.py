"""An agent's fetches as a process of its own, whose memory can be measured (`python fetching.py ROOT STORE DOMAIN PATH…`).

Fetches all keys at once and prints as JSON how many megabytes more the process had at its peak than before, and what came.
"""

from __future__ import annotations

import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from glowplug.agent.bringing import Bringing
from glowplug.agent.settings import Settings
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.store.schemes import open_store
from tests.agent.hearing import Heard


def megabytes(name: str) -> float:
    """What the kernel counts: `VmRSS` now, `VmHWM` at most."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1000


def main(root: str, url: str, domain: str, *paths: str) -> None:
    heard = Heard()
    store = open_store(url, os.environ)
    bringing = Bringing(Settings(Path(root), "n", domains=(domain,)), heard, verify=None, clock=SYSTEM)
    list(store.list(f"v1/{domain}/keys", Deadline.after(60)))  # all that is imported late is there then
    before = megabytes("VmRSS")
    with ThreadPoolExecutor(len(paths)) as pool:
        done = list(pool.map(lambda path: bringing.bring(store, domain, path), paths))
    print(json.dumps([megabytes("VmHWM") - before, all(done) and len(heard.of("fetched"))]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
