"""manifests/kubelet.py: a container gets the words that were written for it, whatever they look like to kubelet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.manifests.kubelet import Verbatim, escaped, literal
from glowplug.manifests.writing import noted, plain
from glowplug.render import kinds
from glowplug.render.options import Mode
from tests.render.planned import AUTO, GUIDE, SGLANG, TENSORRT, options

NASTY = "$(POD_UID)$$(HOME)$$$(NODE_NAME)$"
VARIABLES = dict.fromkeys(("POD_UID", "HOME", "NODE_NAME"), "REPLACED")


def kubelet(text: str) -> str:
    """What a container gets of a word, as kubelet's third_party/forked/golang/expansion has it."""
    found, place = "", 0
    while place < len(text):
        if text[place] == "$" and place + 1 < len(text):
            if text[place + 1] == "$":
                found, place = found + "$", place + 2
                continue
            end = text.find(")", place)
            if text[place + 1] == "(" and end >= 0:
                found += VARIABLES.get(text[place + 2 : end], text[place : end + 1])
                place = end + 1
                continue
        found, place = found + text[place], place + 1
    return found


@given(st.text("$()A", max_size=12) | st.sampled_from([NASTY, "a$", "$", "$a", "$(", "$(HOME"]))
def test_a_word_arrives_as_it_was_written(text: str) -> None:
    assert kubelet(literal(text)) == text


def test_only_what_would_change_is_changed() -> None:
    assert [literal(text) for text in ("$HOME", "a", '{"a": 1}', "$1")] == ["$HOME", "a", '{"a": 1}', "$1"]


def test_notes_stay_and_other_fields_are_left_alone() -> None:
    found = escaped(
        {
            "spec": noted({"containers": noted([noted({"args": noted([noted("$(A)", "x")], "y")}, "z")], "v")}, "w"),
            "args": ["$(A)"],
            "containers": [{"env": [{"name": "$(A)", "value": noted("$(A)", "n")}], "volumeMounts": ["$(A)"]}],
        }
    )
    assert plain(found) == {
        "spec": {"containers": [{"args": ["$$(A)"]}]},
        "args": ["$(A)"],
        "containers": [{"env": [{"name": "$(A)", "value": "$$(A)"}], "volumeMounts": ["$(A)"]}],
    }
    assert found["spec"].why == "w"
    assert found["spec"].value["containers"].value[0].value["args"].value[0].why == "x"
    assert plain(escaped({"containers": [{"args": [Verbatim("$(A)")]}]})) == {"containers": [{"args": ["$(A)"]}]}


def _containers(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        own = [one for name in ("initContainers", "containers") for one in value.get(name, ())]
        return own + [one for item in value.values() for one in _containers(item)]
    return [one for item in value for one in _containers(item)] if isinstance(value, list) else []


def _arriving(value: Any) -> list[str]:
    """All words and values that containers of a rendering get."""
    found = []
    for one in _containers(value):
        found += [*one.get("command", ()), *one.get("args", ())]
        found += [entry["value"] for entry in one.get("env", ()) if "value" in entry]
    return [kubelet(word) for word in found]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("plan", [AUTO, GUIDE, SGLANG, TENSORRT], ids=lambda plan: f"{plan.engine}-{plan.profile}")
@pytest.mark.parametrize("kind", ["deployment", "bake", "all"])
def test_kubelet_replaces_nothing_that_somebody_gave(kind: str, plan: Any, mode: Mode) -> None:
    streaming = replace(plan.streaming, env={**plan.streaming.env, "AWS_ENDPOINT_URL": f"http://{NASTY}"})
    compiled = replace(plan.compile, env={"A": NASTY}, args=(f"--compile={NASTY}",))
    given = {"model": f"/models/{NASTY}", "store": f"file:///{NASTY}"}
    made = kinds.render(kind, options(replace(plan, streaming=streaming, compile=compiled), mode=mode, **given)).value
    arriving = _arriving(made)
    assert {f"http://{NASTY}", NASTY, f"--compile={NASTY}"} <= set(arriving)
    assert any(word.endswith(f"/models/{NASTY}") for word in arriving)
    told = mode is Mode.DIRECT or kind in ("bake", "all")  # in `all`, by the agent
    assert (f"file:///{NASTY}" in arriving) == told
    assert {word for word in arriving if "REPLACED" in word} <= {"--node-name=REPLACED"}


def test_the_agent_gets_its_store_and_its_node() -> None:
    arriving = _arriving(kinds.render("agent", options(mode=Mode.NODE, store=f"file:///{NASTY}")).value)
    assert {f"--store=file:///{NASTY}", "--node-name=REPLACED"} <= set(arriving)


def test_a_copy_gets_its_address_and_its_script() -> None:
    given = {"model": f"s3://b/{NASTY}", "endpoint": f"http://{NASTY}", "region": "eu-central-1"}
    arriving = _arriving(kinds.render("deployment", options(TENSORRT, **given)).value)
    assert {f"s3://b/{NASTY}", f"http://{NASTY}"} <= set(arriving)
    assert any('"$(ls -A "$to" 2>/dev/null)"' in word for word in arriving)
