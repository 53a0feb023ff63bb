"""`glowplug fingerprint`: what a start would be keyed by. The same path as `run` takes, up to the key, and nothing is written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note, output_option, width
from glowplug.core.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.core.documents.fingerprint import Fingerprint
    from glowplug.engines.registry import Recognition
    from glowplug.starts.from_manifest import Given

_WAIT_SECONDS: Final = 3.0
_GAPS: Final = 4
_LEAST: Final = 16
"""Of a value that is cut, so much is shown however narrow the terminal is."""
_LAYOUT: Final = ("tp", "pp", "dp", "ep")
_KEY: Final = (
    "domain",
    "engine",
    "engine_version",
    "torch",
    "gpu",
    "machine",
    *_LAYOUT,
    "model",
    "args",
    "env",
    "cache_root",
)


@click.command(
    "fingerprint",
    context_settings={"allow_interspersed_args": False},
    epilog=epilog(
        "Exit status: 0 the key is known; 1 a field of it cannot be known (nothing would be restored or published).",
        "glowplug fingerprint -- vllm serve s3://bucket/model --tensor-parallel-size 2",
        "glowplug fingerprint --engine torch -o json -- python train.py > fingerprint.json",
        "glowplug fingerprint --pod deployment.yaml --gpu h100-80gb --engine-version 0.21.0 --torch 2.11.0",
        "kubectl get pod vllm-0 -o json | glowplug fingerprint --pod -",
    ),
)
@click.option(
    "--domain", help="Trust domain: part of the key.  [default: default; of a pod what it says, else its namespace]"
)
@click.option("--cache-root", metavar="DIR", help="The one directory the engine writes to.  [default: as of `run`]")
@click.option(
    "--engine",
    type=click.Choice(["auto", "vllm", "sglang", "tensorrt-llm", "torch"]),
    default="auto",
    show_default=True,
    help="Which engine the command starts.",
)
@click.option(
    "--pod",
    metavar="FILE",
    help="A pod, or what makes pods, as a manifest or as kubectl prints it, in place of a command.",
)
@click.option(
    "--gpu",
    metavar="NAME",
    help="The GPU that the pod will see, where its node selector does not say it; of a pod on CPUs cpu:… as keys have it, or cpu "
    "for a processor like this machine's.",
)
@click.option(
    "--machine",
    type=click.Choice(["x86_64", "aarch64"]),
    help="The kind of machine that the pod will run on, where neither its node selector nor its GPU says it.",
)
@click.option(
    "--engine-version", metavar="VERSION", help="The engine in the pod's image, where its tag does not say it."
)
@click.option("--torch", metavar="VERSION", help="The torch in the pod's image, where the catalogue does not know it.")
@output_option
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND…")
@click.pass_context
def command(
    context: click.Context,
    domain: str | None,
    cache_root: str | None,
    engine: str,
    pod: str | None,
    gpu: str | None,
    machine: str | None,
    engine_version: str | None,
    torch: str | None,
    output: Output,
    command_line: Sequence[str],
) -> None:
    """Show what a start would be keyed by, and from where each value comes. Nothing is started.

    Of a pod the command and the variables are read as kubelet would give them; versions, GPU and machine are inferred from the
    image's name, the node selector and the catalogue, and marked so.
    """
    if domain == "":
        raise UsageError("the name of a domain is not empty")
    if cache_root is not None and not cache_root.startswith("/"):
        raise UsageError(f"--cache-root {cache_root} is not an absolute path")
    if pod is not None:
        if command_line:
            raise UsageError("--pod and a command exclude each other")
        from glowplug.starts import from_manifest

        versions = {"engine_version": engine_version or "", "torch": torch or ""}
        given = from_manifest.Given(
            domain or "", cache_root or "", _gpu(gpu or ""), engine, machine=machine or "", **versions
        )
        _of_pod(context, pod, given, output)
        return
    _demand_none({"--gpu": gpu, "--machine": machine, "--torch": torch, "--engine-version": engine_version})
    if not command_line:
        raise click.UsageError("no command: put it behind `--`")
    from glowplug.engines import command as commands
    from glowplug.engines import registry

    invocation = commands.see_through(command_line, dict(os.environ))
    found = registry.recognise(invocation, None, engine)
    fingerprint = _fingerprint(found, invocation, domain or "default", cache_root or default_root())
    notes: tuple[str, ...] = ()
    if found.launch is None:
        notes = (f"nothing is known of this command: {found.reason}",)
    elif found.launch.disabled:
        notes = (f"nothing is compiled or cached: {found.launch.disabled}",)
    _tell(context, fingerprint, notes, output)


_SEEN: Final = {"--gpu": "the GPU of this machine", "--machine": "this machine"}


def _demand_none(given: Mapping[str, str | None]) -> None:
    """Raises UsageError for an option that says what of a command is seen."""
    for option, value in given.items():
        if value is not None:
            seen = _SEEN.get(option, "what its own Python has")
            raise UsageError(f"{option} is for --pod", hint=f"of a command {seen} is seen")


def _of_pod(context: click.Context, file: str, known: Given, output: Output) -> None:
    """Raises NotFoundError, BadInputError, UsageError."""
    from glowplug.cli import inputs
    from glowplug.manifests import values
    from glowplug.starts import from_manifest

    data = sys.stdin.buffer.read() if file == "-" else None
    if data is not None and not data.strip():
        raise NotFoundError("stdin is empty", hint="the command before the pipe has printed nothing: did it fail?")
    given = inputs.read([file], data)
    for error in given.errors:
        raise error
    found = from_manifest.infer([value.data for one in given.inputs for value in values.load(one.source)], known)
    _tell(context, found.fingerprint, found.notes, output)


def _gpu(name: str) -> str:
    """NVML's name for any that the card goes by; what only NVML can have said, as it is. Raises UsageError, BadInputError."""
    from glowplug.catalog import gpus

    if name == "cpu":
        from glowplug.host import cpu

        return cpu.here()
    if not name or name.startswith(("cpu:", "NVIDIA ")):
        return name
    return gpus.gpu(name).nvml_name


