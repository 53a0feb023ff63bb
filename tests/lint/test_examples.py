"""The documentation of every rule is true: its example is found at the place it says, and what it says to use instead is clean."""

from __future__ import annotations

import pytest

from glowplug.core import units
from glowplug.lint import documentation, registry
from glowplug.lint.documentation import Example
from glowplug.lint.findings import Finding
from glowplug.lint.rule import AREAS
from tests.lint import checking

# The promise of the command line: names are never reused, and a severity never changes.
PROMISED = {
    "compile": {
        "eager-mode": "warning",
        "cache-without-compile": "error",
        "compile-cache-disabled": "error",
        "cache-env-missing": "error",
        "cache-env-outside-mount": "error",
        "cache-on-emptydir": "warning",
        "hostpath-not-nvme": "error",
        "hostpath-name-reserved": "error",
        "instance-store-policy-missing": "error",
        "auto-mode-ephemeral-too-large": "warning",
        "cache-shared-by-workloads": "warning",
        "cache-on-network-filesystem": "warning",
        "cache-key-poisoned": "warning",
        "compile-cache-dir-override": "warning",
        "cache-not-writable": "error",
        "compile-switch-missing": "warning",
        "image-unpinned": "warning",
        "model-unpinned": "warning",
        "engine-never-hits": "error",
    },
    "streaming": {
        "streamer-untuned": "warning",
        "concurrency-formula": "info",
        "concurrency-wasted": "info",
        "distributed-without-tp": "warning",
        "distributed-missing": "warning",
        "distributed-corrupts": "error",
        "loader-key-unknown": "error",
        "loader-key-type": "error",
        "streamer-variable-unknown": "warning",
        "streamer-variable-dead": "error",
        "streamer-variable-type": "error",
        "streamer-timeout-ineffective": "info",
        "streamer-low-speed-limit": "warning",
        "endpoint-trailing-slash": "error",
        "endpoint-virtual-hosted": "warning",
        "region-missing": "error",
        "streamer-missing": "warning",
        "host-memory-bound": "error",
        "file-descriptor-bound": "warning",
        "scheme-case": "error",
    },
    "kubernetes": {
        "gpu-count-mismatch": "error",
        "gpu-toleration-missing": "warning",
        "startup-probe-too-short": "error",
        "liveness-kills-start": "error",
        "device-plugin-taint": "error",
        "gpu-product-selector": "error",
        "startup-taint-missing": "warning",
        "startup-taint-prefix": "warning",
        "nodepool-mixed-gpus": "warning",
        "service-account-missing": "warning",
        "agent-tolerations": "error",
        "nonroot-hostpath-cache": "error",
    },
}

NAMES = list(registry.RULES)


@pytest.mark.parametrize("area", AREAS)
def test_the_rules_are_those_promised_in_their_order(area: str) -> None:
    there = {one.name: one.severity.value for one in registry.RULES.values() if one.area == area}
    assert there == PROMISED[area]
    assert list(there) == list(PROMISED[area])


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_has_one_check_and_a_file_of_its_name(name: str) -> None:
    rule = registry.rule(name)
    checks = [check for check in (rule.workload, rule.node, rule.everything) if check is not None]
    assert len(checks) == 1
    module = checks[0].__module__
    assert module == f"glowplug.lint.rules.{rule.area}.{name.replace('-', '_')}"


@pytest.mark.parametrize("name", NAMES)
def test_the_documentation_has_its_sections(name: str) -> None:
    read = documentation.read(registry.rule(name))
    assert tuple(read.sections) == documentation.SECTIONS
    assert len(read.summary) <= 120


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_found_where_it_says(name: str) -> None:
    example = documentation.read(registry.rule(name)).example
    findings = _found(name, example)
    assert findings, "the rule finds nothing in its own example"
    first = findings[0]
    assert checking.at(first) == example.finds
    if example.line is None:
        assert example.text.count(example.finds) == 1, "say in which line: Finds `text` in line N."
    else:
        assert first.line == example.line


@pytest.mark.parametrize("name", NAMES)
def test_what_to_use_instead_is_clean(name: str) -> None:
    assert _found(name, documentation.read(registry.rule(name)).instead) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_fix_of_the_example_does_what_it_says(name: str) -> None:
    """No fix is announced that there is not, and the safe fix of a rule mends its example."""
    read = documentation.read(registry.rule(name))
    fixes = {one.fix.safe for one in _found(name, read.example) if one.fix}
    announced = not read.fix_safety.lower().startswith("no fix")
    if fixes:
        assert announced, "the example has a fix: say so under Fix safety"
    for unsafe in (False, True):
        checking.fixed(name, read.example.text, unsafe=unsafe, compute=read.example.compute, size=_size(read.example))


@pytest.mark.parametrize("name", NAMES)
def test_messages_are_sentences_without_a_full_stop(name: str) -> None:
    for one in _found(name, documentation.read(registry.rule(name)).example):
        assert one.message
        assert "\n" not in one.message + one.hint
        assert not one.message.endswith(".")
        assert not one.hint.endswith(".")
        assert one.fix is None or (one.fix.title and not one.fix.title.endswith("."))


def _found(name: str, example: Example) -> list[Finding]:
    return checking.found(name, example.text, compute=example.compute, size=_size(example))


def _size(example: Example) -> int | None:
    return units.parse_size(example.size) if example.size else None
