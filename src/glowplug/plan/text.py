"""A plan as text for a terminal: does it fit, what bounds the load, each setting with its reason, what to do next.

Plain characters only, so that it reads the same in a log. Colour adds nothing that the words do not say.
"""

from __future__ import annotations

import contextlib
import shlex
import textwrap
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import UsageError
from glowplug.core.printable import one_line
from glowplug.core.units import format_seconds, format_size
from glowplug.models.address import is_size, parse_size
from glowplug.plan.loaders import UNKNOWN, Loader
from glowplug.plan.request import CACHE_ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.models.contents import Finding
    from glowplug.plan.outcome import Plan

_WIDTH: Final = 110
_LABEL: Final = 11
_TENSOR_PARALLEL: Final = {"sglang": "--tp-size", "tensorrt-llm": "--tp_size"}
_BOUNDS: Final = {
    "primary-network": "the network card bounds it",
    "streamer": "nobody has published a faster load by the streamer",
    "s3-connections": "the connections to S3 bound it",
    "s3-request-rate": "S3's request rate for one prefix bounds it",
    "pcie": "the way from host to GPU bounds it",
}
_SEVERITIES: Final = {"error": 31, "warning": 33, "info": 36}
_ANSWERS: Final = {"fits": 32, "NO FIT": 31}
_WORST_FIRST: Final = ("error", "warning", "info")


