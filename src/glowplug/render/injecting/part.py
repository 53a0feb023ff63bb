"""What becomes of one part of a pod: operations of an edit, with what they mean in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glowplug.manifests.edit import Operation


@dataclass
class Part:
    """Collected while a part is compared with what is wanted. `changes` says what is done in a phrase each; `notes` what stays as a
    person had it, and what the pod lacks for that."""

    operations: list[Operation] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
