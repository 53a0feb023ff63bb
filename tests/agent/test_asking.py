"""What pods of a cluster ask for, read from their specifications, to be brought first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest

from glowplug.agent.asking import Asking, wished
from glowplug.agent.ranking import Wish
from glowplug.agent.settings import Settings
from glowplug.core.errors import GlowplugError, NotFoundError
from glowplug.engines.adapter import Invocation
from glowplug.engines.command import see_through
from glowplug.kube import contract

Keep: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]


def pod(
    *command: str, namespace: str = "team", image: str = "vllm/vllm-openai:v0.21.0", **container: Any
) -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "labels": {"glowplug.dev/mode": "node"}},
        "spec": {"containers": [{"name": "c", "image": image, "command": list(command), **container}]},
    }


SERVE = ("vllm", "serve", "s3://bucket/model")


class TestAPod:
    @pytest.mark.parametrize(
        ("asks", "wish"),
        [
            (pod(*SERVE), Wish("vllm", "s3://bucket/model", 1, "0.21.0")),
            (pod(*SERVE, "--tensor-parallel-size", "4"), Wish("vllm", "s3://bucket/model", 4, "0.21.0")),
            (pod(*SERVE, image="registry/mine:7"), Wish("vllm", "s3://bucket/model", 1)),
            (
                pod("sh", "-c", "exec vllm serve $MODEL", env=[{"name": "MODEL", "value": "m"}]),
                Wish("vllm", "m", 1, "0.21.0"),
            ),
            (pod(args=["--model", "m"]), None),
        ],
    )
    def test_asks_for_what_its_command_says(self, asks: dict[str, Any], wish: Wish | None) -> None:
        if wish is None:
            wish = Wish("vllm", "m", 1, "0.21.0")
        assert wished(asks) == wish

    @pytest.mark.parametrize(
        "asks",
        [
            pod("nginx"),
            pod("sh", "-c", "if true; then vllm serve m; fi"),
            pod("vllm", "serve", "$(MODEL)", env=[{"name": "MODEL", "valueFrom": {"secretKeyRef": {}}}]),
            {**pod(*SERVE), "status": {"phase": "Succeeded"}},
            {},
        ],
    )
    def test_asks_for_nothing_that_can_be_known(self, asks: dict[str, Any]) -> None:
        assert wished(asks) is None


class Api:
    def __init__(self, *pods: dict[str, Any], labels: dict[str, dict[str, str]] | None = None) -> None:
        self._pods = pods
        self._labels = labels or {}
        self.selected = ""
        self.namespaces: list[str] = []

    def survey_pods(self, keep: Keep, *, labels: str = "") -> Iterator[Mapping[str, Any]]:
        self.selected = labels
        for number, one in enumerate(self._pods):
            metadata = one.get("metadata")
            kept = keep({**one, "metadata": {"uid": f"u{number}", **metadata}} if metadata else one)
            if kept is not None:
                yield kept

    def namespace(self, name: str, *, remembered: bool = False) -> dict[str, Any]:
        assert remembered, "nobody reads etcd for a hint"
        self.namespaces.append(name)
        if name not in self._labels:
            raise NotFoundError(name)
        return {"metadata": {"labels": self._labels[name]}}


class Held:
    """A clock that goes on where it is told to."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


SETTINGS = Settings(Path("/nowhere"), "n1", domains=("team", "shared"))


def asking(api: Api, **more: Any) -> Asking:
    return Asking(cast("contract.Api", api), SETTINGS, **more)


def models(wishes: Mapping[str, Sequence[Wish]]) -> Mapping[str, list[str]]:
    return {domain: [wish.model for wish in asked] for domain, asked in wishes.items()}


def test_what_most_pods_ask_for_comes_first() -> None:
    other = pod("vllm", "serve", "m2")
    api = Api(pod(*SERVE), other, other, pod("nginx"))
    assert models(asking(api)()) == {"team": ["m2", "s3://bucket/model"]}
    assert api.selected == "glowplug.dev/mode=node", "the server leaves out the others"


def test_the_domain_is_that_of_the_namespace() -> None:
    api = Api(
        pod(*SERVE, namespace="a"),
        pod("vllm", "serve", "m2", namespace="b"),
        labels={"a": {"glowplug.dev/domain": "shared"}},
    )
    assert list(asking(api)()) == ["shared"]


