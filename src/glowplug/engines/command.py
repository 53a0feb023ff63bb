"""Command lines as people write them → the program that finally runs.

Pod specs and shells wrap engines in many ways: `sh -c "exec …"`, `/usr/bin/env A=b`, `tini --`, `numactl`,
`torchrun`. The key must not depend on the wrapping, so wrappers are peeled off here, once for all adapters. What
cannot be followed by reading alone is called opaque, with the reason, and never guessed: a wrong guess would offer
artifacts of another configuration.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Final, Optional

from glowplug.engines import nested
from glowplug.engines.adapter import Invocation
from glowplug.engines.room import Room
from glowplug.engines.shell import OpaqueError, follow
from glowplug.engines.written import Written, hosted, hull, instead, joined, spot_of, standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DEPTH: Final = 16
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SHEBANG: Final = re.compile(r"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-S[ \t]+)?)?(\w+)[^\n]*")
_PYTHON: Final = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?t?")
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_.\-][A-Za-z0-9_.\-]*)\)")
_LAUNCHER_TAIL: Final = 'exec "$@"'
_SHOWN: Final = 80

# Wrappers that take options and then a command: option letters and long options that take a value as the next word.
_WRAPPERS: Final[Mapping[str, tuple[str, frozenset[str], int]]] = {
    # name: (short options with a value, long options with a value, words between the options and the command)
    "tini": ("pe", frozenset(), 0),
    "tini-static": ("pe", frozenset(), 0),
    "dumb-init": ("r", frozenset({"--rewrite"}), 0),
    "catatonit": ("", frozenset(), 0),
    "numactl": (
        "NmCipPwLoI",
        frozenset({"--cpunodebind", "--membind", "--physcpubind", "--interleave", "--preferred", "--preferred-many"}),
        0,
    ),
    "nice": ("n", frozenset({"--adjustment"}), 0),
    "ionice": ("cn", frozenset({"--class", "--classdata"}), 0),
    "stdbuf": ("ioe", frozenset({"--input", "--output", "--error"}), 0),
    "nohup": ("", frozenset(), 0),
    "setsid": ("", frozenset(), 0),
    "time": ("fo", frozenset({"--format", "--output"}), 0),
    "prlimit": ("", frozenset(), 0),
    "taskset": ("", frozenset(), 1),
    "chrt": ("", frozenset(), 1),
    "timeout": ("ks", frozenset({"--kill-after", "--signal"}), 1),
    "gosu": ("", frozenset(), 1),
    "su-exec": ("", frozenset(), 1),
}

_TORCHRUN_FLAGS: Final = frozenset(
    {"--standalone", "--run-path", "--run_path", "--enable-cpu-affinity", "--virtual-local-rank"}
)


@dataclass(frozen=True)
class Program:
    """What a Python interpreter is asked to run. `kind`: `module`, `script`, `code` or `` for an interactive one."""

    kind: str
    name: str
    arguments: tuple[str, ...]


def resolve_references(
    words: Sequence[str], environ: Mapping[str, str], room: Optional[Room] = None
) -> tuple[str, ...]:
    """`$(VAR)` as kubelet replaces it in `command` and `args` before a container starts; unknown names stay, `$$` is
    `$`. Raises OpaqueError where the references bring more text than there is `room` for.
    """
    room = room or Room()
    return tuple(_resolved(word, environ, room) if "$" in word else word for word in words)


def _resolved(word: str, environ: Mapping[str, str], room: Room) -> str:
    parts: list[str] = []
    done = 0
    for match in _REFERENCE.finditer(word):
        start, end = match.span()
        parts += [word[done:start], _replacement(word, match, environ, room)]
        done = end
    return joined((*parts, word[done:]))


def _replacement(word: str, match: re.Match[str], environ: Mapping[str, str], room: Room) -> str:
    start, end = match.span()
    if match.group(1) is None:
        return instead("$", word, start, end)
    value = environ.get(match.group(1))
    if value is None:
        return word[start:end]
    if not room.takes(value):
        raise OpaqueError("references that bring too much text")
    if not isinstance(word, Written):
        return value
    around = hull(word.between(start, end))
    return hosted(value, around) if around else value


def see_through(
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    pass_others: bool = False,
    file: Callable[[str], Optional[str]] = lambda path: None,
) -> Invocation:
    """The invocation that a command line ends in. Raises nothing; what cannot be followed has `opaque` set.

    `pass_others`: a script may run other programs to their end before the last one (`pip install x && …`). They can
    change neither its words nor its variables, but what it compiles. `file`: the text of a script by its path, None for
    what nobody has.
    """
    words, variables = list(argv), dict(environ)
    try:
        for _ in range(_DEPTH):
            if not words or not words[0]:
                raise OpaqueError("no program to start")
            peeled = _peel(words, variables, pass_others, file)
            if peeled is None:
                return Invocation(tuple(words), variables)
            words, variables = peeled
        raise OpaqueError(f"more than {_DEPTH} wrappers")
    except OpaqueError as why:
        return Invocation(tuple(argv), dict(environ), opaque=str(why))


def python_program(argv: Sequence[str]) -> Optional[Program]:
    """The module or script of `python [options] …`; None when the command is not a Python interpreter."""
    if not argv or not is_python(argv[0]):
        return None
    place = 1
    while place < len(argv):
        word = argv[place]
        if word == "-" or not word.startswith("-"):
            return Program("script", word, tuple(argv[place + 1 :]))
        if word == "--":
            place += 1
            continue
        if word.startswith("--"):
            place += 2 if word == "--check-hash-based-pycs" else 1
            continue
        for at, letter in enumerate(word[1:], start=2):
            if letter in "mc":
                value, rest = (word[at:], place + 1) if word[at:] else (_at(argv, place + 1), place + 2)
                return Program("module" if letter == "m" else "code", value, tuple(argv[rest:]))
            if letter in "XWQ":
                place += 0 if word[at:] else 1
                break
        place += 1
    return Program("", "", ())


def is_python(word: str) -> bool:
    """Whether a word names a Python interpreter."""
    return bool(_PYTHON.fullmatch(_base(word)))


_Peeled = Optional[tuple[list[str], dict[str, str]]]
_File = Callable[[str], Optional[str]]


def _at(words: Sequence[str], place: int) -> str:
    """The word at a place, "" behind the last."""
    return words[place] if place < len(words) else ""


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _peel(words: list[str], variables: dict[str, str], pass_others: bool, file: _File) -> _Peeled:
    """One wrapper off, None when there is none left."""
    name = _base(words[0])
    special: Callable[[list[str], dict[str, str]], _Peeled] | None = {
        "env": _peel_env,
        "torchrun": _peel_torchrun,
        "busybox": lambda rest, env: (rest[1:], env) if rest[1:] else None,
        "glowplug": _peel_glowplug,
        "sudo": _refuse_sudo,
        "su": _refuse_sudo,
    }.get(name)
    if special:
        return special(words, variables)
    if name in _SHELLS:
        return _peel_shell(words, variables, pass_others, file)
    if name in _WRAPPERS:
        return _peel_options(words, *_WRAPPERS[name]), variables
    program = python_program(words)
    if program and program.kind == "module" and program.name in ("torch.distributed.run", "torch.distributed.launch"):
        return _peel_torchrun([words[0], *program.arguments], variables)
    script = file(words[0]) if "/" in words[0] else None
    if script is None:
        return None
    shell = _SHEBANG.match(script)
    if shell is None or shell.group(1) not in _SHELLS:
        raise OpaqueError("a program in a file")
    return _peel_file(words, variables, pass_others, file)


def _peel_glowplug(words: list[str], variables: dict[str, str]) -> _Peeled:
    return (words[words.index("--") + 1 :], variables) if words[1:2] == ["run"] and "--" in words else None


def _refuse_sudo(words: list[str], _: dict[str, str]) -> _Peeled:
    raise OpaqueError(f"{_base(words[0])} replaces the environment by rules that are not in the command line")


def _peel_options(words: list[str], with_value: str, long_with_value: frozenset[str], between: int) -> list[str]:
    place = 1
    while place < len(words):
        word = words[place]
        if word == "--":
            place += 1
            break
        if not word.startswith("-") or word == "-":
            break
        if word.startswith("--"):
            place += 2 if word in long_with_value else 1
        else:
            takes_next = len(word) == 2 and word[1] in with_value
            place += 2 if takes_next else 1
    rest = words[place + between :]
    if not rest:
        raise OpaqueError(f"{_base(words[0])} without a command")
    return rest


def _peel_env(words: list[str], variables: dict[str, str]) -> _Peeled:
    variables = dict(variables)
    place = 1
    while place < len(words):
        word = words[place]
        if word == "--":
            place += 1
        elif word in ("-i", "-", "--ignore-environment"):
            variables = {}
            place += 1
        elif word in ("-u", "--unset"):
            variables.pop(_at(words, place + 1), None)
            place += 2
        elif word.startswith("--unset="):
            variables.pop(word.partition("=")[2], None)
            place += 1
        elif word in ("-C", "--chdir"):
            place += 2
        elif word in ("-S", "--split-string") or word.startswith(("-S", "--split-string=")):
            joined = word.startswith("--split-string=") or (word.startswith("-S") and word != "-S")
            text = word.partition("=")[2] if word.startswith("--") and joined else word[2:] if joined else ""
            following = words[place + 1 :] if joined else words[place + 2 :]
            return ["env", *_split(text if joined else _at(words, place + 1)), *following], variables
        elif word.startswith("-"):
            place += 1
        elif _ASSIGNMENT.match(word) or ("=" in word and not word.startswith("=")):
            name, _, value = word.partition("=")
            variables[name] = value
            place += 1
        else:
            return words[place:], variables
    raise OpaqueError("env without a command")


def _split(text: str) -> list[str]:
    if "$" in text:
        raise OpaqueError("env -S with variables")
    try:
        words = shlex.split(text)
    except ValueError:
        raise OpaqueError("an unbalanced quote") from None
    spot = spot_of(text)
    return [standing(word, spot._replace(shared=True)) for word in words] if spot else words


def _peel_shell(words: list[str], variables: dict[str, str], pass_others: bool, file: _File) -> _Peeled:
    place = 1
    script: str | None = None
    wants_script = False
    while place < len(words):
        word = words[place]
        if word == "--":
            place += 1
            break
        if not word.startswith(("-", "+")) or word in ("-", "+"):
            break
        place += 1
        if word.startswith("--"):
            place += 1 if word in ("--rcfile", "--init-file") else 0
            continue
        wants_script = wants_script or (word.startswith("-") and "c" in word[1:])
        if "o" in word[1:]:
            place += 1
    if wants_script and place < len(words):
        script = words[place]
    if script is None:
        return _peel_file(words[place:], variables, pass_others, file)
    zero, *arguments = words[place + 1 :] or [words[0]]
    if _base(zero) == "glowplug" and script.rstrip().endswith(_LAUNCHER_TAIL):
        # Our own launcher's wrapping in a pod: whatever it does first, it ends in the original command.
        return arguments, variables
    straight = follow(script, zero, arguments, variables, pass_others=pass_others)
    return list(straight.words), dict(straight.environ)


def _peel_file(words: list[str], variables: dict[str, str], pass_others: bool, file: _File) -> _Peeled:
    """A shell that reads a script from a file, and its arguments."""
    if not words:
        raise OpaqueError("an interactive shell")
    script = file(words[0])
    if script is None:
        raise OpaqueError("a shell script in a file")
    straight = follow(script, words[0], words[1:], variables, pass_others=pass_others)
    return list(straight.words), dict(straight.environ)


def _peel_torchrun(words: list[str], variables: dict[str, str]) -> _Peeled:
    options: dict[str, str] = {}
    module = no_python = False
    place = 1
    while place < len(words):
        word = words[place]
        if word == "--":
            place += 1
            break
        if not word.startswith("-"):
            break
        name, equals, value = word.partition("=")
        name = "--" + name[2:].replace("_", "-") if name.startswith("--") else name
        place += 1
        if name in ("-m", "--module"):
            module = True
        elif name == "--no-python":
            no_python = True
        elif name not in _TORCHRUN_FLAGS:
            if not equals:
                value = _at(words, place)
                place += 1
            options[name] = value
    rest = words[place:]
    if not rest:
        raise OpaqueError("torchrun without a program")
    environ = {**variables, **_world(options, variables)}
    if no_python:
        return rest, environ
    # torchrun starts its own interpreter, which lies beside it.
    interpreter = words[0] if is_python(words[0]) else words[0][: -len(_base(words[0]))] + "python3"
    return [interpreter, *(["-m"] if module else []), *rest], environ


def _world(options: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    nodes = options.get("--nnodes") or variables.get("PET_NNODES") or "1"
    processes = options.get("--nproc-per-node") or variables.get("PET_NPROC_PER_NODE") or "1"
    machines, each = nested.count(nodes), nested.count(processes)
    if not machines:
        raise OpaqueError("an elastic number of nodes")
    if not each:
        raise OpaqueError(f"torchrun with {processes[:_SHOWN]!r} processes per node")
    return {"WORLD_SIZE": str(machines * each), "LOCAL_WORLD_SIZE": processes}
