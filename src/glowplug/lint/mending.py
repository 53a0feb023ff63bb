"""Operations with which rules mend what they found: variables, options, keys of a JSON option, fields.

Each says None where it cannot be done safely: a value that comes from a ConfigMap or by a reference, a command that is opaque, a
word that a wrapper made. () means that nothing has to be done.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any, Final

from glowplug.lint.json_options import EXTRA_CONFIG, extra_config, json_option, members, value_in
from glowplug.lint.spelling import rewritten, stands_in_script
from glowplug.manifests.edit import Insert, Put, Remove, Rename, Replace, Splice
from glowplug.manifests.kubelet import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from glowplug.lint.json_options import Member
    from glowplug.lint.view import Container, Engine, Option, Variable, Word, Workload
    from glowplug.manifests.edit import Operation
    from glowplug.manifests.values import Value

Operations = tuple["Operation", ...]

_ENV_AFTER: Final = ("args", "command", "image", "name")
_ARGS_AFTER: Final = ("command", "image", "name")
_SPELLED: Final = {
    "tensorrt-llm": {
        "tensor-parallel-size": "tp_size",
        "pipeline-parallel-size": "pp_size",
        "expert-parallel-size": "ep_size",
    },
    "sglang": {"model": "model-path"},
}


def set_variable(container: Container, name: str, value: str) -> Operations | None:
    """The variable gets this value: replaced where it is, else added at the end of `env`."""
    given = container.environment.get(name)
    if given is None:
        return _added(container, {"name": name, "value": value})
    if given.entry is None or given.origin != "value":
        return None
    written_value = given.entry.get("value")
    if written_value is None or _is_null(written_value):
        return (Put(given.entry, "value", literal(value), after="name"),)
    return (Replace(written_value, literal(value)),)


def _added(container: Container, entry: dict[str, str]) -> Operations | None:
    entry = {**entry, "value": literal(entry["value"])}
    listed = container.value.get("env")
    if listed is None or _is_null(listed):
        return (Put(container.value, "env", [entry], after=_after(container.value, _ENV_AFTER)),)
    return (Insert(listed, entry),) if listed.is_sequence else None


def _after(value: Value, keys: Iterable[str]) -> str:
    return next((key for key in keys if value.get(key) is not None), "")


def _is_null(value: Value) -> bool:
    return not value.is_mapping and not value.is_sequence and value.data is None


def remove_variable(container: Container, name: str) -> Operations | None:
    """The variable goes, all entries of that name; None where something refers to it."""
    given = container.environment.get(name)
    if given is None:
        return ()
    listed = container.value.get("env")
    if given.entry is None or listed is None or _is_referred_to(container, name):
        return None
    places_ = [place for place, entry in enumerate(listed.elements()) if _name_of(entry) == name]
    if len(places_) == len(listed.elements()):
        return (Remove(container.value, "env"),)
    return tuple(Remove(listed, place) for place in reversed(places_))


def rename_variable(container: Container, name: str, to: str) -> Operations | None:
    """The variable gets another name; None where there is one of that name, or where something refers to it."""
    listed = container.value.get("env")
    given = container.environment.get(name)
    if given is None or to in container.environment.variables or _is_referred_to(container, name):
        return None
    if given.holder is not None:
        return _renamed_key(given, to)
    if given.entry is None or listed is None:
        return None
    found = [entry.get("name") for entry in listed.elements() if _name_of(entry) == name]
    return tuple(Replace(one, to) for one in found if one is not None)


def _renamed_key(given: Variable, to: str) -> Operations | None:
    """The key of a ConfigMap; None where a prefix stands before it that the new name has not, or where the new key is there."""
    prefix = given.name.removesuffix(given.key)
    key = to.removeprefix(prefix)
    if given.holder is None or prefix + key != to or not key or given.holder.get(key) is not None:
        return None
    return (Rename(given.holder, given.key, key),)


def _name_of(entry: Value) -> str:
    found = entry.get("name")
    return found.text if found is not None else ""


def _is_referred_to(container: Container, name: str) -> bool:
    reference = re.compile(rf"\$(?:\({re.escape(name)}\)|\{{?{re.escape(name)}\b)")
    texts = [one.text for key in ("command", "args") for one in _elements(container.value.get(key))]
    texts += [found.text for one in _elements(container.value.get("env")) if (found := one.get("value")) is not None]
    mounts = _elements(container.value.get("volumeMounts"))
    texts += [found.text for one in mounts if (found := one.get("subPathExpr")) is not None]
    return any(reference.search(text) for text in texts)


def _elements(value: Value | None) -> Sequence[Value]:
    return value.elements() if value is not None else ()


def set_option(workload: Workload, name: str, value: str | None) -> Operations | None:
    """The engine gets this option, with this value or as a flag (None): changed where it is, else added behind the last one."""
    engine = workload.engine
    if engine.opaque:
        return None
    given = engine.options.get(name)
    if given is None:
        return _add_option(workload, name, value)
    if given.first < 0 or given.dotted:
        return None
    word = engine.words[given.first]
    environment = workload.container.environment
    if value is None:
        if engine.flag(name):
            return ()
        return _one(rewritten(word, 0, len(word.text), f"--{name}", environment)) if given.count == 1 else None
    if given.value is None or given.flag:
        return None
    if given.count > 2:
        return None
    target, offset = value_in(engine, given)
    if target is None:
        return None
    return _one(rewritten(target, offset, len(target.text), value, environment))


def _one(operation: Operation | None) -> Operations | None:
    return None if operation is None else (operation,)


def _add_option(workload: Workload, name: str, value: str | None) -> Operations | None:
    engine = workload.engine
    spelled = "--" + _SPELLED.get(engine.name, {}).get(name, name)
    if not engine.words:
        return _first_option(workload, spelled, value)
    last = engine.words[-1]
    if last.shared or last.elsewhere or any(word.text == "--" for word in engine.words):
        return None
    words = [spelled] if value is None else _in_style(engine, spelled, value)
    if last.alone:
        return _inserted(last, words)
    if not stands_in_script(last, workload.container.environment):
        return None
    if any("$" in word or "`" in word for word in words):
        return None
    return (Splice(last.value, last.end, last.end, _separator(engine) + " ".join(map(shlex.quote, words))),)


def _first_option(workload: Workload, spelled: str, value: str | None) -> Operations | None:
    """For an engine that has no argument yet: `args` are its own where the command is in items, or the image's."""
    container = workload.container.value
    command = container.get("command")
    if container.get("args") is not None or any(" " in one.text for one in _elements(command)):
        return None
    words = [literal(spelled if value is None else f"{spelled}={value}")]
    return (Put(container, "args", words, after=_after(container, _ARGS_AFTER)),)


