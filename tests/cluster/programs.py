"""Pods with the small torch.compile program (`lab/programs/compiled.py`) in the place of an engine: seconds instead of minutes.

They carry what `manifests/recipe.py` says of their mode, the one statement that `render` and `inject` are made of too. (`inject`
itself leaves such a program alone, since no command line tells that it compiles.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glowplug import __version__
from glowplug.manifests.recipe import Recipe
from glowplug.manifests.writing import plain
from lab import cluster, s3
from lab.cluster import pods, spaces
from lab.fleet import rendered, starts

PROGRAM = spaces.CHECKOUT / "lab" / "programs" / "compiled.py"
SERVED = "1000"
VERSION = __version__


def compiling(
    name: str, recipe: Recipe, python: Path, server: s3.Server | None, *words: str, **options: Any
) -> dict[str, Any]:
    """A pod that compiles and stays, `words` are the program's arguments; `server` None: it knows of no S3."""
    env = {"PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin", "GLOWPLUG_ENGINE": "torch"}
    env |= server.env() if server else {}
    argv = ["python3", str(PROGRAM), *(words or ("--layers", "1", "--serve", SERVED))]
    paths = pods.engine_paths(python)
    if not any(PROGRAM.is_relative_to(path) for path in paths):
        paths = (*paths, str(PROGRAM.parent))
    return warmed(name, recipe, argv, env=env, read_only=paths, **options)


def warmed(
    name: str,
    recipe: Recipe,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    container: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """`pods.pod` with what the recipe says; `container` are more fields of the container."""
    own = {"GLOWPLUG_REPORT": rendered.REPORT, **(env or {})}
    pod = pods.pod(name, recipe.command(argv), **options)
    pod["metadata"] |= {"namespace": namespace, "labels": {**recipe.labels, **(labels or {})}}
    spec = pod["spec"]
    (main,) = spec["containers"]
    main["env"] = [*(plain(variable.entry()) for variable in recipe.variables)]
    rendered.set_variables(main, own)
    main["volumeMounts"] += [
        *plain(recipe.mounts),
        {"name": "lab-report", "mountPath": str(Path(rendered.REPORT).parent)},
    ]
    main |= dict(container or {})
    spec["volumes"] += [*plain(recipe.volumes), {"name": "lab-report", "emptyDir": {}}]
    if recipe.init_containers:
        spec["initContainers"] = plain(recipe.init_containers)
    return pod


def show(pod: dict[str, Any], path: str) -> None:
    """Mount a path of the node read-only at the same place, unless something that is mounted already holds it."""
    (main, *_) = pod["spec"]["containers"]
    if any(Path(path).is_relative_to(mount["mountPath"]) for mount in main["volumeMounts"]):
        return
    name = f"shown-{len(pod['spec']['volumes'])}"
    pod["spec"]["volumes"].append({"name": name, "hostPath": {"path": path}})
    main["volumeMounts"].append({"name": name, "mountPath": path, "readOnly": True})


def document(running: cluster.Cluster, name: str, namespace: str = "default") -> dict[str, Any]:
    """The start document that a pod's launcher wrote. Raises LookupError."""
    found = starts.report(running, running.pod(name, namespace))
    if found is None:
        raise LookupError(f"{name}: {running.logs(name, namespace)}")
    return found


def key_digest(running: cluster.Cluster, name: str, namespace: str = "default") -> str:
    """Under which key that start looked for artifacts."""
    return str(document(running, name, namespace)["key_digest"])


def verdict(log: str) -> str:
    """The word of the launcher's last verdict in a log."""
    found = re.findall(rf"^glowplug: ({'|'.join(_WORDS)})\b", log, re.MULTILINE)
    return str(found[-1]) if found else f"none: {log}"


def wait_for_verdict(running: cluster.Cluster, name: str, namespace: str = "default", seconds: float = 180.0) -> str:
    """The log of a pod once it holds the launcher's verdict: a line `glowplug: hit …`."""

    def told(_: object) -> bool:
        return any(line in running.logs(name, namespace) for line in _VERDICTS)

    running.wait_for_pod(name, lambda pod: pod["status"]["phase"] in ("Running", "Succeeded", "Failed"), namespace)
    running.wait_for_pod(name, told, namespace, seconds)
    return running.logs(name, namespace)


def wait_for_words(
    running: cluster.Cluster, name: str, words: str, namespace: str = "default", seconds: float = 120.0
) -> str:
    """The log of a pod, once it holds these words. Raises TimeoutError."""

    def told(_: object) -> bool:
        try:
            return words in running.logs(name, namespace)
        except OSError:  # its container is not there yet
            return False

    running.wait_for_pod(name, told, namespace, seconds)
    return running.logs(name, namespace)


_WORDS = ("hit", "miss", "partial", "rejected", "unknown", "disabled")
_VERDICTS = tuple(f"glowplug: {word}" for word in _WORDS)
