"""Kinds of Kubernetes objects whose pods start engines, as people write them."""

from __future__ import annotations

from typing import Final

KINDS: Final = {
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("deploy", "deployment", "deployments"), "deployment"),
    **dict.fromkeys(("sts", "statefulset", "statefulsets"), "statefulset"),
    **dict.fromkeys(("ds", "daemonset", "daemonsets"), "daemonset"),
    **dict.fromkeys(("rs", "replicaset", "replicasets"), "replicaset"),
    **dict.fromkeys(("job", "jobs"), "job"),
}
"""What people write before the slash, and the kind that it means."""
