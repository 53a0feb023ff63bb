"""Variables that multiply each other end in an opaque command, soon, and not in gigabytes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from glowplug.engines.command import resolve_references, see_through
from glowplug.engines.room import LARGEST
from glowplug.engines.shell import OpaqueError
from glowplug.engines.written import Written, written
from glowplug.lint import inject
from glowplug.lint.run import Options, lint
from glowplug.manifests.source import Source
from glowplug.manifests.values import load
from glowplug.render.options import Options as Rendering

WHY = "references that bring too much text"
SCRIPTS = {
    "a variable": "A=xxxxxxxxxx; " + "A=" + "$A" * 10 + "; ",
    "one that is exported": "export A=xxxxxxxxxx; " + 'export "A=' + "$A" * 10 + '"; ',
    "words": "set -- a b c d e f g h; " + "set -- " + '"$@" ' * 10 + "; ",
    "a first word": "A='x '; A=$A$A; " + "true $A$A$A$A; A=$A$A$A$A; ",
    "a default": "A=xxxxxxxxxx; " + "A=" + "${A:-b}" * 10 + "; ",
}
KINDS: list[Callable[[str], str]] = [str, lambda script: written(script, "here")]


def growing(kind: str) -> str:
    """The script: a beginning, and the step twelve times."""
    first, step = SCRIPTS[kind].split("; ", 1)
    return f"{first}; {step * 12}vllm serve m $A"


@pytest.mark.parametrize("made", KINDS, ids=["plain", "with places"])
@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_script_whose_variables_multiply_is_opaque(kind: str, made: Callable[[str], str]) -> None:
    script = made(growing(kind))
    assert see_through(("sh", "-c", script), {}, pass_others=True).opaque == WHY
    began = time.process_time()
    see_through(("sh", "-c", script), {}, pass_others=True)
    assert time.process_time() - began < 20, "without a bound it never ends"


def test_what_people_write_has_room() -> None:
    long = "x" * 100_000
    seen = see_through(("sh", "-c", 'A="$LONG$LONG"; exec vllm serve "$A"'), {"LONG": long})
    assert (seen.opaque, seen.argv) == ("", ("vllm", "serve", long * 2))


def test_text_that_no_reference_brings_may_have_any_length() -> None:
    long = "x" * (2 * LARGEST)
    assert see_through(("sh", "-c", f"exec vllm serve {long}"), {}).argv[2] == long


def test_references_of_pods_have_room_together() -> None:
    environ = {"A": "x" * (LARGEST // 2)}
    assert len(resolve_references(("$(A)",), environ)[0]) == LARGEST // 2
    for words in (("$(A)$(A)$(A)",), ("$(A)", "$(A)", "$(A)")):
        with pytest.raises(OpaqueError, match=WHY):
            resolve_references(words, environ)


@pytest.mark.slow
@pytest.mark.parametrize("quote", ["'a'", '"$B"', "a$B"])
def test_a_word_of_many_pieces_takes_time_with_their_number(quote: str) -> None:
    def take(number: int) -> float:
        script = written("B=b; vllm serve " + quote * number, "here")

        def once() -> float:
            began = time.process_time()
            see_through(("sh", "-c", script), {})
            return time.process_time() - began

        return min(once() for _ in range(3))

    take(100)
    assert take(32_000) / take(2_000) < 90, "with the square of the number it would be 256"


def test_parts_of_a_text_of_many_pieces_keep_their_places() -> None:
    text = "".join("abcdef"[place % 6] for place in range(60))
    whole = written("", "")
    for place, one in enumerate(text):
        whole = whole + written(one * 2, place)  # type: ignore[assignment]
    assert isinstance(whole, Written)
    for start in range(0, len(whole), 7):
        for end in range(start, len(whole), 11):
            marks = whole.between(start, end)
            assert sum(mark.length for mark in marks) == end - start
            origins = [mark.range.origin for mark in marks if mark.range for _ in range(mark.length)]
            assert origins == [place // 2 for place in range(start, end)]


ENVIRONMENT = "".join(
    f'            - {{name: A{place}, value: "{f"$(A{place - 1})" * 10 if place else "x" * 10}"}}\n'
    for place in range(12)
)
POD = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: v, namespace: n}\nspec:\n  selector: {matchLabels: {a: b}}\n"
    "  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n        - name: v\n"
    "          image: vllm/vllm-openai:v0.18.0\n          command: COMMAND\n          env:\n" + ENVIRONMENT
)


@pytest.mark.parametrize(
    ("command", "opaque"),
    [
        ('[vllm, serve, m, "$(A11)"]', ""),
        (f'[vllm, serve, m, "{"$(A4)" * 1000}"]', ""),
        ("[sh, -c, 'vllm serve m $A11']", ""),
        (f"[sh, -c, '{growing('a variable')}']", WHY),
        (f"[sh, -c, 'vllm serve m {'$A4' * 1000}']", WHY),
    ],
)
def test_manifests_whose_references_multiply(command: str, opaque: str) -> None:
    source = Source("a.yaml", POD.replace("COMMAND", command))
    load(source)
    report = lint([source], Options(None))
    assert report.manifests is not None
    assert not report.failures
    (workload,) = report.manifests.workloads
    assert workload.engine.opaque == opaque
    assert workload.container.environment.value("A3") == "x" * 10_000
    assert workload.container.environment.value("A11") is None
    assert inject.inject([source], Rendering(name="v", store="s3://b/c")).objects
