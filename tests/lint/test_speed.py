"""What linting costs, as ratios: time grows with the manifests and no faster, and is small beside what YAML itself costs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
import yaml

from glowplug.lint import document, github, inject, text
from glowplug.lint.fixing import fix
from glowplug.lint.run import Options, lint
from glowplug.manifests.source import Source
from glowplug.render import options as render_options
from tests.lint.samples import DEPLOYMENT, POOL

SHARING = DEPLOYMENT.replace(
    "          env:\n",
    "          resources: {limits: {nvidia.com/gpu: 2}}\n"
    "          volumeMounts: [{name: cache, mountPath: /compile-cache}]\n"
    "          env:\n"
    "            - {name: XDG_CACHE_HOME, value: /compile-cache}\n",
).replace(
    "      containers:\n",
    "      volumes: [{name: cache, hostPath: {path: /mnt/k8s-disks/0/compile-cache}}]\n      containers:\n",
)


def _many(number: int) -> str:
    """Deployments that share a cache directory and may land on a pool: what makes rules look at all of them."""
    texts = [SHARING.replace("  name: vllm\n", f"  name: vllm-{place}\n", 1) for place in range(number)]
    return "---\n".join([*texts, POOL])


def _seconds(work: Callable[[], object]) -> float:
    """Of the processor: what others do on this machine is not the question."""

    def once() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return min(once() for _ in range(3))


@pytest.mark.slow
@pytest.mark.parametrize("files", ["one file", "a file each"])
def test_four_times_the_manifests_take_four_times_as_long(files: str) -> None:
    def take(number: int) -> float:
        texts = [_many(number)] if files == "one file" else _many(number).split("---\n")
        sources = [Source(f"{place}.yaml", text) for place, text in enumerate(texts)]
        report = lint(sources, Options(None))
        assert len(report.findings) > number
        return _seconds(lambda: lint(sources, Options(None)))

    take(10)
    few, many = take(100), take(400)
    assert many / few < 8, "twice what it should be; with the square of the number it would be 16"


MENDABLE = DEPLOYMENT.replace(
    "            - s3://bucket/model\n",
    '            - s3://bucket/model\n            - \'--model-loader-extra-config={"concurrency": "16"}\'\n',
).replace(
    "          env:\n",
    "          env:\n"
    "            - {name: RUNAI_STREAMER_CHUNK_BYTESIZE, value: 4GiB}\n"
    '            - {name: RUNAI_STREAMER_S3_LOW_SPEED_LIMIT, value: "1048576"}\n',
)


def _mendable(number: int) -> str:
    return "---\n".join(MENDABLE.replace("  name: vllm\n", f"  name: vllm-{place}\n", 1) for place in range(number))


@pytest.mark.slow
def test_fixing_takes_no_longer_than_linting_a_few_times() -> None:
    """Nothing is read again for each fix: once before, once after, and what is changed as often as it is."""
    text = _mendable(300)
    report = lint([Source("a.yaml", text)], Options(None))
    assert sum(one.fixable(unsafe=False) for one in report.findings) >= 3 * 300
    linted = _seconds(lambda: lint([Source("a.yaml", text)], Options(None)))
    mended = _seconds(lambda: fix([Source("a.yaml", text)], Options(None)))
    assert mended / linted < 8, "4 is meant; the rest is room for a machine that is busy"


@pytest.mark.slow
def test_a_fix_that_is_refused_costs_the_others_nothing() -> None:
    """An alias shares what would change in one document of many."""
    shared = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shared, annotations: &all {a: b}}\n"
        "spec: {template: {metadata: {annotations: *all}, spec: {containers: [{name: vllm, "
        "image: vllm/vllm-openai:v0.33.0, args: [&model S3://bucket/model, --served-model-name, *model]}]}}}\n"
    )
    text = f"{_mendable(200)}---\n{shared}"
    done = fix([Source("a.yaml", text)], Options(None))
    assert [one.finding.object for one in done.refused] == ["Deployment shared"]
    linted = _seconds(lambda: lint([Source("a.yaml", text)], Options(None)))
    assert _seconds(lambda: fix([Source("a.yaml", text)], Options(None))) / linted < 30


@pytest.mark.slow
def test_injecting_grows_with_the_manifests_and_no_faster() -> None:
    options = render_options.Options(name="pods", store="s3://bucket/cache")

    def take(number: int) -> float:
        return _seconds(lambda: inject.inject([Source("a.yaml", _mendable(number))], options))

    take(5)
    assert take(160) / take(40) < 8


@pytest.mark.slow
def test_all_rules_take_no_longer_than_a_few_times_what_libyaml_takes() -> None:
    """3 s for 1,000 Deployments are five times libyaml's composer; the rest is room for a machine that is busy."""
    text = _many(300)
    parse = _seconds(lambda: list(yaml.compose_all(text, Loader=yaml.CSafeLoader)))
    whole = _seconds(lambda: lint([Source("a.yaml", text)], Options(None)))
    assert whole / parse < 8


@pytest.mark.slow
@pytest.mark.parametrize("lines", ["many", "one"])
def test_showing_findings_grows_with_their_number_and_no_faster(lines: str) -> None:
    """By the processor's time. Every Deployment has a secret that no excerpt may show."""

    def take(number: int) -> float:
        given = _many(number)
        if lines == "one":
            given = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(yaml.safe_load_all(given))})
        report = lint([Source("a.yaml", given)], Options(None))
        summary = document.summarize(report, 1)
        assert len(report.findings) > number
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            text.text(report, summary)
            document.to_document(report.findings, summary)
            github.commands(report.findings)
            best = min(best, time.process_time() - began)
        return best

    take(5)
    assert take(200) / take(50) < 8, "with the square of the number it would be 16"
