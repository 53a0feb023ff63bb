"""hatchling's hook: a wheel carries `glowplug.pyz` beside its modules, so that an agent installed by pip has it for its pods.

A checkout that is installed editably has none: there the agent calls `dev.pyz` itself (`agent/program.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_ROOT = Path(__file__).resolve().parent.parent


class Hook(BuildHookInterface[Any]):
    """See the module's text."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the archive and add it, except to an editable wheel."""
        if version == "editable":
            return
        sys.path.insert(0, str(_ROOT))
        try:
            from dev import pyz
        finally:
            sys.path.remove(str(_ROOT))
        build_data["force_include"][str(pyz.build())] = "glowplug/glowplug.pyz"
