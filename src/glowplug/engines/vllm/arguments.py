"""vLLM's command line, read as its `FlexibleArgumentParser` reads it.

That parser accepts underscores for dashes, dotted JSON keys (`-cc.mode=3`), `-O3`, unambiguous prefixes and a YAML
file, and argparse underneath is greedy with list options. Two spellings of one configuration must give one key, so
they all end in one form here: option name with dashes → one normalised string. Options that the table does not know
(a newer vLLM) are kept as they are.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Final, Optional

from glowplug.core.errors import UsageError
from glowplug.core.tables import Row, table
from glowplug.engines import nested
from glowplug.engines.vllm import config_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ReadText = Callable[[str], str]

_PACKAGE: Final = "glowplug.engines.vllm"
DOTTED: Final = re.compile(r"--?[A-Za-z][^.=]*\.")
_HUMAN: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_DECIMAL: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})
_LONGEST_NUMBER: Final = 200
"""Digits: with the largest suffix it is still a number that a float can hold, and Python reads and writes."""
_SHOWN: Final = 80


@dataclass(frozen=True)
class Arguments:
    """A command line in one form. `options`: name with dashes → normalised value; `model`: the positional one, else
    `--model`.
    """

    model: str
    options: Mapping[str, str]
    advice: tuple[str, ...] = ()

    def number(self, name: str, default: int) -> int:
        """A positive whole number. Raises UsageError for anything else."""
        text = self.options.get(name)
        if text is None:
            return default
        number = nested.count(text)
        if not number:
            raise UsageError(f"--{name} must be a number of 1 or more, not {text[:_SHOWN]!r}")
        return number

    def switched(self, name: str) -> bool:
        """Whether a flag is on."""
        return self.options.get(name) == "true"

    def json(self, name: str) -> Mapping[str, Any]:
        """The object that a JSON option holds, empty when absent or not an object."""
        try:
            value = nested.read(self.options.get(name, "{}"))
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class _Options:
    """The options of one version, by what is asked of them."""

    rows: Mapping[str, Row]
    aliases: Mapping[str, str]
    ordered: Sequence[str]
    """All spellings, sorted."""

    def find(self, spelled: str) -> Optional[str]:
        """The option that a word names: exactly, by an alias, or by an unambiguous prefix; `no-` forms included."""
        if spelled in self.aliases:
            return self.aliases[spelled]
        if not spelled.startswith("--") or len(spelled) < 4:
            return None
        found: set[str] = set()
        for alias in itertools.islice(self.ordered, bisect.bisect_left(self.ordered, spelled), None):
            if not alias.startswith(spelled):
                break
            found.add(self.aliases[alias])
        return found.pop() if len(found) == 1 else None


@functools.cache
def _options() -> _Options:
    rows = {row["name"]: row for row in table(_PACKAGE, "options")}
    aliases: dict[str, str] = {}
    for name, row in rows.items():
        aliases[f"--{name}"] = name
        if row["takes"] == "switch":
            aliases[f"--no-{name}"] = f"no-{name}"
        for alias in row["aliases"].split():
            aliases[alias] = name
    return _Options(rows, aliases, sorted(aliases))


_LONGEST_NAME: Final = 256
"""No option has a longer one; what is remembered of strangers' words must be small."""


@dataclass(frozen=True)
class Spelling:
    """What a word names: an option with dashes, how many words it takes (as in options.csv), and whether it is its `--no-` form."""

    name: str
    takes: str
    off: bool = False


def spelling(word: str) -> Optional[Spelling]:
    """The option that a word without its `=value` names, None for one that the table does not have."""
    return _spelling(word) if len(word) <= _LONGEST_NAME else None


@functools.lru_cache(maxsize=4096)
def _spelling(word: str) -> Optional[Spelling]:
    name = _options().find(word.replace("_", "-") if word.startswith("--") else word)
    if name is None:
        return None
    if name.startswith("no-") and name not in _options().rows:
        return Spelling(name[3:], "switch", off=True)
    return Spelling(name, _options().rows[name]["takes"])


