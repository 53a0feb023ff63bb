"""Pods that are not of the shape that Kubernetes demands: an edit refuses them or reads past the oddity, and never fails."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from glowplug.core.errors import GlowplugError
from glowplug.render import kinds
from glowplug.render.options import Mode
from tests.render import planned
from tests.render.injected import DEPLOYMENT, STORE, document, engine, refused, result, template

MODES = ("direct", "node", "shared")
ODD: list[Any] = [None, True, 0, -1.5, "", "data", [], {}, [None], ["data"], [7], [[]], [{}], {"a": None}, {"name": 7}]
SPOTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "volumes": lambda value: template(value)["spec"],
    "initContainers": lambda value: template(value)["spec"],
    "env": engine,
    "envFrom": engine,
    "volumeMounts": engine,
    "command": engine,
    "args": engine,
}
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("key", "odd", "why"),
    [
        *((key, "data", f"`{key}` is no list") for key in SPOTS),
        *((key, {"data": "x"}, f"`{key}` is no list") for key in SPOTS),
        *((key, [7], f"an element of `{key}` is no mapping") for key in SPOTS if key not in ("command", "args")),
        ("volumes", ["data"], "an element of `volumes` is no mapping"),
        ("volumes", [{"emptyDir": {}}], "an element of `volumes` has no `name`"),
        ("env", [{"value": "x"}], "an element of `env` has no `name`"),
        ("volumeMounts", [{"name": "x"}], "an element of `volumeMounts` has no `mountPath`"),
        ("command", ["vllm", "serve", ["x"]], "an element of `command` is no string"),
        ("args", ["--model=m", {"a": "b"}], "an element of `args` is no string"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused(key: str, odd: Any, why: str, mode: str) -> None:
    value = yaml.safe_load(DEPLOYMENT)
    engine(value)["image"] = "vllm/vllm-openai:v0.21.0"
    SPOTS[key](value)[key] = odd
    assert refused(document(value), mode, store=STORE) == f"{why}, which Kubernetes demands"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("odd", [7, "x", None, ["x"]], ids=repr)
def test_a_container_beside_the_engine_that_is_none(odd: Any, mode: str) -> None:
    value = yaml.safe_load(DEPLOYMENT)
    template(value)["spec"]["containers"].append(odd)
    assert "an element of `containers` is no mapping" in refused(document(value), mode, store=STORE)


@pytest.mark.parametrize("odd", [7, "x", ["x"]], ids=repr)
@pytest.mark.parametrize("key", ["metadata", "labels"])
def test_what_a_label_would_overwrite(key: str, odd: Any) -> None:
    value = yaml.safe_load(DEPLOYMENT)
    owner = template(value) if key == "metadata" else template(value)["metadata"]
    owner[key] = odd
    assert f"`{key}` is no mapping" in refused(document(value), "node", store=STORE)


def _manifests() -> Iterator[str]:
    yield json.dumps(yaml.safe_load(DEPLOYMENT))
    for mode in Mode:
        made = kinds.render("deployment", planned.options(planned.AUTO, mode=mode, store=STORE)).value
        yield json.dumps(made)


RENDERED = tuple(_manifests())


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document, as its owner and its key or index."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, below in items:
        yield value, step
        yield from _places(below)


@st.composite
def odd_manifests(draw: st.DrawFn) -> str:
    """What `render` prints, or a person writes, with odd values in a few places."""
    value = json.loads(draw(st.sampled_from(RENDERED)))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(value))
        if not places:
            break
        owner, step = draw(st.sampled_from(places))
        if draw(st.booleans()):
            owner[step] = copy.deepcopy(draw(st.sampled_from(ODD)))
        else:
            del owner[step]
    return yaml.safe_dump(json.loads(json.dumps(value)), sort_keys=False, default_flow_style=draw(st.booleans()))


@pytest.mark.slow
@settings(max_examples=400, phases=PHASES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(before=odd_manifests(), mode=st.sampled_from(MODES))
def test_an_odd_pod_is_edited_whole_or_refused(before: str, mode: str) -> None:
    try:
        once = result(before, mode, store=STORE)
    except GlowplugError as error:
        assert error.message
        return
    (source,) = once.sources
    assert all(one.reason for one in once.objects if one.outcome == "refused")
    if once.refused or not any(one.changes for one in once.objects):
        assert source.text == before
        return
    again = result(source.text, mode, store=STORE)
    assert [one.outcome for one in again.objects] == ["unchanged"], again.objects
    assert again.sources[0].text == source.text