def _tell(context: click.Context, fingerprint: Fingerprint, notes: Sequence[str], output: Output) -> None:
    output.document(_document(fingerprint), lambda: text(fingerprint, width()))
    for one in notes:
        note(one)
    if fingerprint.key is None:
        note(f"no key, so nothing would be restored or published; not known: {', '.join(fingerprint.unknown)}")
        context.exit(1)


def default_root() -> str:
    """The cache root that `run` would take, found without making it."""
    from glowplug.host import writable

    path = Path(writable.DEFAULT)
    if path.exists() or os.access(path.parent, os.W_OK | os.X_OK):
        return writable.DEFAULT
    return f"{writable.FALLBACK_PARENT}/glowplug-{os.getuid()}/compile-cache"


def _fingerprint(found: Recognition, invocation: Any, domain: str, cache_root: str) -> Fingerprint:
    from glowplug.core.clock import Deadline
    from glowplug.core.documents.fingerprint import Fact, Fingerprint
    from glowplug.fingerprint import build
    from glowplug.models import config

    if found.adapter is None or found.launch is None:
        known = {"domain": Fact(domain, "given:domain"), "cache_root": Fact(cache_root, "given:cache_root")}
        if found.engine:
            known["engine"] = Fact(found.engine, "observed:command")
        return Fingerprint(known, {}, None, None, tuple(name for name in _KEY if name not in known))
    return build.fingerprint(
        invocation,
        found.launch,
        found.adapter,
        domain=domain,
        cache_root=cache_root,
        environ=invocation.environ,
        model_config_sha256=config.remote_sha256(found.launch.model, invocation.environ, Deadline.after(_WAIT_SECONDS)),
    )


def _document(fingerprint: Fingerprint) -> dict[str, Any]:
    from glowplug.core.documents import codec

    value: dict[str, Any] = codec.to_json(fingerprint)
    return {"schema": value.pop("schema"), **value}


def text(fingerprint: Fingerprint, columns: int | None) -> str:
    """The tables. On a terminal of so many columns long values are cut; `-o json` has them whole, as has what goes elsewhere."""
    facts = fingerprint.fields
    in_key = [name for name in _KEY if name in facts]
    beside = [name for name in facts if name not in _KEY and name not in fingerprint.guards]
    rows = [[name, _shown(facts[name].value), facts[name].source] for name in in_key]
    rows += [[name, "?", "unknown"] for name in fingerprint.unknown if name not in facts]
    blocks = [f"key  {fingerprint.key_digest or 'not known'}", _table("FIELD", rows, columns)]
    for title, names in (("GUARD", sorted(fingerprint.guards)), ("NOT IN THE KEY", beside)):
        told = [[name, _shown(facts[name].value), facts[name].source] for name in names if _shown(facts[name].value)]
        blocks.append(_table(title, told, columns))
    return "\n\n".join(block for block in blocks if block)


def _table(title: str, rows: Sequence[Sequence[str]], columns: int | None) -> str:
    from glowplug.cli.cache import table

    if columns is not None:
        around = [max(len(title), *(len(row[0]) for row in rows)), *(len(row[2]) for row in rows)] if rows else [0]
        room = max(_LEAST, columns - around[0] - max(around[1:], default=0) - _GAPS)
        rows = [
            [name, value if len(value) <= room else f"{value[: room - 1]}…", source] for name, value, source in rows
        ]
    return table.aligned([title, "VALUE", "SOURCE"], rows)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={text}" for name, text in value.items())
    return str(value)