def plan_text(plan: Plan) -> str:
    """The whole of it."""
    sections = [
        [*_title(plan)],
        [*_figures(plan)],
        [*_arguments(plan)],
        [*_variables(plan)],
        [*_findings(plan)],
        [*_next(plan)],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _title(plan: Plan) -> Iterator[str]:
    place = plan.placement
    size = format_size(plan.model.weights_bytes)
    gpus = f"{place.gpus_per_node} {place.gpu} of {format_size(place.gpu_memory_bytes)}"
    where = f"{place.instance} ({gpus})" if place.instance else gpus
    source = "" if is_size(plan.model.source) else f"{one_line(plan.model.source)}: "
    what = [
        f"{plan.model.parameters / 1e9:.3g} billion parameters" if plan.model.parameters else "",
        plan.model.dtype or "",
    ]
    told = ", ".join(word for word in what if word)
    yield _style(f"{source}{size}{f' ({told})' if told else ''} on {where}", 1)
    streamer = f", streamer {plan.streamer_version}" if plan.streamer_version else ""
    engine = Loader(plan.engine, plan.engine_version).name
    yield f"{engine}{streamer}, profile {plan.profile}"


def _figures(plan: Plan) -> Iterator[str]:
    place, guess = plan.placement, plan.estimate
    ranks = f"tensor parallel {place.tensor_parallel_size}"
    if place.fits:
        pods = "1 pod" if place.pods_per_node == 1 else f"{place.pods_per_node} pods"
        yield from _row("fits", f"with {ranks}, {pods} a node")
    else:
        yield from _row("NO FIT", f"not with {ranks}; see below")
    if guess.load_seconds_single is not None:
        bound = _BOUNDS.get(guess.bound, guess.bound)
        card = f" ({guess.network_gbps:g} Gbit/s)" if guess.bound == "primary-network" else ""
        yield from _row("load", f"{format_seconds(guess.load_seconds_single)} at best: {bound}{card}")
    if guess.load_seconds_fleet_nat is not None and guess.load_seconds_fleet_endpoint is not None:
        nodes = "1 node" if plan.nodes == 1 else f"{plan.nodes} nodes"
        yield from _row(
            nodes,
            f"{format_seconds(guess.load_seconds_fleet_nat)} through one NAT gateway, ${guess.nat_cost_usd:.2f}; "
            f"{format_seconds(guess.load_seconds_fleet_endpoint)} through a gateway endpoint for S3, no charge",
        )
    elif guess.nat_cost_usd is not None:
        yield from _row("NAT", f"${guess.nat_cost_usd:.2f} for each load; the network of this machine is not known")
    needs = plan.resources
    yield from _row(
        "needs",
        f"at most {format_size(needs.host_memory_bytes)} of host memory, {needs.connections:,} connections, "
        f"{needs.file_descriptors:,} open files a process",
    )
    if place.candidates:
        also = ", ".join(f"{one.instance} (TP {one.tensor_parallel_size})" for one in place.candidates)
        yield from _row("also on", also)


def _arguments(plan: Plan) -> Iterator[str]:
    yield _style("arguments", 1)
    name = _TENSOR_PARALLEL.get(plan.engine, "--tensor-parallel-size")
    yield from _setting(f"{name}={plan.placement.tensor_parallel_size}", plan.why("--tensor-parallel-size"))
    for argument in (*plan.streaming.args, *plan.compile.args):
        yield from _setting(argument, plan.why(argument.partition("=")[0]))
        if argument.startswith("--model-loader-extra-config"):
            for key in ("concurrency", "distributed"):
                why = plan.why(key)
                if why:
                    yield from _wrapped(f"{key}: {why}", 6)
    if plan.compile.args:
        yield from _wrapped(plan.why("compile"), 6)


def _variables(plan: Plan) -> Iterator[str]:
    env = {**plan.streaming.env, **plan.compile.env}
    if not env:
        return
    yield _style("variables", 1)
    for name, value in plan.streaming.env.items():
        yield from _setting(f"{name}={value}", plan.why(name))
    for name, value in plan.compile.env.items():
        yield from _setting(f"{name}={value}", plan.why(name))
    whole = plan.why(", ".join(plan.compile.env))
    if whole:
        yield from _wrapped(f"below {CACHE_ROOT}: {whole}", 6)
    for reason in plan.reasons:
        if reason.value is None:
            yield from _setting(f"no {reason.setting}", reason.why.removeprefix("left out: "))


def _findings(plan: Plan) -> Iterator[str]:
    if not plan.findings:
        return
    yield _style("to know", 1)
    for finding in sorted(plan.findings, key=_rank):
        word = finding.severity
        label = _style(word, _SEVERITIES[word]) + " " * (8 - len(word))
        hint = f"; {finding.hint}" if finding.hint else ""
        lines = textwrap.wrap(one_line(f"{finding.rule}: {finding.message}{hint}"), _WIDTH - 10, break_on_hyphens=False)
        yield f"  {label}{lines[0]}"
        yield from (" " * 10 + line for line in lines[1:])


def _rank(finding: Finding) -> int:
    return _WORST_FIRST.index(finding.severity)


def _next(plan: Plan) -> Iterator[str]:
    yield _style("next", 1)
    place = plan.placement
    named = "://" in plan.model.source
    model = plan.model.source if named else "s3://BUCKET/PREFIX"
    size = "" if named and plan.model.shards is not None else f" --size {_size(plan)}"
    rest = "".join(f" {option}" for option in _options(plan))
    if not place.fits:
        if place.candidates:
            yield f"  glowplug plan {shlex.quote(one_line(model))}{size} --instance {place.candidates[0].instance}{rest}"
        else:
            yield "  choose a smaller or quantised model, or an engine layout over several nodes"
        return
    machine = (
        f"--instance {place.instance}" if place.instance else f"--gpu {place.gpu} --gpu-count {place.gpus_per_node}"
    )
    yield f"  glowplug render deployment {shlex.quote(one_line(model))}{size} {machine}{rest}"


def _options(plan: Plan) -> Iterator[str]:
    """What else was asked for, as options."""
    reasons = {reason.setting: reason.source for reason in plan.reasons}
    if plan.profile != "auto":
        yield f"--profile {plan.profile}"
    if plan.engine != "vllm":
        yield f"--engine {plan.engine}"
    if "--engine-version" not in reasons and plan.engine_version != UNKNOWN:
        yield f"--engine-version {plan.engine_version}"
    if plan.streamer_version and "--streamer-version" not in reasons:
        yield f"--streamer-version {plan.streamer_version}"
    if plan.placement.fits and reasons.get("--tensor-parallel-size") == "--tp":
        yield f"--tp {plan.placement.tensor_parallel_size}"
    if plan.nodes > 1:
        yield f"--nodes {plan.nodes}"


def _size(plan: Plan) -> str:
    """The size as somebody wrote it, where the model was given as one."""
    source, weights = plan.model.source, plan.model.weights_bytes
    with contextlib.suppress(UsageError):
        return source if is_size(source) and parse_size(source) == weights else str(weights)
    return str(weights)


def _setting(setting: str, why: str) -> Iterator[str]:
    yield f"  {one_line(setting)}"
    if why:
        yield from _wrapped(why, 6)


def _wrapped(text: str, indent: int) -> list[str]:
    margin = " " * indent
    return textwrap.wrap(
        one_line(text), _WIDTH, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False
    )


def _row(label: str, text: str) -> Iterator[str]:
    """A label and text that is wrapped beside it."""
    lines = textwrap.wrap(text, _WIDTH - _LABEL, break_on_hyphens=False)
    colour = _ANSWERS.get(label)
    shown = _style(label, colour) if colour else label
    yield f"{shown}{' ' * (_LABEL - len(label))}{lines[0]}"
    yield from (" " * _LABEL + line for line in lines[1:])


def _style(text: str, code: int) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"
