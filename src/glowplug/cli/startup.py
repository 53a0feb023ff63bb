"""`glowplug startup SOURCE…`: where the seconds of a start went; several starts compared.

A cluster is asked only where a source names one of its objects, and what that needs is imported only then.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from glowplug.cli.output import Output, note, output_option
from glowplug.cli.streams import standard_input
from glowplug.core import units
from glowplug.core.clock import SYSTEM
from glowplug.core.documents import codec
from glowplug.core.errors import BadInputError, GlowplugError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from glowplug.core.documents.start import Start
    from glowplug.engines.adapter import LogReader
    from glowplug.starts.comparison import Comparison
    from glowplug.starts.text import Glyphs

HEAD: Final = 1 << 16
LARGEST_DOCUMENT: Final = 1 << 28
_KUBECONFIG: Final = "give --kubeconfig FILE, or let KUBECONFIG name one"
_OBJECTS: Final = (
    "for what is in a cluster write pod/NAME, deploy/NAME, sts/, ds/, rs/ or job/NAME, and its namespace behind -n (default: the "
    "context's)"
)


@dataclass(frozen=True)
class Named:
    """A start and where it was read."""

    name: str
    start: Start


@dataclass(frozen=True)
class Cluster:
    """Which cluster is asked, as whom, and in which namespace ("": the context's)."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""


@click.command(
    "startup",
    epilog="Exit status: 0 done; 1 slower than --fail-over or --baseline allow, no engine recognised in a log, no such pod.\n\n"
    "Examples:\n\n"
    "  glowplug startup deploy/vllm -n models\n\n"
    "  kubectl logs pod/vllm-0 --timestamps | glowplug startup -\n\n"
    "  glowplug startup monday.log tuesday.log\n\n"
    "  glowplug startup vllm.log --baseline good.json --fail-over 60s -o json",
)
@click.argument("sources", metavar="SOURCE...", nargs=-1)
@click.option("-n", "--namespace", help="The namespace of pod/… and deploy/… (default: that of the context).")
@click.option("-l", "--selector", metavar="LABELS", help="All pods with these labels, beside the sources: app=vllm.")
@click.option("--context", metavar="NAME", help="The kubeconfig's context (default: the current one).")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="How to reach the cluster (default: KUBECONFIG, ~/.kube/config, the pod's account).",
)
@click.option("--engine", help="Which engine wrote the logs, where its lines do not show it.")
@click.option(
    "--fail-over",
    metavar="DURATION",
    help="Exit 1 when a start takes longer until ready (until the engine is initialized, where ready is unknown): 20s, 2m.",
)
@click.option(
    "--baseline",
    metavar="FILE",
    help="Compare to this start (log or document); exit 1 when one is slower by more than 10 % and more than 1 s.",
)
@output_option
@click.pass_context
def command(
    call: click.Context,
    sources: tuple[str, ...],
    namespace: str | None,
    selector: str | None,
    context: str | None,
    kubeconfig: str | None,
    engine: str | None,
    fail_over: str | None,
    baseline: str | None,
    output: Output,
) -> None:
    """Say where the seconds of a start went, and what became of its compile cache.

    SOURCE is the log of an engine, `-` for stdin, a document of glowplug's (start/1, startup/1, demo/1), or an object of a
    cluster: pod/NAME, deploy/NAME, sts/…, ds/…, rs/…, job/…, whose pods' status, events and logs are read. Several starts are
    compared to the first, or to --baseline.
    """
    from glowplug.starts import comparison

    limit = units.parse_duration(fail_over) if fail_over else None
    if [*sources, baseline].count("-") > 1:
        raise UsageError("stdin (-) can be read once only")
    if not sources and not selector:
        raise UsageError("give a SOURCE, or --selector for the pods of a cluster")
    cluster = Cluster(kubeconfig or "", context or "", namespace or "")
    read = [named for source in sources for named in starts_in(source, engine, cluster)]
    read += _of_cluster(cluster, engine, selector=selector) if selector else []
    before = starts_in(baseline, engine, cluster) if baseline else []
    if baseline and len(before) != 1:
        raise BadInputError(f"{baseline}: a baseline is one start, this holds {len(before)}")
    everything = [*before, *read]
    if not everything:
        raise BadInputError(f"{', '.join(sources)}: no start in it")
    compared = comparison.compare([named.start for named in everything])
    output.document(_document(everything, compared), lambda: _text(everything, compared), styled=True)
    refusals = [f"{named.name}: {why}" for named in read for why in _refusals(named.start, limit, before)]
    for refusal in refusals:
        output.note(refusal)
    if refusals:
        call.exit(1)


