"""The Deployment that serves a model: in profile `guide` the AWS guide's own, in profile `auto` with room to start and to roll."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from glowplug.manifests.writing import noted
from glowplug.render import accepted, budget, pods

if TYPE_CHECKING:
    from glowplug.render.options import Options

_NODE_SECONDS: Final = 600


def documents(options: Options) -> list[dict[str, Any]]:
    """One Deployment. Raises UsageError without a model."""
    added = pods.warmed(options)
    template = pods.template(options, added, pods.engine(options), options.name, _account(options))
    spec: dict[str, Any] = {
        "replicas": options.replicas,
        **({} if options.profile == "guide" else _rolling(options)),
        "selector": {"matchLabels": {"app": options.name}},
        "template": template,
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": options.name, "namespace": options.namespace, **accepted.metadata(options)},
            "spec": spec,
        }
    ]


def _account(options: Options) -> Any:
    """The account that was named. Profile auto says which one it is otherwise, where the model is read with its rights."""
    if options.account is not None or options.profile == "guide" or not (options.model or "").startswith("s3://"):
        return options.account
    return noted(
        "default",
        "None was named (--service-account): by EKS Pod Identity or IRSA this account needs a role that may read the model.",
    )


def _rolling(options: Options) -> dict[str, Any]:
    plan = pods.planned(options)
    copied = budget.copy_seconds(plan) if pods.model_copy(options) else 0
    seconds = copied + budget.startup_seconds(plan) + _NODE_SECONDS
    return {
        "revisionHistoryLimit": 3,
        "progressDeadlineSeconds": noted(
            seconds, "A new node, its images and a cold start: Kubernetes' 600 s would call a healthy roll-out failed."
        ),
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {
                "maxSurge": noted(
                    1,
                    "A new pod is ready before an old one goes. Where no further GPU can be had: 0, and maxUnavailable 1.",
                ),
                "maxUnavailable": 0,
            },
        },
    }
