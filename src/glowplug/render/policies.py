"""Admission policies in CEL: what the agent may change, and what workloads of a namespace may mount from the node.

Read as sentences: each validation is one sentence that must be true, its message says which was not. They need Kubernetes 1.30 or
newer (`admissionregistration.k8s.io/v1`, node names in service account tokens).
"""

from __future__ import annotations

from typing import Any, Final

from glowplug.manifests import recipe
from glowplug.manifests.marks import DOMAIN_LABEL
from glowplug.manifests.writing import noted
from glowplug.render.options import AGENT_NAMESPACE, Mode, Options
from glowplug.render.pods import nvme

NODES: Final = "glowplug-agent-nodes"
HOST_PATHS: Final = "glowplug-host-paths"
WORKLOADS_LABEL: Final = "glowplug.dev/workloads"
_OWN: Final = "glowplug.dev/"
_API: Final = "admissionregistration.k8s.io/v1"
# Pod Security's baseline; then what RDMA pins memory with, what binds threads to cores, what debuggers attach by in their own pod.
_CAPABILITIES: Final = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
    "IPC_LOCK",
    "SYS_NICE",
    "SYS_PTRACE",
)
_KEPT: Final = ("podCIDR", "podCIDRs", "providerID", "unschedulable")


def documents(options: Options, agent: str, release: str | None) -> list[dict[str, Any]]:
    """Two policies and their bindings. `release` is the service account that may free any node, None where there is none."""
    users = [f"system:serviceaccount:{AGENT_NAMESPACE}:{name}" for name in (agent, release) if name]
    return [
        _policy(NODES, _nodes(options, users)),
        _binding(NODES, None),
        _policy(HOST_PATHS, _host_paths(options)),
        _binding(
            HOST_PATHS,
            noted(
                {"namespaceSelector": {"matchLabels": {WORKLOADS_LABEL: "true"}}},
                f"Namespaces join by `kubectl label namespace NAME {WORKLOADS_LABEL}=true`. A trust domain that is not the "
                f"namespace's name is its label {DOMAIN_LABEL}.",
            ),
        ),
    ]


def _policy(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}


def _binding(name: str, match: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"policyName": name, "validationActions": ["Deny"]}
    if match is not None:
        spec["matchResources"] = match
    return {"apiVersion": _API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec}


def _nodes(options: Options, users: list[str]) -> dict[str, Any]:
    who = "request.userInfo.username"
    names = ", ".join(f"'{user}'" for user in users)
    taint = f"'{options.startup_taint}'"
    kept = " && ".join(f"object.spec.?{one} == oldObject.spec.?{one}" for one in _KEPT)
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}
            ]
        },
        "matchConditions": [{"name": "glowplug", "expression": f"{who} in [{names}]"}],
        "variables": [
            noted(
                {
                    "name": "node",
                    "expression": "request.userInfo.?extra[?'authentication.kubernetes.io/node-name'][?0].orValue('')",
                },
                "Kubernetes writes the node's name into the token of a pod.",
            ),
            {"name": "taints", "expression": "object.spec.?taints.orValue([])"},
            {"name": "oldTaints", "expression": "oldObject.spec.?taints.orValue([])"},
            {"name": "notes", "expression": "object.metadata.?annotations.orValue({})"},
            {"name": "oldNotes", "expression": "oldObject.metadata.?annotations.orValue({})"},
        ],
        "validations": [
            _must(
                f"{who} != '{users[0]}' || variables.node == object.metadata.name",
                "the agent changes the node that it runs on, and no other",
            ),
            _must(
                f"variables.taints.filter(t, t.key != {taint}) == variables.oldTaints.filter(t, t.key != {taint})",
                "other taints stay as they are",
            ),
            _must(
                f"variables.taints.all(t, t.key != {taint} || t in variables.oldTaints)",
                "the startup taint is taken away, never added",
            ),
            _must(
                f"variables.notes.all(k, k.startsWith('{_OWN}') || variables.oldNotes[?k] == optional.of(variables.notes[k])) && "
                f"variables.oldNotes.all(k, k.startsWith('{_OWN}') || k in variables.notes)",
                "annotations of others stay as they are",
            ),
            *(
                [
                    _must(
                        f"{who} != '{users[1]}' || variables.notes == variables.oldNotes",
                        "what frees nodes changes no annotation",
                    )
                ]
                if len(users) > 1
                else []
            ),
            _must("object.metadata.?labels == oldObject.metadata.?labels", "labels stay as they are"),
            _must(
                "object.metadata.?finalizers == oldObject.metadata.?finalizers && "
                "object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences",
                "finalizers and owners stay as they are",
            ),
            _must(kept, "the rest of a node's specification stays as it is"),
        ],
    }


def _host_paths(options: Options) -> dict[str, Any]:
    where = nvme(options)
    pods = {"apiGroups": [""], "apiVersions": ["v1"]}
    variables, validations = _shared_rules(where) if options.mode is Mode.SHARED else _node_rules(where)
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                noted(
                    {**pods, "operations": ["CREATE"], "resources": ["pods"]},
                    "What is asked about here can never be changed in a pod. Pods that were there before keep running, and their "
                    "labels and finalizers can still be changed.",
                ),
                noted(
                    {**pods, "operations": ["UPDATE"], "resources": ["pods/ephemeralcontainers"]},
                    "But for debugging containers, which are added later: of such a request only they are looked at.",
                ),
            ]
        },
        "variables": [
            {"name": "created", "expression": "request.operation == 'CREATE'"},
            {"name": "hostPaths", "expression": "object.spec.?volumes.orValue([]).filter(v, has(v.hostPath))"},
            {"name": "debuggers", "expression": "object.spec.?ephemeralContainers.orValue([])"},
            {
                "name": "containers",
                "expression": "variables.created ? object.spec.containers + object.spec.?initContainers.orValue([]) : []",
            },
            *variables,
        ],
        "validations": [
            *validations,
            *_no_way_round(),
        ],
    }


