"""Which container is the engine, and with which words it starts.

Kubernetes starts `command` and `args` after kubelet's references; then shells, wrappers and glowplug's own launcher stand before
the engine, which `engines/command.py` sees through. Where a pod names no command the image's own counts, as far as its name says
what that is. What cannot be followed is opaque: the engine is known by its image or by a line of the script, its words are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from glowplug.engines.command import python_program, see_through
from glowplug.engines.room import Room
from glowplug.engines.vllm.command import server_words
from glowplug.engines.written import Range, Spot, Written, is_known, spot_of, standing
from glowplug.lint import config_files, options, places
from glowplug.lint.references import resolved, stand_in, written_in
from glowplug.lint.view import Engine, Environment, Object, Variable, Word
from glowplug.manifests import images

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from glowplug.lint.view import Container
    from glowplug.manifests.images import Image
    from glowplug.manifests.values import Value

ConfigMaps = Callable[[str], Object | None]
Found = tuple[Engine, Environment]

_SHELL_NAME: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_IN_SCRIPT: Final = (
    ("vllm", re.compile(r"\bvllm\s+serve\b|\bvllm\.entrypoints\.(?:openai\.|grpc_)?(?:api_)?server\b")),
    ("sglang", re.compile(r"\bsglang\.launch_server\b|\bsglang\s+serve\b")),
    ("tensorrt-llm", re.compile(r"\btrtllm-serve\b")),
)
_PROGRAM: Final = re.compile(
    r"(?:.*/)?(?:vllm|python[\d.]*|(?:ba|da|z|k|a)?sh|env|sglang|trtllm-[\w-]+|tini|ray|numactl|uv)"
)
_SGLANG: Final = frozenset({"sglang.launch_server"})
_TENSORRT: Final = frozenset({"tensorrt_llm.commands.serve"})
_SCRIPT: Final = (".sh", ".bash")
_NO_START: Final = frozenset({"-h", "--help", "-v", "--version"})


def engine_of(container: Container, config_map: ConfigMaps, *, runtime: str = "") -> Found | None:
    """The engine of a container and its variables, those of the command line included; None where it is none.

    `runtime`: the engine of the ServingRuntime that gives image and command where the container has none.
    """
    image = images.read(container.image.text) if container.image is not None else images.Image(runtime, "", False)
    command, arguments = _items(container.value.get("command")), _items(container.value.get("args"))
    if runtime and not command:
        return _by_runtime(runtime, image, container, arguments, config_map)
    if not command:
        return _by_image(image, container, arguments, config_map)
    return _by_command(image, container, [*command, *arguments], config_map)


def _items(value: Value | None) -> list[Value]:
    if value is None:
        return []
    return [one for one in value.elements() if not one.is_mapping and not one.is_sequence]


def _by_runtime(
    runtime: str, image: Image, container: Container, arguments: list[Value], config_map: ConfigMaps
) -> Found:
    if not arguments:
        opaque = "the command is that of a serving runtime"
        return Engine(runtime, image.version, (), {}, None, opaque, whole=False), container.environment
    words = _words(arguments, container.environment)
    return _engine(runtime, image, words, container, container.environment, config_map, whole=False)


def _by_image(image: Image, container: Container, arguments: list[Value], config_map: ConfigMaps) -> Found | None:
    first = arguments[0].text if arguments else ""
    if image.starts_server and not _PROGRAM.fullmatch(first):
        words = _words(arguments, container.environment)
        own = _is_own(container)
        return _engine(image.engine, image, words, container, container.environment, config_map, whole=own)
    if image.starts_server:
        return _opaque(
            image, container, arguments, f"the image starts vLLM itself, with `{first}` as its first argument"
        )
    if not arguments:
        return _opaque(image, container, [], "the image decides what it starts") if image.engine else None
    found = _by_command(image, container, arguments, config_map) if not first.startswith("-") else None
    if found is not None or not image.engine:
        return found
    words = _words(arguments, container.environment)
    if not first.startswith("-") and not any(word.text.startswith("--") for word in words):
        return None
    # Somebody's own image of the engine, whose entry point can only be a server that takes these.
    return _engine(image.engine, image, words, container, container.environment, config_map, whole=False)


def _is_own(container: Container) -> bool:
    """Whether the image is the maker's own: others may have added options to the entry point."""
    return container.image is not None and "vllm/vllm-openai" in container.image.text


def _opaque(image: Image, container: Container, items: Iterable[Value], why: str) -> Found | None:
    text = "\n".join(one.text for one in items)
    named = next((engine for engine, line in _IN_SCRIPT if line.search(text)), "") or image.engine
    if not named:
        return None
    version = image.version if named == image.engine else ""
    return Engine(named, version, (), {}, None, why, whole=False), container.environment


