"""The only HTML that glowplug makes: any of its documents as one page.

The page is one file without scripts and without references to anything outside, so that it can be mailed, archived by CI and
opened years later. It is a function of the documents alone: same documents, same bytes.
"""

from __future__ import annotations

from glowplug.report.page import page

__all__ = ["page"]
