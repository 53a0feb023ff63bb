"""`glowplug lint PATH…`: findings on stdout in the form asked for, fixes into the files, everything else on stderr."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from glowplug.cli import collecting, errors, rewriting, streams
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note, width
from glowplug.cli.values import checked, demand_some
from glowplug.core.errors import UsageError
from glowplug.core.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from glowplug.cli.inputs import Given, Input
    from glowplug.lint.document import Summary
    from glowplug.lint.fixing import Fixed
    from glowplug.lint.run import Options, Report
    from glowplug.manifests.source import Source

T = TypeVar("T")
_FORMS: Final = ("text", "json", "yaml", "sarif", "github")
_NO: Final = 1
_UNREADABLE: Final = 2
_BROKEN: Final = 3
_MOST_NOTES: Final = 20


@dataclass(frozen=True)
class Asked:
    """What the options say."""

    options: Options
    fix: bool
    unsafe: bool
    diff: bool
    form: str
    filters: bool
    """Whether stdout is for the mended text of stdin."""


def _each(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip() or not value.strip())


def _size(text: str) -> int:
    from glowplug.models.address import parse_size

    return parse_size(text)


@click.command(
    "lint",
    epilog=epilog(
        'Areas are compile, streaming and kubernetes. An annotation `ignore.glowplug.dev/<rule>: "reason"` on an object or on '
        "its pod template hides what is meant to be so. Exit status: 0 nothing but information; 1 errors or warnings (with "
        "--diff: changes too); 2 wrong usage, or a file that cannot be read; 3 a fault of glowplug's own. With --fix, what is left "
        "counts.",
        "glowplug lint deploy.yaml",
        "glowplug lint --fix manifests/",
        "glowplug lint --diff --unsafe-fixes deploy.yaml | patch -p0",
        "helm template ./chart | glowplug lint -",
        "kubectl get deploy,nodepool -o yaml | glowplug lint --select streaming -o json -",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--fix", is_flag=True, help="Mend what has a safe fix, in the files (- to stdout).")
@click.option("--unsafe-fixes", is_flag=True, help="Fixes that may change what runs count too.")
@click.option("--diff", is_flag=True, help="Print what --fix would change, and write nothing.")
@click.option(
    "--select", multiple=True, metavar="RULE", callback=_each, help="Only these rules or areas; repeatable, or a,b."
)
@click.option(
    "--ignore", multiple=True, metavar="RULE", callback=_each, help="Not these rules or areas; repeatable, or a,b."
)
@click.option(
    "--compute",
    type=click.Choice(["karpenter", "auto-mode", "nodegroup"]),
    help="What makes the nodes, where the manifests do not say it.",
)
@click.option("--size", metavar="SIZE", callback=checked(_size), help="Size of the weights: 67GB.")
@click.option("--exit-zero", is_flag=True, help="Exit status 0 where it would be 1.")
@click.option(
    "-o", "--output", "output", type=click.Choice(_FORMS), default="text", show_default=True, help="Form of the data."
)
@click.pass_context
def command(context: click.Context, /, paths: tuple[str, ...], size: str | None, exit_zero: bool, **named: Any) -> None:
    """Say what in manifests keeps inference pods from starting fast, or at all, with the reason and where it can the remedy.

    PATH is a file, a directory (its *.yaml, *.yml and *.json, all the way down), or - for stdin. Rules see all files together, so
    give the NodePool with the Deployment.
    """
    from glowplug.cli import inputs
    from glowplug.lint import registry, run

    demand_some(context)
    rules = registry.chosen(named.pop("select"), named.pop("ignore"))
    options = run.Options(rules, named.pop("compute") or "", _size(size) if size else None)
    asked = Asked(
        options=options,
        fix=named["fix"] or named["diff"],
        unsafe=named["unsafe_fixes"],
        diff=named["diff"],
        form=named["output"],
        filters=named["fix"] and not named["diff"] and "-" in paths,
    )
    _demand_sense(asked)
    given = inputs.read(paths, streams.standard_input().read() if "-" in paths else None)
    with collecting.rarely():
        status = (_mended if asked.fix else _judged)(asked, given)
    if status and not (exit_zero and status == _NO):
        context.exit(status)


def _demand_sense(asked: Asked) -> None:
    if asked.diff and asked.form != "text":
        raise UsageError(f"--diff prints a diff, which has no form {asked.form}", hint="leave out -o, or --diff")
    if asked.filters and asked.form != "text":
        raise UsageError(
            f"--fix with - prints the mended text on stdout, which has no form {asked.form}",
            hint="leave out -o: what is left is told on stderr",
        )


def _judged(asked: Asked, given: Given) -> int:
    from glowplug.lint import document, run

    (report, used), status = _on_good(given, lambda sources: run.lint(sources, asked.options))
    summary = document.summarize(report, len(used), unsafe=asked.unsafe)
    _tell(report)
    _show(asked, report, summary, unreadable=bool(status))
    return _status(status, report)


def _mended(asked: Asked, given: Given) -> int:
    from glowplug.lint import document, fixing

    def work(sources: Sequence[Source]) -> Fixed:
        return fixing.fix(sources, asked.options, unsafe=asked.unsafe)

    (done, used), status = _on_good(given, work)
    changed = [
        (before, after) for before, after in zip(used, done.sources, strict=True) if before.source.text != after.text
    ]
    _tell(done.report)
    for each in done.refused:
        one = each.finding
        note(one_line(f"{one.file}:{one.line}:{one.column}: {one.rule} cannot be fixed here: {each.why}"))
    if asked.diff:
        return max(status, _diff(changed, done, sum(done.applied.values())), _status(status, done.report))
    failed = [
        after.name for before, after in changed if rewriting.write(before, after.text, "the other files are mended")
    ]
    if failed:
        status = _BROKEN
        done = fixing.without(done, [one.source for one in used if one.source.name in failed], asked.options)
    summary = document.summarize(done.report, len(used), unsafe=asked.unsafe, fixed=sum(done.applied.values()))
    for before, after in zip(used, done.sources, strict=True):
        if before.path is None:
            click.echo(after.text.encode("utf-8", "surrogatepass"), nl=False)
    _show(asked, done.report, summary, unreadable=bool(status))
    return _status(status, done.report)


def _on_good(given: Given, work: Callable[[Sequence[Source]], T]) -> tuple[tuple[T, Sequence[Input]], int]:
    """Work on all inputs, or where one of them is no YAML, on those that are; and the status of the others."""
    from glowplug.core.errors import BadInputError
    from glowplug.manifests import values

    told = list(given.errors)
    notes = list(given.notes)
    used = list(given.inputs)
    try:
        result = work([one.source for one in used])
    except BadInputError:
        used = []
        for one in given.inputs:
            try:
                values.load(one.source)
            except BadInputError as error:
                if one.listed and one.looks_like_template:
                    notes.append(f"{error.message}: left out, it looks like a chart's template")
                else:
                    told.append(error)
            else:
                used.append(one)
        result = work([one.source for one in used])
    _notes(notes)
    for each in told:
        errors.show(each.code, each.message, each.hint)
    return (result, used), _UNREADABLE if told else 0


def _status(status: int, report: Report) -> int:
    if report.failures:
        return _BROKEN
    return max(status, _NO if any(one.bad for one in report.findings) else 0)


def _tell(report: Report) -> None:
    """What is no finding: what was not looked at, annotations that do nothing, rules that failed."""
    _notes([*report.skipped, *report.notes])
    for failure in report.failures:
        error = failure.error
        if os.environ.get("GLOWPLUG_DEBUG") == "1":
            print("".join(traceback.format_exception(error)), end="", file=sys.stderr)
        about = f" ({failure.object})" if failure.object else ""
        errors.show(
            "internal",
            f"rule {failure.rule}{about}: {type(error).__name__}: {error}",
            "the other rules were asked; set GLOWPLUG_DEBUG=1 for the traceback and report it",
        )


def _notes(notes: Sequence[str]) -> None:
    for line in notes[:_MOST_NOTES]:
        note(one_line(line))
    if len(notes) > _MOST_NOTES:
        note(f"and {len(notes) - _MOST_NOTES} more like these")


def _show(asked: Asked, report: Report, summary: Summary, *, unreadable: bool) -> None:
    from glowplug.lint import document, github, registry, sarif, text

    if asked.form == "text" and not summary.files and unreadable:
        return  # "no findings" would be said of nothing
    if asked.form == "sarif":
        rules = asked.options.rules if asked.options.rules is not None else tuple(registry.RULES.values())
        Output("json").document(sarif.log(report, rules, Path.cwd()), str)
    elif asked.form == "github":
        Output().document(None, lambda: github.commands(report.findings))
        for line in text.closing(summary).splitlines():
            note(line)
    else:
        value = document.to_document(report.findings, summary, unsafe=asked.unsafe) if asked.form != "text" else None
        Output(asked.form).document(
            value,
            lambda: text.text(report, summary, unsafe=asked.unsafe, width=width(err=asked.filters)),
            styled=True,
            err=asked.filters,
        )


def _diff(changed: Sequence[tuple[Input, Source]], done: Fixed, number: int) -> int:
    from glowplug.cli import diffs

    for before, after in changed:
        diffs.show(before.source.name, before.source.text, after.text)
    left = sum(one.bad for one in done.findings)
    note(f"fixes that --fix would make: {number}; errors and warnings that would be left: {left}")
    return _NO if changed else 0
