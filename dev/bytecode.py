"""Sources compiled by another interpreter than the one that runs this, into one value that it loads without looking at a source.

Compiling is most of what the launcher does when it has nothing but sources. One compressed stream a Python, not a file for each
module: an archive's directory is read by a loop in Python, and at each start twice.

The same sources and the same interpreter give the same bytes: hashes of strings are fixed, and each module is compiled from text
that nobody else holds.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping

# Docstrings stay in classes alone: without one a dataclass makes itself one, which takes it longer than all else it does.
_COMPILE = """
import ast, json, marshal, sys, zlib
modules = {}
for name, (path, package, text) in json.load(sys.stdin).items():
    tree = ast.parse(text)
    for node in ast.walk(tree):
        documented = isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef))
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body[:1] = [] if node.body[1:] else [ast.copy_location(ast.Pass(), node.body[0])]
    code = compile(tree, path, "exec", dont_inherit=True, optimize=0)
    modules[name] = (package, marshal.dumps(code))
sys.stdout.buffer.write(zlib.compress(marshal.dumps(modules), 9))
"""


class BytecodeError(Exception):
    """An interpreter cannot compile these sources, and what it said."""


def compiled(python: str, sources: Mapping[str, bytes]) -> bytes:
    """`sources` by their names in the archive (`glowplug/core/__init__.py`) → zlib of marshal of {module: (package, code)}.

    Raises BytecodeError.
    """
    modules = {}
    for path, data in sources.items():
        parts = path.removesuffix(".py").split("/")
        package = parts[-1] == "__init__"
        modules[".".join(parts[:-1] if package else parts)] = (path, package, data.decode("utf-8"))
    # Not isolated: then it would not take the seed of its hashes from the environment.
    done = subprocess.run(
        [python, "-sSB", "-c", _COMPILE],
        input=json.dumps(modules).encode(),
        env={"PATH": os.defpath, "PYTHONHASHSEED": "0"},
        cwd="/",
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise BytecodeError(f"{python} cannot compile: {done.stderr.decode('utf-8', 'replace').strip()[-500:]}")
    return done.stdout