def _by_command(image: Image, container: Container, items: list[Value], config_map: ConfigMaps) -> Found | None:
    words = _resolved(items, container.environment)
    files: dict[str, Value] = {}

    def script(path: str) -> str | None:
        value = config_files.file(path, container, config_map)
        if value is not None:
            files[path] = value
        return written_in(value) if value is not None else None

    environ = _environ(items, container.environment)
    if words and not is_known(words[0]):
        return _opaque(image, container, items, "the program is named by a variable that is not known")
    seen = see_through(words, environ, pass_others=True, file=script)
    if files:
        # Once more with the variables that only the scripts name.
        environ = _environ([*items, *files.values()], container.environment)
        seen = see_through(words, environ, pass_others=True, file=script)
    if seen.opaque:
        return _opaque(image, container, [*items, *files.values()], seen.opaque)
    found = _program(seen.argv)
    if found is None:
        if image.engine and seen.argv[0].endswith(_SCRIPT):
            return _opaque(image, container, items, "a shell script in a file")
        text = "\n".join(item.text for item in [*items, *files.values()])
        behind = any(line.search(text) for _, line in _IN_SCRIPT)
        return _opaque(image, container, items, "the engine is not the last program of its script") if behind else None
    name, arguments = found
    if _NO_START.intersection(arguments):
        return None
    environment = _with_commands(container.environment, environ, seen.environ, items[-1])
    placed = tuple(_elsewhere(_placed(word, items[-1]), files) for word in arguments)
    own = image if image.engine == name else replace(image, version="")
    engine, environment = _engine(name, own, placed, container, environment, config_map, whole=True)
    return replace(engine, script=next(iter(files), "")), environment


def _elsewhere(word: Word, files: Mapping[str, Value]) -> Word:
    return replace(word, elsewhere=True) if any(word.value is one for one in files.values()) else word


def _program(argv: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """The engine that a command line starts, and its own arguments."""
    words = server_words(argv)
    if words is not None:
        return "vllm", words
    program = python_program(argv)
    if program is not None and program.kind == "module":
        if program.name in _SGLANG:
            return "sglang", program.arguments
        return ("tensorrt-llm", program.arguments) if program.name in _TENSORRT else None
    script = program is not None and program.kind == "script"
    name = (program.name if program is not None and script else argv[0]).rpartition("/")[2]
    rest = program.arguments if program is not None and script else argv[1:]
    if name == "trtllm-llmapi-launch":
        return _program(rest) if rest else None
    if name == "trtllm-serve":
        return "tensorrt-llm", rest[1:] if rest and rest[0] == "serve" else rest
    return ("sglang", rest[1:]) if name == "sglang" and rest and rest[0] == "serve" else None


def _engine(
    name: str,
    image: Image,
    words: tuple[Word, ...],
    container: Container,
    environment: Environment,
    config_map: ConfigMaps,
    *,
    whole: bool,
) -> Found:
    read = options.read(name, words)
    if "config" in read.options:
        configured = config_files.options_of(name, read.options["config"], container, config_map)
        whole = whole and configured is not None
        read = options.read(name, words, configured)
    whole = whole and read.whole
    return Engine(name, image.version, words, read.options, read.model, whole=whole, given=read.given), environment


def _words(items: Sequence[Value], environment: Environment) -> tuple[Word, ...]:
    return tuple(_placed(word, item) for word, item in zip(_resolved(items, environment), items, strict=True))


def _resolved(items: Sequence[Value], environment: Environment) -> list[str]:
    found, room = [], Room()
    for item in items:
        text = written_in(item)
        spot = Spot(Range(item, 0, len(text)), alone=True)
        found.append(standing(resolved(text, environment.variables, room), spot))
    return found


def _placed(text: str, otherwise: Value) -> Word:
    spot = spot_of(text)
    if spot is None:
        # What a wrapper made of the command line: it stands nowhere by itself.
        spot = Spot(Range(otherwise, 0, len(otherwise.text)), shared=True)
    value, start, end = spot.range
    shared = spot.shared or not isinstance(text, Written)
    alone = spot.alone and not shared
    return Word(str(text), value, start, end, alone, is_known(text), shared, written=text)


def _environ(items: Sequence[Value], environment: Environment) -> dict[str, str]:
    """The variables for a shell: those of the manifest, and stand-ins for what the image or the node may have set."""
    environ = {
        name: stand_in(name) if variable.value is None else variable.value
        for name, variable in environment.variables.items()
    }
    for item in items:
        text = item.text
        for name in _SHELL_NAME.findall(text) if "$" in text else ():
            if name not in environ and not _has_default(text, name):
                environ[name] = stand_in(name)
    return environ


def _has_default(text: str, name: str) -> bool:
    """Whether a script says what counts where the variable is not set; nothing in the manifest sets it."""
    return re.search(rf"\$\{{{name}:?[-+=?]", text) is not None


def _with_commands(
    environment: Environment, before: Mapping[str, str], after: Mapping[str, str], item: Value
) -> Environment:
    """The variables as the command line leaves them. One whose value is another, unknown variable's stands in `item`."""
    changed = {name: value for name, value in after.items() if before.get(name) is not value}
    gone = [name for name in environment.variables if name not in after]
    if not changed and not gone:
        return environment
    variables = {name: one for name, one in environment.variables.items() if name in after}
    for name, value in changed.items():
        spot = spot_of(value)
        own = places.range_of(value, 0, len(value)) or (spot.range if spot else None)
        previous = environment.variables.get(name)
        at = places.place(own) if own is not None else previous.at if previous is not None else item
        variables[name] = Variable(name, value if is_known(value) else None, at, None, "command")
    return Environment(variables, environment.whole)
