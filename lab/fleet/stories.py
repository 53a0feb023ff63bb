"""The sequences of starts that glowplug is for, on a cluster, each as data: tests judge them, a bench shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import cluster, engine, model, s3
from lab.fleet import rendered, starts
from lab.kube.client import wait_for

MODEL = "s3://models/tiny"
NAME = "vllm-inference"
_WORDS = (MODEL, "--size=10MB", "--max-model-len=512", f"--image={rendered.ENGINE_IMAGE}")
_STORE = "s3://cache"

Pair = tuple[starts.Seen, starts.Seen]
"""Two starts that are compared by their seconds."""


@dataclass(frozen=True)
class Direct:
    """A Job bakes; then a pod on one node, another one there when it is the second of its kind, and a pod on the other node."""

    baked: str
    """What the Job's pod printed."""
    first: starts.Seen
    steady: starts.Seen
    second: starts.Seen

    def __iter__(self) -> Iterator[starts.Seen]:
        return iter((self.first, self.steady, self.second))

    @property
    def baked_init_seconds(self) -> float:
        """What the Job's engine says of its initialisation."""
        return starts.init_seconds(self.baked)


@dataclass(frozen=True)
class Joining:
    """Node mode: three pods of the first node one after the other, then one that waited for the node that joins."""

    first: starts.Seen
    second: starts.Seen
    third: starts.Seen
    joined: starts.Seen

    def __iter__(self) -> Iterator[starts.Seen]:
        return iter((self.first, self.second, self.third, self.joined))


@contextmanager
def direct_mode(place: Path, image: Path) -> Iterator[cluster.Cluster]:
    """Two nodes with two GPUs and with one. `image` is an archive of glowplug's image, `place` a directory for the model."""
    with cluster.up([rendered.gpu_node(2), rendered.gpu_node()], buckets=["models", "cache"]) as running:
        _prepare(running, place, image)
        yield running


@contextmanager
def node_mode(place: Path, image: Path) -> Iterator[cluster.Cluster]:
    """One node with three GPUs, and the rendered agent ready on it."""
    with cluster.up([rendered.gpu_node(3)], buckets=["models", "cache"]) as running:
        _prepare(running, place, image)
        agent = rendered.render("agent", "--mode=node", f"--store={_STORE}", "--domain=default")
        rendered.apply(running, rendered.reaching(agent, running.s3))
        rendered.wait_for_agents(running)
        yield running


def direct(running: cluster.Cluster) -> Direct:
    """On the nodes of `direct_mode`, one after the other. Pods may read the store, the Job may write it."""
    python = engine.build()
    running.kubectl("cordon", "node-2")
    job = rendered.render("bake", *_WORDS, f"--store={_STORE}")
    rendered.apply(running, rendered.on_a_cpu(job, python, running.s3))
    baked = starts.wait_for_job(running, f"{NAME}-bake")
    documents = rendered.render("deployment", *_WORDS, f"--store={_STORE}")
    rendered.apply(running, rendered.on_a_cpu(documents, python, running.s3.with_keys(s3.READER)))
    known: set[str] = set()
    first = starts.seen(running, starts.new_pod(running, NAME, known))
    starts.scale(running, NAME, 2)
    steady = starts.seen(running, starts.new_pod(running, NAME, known))
    running.kubectl("uncordon", "node-2")
    starts.scale(running, NAME, 3)
    return Direct(baked, first, steady, starts.seen(running, starts.new_pod(running, NAME, known)))


def joining(running: cluster.Cluster) -> Joining:
    """On the node of `node_mode`. Pods may read the model, and nothing of the store."""
    documents = rendered.render("deployment", *_WORDS, "--mode=node")
    rendered.apply(running, rendered.on_a_cpu(documents, engine.build(), running.s3.with_keys(s3.GUEST)))
    known: set[str] = set()
    first = starts.seen(running, starts.new_pod(running, NAME, known))
    rendered.wait_for_keys(running, "default")
    starts.scale(running, NAME, 2)
    second = starts.seen(running, starts.new_pod(running, NAME, known))
    starts.scale(running, NAME, 3)
    third = starts.seen(running, starts.new_pod(running, NAME, known))
    return Joining(first, second, third, joined(running, 4))


def joined(running: cluster.Cluster, replicas: int) -> starts.Seen:
    """The start of one replica more than there are GPUs for, on a node that joins because of it."""
    known = _present(running)
    starts.scale(running, NAME, replicas)
    waiting = starts.new_pod(running, NAME, known)
    wait_for(30, "no node has a GPU for this pod", lambda: starts.unschedulable(running.pod(waiting)))
    shape = rendered.gpu_node()
    running.add_node(shape.labels, shape.taints, shape.gpus, counted=shape.counted)
    return starts.seen(running, waiting)


def again(running: cluster.Cluster, one: starts.Seen) -> starts.Seen:
    """The start of another pod in the place of that one, where no other GPU is free."""
    known = _present(running)
    running.kubectl("delete", "pod", one.pod)
    return starts.seen(running, starts.new_pod(running, NAME, known))


def ratios(pair: Pair, goal: float, take: Callable[[int], Pair], most: int = 3) -> list[float]:
    """First ÷ second of that pair's initialisation, and of so many more as it takes to meet the goal.

    What else a machine does makes one start in some slower by half, and hardly those of three pairs in a row.
    """
    found = [pair[0].init_seconds / pair[1].init_seconds]
    while found[-1] > goal and len(found) < most:
        one, other = take(len(found))
        found.append(one.init_seconds / other.init_seconds)
    return found


def _present(running: cluster.Cluster) -> set[str]:
    return {str(pod["metadata"]["name"]) for pod in starts.named(running, NAME)}


def _prepare(running: cluster.Cluster, place: Path, image: Path) -> None:
    running.load_image(image)
    model.make(place / "model")
    model.upload(place / "model", MODEL, running.s3.env())
    rendered.may_read(running.s3, "models")
