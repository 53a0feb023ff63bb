"""From a request to a plan. Pure: the model was read by the caller, everything else is in the catalogue.

It never refuses a model: what does not fit, or cannot be split, is a plan with `fits` false and a finding that says why.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from glowplug.catalog.limits import fact
from glowplug.core.units import format_size
from glowplug.models.contents import Finding
from glowplug.plan import auto, compiling, guide, hosting, memory, precision, roofline
from glowplug.plan.assumptions import assumed
from glowplug.plan.bounds import UNKNOWN
from glowplug.plan.hosting import Reading
from glowplug.plan.loaders import STREAMER
from glowplug.plan.outcome import Estimate, Placement, Plan, Reason
from glowplug.plan.request import Machine
from glowplug.plan.roofline import Path
from glowplug.plan.versions import versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.plan.auto import Decided
    from glowplug.plan.hosting import Streamer
    from glowplug.plan.loaders import Loader
    from glowplug.plan.memory import Fit, Lacking
    from glowplug.plan.outcome import Candidate
    from glowplug.plan.request import Request

_FEW_SEQUENCES: Final = 4


def decide(request: Request) -> Plan:
    """The plan for a request whose engine is one of `request.ENGINES`."""
    tokens = _tokens(request)
    lacking = memory.by_share if request.profile == "guide" else memory.by_need(tokens)
    machine, chosen = _machine(request, lacking)
    fit = _fit(request, machine, lacking)
    others = memory.candidates(request.model, lacking, besides=machine.instance)
    placement = _placement(machine, fit, others, request)
    ranks, pods = max(1, min(fit.tensor_parallel_size, machine.gpus)), max(1, placement.pods_per_node)
    chosen_versions = versions(request)
    loader, streamer = chosen_versions.loader, chosen_versions.streamer
    part = _streaming(request, machine, ranks, pods, loader, streamer)
    caches, of_streamer = compiling.split(compiling.variables(request, loader, ranks))
    of_guide = request.profile == "guide"
    if of_guide:
        compiled = guide.compile_settings(request, compiling.switches(loader))
        why_compiled: tuple[Reason, ...] = ()
    else:
        compiled = compiling.settings(request, loader, caches)
        why_compiled = compiling.reasons(request, loader, caches)
        part = replace(part, streaming=replace(part.streaming, env={**part.streaming.env, **of_streamer}))
        why_log = "the streamer then says how many bytes it loaded in how many seconds"
        why_compiled += tuple(
            Reason(name, value, why_log, "model-streamer docs") for name, value in of_streamer.items()
        )
    return Plan(
        profile=request.profile,
        engine=request.engine,
        engine_version=loader.version,
        streamer_version=streamer.version if streamer and loader.streams else None,
        max_model_len=tokens,
        nodes=request.nodes,
        model=request.model,
        placement=placement,
        streaming=part.streaming,
        compile=compiled,
        resources=part.resources,
        estimate=_estimate(request, machine, ranks, part, loader),
        reasons=(
            *chosen,
            *chosen_versions.reasons,
            *([] if of_guide else _placement_reasons(request, machine, fit, tokens)),
            *part.reasons,
            *why_compiled,
        ),
        findings=(
            *request.model.findings,
            *chosen_versions.findings,
            *_machine_findings(request, machine, others),
            *_placement_findings(request, machine, fit, others, tokens),
            *part.findings,
            *_nat_findings(request, pods, part),
            *compiling.findings(loader),
        ),
        asked=request.asked,
    )


def _tokens(request: Request) -> int:
    """The longest sequence that is planned for: what was asked for, else the guide's, at most what the model can."""
    if request.max_model_len is not None:
        return request.max_model_len
    default = int(fact("guide.max_model_len").value)
    longest = request.model.shape.max_positions if request.model.shape else None
    return default if request.profile == "guide" or not longest or longest < 1 else min(default, longest)


def _machine(request: Request, lacking: Lacking) -> tuple[Machine, tuple[Reason, ...]]:
    if request.machine is not None:
        return request.machine, ()
    from glowplug.catalog.instances import instance

    found = memory.candidates(request.model, lacking)
    if not found:
        machine = memory.largest_machine()
        why = "no machine was named, and the model fits on none; this one has the most GPU memory"
    else:
        machine = Machine.of_instance(instance(found[0].instance))
        why = "no machine was named; this is the smallest that the model fits on"
    return machine, (Reason("instance", machine.instance, why, "glowplug's catalogue of instances"),)


def _fit(request: Request, machine: Machine, lacking: Lacking) -> Fit:
    ranks = request.tensor_parallel_size
    if ranks is None:
        return memory.smallest(request.model, machine, lacking)
    return memory.at(request.model, machine, ranks, lacking)


