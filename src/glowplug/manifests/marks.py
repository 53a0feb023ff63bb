"""The names by which glowplug's parts know each other in a cluster: what one of them writes on an object and another one reads."""

from __future__ import annotations

from typing import Final

DOMAIN_LABEL: Final = "glowplug.dev/domain"
"""On a namespace: the trust domain of its pods. Without it they are of the domain that has the namespace's name, and of no other:
the agent and the admission policy that lets pods mount their domain's store both go by this alone."""

STARTUP_TAINT: Final = "glowplug.dev/prewarming"
"""On a node of shared mode that is not warm yet."""
