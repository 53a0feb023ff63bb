"""Service accounts: with EKS Pod Identity they need nothing, with IAM roles for service accounts one annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glowplug.render.options import Options


def service_account(options: Options, name: str, *, role: str | None, namespace: str | None = None) -> dict[str, Any]:
    """A ServiceAccount. `role` is the ARN of the role that it takes by its annotation, None with Pod Identity."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace or options.namespace}
    if role is not None:
        metadata["annotations"] = {"eks.amazonaws.com/role-arn": role}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
