"""docs/reference/events-and-metrics.md, made of the tables that the agent itself uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.agent.events import COMPONENT, NOT_FETCHING, PREWARMED, REASONS, TAINT_RELEASED, TAINT_REMOVED
from glowplug.agent.metrics import METRICS

if TYPE_CHECKING:
    from glowplug.agent.metrics import Metric

_LINES: Final = (
    (
        "start",
        (
            "A pod's start has its verdict: `verdict`, `restore`, their reasons, seconds and bytes. `handed_over` is `sealed` "
            "where it left artifacts for the agent to judge: `publish` or `refused` says what became of them."
        ),
    ),
    (
        "publish",
        (
            "What became of artifacts that a pod handed over, all of one start together: "
            "`outcome`, `reason`, `parts`, `bytes`; `waiting`: for `again_seconds`."
        ),
    ),
    (
        "refused",
        "Something in an outbox was not believed: `reason`, `detail`. Of the artifacts of one start each reason is told once.",
    ),
    ("unkept", "A pod is of a trust domain that this agent does not keep: `detail`. Once for each such domain."),
    ("set_aside", "This node does without parts of a key for a while: `detail`."),
    ("fetch", "Parts of a key came into the node store."),
    ("damaged", "A `part` of a key is damaged in the store."),
    ("remove", "A key left the node store: `reason`."),
    ("prewarm", "The first fetch of a domain is done."),
    ("fill", "Shared mode's directory was filled: entries `put`, `left` and `failed`, `bytes`, `seconds`."),
    ("taint", "What became of the startup taint: `outcome`."),
    ("nvme", "Where the agent's root lies."),
    (
        "failure",
        "Something did not work and is tried again: `of`, `code`, `error`. Once in ten minutes, with how often `repeated`.",
    ),
)
LINES: Final = tuple(what for what, _ in _LINES)
"""The values of `what` in log lines."""

_ABOVE: Final = f"""\
What a node's agent tells: events for who looks at one pod, metrics for who looks at many, and a log line for each decision.

## Events

`kubectl describe pod` shows them, and `kubectl get events --field-selector source={COMPONENT}` all of a namespace. Those about
nodes are in the namespace `default`. Each is written once, also where the agent is started again; but `{PREWARMED.name}` once
for each start of the agent, `{NOT_FETCHING.name}` once an hour while it lasts, `{TAINT_REMOVED.name}` and `{TAINT_RELEASED.name}`
once for each time that the taint went. What a start hands over in several archives is one event; a part that had to wait for the
store is another. One pod or node gets {{most}} an hour at most, and no more than {{unkept}} a minute are about pods whose domain is
not kept. An event that the API server does not take is lost, and nothing waits for it.

| reason | type | about | means | what to do |
|---|---|---|---|---|
{{events}}

## Metrics

At `/metrics` of `--listen`, in Prometheus' text format. What labels can say is from fixed sets: `domain` is one that this agent
keeps or `other`; `reason` and `code` are words of [errors](../errors.md) and of start documents without their details, or `other`;
`field` is a field of the [key](../cache-key.md). Which argument or variable it was is in events and log lines.

`mode` is the mode whose agents have the metric: node mode, shared mode, or both.

| metric | kind | mode | labels | means | what to do |
|---|---|---|---|---|---|
{{metrics}}

Two questions that come up often:

```
sum by (domain) (rate(glowplug_starts_total{{{{verdict="hit"}}}}[1d])) / sum by (domain) (rate(glowplug_starts_total[1d]))
histogram_quantile(0.9, sum by (le, verdict) (rate(glowplug_start_ready_seconds_bucket[1d])))
```

## Log lines

One JSON object a line on stderr, with `at` (RFC 3339, UTC), `what` and `node`; where it is about a pod, `namespace`, `pod` and
`uid`; `domain` and the first 12 digits of the `key` digest where these are known. Values that are empty are left out.

| `what` | means |
|---|---|
{{lines}}
"""


def events_and_metrics() -> str:
    """The whole page without its head."""
    from glowplug.agent.posting import PER_OBJECT
    from glowplug.agent.voice import UNKEPT_A_MINUTE

    events = [
        f"| `{one.name}` | {one.type} | {one.about} | {_cell(one.means)} | {_cell(one.advice) or '–'} |"
        for one in REASONS
    ]
    metrics = [_row(one) for one in METRICS]
    lines = [f"| `{what}` | {means} |" for what, means in _LINES]
    return _ABOVE.format(
        most=PER_OBJECT,
        unkept=UNKEPT_A_MINUTE,
        events="\n".join(events),
        metrics="\n".join(metrics),
        lines="\n".join(lines),
    )


def _row(one: Metric) -> str:
    mode = one.mode.value if one.mode else "both"
    labels = ", ".join(f"`{label}`" for label in one.labels) or "–"
    return f"| `{one.name}` | {one.kind.value} | {mode} | {labels} | {_cell(one.means)} | {_cell(one.advice) or '–'} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
