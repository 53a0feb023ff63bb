"""manifests/values.py: YAML as kubectl reads it, each value with its place."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from glowplug.core.errors import BadInputError
from glowplug.manifests import nodes
from glowplug.manifests.nodes import DEEPEST
from glowplug.manifests.source import Source
from glowplug.manifests.values import Value, load
from tests.clocks import SLACK


def of(text: str) -> Value:
    (document,) = load(Source("t", text))
    return document


def cut(value: Value | None) -> str:
    assert value is not None
    return value.place.text


TYPES: tuple[tuple[str, Any], ...] = (
    *((text, True) for text in ("true", "True", "TRUE", "yes", "Yes", "on", "ON", "y", "Y")),
    *((text, False) for text in ("false", "no", "NO", "off", "Off", "n", "N")),
    *((text, None) for text in ("", "~", "null", "Null", "NULL")),
    *(
        (text, text)
        for text in ("nULL", "tRUE", "yEs", "abc", "x8", "1.2.3", "0x", "0xg", "1e", "+", ".", "=", "1e400")
    ),
    *((text, text) for text in ("2026-11-30", "2026-11-30T10:00:00Z", "12:30", "1:2:3", "80Gi", "12m", "1,000", "_1")),
    *(
        ("8", 8),
        ("-8", -8),
        ("+8", 8),
        ("0", 0),
        ("1_000", 1000),
        ("0x1F", 31),
        ("-0x10", -16),
        ("0b101", 5),
        ("0o17", 15),
    ),
    *(("017", 15), ("08", 8.0), ("1e3", 1000.0), ("1.", 1.0), (".5", 0.5), ("-1.5e-3", -0.0015), (".inf", math.inf)),
    *(
        ("-.Inf", -math.inf),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("0x1" + "0" * 16, "0x1" + "0" * 16),
    ),
    *(
        ("'8'", "8"),
        ('"true"', "true"),
        ("!!str 8", "8"),
        ("! 8", "8"),
        ("!!int '8'", 8),
        ("!!float 8", 8.0),
        ("!own 8", "8"),
    ),
    *(("!!bool yes", True), ("!!null ''", None), ("!!int x", "x"), ("|\n  8\n", "8\n"), (">-\n  8\n", "8")),
)


@pytest.mark.parametrize(("text", "data"), TYPES)
def test_a_scalar_has_the_type_that_kubectl_gives_it(text: str, data: Any) -> None:
    value = of(f"- {text}").get(0)
    assert value is not None
    assert value.data == data
    assert type(value.data) is type(data)
    assert value.is_text == isinstance(data, str)
    assert value.text == ("" if data is None else yaml.compose(text).value)


def test_what_looks_like_no_number_is_a_text() -> None:
    assert math.isnan(of("[.nan]").data[0])
    assert of("- " + "9" * 5000).get(0).is_text  # type: ignore[union-attr]


POD = """\
# the pod
kind: Pod
spec:
  containers:
  - name: vllm  # the engine
    args: [--a, "--b"]
    env:
    - {name: A, value: "1"}
    -
      name: B
    command:
      - |
        exec vllm serve

  # more
  empty:
  last: &x >-
    folded
    text

