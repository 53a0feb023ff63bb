"""glowplug: LLM inference starts that are warm from the first pod on.

The package is layered: imports go down only (docs/architecture.md names the layers, import-linter enforces them). What lies
below the line drawn there uses the standard library alone, since it also runs on the engine's own interpreter.
"""

__version__ = "0.1.0"
