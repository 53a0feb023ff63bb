"""A start as data: where its seconds went, read from what an engine said, compared with other starts, drawn as text.

Nothing here starts, waits for or watches anything; `glowplug run` and the agent hand in what they measured, and a log file is
read as if somebody had watched it then.
"""
