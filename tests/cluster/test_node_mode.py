"""Node mode on real nodes with real vLLM: the rendered agent, the rendered Deployment, and nobody who does anything in between.

The first pod compiles, the agent publishes what it compiled, later pods of that node and a node that joins later start warm. Pods
have no right to anything in the bucket of the store.
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
    with stories.node_mode(tmp_path_factory.mktemp("node_mode"), image.archive()) as one:
        yield one


@pytest.fixture(scope="module")
def story(running: cluster.Cluster) -> stories.Joining:
    return stories.joining(running)


def test_only_the_first_pod_compiles(story: stories.Joining) -> None:
    assert [one.verdict for one in story] == ["miss", "hit", "hit", "hit"], "\n\n".join(map(str, story))
    assert [one.node for one in story] == ["node-1", "node-1", "node-1", "node-2"]


def test_the_pod_that_waited_for_a_node_starts_three_times_faster_than_the_first(story: stories.Joining) -> None:
    assert story.first.init_seconds >= 3 * story.joined.init_seconds, f"{story.first}\n\n{story.joined}"


def test_all_have_one_key_and_restore_from_their_node(running: cluster.Cluster, story: stories.Joining) -> None:
    (digest,) = rendered.keys(running, "default")
    assert {one.document["key_digest"] for one in story} == {digest}
    for one in (story.second, story.third, story.joined):
        assert one.document["restore"]["outcome"] == "restored", str(one)


def test_the_pod_that_waited_starts_like_a_pod_on_a_warm_node(running: cluster.Cluster, story: stories.Joining) -> None:
    """Last, because more nodes join when the seconds of the first two starts are no good."""

    def take(number: int) -> stories.Pair:
        return stories.joined(running, 4 + number), stories.again(running, story.third)

    ratios = stories.ratios((story.joined, story.third), 1.5, take)
    assert ratios[-1] <= 1.5, f"{ratios}\n\n{story.third}\n\n{story.joined}"
