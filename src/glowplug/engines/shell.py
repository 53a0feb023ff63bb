"""A `sh -c` script as the list of its commands, as far as reading can go.

Pods start engines through one-line shell scripts (`set -e; export A=b; exec vllm serve "$MODEL" …`). Those are
straight lines that can be followed without running them: quotes, continuation lines, `$VAR`, `${VAR:-x}`, `"$@"`.
Anything whose outcome depends on running something (substitution, conditions, loops, other files) raises
`OpaqueError` with the reason: a guess would become a wrong key.

A script that is `Written` gives words that know where they stand in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Final, Optional

from glowplug.engines import nested
from glowplug.engines.room import Room
from glowplug.engines.written import Spot, Written, brought, hull, instead, joined, standing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_OPERATORS: Final = ("&&", "||", ";;", ">>", "<<", ">&", "<&", "&>", ";", "&", "|", "(", ")", "<", ">", "\n")
_SEPARATORS: Final = frozenset({";", "\n", "&&"})
_REDIRECTIONS: Final = frozenset({">", ">>", "<", ">&", "<&", "&>"})
_READERS: Final = frozenset({"tee", "cat", "ts"})
_SPLITTERS: Final = frozenset(" \t\n")
_KEYWORDS: Final = frozenset(
    {
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "function",
        "{",
        "}",
        "!",
    }
    | {"[[", "eval", "source", ".", "trap"}
)
# Commands that may come before the engine and change neither its arguments nor its environment.
_HARMLESS: Final = frozenset(
    {"set", "cd", "ulimit", "umask", "echo", "printf", "mkdir", "sleep", "true", ":", "date", "ls"}
)


_BLANKS: Final = " \t\r"
_NO_SPLITTERS: Final = re.compile(r"[^ \t\r]")
_SPECIAL: Final = re.compile(r"""[ \t\r\n\\'"$`;&|()<>]""")
_BRACES: Final = re.compile(r"\{[^{}]*\}")
_QUOTED_SPECIAL: Final = re.compile(r'["\\$`]')


class OpaqueError(Exception):
    """The script cannot be followed by reading it; the message says why."""


@dataclass(frozen=True)
class Word:
    """A word before expansion: pieces of literal text and of references, each quoted or not. `plain`: no piece was
    quoted.
    """

    pieces: tuple[tuple[str, str, bool], ...]
    """(kind, text, quoted) with kind `text` or `ref`."""
    spot: Optional[Spot] = None

    @property
    def plain(self) -> bool:
        """Whether it is a bare word as typed, which alone can be a keyword or begin an assignment."""
        return all(kind == "text" and not quoted for kind, _, quoted in self.pieces)

    @property
    def raw(self) -> str:
        """The literal text up to the first reference."""
        return "".join(piece for _, piece, _ in takewhile(lambda piece: piece[0] == "text", self.pieces))


@dataclass
class _Lexer:
    """Splits a script into words and operators. Mutable, lives for one call of `_tokens`."""

    source: str
    at: int = 0
    tokens: list[Word | str] = field(default_factory=list)
    pieces: list[tuple[str, str, bool]] = field(default_factory=list)
    open: bool = False
    begin: int = 0

    def __post_init__(self) -> None:
        # Looked at character by character, of which a plain string makes less fuss.
        self.script: str = str(self.source)

    def run(self) -> list[Word | str]:
        while self.at < len(self.script):
            self._step()
        self._close()
        return self.tokens

    def _close(self) -> None:
        if self.open:
            self.tokens.append(Word(tuple(self.pieces), self._spot()))
        self.pieces, self.open = [], False

    def _spot(self) -> Optional[Spot]:
        if not isinstance(self.source, Written):
            return None
        around = hull(self.source.between(self.begin, self.at))
        return Spot(around) if around else None

    def _open(self) -> None:
        if not self.open:
            self.open, self.begin = True, self.at

    def _add(self, kind: str, text: str, *, quoted: bool) -> None:
        self.pieces.append((kind, text, quoted))

    def _step(self) -> None:
        script, at = self.script, self.at
        character = script[at]
        if character in _BLANKS:
            self._close()
            self.at = _blanks_end(script, at)
        elif script.startswith("\\\n", at):
            self.at += 2
        elif character == "#" and not self.open:
            end = script.find("\n", at)
            self.at = len(script) if end < 0 else end
        elif character in "\\'\"$`":
            self._open()
            self._quoting(character)
        else:
            self._operator_or_text()

    def _quoting(self, character: str) -> None:
        if character == "\\":
            self._escape()
        elif character == "'":
            self._single_quotes()
        elif character == '"':
            self._double_quotes()
        elif character == "$":
            self._reference(quoted=False)
        else:
            raise OpaqueError("a command substitution")

    def _escape(self) -> None:
        if self.at + 1 >= len(self.script):
            raise OpaqueError("a backslash at the end of the script")
        self._add("text", instead(self.script[self.at + 1], self.source, self.at, self.at + 2), quoted=True)
        self.at += 2

    def _single_quotes(self) -> None:
        end = self.script.find("'", self.at + 1)
        if end < 0:
            raise OpaqueError("an unbalanced quote")
        self._add("text", self.source[self.at + 1 : end], quoted=True)
        self.at = end + 1

    def _operator_or_text(self) -> None:
        start = self.at
        end = _text_end(self.script, start)
        if end == start:
            self._operator()
            return
        self._open()
        self.at = end
        self._add("text", self.source[start:end], quoted=False)

    def _operator(self) -> None:
        operator = next(one for one in _OPERATORS if self.script.startswith(one, self.at))
        if operator in _REDIRECTIONS and self._is_descriptor():
            self.pieces, self.open = [], False
        self._close()
        self.tokens.append(operator)
        self.at += len(operator)

    def _is_descriptor(self) -> bool:
        """Whether the word so far is a bare number, which right before a redirection is its file descriptor."""
        if len(self.pieces) != 1:
            return False
        _, text, quoted = self.pieces[0]
        return text.isascii() and text.isdigit() and not quoted

    def _double_quotes(self) -> None:
        self._add("text", "", quoted=True)
        self.at += 1
        start = self.at
        while True:
            found = _QUOTED_SPECIAL.search(self.script, self.at)
            if found is None:
                raise OpaqueError("an unbalanced quote")
            self.at = found.start()
            self._add("text", self.source[start : self.at], quoted=True)
            character = found.group()
            if character == '"':
                self.at += 1
                return
            if character == "`":
                raise OpaqueError("a command substitution")
            if character == "$":
                self._reference(quoted=True)
            elif self.at + 1 < len(self.script):
                self._quoted_escape()
            else:
                raise OpaqueError("an unbalanced quote")
            start = self.at

    def _quoted_escape(self) -> None:
        following = self.script[self.at + 1]
        text = "" if following == "\n" else following if following in '$`"\\' else "\\" + following
        self._add("text", instead(text, self.source, self.at, self.at + 2), quoted=True)
        self.at += 2

    def _reference(self, *, quoted: bool) -> None:
        script, at = self.script, self.at + 1
        following = script[at : at + 1]
        if following == "(":
            raise OpaqueError("a command substitution")
        if following == "{":
            end = script.find("}", at)
            if end < 0:
                raise OpaqueError("an unbalanced brace")
            inner = self.source[at + 1 : end]
            plain = _NAME.fullmatch(inner) is not None
            self._add("ref", instead(inner, self.source, at - 1, end + 1) if plain else inner, quoted=quoted)
            self.at = end + 1
            return
        if following in ("'", '"') and not quoted:
            raise OpaqueError("a $'…' string")
        name = _NAME.match(script, at)
        if name:
            self._add("ref", instead(name.group(), self.source, at - 1, name.end()), quoted=quoted)
            self.at = name.end()
        elif following and following in "@*#?$!-0123456789":
            self._add("ref", following, quoted=quoted)
            self.at = at + 1
        else:
            self._add("text", "$", quoted=True)
            self.at = at


@dataclass(frozen=True)
class Straight:
    """What a straight-line script ends in: the words of its last command and the environment at that point."""

    words: tuple[str, ...]
    environ: Mapping[str, str]


def follow(
    script: str, zero: str, arguments: Sequence[str], environ: Mapping[str, str], *, pass_others: bool = False
) -> Straight:
    """The last command of a script, with everything before it taken into account. Raises OpaqueError.

    `pass_others`: programs before the last one are let pass; what stands behind an `exec` is never reached.
    """
    state = _State(dict(environ), dict(environ), zero, list(arguments))
    commands = _commands(_Lexer(script).run())
    if not commands:
        raise OpaqueError("an empty script")
    for command in commands[:-1]:
        words = state.execute(command, last=False)
        if words is None:
            continue
        if not pass_others:
            raise OpaqueError("more than one program")
        if command[0].raw == "exec":
            return Straight(tuple(words), state.exported)
    words = state.execute(commands[-1], last=True)
    if words is None:
        raise OpaqueError("a script that starts no program")
    return Straight(tuple(words), state.exported)


def words(script: str) -> list[Word]:
    """The words of a script, operators left out. Raises OpaqueError."""
    return [token for token in _Lexer(script).run() if isinstance(token, Word)]


def _commands(tokens: Sequence[Word | str]) -> list[list[Word]]:
    """The words of each command of a straight line, redirections left out."""
    commands: list[list[Word]] = []
    segment: list[Word | str] = []
    for item in (*tokens, ";"):
        if isinstance(item, str) and item in _SEPARATORS:
            command = _command(segment)
            commands += [command] if command else []
            segment = []
        else:
            segment.append(item)
    return commands


def _command(segment: Sequence[Word | str]) -> list[Word]:
    # `engine … | tee log` is still the engine with this environment; what follows only reads its output.
    first, *readers = _stages(segment)
    for reader in readers:
        words = _simple(reader)
        if not words or words[0].raw.rpartition("/")[2] not in _READERS:
            raise OpaqueError("a pipeline")
    return _simple(first)


def _stages(segment: Sequence[Word | str]) -> list[list[Word | str]]:
    """The commands of a pipeline."""
    stages: list[list[Word | str]] = [[]]
    for item in segment:
        if item == "|":
            stages.append([])
        else:
            stages[-1].append(item)
    return stages


def _simple(segment: Sequence[Word | str]) -> list[Word]:
    words: list[Word] = []
    target_follows = False
    for item in segment:
        if isinstance(item, Word):
            if not target_follows:
                words.append(item)
            target_follows = False
        elif item in _REDIRECTIONS and not target_follows:
            target_follows = True
        else:
            raise OpaqueError(f"the shell operator {item!r}")
    return words


@dataclass
class _State:
    """Variables while the commands of one script are followed."""

    variables: dict[str, str]
    exported: dict[str, str]
    zero: str
    arguments: list[str]
    room: Room = field(default_factory=Room)

    def execute(self, command: Sequence[Word], *, last: bool) -> list[str] | None:
        """The words of a program to start, None for a command that only changes the shell's state or the
        machine's.
        """
        assignments, rest = self._assignments(command)
        if not rest:
            for name, value in assignments:
                self._assign(name, value)
            return None
        head = rest[0]
        if head.plain and head.raw in _KEYWORDS:
            raise OpaqueError(f"the shell's {head.raw!r}")
        words = [text for word in rest for text in self.expand(word)]
        if not words:
            return None
        if words[0] in ("exec", "command"):
            words = _after_exec(words)
            if not words:
                return None
        elif self._builtin(words, rest):
            return None
        if not last and words and words[0].rpartition("/")[2] in _HARMLESS:
            return None
        for name, value in assignments:
            self.exported[name] = value
        return words

    def _assignments(self, command: Sequence[Word]) -> tuple[list[tuple[str, str]], Sequence[Word]]:
        found: list[tuple[str, str]] = []
        for place, word in enumerate(command):
            kind, text, quoted = word.pieces[0]
            match = _ASSIGNMENT.match(text) if kind == "text" and not quoted else None
            if match is None:
                return found, command[place:]
            pieces = (("text", text[match.end() :], False), *word.pieces[1:])
            value = joined(self._piece(*piece) for piece in pieces)
            found.append((match.group(1), value))
        return found, ()

    def _assign(self, name: str, value: str) -> None:
        self.variables[name] = value
        if name in self.exported:
            self.exported[name] = value

    def _builtin(self, words: list[str], rest: Sequence[Word]) -> bool:
        if words[0] == "export":
            for word in rest[1:]:
                self._export(joined(self._piece(*piece) for piece in word.pieces))
            return True
        if words[0] == "unset":
            for name in words[1:]:
                self.variables.pop(name, None)
                self.exported.pop(name, None)
            return True
        if words[0] == "set":
            if "--" in words:
                self.arguments = words[words.index("--") + 1 :]
            return True
        if words[0] == "shift" and len(words) == 1:
            self.arguments = self.arguments[1:]
            return True
        return False

    def _export(self, text: str) -> None:
        name, equals, value = text.partition("=")
        if not _NAME.fullmatch(name):
            raise OpaqueError(f"export {text!r}")
        if equals:
            self.variables[name] = value
        if name in self.variables:
            self.exported[name] = self.variables[name]

    def expand(self, word: Word) -> list[str]:
        """The words that a word becomes: none for an unset unquoted variable, several for `"$@"` or blanks in one."""
        fields = _Fields()
        for kind, text, quoted in word.pieces:
            if kind == "ref" and text in ("@", "*") and (text == "@" or not quoted):
                fields.splice([self._brought(one) for one in self.arguments])
                continue
            value = self._piece(kind, text, quoted)
            if kind == "ref" and not quoted:
                fields.split(value)
                continue
            if kind == "text" and not quoted and _braces(value):
                raise OpaqueError("a brace expansion")
            if kind == "text" and not quoted and not fields.begun and (value == "~" or value.startswith("~/")):
                value = self._brought(self.variables.get("HOME", "~")) + value[1:]
            fields.add(value)
        fields.end()
        return _placed(fields.ended, word.spot) if word.spot else fields.ended

    def _piece(self, kind: str, text: str, _: bool) -> str:
        return text if kind == "text" else self._brought(self._value(text))

    def _brought(self, text: str) -> str:
        if not self.room.takes(text):
            raise OpaqueError("references that bring too much text")
        return text

    def _value(self, reference: str) -> str:
        place = nested.count(reference)
        if place is not None:
            if place == 0:
                return self.zero
            return self.arguments[place - 1] if place <= len(self.arguments) else ""
        if reference in ("@", "*"):
            return " ".join(self.arguments)
        if reference == "#":
            return str(len(self.arguments))
        name = _NAME.match(reference)
        if name is None:
            raise OpaqueError(f"${{{reference}}}")
        rest = reference[name.end() :]
        value = self.variables.get(name.group())
        if value:
            value = brought(value, reference)
        if not rest:
            return value or ""
        return _with_default(reference, rest, value)


class _Fields:
    """The words that one word becomes, in the making. Their parts are joined once: a word may have very many."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self._parts: list[str] = []
        self.begun = False

    def add(self, text: str) -> None:
        """More of the word at hand, which is one even where it is empty."""
        self._parts.append(text)
        self.begun = True

    def end(self) -> None:
        """The word at hand, if there is one, is whole."""
        if self.begun:
            self.ended.append(joined(self._parts))
        self._parts, self.begun = [], False

    def splice(self, arguments: Sequence[str]) -> None:
        """`"$@"`: the first goes on with what stands before it, the last with what follows."""
        for place, argument in enumerate(arguments):
            if place:
                self.end()
            self.add(argument)

    def split(self, value: str) -> None:
        """`$VAR`: blanks in it end words."""
        if value[:1] in _SPLITTERS:
            self.end()
        for place, part in enumerate(value.split()):
            if place:
                self.end()
            self.add(part)
        if value[-1:] in _SPLITTERS:
            self.end()


def _with_default(reference: str, rest: str, value: str | None) -> str:
    operator = rest[:2] if rest[:1] == ":" else rest[:1]
    default = rest[len(operator) :]
    if "$" in default or "`" in default:
        raise OpaqueError(f"${{{reference}}}")
    present = value is not None if len(operator) == 1 else bool(value)
    if operator in (":-", "-"):
        return value if present and value is not None else default.strip("\"'")
    if operator in (":+", "+"):
        return default.strip("\"'") if present else ""
    if operator in (":?", "?") and present:
        return value or ""
    raise OpaqueError(f"${{{reference}}}")


def _placed(fields: Sequence[str], spot: Spot) -> list[str]:
    """The words that came of one word of the script. An argument that came through whole keeps the place it has."""
    spot = spot._replace(shared=len(fields) > 1)
    return [field if isinstance(field, Written) and field.spot else standing(field, spot) for field in fields]


def _blanks_end(script: str, start: int) -> int:
    found = _NO_SPLITTERS.search(script, start)
    return found.start() if found else len(script)


def _text_end(script: str, start: int) -> int:
    """Where bare text ends that begins there."""
    found = _SPECIAL.search(script, start)
    return found.start() if found else len(script)


def _braces(text: str) -> bool:
    # In two steps: one expression for both would look at each comma of a brace that does not end again and again.
    return any("," in inner or ".." in inner for inner in _BRACES.findall(text))


def _after_exec(words: list[str]) -> list[str]:
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        if rest[0] == "--":
            return rest[1:]
        rest = rest[2:] if rest[0] == "-a" else rest[1:]
    return rest
