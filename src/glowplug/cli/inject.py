"""`glowplug inject PATH…`: pods that are there already get what `render` would give them, and nothing else of the files changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from glowplug.cli import collecting, errors, rewriting, streams
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note, output_option
from glowplug.cli.values import demand_some
from glowplug.cli.warming import ami_option, compute_option, domain_option, image_option, store_option
from glowplug.core.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.cli.inputs import Given, Input
    from glowplug.lint.inject import Injected, Result
    from glowplug.render.options import Options

_NO: Final = 1
_UNREADABLE: Final = 2
_ENVIRONMENT: Final = 3
_UNNAMED: Final = "NAMESPACE"
"""Stands for the namespace of objects that name none, where `--namespace` does not say it either."""
_NAME: Final = "pods"
"""A workload keeps its own; this one is never shown."""


@click.command(
    "inject",
    epilog=epilog(
        "A second call changes nothing; another mode, store or image changes what differs, and what the other mode had brought "
        "goes. A file in which one object is refused stays as it is (--object names those that are meant). With - the text goes to "
        "stdout, what was done to stderr. Exit status: 0 changed, or nothing to change; 1 something was refused, or no pod with an "
        "engine is there; 2 wrong usage, or a file that cannot be read. What does not work as it is written is said last on "
        "stderr, as by render.",
        "glowplug inject --diff --store s3://bucket/cache deploy.yaml",
        "glowplug inject --mode shared --compute auto-mode manifests/",
        "helm template ./chart | glowplug inject --mode shared - > warm.yaml && kubectl apply -f warm.yaml",
        "glowplug inject --object Deployment/vllm --store s3://bucket/cache everything.yaml",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--diff", is_flag=True, help="Print what would change, and write nothing.")
@click.option(
    "--mode",
    type=click.Choice(["direct", "node", "shared"]),
    default="direct",
    show_default=True,
    help="How artifacts reach the pods.",
)
@store_option
@domain_option
@image_option
@compute_option
@ami_option
@click.option("-n", "--namespace", help="Namespace of objects that name none.")
@click.option(
    "--object",
    multiple=True,
    metavar="KIND/NAME",
    help="Only this object (KIND/NAMESPACE/NAME); repeatable.  [default: all with an engine]",
)
@output_option
@click.pass_context
def command(context: click.Context, /, paths: tuple[str, ...], diff: bool, output: Output, **named: Any) -> None:
    """Give the engines of existing manifests a warm start: the pod change of `render`, as an edit in place.

    PATH is a file, a directory (its *.yaml, *.yml and *.json, all the way down), or - for stdin. Comments, order and everything
    else of the files stay.
    """
    from glowplug.cli import inputs

    demand_some(context)
    namespace = named.pop("namespace") or ""
    chosen = named.pop("object")
    options = _options(namespace, named)
    given = inputs.read(paths, streams.standard_input().read() if "-" in paths else None)
    with collecting.rarely():
        status = _run(given, options, chosen, namespace, output, diff=diff)
    if status:
        context.exit(status)


def _options(namespace: str, named: dict[str, Any]) -> Options:
    from dataclasses import replace

    from glowplug.render.options import Compute, Mode, Options

    options = Options(
        name=_NAME,
        mode=Mode(named.pop("mode")),
        compute=Compute(named.pop("compute")),
        glowplug_image=named.pop("glowplug_image") or "",
        **named,
    )
    return replace(options, namespace=namespace) if namespace else options


def _run(given: Given, options: Options, chosen: Sequence[str], namespace: str, output: Output, *, diff: bool) -> int:
    from glowplug.core.errors import NotFoundError
    from glowplug.lint import inject

    used, templates, status = _readable(given)
    try:
        result = inject.inject([one.source for one in used], options, chosen, namespace)
    except NotFoundError as error:
        if not templates and not status:
            _passed_on(given, output, diff=diff)
            raise
        errors.show(error.code, error.message, error.hint)
        result = inject.Result(tuple(one.source for one in used), ())
    for line in result.skipped:
        note(one_line(line))
    if not diff:
        texts = zip(used, result.sources, strict=True)
        failed = {
            one.source.name: rewriting.write(one, after.text, "the other files are changed") for one, after in texts
        }
        result = inject.unwritten(result, failed)
        status = max(status, _ENVIRONMENT if any(failed.values()) else 0)
    rows = [*templates, *result.objects]
    _show(given, used, result, rows, output, diff=diff)
    _tell(options, rows, namespace)
    return max(status, _NO if any(row.outcome == "refused" for row in rows) or not rows else 0)


def _readable(given: Given) -> tuple[list[Input], list[Injected], int]:
    """Inputs that are YAML; those that Helm has still to print, refused; and the status of what is neither, which is told."""
    from glowplug.core.errors import BadInputError
    from glowplug.lint import inject
    from glowplug.manifests import values

    for line in given.notes:
        note(one_line(line))
    told = list(given.errors)
    used: list[Input] = []
    templates: list[Injected] = []
    for one in given.inputs:
        try:
            values.load(one.source)
        except BadInputError as error:
            if one.listed and one.looks_like_template:
                note(one_line(f"{error.message}: left out, it looks like a chart's template"))
            elif one.looks_like_template:
                templates.append(inject.refused_template(one.source))
            else:
                told.append(error)
        else:
            used.append(one)
    for each in told:
        errors.show(each.code, each.message, each.hint)
    return used, templates, _UNREADABLE if told else 0


def _show(
    given: Given, used: Sequence[Input], result: Result, rows: Sequence[Injected], output: Output, *, diff: bool
) -> None:
    """The document; as text the diff or what goes on to the next program, and lines for people wherever there is room for them."""
    from glowplug.cli import diffs
    from glowplug.lint import inject

    changed = [(one, after) for one, after in zip(used, result.sources, strict=True) if one.source.text != after.text]
    after_of = {id(one): after.text for one, after in zip(used, result.sources, strict=True)}
    piped = next((after_of.get(id(one), one.source.text) for one in given.inputs if one.path is None), None)
    if output.form != "text":
        lines = (line for one, after in changed for line in diffs.unified(one.source.name, one.source.text, after.text))
        document = inject.Document(tuple(rows), "".join(lines) if diff else None, None if diff else piped)
        output.document(inject.to_document(document), str)
        return
    if diff:
        for one, after in changed:
            diffs.show(one.source.name, one.source.text, after.text)
    elif piped is not None:
        _raw(piped)
    output.document(None, lambda: "\n".join(map(one_line, _lines(rows, diff=diff))), err=diff or piped is not None)


def _passed_on(given: Given, output: Output, *, diff: bool) -> None:
    """A text in which there is nothing to do goes on as it came."""
    piped = next((one.source.text for one in given.inputs if one.path is None), None)
    if piped is not None and output.form == "text" and not diff:
        _raw(piped)


def _raw(text: str) -> None:
    click.echo(text.encode("utf-8", "surrogatepass"), nl=False)


def _lines(rows: Sequence[Injected], *, diff: bool) -> Iterator[str]:
    for row in rows:
        where = f"{row.file}: {row.object}" if row.object else row.file
        outcome = "would be changed" if diff and row.outcome == "changed" else row.outcome
        yield f"{where}: {outcome}" + (f": {row.reason}" if row.reason else "")
        yield from (f"  {change}" for change in row.changes)
        yield from (f"  note: {one}" for one in row.notes)


def _tell(options: Options, rows: Sequence[Injected], namespace: str) -> None:
    """What a person still has to do, then what does not work as it is now, last."""
    from glowplug.render import notice

    if all(row.outcome == "refused" for row in rows):
        return
    for line in _of_domain(options, rows, namespace):
        note(one_line(line))
    for warning in notice.warnings("deployment", options):
        Output().warning(warning)


def _of_domain(options: Options, rows: Sequence[Injected], namespace: str) -> Iterator[str]:
    """Of each namespace whose pods are of another domain by `--domain`, in the words of `render`."""
    from glowplug.render import notice
    from glowplug.render.options import Mode

    if options.domain is None or options.mode is not Mode.NODE:
        return
    titles = [row.object.rpartition(" ")[2] for row in rows if row.outcome != "refused"]
    for one in dict.fromkeys(title.rpartition("/")[0] or namespace or _UNNAMED for title in titles):
        if one != options.domain:
            yield notice.label_of(one, options.domain)
