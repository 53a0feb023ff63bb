"""Rules over views: order, owners, one finding once, a rule that fails, annotations that ignore."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from glowplug.core.errors import BadInputError
from glowplug.lint import objects
from glowplug.lint.rule import Problem, Rule
from glowplug.lint.run import Options, Report, judge, lint
from glowplug.lint.view import Manifests, Node, Workload
from glowplug.manifests.source import Source
from tests.lint import samples
from tests.lint.samples import DEPLOYMENT, POOL


def _run(*texts: str, rules: tuple[Rule, ...] = samples.RULES) -> Report:
    return lint([Source(f"{number}.yaml", text) for number, text in enumerate(texts, 1)], Options(rules))


def test_findings_are_in_the_order_of_files_lines_and_columns() -> None:
    report = _run(DEPLOYMENT, POOL, DEPLOYMENT.replace("vllm\n", "other\n"))
    places = [(one.file, one.line, one.column) for one in report.findings]
    assert places == sorted(places)
    assert {one.file for one in report.findings} == {"1.yaml", "2.yaml", "3.yaml"}
    assert {one.rule for one in report.findings} == {"eager", "old", "region", "region-too", "image", "secret", "pool"}


def test_a_finding_says_whose_it_is_and_where() -> None:
    [one] = _run(DEPLOYMENT, rules=(samples.EAGER,)).findings
    line = DEPLOYMENT.splitlines().index("            - --enforce-eager") + 1
    assert (one.line, one.column, one.end_line, one.end_column) == (line, 15, line, 30)
    assert one.place.text == "--enforce-eager"
    assert one.object == "Deployment default/vllm"
    assert one.docs == "docs/rules/eager.md"
    assert (one.fixable(unsafe=False), one.fixable(unsafe=True)) == (False, True)


def test_the_object_of_a_rule_about_everything_is_the_one_that_the_place_lies_in() -> None:
    maps = "".join(f"kind: ConfigMap\napiVersion: v1\nmetadata: {{name: m{number}}}\n---\n" for number in range(3))
    findings = _run(maps, rules=(samples.MAPS,)).findings
    assert [one.object for one in findings] == ["ConfigMap m0", "ConfigMap m1", "ConfigMap m2"]
    listed = "kind: List\napiVersion: v1\nitems:\n- kind: ConfigMap\n  apiVersion: v1\n  metadata: {name: inner}\n"
    assert [one.object for one in _run(listed, rules=(samples.MAPS,)).findings] == ["ConfigMap inner"]


def test_the_same_finding_is_told_once() -> None:
    def twice(workload: Workload) -> Iterator[Problem]:
        yield Problem(workload.container.value, "again")
        yield Problem(workload.container.value, "again")
        yield Problem(workload.container.value, "another")

    assert [one.message for one in _run(DEPLOYMENT, rules=(samples.each(twice),)).findings] == ["again", "another"]


def test_a_rule_that_fails_loses_neither_others_nor_what_it_found_before() -> None:
    report = _run(DEPLOYMENT, DEPLOYMENT.replace("name: vllm\n", "name: b\n"), rules=(samples.BROKEN, samples.EAGER))
    assert [one.rule for one in report.findings] == ["broken", "eager", "broken", "eager"]
    [failure] = report.failures
    assert failure.rule == "broken"
    assert failure.object == "Deployment default/vllm"
    assert isinstance(failure.error, ZeroDivisionError)


def test_what_is_no_yaml_is_raised() -> None:
    with pytest.raises(BadInputError):
        _run("a: [", DEPLOYMENT)


ON_OBJECT = ("  namespace: default\n", "  namespace: default\n  annotations: {{ignore.glowplug.dev/{}: {}}}\n")
ON_TEMPLATE = ("      labels: {app: vllm}\n", "      annotations: {{ignore.glowplug.dev/{}: {}}}\n")


@pytest.mark.parametrize(("old", "new"), [ON_OBJECT, ON_TEMPLATE], ids=["object", "pod template"])
@pytest.mark.parametrize(
    ("rule", "reason", "ignored", "told"),
    [
        ("eager", '"we debug here"', 1, ""),
        ("old", "soon", 2, ""),
        ("eager", '""', 0, "without a reason"),
        ("eager", '"  "', 0, "without a reason"),
        ("eager", "", 0, "without a reason"),
        ("eager", "5", 0, "its value is no string"),
        ("eager", "true", 0, "its value is no string"),
        ("eager", '"5"', 1, ""),
        ("eagre", "because", 0, "no such rule (did you mean eager?)"),
        ("nothing-like-it", "because", 0, "no such rule"),
    ],
)
def test_an_annotation_with_a_reason_ignores(
    old: str, new: str, rule: str, reason: str, ignored: int, told: str
) -> None:
    rules = (samples.EAGER, samples.OLD)
    report = _run(DEPLOYMENT.replace(old, new.format(rule, reason)), rules=rules)
    assert report.ignored == ignored
    assert len(report.findings) == 3 - ignored
    assert len(report.notes) == bool(told)
    if told:
        assert told in report.notes[0]
        assert report.notes[0].startswith("1.yaml:")


def test_an_annotation_for_a_rule_that_was_not_asked_is_no_mistake() -> None:
    text = DEPLOYMENT.replace(ON_OBJECT[0], ON_OBJECT[1].format("eager-mode", "meant"))
    assert not _run(text, rules=(samples.OLD,)).notes


def test_annotations_of_other_objects_ignore_nothing() -> None:
    text = DEPLOYMENT.replace(ON_OBJECT[0], ON_OBJECT[1].format("eager", "meant"))
    report = _run(text, DEPLOYMENT, rules=(samples.EAGER,))
    assert [one.file for one in report.findings] == ["2.yaml"]


DAEMON = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  template:
    metadata: {annotations: {ignore.glowplug.dev/hosts: meant}}
    spec:
      containers: [{name: agent, image: "agent:1"}]
      volumes: [{name: disk, hostPath: {path: /mnt}}]
"""


