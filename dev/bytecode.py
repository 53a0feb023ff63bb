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

# Docstrings stay in classes alone: without one a dataclass makes itself one, which takes it longer than all else it does. What else
# it does is to write its methods as text and compile that, a third of all that importing takes: so these texts are compiled too.
# They are what `dataclasses` of this very interpreter writes when the modules are imported.
_COMPILE = """
import ast, dataclasses, importlib.abc, importlib.util, json, marshal, sys, zlib
modules, texts, codes = {}, {}, {}
for name, (path, package, text) in json.load(sys.stdin).items():
    tree = ast.parse(text)
    for node in ast.walk(tree):
        documented = isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef))
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body[:1] = [] if node.body[1:] else [ast.copy_location(ast.Pass(), node.body[0])]
    codes[name] = compile(tree, path, "exec", dont_inherit=True, optimize=0)
    modules[name] = (package, marshal.dumps(codes[name]))
class Finder(importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in codes:
            return importlib.util.spec_from_loader(name, self, is_package=modules[name][0])
    def exec_module(self, module):
        exec(codes[module.__name__], module.__dict__)
def run(text, *spaces):
    texts[text] = marshal.dumps(compile(text, "<string>", "exec", dont_inherit=True))
    exec(text, *spaces)
sys.meta_path.insert(0, Finder())
dataclasses.exec = run
for name in codes:
    importlib.import_module(name)
sys.stdout.buffer.write(zlib.compress(marshal.dumps((modules, texts)), 9))
"""


class BytecodeError(Exception):
    """An interpreter cannot compile these sources, and what it said."""


def compiled(python: str, sources: Mapping[str, bytes]) -> bytes:
    """`sources` by their names in the archive (`glowplug/core/__init__.py`) → zlib of marshal of two mappings.

    The first is module → (whether it is a package, code), the second is text that `dataclasses` writes → code.


    Raises BytecodeError.
    """
    modules = {}
    for path, data in sources.items():
        parts = path.removesuffix(".py").split("/")
        package = parts[-1] == "__init__"
        modules[".".join(parts[:-1] if package else parts)] = (path, package, data.decode("utf-8"))
    # Not isolated: then it would not take the seed of its hashes from the environment. Columns are for tracebacks.
    done = subprocess.run(
        [python, "-sSBX", "no_debug_ranges", "-c", _COMPILE],
        input=json.dumps(modules).encode(),
        env={"PATH": os.defpath, "PYTHONHASHSEED": "0"},
        cwd="/",
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise BytecodeError(f"{python} cannot compile: {done.stderr.decode('utf-8', 'replace').strip()[-500:]}")
    return done.stdout
