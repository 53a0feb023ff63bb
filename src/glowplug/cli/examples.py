"""The end of a `--help`: what the exit statuses mean, then examples whose lines a terminal's width does not break."""

from __future__ import annotations


def epilog(text: str, *examples: str) -> str:
    """For click's `epilog`; `text` may be empty. `\\b` is click's mark for a paragraph that keeps its lines."""
    shown = "Examples:\n\n\b\n" + "\n".join(f"  {line}" for line in examples)
    return f"{text}\n\n{shown}" if text else shown
