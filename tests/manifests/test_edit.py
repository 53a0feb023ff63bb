"""manifests/edit.py: what is meant is written, and nothing else is touched."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from glowplug.manifests.edit import (
    CannotEditError,
    Insert,
    Operation,
    Put,
    Remove,
    Rename,
    Replace,
    Splice,
    apply,
)
from glowplug.manifests.source import Source
from glowplug.manifests.values import Value, load
from glowplug.manifests.writing import noted, plain
from tests.manifests.styled import Styled

Step = str | int


def edited(text: str, change: Callable[..., Sequence[Operation]]) -> str:
    source = Source("t", text)
    return apply(source, change(*load(source)))


def below(value: Value, *path: Step) -> Value:
    found = value.get(*path)
    assert found is not None
    return found


# What a person would have written. In each row: the text before, the operations, the text after.
WRITTEN: dict[str, tuple[str, Callable[..., Sequence[Operation]], str]] = {
    "a key at the end of its mapping, before the comment of the next": (
        "a:\n  b: 1  # one\n\n# next\nc: 2\n",
        lambda v: [Put(below(v, "a"), "d", "x")],
        "a:\n  b: 1  # one\n  d: x\n\n# next\nc: 2\n",
    ),
    "a key behind another": (
        "- a: 1\n  b: 2\n",
        lambda v: [Put(below(v, 0), "m", [1], after="a")],
        "- a: 1\n  m:\n    - 1\n  b: 2\n",
    ),
    "lists as the document has them": (
        "a:\n- x\nb: 1\n",
        lambda v: [Put(v, "c", {"d": [1]}), Put(v, "f", ["z"])],
        "a:\n- x\nb: 1\nc:\n  d:\n  - 1\nf:\n- z\n",
    ),
    "a reason becomes a comment": (
        "a:\n  - name: A\n",
        lambda v: [
            Put(below(v, "a", 0), "value", noted("1", "why so")),
            Insert(below(v, "a"), noted({"name": "B"}, "new")),
        ],
        'a:\n  - name: A\n    # why so\n    value: "1"\n  # new\n  - name: B\n',
    ),
    "a reason for what is there": (
        "a:\n  b: 1 # x\n",
        lambda v: [Put(below(v, "a"), "b", noted(2, "w"))],
        "a:\n  # w\n  b: 2 # x\n",
    ),
    "a reason that is given already": ("# w\nb: 1\n", lambda v: [Put(v, "b", noted(2, "w"))], "# w\nb: 2\n"),
    "an element's comment stays in its line": (
        "- {}  # c\n- x  # d\n",
        lambda v: [Put(below(v, 0), "k", "p\nq\n"), Replace(below(v, 1), {"k": 1, "l": 2})],
        "- k: |  # c\n    p\n    q\n- k: 1  # d\n  l: 2\n",
    ),
    "quotes stay": (
        "a: 'x'  # 1\nb: \"x\"\nc: x\n",
        lambda v: [Put(v, "a", "it's"), Put(v, "b", "it's"), Put(v, "c", "8")],
        "a: 'it''s'  # 1\nb: \"it's\"\nc: \"8\"\n",
    ),
    "a number where a text in quotes was": ('a: "8"\n', lambda v: [Put(v, "a", 9)], "a: 9\n"),
    "a null gets a value": (
        "a:\n  b:  # c\n  d: ~\n",
        lambda v: [Put(below(v, "a"), "b", 1), Put(below(v, "a"), "d", 2)],
        "a:\n  b: 1  # c\n  d: 2\n",
    ),
    "a null becomes a list or a mapping": (
        "a:  # c\nb:\n",
        lambda v: [Insert(below(v, "a"), "x"), Put(below(v, "b"), "k", 1)],
        "a:  # c\n  - x\nb:\n  k: 1\n",
    ),
    "what is empty becomes a list or a mapping": (
        "a: []  # c\nb: {}\n",
        lambda v: [Insert(below(v, "a"), {"x": 1}), Put(below(v, "b"), "k", 1)],
        "a:  # c\n  - x: 1\nb:\n  k: 1\n",
    ),
    "an element in front takes nobody's comment": (
        "a:\n  # first\n  - x\n  # second\n  - y\n",
        lambda v: [Insert(below(v, "a"), "new", 1), Insert(below(v, "a"), "newer", 1)],
        "a:\n  # first\n  - x\n  - new\n  - newer\n  # second\n  - y\n",
    ),
    "an element in front of the first of a list within a list": (
        "- - a\n  - b\n",
        lambda v: [Insert(below(v, 0), {"k": 1, "l": 2}, 0)],
        "- - k: 1\n    l: 2\n  - a\n  - b\n",
    ),
    "flow within flow": (
        "a: {b: 1, c: [x]} # d\n",
        lambda v: [Put(below(v, "a"), "g", {"f": ["g, h"]}), Insert(below(v, "a", "c"), "w", 0)],
        'a: {b: 1, c: [w, x], g: {f: ["g, h"]}} # d\n',
    ),
    "flow with the quotes of its neighbours": (
        'a: ["x", "y"]\n',
        lambda v: [Insert(below(v, "a"), "z")],
        'a: ["x", "y", "z"]\n',
    ),
    "flow with a comma at its end": ("a: [x, y,]\n", lambda v: [Insert(below(v, "a"), "z")], "a: [x, y, z,]\n"),
    "flow on several lines": (
        "a: {\n  b: 1, # one\n  c: 2 # two\n}\n",
        lambda v: [Put(below(v, "a"), "d", 3)],
        "a: {\n  b: 1, # one\n  c: 2, # two\n  d: 3\n}\n",
    ),
    "JSON": (
        '{\n  "a": {\n    "b": 1\n  },\n  "l": [\n    1\n  ]\n}',
        lambda v: [Put(below(v, "a"), "c", {"d": [None]}), Insert(below(v, "l"), 0, 0), Put(v, "e", "é\n")],
        (
            '{\n  "a": {\n    "b": 1,\n    "c": {\n      "d": [\n        null\n      ]\n    }\n  },\n  "l": [\n    0,\n'
            '    1\n  ],\n  "e": "é\\n"\n}'
        ),
    ),
    "JSON in one line": (
        '{"a":1,"b":[]}\n',
        lambda v: [Put(v, "a", "x"), Insert(below(v, "b"), {"c": 1}), Put(v, "d", True)],
        '{"a":"x","b":[{"c": 1}], "d": true}\n',
    ),
    "an entry goes with the comment that is its own": (
        "# the file\na: 1\n\n# of b,\n# on two lines\nb:  # x\n  # inner\n  c: 1\n\n# of d\nd: 2\n",
        lambda v: [Remove(v, "b")],
        "# the file\na: 1\n\n\n# of d\nd: 2\n",
    ),
    "the first entry goes, the file's comment stays": (
        "# the file\na: 1\nb: 2\n",
        lambda v: [Remove(v, "a")],
        "# the file\nb: 2\n",
    ),
    "the first key of an element goes": (
        "- a: 1  # x\n  # of b\n  b: 2\n- c: 3\n",
        lambda v: [Remove(below(v, 0), "a"), Remove(v, 1)],
        "- # of b\n  b: 2\n",
    ),
    "neighbours go": (
        "a: [1, 2, 3, 4]\nb:\n  - 1\n  - 2\n  - 3\n",
        lambda v: [*(Remove(below(v, "a"), i) for i in (0, 1, 3)), Remove(below(v, "b"), 1), Remove(below(v, "b"), -1)],
        "a: [3]\nb:\n  - 1\n",
    ),
    "all goes": (
        "a:\n  - 1 # x\n  - 2\nb: {c: 1}\n",
        lambda v: [Remove(below(v, "a"), 0), Remove(below(v, "a"), 1), Remove(below(v, "b"), "c")],
        "a: []\nb: {}\n",
    ),
    "a key gets another name": (
        "'a': 1\n\"b\": 2\nc: {d: 3}\n",
        lambda v: [
            Rename(v, "a", "x"),
            Rename(v, "b", "y z"),
            Rename(below(v, "c"), "d", "e: f"),
            Rename(v, "c", "on"),
        ],
        '\'x\': 1\n"y z": 2\n"on": {"e: f": 3}\n',
    ),
    "a list below its key gives way to a scalar": (
        "a:  # c\n  - 1\n  - 2 # d\nb: 1\n",
        lambda v: [Put(v, "a", "x")],
        "a: x  # c # d\nb: 1\n",
    ),
    "a scalar gives way to a mapping": ("a: 1  # c\n", lambda v: [Put(v, "a", {"b": 1})], "a:  # c\n  b: 1\n"),
    "a scalar gives way to lines": (
        "a: 1  # c\nb: 2\n",
        lambda v: [Put(v, "a", "x\ny\n")],
        "a: |  # c\n  x\n  y\nb: 2\n",
    ),
    "lines give way to a scalar": ("a: |-  # c\n  x\n  y\n\nb: 2\n", lambda v: [Put(v, "a", 1)], "a: 1  # c\n\nb: 2\n"),
    "parts of a script": (
        "- |\n  exec vllm serve \\\n    --eager\n  # end\n",
        lambda v: [
            Splice(below(v, 0), 0, 4, "A=1\nexec"),
            Splice(below(v, 0), 15, 27, ""),
            Splice(below(v, 0), 33, 33, " of it"),
        ],
        "- |\n  A=1\n  exec vllm serve\n  # end of it\n",
    ),
    "parts of quoted texts": (
        "a: 'it''s'\nb: \"x\\ty\"\nc: 'p\n  q'\nd: >\n  r\n  s\n",
        lambda v: [
            Splice(below(v, "a"), 2, 3, "''"),
            Splice(below(v, "b"), 1, 2, '"'),
            Splice(below(v, "c"), 2, 3, "z"),
            Splice(below(v, "d"), 2, 3, "t"),
        ],
        "a: 'it''''s'\nb: \"x\\\"y\"\nc: 'p\n  z'\nd: >\n  r\n  t\n",
    ),
    "a part that plain text cannot have": ("a: x\n", lambda v: [Splice(below(v, "a"), 1, 1, ": #")], 'a: "x: #"\n'),
    "a part of a number": ("a: 8000\n", lambda v: [Splice(below(v, "a"), 3, 4, "1")], "a: 8001\n"),
    "two parts of one text": (
        "a: one two three\n",
        lambda v: [
            Splice(below(v, "a"), 4, 7, "zwei"),
            Splice(below(v, "a"), 0, 3, "eins"),
            Splice(below(v, "a"), 13, 13, "!"),
        ],
        "a: eins zwei three!\n",
    ),
    "files from Windows": (
        "a: 1\r\nb:\r\n  - x\r\n",
        lambda v: [Put(v, "c", "x\ny\n"), Insert(below(v, "b"), {"k": 1, "l": 2}), Remove(v, "a")],
        "b:\r\n  - x\r\n  - k: 1\r\n    l: 2\r\nc: |\r\n  x\r\n  y\r\n",
    ),
    "a last line without an end": (
        "a: 1\nb:\n  - x",
        lambda v: [Insert(below(v, "b"), "z"), Put(v, "c", 1)],
        "a: 1\nb:\n  - x\n  - z\nc: 1",
    ),
    "a last line without an end that goes": ("a: 1\n\nb: 2", lambda v: [Remove(v, "b")], "a: 1"),
    "a script whose last line has no end": ("a: |\n  x", lambda v: [Put(v, "b", 1)], "a: |-\n  x\nb: 1"),
    "blank lines that a text keeps": (
        "a: |+\n  x\n\n\nb: 1\n",
        lambda v: [Put(v, "c", 2, after="a")],
        "a: |+\n  x\n\n\nc: 2\nb: 1\n",
    ),
    "documents each for itself": (
        "# 1\na: 1\n---\n# 2\na: 2\n...\n--- # 3\na: 3\n",
        lambda one, two, three: [Put(three, "b", 1), Put(one, "b", 1), Remove(two, "a")],
        "# 1\na: 1\nb: 1\n---\n# 2\n{}\n...\n--- # 3\na: 3\nb: 1\n",
    ),
    "an alias gives way where it stands": (
        "a: &a x\nb: *a\nc: *a # c\n",
        lambda v: [Put(v, "c", "z")],
        "a: &a x\nb: *a\nc: z # c\n",
    ),
    "an alias goes": ("a: &a [x]\nb:\n  - *a\n  - y\n", lambda v: [Remove(below(v, "b"), 0)], "a: &a [x]\nb:\n  - y\n"),
    "all uses of an anchor change alike": (
        "a: &a\n  - x\nb: *a\n",
        lambda v: [Insert(below(v, "a"), "z"), Insert(below(v, "b"), "z")],
        "a: &a\n  - x\n  - z\nb: *a\n",
    ),
    "a merged key gets a value of its own": (
        "a: &a {x: 1}\nb:\n  <<: *a\n",
        lambda v: [Put(below(v, "b"), "x", 2)],
        "a: &a {x: 1}\nb:\n  <<: *a\n  x: 2\n",
    ),
    "an anchor that nobody uses": ("a: &a 1\n", lambda v: [Put(v, "a", 2)], "a: 2\n"),
    "what follows a renamed key, an inserted and a removed element": (
        "a: {x: 1}\nb: [p, q, r]\n",
        lambda v: [
            Rename(v, "a", "c"),
            Put(below(v, "a"), "x", 2),
            Remove(below(v, "b"), 0),
            Insert(below(v, "b"), "m", 1),
            Replace(below(v, "b", 2), "s"),
        ],
        "c: {x: 2}\nb: [m, q, s]\n",
    ),
    "a byte order mark": ("\ufeffa: 1\n", lambda v: [Put(v, "b", {"c": 1})], "\ufeffa: 1\nb:\n  c: 1\n"),
    "a root": ("a # c\n", lambda v: [Replace(v, "b")], "b # c\n"),
    "nothing": ("a:   1\n", lambda v: [], "a:   1\n"),
}


@pytest.mark.parametrize(("text", "change", "after"), WRITTEN.values(), ids=WRITTEN)
def test_it_is_written_as_a_person_would(text: str, change: Callable[..., Sequence[Operation]], after: str) -> None:
    assert edited(text, change) == after


REFUSED: dict[str, tuple[str, Callable[..., Sequence[Operation]], str]] = {
    "an anchor that others use": ("a: &a {x: 1}\nb: *a\n", lambda v: [Put(below(v, "a"), "x", 2)], "others use"),
    "an alias's own use": ("a: &a {x: 1}\nb: *a\n", lambda v: [Put(below(v, "b"), "x", 2)], "others use"),
    "an anchor that goes": ("a: &a 1\nb: *a\n", lambda v: [Remove(v, "a")], "cannot be written"),
    "a merged value": ("a: &a {x: 1}\nb:\n  <<: *a\n", lambda v: [Replace(below(v, "b", "x"), 2)], "others use"),
    "a merged key": ("a: &a {x: 1}\nb:\n  <<: *a\n", lambda v: [Remove(below(v, "b"), "x")], "merge"),
    "a key that stands twice": ("a: 1\na: 2\n", lambda v: [Remove(v, "a")], "twice"),
    "a key that is not there": ("a: 1\n", lambda v: [Remove(v, "b")], "no key `b`"),
    "an element that is not there": ("- a\n", lambda v: [Remove(v, 1)], "1 elements"),
    "a name that is taken": ("a: 1\nb: 2\n", lambda v: [Rename(v, "a", "b")], "`b` already"),
    "keys in a list": ("- a\n", lambda v: [Put(v, "a", 1)], "only a mapping"),
    "elements in a mapping": ("a: 1\n", lambda v: [Insert(v, 1)], "only a list"),
    "a part of a mapping": ("a: 1\n", lambda v: [Splice(v, 0, 0, "x")], "only a scalar"),
    "a part that is not there": ("a\n", lambda v: [Splice(v, 0, 2, "x")], "no such part"),
    "parts that overlap": ("abc\n", lambda v: [Splice(v, 0, 2, "x"), Splice(v, 1, 3, "y")], "overlap"),
    "a value within one that goes": (
        "a: {b: 1}\n",
        lambda v: [Remove(v, "a"), Put(below(v, "a"), "b", 2)],
        "another change",
    ),
    "a value within one that gives way": (
        "a: {b: 1}\n",
        lambda v: [Put(v, "a", 1), Put(below(v, "a"), "b", 2)],
        "another change",
    ),
    "a key as a value": ("a: 1\n", lambda v: [Replace(v.key("a"), 2)], "renamed"),
    "a character that YAML has not": ("a: 1\n", lambda v: [Put(v, "a", "\0")], "cannot be written"),
    "the value of another text": ("a: 1\n", lambda v: [Put(load(Source("o", "b: 1"))[0], "a", 1)], "another text"),
}


ONE_OF_MANY = {
    what: case
    for what, case in WRITTEN.items()
    if case[0].endswith(("\n", "\r")) and len(load(Source("t", case[0]))) == 1 and not case[0].startswith("\ufeff")
}


@pytest.mark.parametrize(("text", "change", "after"), ONE_OF_MANY.values(), ids=ONE_OF_MANY)
def test_one_of_many_documents_is_written_the_same(
    text: str, change: Callable[..., Sequence[Operation]], after: str
) -> None:
    """Only that one is read again, which has to be as good as reading all."""
    eol = "\r\n" if "\r\n" in text else "\n"
    others = "".join(f"---{eol}other: {number}{eol}" for number in range(6))
    mark = "" if text.startswith("---") else f"---{eol}"
    source = Source("t", f"{others}{mark}{text}{others}")
    found = apply(source, change(load(source)[6]))
    assert found == f"{others}{mark}{after}{others}"
    assert [one.data for one in load(Source("t", found))] == [
        *(one.data for one in load(Source("t", others))),
        *(one.data for one in load(Source("t", after))),
        *(one.data for one in load(Source("t", others))),
    ]


@pytest.mark.parametrize("sign", ["|", "|-", "|+", "|2", "|2-", "|+2", ">", ">-", ">+", ">2", ">2-", ">+2"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n\n- b\n"], ids=["no line end", "one", "two", "more below"])
@pytest.mark.parametrize("eol", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_a_block_scalar_of_one_line_stays_one(sign: str, end: str, eol: str) -> None:
    text = f"- {sign}  # why\n  exec a --b c{end}".replace("\n", eol)

    def change(document: Value) -> list[Operation]:
        script = below(document, 0)
        at = script.text.index("--b")
        return [Splice(script, at, at + 3, "--other")]

    assert edited(text, change) == text.replace("--b", "--other")


@pytest.mark.parametrize("sign", ["|", "|-", "|+", "|2"])
def test_a_literal_of_one_line_gets_more_lines(sign: str) -> None:
    def change(document: Value) -> list[Operation]:
        return [Splice(below(document, 0), 0, 0, "set -e\n")]

    assert edited(f"- {sign}\n  exec a\n", change) == f"- {sign}\n  set -e\n  exec a\n"


@pytest.mark.parametrize(("text", "change", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_written_is_refused(text: str, change: Callable[..., Sequence[Operation]], said: str) -> None:
    with pytest.raises(CannotEditError) as caught:
        edited(text, change)
    assert said in str(caught.value)


def test_an_alias_bomb_is_compared_without_being_unfolded() -> None:
    text = "".join(f"a{one}: &a{one} [{', '.join([f'*a{one - 1}' if one else 'x'] * 8)}]\n" for one in range(6))
    assert edited(text, lambda v: [Put(v, "b", 1)]) == text + "b: 1\n"


# Any text, any operation

NEW: tuple[Any, ...] = (
    *("x", "a: b", "8", 7, 0.5, True, None, "multi\nline\n", 'it\'s "x"', " ", "é😀"),
    *(
        {"k": "v"},
        {"k": {"l": [1, {"m": "n"}]}},
        ["p", "q"],
        [],
        {},
        [{"name": "N", "value": "V"}],
        noted("r", "the reason"),
    ),
)
PARTS = ("", "Z", "a b", "'", '"', ": ", "\n", "ü", "#", " #", "q\nr", "\\", "\t")


def values(value: Value) -> list[Value]:
    inner = [*(child for _, child in value.items()), *value.elements()]
    return [value, *(one for child in inner for one in values(child))]


def any_operation(random: Random, document: Value) -> Operation:
    value = random.choice(values(document))
    new = random.choice(NEW)
    kind = random.random()
    names = [name for name, _ in value.items()]
    length = len(value.elements())
    if names and kind < 0.25:
        return Put(value, random.choice(("new1", "new 2")), new, after=random.choice([*names, "", "missing"]))
    if names and kind < 0.5:
        return Put(value, random.choice(names), new)
    if names and kind < 0.75:
        return Remove(value, random.choice(names))
    if names:
        return Rename(value, random.choice(names), random.choice(("ren", "ren 2", "88", "ren: 3")))
    if value.is_mapping:
        return Put(value, "new", new)
    if value.is_sequence and kind < 0.5:
        return Insert(value, new, random.choice([None, *range(length + 1)]))
    if value.is_sequence and length and kind < 0.9:
        return Remove(value, random.randrange(length))
    if not value.is_sequence and kind < 0.5:
        start = random.randint(0, len(value.text))
        return Splice(value, start, random.randint(start, len(value.text)), random.choice(PARTS))
    return Replace(value, new)


def way(value: Value) -> list[Step]:
    return [*way(value.parent), value.step] if value.parent is not None and value.step is not None else []


def subject(operation: Operation) -> Value:
    return next(one for one in vars(operation).values() if isinstance(one, Value))


def meant(data: Any, operation: Operation) -> Any:
    """An operation on a copy of the data, as simply as can be."""
    whole = {"": copy.deepcopy(data)}
    path: list[Any] = ["", *way(subject(operation))]
    holder: Any = whole
    for step in path[:-1]:
        holder = holder[step]
    last = path[-1]
    match operation:
        case Put(_, key, value):
            holder[last][key] = plain(value)
        case Insert(_, value, index):
            holder[last].insert(len(holder[last]) if index is None else index, plain(value))
        case Replace(_, to):
            holder[last] = plain(to)
        case Splice(value, start, end, to):
            assume(value.is_text)
            holder[last] = value.text[:start] + to + value.text[end:]
        case Remove(_, key):
            del holder[last][key]
        case Rename(_, key, to):
            holder[last] = {to if name == key else name: item for name, item in holder[last].items()}
    return whole[""]


TEXTS = st.tuples(st.randoms(use_true_random=False), st.sampled_from(("\n", "\r\n")))


def styled(random: Random, eol: str) -> tuple[Source, Value]:
    text, _ = Styled(random, eol).text()
    if random.random() < 0.2:
        text = text.rstrip("\r\n")
    source = Source("t", text)
    documents = load(source)
    assume(documents)
    return source, documents[0]


@settings(max_examples=300, deadline=None)
@given(TEXTS)
@pytest.mark.slow
def test_an_operation_changes_what_it_says_and_no_other_byte(drawn: tuple[Random, str]) -> None:
    random, eol = drawn
    source, document = styled(random, eol)
    operation = any_operation(random, document)
    wanted = meant(document.data, operation)
    try:
        after = apply(source, [operation])
    except CannotEditError:
        # Rare, and only where a text keeps the blank lines behind it.
        assert "|" in source.text
        return
    assert [one.data for one in load(Source("t", after))] == [one for one in [wanted] if one is not None]
    assert eol == "\n" or "\r" not in source.text or "\n" not in after.replace("\r\n", "")
    if any(
        isinstance(one, str) and "multi\nline" in one
        for one in (getattr(operation, "value", ""), getattr(operation, "to", ""))
    ):
        return
    if "|" in source.text and not source.text.endswith("\n"):
        # A script that ends without a line end needs another header before others.
        return
    assert_untouched(source.text, after, operation)


def assert_untouched(before: str, after: str, operation: Operation) -> None:
    """What is put in stands in one piece in the old text, what is taken out was one piece of it; else only the value's own lines
    differ."""
    value = subject(operation)
    before, after = before.rstrip("\r\n"), after.rstrip("\r\n")
    same_start = next(
        (at for at, both in enumerate(zip(before, after, strict=False)) if both[0] != both[1]),
        min(len(before), len(after)),
    )
    shorter = min(len(before), len(after)) - same_start
    same_end = next((at for at in range(shorter) if before[-1 - at] != after[-1 - at]), shorter)
    changed = before[same_start : len(before) - same_end]
    match operation:
        case Insert() if value.elements():
            assert changed == ""
        case Put(_, key) if value.node.children and value.get(key) is None:
            assert changed == ""
        case Remove() if len(value.data) > 1:
            assert after[same_start : len(after) - same_end] == ""
        case Rename(_, key):
            found = value.key(key)
            assert found is not None
            assert found.span.start <= same_start
            assert len(before) - same_end <= found.span.end
        case Splice(to=to) if "\n" not in to and before != after:
            end = value.node.end
            assert value.span.start <= same_start + 1
            assert len(before) - same_end <= end
        case _:
            pass


@settings(max_examples=100, deadline=None)
@given(TEXTS)
@pytest.mark.slow
def test_operations_at_once_give_what_they_give_one_by_one(drawn: tuple[Random, str]) -> None:
    random, eol = drawn
    source, document = styled(random, eol)
    mappings = [one for one in values(document) if one.is_mapping and one.node.children]
    assume(mappings)
    puts = [(random.choice(mappings), random.choice(("new1", "new2", "new3")), random.choice(NEW)) for _ in range(4)]
    step_by_step = source
    for mapping, key, new in puts:
        (root,) = load(step_by_step)
        step_by_step = Source("t", apply(step_by_step, [Put(below(root, *way(mapping)), key, new)]))
    at_once = apply(source, [Put(*one) for one in puts])
    assert at_once.rstrip("\r\n") == step_by_step.text.rstrip("\r\n")


@settings(max_examples=100, deadline=None)
@given(TEXTS)
@pytest.mark.slow
def test_several_operations_are_carried_out_or_refused(drawn: tuple[Random, str]) -> None:
    random, eol = drawn
    source, document = styled(random, eol)
    operations = [any_operation(random, document) for _ in range(4)]
    try:
        after = apply(source, operations)
    except CannotEditError:
        return
    load(Source("t", after))


@pytest.mark.parametrize("key", ["new1", "other"])
def test_a_text_with_an_end_is_put_after_a_last_line_without_one_and_then_followed(key: str) -> None:
    source = Source("t", "a:\n  b: |\n    last line")
    (root,) = load(source)
    puts = [Put(root, key, "x"), Put(root, "new1", "multi\nline\n"), Put(root, "new2", "y")]
    (after,) = load(Source("t", apply(source, puts)))
    assert after.data == {"a": {"b": "last line"}, key: "x", "new1": "multi\nline\n", "new2": "y"}