class TestRounds:
    def test_a_namespace_is_asked_for_once_in_a_while(self) -> None:
        api, clock = Api(pod(*SERVE), pod(*SERVE), pod(*SERVE, namespace="b")), Held()
        ask = asking(api, clock=clock)
        ask(), ask()
        assert api.namespaces == ["team", "b"]
        clock.at += 7200
        ask()
        assert api.namespaces == ["team", "b", "team", "b"]

    def test_pods_of_one_template_are_read_once_and_never_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read = counted(monkeypatch)
        ask = asking(Api(*[pod(*SERVE)] * 500, *[pod("vllm", "serve", "m2")] * 3))
        assert ask() == ask()
        assert len(read) == 2

    def test_pods_of_other_domains_are_not_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read = counted(monkeypatch)
        assert asking(Api(pod(*SERVE, namespace="elsewhere")))() == {}
        assert read == []

    def test_when_the_time_is_over_the_rest_is_for_the_next_round(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Held()
        monkeypatch.setattr("glowplug.agent.asking.see_through", slow(clock))
        ask = asking(Api(*(pod("vllm", "serve", f"m{number}{'x' * number}") for number in range(5))), clock=clock)
        assert [len(found) for _ in range(3) for found in ask().values()] == [2, 4, 5]

    def test_whoever_watches_sees_that_it_goes_on(self) -> None:
        ticks: list[None] = []
        asking(Api(pod(*SERVE), pod("vllm", "serve", "m2")), tick=lambda: ticks.append(None))()
        assert len(ticks) >= 4


class TestMeasures:
    def test_a_pod_of_very_much_text_asks_for_nothing_and_costs_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read = counted(monkeypatch)
        large = pod("sh", "-c", "export A=1\n" * 100_000 + "exec vllm serve m")
        assert wished(large) is None
        assert models(asking(Api(large, pod(*SERVE), large))()) == {"team": ["s3://bucket/model"]}
        assert len(read) == 1

    def test_of_all_texts_together_the_shortest_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("glowplug.agent.asking._MOST_TOGETHER", 20_000)
        large = [pod("vllm", "serve", f"m{number}", "--x", "x" * 9000) for number in range(20)]
        assert "s3://bucket/model" in models(asking(Api(*large, pod(*SERVE), *large))())["team"]

    def test_of_very_many_pods_some(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("glowplug.agent.asking._MOST_PODS", 3)
        found = asking(Api(*(pod("vllm", "serve", f"m{number}") for number in range(9))))()
        assert len(found["team"]) == 3


DEEP: dict[str, Any] = {}
for _ in range(5000):
    DEEP = {"a": DEEP}

FAULTS: list[Any] = [
    {"metadata": None},
    {"metadata": {"namespace": "team"}, "spec": None, "status": None},
    {"metadata": {"namespace": "team"}, "status": {"phase": []}},
    {"metadata": {"namespace": ["team"]}, "spec": {"containers": [{"command": ["vllm", "serve", "m"]}]}},
    {"metadata": {"namespace": "team"}, "spec": {"containers": 7}},
    {"metadata": {"namespace": "team"}, "spec": {"containers": [{"env": DEEP}]}},
    pod("torchrun", "--nproc-per-node", "²", "x"),
    pod("torchrun", "--nproc-per-node", "9" * 5000, "x"),
    pod("torchrun", "x", env=[{"name": "PET_NNODES", "value": "²"}]),
    pod("vllm", "serve", "m", "--compilation-config", "[" * 30_000),
    pod("vllm", "serve", "m", "--compilation-config." + ".".join("a" * 20_000) + "=1"),
]


class TestOnePodsFault:
    @pytest.mark.parametrize("fault", FAULTS, ids=range(len(FAULTS)))
    def test_is_that_pods_only(self, fault: Any) -> None:
        wished(fault)
        assert "m2" in models(asking(Api(fault, pod("vllm", "serve", "m2")))())["team"]

    def test_whatever_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(argv: Sequence[str], *_: Any, **__: Any) -> Any:
            raise ZeroDivisionError if "m1" in argv else GlowplugError("no")

        monkeypatch.setattr("glowplug.agent.asking.see_through", broken)
        assert wished(pod("vllm", "serve", "m1")) is None
        assert asking(Api(pod("vllm", "serve", "m1"), pod("vllm", "serve", "m2")))() == {}


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The commands that are followed from now on."""
    found: list[Sequence[str]] = []

    def see(argv: Sequence[str], *more: Any, **named: Any) -> Invocation:
        found.append(argv)
        return see_through(argv, *more, **named)

    monkeypatch.setattr("glowplug.agent.asking.see_through", see)
    return found


def slow(clock: Held) -> Callable[..., Invocation]:
    def see(argv: Sequence[str], *more: Any, **named: Any) -> Invocation:
        clock.at += 6
        return see_through(argv, *more, **named)

    return see