def _in_style(engine: Engine, spelled: str, value: str) -> list[str]:
    """`--a=b` or two words, as most of the others are written."""
    given = [one for one in engine.given if not one.flag and one.value]
    apart = sum(one.count > 1 for one in given)
    return [spelled, value] if apart * 2 > len(given) else [f"{spelled}={value}"]


def _inserted(last: Word, words: Sequence[str]) -> Operations | None:
    sequence, place = last.value.parent, last.value.step
    if sequence is None or not isinstance(place, int):
        return None
    if place + 1 < len(sequence.elements()):
        return None
    return tuple(Insert(sequence, literal(word)) for word in words)


def _separator(engine: Engine) -> str:
    """What stands before the last option in a script: a blank, or the end of a line and an indentation."""
    last = engine.words[-1]
    text = last.value.text
    first = engine.words[engine.given[-1].first] if engine.given else last
    if first.value is not last.value or first.alone:
        return " "
    found = _before(text, first.start)
    return text[found : first.start] if "\n" in text[found : first.start] else " "


def _before(text: str, at: int) -> int:
    """Where the blanks and continued lines before a word begin."""
    while at and (text[at - 1] in " \t" or text[at - 2 : at] == "\\\n"):
        at -= 2 if text[at - 1] == "\n" else 1
    return at


def remove_option(workload: Workload, name: str) -> Operations | None:
    """The option goes, wherever it is given."""
    engine = workload.engine
    if engine.opaque:
        return None
    given = engine.options.get(name)
    if given is None:
        return ()
    found = [one for one in engine.given if one.name == name]
    if not found or given.first < 0 or given.within is not None:
        return None
    words = [engine.words[one.first + more] for one in found for more in range(one.count)]
    return _without(workload, words)


def _without(workload: Workload, words: Sequence[Word]) -> Operations | None:
    if any(word.shared or word.elsewhere for word in words):
        return None
    items = [word for word in words if word.alone]
    scripts = [word for word in words if not word.alone]
    if not all(stands_in_script(word, workload.container.environment) for word in scripts):
        return None
    done: list[Operation] = []
    for sequence in {id(one.value.parent): one.value.parent for one in items}.values():
        if sequence is None:
            return None
        steps = [one.value.step for one in items if one.value.parent is sequence]
        if len(steps) == len(sequence.elements()) and sequence.parent is not None and sequence.step is not None:
            done.append(Remove(sequence.parent, sequence.step))
            continue
        done += [Remove(sequence, step) for step in sorted(steps, key=_as_index, reverse=True) if step is not None]
    return (*done, *_cut(scripts))


def _as_index(step: str | int | None) -> int:
    return step if isinstance(step, int) else 0


def _cut(words: Sequence[Word]) -> Iterable[Operation]:
    """Words leave a script with what stands before them; neighbours leave it together."""
    runs: list[tuple[Value, int, int]] = []
    for word in sorted(words, key=lambda one: one.start):
        begin = _before(word.value.text, word.start)
        if runs and runs[-1][0] is word.value and runs[-1][2] == begin:
            begin = runs.pop()[1]
        runs.append((word.value, begin, word.end))
    return [Splice(value, start, end, "") for value, start, end in runs]


