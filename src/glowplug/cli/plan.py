"""`glowplug plan MODEL`: does it fit, with which settings, what bounds the load. `render` takes the same options from here."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note, output_option
from glowplug.cli.values import Whole, checked, demand_some, duration
from glowplug.core import units
from glowplug.core.clock import Deadline
from glowplug.core.errors import NotFoundError, UsageError
from glowplug.core.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from glowplug.models.contents import Model
    from glowplug.plan.outcome import Plan
    from glowplug.plan.request import Machine, Request

F = TypeVar("F", bound="Callable[..., Any]")

_PATIENCE_SECONDS: Final = 1.0
_LARGEST_CHUNK: Final = 1 << 40
_LONGEST_NUMBER: Final = 40
_CLEAR: Final = "\r\x1b[K"
_TRUE: Final = ("1", "true", "yes")


@dataclass(frozen=True)
class Asked:
    """What the options say, as given: `request` makes sense of it."""

    instance: str | None
    gpu: str | None
    gpu_count: int | None
    tp: int | None
    engine: str
    engine_version: str | None
    size: str | None
    profile: str
    chunk_size: str | None
    streamer_version: str | None
    nodes: int
    max_model_len: int | None
    timeout: str


def _size(text: str) -> int:
    from glowplug.models.address import parse_size

    return parse_size(text)


def _chunk(text: str) -> int:
    size = units.parse_size(text) if len(text) <= _LONGEST_NUMBER else 0
    if not 1 <= size <= _LARGEST_CHUNK:
        raise UsageError(f"--chunk-size: {text[:80]!r} is not a size between 1 byte and 1 TiB", code="bad-size")
    return size


def planning_options(function: F) -> F:
    """The options of `plan`, for every command that plans; the command gets them as `asked: Asked`."""

    @functools.wraps(function)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        demand_some(click.get_current_context())
        asked = Asked(**{name: named.pop(name) for name in Asked.__dataclass_fields__})
        return function(*arguments, asked=asked, **named)

    options = [
        click.option("--instance", metavar="TYPE", help="The EC2 instance type: p5.48xlarge."),
        click.option("--gpu", metavar="NAME", help="A kind of GPU instead, by any of its names: h100, NVIDIA-L4."),
        click.option("--gpu-count", type=Whole(1, 64), metavar="N", help="How many of them a node has (1)."),
        click.option("--tp", type=Whole(1, 1024), metavar="N", help="Tensor-parallel size; chosen otherwise."),
        click.option(
            "--engine",
            type=click.Choice(["vllm", "sglang", "tensorrt-llm"]),
            default="vllm",
            show_default=True,
            help="The inference engine.",
        ),
        click.option(
            "--engine-version", metavar="V", help="Its version; the newest known (profile guide: vLLM 0.21.0)."
        ),
        click.option(
            "--size", metavar="SIZE", callback=checked(_size), help="Size of the weights: 67GB. MODEL is then not read."
        ),
        click.option(
            "--profile",
            type=click.Choice(["guide", "auto"]),
            default="auto",
            show_default=True,
            help="The AWS guide's numbers exactly, or settings for these versions and this machine.",
        ),
        click.option(
            "--chunk-size",
            metavar="SIZE",
            callback=checked(_chunk),
            help="Bytes of one ranged read: 4GiB; chosen otherwise.",
        ),
        click.option("--streamer-version", metavar="V", help="The Run:ai streamer in the image; inferred otherwise."),
        click.option(
            "--nodes",
            type=Whole(1, 100_000),
            default=1,
            show_default=True,
            metavar="N",
            help="How many nodes load at once.",
        ),
        click.option("--max-model-len", type=Whole(1), metavar="N", help="The longest sequence, in tokens."),
        click.option(
            "--timeout",
            default="60s",
            show_default=True,
            metavar="DURATION",
            callback=checked(duration),
            help="How long reading MODEL may take.",
        ),
    ]
    decorated: Any = wrapped
    for option in reversed(options):
        decorated = option(decorated)
    result: F = decorated
    return result


@click.command(
    "plan",
    epilog=epilog(
        "Exit status: 0 it fits; 1 it does not; 2 the call is wrong (a machine, version or model that is not there, too).",
        "glowplug plan s3://my-bucket/model --instance p5.48xlarge",
        "glowplug plan 67GB --instance p5.48xlarge --profile guide",
        "glowplug plan ./model --gpu l40s --gpu-count 4 --max-model-len 32768 -o json",
        "glowplug plan 140GB --nodes 20",
    ),
)
@click.argument("model", metavar="MODEL")
@planning_options
@click.option("-v", "--verbose", is_flag=True, help="Say on stderr what reading MODEL cost.")
@output_option
@click.pass_context
def command(context: click.Context, model: str, asked: Asked, verbose: bool, output: Output) -> None:
    """Say on how many GPUs a model fits, with which settings it starts fastest, and why.

    MODEL is s3://bucket/prefix, a local directory, or a size such as 67GB. Of a model only the safetensors headers and
    config.json are read. Without --instance and --gpu the cheapest machine that it fits on is taken.
    """
    from glowplug.plan.document import to_document
    from glowplug.plan.text import plan_text

    plan = planned(model, asked, os.environ)
    if verbose:
        traffic = plan.model.traffic
        note(
            f"reading {model}: {traffic.requests} requests, {traffic.bytes} bytes, {units.format_seconds(traffic.seconds)}"
        )
    output.document(to_document(plan), lambda: plan_text(plan), styled=True)
    if not plan.placement.fits:
        context.exit(1)


def planned(model: str, asked: Asked, environ: Mapping[str, str]) -> Plan:
    """The plan that a command line asks for. Raises UsageError, and what reading the model raises."""
    from glowplug.plan.decide import decide

    return decide(request(model, asked, environ))


def request(model: str, asked: Asked, environ: Mapping[str, str]) -> Request:
    """The request in it; reads MODEL unless it is a size or --size is given."""
    from glowplug.plan import versions
    from glowplug.plan.request import Request

    machine = named_machine(asked)
    version = None if asked.engine_version is None else versions.engine_version(asked.engine_version, asked.engine)
    streamer = None if asked.streamer_version is None else versions.streamer_version(asked.streamer_version)
    chunk = None if asked.chunk_size is None else _chunk(asked.chunk_size)
    found = _model(model, asked, environ)
    # What this call used to reach the bucket holds for the bucket; without a reading it may be about anything.
    read = found.shards is not None
    endpoint, region = _server(environ) if found.source.startswith("s3://") else ("", "")
    return Request(
        model=found,
        profile="guide" if asked.profile == "guide" else "auto",
        machine=machine,
        engine=asked.engine,
        engine_version=version,
        streamer_version=streamer,
        tensor_parallel_size=asked.tp,
        chunk_bytes=chunk,
        max_model_len=asked.max_model_len,
        nodes=asked.nodes,
        endpoint=endpoint,
        region=region if read else "",
        unsigned=environ.get("RUNAI_STREAMER_S3_UNSIGNED") in _TRUE
        or environ.get("AWS_SKIP_SIGNATURE", "").lower() in _TRUE,
    )


def _model(model: str, asked: Asked, environ: Mapping[str, str]) -> Model:
    from glowplug.models.address import unread
    from glowplug.models.read import is_size, of_size, parse_size, read

    if is_size(model) or asked.size is not None:
        source = model.strip() if is_size(model) else unread(model)
        return of_size(parse_size(model if asked.size is None else asked.size), source)
    deadline = Deadline.after(duration(asked.timeout))
    try:
        with _progress(model) as progress:
            return read(model, environ, deadline, progress=progress)
    except NotFoundError as error:
        # Status 1 is an answer about a model (it does not fit); of one that is not there nothing can be answered.
        raise UsageError(error.message, code=error.code, hint=error.hint) from error


def _server(environ: Mapping[str, str]) -> tuple[str, str]:
    """S3's address as it was written, since a slash at its end is told, and the region; "" for what is not set."""
    from glowplug.store import endpoints

    region = endpoints.region(environ) or ""
    if endpoints.endpoint(environ) is None:
        return "", region
    return next(environ[name] for name in endpoints.ENDPOINTS if environ.get(name)), region