def _hosts(manifests: Manifests) -> Iterator[Problem]:
    """Of every object, its name and what its pods mount of the node."""
    for one in manifests.objects:
        yield Problem(one.value.get("metadata", "name") or one.value, "a name")
        path = one.value.get("spec", "template", "spec", "volumes", 0, "hostPath", "path")
        if path is not None:
            yield Problem(path, "a path")


def test_an_annotation_of_a_pod_template_counts_for_all_that_lies_in_the_pod() -> None:
    hosts = dataclasses.replace(samples.MAPS, name="hosts", everything=_hosts)
    report = _run(DAEMON, rules=(hosts,))
    assert ([one.message for one in report.findings], report.ignored, report.notes) == (["a name"], 1, ())
    both = (
        DAEMON + "---\n" + DAEMON.replace("name: agent}\n", "name: other}\n", 1).replace("hosts: meant", "map: meant")
    )
    assert [one.object for one in _run(both, rules=(hosts, samples.MAPS)).findings if one.message == "a path"] == [
        "DaemonSet other"
    ]


def test_findings_of_a_rule_about_nodes_are_ignored_by_the_pod_that_they_lie_in() -> None:
    manifests = objects.read([Source("1.yaml", POOL + "---\n" + DAEMON)])
    path = manifests.of_kind("DaemonSet")[0].value.get("spec", "template", "spec", "volumes", 0, "hostPath", "path")
    assert path is not None

    def nodes(_: Node) -> Iterator[Problem]:
        yield Problem(path, "a path")

    report = judge(manifests, (dataclasses.replace(samples.POOLS, name="hosts", node=nodes),))
    assert (report.findings, report.ignored) == ((), 1)


def test_mistakes_in_annotations_of_any_pod_are_told() -> None:
    [note] = _run(DAEMON.replace("hosts: meant", "pool: "), rules=(samples.POOLS,)).notes
    assert note.startswith("1.yaml:6:")
    assert "without a reason" in note


def test_node_pools_and_everything_else_can_be_ignored_too() -> None:
    pool = POOL.replace("  name: gpu\n", "  name: gpu\n  annotations: {ignore.glowplug.dev/pool: meant}\n", 1)
    assert _run(pool, rules=(samples.POOLS,)).ignored == 1
    text = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: m, annotations: {ignore.glowplug.dev/map: meant}}\n"
    assert _run(text, rules=(samples.MAPS,)).ignored == 1