def parse(words: Sequence[str], read_text: ReadText) -> Arguments:
    """The arguments after `vllm serve` or `-m vllm.entrypoints.openai.api_server`. Raises UsageError for what vLLM
    refuses.
    """
    advice: list[str] = []
    words = list(words)
    if any(word.startswith("--config=") for word in words):
        advice.append("vLLM reads a file only from `--config FILE`; written as --config=FILE it is ignored")
    if "--config" in words:
        words = _with_config(words, read_text)
    reader = _Reader(_dotted(_dashes(words)))
    reader.run()
    model = reader.positional[0] if reader.positional else reader.values.pop("model", "")
    reader.values.pop("model", None)
    if not model and reader.after_unknown:
        model = reader.after_unknown[0][1]
        reader.values[reader.after_unknown[0][0]] = "true"
    return Arguments(model, reader.values, tuple(advice))


def _with_config(words: list[str], read_text: ReadText) -> list[str]:
    at = words.index("--config")
    if words.count("--config") > 1 or at + 1 >= len(words):
        raise UsageError("--config needs one file")
    path = words[at + 1]
    if path.rpartition(".")[2] not in ("yaml", "yml"):
        raise UsageError(f"--config {path}: vLLM reads .yaml and .yml files only")
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"--config {path} cannot be read: {error}") from error
    # File first: what is on the command line comes later and wins, as in vLLM.
    rest = words[:at] + words[at + 2 :]
    positional = rest[:1] if rest and not rest[0].startswith("-") else []
    return positional + _config_words(config_file.parse(text, path)) + rest[len(positional) :]


def _config_words(config: Mapping[str, config_file.Value]) -> list[str]:
    words: list[str] = []
    for key, value in config.items():
        if isinstance(value, bool):
            words += [f"--{key}"] if value else [f"--no-{key}"] if _options().find(f"--no-{key}") else []
        elif isinstance(value, list):
            words += [f"--{key}", *map(str, value)] if value else []
        elif isinstance(value, dict):
            words += [f"--{key}", json.dumps(value)]
        else:
            words += [f"--{key}", str(value)]
    return words


def _dashes(words: Sequence[str]) -> list[str]:
    done: list[str] = []
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            head, dot, tail = name.partition(".")
            done.append(f"{head.replace('_', '-')}{dot}{tail}{equals}{value}")
        elif word.startswith("-O") and len(word) > 2 and word[2] != ".":
            done += ["--optimization-level", word[3:] if word[2] == "=" else word[2:]]
        elif word.startswith("-O."):
            # Up to 0.11 `-O` was the short name of --compilation-config.
            done.append("--compilation-config" + word[2:])
        else:
            done.append(word)
    return done


def _dotted(words: Sequence[str]) -> list[str]:
    """Dotted keys become one JSON option each, at the end, which is where vLLM puts them."""
    kept: list[str] = []
    found: dict[str, dict[str, Any]] = {}
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        name, equals, value = word.partition("=")
        if not DOTTED.match(name):
            kept.append(word)
            continue
        if not equals:
            if place >= len(words):
                raise UsageError(f"{name} needs a value")
            value = words[place]
            place += 1
        if name.endswith("+"):
            name, value = name[:-1], json.dumps(value.split(","))
        option, *keys = name.split(".")
        merge(found.setdefault(option, {}), keys, json_or_text(value))
    for option, document in found.items():
        kept += [option, json.dumps(document)]
    return kept


def merge(target: dict[str, Any], keys: Sequence[str], value: object) -> None:
    """Adds what `--option.a.b=value` says to the option's object.

    Names behind the deepest level that is followed make one: no engine takes such an object, and nobody can write it as JSON.
    """
    if len(keys) > nested.DEEPEST:
        keys = (*keys[: nested.DEEPEST - 1], ".".join(keys[nested.DEEPEST - 1 :]))
    for key in keys[:-1]:
        inner = target.get(key)
        if not isinstance(inner, dict):
            inner = target[key] = {}
        target = inner
    last = keys[-1]
    present = target.get(last)
    if isinstance(value, list) and isinstance(present, list):
        present += value
    elif isinstance(value, dict) and isinstance(present, dict):
        present.update(value)
    else:
        target[last] = value