# the end
"""


def test_a_value_is_found_by_its_path() -> None:
    pod = of(POD)
    container = pod.get("spec", "containers", 0)
    assert container is not None
    assert container.get("env", 1, "name") is pod.get("spec", "containers", -1, "env", -1, "name")
    for missing in (("x",), ("kind", "x"), ("spec", "containers", 9), ("spec", 0), ("spec", "containers", "x"), (0,)):
        assert pod.get(*missing) is None
    assert pod.get() is pod
    assert [name for name, _ in container.items()] == ["name", "args", "env", "command"]
    assert [one.text for one in container.get("args").elements()] == ["--a", "--b"]  # type: ignore[union-attr]
    assert list(pod.get("kind").items()) == []  # type: ignore[union-attr]
    assert container.elements() == ()
    assert pod.data == yaml.safe_load(POD)


@pytest.mark.parametrize(
    ("path", "written"),
    [
        (("kind",), "Pod"),
        (("spec", "containers", 0, "name"), "vllm"),
        (("spec", "containers", 0, "args"), '[--a, "--b"]'),
        (("spec", "containers", 0, "args", 1), '"--b"'),
        (("spec", "containers", 0, "env"), '- {name: A, value: "1"}\n    -\n      name: B'),
        (("spec", "containers", 0, "env", 1), "name: B"),
        (("spec", "containers", 0, "command", 0), "|\n        exec vllm serve"),
        (("spec", "containers", 0, "command"), "- |\n        exec vllm serve"),
        (("spec", "empty"), ""),
        (("spec", "last"), ">-\n    folded\n    text"),
        ((), POD[POD.index("kind") : POD.index("\n\n# the end")]),
    ],
)
def test_a_value_is_where_it_is_written(path: tuple[str | int, ...], written: str) -> None:
    assert cut(of(POD).get(*path)) == written


def test_a_key_is_a_place_too() -> None:
    value = of("'a b': 1\n&x c: 2\n<<: {d: 3}")
    assert cut(value.key("a b")) == "'a b'"
    assert cut(value.key("c")) == "c"
    assert value.key("d") is None
    assert value.key("e") is None
    assert of("[1]").key("a") is None


def test_keys_are_strings_as_in_json() -> None:
    assert of("{8: a, 0x10: b, on: c, 'off': d, 1.5: e, ~: f}").data == {
        "8": "a",
        "16": "b",
        "true": "c",
        "off": "d",
        "1.5": "e",
        "~": "f",
    }


def test_an_alias_leads_to_what_it_means() -> None:
    value = of("a: &a\n  x: 1\nb: *a\nc: [*a, &s t, *s]\nd:\n  e: *s\n")
    assert cut(value.get("b")) == "x: 1"
    assert value.get("c", 0).data is value.get("a").data  # type: ignore[union-attr]
    assert value.get("c", 2).text == "t"  # type: ignore[union-attr]
    assert cut(value.get("d")) == "e: *s"
    assert cut(value).endswith("e: *s")


def test_an_anchor_may_be_given_twice() -> None:
    assert of("[&a 1, *a, &a 2, *a]").data == [1, 1, 2, 2]


def test_a_merge_gives_what_is_not_there() -> None:
    value = of("a: &a {x: 1, v: 2}\nb: &b {<<: *a, x: 3, z: 4}\nc: {<<: [*b, {x: 5, w: 6}], z: 7}\n")
    assert value.data["b"] == {"x": 3, "z": 4, "v": 2}
    assert value.data["c"] == {"z": 7, "x": 3, "v": 2, "w": 6}
    assert [name for name, _ in value.get("c").items()] == ["z", "x", "v", "w"]  # type: ignore[union-attr]
    assert cut(value.get("c", "v")) == "2"
    assert of("'<<': {x: 1}").data == {"<<": {"x": 1}}


def test_of_a_key_that_stands_twice_the_last_counts_and_all_are_told() -> None:
    value = of("a: 1\nb: 2\na: 3\n'a': 4\n<<: {}\n<<: {}\n")
    assert value.get("a").data == 4  # type: ignore[union-attr]
    found = [(name, first.span.start, later.span.start) for name, first, later in value.duplicates()]
    assert found == [("a", 0, 10), ("a", 0, 15)]
    assert list(of("[a]").duplicates()) == []


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", []),
        ("# nothing\n", []),
        ("---\n---\n...\n", []),
        ("--- ~\n--- a\n...\n# c\n---\nb: 1", ["a", {"b": 1}]),
        ("%YAML 1.2\n---\na\n...\n%YAML 1.1\n--- b\n", ["a", "b"]),
        ('\ufeff{"a": [1, null]}', [{"a": [1, None]}]),
        ("a: 1\r\nb:\r\n- c\r\n", [{"a": 1, "b": ["c"]}]),
    ],
)
def test_documents_that_hold_something(text: str, data: list[Any]) -> None:
    assert [one.data for one in load(Source("t", text))] == data


def test_places_behind_a_byte_order_mark_and_wide_characters() -> None:
    source = Source("t", "\ufeffé: 😀\r\nk: v")
    (document,) = load(source)
    assert cut(document.get("é")) == "😀"
    value = document.get("k")
    assert value is not None
    assert source.position(value.span.start) == (2, 4)


def nested(depth: int) -> str:
    return "".join(f"a{number}: &a{number} [{f'*a{number - 1}' if number else 1}]\n" for number in range(depth))


def multiplied(width: int, levels: int) -> str:
    lines = (
        f"a{number}: &a{number} [{', '.join([f'*a{number - 1}' if number else 'x'] * width)}]\n"
        for number in range(levels)
    )
    return "".join(lines)


MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{one}: &a{one} {{<<: [{', '.join([f'*a{one - 1}'] * 9)}]}}\n" for one in range(1, 30)
)

REFUSED = (
    ("a: b: c", (1, 5), "mapping values are not allowed"),
    ("a:\n\tb: c", (2, 1), "cannot start any token"),
    ("a: [b", (1, 6), "did not find expected"),
    ("- a\nb", (2, 2), "could not find expected"),
    ("a: *b", (1, 4), "no anchor before it"),
    ("a: &a [1, *a]", (1, 11), "inside what it means"),
    ("x: &a\n  y: *a\n", (2, 6), "inside what it means"),
    ("{a: b}: c", (1, 1), "a key has to be a scalar"),
    ("a: &a [1]\n*a : c", (2, 1), "a key has to be a scalar"),
    ("a: b\0", (1, 5), "U+0000"),
    ("a: \ud800", (1, 4), "U+D800"),
    ("\ufeffk: \x1b", (1, 4), "U+001B"),
    ('a: "\\ud800"', (1, 7), ""),
    ('a: "\\UFFFFFFFF"', (1, 7), ""),
    ("%YAML 3.0\n--- a", (1, 1), "incompatible"),
    ("[" * 10_000, None, ""),
    ("- " * 10_000, None, ""),
    ("? " * 10_000, None, ""),
    ("{a: " * (DEEPEST + 1) + "}" * (DEEPEST + 1), (1, 4 * DEEPEST + 1), "deeper than"),
    (nested(5000), (DEEPEST + 1, None), "deeper than"),
    (multiplied(10, 9), (None, None), "more than 400000 values"),
    (MERGED, (None, None), "more than 400000 values"),
)


@pytest.mark.parametrize(("text", "place", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_yaml_is_refused_with_its_place(text: str, place: tuple[Any, Any] | None, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        load(Source("t", text))
    assert caught.value.code == "bad-yaml"
    assert said in caught.value.message
    line, column = place or (None, None)
    assert caught.value.message.startswith(f"t, line {line or ''}")
    assert f"column {column or ''}" in caught.value.message


def test_a_template_is_told_from_bad_yaml() -> None:
    for text in ("image: {{ .Values.image }}\n", "{{- if .Values.x }}\na: b\n{{- end }}\n"):
        with pytest.raises(BadInputError) as caught:
            load(Source("t", text))
        assert "helm template" in caught.value.hint


def test_what_aliases_share_is_shared() -> None:
    data = of(multiplied(5, 7)).data
    assert data["a6"][0] is data["a6"][1] is data["a5"]


def test_a_huge_scalar_is_a_scalar() -> None:
    began = time.monotonic()
    value = of("a: |\n" + "  line é\n" * 200_000).get("a")
    assert value is not None
    assert value.part(0, 4) == value.part(0, 4)
    assert len(value.text) == 7 * 200_000
    assert time.monotonic() - began < SLACK + 20


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40) | st.text(alphabet="ab:-?&*!|>'\"%@`{}[],# \n\t\r\ufeff\x85\u2028.0<", max_size=25))
@pytest.mark.slow
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        documents = load(Source("t", text))
    except BadInputError as error:
        assert error.code == "bad-yaml"
        return
    for document in documents:
        walk(document)
        assert document.data is not None


def walk(value: Value) -> None:
    # Whatever stands there, its place is in the text, and within that of the collection around it.
    span = value.span
    assert 0 <= span.start <= span.end <= len(value.source.text)
    value.source.position(span.start)
    for name, child in value.items():
        key = value.key(name)
        assert key is None or span.start <= key.span.start <= key.span.end <= span.end
        walk(child)
    for child in value.elements():
        walk(child)
    if not value.is_mapping and not value.is_sequence:
        part = value.part(0, len(value.text))
        assert span.start <= part.start <= part.end


def test_without_libyaml_it_is_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = of(POD)
    monkeypatch.setattr(nodes, "_LOADER", yaml.SafeLoader)
    slow = of(POD)
    assert slow.data == fast.data
    for path in (("spec", "last"), ("spec", "containers", 0, "env"), ("kind",)):
        assert slow.get(*path).span == fast.get(*path).span  # type: ignore[union-attr]
    # The Python parser alone takes half of a surrogate pair.
    for text in (text for text, _, _ in REFUSED if "\\u" not in text):
        with pytest.raises(BadInputError):
            load(Source("t", text))
