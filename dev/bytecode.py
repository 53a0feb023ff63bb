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
from collections.abc import Mapping, Sequence
from pathlib import Path

# Docstrings stay in classes alone: without one a dataclass makes itself one, which takes it longer than all else it does. What else
# it does is to write its methods as text and compile that, a third of all that importing takes: so these texts are compiled too.
# They are what `dataclasses` of this very interpreter writes when the modules are imported.
# Regular expressions are the next: `re` parses and compiles them in Python at each start, and keeps what `_sre` takes of it.
_COMPILE = """
import _sre, re, sys
compiler = sys.modules.get("re._compiler") or sys.modules["sre_compile"]
patterns, compile_pattern = {}, compiler.compile
class Kept:
    def __getattr__(self, name):
        return getattr(_sre, name)
    def compile(self, *values):
        self.values = values
        return _sre.compile(*values)
def compile_and_keep(pattern, flags=0):
    kept = compiler._sre = Kept()
    made = compile_pattern(pattern, flags)
    if type(pattern) in (str, bytes):
        _, all_flags, code, *groups = kept.values
        patterns[pattern, int(flags)] = (pattern, int(all_flags), [int(word) for word in code], *groups)
    return made
compiler.compile = compile_and_keep
import ast, dataclasses, importlib.abc, importlib.util, json, marshal, zlib
modules, texts, codes = {}, {}, {}
for name, (path, package, text, ours) in json.load(sys.stdin).items():
    tree = ast.parse(text)
    for node in ast.walk(tree) if ours else ():
        documented = isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef))
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body[:1] = [] if node.body[1:] else [ast.copy_location(ast.Pass(), node.body[0])]
    code = compile(tree, path, "exec", dont_inherit=True, optimize=0)
    modules[name] = (package, zlib.compress(marshal.dumps(code), 9))
    if ours:
        codes[name] = code
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
ready = zlib.compress(marshal.dumps((_sre.MAGIC, patterns, texts)), 9)
sys.stdout.buffer.write(marshal.dumps((modules, ready)))
"""


_COMPILE_ALONE = """
import marshal, sys
sys.stdout.buffer.write(marshal.dumps(compile(sys.stdin.read(), sys.argv[1], "exec", dont_inherit=True, optimize=2)))
"""


class BytecodeError(Exception):
    """An interpreter cannot compile these sources, and what it said."""


def compiled(python: str, kernel: Mapping[str, bytes], others: Mapping[str, bytes] = {}) -> bytes:
    """Sources by their names (`glowplug/core/__init__.py`) → marshal of two values.

    The first is module → (whether it is a package, zlib of its code). The second is zlib of marshal of what importing the modules
    of `kernel` asks for: `_sre`'s number, regular expressions → what `_sre.compile` takes, text that `dataclasses` writes → code.
    `others` need packages that this interpreter lacks, so they are not imported; and they keep their docstrings, which a command
    shows. Raises BytecodeError.
    """
    modules = {}
    for path, data in {**kernel, **others}.items():
        parts = path.removesuffix(".py").split("/")
        package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if package else parts)
        modules[name] = (path, package, data.decode("utf-8"), path in kernel)
    # Not isolated: then it would not take the seed of its hashes from the environment. Columns are for tracebacks.
    return _run([python, "-sSBX", "no_debug_ranges", "-c", _COMPILE], json.dumps(modules).encode())


def alone(python: str, source: bytes, name: str) -> bytes:
    """marshal of the code of one source, without docstrings. Raises BytecodeError."""
    return _run([python, "-sSBX", "no_debug_ranges", "-c", _COMPILE_ALONE, name], source)


def compile_tree(python: str, folders: Sequence[Path], root: Path, installed: str) -> None:
    """Bytecode beside the modules of these folders below `root`, which is `installed` where it runs. Raises BytecodeError.

    It is not compared with its source, which never changes there; the same sources give the same bytes.
    """
    command = [python, "-sS", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    _run([*command, "-s", str(root), "-p", installed, *map(str, folders)])


def _run(command: Sequence[str], given: bytes = b"") -> bytes:
    environ = {"PATH": os.defpath, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, input=given, env=environ, cwd="/", capture_output=True, check=False)
    if done.returncode:
        said = (done.stdout[-500:] if not given else b"") + done.stderr
        raise BytecodeError(f"{command[0]} cannot compile: {said.decode('utf-8', 'replace').strip()[-1000:]}")
    return done.stdout
