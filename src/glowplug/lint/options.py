"""Words of a command line → options by name, each with its place.

vLLM's words are read as its parser reads them, by the table of `engines/vllm/arguments.py`; what that module turns into one form
for a key keeps its spelling and its place here. The other engines have no table: any long option is read, with the names that
differ between engines brought together (`--tp`, `--tp-size`, `--tp_size` are `tensor-parallel-size`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from glowplug.engines.vllm import arguments
from glowplug.engines.written import Written, is_known
from glowplug.lint import places
from glowplug.lint.view import Option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.lint.view import Word

_SAME: Final = {
    "tp": "tensor-parallel-size",
    "tp-size": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "pp-size": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "dp-size": "data-parallel-size",
    "ep": "expert-parallel-size",
    "ep-size": "expert-parallel-size",
    "model-path": "model",
}
_FLAGS: Final = ("trust-remote-code", "enable-", "disable-", "skip-", "no-")
_NO_VALUE: Final = ("switch", "flag")


@dataclass(frozen=True)
class Read:
    """`whole` is False where a word that nobody knows may be an option, or several."""

    options: Mapping[str, Option]
    model: Option | None
    whole: bool
    given: tuple[Option, ...] = ()
    """Every option in its order, those that a later one overrules included; dotted ones under the name of what they add to."""


def read(engine: str, words: Sequence[Word], before: Mapping[str, Option] | None = None) -> Read:
    """The options of an engine's own arguments; `before` are those of a configuration file, which the words overrule."""
    reader = _Vllm(words) if engine == "vllm" else _Generic(words, positional_model=engine == "tensorrt-llm")
    reader.options.update(before or {})
    reader.run()
    model = reader.model()
    return Read(reader.options, model, reader.whole, tuple(reader.given))


def common(name: str) -> str:
    """The name that an option goes by here, whichever engine's it is."""
    name = name.replace("_", "-")
    return _SAME.get(name, name)


@dataclass
class _Reader:
    words: Sequence[Word]
    at: int = 0
    options: dict[str, Option] = field(default_factory=dict)
    given: list[Option] = field(default_factory=list)
    positional: list[int] = field(default_factory=list)
    whole: bool = True

    def run(self) -> None:
        while self.at < len(self.words):
            word = self.words[self.at]
            if word.text == "--":
                self.positional += range(self.at + 1, len(self.words))
                break
            if not word.known and not self._named(word):
                self._unknown_word()
            elif arguments.is_option(word.text):
                self._option(self.at)
                continue
            else:
                self.positional.append(self.at)
            self.at += 1
        self._finish()

    def model(self) -> Option | None:
        """The positional one, else `--model`."""
        if self.positional:
            place = self.positional[0]
            return self._made("model", place, place, 1, name_at=place)
        return self.options.get("model")

    def _finish(self) -> None:
        """For what can be said only when all words are read."""

    def _option(self, place: int) -> None:
        raise NotImplementedError

    def _unknown_word(self) -> None:
        # Right after `serve` stands the model; what is elsewhere may be options.
        if self.at == 0 and not self.words[0].shared:
            self.positional.append(0)
        else:
            self.whole = False

    def _named(self, word: Word) -> bool:
        """Whether an option's name can be read in a word that is not known as a whole."""
        name = word.text.partition("=")[0]
        if not arguments.is_option(word.text):
            return False
        return is_known(word.written[: len(name)]) if isinstance(word.written, Written) else False

    def _is_value(self, place: int) -> bool:
        return place < len(self.words) and not arguments.is_option(self.words[place].text)

    def _inline(self, name: str, place: int, offset: int, **more: Any) -> Option:
        """An option whose value follows in its own word, from `offset` on."""
        word = self.words[place]
        known = word.known or (isinstance(word.written, Written) and is_known(word.written[offset:]))
        return Option(
            name=name,
            value=word.text[offset:] if known else None,
            at=places.of_word(word, offset),
            option_at=places.of_word(word, 0, max(offset - 1, 0)),
            first=place,
            **more,
        )

    def _take(self, option: Option) -> None:
        self.options[option.name] = option
        self.given.append(option)

    def _bare(self, name: str, place: int, value: str | None = "") -> Option:
        at = places.of_word(self.words[place])
        return Option(name, value, at, at, flag=True, first=place)

    def _made(self, name: str, first: int, value: int, count: int, *, name_at: int | None = None) -> Option:
        """An option of which the value stands in the word at `value`, with those that follow up to `count` joined by commas."""
        words = self.words[value : first + count]
        text = ",".join(word.text for word in words) if all(word.known for word in words) else None
        at = self.words[first if name_at is None else name_at]
        return Option(name, text, places.of_word(words[0]), places.of_word(at), first=first, count=count)

    def _with_value(self, name: str, place: int) -> None:
        """`--name value`; without a value the engine would refuse, and nothing is known of it."""
        if self._is_value(place + 1):
            self._take(self._made(name, place, place + 1, 2))
            self.at = place + 2
        else:
            at = places.of_word(self.words[place])
            self._take(Option(name, None, at, at, first=place))
            self.at = place + 1


