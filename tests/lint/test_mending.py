"""Repairs are made where the words stand: in items, in scripts and their quotes, in JSON; what is not certain is left alone."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from glowplug.lint import mending, objects
from glowplug.lint.view import Workload
from glowplug.manifests import edit
from glowplug.manifests.source import Source
from tests.lint.reading import pod, workload

Mend = Callable[[Workload], "tuple[edit.Operation, ...] | None"]

VLLM = "image: vllm/vllm-openai:v0.21.0\n"


def mended(container: str, mend: Mend) -> str | None:
    """The container's text after a repair, without its image; None where it is refused."""
    text = pod(VLLM + textwrap.dedent(container))
    one = workload(text)
    operations = mend(one)
    if operations is None:
        return None
    changed = edit.apply(Source("1.yaml", text), operations)
    again = objects.read([Source("1.yaml", changed)]).workloads
    assert len(again) == 1
    assert again[0].engine.opaque == one.engine.opaque
    body = changed.partition("v0.21.0\n")[2]
    return textwrap.dedent(body).strip("\n")


def option(name: str, value: str | None = None) -> Mend:
    return lambda one: mending.set_option(one, name, value)


def without(name: str) -> Mend:
    return lambda one: mending.remove_option(one, name)


def extra(key: str, value: Any) -> Mend:
    return lambda one: mending.set_extra(one, key, value)


def no_extra(key: str) -> Mend:
    return lambda one: mending.remove_extra(one, key)


def renamed_extra(key: str, to: str) -> Mend:
    return lambda one: mending.rename_extra(one, key, to)


def variable(name: str, value: str) -> Mend:
    return lambda one: mending.set_variable(one.container, name, value)


def no_variable(name: str) -> Mend:
    return lambda one: mending.remove_variable(one.container, name)


def renamed_variable(name: str, to: str) -> Mend:
    return lambda one: mending.rename_variable(one.container, name, to)