def _placement(machine: Machine, fit: Fit, others: tuple[Candidate, ...], request: Request) -> Placement:
    ranks = fit.tensor_parallel_size
    possible = ranks <= machine.gpus and memory.divides(request.model.shape, ranks)
    return Placement(
        instance=machine.instance,
        gpu=machine.gpu,
        gpu_memory_bytes=machine.gpu_memory_bytes,
        gpus_per_node=machine.gpus,
        tensor_parallel_size=ranks,
        pods_per_node=machine.gpus // ranks,
        fits=fit.fits and possible,
        candidates=others,
    )


def _streaming(
    request: Request, machine: Machine, ranks: int, pods: int, loader: Loader, streamer: Streamer | None
) -> Decided:
    if not loader.streams or streamer is None:
        return auto.unstreamed(request, ranks, loader)
    if request.profile == "auto":
        return auto.streaming(request, machine, ranks, pods, loader, streamer)
    settings = guide.streaming(request, ranks, loader.behaviour("load_format").value)
    weights = request.model.weights_bytes
    reading = Reading(weights, ranks, settings.distributed, settings.chunk_bytes, settings.concurrency)
    needs = hosting.resources(reading, streamer)
    return auto.Decided(
        settings,
        needs,
        tuple(guide.reasons(request, settings, ranks)),
        (
            *guide.findings(request, settings, ranks, loader, streamer.version),
            *_host_findings(machine, pods, needs.host_memory_bytes),
        ),
    )


def _host_findings(machine: Machine, pods: int, needed: int) -> Iterator[Finding]:
    budget = hosting.budget_bytes(machine, pods)
    if budget is not None and needed > budget:
        yield Finding(
            "host-memory-bound",
            "warning",
            f"loading may take {format_size(needed)} of host memory; a pod has {format_size(int(budget))}",
            "profile auto chooses concurrency and buffers that the host can hold",
        )


def _estimate(request: Request, machine: Machine, ranks: int, part: Decided, loader: Loader) -> Estimate:
    """One pod alone, and one pod on each of the nodes at once."""
    gbps = None if machine.network_bps is None else machine.network_bps / 1e9
    if part.streaming.load_format != STREAMER:
        # The model is copied to each node, once for all ranks; with which tool and how fast is not the plan's.
        copied = request.model.weights_bytes * request.nodes / roofline.GB * fact("nat.usd_per_gb").value
        return Estimate(UNKNOWN, gbps, None, None, None, round(copied, 2))
    chosen, weights = part.streaming, float(request.model.weights_bytes)
    together = chosen.distributed and loader.shares
    wire = roofline.wire_bytes(weights, ranks=ranks, distributed=together)
    connections = part.resources.connections
    gets = roofline.gets(wire, chosen.chunk_bytes)
    card = machine.network_bps or float("inf")
    nat = roofline.fleet(wire, request.nodes, card, Path.NAT, gets_per_node=gets, connections_per_node=connections)
    gateway = roofline.fleet(wire, request.nodes, card, Path.GATEWAY, gets_per_node=gets)
    cost = round(nat.usd, 2)
    if gbps is None:
        return Estimate(UNKNOWN, None, None, None, None, cost)
    alone = roofline.single(
        weights,
        ranks=ranks,
        distributed=together,
        chunk_bytes=chosen.chunk_bytes,
        connections=connections,
        network_bps=machine.network_bps,
        pcie_bytes_per_second=machine.pcie_bytes_per_second,
    )
    by_nat, by_gateway = (alone if alone.seconds >= one.seconds else one for one in (nat, gateway))
    return Estimate(
        bound=alone.bound,
        network_gbps=gbps,
        load_seconds_single=round(alone.seconds, 2),
        load_seconds_fleet_nat=round(by_nat.seconds, 2),
        load_seconds_fleet_endpoint=round(by_gateway.seconds, 2),
        nat_cost_usd=cost,
        bound_fleet_nat=by_nat.bound,
        bound_fleet_endpoint=by_gateway.bound,
    )


def _placement_reasons(request: Request, machine: Machine, fit: Fit, tokens: int) -> Iterator[Reason]:
    ranks = fit.tensor_parallel_size
    wanted = memory.need(request.model, ranks, tokens)
    if request.tensor_parallel_size is not None:
        yield Reason("--tensor-parallel-size", ranks, "as asked for", "--tp")
        return
    if wanted is None:
        why = "the fewest GPUs with weights in three quarters of the memory; nothing but the size of the model is known"
        if not fit.fits:
            why = f"the most that {machine.name} and the attention heads allow"
        yield Reason("--tensor-parallel-size", ranks, why, fact("guide.memory_share").source)
        return
    parts = (wanted.weights, wanted.kv_cache, wanted.reserve, memory.usable(machine))
    weights, cache, reserve, usable = (format_size(round(part)) for part in parts)
    yield Reason(
        "--tensor-parallel-size",
        ranks,
        f"on each GPU {weights} weights, {cache} KV cache for one sequence of {tokens:,} tokens and {reserve} reserve, of {usable}",
        f"{assumed('vllm.gpu_memory_utilization').source}; reserve: {assumed('gpu.reserve_bytes').source}",
    )