@dataclass
class _Vllm(_Reader):
    dotted: dict[str, list[tuple[Sequence[str], Option]]] = field(default_factory=dict)
    after_unknown: list[tuple[str, int]] = field(default_factory=list)

    def _option(self, place: int) -> None:
        word = self.words[place]
        spelled, equals, _ = str(word.text).partition("=")
        if spelled.startswith("-O") and len(word.text) > 2 and not spelled.startswith("-O."):
            offset = 3 if word.text[2] == "=" else 2
            self._take(self._inline("optimization-level", place, offset))
            self.at = place + 1
        elif arguments.DOTTED.match(spelled):
            self._dotted(place, spelled, len(spelled) + 1 if equals else None)
        else:
            self._spelled(place, spelled, len(spelled) + 1 if equals else None)

    def _spelled(self, place: int, spelled: str, offset: int | None) -> None:
        found = arguments.spelling(spelled)
        self.at = place + 1
        if found is None:
            self._unknown_option(place, spelled.lstrip("-").replace("_", "-"), offset)
        elif found.off:
            self._take(self._bare(found.name, place, "false"))
        elif found.takes in _NO_VALUE:
            self._take(
                self._bare(found.name, place) if offset is None else self._inline(found.name, place, offset, flag=True)
            )
        elif offset is not None:
            self._take(self._inline(found.name, place, offset))
        elif found.takes == "list":
            self._list(found.name, place)
        elif found.takes == "optional" and not self._is_value(place + 1):
            self._take(self._bare(found.name, place))
        else:
            self._with_value(found.name, place)

    def _list(self, name: str, place: int) -> None:
        end = place + 1
        while self._is_value(end):
            end += 1
        if end == place + 1:
            self._with_value(name, place)
            return
        self._take(self._made(name, place, place + 1, end - place))
        self.at = end

    def _unknown_option(self, place: int, name: str, offset: int | None) -> None:
        """An option of a version that the table does not know: with what follows it, which may be the model instead."""
        if offset is not None:
            self._take(self._inline(name, place, offset))
        elif self._is_value(place + 1):
            self._take(self._made(name, place, place + 1, 2))
            self.after_unknown.append((name, place + 1))
            self.at = place + 2
        else:
            self._take(self._bare(name, place))

    def _dotted(self, place: int, spelled: str, offset: int | None) -> None:
        option, *keys = spelled.rstrip("+").split(".")
        found = arguments.spelling("-cc" if option == "-O" else option)
        base = found.name if found else option.lstrip("-").replace("_", "-")
        name = ".".join((base, *keys))
        self.at = place + 1
        if offset is not None:
            made = self._inline(name, place, offset)
        elif self._is_value(place + 1):
            made = self._made(name, place, place + 1, 2)
            self.at = place + 2
        else:
            return
        self.dotted.setdefault(base, []).append((keys, made))
        self.given.append(replace(made, name=base))

    def _finish(self) -> None:
        for base, given in self.dotted.items():
            document: dict[str, Any] = {}
            known = True
            for keys, option in given:
                known = known and option.value is not None
                arguments.merge(document, keys, arguments.json_or_text(option.value or ""))
            first = given[0][1]
            text = json.dumps(document) if known else None
            every = tuple(option for _, option in given)
            self.options[base] = Option(
                base, text, first.at, first.option_at, first=first.first, count=first.count, dotted=every
            )
        if not self.positional and "model" not in self.options and self.after_unknown:
            name, place = self.after_unknown[0]
            self.options[name] = self._bare(name, place - 1)
            self.positional.append(place)


@dataclass
class _Generic(_Reader):
    positional_model: bool = False

    def _option(self, place: int) -> None:
        word = self.words[place]
        spelled, equals, _ = str(word.text).partition("=")
        name = common(spelled.lstrip("-"))
        self.at = place + 1
        if equals:
            self._take(self._inline(name, place, len(spelled) + 1))
        elif name.startswith(_FLAGS) or not self._is_value(place + 1):
            self._take(self._bare(name, place))
        else:
            self._with_value(name, place)

    def model(self) -> Option | None:
        """SGLang's is an option; a word that stands alone there belongs to an option with several values."""
        return _Reader.model(self) if self.positional_model else self.options.get("model")