def json_or_text(text: str) -> object:
    """The value of a dotted key."""
    try:
        return nested.read(text)
    except ValueError:
        pass
    try:
        return human_int(text)
    except ValueError:
        return text


@dataclass
class _Reader:
    """argparse's loop over the words. Lives for one call of `parse`."""

    words: Sequence[str]

    def __post_init__(self) -> None:
        self.place = 0
        self.positional: list[str] = []
        self.values: dict[str, str] = {}
        self.after_unknown: list[tuple[str, str]] = []

    def run(self) -> None:
        while self.place < len(self.words):
            word = self.words[self.place]
            self.place += 1
            if word == "--":
                self.positional += self.words[self.place :]
                return
            if word.startswith("-") and len(word) > 1 and not _is_number(word):
                self._option(word)
            else:
                self.positional.append(word)

    def _option(self, word: str) -> None:
        spelled, equals, value = word.partition("=")
        name = _options().find(spelled)
        if name is None:
            self._unknown(spelled.lstrip("-"), value if equals else None)
            return
        if name.startswith("no-") and name not in _options().rows:
            self.values[name[3:]] = "false"
            return
        row = _options().rows[name]
        takes = row["takes"]
        if takes in ("switch", "flag"):
            self.values[name] = _boolean(value) if equals else "true"
            return
        if takes == "list":
            given = [value] if equals else self._following()
        elif equals:
            given = [value]
        else:
            given = self._optional() if takes == "optional" else self._one(spelled)
        if not given and takes == "list":
            raise UsageError(f"{spelled} needs a value")
        self.values[name] = ",".join(normalise(name, row["type"], item) for item in given) if given else "true"

    def _optional(self) -> list[str]:
        if self.place >= len(self.words) or is_option(self.words[self.place]):
            return []
        self.place += 1
        return [self.words[self.place - 1]]

    def _one(self, spelled: str) -> list[str]:
        if self.place >= len(self.words) or is_option(self.words[self.place]):
            raise UsageError(f"{spelled} needs a value")
        self.place += 1
        return [self.words[self.place - 1]]

    def _following(self) -> list[str]:
        start = self.place
        while self.place < len(self.words) and not is_option(self.words[self.place]):
            self.place += 1
        return list(self.words[start : self.place])

    def _unknown(self, name: str, value: Optional[str]) -> None:
        if value is None and self.place < len(self.words) and not is_option(self.words[self.place]):
            value = self.words[self.place]
            self.place += 1
            self.after_unknown.append((name, value))
        self.values[name] = "true" if value is None else value


def is_option(word: str) -> bool:
    """Whether argparse takes a word for an option and not for a value."""
    return word[:1] == "-" and len(word) > 1 and (word[1] == "-" or not _is_number(word))


def _is_number(word: str) -> bool:
    return bool(re.fullmatch(r"-\d+|-\d*\.\d+", word))


def _boolean(text: str) -> str:
    lower = text.strip().lower()
    return "true" if lower in _TRUE else "false" if lower in _FALSE else text


def normalise(name: str, kind: str, text: str) -> str:
    """One spelling for equal values: `8k` and `8000`, JSON with any spacing and order. Raises UsageError where vLLM
    would refuse.
    """
    if kind == "int":
        try:
            return str(human_int(text))
        except ValueError:
            if text.strip().lower() == "auto":
                return "-1"
            raise UsageError(f"--{name} must be a whole number, not {text[:_SHOWN]!r}") from None
    if kind == "json":
        return canonical_json(text)
    return text.strip() if kind == "float" else text


def human_int(text: str) -> int:
    """`8k` is 8,000 and `8K` is 8,192, as vLLM reads them. Raises ValueError."""
    text = text.strip()
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("a number of that length")
    match = _HUMAN.fullmatch(text)
    if match is None:
        return int(text)
    number, suffix = match.groups()
    return int(float(number) * _DECIMAL[suffix]) if suffix in _DECIMAL else int(number) * _BINARY[suffix]


def canonical_json(text: str) -> str:
    """Sorted and without blanks; text that is no JSON stays as it is (some options take a name or JSON)."""
    try:
        return json.dumps(nested.read(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except ValueError:
        return text
