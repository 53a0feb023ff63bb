"""What a warmed pod carries, and nothing else says it: `render` builds it, an edit adds it to a manifest, a check compares.

Data only: containers, volumes, mounts, variables with their reason, and the words in front of the engine's command. How
artifacts reach the pod is the mode:

- `shared`: one directory of the node's NVMe, mounted writable into all pods of the node, as in the AWS guide. Nothing of
  glowplug is in the pod.
- `direct`: an init container copies glowplug's client into an emptyDir; the client restores from the store.
- `node`: the node's agent keeps verified artifacts in a read-only directory, with the client beside them; what is new goes
  out through a directory that bears the pod's UID, which kubelet writes and the pod cannot choose.

The engine starts in every case. The wrapping is one line of POSIX sh that falls through to the original command: a missing
client, a missing Python, or GLOWPLUG_DISABLE=1 is a plain start. (In POSIX sh a failing `exec` ends the shell, so
`exec … || …` would not fall through; what is needed is tried before.) A bake is the exception: without the client it
fails, since serving is not what it is for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from glowplug.manifests.writing import noted
from glowplug.nodestore.layout import WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CACHE_ROOT: Final = "/compile-cache"
MODE_LABEL: Final = "glowplug.dev/mode"
CACHE_VOLUME: Final = "compile-cache"

CLIENT_SOURCE: Final = "/opt/glowplug/client"
"""Where glowplug's image keeps the client: a directory whose `glowplug/` holds `__main__.py`."""
CLIENT_VOLUME: Final = "glowplug"
CLIENT_MOUNT: Final = "/glowplug"
DIRECT_PROGRAM: Final = "/glowplug/client/glowplug"

STORE_VOLUME: Final = "glowplug-store"
STORE_MOUNT: Final = "/glowplug/store"
OUTBOX_VOLUME: Final = "glowplug-outbox"
OUTBOX_MOUNT: Final = "/glowplug/outbox"
NODE_PROGRAM: Final = "/glowplug/store/glowplug.pyz"
POD_UID: Final = "POD_UID"

SHELL_NAME: Final = "glowplug"
NO_CLIENT_STATUS: Final = 125

_AL2023_NVME: Final = "/mnt/k8s-disks/0"
_BOTTLEROCKET_NVME: Final = "/mnt/.ephemeral"
# Tried, not looked up: `command -v` of bash also finds what cannot be executed. The client itself answers, with a status that no
# accident has (Python runs an empty file and is content), so one that was cut off or damaged is as good as none. About 20 ms.
# `-S`: nothing of an image's site-packages is needed, and whatever is installed there to run at each start stays out of it.
_RUN: Final = "python3 -IS {program}"
PROBED: Final = 42
_RUNS: Final = f"{{{{ {_RUN} --probe >/dev/null 2>&1; [ $? = {PROBED} ]; }}}}"
_FOUND: Final = f"[ -r {{program}} ] && {_RUNS}"
# On a node that has just joined, the agent and the first pod start in the same second. As long as a pod waits for artifacts at
# most; the launcher counts this against its own patience. Without `sleep` there is no waiting.
_SECONDS: Final = " ".join(map(str, range(1, WAIT_SECONDS + 1)))
_WAITED: Final = f"for n in {_SECONDS}; do [ -r {{program}} ] || sleep 1 2>/dev/null || break; done"
# Said, since a start that lost these seconds for nothing otherwise looks like any other.
_NOT_THERE: Final = '! echo "glowplug: no client on this node after $n s; the engine starts plain" >&2'
_AWAITED: Final = f"{{{{ {_WAITED}; {{{{ [ -r {{program}} ] || {_NOT_THERE}; }}}} && {_RUNS}; }}}}"


@dataclass(frozen=True)
class Variable:
    """One entry of `env`. `field_path` instead of a value: kubelet fills it in from the pod. `why` may be empty."""

    name: str
    value: str = ""
    field_path: str = ""
    why: str = ""

    def entry(self) -> Any:
        """The entry as it stands in a manifest, its reason above it."""
        if self.field_path:
            return noted({"name": self.name, "valueFrom": {"fieldRef": {"fieldPath": self.field_path}}}, self.why)
        return noted({"name": self.name, "value": self.value}, self.why)


