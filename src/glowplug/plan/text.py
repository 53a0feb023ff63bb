"""A plan as text for a terminal: does it fit, what bounds the load, each setting with its reason, what to do next.

Plain characters only, so that it reads the same in a log. Colour adds nothing that the words do not say.
"""

from __future__ import annotations

import shlex
import textwrap
from typing import TYPE_CHECKING, Final

from glowplug.core.printable import one_line
from glowplug.core.units import format_seconds, format_size
from glowplug.models.address import is_size
from glowplug.plan import bounds, following
from glowplug.plan.loaders import Loader
from glowplug.plan.request import CACHE_ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.models.contents import Finding
    from glowplug.plan.outcome import Estimate, Plan

_WIDTH: Final = 110
_LABEL: Final = 11
_TENSOR_PARALLEL: Final = {"sglang": "--tp-size", "tensorrt-llm": "--tp_size"}
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
        bound = bounds.SAID[guess.bound]
        card = f" ({guess.network_gbps:g} Gbit/s)" if guess.bound == "primary-network" else ""
        yield from _row("load", f"{format_seconds(guess.load_seconds_single)} at best: {bound}{card}")
    if guess.load_seconds_fleet_nat is not None and guess.load_seconds_fleet_endpoint is not None:
        nodes = "1 node" if plan.nodes == 1 else f"{plan.nodes} nodes"
        yield from _row(
            nodes,
            f"{format_seconds(guess.load_seconds_fleet_nat)} through one NAT gateway{_other(guess, guess.bound_fleet_nat)}, "
            f"${guess.nat_cost_usd:.2f}; {format_seconds(guess.load_seconds_fleet_endpoint)} through a gateway endpoint for "
            f"S3{_other(guess, guess.bound_fleet_endpoint)}, no charge",
        )
    elif guess.nat_cost_usd is not None:
        network = guess.network_gbps is None
        why = "the network of this machine is not known" if network else "how fast the model is copied is not known"
        yield from _row("NAT", f"${guess.nat_cost_usd:.2f} for each load; {why}")
    needs = plan.resources
    streamed = f", {needs.connections:,} connections, {needs.file_descriptors:,} open files a process"
    memory = f"at most {format_size(needs.host_memory_bytes)} of host memory"
    yield from _row("needs", memory + (streamed if needs.connections else ""))
    if place.candidates:
        also = ", ".join(f"{one.instance} (TP {one.tensor_parallel_size})" for one in place.candidates)
        yield from _row("also on", also)


def _other(guess: Estimate, bound: str) -> str:
    """What bounds several nodes, where it is not what bounds one."""
    return "" if bound == guess.bound else f" ({bounds.SAID[bound]})"


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
    words = following.words(plan)
    if words:
        yield f"  {shlex.join(one_line(word) for word in words)}"
    else:
        yield "  choose a smaller or quantised model, or an engine layout over several nodes"


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
    yield f"{shown}{' ' * max(1, _LABEL - len(label))}{lines[0]}"
    yield from (" " * _LABEL + line for line in lines[1:])


def _style(text: str, code: int) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"
