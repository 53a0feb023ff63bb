"""The agent on every GPU node, with the least rights it can work with, and what watches over it.

RBAC lets a service account patch every node or none. So an admission policy (`policies.py`) holds the agent to the node that its
own token names, to the startup taint (which it may take away, never add) and to glowplug's annotations. A second policy holds
the namespaces of workloads to exactly the host paths that the mode has: whoever could mount the whole node store, or another
pod's outbox, could pass on code. In shared mode a Deployment off the GPU nodes frees nodes whose agent is dead, since a startup
taint that stays blocks a node for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import UsageError
from glowplug.manifests import recipe
from glowplug.manifests.kubelet import Verbatim
from glowplug.manifests.writing import noted
from glowplug.render import accounts, policies
from glowplug.render.options import AGENT_ACCOUNT, AGENT_NAMESPACE, GPU_NODE_LABEL, Compute, Mode, Options
from glowplug.render.pods import nvme, tool_image

if TYPE_CHECKING:
    from glowplug.manifests.writing import Noted

RELEASE_ACCOUNT: Final = "glowplug-release"
_PORT: Final = 9090
_RELEASE_AFTER: Final = "10m"
_GPU_LABELS: Final = {
    Compute.KARPENTER: "karpenter.k8s.aws/instance-gpu-count",
    Compute.AUTO_MODE: "eks.amazonaws.com/instance-gpu-count",
    Compute.NODEGROUP: GPU_NODE_LABEL,
}
_DISCOVERED: Final = "nvidia.com/gpu.present"


def documents(options: Options) -> list[dict[str, Any]]:
    """In the order in which they are applied. Raises UsageError in direct mode, which has no agent."""
    if options.mode is Mode.DIRECT:
        raise UsageError("direct mode has no agent", hint="--mode node, or --mode shared")
    shared = options.mode is Mode.SHARED
    return [
        _namespace(),
        accounts.service_account(options, AGENT_ACCOUNT, role=options.role_arn, namespace=AGENT_NAMESPACE),
        _cluster_role(AGENT_ACCOUNT, _agent_rules()),
        _binding(AGENT_ACCOUNT),
        *(
            [_release_account(options), _cluster_role(RELEASE_ACCOUNT, _release_rules()), _binding(RELEASE_ACCOUNT)]
            if shared
            else []
        ),
        *policies.documents(options, AGENT_ACCOUNT, RELEASE_ACCOUNT if shared else None),
        _daemon_set(options),
        *([_release(options)] if shared else []),
    ]


def _namespace() -> dict[str, Any]:
    level = noted("privileged", "The agent writes to a directory of the node (hostPath), which `baseline` forbids.")
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": AGENT_NAMESPACE,
            "labels": {
                "pod-security.kubernetes.io/enforce": level,
                "pod-security.kubernetes.io/audit": "privileged",
                "pod-security.kubernetes.io/warn": "privileged",
            },
        },
    }


def _agent_rules() -> list[Any]:
    return [
        noted(
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
            "Narrowed to its own node, the startup taint and glowplug's annotations by the policy below.",
        ),
        noted(
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
            "Workload, image and arguments come from here: nothing that a pod wrote is believed.",
        ),
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ]


def _release_rules() -> list[Any]:
    return [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ]


def _cluster_role(name: str, rules: list[Any]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }


def _binding(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": AGENT_NAMESPACE}],
    }


def _release_account(options: Options) -> dict[str, Any]:
    return accounts.service_account(options, RELEASE_ACCOUNT, role=None, namespace=AGENT_NAMESPACE)


def _daemon_set(options: Options) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": AGENT_ACCOUNT, "namespace": AGENT_NAMESPACE},
        "spec": {
            "selector": {"matchLabels": {"app": AGENT_ACCOUNT}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                "metadata": {"labels": {"app": AGENT_ACCOUNT}},
                "spec": {
                    "serviceAccountName": AGENT_ACCOUNT,
                    "priorityClassName": "system-node-critical",
                    "affinity": _on_gpu_nodes(options),
                    "tolerations": [
                        noted(
                            {"operator": "Exists"},
                            "Every taint: nvidia.com/gpu, the startup taint that it removes, those of your own pools. A "
                            "node without its agent would stay cold, or in shared mode blocked.",
                        )
                    ],
                    "terminationGracePeriodSeconds": 30,
                    "containers": [_agent_container(options)],
                    "volumes": _agent_volumes(options),
                },
            },
        },
    }


def _agent_container(options: Options) -> dict[str, Any]:
    root = recipe.agent_root(nvme(options))
    live = recipe.shared_directory(nvme(options))
    shared = options.mode is Mode.SHARED
    return {
        "name": "agent",
        "image": tool_image(options),
        "command": ["glowplug", "agent"],
        "args": _agent_args(options),
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            *([{"name": "AWS_REGION", "value": options.region}] if options.region else []),
            *([{"name": "AWS_ENDPOINT_URL", "value": options.endpoint}] if options.endpoint else []),
        ],
        "ports": [{"containerPort": _PORT, "name": "metrics"}],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "runAsUser": noted(0, "Its directory on the node belongs to root; it sees nothing else of the node."),
            "readOnlyRootFilesystem": True,
            **recipe.unprivileged(),
            "capabilities": {
                "drop": ["ALL"],
                "add": noted(
                    ["DAC_OVERRIDE", "FOWNER"],
                    "Pods write their outboxes as any user, with any mode or sticky bit: they are read and cleared all the same.",
                ),
            },
        },
        "volumeMounts": [
            {"name": "root", "mountPath": root},
            *([{"name": recipe.CACHE_VOLUME, "mountPath": live}] if shared else []),
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's, not ours
        ],
        **_probes(),
    }


def _agent_args(options: Options) -> list[Any]:
    shared = options.mode is Mode.SHARED
    # What pods write into a directory that all of them write is not published: nobody knows whose it is.
    publishers = () if shared else options.publish_from or (_workload(options),)
    return [
        f"--mode={options.mode.value}",
        f"--root={recipe.agent_root(nvme(options))}",
        *([f"--shared-dir={recipe.shared_directory(nvme(options))}"] if shared else []),
        *([f"--store={options.store}"] if options.store else []),
        f"--domain={options.trust_domain}",
        Verbatim("--node-name=$(NODE_NAME)"),
        *([f"--taint={options.startup_taint}"] if shared else []),
        *(
            noted(
                f"--publish-from={entry}",
                "Who may publish may run code in every pod that restores." if not place else "",
            )
            for place, entry in enumerate(publishers)
        ),
        f"--listen=:{_PORT}",
    ]


def _workload(options: Options) -> str:
    return f"{options.namespace}/{options.account}" if options.account else options.namespace


def _agent_volumes(options: Options) -> list[Any]:
    own = noted(recipe.agent_root(nvme(options)), "Its own directory only, on the NVMe instance store.")
    volumes: list[Any] = [{"name": "root", "hostPath": {"path": own, "type": "DirectoryOrCreate"}}]
    if options.mode is Mode.SHARED:
        live = noted(recipe.shared_directory(nvme(options)), "The live directory that inference pods write.")
        volumes.append({"name": recipe.CACHE_VOLUME, "hostPath": {"path": live, "type": "DirectoryOrCreate"}})
    return [*volumes, {"name": "tmp", "emptyDir": {}}]


def _probes() -> dict[str, Any]:
    return {
        "startupProbe": {
            "httpGet": {"path": "/healthz", "port": "metrics"},
            "periodSeconds": 2,
            "failureThreshold": 30,
        },
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "metrics"},
            "periodSeconds": 20,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 10, "timeoutSeconds": 5},
    }


def _gpu_labels(options: Options) -> list[str]:
    """The label of this compute first, since Karpenter plans a DaemonSet's overhead by the first term that can hold."""
    own = _GPU_LABELS[options.compute]
    return [own, *(label for label in _GPU_LABELS.values() if label != own), _DISCOVERED]