def set_extra(workload: Workload, key: str, value: Any) -> Operations | None:
    """A key of `--model-loader-extra-config` gets this value."""
    engine, text = workload.engine, json.dumps(value)
    if EXTRA_CONFIG not in engine.options:
        return set_option(workload, EXTRA_CONFIG, json.dumps({key: value}))
    extra = extra_config(engine)
    if extra is None or extra.error:
        return None
    if extra.option.dotted:
        return _set_dotted(workload, extra.option, key, value)
    word, offset = value_in(engine, extra.option)
    if word is None or extra.option.value is None:
        return None
    environment = workload.container.environment
    found = members(extra.option.value)
    one = _member(found, key)
    if one is not None:
        return _one(rewritten(word, offset + one.start, offset + one.end, text, environment))
    if not found:
        start, end = extra.option.value.index("{"), extra.option.value.rindex("}") + 1
        return _one(rewritten(word, offset + start, offset + end, json.dumps({key: value}), environment))
    return _one(
        rewritten(
            word,
            offset + found[-1].end,
            offset + found[-1].end,
            _next(extra.option.value, found, key, text),
            environment,
        )
    )


def _member(found: Sequence[Member], key: str) -> Member | None:
    """The last of that name, which is the one that counts."""
    return next((one for one in reversed(found) if one.key == key), None)


def _next(text: str, found: Sequence[Member], key: str, value: str) -> str:
    """A further member, spaced as those before it."""
    last = found[-1]
    between = (
        text[found[-2].end : last.key_start]
        if len(found) > 1
        else ", "
        if " " in text[last.key_end : last.start]
        else ","
    )
    return f"{between}{json.dumps(key)}{text[last.key_end : last.start]}{value}"


def _set_dotted(workload: Workload, option: Option, key: str, value: Any) -> Operations | None:
    """For dotted options: their word's value, or one more word."""
    engine = workload.engine
    text = value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, dict):
        return None
    for one in option.dotted:
        below = one.name.partition(".")[2]
        if below == key:
            word, offset = value_in(engine, one)
            if word is None:
                return None
            return _one(rewritten(word, offset, len(word.text), text, workload.container.environment))
        if below.startswith(f"{key}."):
            return None
    return _add_option(workload, f"{EXTRA_CONFIG}.{key}", text)


def remove_extra(workload: Workload, key: str) -> Operations | None:
    """A key of `--model-loader-extra-config` goes; with its last key the option does."""
    return remove_json(workload, EXTRA_CONFIG, key)


def remove_json(workload: Workload, name: str, key: str) -> Operations | None:
    """A key of a JSON option goes; with its last key the option does."""
    engine = workload.engine
    if name not in engine.options:
        return ()
    extra = json_option(engine, name)
    if extra is None or extra.error:
        return None
    if key not in extra.parts:
        return ()
    if len(extra.parts) == 1:
        return remove_option(workload, name)
    if extra.option.dotted:
        words = [
            engine.words[one.first + more]
            for one in extra.option.dotted
            if one.name.split(".")[1:2] == [key]
            for more in range(one.count)
        ]
        return _without(workload, words)
    word, offset = value_in(engine, extra.option)
    found = members(extra.option.value or "")
    place = next((at for at, one in enumerate(found) if one.key == key), None)
    if word is None or place is None or sum(one.key == key for one in found) > 1:
        return None
    following = found[place + 1] if place + 1 < len(found) else None
    start = found[place].key_start if following else found[place - 1].end
    end = following.key_start if following else found[place].end
    return _one(rewritten(word, offset + start, offset + end, "", workload.container.environment))


def rename_extra(workload: Workload, key: str, to: str) -> Operations | None:
    """A key of `--model-loader-extra-config` gets another name."""
    extra = extra_config(workload.engine)
    if extra is None or extra.error or key not in extra.parts or to in extra.parts:
        return None
    environment = workload.container.environment
    if extra.option.dotted:
        found = [one for one in extra.option.dotted if one.name.split(".")[1:] == [key]]
        if len(found) != 1:
            return None
        name = workload.engine.words[found[0].first]
        begin = name.text.index(".") + 1
        return _one(rewritten(name, begin, begin + len(key), to, environment))
    word, offset = value_in(workload.engine, extra.option)
    one = _member(members(extra.option.value or ""), key)
    if word is None or one is None:
        return None
    return _one(rewritten(word, offset + one.key_start, offset + one.key_end, json.dumps(to), environment))


def set_field(value: Value, path: tuple[str, ...], data: Any) -> Operations | None:
    """A field gets this value; mappings on the way to it are made where they are missing."""
    for place, key in enumerate(path):
        if not value.is_mapping:
            return None
        below = value.get(key)
        rest = path[place + 1 :]
        if not rest or below is None or _is_null(below):
            made = data
            for name in reversed(rest):
                made = {name: made}
            return (Put(value, key, made),)
        value = below
    return None
