"""What a start is told, in one value, so that no module below the command line knows of options and variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class RunOptions:
    """The options of cli.md. Times in seconds. `cache_root` None: the default, or the caller's own fallback directory."""

    store: Optional[str] = None
    node_store: Optional[Path] = None
    outbox: Optional[Path] = None
    domain: str = "default"
    cache_root: Optional[str] = None
    engine: str = "auto"
    publish: bool = True
    restore: bool = True
    ready_url: Optional[str] = None
    ready_timeout: float = 1800.0
    restore_timeout: float = 30.0
    report: Optional[Path] = None
    exit_when_ready: bool = False
    verify_key: Optional[Path] = None
    sign_key: Optional[Path] = None