CASES: dict[str, tuple[str, Mend, str | None]] = {
    "a value in its item": ("args: [m, --port=1]", option("port", "2"), "args: [m, --port=2]"),
    "a value in an item of its own": ('args: [m, --port, "1"]', option("port", "2"), 'args: [m, --port, "2"]'),
    "an alias stays": ("args: [m, -tp=1]", option("tensor-parallel-size", "2"), "args: [m, -tp=2]"),
    "the one that counts": ("args: [m, --port=1, --port=2]", option("port", "3"), "args: [m, --port=1, --port=3]"),
    "a flag that is there": ("args: [m, --enforce-eager]", option("enforce-eager"), "args: [m, --enforce-eager]"),
    "a flag that is off": (
        "args:\n- m\n- --no-enforce-eager",
        option("enforce-eager"),
        "args:\n- m\n- --enforce-eager",
    ),
    "a new option among joined ones": (
        "args:\n- m\n- --host=x  # here",
        option("port", "2"),
        "args:\n- m\n- --host=x  # here\n- --port=2",
    ),
    "a new option among parted ones": (
        'args:\n- m\n- --host\n- x\n- --seed\n- "1"',
        option("port", "2"),
        'args:\n- m\n- --host\n- x\n- --seed\n- "1"\n- --port\n- "2"',
    ),
    "a new flag": ("args:\n- m", option("enforce-eager"), "args:\n- m\n- --enforce-eager"),
    "a first option": ("command: [vllm, serve]", option("port", "2"), "command: [vllm, serve]\nargs:\n- --port=2"),
    "a value in a script": (
        "command: [sh, -c, 'vllm serve m --port 1 --host x']",
        option("port", "2"),
        "command: [sh, -c, 'vllm serve m --port 2 --host x']",
    ),
    "a value in a script's quotes": (
        """command: [sh, -c, 'vllm serve m --host="x y"']""",
        option("host", "z"),
        """command: [sh, -c, 'vllm serve m --host="z"']""",
    ),
    "a value that needs quotes": (
        "command: [sh, -c, vllm serve m --host x]",
        option("host", "a b"),
        "command: [sh, -c, vllm serve m --host 'a b']",
    ),
    "a new option in a script": (
        "command: [sh, -c, vllm serve m --host=x]",
        option("port", "2"),
        "command: [sh, -c, vllm serve m --host=x --port=2]",
    ),
    "a new option on a line of its own": (
        "command: [sh, -c]\nargs:\n- |\n  vllm serve m \\\n    --host x \\\n    --seed 1 | tee /l\n  # end",
        option("port", "2"),
        "command: [sh, -c]\nargs:\n- |\n  vllm serve m \\\n    --host x \\\n    --seed 1 \\\n    --port 2 | tee /l\n  # end",
    ),
    "a new option behind the arguments of a script": (
        """command: [sh, -c, 'vllm serve "$@"', sh]\nargs:\n- m\n- --host=x""",
        option("port", "2"),
        """command: [sh, -c, 'vllm serve "$@"', sh]\nargs:\n- m\n- --host=x\n- --port=2""",
    ),
    "a variable's value is somebody else's": (
        'args: [m, --port=$(PORT)]\nenv: [{name: PORT, value: "1"}]',
        option("port", "2"),
        None,
    ),
    "a shell variable's too": (
        "command: [sh, -c, vllm serve m --port $PORT]\nenv: [{name: PORT, value: '1'}]",
        option("port", "2"),
        None,
    ),
    "a script within a script": (
        """command: [sh, -c, "sh -c 'vllm serve m --port 1'"]""",
        option("port", "2"),
        None,
    ),
    "an opaque command": ("command: [sh, /x.sh]", option("port", "2"), None),
    "away with an option": ("args: [m, --port=1, --host=x]", without("port"), "args: [m, --host=x]"),
    "away with its value": ("args:\n- m\n- --port\n- '1'\n- --host=x", without("port"), "args:\n- m\n- --host=x"),
    "away with all of a name": (
        "args: [m, --enforce-eager, --seed=1, --no-enforce-eager]",
        without("enforce-eager"),
        "args: [m, --seed=1]",
    ),
    "away in a script": (
        "command: [sh, -c, vllm serve m --port 1 --host x]",
        without("port"),
        "command: [sh, -c, vllm serve m --host x]",
    ),
    "away with its line": (
        "command: [sh, -c]\nargs:\n- |\n  vllm serve m \\\n    --port 1 \\\n    --host x",
        without("port"),
        "command: [sh, -c]\nargs:\n- |\n  vllm serve m \\\n    --host x",
    ),
    "away with the last line": (
        "command: [sh, -c]\nargs:\n- |\n  vllm serve m \\\n    --host x \\\n    --port=1",
        without("port"),
        "command: [sh, -c]\nargs:\n- |\n  vllm serve m \\\n    --host x",
    ),
    "away from a folded block": (
        "command: [sh, -c]\nargs:\n- >-\n  vllm serve m --port=1\n  --host x",
        without("port"),
        "command: [sh, -c]\nargs:\n- >-\n  vllm serve m\n  --host x",
    ),
    "away with what is not there": ("args: [m]", without("port"), "args: [m]"),
    "not out of a variable": (
        "command: [sh, -c, vllm serve m $FLAGS]\nenv: [{name: FLAGS, value: --port 1 --host x}]",
        without("port"),
        None,
    ),
    "a key of JSON": (
        """args: [m, '--model-loader-extra-config={"concurrency": 16, "x": 1}']""",
        extra("concurrency", 32),
        """args: [m, '--model-loader-extra-config={"concurrency": 32, "x": 1}']""",
    ),
    "a key of JSON in a double-quoted scalar": (
        r"""args: [m, "--model-loader-extra-config={\"concurrency\": \"16\"}"]""",
        extra("concurrency", 16),
        r"""args: [m, "--model-loader-extra-config={\"concurrency\": 16}"]""",
    ),
    "a key of JSON in a script": (
        """command: [sh, -c]\nargs:\n- |\n  set -e\n  vllm serve m --model-loader-extra-config '{"concurrency":16}'""",
        extra("distributed", value=True),
        """command: [sh, -c]
args:
- |
  set -e
  vllm serve m --model-loader-extra-config '{"concurrency":16,"distributed":true}'""",
    ),
    "a key of JSON with a script's escapes": (
        r"""command: [sh, -c]
args:
- |
  set -e
  vllm serve m --model-loader-extra-config "{\"concurrency\": 16}" --port 1""",
        extra("distributed", value=True),
        r"""command: [sh, -c]
args:
- |
  set -e
  vllm serve m --model-loader-extra-config "{\"concurrency\": 16, \"distributed\": true}" --port 1""",
    ),
    "a first key": (
        "args: [m, '--model-loader-extra-config={}']",
        extra("concurrency", 32),
        """args: [m, '--model-loader-extra-config={"concurrency": 32}']""",
    ),
    "JSON that was not there": (
        "args:\n- m\n- --port\n- '1'",
        extra("concurrency", 32),
        """args:\n- m\n- --port\n- '1'\n- --model-loader-extra-config\n- '{"concurrency": 32}'""",
    ),
    "a dotted key": (
        "args: [m, --model-loader-extra-config.concurrency=16]",
        extra("concurrency", 32),
        "args: [m, --model-loader-extra-config.concurrency=32]",
    ),
    "one more dotted key": (
        "args:\n- m\n- --model-loader-extra-config.concurrency=16",
        extra("distributed", value=True),
        "args:\n- m\n- --model-loader-extra-config.concurrency=16\n- --model-loader-extra-config.distributed=true",
    ),
    "away with a first key": (
        """args: [m, '--model-loader-extra-config={"x": 1, "concurrency": 16}']""",
        no_extra("x"),
        """args: [m, '--model-loader-extra-config={"concurrency": 16}']""",
    ),
    "away with a last key": (
        """args: [m, '--model-loader-extra-config={"concurrency": 16, "x": 1}']""",
        no_extra("x"),
        """args: [m, '--model-loader-extra-config={"concurrency": 16}']""",
    ),
    "away with the only key": (
        """args: [m, '--model-loader-extra-config={"x": 1}', --port=1]""",
        no_extra("x"),
        "args: [m, --port=1]",
    ),
    "away with a dotted key": (
        "args: [m, --model-loader-extra-config.x, '1', --model-loader-extra-config.concurrency=16]",
        no_extra("x"),
        "args: [m, --model-loader-extra-config.concurrency=16]",
    ),
    "another name for a key": (
        """args: [m, '--model-loader-extra-config={"concurency": 16}']""",
        renamed_extra("concurency", "concurrency"),
        """args: [m, '--model-loader-extra-config={"concurrency": 16}']""",
    ),
    "another name for a dotted key": (
        "args: [m, --model-loader-extra-config.concurency=16]",
        renamed_extra("concurency", "concurrency"),
        "args: [m, --model-loader-extra-config.concurrency=16]",
    ),
    "no name that is taken": (
        """args: [m, '--model-loader-extra-config={"a": 16, "b": 1}']""",
        renamed_extra("a", "b"),
        None,
    ),
    "what is no JSON": ("args: [m, --model-loader-extra-config=x]", extra("a", 1), None),
    "JSON of a variable": (
        """args: [m, --model-loader-extra-config=$(C)]\nenv: [{name: C, value: '{"a": 1}'}]""",
        extra("a", 2),
        None,
    ),
    "a variable's value": (
        'args: [m]\nenv:\n- name: A\n  value: "1"  # one',
        variable("A", "2"),
        'args: [m]\nenv:\n- name: A\n  value: "2"  # one',
    ),
    "a new variable": (
        "args: [m]\nenv:\n- name: A\n  value: x",
        variable("B", "2"),
        'args: [m]\nenv:\n- name: A\n  value: x\n- name: B\n  value: "2"',
    ),
    "a first variable": ("args: [m]", variable("B", "x"), "args: [m]\nenv:\n- name: B\n  value: x"),
    "a variable with dollars": (
        "args: [m]\nenv:\n- name: B\n  value: y",
        variable("B", "$(A)$$"),
        "args: [m]\nenv:\n- name: B\n  value: $$(A)$$$$",
    ),
    "a variable of a secret": (
        "args: [m]\nenv: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
        variable("A", "2"),
        None,
    ),
    "a variable of the script": ("command: [sh, -c, A=1 vllm serve m]", variable("A", "2"), None),
    "away with a variable": (
        "args: [m]\nenv:\n- {name: A, value: x}\n- {name: B, value: y}",
        no_variable("A"),
        "args: [m]\nenv:\n- {name: B, value: y}",
    ),
    "away with the only one": ("args: [m]\nenv:\n- {name: A, value: x}", no_variable("A"), "args: [m]"),
    "not with one that is used": (
        "args: [m, --host=$(A)]\nenv:\n- {name: A, value: x}",
        no_variable("A"),
        None,
    ),
    "another name for a variable": (
        "args: [m]\nenv:\n- {name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}",
        renamed_variable("A", "B"),
        "args: [m]\nenv:\n- {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}",
    ),
    "not for one whose name is taken": (
        "args: [m]\nenv: [{name: A, value: x}, {name: B, value: y}]",
        renamed_variable("A", "B"),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_repairs(name: str) -> None:
    container, mend, wanted = CASES[name]
    assert mended(container, mend) == wanted


def test_fields_are_made_with_what_leads_to_them() -> None:
    text = pod(VLLM + "args: [m]\nresources:\n  limits: {memory: 1Gi}\nsecurityContext:")
    one = workload(text)
    for path, data, wanted in (
        (("resources", "limits", "memory"), "2Gi", "limits: {memory: 2Gi}"),
        (("resources", "requests", "memory"), "2Gi", "requests:\n            memory: 2Gi"),
        (("securityContext", "runAsUser"), 0, "securityContext:\n          runAsUser: 0"),
    ):
        operations = mending.set_field(one.container.value, path, data)
        assert operations is not None
        assert wanted in edit.apply(one.object.value.source, operations)
    assert mending.set_field(one.container.value, ("args", "x"), 1) is None


def test_no_finding_of_an_operation_is_lost_among_others() -> None:
    text = pod(VLLM + "args:\n- m\n- --enforce-eager\n- --port=1")
    one = workload(text)
    operations = [*(mending.remove_option(one, "enforce-eager") or ()), *(mending.set_option(one, "port", "2") or ())]
    operations += [*(mending.set_option(one, "host", "x") or ())]
    changed = edit.apply(one.object.value.source, operations)
    assert "- m\n        - --port=2\n        - --host=x\n" in changed
