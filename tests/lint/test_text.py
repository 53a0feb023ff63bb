"""What a person sees of a finding: the line, carets below what is meant, no secret, no control character."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from glowplug.lint import document, text
from glowplug.lint.findings import Finding
from glowplug.lint.fixing import fix
from glowplug.lint.rule import Fix, Problem, Severity
from glowplug.lint.run import Options, Report, lint
from glowplug.lint.view import Workload
from glowplug.manifests.source import Place, Source, Span
from tests.lint import samples
from tests.lint.samples import DEPLOYMENT

TOKENS = [
    "hf_abcdefGHIJKL0123456789",
    "sk-proj-abcdefGHIJKL0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_abcdefGHIJKL0123456789",
    "github_pat_abcdefGHIJKL0123456789",
    "nvapi-abcdefGHIJKL0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefGHIJKL",
]
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def _plain(report: Report, *, unsafe: bool = False, fixed: int = 0) -> str:
    summary = document.summarize(report, 1, unsafe=unsafe, fixed=fixed)
    return STYLE.sub("", text.text(report, summary, unsafe=unsafe))


def _of(source: str, what: str, message: str = "that") -> str:
    """The text of a finding that points at the first `what` of a source."""
    start = source.index(what)
    place = Place(Source("a.yaml", source), Span(start, start + len(what)))
    return _plain(Report((Finding("rule", Severity.ERROR, place, "", message),)))


def test_the_whole() -> None:
    rules = (samples.EAGER, samples.OLD, samples.SECRET, samples.IMAGE)
    report = lint([Source("deploy.yaml", DEPLOYMENT)], Options(rules))
    assert _plain(report) == snapshot("""\
deploy.yaml:14:18: info image [*] v0.21.0 is old
   | Deployment default/vllm
14 |           image: vllm/vllm-openai:v0.21.0
   |                  ^^^^^^^^^^^^^^^^^^^^^^^^

deploy.yaml:18:15: warning eager `--enforce-eager` turns compiling off
   | Deployment default/vllm
18 |             - --enforce-eager
   |               ^^^^^^^^^^^^^^^
   = hint: remove it

deploy.yaml:20:21: error old [*] OLD_ONE is read by nobody
   | Deployment default/vllm
20 |             - name: OLD_ONE
   |                     ^^^^^^^

deploy.yaml:22:22: error old [*] OLD_TWO is read by nobody
   | Deployment default/vllm
22 |             - {name: OLD_TWO, value: "2"}
   |                      ^^^^^^^

deploy.yaml:24:22: warning secret a key in clear
   | Deployment default/vllm
24 |               value: **************
   |                      ^^^^^^^^^^^^^^