def _on_gpu_nodes(options: Options) -> Noted:
    terms: list[Any] = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in _gpu_labels(options)]
    if options.compute is Compute.NODEGROUP and options.instance is not None:
        types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [options.instance.name]}
        terms.append({"matchExpressions": [types]})
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    return noted(
        affinity,
        "GPU nodes of Karpenter, of EKS Auto Mode, of a rendered node group, or as GPU feature discovery labels them.",
    )


def _release(options: Options) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": RELEASE_ACCOUNT, "namespace": AGENT_NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": RELEASE_ACCOUNT}},
            "template": {
                "metadata": {"labels": {"app": RELEASE_ACCOUNT}},
                "spec": {
                    "serviceAccountName": RELEASE_ACCOUNT,
                    "priorityClassName": "system-cluster-critical",
                    "affinity": _off_gpu_nodes(options),
                    "securityContext": {"runAsNonRoot": True, "runAsUser": 65532},
                    "containers": [_release_container(options)],
                },
            },
        },
    }


def _off_gpu_nodes(options: Options) -> Noted:
    off: list[Any] = [{"key": key, "operator": "DoesNotExist"} for key in _gpu_labels(options)]
    if options.compute is Compute.NODEGROUP and options.instance is not None:
        off.append({"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": [options.instance.name]})
    required = {"nodeSelectorTerms": [{"matchExpressions": off}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return noted(affinity, "Off the GPU nodes: what frees a node must not wait for one.")


def _release_container(options: Options) -> dict[str, Any]:
    return {
        "name": "release",
        "image": tool_image(options),
        "command": ["glowplug", "agent", "release"],
        "args": [
            noted(
                f"--older-than={_RELEASE_AFTER}",
                "Counted from the node's creation. A node whose agent is dead takes pods again, cold.",
            ),
            f"--taint={options.startup_taint}",
            f"--listen=:{_PORT}",
        ],
        "ports": [{"containerPort": _PORT, "name": "metrics"}],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "metrics"},
            "periodSeconds": 60,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {"readOnlyRootFilesystem": True, **recipe.unprivileged()},
    }
