"""Whatever pod a person writes: an edit is whole or refused, a second one finds nothing, and no rule finds more than before."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from glowplug.engines.command import see_through
from glowplug.lint import inject, run
from glowplug.manifests.source import Source
from tests.render.injected import DEPLOYMENT, STORE, engine, result, sets, template

# A failing pod is small enough to read; making it smaller takes minutes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
MODES = st.sampled_from(["direct", "node", "shared"])
COMMANDS = [
    (["vllm", "serve"], ["s3://models/llama", "--tensor-parallel-size=2"]),
    (["python3", "-m", "vllm.entrypoints.openai.api_server"], ["--model=s3://models/llama"]),
    (["/bin/sh", "-c"], ["exec vllm serve $MODEL --port 8000"]),
    (["bash", "-ec", "ulimit -n 65536\nexec vllm serve s3://models/llama\n"], None),
    (["sh", "-c", 'for i in 1; do vllm serve "$(cat /model)"; done'], None),
    (
        ["python3", "-m", "sglang.launch_server"],
        ["--model-path=/models/llama", "--tp-size=2", "--enable-torch-compile"],
    ),
    (None, ["--model", "s3://models/llama"]),
]
IMAGES = [
    "vllm/vllm-openai:v0.21.0",
    "vllm/vllm-openai:latest",
    "lmsysorg/sglang:v0.5.23",
    "mine/vllm@sha256:" + "1" * 64,
]
VARIABLES = [
    {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
    {"name": "MODEL", "value": "s3://models/llama"},
    {"name": "VLLM_CACHE_ROOT", "value": "/root/.cache/vllm"},
    {"name": "TRITON_CACHE_DIR", "value": "/compile-cache/triton"},
    {"name": "XDG_CACHE_HOME", "value": "/compile-cache"},
    {"name": "GLOWPLUG_STORE", "value": "s3://another/cache"},
    {"name": "GLOWPLUG_DISABLE", "value": "1"},
    {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    {"name": "POD_UID", "value": "mine"},
    {"name": "NOTE", "value": "$(POD_UID): '\"\\ # }{ \u00fc"},
]
VOLUMES = [
    {"name": "shm", "emptyDir": {"medium": "Memory"}},
    {"name": "compile-cache", "emptyDir": {}},
    {"name": "compile-cache", "emptyDir": {"sizeLimit": "9Gi"}},
    {"name": "compile-cache", "hostPath": {"path": "/mnt/k8s-disks/0/compile-cache", "type": "DirectoryOrCreate"}},
    {"name": "compile-cache", "persistentVolumeClaim": {"claimName": "c"}},
    {"name": "glowplug", "configMap": {"name": "c"}},
    {"name": "other", "hostPath": {"path": "/data"}},
]
MOUNTS = [
    {"name": "shm", "mountPath": "/dev/shm"},
    {"name": "compile-cache", "mountPath": "/compile-cache"},
    {"name": "compile-cache", "mountPath": "/compile-cache", "readOnly": True},
    {"name": "other", "mountPath": "/compile-cache/vllm"},
    {"name": "other", "mountPath": "/data", "subPath": "x"},
]
INIT = [
    {"name": "wait", "image": "busybox:1.37", "command": ["true"]},
    {
        "name": "owner",
        "image": "busybox:1.37",
        "command": ["chown", "1000", "/c"],
        "volumeMounts": [{"name": "compile-cache", "mountPath": "/c"}],
    },
    {"name": "glowplug", "image": "mine:1"},
]
TOLD = {"leads out of the cache root": "cache-env-outside-mount", "switches the client off": "cache-on-emptydir"}
CONTEXTS: list[dict[str, Any]] = [{}, {"runAsUser": 1000}, {"runAsNonRoot": True}, {"runAsUser": 0}]


def _subset(things: list[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Some of them, each name once."""
    return st.lists(st.sampled_from(things), unique_by=lambda one: one["name"], max_size=5)