found 2 errors, 2 warnings, 1 info in 1 file
[*] 3 fixable with --fix, 1 more with --unsafe-fixes\
""")


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("a: bcd # e", "bcd"),
        ("bcd", "bcd"),
        ("\ufeffbcd: 1", "bcd"),
        ("x: 1\r\na: bcd\r\nz: 2", "bcd"),
        ("x: 1\ra: bcd\rz: 2", "bcd"),
        ("é: [ü, bcd]", "bcd"),
        ("日本: [語, bcd]", "bcd"),
        ("a: 日本語!", "日本語"),
        ("e\u0301: bcd", "bcd"),
        ("\ta\t: bcd", "bcd"),
        ("a: \x07\x1b[2J bcd", "bcd"),
        ("a: \u202ebcd", "bcd"),
        ("a: " + "x" * 300 + " bcd " + "y" * 300, "bcd"),
        ("a: " + "日" * 300 + " bcd " + "y" * 300, "bcd"),
    ],
)
def test_carets_stand_below_what_is_meant(source: str, what: str) -> None:
    lines = _of(source, what).splitlines()
    [under] = [number for number, line in enumerate(lines) if line.strip(" |").startswith("^")]
    above, carets = lines[under - 1], lines[under]
    assert "\x1b" not in above
    wide = [character for character in above for _ in range(_columns(character))]
    marked = "".join(character for place, character in enumerate(wide) if carets[place : place + 1] == "^")
    assert marked == "".join(character * _columns(character) for character in what)
    assert len(above) < 200


LONG = "the pod asks for nvidia.com/gpu and does not tolerate the taint nvidia.com/gpu:NoSchedule of 日本語 nodes"


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("before", [0, 5, 300])
@pytest.mark.parametrize("filler", ["x", "日", "\t", "\x07"])
def test_nothing_is_wider_than_the_terminal(width: int, before: int, filler: str) -> None:
    source = f"a: {filler * before} bcd {'y' * 300}"
    start = source.index("bcd")
    place = Place(Source("a.yaml", source), Span(start, start + 3))
    report = Report((Finding("rule", Severity.ERROR, place, "", LONG, LONG),))
    summary = document.summarize(report, 1, unsafe=False)
    plain = STYLE.sub("", text.text(report, summary, width=width))
    lines = plain.splitlines()
    assert all(sum(map(_columns, line)) <= width for line in lines[:-1]), plain
    assert " ".join(plain.split()).count(LONG) == 2, "no word is lost or cut"
    [under] = [number for number, line in enumerate(lines) if line.strip(" |").startswith("^")]
    at = lines[under].index("^")
    wide = "".join(character for character in lines[under - 1] for _ in range(_columns(character)))
    assert wide[at : at + 3] == "bcd"


def test_where_no_terminal_reads_a_message_is_one_line() -> None:
    assert f"error rule {LONG * 3}\n" in _of("a: bcd", "bcd", LONG * 3)


def _columns(character: str) -> int:
    import unicodedata

    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def test_of_several_lines_the_first_is_shown() -> None:
    shown = _of("a:\n  b: 1\n  c: 2\n", "b: 1\n  c: 2")
    assert "2 |   b: 1\n  |   ^^^^ … to line 3" in shown


def test_nothing_still_has_a_caret() -> None:
    place = Place(Source("a.yaml", "a:\nb: 1\n"), Span(2, 2))
    shown = _plain(Report((Finding("rule", Severity.INFO, place, "", "empty"),)))
    assert "1 | a:\n  |   ^" in shown


@pytest.mark.parametrize(
    "secret",
    [
        "            - name: VLLM_API_KEY\n              value: sk-very-secret\n",
        "            - {name: VLLM_API_KEY, value: sk-very-secret}\n",
        '            - {name: VLLM_API_KEY, value: "sk-very-secret"}\n',
        "            - name: VLLM_API_KEY\n              value: >-\n                sk-very-secret\n",
        "            - {name: VLLM_API_KEY, value: 'https://user:sk-very-secret@host/'}\n",
    ],
)
def test_no_secret_is_shown(secret: str) -> None:
    """Whatever points at the line of a credential."""

    def everything(workload: Workload) -> Iterator[Problem]:
        for item in workload.container.value.get("env").elements():  # type: ignore[union-attr]
            yield Problem(item, "an entry")
            for key in ("name", "value"):
                yield Problem(item.get(key) or item, f"its {key}")

    head, _, _ = DEPLOYMENT.partition("            - name: VLLM_API_KEY")
    report = lint([Source("a.yaml", head + secret)], Options((samples.each(everything),)))
    assert len(report.findings) >= 8
    shown = _plain(report)
    assert "secret" not in shown
    assert "VLLM_API_KEY" in shown


@pytest.mark.parametrize(
    "command",
    [
        "['vllm', 'serve', 's3://b/m', '--api-key=sk-very-secret']",
        "['vllm', 'serve', 's3://b/m', '--api-key', 'sk-very-secret']",
        '[sh, -c, "vllm serve s3://b/m --api-key sk-very-secret"]',
        "['vllm', 'serve', 's3://b/m', '--api-key', 'first', 'sk-very-secret']",
        "['vllm', 'serve', 's3://b/m', '--api-key', 'first', 'sk-very-secret', '--api-key', 'x']",
        "['vllm', 'serve', 's3://b/m', '--api-keys', 'first', 'sk-very-secret', '--port', '1']",
        "[sh, -c, 'if a; then vllm serve; fi', '--api-key', 'first', 'sk-very-secret']",
        "['vllm', 'serve', 's3://b/m', '--hf-token', sk-very-secret, '--served-model-name', 'a']",
        '[sh, -c, "API_KEY=sk-very-secret vllm serve s3://b/m"]',
        '[sh, -c, "curl https://me:sk-very-secret@host/ | sh; vllm serve s3://b/m"]',
    ],
)
def test_no_secret_of_the_command_line_is_shown(command: str) -> None:
    def all_of_it(workload: Workload) -> Iterator[Problem]:
        yield Problem(workload.container.value.get("command") or workload.container.value, "all of it")

    shown = DEPLOYMENT.replace("command: [vllm, serve]", f"command: {command}")
    report = lint([Source("a.yaml", shown)], Options((samples.each(all_of_it),)))
    assert report.findings
    assert "very-secret" not in _plain(report)


@pytest.mark.parametrize("token", TOKENS)
def test_no_token_is_shown_whatever_its_variable_is_called(token: str) -> None:
    def named(workload: Workload) -> Iterator[Problem]:
        variable = workload.container.environment.variables["OLD_TWO"]
        fix = Fix(f"write {token}", ())
        yield Problem(variable.at, f"`{token}` is no number", f"not {token}, but 8", fix)

    source = DEPLOYMENT.replace('{name: OLD_TWO, value: "2"}', f"{{name: OLD_TWO, value: {token}}}")
    report = lint([Source("a.yaml", source)], Options((samples.each(named),)))
    shown = _plain(report)
    assert token not in shown
    assert f"value: {'*' * len(token)}}}" in shown
    assert "^" * len(token) in shown
    (finding,) = report.findings
    told = document.to_document([finding], document.summarize(report, 1))
    assert token[8:] not in str(told)
    assert "*** is no number" in finding.message.replace("`", "")


def test_a_line_that_holds_a_whole_file_is_shown_around_its_place() -> None:
    source = "{" + "a: 1, " * 100_000 + "bcd: 2, " + "a: 1, " * 100_000 + "}"
    shown = _of(source, "bcd")
    above, carets = shown.splitlines()[1:3]
    assert above[carets.index("^") :].startswith("bcd")
    assert above.count("…") == 2
    assert len(above) < 200


def test_the_closing_line() -> None:
    report = lint([Source("a.yaml", DEPLOYMENT)], Options((samples.EAGER, samples.OLD)))
    assert _plain(report).splitlines()[-2:] == [
        "found 2 errors, 1 warning in 1 file",
        "[*] 2 fixable with --fix, 1 more with --unsafe-fixes",
    ]
    assert _plain(report, unsafe=True).splitlines()[-1] == "[*] 3 fixable with --fix"
    done = fix([Source("a.yaml", DEPLOYMENT)], Options((samples.EAGER, samples.OLD)))
    assert _plain(done.report, fixed=2).splitlines()[-2:] == [
        "2 fixed, left 1 warning in 1 file",
        "[*] 1 more with --unsafe-fixes",
    ]
    nothing = lint([Source("a.yaml", DEPLOYMENT)], Options(()))
    assert _plain(nothing) == "no findings in 1 file"
    assert "no findings in 1 file; there is no pod with an engine" in _plain(
        lint([Source("a.yaml", "a: 1\n")], Options(()))
    )


@given(st.text(min_size=1), st.data())
def test_any_place_of_any_text_can_be_shown(source: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, len(source)))
    place = Place(Source("a.yaml", source), Span(start, end))
    shown = _plain(Report((Finding("rule", Severity.ERROR, place, "", source),)))
    assert "^" in shown or "sha256:" in shown
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
