"""A Job that starts the engine once, so that no serving pod has to compile: it publishes what was compiled and ends.

The same pod as the Deployment's in direct mode, so that both have one key; only the client is told to end when the engine is ready.
It has a service account of its own, since it may write to the store and serving pods may only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from glowplug.manifests import recipe
from glowplug.manifests.writing import noted
from glowplug.render import accepted, accounts, budget, pods

if TYPE_CHECKING:
    from glowplug.render.options import Options

_NODE_SECONDS: Final = 1200
_KEPT_SECONDS: Final = 86400
_NOT_PUBLISHED: Final = 5


def documents(options: Options) -> list[dict[str, Any]]:
    """Its service account and the Job. Raises UsageError without a model."""
    plan = pods.planned(options)
    name = options.bake_account
    seconds = budget.startup_seconds(plan)
    copied = budget.copy_seconds(plan) if pods.model_copy(options) else 0
    added = recipe.bake(pods.tool_image(options), pods.start(options), seconds)
    profile = pods.engine(options)
    # No probe: what tells that the engine is ready is in the pod already, and no traffic is meant to come.
    engine = pods.Engine(profile.cpu, profile.memory, {}, profile.container, {}, profile.mounts, profile.volumes)
    template = pods.template(options, added, engine, name, name)
    template["metadata"]["annotations"] = noted(
        {"karpenter.sh/do-not-disrupt": "true"}, "Moved to another node, it would begin again."
    )
    template["spec"]["restartPolicy"] = "Never"
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": options.namespace,
            "labels": {"app": name},
            **accepted.metadata(options),
        },
        "spec": {
            "backoffLimit": 1,
            "activeDeadlineSeconds": noted(
                2 * (seconds + copied) + _NODE_SECONDS, "Two tries of a cold start, a new node and its images."
            ),
            "ttlSecondsAfterFinished": noted(
                _KEPT_SECONDS, "A Job's pod cannot be changed: an applied change needs the old one gone."
            ),
            "podFailurePolicy": {"rules": [_hopeless(pods.container(options, added, engine)["name"])]},
            "template": template,
        },
    }
    return [accounts.service_account(options, name, role=None), job]


def _hopeless(container: str) -> Any:
    statuses = [_NOT_PUBLISHED, recipe.NO_CLIENT_STATUS]
    return noted(
        {"action": "FailJob", "onExitCodes": {"containerName": container, "operator": "In", "values": statuses}},
        "5: nothing could be published; 125: no client, or wrong options. A second try would end the same.",
    )
