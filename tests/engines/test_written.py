"""Text that is cut and joined keeps the place of each character; plain text stays plain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from glowplug.engines import shell
from glowplug.engines.command import resolve_references, see_through
from glowplug.engines.written import Written, joined, spot_of, written

ORIGIN = "origin"


def read_back(text: str, source: str) -> str:
    """The text as its marks say, out of the source."""
    assert isinstance(text, Written)
    done = ""
    for mark in text.marks:
        assert mark.range is not None
        assert mark.range.origin is ORIGIN
        done += source[mark.range.start : mark.range.end]
    return done


@given(st.text(max_size=20), st.integers(-25, 25), st.integers(-25, 25), st.text(max_size=3))
def test_it_is_a_string_in_every_respect(text: str, start: int, end: int, other: str) -> None:
    one = written(text, ORIGIN)
    assert one == text
    assert one[start:end] == text[start:end]
    assert one + other == text + other
    assert other + one == other + text
    assert list(one) == list(text)
    assert one.strip() == text.strip()
    assert one.lstrip(other or None) == text.lstrip(other or None)
    assert one.rstrip(other or None) == text.rstrip(other or None)
    assert one.split() == text.split()
    if other:
        assert one.partition(other) == text.partition(other)
        assert one.split(other) == text.split(other)


@given(st.text(max_size=20), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=5))
def test_pieces_know_where_they_came_from(text: str, cuts: list[tuple[int, int]]) -> None:
    one = written(text, ORIGIN)
    whole = joined(one[start:end] for start, end in cuts)
    assert whole == "".join(text[start:end] for start, end in cuts)
    if whole:
        assert read_back(whole, text) == whole
    for part in one.split():
        assert read_back(part, text) == part


def test_plain_strings_stay_plain() -> None:
    assert type(joined(["a", "b"])) is str
    seen = see_through(["sh", "-c", "A=1 vllm serve \"$A\" 'x'"], {})
    assert {type(word) for word in seen.argv} == {str}
    assert {type(value) for value in seen.environ.values()} == {str}


SCRIPT = st.text(alphabet="ab '\"\\$@{}()|&;<>\n#=-~*1:", max_size=60)


@given(SCRIPT)
def test_a_script_is_read_the_same_wherever_it_is_written(script: str) -> None:
    environ = {"a": "1 2", "b": "x"}
    plain = see_through(["sh", "-c", script, "zero", "one two"], environ)
    placed = see_through(["sh", "-c", written(script, ORIGIN), "zero", "one two"], environ)
    assert (placed.argv, placed.opaque, dict(placed.environ)) == (plain.argv, plain.opaque, dict(plain.environ))


@given(SCRIPT)
def test_words_of_a_script_stand_where_the_shell_found_them(script: str) -> None:
    try:
        found = shell.words(written(script, ORIGIN))
    except shell.OpaqueError:
        return
    end = 0
    for word in found:
        if word.spot is None:
            continue
        assert word.spot.range.start >= end
        end = word.spot.range.end
        assert [one.pieces for one in shell.words(script[word.spot.range.start : end])] == [word.pieces]


def test_references_stand_where_they_are_written() -> None:
    (word,) = resolve_references([written("--a=$(A)$$b", ORIGIN)], {"A": written("xyz", "elsewhere")})
    assert word == "--a=xyz$b"
    spot = spot_of(word)
    assert spot is not None
    assert spot.range == (ORIGIN, 0, 11)
    value = word[4:7]
    assert isinstance(value, Written)
    assert [mark.range for mark in value.marks] == [("elsewhere", 0, 3)]
    assert [mark.host for mark in value.marks] == [(ORIGIN, 4, 8)]
    dollar = word[7:8]
    assert isinstance(dollar, Written)
    assert [mark.range for mark in dollar.marks] == [(ORIGIN, 8, 10)]
