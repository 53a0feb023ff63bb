"""A plan as the document `glowplug.plan/1`, and the dataclass from which docs/schema/plan-1.json is generated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from glowplug.core.documents import codec
from glowplug.plan.outcome import Candidate, Compile, Estimate, Placement, Reason, Resources, Streaming

if TYPE_CHECKING:
    from glowplug.plan.outcome import Plan

__all__ = ["Candidate", "Document", "to_document"]


@dataclass(frozen=True)
class ModelFacts:
    """The model. Bytes; null is what was not read (a bare size has nothing else)."""

    source: str
    weights_bytes: int
    shards: int | None
    tensors: int | None
    largest_tensor_bytes: int | None
    parameters: int | None
    dtype: str | None


@dataclass(frozen=True)
class Said:
    """Something to know. `rule` is stable; where a lint rule of that name exists, it means the same."""

    rule: str
    severity: Literal["error", "warning", "info"]
    message: str
    hint: str


@dataclass(frozen=True)
class Document:
    """What `glowplug plan` decided, why, and what it expects of it."""

    profile: str
    engine: str
    engine_version: str
    streamer_version: str | None
    max_model_len: int | None
    nodes: int
    model: ModelFacts
    placement: Placement
    streaming: Streaming
    compile: Compile
    resources: Resources
    estimate: Estimate
    reasons: tuple[Reason, ...]
    findings: tuple[Said, ...]
    schema: str = field(default="glowplug.plan/1")


def to_document(plan: Plan) -> dict[str, Any]:
    """The JSON value, `schema` first."""
    model = plan.model
    document = Document(
        profile=plan.profile,
        engine=plan.engine,
        engine_version=plan.engine_version,
        streamer_version=plan.streamer_version,
        max_model_len=plan.max_model_len,
        nodes=plan.nodes,
        model=ModelFacts(
            source=model.source,
            weights_bytes=model.weights_bytes,
            shards=model.shards,
            tensors=model.tensors,
            largest_tensor_bytes=model.largest_tensor_bytes,
            parameters=model.parameters,
            dtype=model.dtype,
        ),
        placement=plan.placement,
        streaming=plan.streaming,
        compile=plan.compile,
        resources=plan.resources,
        estimate=plan.estimate,
        reasons=plan.reasons,
        findings=tuple(Said(one.rule, one.severity, one.message, one.hint) for one in plan.findings),
    )
    value: dict[str, Any] = codec.to_json(document)
    return {"schema": value.pop("schema"), **value}