def _no_way_round() -> list[Any]:
    """What Pod Security's `baseline` refuses and a host path would be reached by; the namespace has to be `privileged` for its one
    host path. Host network stays allowed: EFA and NCCL are used with it."""
    contexts = "c.?securityContext"
    capabilities = f"{contexts}.?capabilities.?add.orValue([])"
    allowed = ", ".join(f"'{name}'" for name in _CAPABILITIES)

    def all_containers(holds: str) -> str:
        return f"variables.containers.all(c, {holds}) && variables.debuggers.all(c, {holds})"

    return [
        _must(
            all_containers(f"!{contexts}.?privileged.orValue(false)"),
            "no container is privileged: it could mount the node's disks",
        ),
        _must(
            "!variables.created || !object.spec.?hostPID.orValue(false)",
            "hostPID is off: /proc of the node leads to its files and to other pods'",
        ),
        _must(
            "!variables.created || !object.spec.?hostIPC.orValue(false)",
            "hostIPC is off: others could write what ranks read; an emptyDir of medium Memory at /dev/shm is enough",
        ),
        _must(
            all_containers(f"{capabilities}.all(k, k in [{allowed}])"),
            "capabilities are those of Pod Security's baseline, IPC_LOCK, SYS_NICE and SYS_PTRACE",
        ),
    ]


def _shared_rules(where: str) -> tuple[list[Any], list[Any]]:
    path = recipe.shared_directory(where)
    others = _refused(f"['{path}']")
    return [], [
        _must(
            f"!variables.created || variables.hostPaths.all(v, v.hostPath.path == '{path}')",
            f"of the node, these pods mount {path} and nothing else",
            f"'of the node, these pods mount {path} and nothing else: not {others}",
        )
    ]


def _node_rules(where: str) -> tuple[list[Any], list[Any]]:
    """Store read-only and of the namespace's own domain; outbox only below the pod's own UID, which kubelet must have written."""
    outbox = recipe.outbox_directory(where)
    stores = recipe.store_directory(where, "")
    others = _refused(f"[variables.store, '{outbox}']")
    named = "variables.outbox.exists(n, n == m.name)"
    uid = f"m.?subPathExpr.orValue('') == '$({recipe.POD_UID})' && !has(m.subPath)"
    fields = "has(e.valueFrom) && has(e.valueFrom.fieldRef) && e.valueFrom.fieldRef.fieldPath == 'metadata.uid'"
    variables = [
        {"name": "label", "expression": f"namespaceObject.metadata.?labels[?'{DOMAIN_LABEL}'].orValue('')"},
        {
            "name": "store",
            "expression": f"'{stores}' + (variables.label != '' ? variables.label : request.namespace)",
        },
        {
            "name": "stores",
            "expression": "variables.hostPaths.filter(v, v.hostPath.path == variables.store).map(v, v.name)",
        },
        {
            "name": "outbox",
            "expression": f"variables.hostPaths.filter(v, v.hostPath.path == '{outbox}').map(v, v.name)",
        },
        {
            "name": "writers",
            "expression": f"variables.containers.filter(c, c.?volumeMounts.orValue([]).exists(m, {named}))",
        },
    ]
    validations = [
        _must(
            f"!variables.created || variables.hostPaths.all(v, v.hostPath.path in [variables.store, '{outbox}'])",
            f"of the node, these pods mount {stores}DOMAIN of their own domain and {outbox}, and nothing else",
            f"'of the node, these pods mount ' + variables.store + ' and {outbox}, and nothing else: not {others}",
        ),
        _must(
            "variables.containers.all(c, c.?volumeMounts.orValue([]).all(m, "
            "!variables.stores.exists(n, n == m.name) || m.?readOnly.orValue(false)))",
            "the node store is mounted read-only",
        ),
        _must(
            f"variables.containers.all(c, c.?volumeMounts.orValue([]).all(m, !{named} || ({uid})))",
            f"the outbox is mounted with subPathExpr $({recipe.POD_UID}) and no other",
        ),
        _must(
            f"variables.writers.all(c, c.?env.orValue([]).exists(e, e.name == '{recipe.POD_UID}') && "
            f"c.?env.orValue([]).all(e, e.name != '{recipe.POD_UID}' || ({fields})))",
            f"{recipe.POD_UID} comes from the field metadata.uid, where the outbox is mounted",
        ),
        _must(
            "variables.debuggers.all(c, c.?volumeMounts.orValue([]).all(m, "
            "!variables.hostPaths.exists(v, v.name == m.name)))",
            "a debugging container mounts nothing of the node",
        ),
    ]
    return variables, validations


def _refused(allowed: str) -> str:
    """The end of a CEL text: the volumes whose path is none of `allowed`, each with its path, behind a quote that is open."""
    others = f"variables.hostPaths.filter(v, !(v.hostPath.path in {allowed}))"
    return f"' + {others}.map(v, v.hostPath.path + ' (volume ' + v.name + ')').join(', ')"


def _must(expression: str, message: str, naming: str = "") -> dict[str, Any]:
    """`naming` is CEL for a message that names what was refused; where it cannot be had, `message` stands in for it."""
    return {"expression": expression, "message": message, **({"messageExpression": naming} if naming else {})}
