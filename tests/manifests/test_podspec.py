"""A pod as the API has it → what its engine's container asks for, as kubelet would start it."""

from __future__ import annotations

from typing import Any

import pytest

from glowplug.manifests import recipe
from glowplug.manifests.podspec import asked, engines, is_open, stand_in, without_launcher

SERVE = ["vllm", "serve", "s3://m/l"]
META = {"name": "vllm-0", "namespace": "team-a", "uid": "uid-1", "labels": {"size": "8"}}


def one(*entries: Any, meta: Any = META, spec: Any = None, **container: Any) -> Any:
    engine = {"name": "vllm", "image": "mine:1", "command": SERVE, "env": list(entries), **container}
    return asked({"metadata": meta, "spec": {"containers": [engine], "nodeName": "n1", **(spec or {})}})


def of(name: str, **source: Any) -> dict[str, Any]:
    return {"name": name, "valueFrom": source}


FIELD = {"fieldPath": "metadata.uid"}
SECRET = of("K", secretKeyRef={"name": "s", "key": "k"})


def test_references_are_kubelet_s() -> None:
    found = one(
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$$(A)-$(LATER)"},
        {"name": "LATER", "value": "2"},
        {"name": "A", "value": "3"},
        command=["vllm", "serve", "$(B)"],
        args=["--port", "$(A)", "$(NOBODY)", "$$(A)", "$A"],
    )
    assert found.environ == {"A": "3", "B": "1-$(A)-$(LATER)", "LATER": "2"}
    assert found.argv == ("vllm", "serve", "1-$(A)-$(LATER)", "--port", "3", "$(NOBODY)", "$(A)", "$A")


def test_what_the_api_does_not_show_has_a_stand_in_and_what_is_made_of_it_too() -> None:
    found = one(SECRET, {"name": "URL", "value": "http://$(K)@host"}, args=["--api-key", "$(K)", "--x=$(URL)"])
    assert found.unknown == {"K", "URL"}
    assert found.environ == {}
    assert found.argv[3:] == ("--api-key", stand_in("K"), f"--x={stand_in('URL')}")
    assert all(map(is_open, found.argv[4:]))
    assert not is_open(found.argv[2])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "vllm-0"),
        ("metadata.namespace", "team-a"),
        ("metadata.uid", "uid-1"),
        ("spec.nodeName", "n1"),
        ("status.podIP", None),
        ("metadata.labels['size']", None),  # anybody with the right may change it after the start
    ],
)
def test_fields_of_the_pod_are_known_where_nobody_can_change_them(path: str, value: str | None) -> None:
    found = one(of("F", fieldRef={"fieldPath": path}))
    assert found.environ.get("F") == value
    assert ("F" in found.unknown) == (value is None)


def test_env_from_leaves_names_open_but_not_those_that_the_pod_sets() -> None:
    source = [{"configMapRef": {"name": "c"}}]
    found = one({"name": "A", "value": "1"}, args=["$(A)", "$(B)"], envFrom=source)
    assert found.open
    assert found.argv[3:] == ("1", stand_in("B"))
    assert not one().open


def test_variables_of_services_may_be_there_unless_the_pod_wants_none() -> None:
    words = ["$(REDIS_SERVICE_HOST)", "$(KUBERNETES_SERVICE_HOST)", "$(OTHER)"]
    assert [is_open(word) for word in one(args=words).argv[3:]] == [True, True, False]
    without = one(args=words, spec={"enableServiceLinks": False})
    assert [is_open(word) for word in without.argv[3:]] == [False, True, False]


def test_references_that_grow_beyond_any_program_are_not_followed() -> None:
    bomb = [{"name": "A0", "value": "x" * 1000}] + [
        {"name": f"A{n}", "value": f"$(A{n - 1})" * 10} for n in range(1, 9)
    ]
    found = one(*bomb, args=["$(A8)"])
    assert is_open(found.argv[3])
    assert sum(map(len, found.environ.values())) < 2**21


def launched(added: recipe.Recipe, words: list[str]) -> dict[str, Any]:
    return {"name": "vllm", "image": "mine:1", "command": added.command(words)}


@pytest.mark.parametrize(
    ("added", "mode"),
    [
        (recipe.node("/mnt/k8s-disks/0", "team-a"), "node"),
        (recipe.direct("glowplug:1", recipe.Start(store="s3://b/c")), "direct"),
        (recipe.bake("glowplug:1", recipe.Start(store="s3://b/c"), 1800), "direct"),
    ],
    ids=["node", "direct", "bake"],
)
def test_the_container_with_our_launcher_is_the_engine_s_whatever_it_starts(added: recipe.Recipe, mode: str) -> None:
    other = {"name": "first", "image": "vllm/vllm-openai:v0.21.0"}
    found = asked({"spec": {"containers": [other, launched(added, ["/app/start", "x"])]}})
    assert found is not None
    assert (found.container, found.mode) == ("vllm", mode)
    assert without_launcher(found.argv) == ("/app/start", "x")


def test_a_shared_directory_of_the_node_is_shared_mode() -> None:
    added = recipe.shared("/mnt/k8s-disks/0")
    path = {"name": "compile-cache", "hostPath": {"path": "/mnt/k8s-disks/0/compile-cache"}}
    assert one(volumeMounts=list(added.mounts), spec={"volumes": [path]}).mode == "shared"
    assert (
        one(volumeMounts=list(added.mounts), spec={"volumes": [{"name": "compile-cache", "emptyDir": {}}]}).mode == ""
    )


@pytest.mark.parametrize(
    ("container", "argv"),
    [
        pytest.param({"command": ["vllm"], "args": ["serve", "m"]}, ("vllm", "serve", "m"), id="by-its-command"),
        pytest.param(
            {"image": "vllm/vllm-openai:v0.21.0", "args": ["--model", "m"]},
            ("vllm", "serve", "--model", "m"),
            id="by-its-image's-server",
        ),
        pytest.param({"image": "mine/vllm:1"}, (), id="by-its-image's-name"),
        pytest.param({"args": ["vllm", "serve", "m"]}, ("vllm", "serve", "m"), id="by-its-arguments"),
        pytest.param({"command": ["trtllm-serve", "m"]}, ("trtllm-serve", "m"), id="an-engine-without-an-adapter"),
        pytest.param(
            {"command": ["./a"], "env": [{"name": "GLOWPLUG_ENGINE", "value": "torch"}]}, ("./a",), id="by-a-variable"
        ),
    ],
)
def test_an_engine_is_known(container: dict[str, Any], argv: tuple[str, ...]) -> None:
    found = asked({"spec": {"containers": [{"name": "proxy", "command": ["envoy"]}, {"name": "e", **container}]}})
    assert found is not None
    assert (found.container, found.argv) == ("e", argv)


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"spec": None},
        {"spec": {"containers": "x"}},
        {"spec": {"containers": [None, 7, {}]}},
        {"spec": {"containers": [{"command": ["envoy"], "image": "envoy:1"}]}},
        {"spec": {"containers": [{"command": [7, None], "env": [{"name": 7}, "x"], "image": []}]}},
    ],
)
def test_a_pod_without_an_engine_asks_for_nothing(pod: Any) -> None:
    assert asked(pod) is None
    assert engines(pod) == ()