@st.composite
def deployments(draw: st.DrawFn) -> str:
    """The text of a Deployment, in a style of YAML or as JSON."""
    value = yaml.safe_load(DEPLOYMENT)
    spec, container = template(value)["spec"], engine(value)
    command, args = draw(st.sampled_from(COMMANDS))
    lists = [
        (container, "env", draw(_subset(VARIABLES))),
        (container, "volumeMounts", draw(st.lists(st.sampled_from(MOUNTS), unique_by=lambda one: one["mountPath"]))),
        (spec, "volumes", draw(_subset(VOLUMES))),
        (spec, "initContainers", draw(_subset(INIT))),
        (container, "command", command),
        (container, "args", args),
    ]
    for owner, key, new in lists:
        owner.pop(key, None)
        # An empty list, null and no key at all mean the same.
        if new or draw(st.booleans()):
            owner[key] = new or draw(st.sampled_from([[], None]))
    container["image"] = draw(st.sampled_from(IMAGES))
    spec["securityContext"] = draw(st.sampled_from(CONTEXTS))
    if draw(st.booleans()):
        spec["hostNetwork"] = draw(st.booleans())
    value = json.loads(json.dumps(value))
    if draw(st.booleans()):
        return json.dumps(value, indent=draw(st.sampled_from([None, 2])))
    return yaml.safe_dump(
        value,
        sort_keys=draw(st.booleans()),
        default_flow_style=draw(st.sampled_from([True, False, None])),
        width=draw(st.sampled_from([40, 10_000])),
        allow_unicode=draw(st.booleans()),
        default_style=draw(st.sampled_from([None, '"', "'"])) if draw(st.booleans()) else None,
    )


def _told(row: inject.Injected) -> set[str]:
    """Rules that may find what the edit left as a person had it, and said so."""
    return {rule for words, rule in TOLD.items() if any(words in note for note in row.notes)}


def _findings(text: str) -> Counter[str]:
    report = run.lint([Source("deploy.yaml", text)], run.Options())
    assert report.failures == ()
    return Counter(one.rule for one in report.findings if one.bad)


@pytest.mark.slow
@settings(max_examples=200, phases=PHASES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(before=deployments(), mode=MODES, other=MODES)
def test_any_pod(before: str, mode: str, other: str) -> None:
    once = result(before, mode, store=STORE)
    (row,), (source,) = once.objects, once.sources
    if row.outcome != "changed":
        assert source.text == before
        assert (row.outcome == "refused") == bool(row.reason)
        return
    after = source.text
    again = result(after, mode, store=STORE)
    assert (again.objects[0].outcome, again.sources[0].text) == ("unchanged", after), again.objects[0]
    _the_engine_starts_as_it_did(before, after)
    _nothing_stands_twice(after)
    assert set(_findings(after) - _findings(before)) <= _told(row)
    there = result(after, other, store=STORE)
    straight = result(before, other, store=STORE)
    if "refused" in (there.objects[0].outcome, straight.objects[0].outcome):
        return
    _nothing_stands_twice(there.sources[0].text)
    _the_engine_starts_as_it_did(before, there.sources[0].text)
    own = bool(engine(before).get("command"))
    one, two = (_of_glowplug(each.sources[0].text, own_command=own) for each in (there, straight))
    assert one == two


def _the_engine_starts_as_it_did(before: str, after: str) -> None:
    """The same program with the same words, seen through the client; an image's own command apart."""
    one, other = engine(before), engine(after)
    assert one.get("args") == other.get("args")
    if one.get("command"):
        words = [[*each["command"], *(each.get("args") or [])] for each in (one, other)]
        seen, wanted = see_through(words[1], {"MODEL": "m"}), see_through(words[0], {"MODEL": "m"})
        assert (seen.opaque, seen.argv if not seen.opaque else ()) == (
            wanted.opaque,
            wanted.argv if not wanted.opaque else (),
        )


def _nothing_stands_twice(text: str) -> None:
    spec, container = template(text)["spec"], engine(text)
    for owner, key, name in (
        (spec, "volumes", "name"),
        (spec, "initContainers", "name"),
        (container, "env", "name"),
        (container, "volumeMounts", "mountPath"),
    ):
        names = [one[name] for one in owner.get(key) or []]
        assert len(set(names)) == len(names), key
    mounted = {one["name"] for one in container.get("volumeMounts") or []}
    defined = {one["name"] for one in spec.get("volumes") or []}
    assert mounted & {"compile-cache", "glowplug", "glowplug-store", "glowplug-outbox"} <= defined


def _of_glowplug(text: str, *, own_command: bool) -> Any:
    """A pod but for what nobody can know of: whether an edit or a person had set these variables or written out this command."""
    found = sets(text)
    container = found["spec"]["containers"][0]
    container["env"] = [one for one in container["env"] if one["name"] not in ("POD_UID", "GLOWPLUG_STORE")]
    if not own_command:
        container.pop("command", None)
    if not found["spec"].get("initContainers"):
        found["spec"].pop("initContainers", None)
    return found
