"""Direct mode on real nodes with real vLLM: a rendered Job bakes, and pods of the rendered Deployment start warm on every node.

Nothing of glowplug runs on the nodes. Pods have no right to write into the store.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import cluster
from lab.fleet import image, rendered, stories
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3", "kube"), pytest.mark.slow]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    with stories.direct_mode(tmp_path_factory.mktemp("direct_mode"), image.archive()) as one:
        yield one


@pytest.fixture(scope="module")
def story(running: cluster.Cluster) -> stories.Direct:
    return stories.direct(running)


def test_the_job_publishes_one_key_and_pods_none(running: cluster.Cluster, story: stories.Direct) -> None:
    assert "glowplug: published" in story.baked
    assert {one.document["publish"]["reason"] for one in story} == {"no_publish"}
    (digest,) = rendered.keys(running, "default")
    assert {one.document["key_digest"] for one in story} == {digest}


def test_pods_on_both_nodes_hit_what_the_job_published(story: stories.Direct) -> None:
    assert [one.node for one in story] == ["node-1", "node-1", "node-2"]
    for one in story:
        assert (one.verdict, one.document["restore"]["outcome"]) == ("hit", "restored"), str(one)
        assert "glowplug: hit" in one.log, "its own log says so"


def test_a_pod_on_a_new_node_starts_like_one_on_a_node_that_had_one_before(
    running: cluster.Cluster, story: stories.Direct
) -> None:
    def take(_: int) -> stories.Pair:
        return stories.again(running, story.second), stories.again(running, story.steady)

    ratios = stories.ratios((story.second, story.steady), 1.5, take)
    assert ratios[-1] <= 1.5, f"{ratios}\n\n{story.steady}\n\n{story.second}"


def test_the_job_compiled_three_times_as_long_as_that(story: stories.Direct) -> None:
    fastest = min(one.init_seconds for one in story)
    assert story.baked_init_seconds >= 3 * fastest, f"{story.baked}\n\n{story.second}"