def starts_in(source: str, engine: str | None, cluster: Cluster) -> list[Named]:
    """The starts of a log file, a document, stdin or an object of a cluster; a file of an object's name is the file.

    Raises BadInputError for a damaged document, OSError, and what kube/contract.py says.
    """
    from glowplug.starts.kinds import KINDS

    kind, slash, rest = source.partition("/")
    meant = KINDS.get(kind.lower().partition(".")[0], "")
    if slash and rest and meant and not Path(source).exists():
        return _of_cluster(cluster, engine, kind=meant, name=rest)
    if source == "-":
        return _read(standard_input(), "stdin", engine)
    try:
        stream = Path(source).open("rb")  # noqa: SIM115 - closed below
    except FileNotFoundError as error:
        raise GlowplugError(f"{source}: {error.strerror}", code="os", hint=_OBJECTS) from error
    with stream:
        return _read(stream, source, engine)


def _read(stream: BinaryIO, name: str, engine: str | None) -> list[Named]:
    from glowplug.starts import document, from_log

    head = stream.read(HEAD)
    if document.looks_like_document(head):
        data = head + stream.read(LARGEST_DOCUMENT)
        value = document.parse(data, name)
        starts = document.starts_of(value, name)
        return [Named(label, start) for label, start in zip(document.names_of(value, name), starts, strict=True)]
    readers = _readers(engine)
    lines = from_log.lines(_Chained(head, stream))
    return [Named(name, from_log.from_log(lines, name=name, now=SYSTEM.now(), readers=readers, engine=engine))]


def _of_cluster(
    cluster: Cluster, engine: str | None, *, kind: str = "", name: str = "", selector: str = ""
) -> list[Named]:
    """The starts of an object's pods, or of a label selector's."""
    from glowplug.kube import connect
    from glowplug.starts import cluster as pods

    now = SYSTEM.now()
    read = pods.reading(_readers(engine), engine, now)
    with connect.found(cluster.kubeconfig, cluster.context, hint=_KUBECONFIG) as api:
        namespace = cluster.namespace or api.default_namespace
        what = f"{kind}/{name}" if kind else selector
        found = pods.pods_of(api, namespace, kind, name) if kind else pods.pods_by(api, namespace, selector, what)
        if found.of > len(found.pods):
            note(f"{what}: the newest {len(found.pods)} of {found.of} pods")
        return [Named(one.name, one.start) for pod in found.pods for one in pods.starts(api, pod, read, now, note)]


@dataclass
class _Chained:
    """A stream of which the beginning was read already (a pipe cannot be rewound)."""

    head: bytes
    rest: BinaryIO

    def read(self, size: int, /) -> bytes:
        head, self.head = self.head, b""
        return head or self.rest.read(size)


def _readers(engine: str | None) -> Mapping[str, Callable[[], LogReader]]:
    readers = log_readers()
    if engine is not None and engine not in readers:
        raise UsageError(f"no engine {engine!r}; known: {', '.join(sorted(readers))}", code="engine-unknown")
    return readers


def log_readers() -> Mapping[str, Callable[[], LogReader]]:
    """A maker of log readers for each engine that has an adapter."""
    from glowplug.engines import registry

    return {adapter.name: adapter.log_reader for adapter in registry.ADAPTERS}


def _refusals(start: Start, limit: float | None, before: Sequence[Named]) -> Iterator[str]:
    from glowplug.starts import comparison, from_log

    if start.verdict.reason == from_log.UNRECOGNISED:
        yield f"{from_log.UNRECOGNISED}; name it with --engine"
    if limit is not None:
        why = comparison.exceeds(start, limit)
        if why:
            yield why
    for named in before:
        why = comparison.regression(named.start, start)
        if why:
            yield why


def _document(starts: Sequence[Named], compared: Comparison) -> dict[str, Any]:
    return {
        "schema": "glowplug.startup/1",
        "starts": [codec.to_json(named.start) for named in starts],
        "comparison": codec.to_json(compared),
    }


def _text(starts: Sequence[Named], compared: Comparison) -> str:
    from glowplug.starts import text

    glyphs = _glyphs()
    pieces = [text.start_text(named.start, name=named.name, glyphs=glyphs) for named in starts]
    if len(starts) > 1:
        names = [named.name for named in starts]
        table = text.comparison_text([named.start for named in starts], compared, names, glyphs=glyphs)
        pieces.append(table)
    shown = "\n\n".join(pieces)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return shown.encode(encoding, "replace").decode(encoding)


def _glyphs() -> Glyphs:
    """Bars of blocks where stdout can say them, else of plain characters."""
    from glowplug.starts import text

    try:
        "█▏·".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return text.ASCII
    return text.UNICODE