@dataclass(frozen=True)
class Recipe:
    """Additions to a pod with one engine container. `prefix` goes in front of the container's command; () leaves it as it is.

    `pod_security` is the Pod Security level that the namespace must allow because of these additions.
    """

    prefix: tuple[str, ...] = ()
    variables: tuple[Variable, ...] = ()
    mounts: tuple[Any, ...] = ()
    volumes: tuple[Any, ...] = ()
    init_containers: tuple[Any, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    pod_security: str = "baseline"

    def command(self, words: Sequence[str]) -> list[str]:
        """The container's command: `words` are the original ones; its `args` stay as they are."""
        return [*self.prefix, *words]


@dataclass(frozen=True)
class Start:
    """What the client is told. `store` is a URL, None for none. `domain` None: the namespace that the pod is really in."""

    store: str | None = None
    domain: str | None = None
    cache_root: str = CACHE_ROOT


def nvme_mount(compute: str, ami: str) -> str:
    """Where the instance store is mounted on a node: `compute` as on the command line, `ami` is al2023 or bottlerocket.

    EKS Auto Mode's nodes are Bottlerocket; self-managed Bottlerocket mounts at the same place, not where the AWS guide says
    (bottlerocket-core-kit, ephemeral-storage; amazon-eks-ami, setup-local-disks).
    """
    return _BOTTLEROCKET_NVME if compute == "auto-mode" or ami == "bottlerocket" else _AL2023_NVME


def shared_directory(nvme: str) -> str:
    """The live directory that all pods of a node share in shared mode. The AWS guide's name."""
    return f"{nvme}/compile-cache"


def agent_root(nvme: str) -> str:
    """The agent's own directory. Kubelet, containerd and others have theirs beside it."""
    return f"{nvme}/glowplug"


def outbox_directory(nvme: str) -> str:
    """Below it, each pod of node mode has a directory with the name of its UID."""
    return f"{agent_root(nvme)}/outbox"


def store_directory(nvme: str, domain: str) -> str:
    """What the pods of one trust domain may read of the node store."""
    return f"{agent_root(nvme)}/store/{domain}"


def shared(nvme: str, *, why: str = "", why_type: str = "") -> Recipe:
    """The AWS guide's hostPath. `why` and `why_type` are comments at the path and at its type."""
    path = {"path": noted(shared_directory(nvme), why), "type": noted("DirectoryOrCreate", why_type)}
    return Recipe(
        mounts=({"name": CACHE_VOLUME, "mountPath": CACHE_ROOT},),
        volumes=({"name": CACHE_VOLUME, "hostPath": path},),
        pod_security="privileged",
    )


def direct(image: str, start: Start) -> Recipe:
    """Init container, emptyDirs, and a client that only reads the store: a bake publishes."""
    return _direct(
        image,
        start,
        prefix=_launcher(DIRECT_PROGRAM),
        more=(Variable("GLOWPLUG_NO_PUBLISH", "1", why="The bake job publishes; serving pods only read the store."),),
    )


def bake(image: str, start: Start, ready_seconds: int) -> Recipe:
    """As `direct`, but the engine ends once it is ready and its artifacts are published; without the client the pod fails."""
    return _direct(
        image,
        start,
        prefix=_baker(DIRECT_PROGRAM),
        more=(
            Variable(
                "GLOWPLUG_READY_TIMEOUT",
                f"{ready_seconds}s",
                why="An engine that is not ready by then never will be.",
            ),
        ),
    )


def node(nvme: str, domain: str, cache_root: str = CACHE_ROOT) -> Recipe:
    """Read-only node store, outbox, emptyDir. The pod needs no access to the store."""
    return Recipe(
        prefix=_launcher(NODE_PROGRAM, awaited=True),
        variables=(
            Variable(POD_UID, field_path="metadata.uid", why="Names this pod's directory in the outbox."),
            Variable("GLOWPLUG_NODE_STORE", STORE_MOUNT),
            Variable("GLOWPLUG_OUTBOX", OUTBOX_MOUNT),
            Variable("GLOWPLUG_DOMAIN", domain),
            Variable("GLOWPLUG_CACHE_ROOT", cache_root),
        ),
        mounts=(
            {"name": CACHE_VOLUME, "mountPath": cache_root},
            {"name": STORE_VOLUME, "mountPath": STORE_MOUNT, "readOnly": True},
            {"name": OUTBOX_VOLUME, "mountPath": OUTBOX_MOUNT, "subPathExpr": f"$({POD_UID})"},
        ),
        volumes=(
            _own_cache(),
            {
                "name": STORE_VOLUME,
                "hostPath": {
                    "path": store_directory(nvme, domain),
                    "type": noted(
                        "DirectoryOrCreate",
                        f"On a node without the agent it is empty: the engine starts {WAIT_SECONDS} s later, and as it always did.",
                    ),
                },
            },
            {
                "name": OUTBOX_VOLUME,
                "hostPath": {"path": outbox_directory(nvme), "type": "DirectoryOrCreate"},
            },
        ),
        labels={MODE_LABEL: "node"},
        pod_security="privileged",
    )


def _direct(image: str, start: Start, *, prefix: tuple[str, ...], more: tuple[Variable, ...]) -> Recipe:
    store = (Variable("GLOWPLUG_STORE", start.store),) if start.store else ()
    domain = (
        Variable("GLOWPLUG_DOMAIN", start.domain)
        if start.domain
        else Variable("GLOWPLUG_DOMAIN", field_path="metadata.namespace", why="The trust domain is the namespace.")
    )
    copy = f"cp -R {CLIENT_SOURCE} {CLIENT_MOUNT}/ || echo 'glowplug: no client, the engine starts plain' >&2"
    return Recipe(
        prefix=prefix,
        variables=(*store, domain, Variable("GLOWPLUG_CACHE_ROOT", start.cache_root), *more),
        mounts=(
            {"name": CACHE_VOLUME, "mountPath": start.cache_root},
            {"name": CLIENT_VOLUME, "mountPath": CLIENT_MOUNT, "readOnly": True},
        ),
        volumes=(_own_cache(), {"name": CLIENT_VOLUME, "emptyDir": {}}),
        init_containers=(
            {
                "name": "glowplug",
                "image": image,
                "command": ["sh", "-c", noted(copy, "A copy that fails costs the cache, never the start.")],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                "securityContext": unprivileged(),
                "volumeMounts": [{"name": CLIENT_VOLUME, "mountPath": CLIENT_MOUNT}],
            },
        ),
        labels={MODE_LABEL: "direct"},
    )


def _own_cache() -> Any:
    return {
        "name": CACHE_VOLUME,
        "emptyDir": noted(
            {},
            "Each pod writes its own copy: engines name temporary files by process id, which is the same in every pod. Kubelet's "
            "directory lies on the instance store, and so does this.",
        ),
    }


def unprivileged() -> dict[str, Any]:
    """A container's security context that needs nothing of the node; the user stays the image's."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _launcher(program: str, *, awaited: bool = False) -> tuple[str, ...]:
    found, run = (_AWAITED if awaited else _FOUND).format(program=program), _RUN.format(program=program)
    script = f'[ "$GLOWPLUG_DISABLE" != 1 ] && {found} && exec {run} run --exec -- "$@"; exec "$@"'
    return ("sh", "-c", script, SHELL_NAME)


def _baker(program: str) -> tuple[str, ...]:
    found, run = _FOUND.format(program=program), _RUN.format(program=program)
    refusal = (
        f"echo 'glowplug: no client or no python3 in this image: nothing can be baked' >&2; exit {NO_CLIENT_STATUS}"
    )
    # The tail is the launcher's, by which others see through to the engine's own command.
    script = f'{{ {found}; }} || {{ {refusal}; }}; set -- {run} run --exit-when-ready -- "$@"; exec "$@"'
    return ("sh", "-c", script, SHELL_NAME)
