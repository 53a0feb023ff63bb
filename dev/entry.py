"""`__main__` of what runs in a pod, of `glowplug.pyz` and of the client alike: whatever happens here, the engine starts.

`run --exec` ends in the engine in every case: an interpreter that nothing here fits, a file that is missing or damaged, any
exception at all is one line on stderr and then the plain command. Other commands (a bake's `run`, `fingerprint`, `cache`) answer
with their own exit status. What lies beside decides which of the two this is: with `wheels.json` the client, whose
packages are there for some interpreters and not for others; without it the archive, which needs the standard library alone.

Any Python 3.6 has to be able to read this file, also where nothing else here would run: so no annotation is evaluated.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_OLDEST = (3, 9)
_NOT_FOUND, _NOT_EXECUTABLE, _USAGE = 127, 126, 125
_WHOLE = 42
"""The answer to `--probe`, as `front.py` gives it."""
_COMMANDS = ("run", "fingerprint", "cache", "--version")


def main() -> "None":
    """Run the words after the program's name; returns only where a command answered."""
    words, environ = sys.argv[1:], _own_environ()
    if words == ["--probe"]:
        os._exit(_WHOLE)  # of the client: there is no sum of a folder, and the archive's front has answered before
    if not _is_exec(words, environ):
        sys.exit(_answer(words))
    _end_on_interrupt()
    if environ.get("GLOWPLUG_DISABLE") != "1":
        try:
            _launch(words, environ)
        except BaseException as error:
            if isinstance(error, SystemExit) and error.code in (_NOT_FOUND, _NOT_EXECUTABLE):
                raise  # the command was tried, and told to be none
            _say(f"{_reason(error)}; the engine starts plain")
    _become(_command(words), environ)


class _NoClientError(Exception):
    """What is here cannot run on this interpreter, and why."""


def _reason(error: "BaseException") -> "str":
    name = "no_client" if isinstance(error, _NoClientError) else f"launcher_failed: {type(error).__name__}"
    try:
        return f"{name}: {error}"
    except Exception:  # noqa: BLE001 - an error may fail at telling what it is
        return name


def _launch(words: "list[str]", environ: "dict[str, str]") -> "None":
    launcher = "glowplug.supervise.launching" if _find_packages() else "glowplug.launch.main"
    import importlib

    importlib.import_module(launcher).main(words, environ)


def _answer(words: "list[str]") -> "int":
    try:
        whole = _find_packages()
    except _NoClientError as error:
        _say(f"no_client: {error}")
        return _USAGE
    if not whole or words[:1] not in [[word] for word in _COMMANDS]:
        offered = ", ".join(_COMMANDS) if whole else "run --exec"
        _say(f"what pods carry of glowplug is {offered}, and no more")
        return _USAGE
    import importlib

    importlib.import_module("glowplug.cli.main").entry()  # it exits itself
    return 0


def _find_packages() -> "bool":
    """Make what lies beside importable; whether that is the whole package, with its wheels. Raises _NoClientError."""
    if sys.version_info < _OLDEST:
        raise _NoClientError("Python {}.{} is too old".format(*sys.version_info[:2]))
    place = sys.path[0]
    table = os.path.join(place, "wheels.json")
    if not os.path.isfile(table):
        from zipimport import zipimporter

        _prefer_bytecode(place, place, lambda path: zipimporter(place).get_data(path))
        return False
    import json

    with open(table, encoding="utf-8") as file:
        folders = json.load(file).get(_interpreter())
    if folders is None:
        raise _NoClientError(f"nothing here is made for {_interpreter()}")
    # In front of everything: another version of these packages in the engine's environment is the engine's.
    sys.path[:1] = [os.path.join(place, name) for name in ("lib", *folders)]
    _prefer_bytecode(place, os.path.join(place, "lib"), _content)
    return True


def _content(path: "str") -> "bytes":
    with open(path, "rb") as file:
        return file.read()


def _prefer_bytecode(place: "str", library: "str", get_data: "Callable[[str], bytes]") -> "None":
    """What is compiled for this very Python before its sources in `library`; where there is nothing of the kind, the sources."""
    import marshal
    import zlib
    from importlib.util import MAGIC_NUMBER

    name = f"{sys.implementation.cache_tag}-{MAGIC_NUMBER[:2].hex()}"
    try:
        code = get_data(os.path.join(place, "code", name))
        # What is unmarshalled here and below is of the file that this is a part of itself.
        modules, ready = marshal.loads(code)  # noqa: S302
        magic, patterns, texts = marshal.loads(zlib.decompress(ready))  # noqa: S302
        modules["glowplug"], patterns.get(""), texts.get("")
    except (ImportError, OSError, ValueError, EOFError, TypeError, LookupError, AttributeError, zlib.error):
        return
    sys.meta_path.insert(0, _Bytecode(library, modules, get_data))
    _prefer_compiled(magic, patterns)
    # What these want of other modules is little, and `inspect` is half a compiler.
    standing_in: dict[str, ModuleType] = {
        "inspect": _Inspect("inspect"),
        "urllib.parse": _Quoting("urllib.parse"),
    }
    for module, small in standing_in.items():
        sys.modules.setdefault(module, small)
    import dataclasses
    import pathlib  # noqa: F401 - now, while a small module stands in for the one that it imports

    for module, small in standing_in.items():
        if sys.modules[module] is small:
            del sys.modules[module]

    def run(text: "str", *spaces: "dict[str, object]") -> "None":
        found = texts.get(text)
        exec(marshal.loads(found) if found else text, *spaces)  # noqa: S102, S302

    # It writes the methods of each class as text; most of what a dataclass costs is compiling that.
    dataclasses.exec = run  # type: ignore[attr-defined]


