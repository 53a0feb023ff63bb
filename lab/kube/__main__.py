"""`python -m lab.kube`: an API server until interrupted, its kubeconfig's path on stdout; `build`: only build the commands."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence

from lab.kube import binaries, server


def main(arguments: Sequence[str]) -> int:
    """Exit status 3 when the machine lacks something, 1 when a build or a start failed."""
    words = list(arguments)
    if words not in ([], ["build"]):
        print("usage: python -m lab.kube [build]", file=sys.stderr)
        return 2
    try:
        built = binaries.build(server.COMMANDS)
        if words:
            print(*built.values(), sep="\n")
        else:
            _serve_until_interrupted()
    except binaries.MissingError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 3
    except (binaries.BuildError, OSError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return 0


def _serve_until_interrupted() -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with server.serve() as running:
        running.install_crds(server.CRDS.glob("*.yaml"))
        print(running.kubeconfig(running.administrator), flush=True)
        print("the API server is ready; interrupt to end it and remove what it keeps", file=sys.stderr)
        stop.wait()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
