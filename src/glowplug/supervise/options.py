"""What `glowplug run` is told, in one value, so that no module below the command line knows of options and variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class RunOptions:
    """The options of cli.md. Times in seconds. `cache_root` None: the default, or the caller's own fallback directory."""

    store: str | None = None
    domain: str = "default"
    cache_root: str | None = None
    engine: str = "auto"
    publish: bool = True
    restore: bool = True
    ready_url: str | None = None
    ready_timeout: float = 1800.0
    restore_timeout: float = 30.0
    report: Path | None = None
    exit_when_ready: bool = False
    verify_key: Path | None = None
    sign_key: Path | None = None
