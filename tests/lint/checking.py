"""How tests of rules ask: a text in, findings of one rule, the text they point at, the text after `--fix`."""

from __future__ import annotations

from collections.abc import Sequence

from glowplug.lint import fixing, registry
from glowplug.lint.findings import Finding
from glowplug.lint.run import Options, Report, lint
from glowplug.manifests import values
from glowplug.manifests.source import Source


def sources(*texts: str) -> list[Source]:
    """A source a text: `1.yaml`, `2.yaml` …"""
    return [Source(f"{number}.yaml", text) for number, text in enumerate(texts, 1)]


def options(*rules: str, compute: str = "", size: int | None = None) -> Options:
    """These rules alone."""
    return Options(tuple(registry.rule(name) for name in rules), compute, size)


def found(rule: str, *texts: str, compute: str = "", size: int | None = None) -> list[Finding]:
    """The findings of one rule over these texts. A rule that raises fails the test."""
    return list(_sound(lint(sources(*texts), options(rule, compute=compute, size=size))).findings)


def everything(*texts: str, compute: str = "", size: int | None = None) -> list[Finding]:
    """The findings of all rules."""
    return list(_sound(lint(sources(*texts), Options(None, compute, size))).findings)


def at(finding: Finding) -> str:
    """The source text that the finding points at."""
    return finding.place.text


def fixed(rule: str, text: str, *, unsafe: bool = False, compute: str = "", size: int | None = None) -> str:
    """The text after `--fix` (with `unsafe`: `--unsafe-fixes`) for that rule alone.

    Fixing it once more changes nothing, it is YAML still, and no finding is left that had such a fix.
    """
    return fixed_all(rule, (text,), unsafe=unsafe, compute=compute, size=size)[0]


def fixed_all(
    rule: str, texts: Sequence[str], *, unsafe: bool = False, compute: str = "", size: int | None = None
) -> list[str]:
    """As `fixed`, for a rule that looks at several files at once."""
    asked = options(rule, compute=compute, size=size)
    done = fixing.fix(sources(*texts), asked, unsafe=unsafe)
    _sound(done.report)
    for source in done.sources:
        values.load(source)
    left = [one for one in done.findings if one.fixable(unsafe=unsafe)]
    assert left == [], "findings that `--fix` should have mended"
    again = fixing.fix(done.sources, asked, unsafe=unsafe)
    assert [source.text for source in again.sources] == [source.text for source in done.sources], "fixed twice"
    assert again.applied == {}
    return [source.text for source in done.sources]


def _sound(report: Report) -> Report:
    for failure in report.failures:
        raise AssertionError(f"rule {failure.rule} failed") from failure.error
    return report