def _prefer_compiled(magic: "int", patterns: "dict[tuple[object, int], tuple[Any, ...]]") -> "None":
    """Regular expressions as `re` of this very version has compiled them before: it does that in Python, at each start."""
    import _sre  # type: ignore[import-not-found]
    import re

    compiler = sys.modules.get("re._compiler") or sys.modules.get("sre_compile")
    if compiler is None or magic != _sre.MAGIC:
        return
    anew = compiler.compile

    def compiled(pattern: "Any", flags: "int" = 0) -> "re.Pattern[Any]":
        found = patterns.get((pattern, flags)) if type(pattern) in (str, bytes) else None
        made: re.Pattern[Any] = _sre.compile(*found) if found else anew(pattern, flags)
        return made

    compiler.compile = compiled  # type: ignore[attr-defined]


class _Inspect(type(sys)):  # type: ignore[misc]
    """Of `inspect` what dataclasses of our own need, from Python 3.12 on; the rest, should it be asked for, from itself."""

    def get_annotations(self, kind: "type") -> "dict[str, object]":
        """Of a class whose annotations are text."""
        return dict(kind.__dict__.get("__annotations__", {}))  # noqa: RUF063 - this stands in for what is advised

    def __getattr__(self, name: "str") -> "object":
        import inspect

        return getattr(inspect, name)


class _Quoting(type(sys)):  # type: ignore[misc]
    """Of `urllib.parse` what pathlib takes of it, up to Python 3.12; it is asked for by `as_uri` alone."""

    def quote_from_bytes(self, data: "bytes") -> "str":
        """As the real one."""
        from urllib.parse import quote_from_bytes

        return quote_from_bytes(data)


class _Bytecode:
    """Finds and loads modules that are compiled already. `get_data` reads what lies beside them by its path."""

    def __init__(
        self, place: "str", modules: "dict[str, tuple[bool, bytes]]", get_data: "Callable[[str], bytes]"
    ) -> "None":
        self._place = place
        self._modules = modules
        self.get_data = get_data

    def find_spec(
        self, name: "str", path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """As importlib asks every finder; None for what is not here."""
        found = self._modules.get(name)
        if found is None:
            return None
        from importlib.machinery import ModuleSpec

        folder = os.path.join(self._place, *name.split("."))
        file = os.path.join(folder, "__init__.py") if found[0] else f"{folder}.py"
        spec = ModuleSpec(name, self, origin=file, is_package=found[0])  # type: ignore[arg-type, unused-ignore]
        spec.has_location = True
        if found[0]:
            spec.submodule_search_locations = [folder]
        return spec

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        """A plain module."""
        return None

    def exec_module(self, module: "ModuleType") -> "None":
        """Run its code."""
        import marshal
        import zlib

        code = marshal.loads(zlib.decompress(self._modules[module.__name__][1]))  # noqa: S302
        exec(code, module.__dict__)  # noqa: S102 - it is what importing is


def _interpreter() -> "str":
    """As `wheels.json` names interpreters: `cpython-3.12-x86_64-glibc`."""
    try:
        library = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[:1] == ["glibc"]
    except (ValueError, OSError):
        library = False
    free = "t" if "t" in getattr(sys, "abiflags", "") else ""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}{free}"
    libc = "glibc" if library else "musl"
    return f"{sys.implementation.name}-{version}-{os.uname().machine}-{libc}"


def _is_exec(words: "list[str]", environ: "dict[str, str]") -> "bool":
    options = words[: words.index("--")] if "--" in words else words
    return options[:1] == ["run"] and ("--exec" in options or environ.get("GLOWPLUG_EXEC") == "1")


def _command(words: "list[str]") -> "list[str]":
    command = words[words.index("--") + 1 :] if "--" in words else []
    if not command:
        _say("no command to run: put it behind `--`")
        sys.exit(_USAGE)
    return command


def _become(command: "list[str]", environ: "dict[str, str]") -> "None":
    """The command as it would have started without us: signals that Python ignores for itself are as they were."""
    import importlib

    signal = importlib.import_module("_signal")  # what `signal` wraps: that makes enumerations of everything first
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environ)  # noqa: S606 - no shell is wanted
    except FileNotFoundError:
        _say(f"{command[0]}: command not found")
        sys.exit(_NOT_FOUND)
    except OSError as error:
        _say(f"{command[0]}: {error.strerror}")
        sys.exit(_NOT_EXECUTABLE)


def _own_environ() -> "dict[str, str]":
    """The environment that this process was given: Python itself adds LC_CTYPE where the locale is C (PEP 538)."""
    environ = dict(os.environ)
    if "LC_CTYPE" in environ:
        try:
            with open("/proc/self/environ", "rb") as file:
                given = file.read().split(b"\0")
        except OSError:
            return environ
        if not any(entry.startswith(b"LC_CTYPE=") for entry in given):
            del environ["LC_CTYPE"]
    return environ


def _end_on_interrupt() -> "None":
    """Until it listens, SIGINT ends an engine. Python's exception would be one of those after which the engine is started."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _say(text: "str") -> "None":
    try:
        line = " ".join(text.split())
        os.write(2, f"glowplug: {line}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return  # nobody listens; no reason not to start


if __name__ == "__main__":
    main()