def _machine_findings(request: Request, machine: Machine, others: tuple[Candidate, ...]) -> Iterator[Finding]:
    """What the machine cannot do, however large it is."""
    if machine.fractional:
        yield Finding(
            "instance-unfit",
            "warning",
            f"{machine.name} has a part of a GPU, which EC2 counts as none: Karpenter and EKS Auto Mode make no such node for a "
            "pod that asks for a GPU",
            f"the cheapest whole GPU that it fits on is {others[0].instance}" if others else "",
        )
    yield from precision.findings(request.model, machine.capability)


def _placement_findings(
    request: Request, machine: Machine, fit: Fit, others: tuple[Candidate, ...], tokens: int
) -> Iterator[Finding]:
    ranks = fit.tensor_parallel_size
    shape = request.model.shape
    if ranks > machine.gpus:
        yield Finding(
            "tensor-parallel-too-large",
            "error",
            f"tensor parallel {ranks} needs {ranks} GPUs in one node; {machine.name} has {machine.gpus}",
        )
    if request.tensor_parallel_size is not None and ranks > 1 and not (shape and shape.heads):
        yield Finding(
            "tensor-parallel-unchecked",
            "info",
            f"how many attention heads the model has is not known: tensor parallel {ranks} has to divide them",
            "of a model that it can read, plan takes them from config.json",
        )
    if not memory.divides(shape, ranks):
        counts = {"attention heads": shape.heads, "KV heads": shape.kv_heads} if shape else {}
        heads = " and ".join(f"{count} {what}" for what, count in counts.items() if count) or "the attention heads"
        yield Finding("tensor-parallel-heads", "error", f"tensor parallel {ranks} cannot split {heads}")
    if not fit.fits:
        yield Finding("does-not-fit", "error", *_too_small(request, machine, fit, others))
    if request.profile == "guide" or not fit.fits:
        return
    yield from _cache_findings(request, machine, ranks, tokens)
    longest = shape.max_positions if shape else None
    if not longest:
        return
    if tokens > longest:
        yield Finding(
            "max-model-len", "warning", f"the model was made for {longest:,} tokens, not {tokens:,}: vLLM refuses more"
        )
    elif request.max_model_len is None and tokens < longest:
        room = memory.most_tokens(request.model, machine, ranks)
        space = f"; one sequence of {room:,} has room here" if room else ""
        yield Finding(
            "max-model-len",
            "info",
            f"planned for sequences of {tokens:,} tokens, the guide's number; the model can {longest:,}{space}",
            "--max-model-len N plans for another length",
        )


def _cache_findings(request: Request, machine: Machine, ranks: int, tokens: int) -> Iterator[Finding]:
    held = memory.sequences(request.model, machine, ranks, tokens)
    if held is None or held >= _FEW_SEQUENCES:
        return
    wider = memory.sequences(request.model, machine, 2 * ranks, tokens) if 2 * ranks <= machine.gpus else None
    able = wider is not None and memory.divides(request.model.shape, 2 * ranks)
    yield Finding(
        "kv-cache-small",
        "info",
        f"beside the weights the KV cache holds {held:.1f} sequences of {tokens:,} tokens at once",
        f"--tp {2 * ranks} would hold {wider:.0f}" if able else "a GPU with more memory serves more requests at once",
    )


def _too_small(request: Request, machine: Machine, fit: Fit, others: tuple[Candidate, ...]) -> tuple[str, str]:
    missing = format_size(max(1, round(fit.lacking)))
    gpus = "the GPU lacks" if fit.tensor_parallel_size == 1 else f"each of {fit.tensor_parallel_size} GPUs lacks"
    what = f"{format_size(request.model.weights_bytes)} of weights do not fit on {machine.name}: {gpus} {missing}"
    if others:
        return (
            what,
            f"the smallest that it fits on is {others[0].instance} with tensor parallel {others[0].tensor_parallel_size}",
        )
    return (
        what,
        "it fits on no single node of the catalogue: pipeline parallelism over several nodes is not planned here",
    )


def _nat_findings(request: Request, pods: int, part: Decided) -> Iterator[Finding]:
    connections = part.resources.connections * pods * request.nodes
    most = int(fact("nat.connections_per_destination").value)
    if connections > most:
        yield Finding(
            "nat-connections",
            "warning",
            f"{request.nodes} full nodes open up to {connections:,} connections; NAT holds {most:,} to one destination and address",
            "a gateway endpoint for S3 has no such limit and costs nothing",
        )