def named_machine(asked: Asked) -> Machine | None:
    """The machine that was named, None where none was. Raises UsageError for two, and what the catalogue raises."""
    from glowplug.plan.request import Machine

    if asked.instance is not None and asked.gpu is not None:
        raise UsageError("--instance and --gpu both name the machine", hint="give one of them")
    if asked.gpu is not None:
        from glowplug.catalog.gpus import gpu

        return Machine.of_gpus(gpu(asked.gpu), asked.gpu_count or 1)
    if asked.gpu_count is not None:
        raise UsageError("--gpu-count counts the GPUs of --gpu", hint="give --gpu NAME, or --instance TYPE alone")
    if asked.instance is None:
        return None
    from glowplug.catalog.instances import instance

    return Machine.of_instance(instance(asked.instance))


@contextlib.contextmanager
def _progress(model: str) -> Iterator[Callable[[int, int], None] | None]:
    """On a terminal, one line that is drawn anew when reading takes longer than a moment."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    began = time.monotonic()
    drawn = False

    def draw(done: int, everything: int) -> None:
        nonlocal drawn
        if time.monotonic() - began > _PATIENCE_SECONDS:
            drawn = True
            sys.stderr.write(f"{_CLEAR}{one_line(model)}: headers of {done} of {everything} files")
            sys.stderr.flush()

    try:
        yield draw
    finally:
        if drawn:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
