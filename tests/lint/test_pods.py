"""Containers as kubelet starts them: variables, mounts, quantities; malformed parts are skipped."""

from __future__ import annotations

import pytest

from glowplug.lint.quantities import quantity
from tests.lint.reading import manifests, pod, text_at, workload

VLLM = "image: vllm/vllm-openai:v0.21.0\nargs: [m]\n"


def test_variables_are_resolved_in_kubelet_s_order() -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {X: x, A: from-map}\n"
    one = workload(
        pod(
            VLLM
            + """
            envFrom: [{configMapRef: {name: c}, prefix: P_}]
            env:
            - {name: A, value: "1"}
            - {name: B, value: $(A)-$(P_X)}
            - {name: C, value: $(LATER)}
            - {name: LATER, value: $$(A)}
            - {name: A, value: "2"}
            - {name: D, value: $(A)}
            - {name: E}
            - {name: F, value: 8}
            - {name: G, valueFrom: {configMapKeyRef: {name: c, key: X}}}
            - {name: H, valueFrom: {configMapKeyRef: {name: c, key: none}}}
            - {name: I, valueFrom: {configMapKeyRef: {name: c, key: none, optional: true}}}
            - {name: J, valueFrom: {configMapKeyRef: {name: elsewhere, key: X}}}
            - {name: K, valueFrom: {secretKeyRef: {name: c, key: X}}}
            - {name: L, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
            - {name: M, value: $(K)/x}
            """
        ),
        config,
    )
    environment = one.container.environment
    assert {name: (one.value, one.origin) for name, one in environment.variables.items()} == {
        "P_X": ("x", "configMap"),
        "P_A": ("from-map", "configMap"),
        "B": ("1-x", "value"),
        "C": (None, "value"),
        "LATER": ("$(A)", "value"),
        "A": ("2", "value"),
        "D": ("2", "value"),
        "E": ("", "value"),
        "F": ("8", "value"),
        "G": ("x", "configMap"),
        "H": (None, "configMap"),
        "J": (None, "configMap"),
        "K": (None, "secret"),
        "L": (None, "field"),
        "M": (None, "value"),
    }
    assert environment.whole
    assert environment.lacks("NOT_HERE")
    assert not environment.lacks("K")
    assert text_at(environment.variables["G"].at) == "x"
    entry = environment.variables["G"].entry
    assert entry is not None
    assert entry.get("name") is not None
    assert environment.variables["P_X"].entry is None


@pytest.mark.parametrize("source", ["secretRef: {name: s}", "configMapRef: {name: elsewhere}", "prefix: x"])
def test_what_cannot_be_looked_into_may_have_any_variable(source: str) -> None:
    text = pod(VLLM + f"envFrom: [{{{source}}}]")
    assert not workload(text).container.environment.lacks("AWS_REGION")


def test_mounts_know_their_volumes() -> None:
    one = workload(
        pod(
            VLLM
            + """
            volumeMounts:
            - {name: cache, mountPath: /cache}
            - {name: host, mountPath: /cache/vllm/, subPath: below}
            - {name: ro, mountPath: /ro, readOnly: true}
            - {name: config, mountPath: /etc/x}
            - {name: nowhere, mountPath: /y}
            - {mountPath: /no-name}
            """,
            spec="""
            volumes:
            - {name: cache, emptyDir: {}}
            - {name: host, hostPath: {path: /mnt/k8s-disks/0/, type: Directory}}
            - {name: ro, persistentVolumeClaim: {claimName: c}}
            - {name: config, configMap: {name: c}}
            """,
        )
    )
    mounts = {mount.name: mount for mount in one.container.mounts}
    assert {name: (mount.kind, mount.read_only, mount.host_path) for name, mount in mounts.items()} == {
        "cache": ("emptyDir", False, None),
        "host": ("hostPath", False, "/mnt/k8s-disks/0/below"),
        "ro": ("persistentVolumeClaim", True, None),
        "config": ("configMap", True, None),
        "nowhere": ("", False, None),
    }
    for path, name in (
        ("/cache", "cache"),
        ("/cache/", "cache"),
        ("/cache/x/../y", "cache"),
        ("/cache/vllm", "host"),
        ("/cache/vllm/a/b", "host"),
        ("//cache/./vllm//a", "host"),
        ("/cache/vllm-x", "cache"),
        ("/cachet", None),
        ("/", None),
        ("relative", None),
        ("", None),
    ):
        mount = one.container.mount_of(path)
        assert (mount.name if mount else None) == name, path


def test_claim_templates_are_volumes() -> None:
    text = pod(VLLM + "volumeMounts: [{name: data, mountPath: /d}]").replace("Deployment", "StatefulSet")
    one = workload(text + "  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec: {storageClassName: efs}\n")
    mount = one.container.mounts[0]
    assert mount.kind == "persistentVolumeClaim"
    assert mount.volume is not None
    assert mount.volume.get("spec", "storageClassName") is not None


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("8", 8, 8000),
        ("500m", 1, 500),
        ("1.5", 2, 1500),
        ("1500m", 2, 1500),
        ("64Gi", 64 << 30, None),
        ("1.5Gi", 3 << 29, None),
        ("10k", 10_000, None),
        ("1e3", 1000, None),
        ("1E", 10**18, None),
        ("1E3", 1000, None),
        ("25e-1", 3, 2500),
        (".5", 1, 500),
        ("1.", 1, 1000),
        ("-1", -1, None),
        ("", None, None),
        ("lots", None, None),
        ("8 Gi", None, None),
        ("8GB", None, None),
        ("٣", None, None),
        ("9" * 99, None, None),
    ],
)
def test_quantities(text: str, whole: int | None, milli: int | None) -> None:
    assert quantity(text) == whole
    if milli is not None:
        assert quantity(text, milli=True) == milli


def test_quantities_of_containers() -> None:
    container = workload(
        pod(VLLM + "resources: {limits: {nvidia.com/gpu: 8, memory: 64Gi, cpu: x}, requests: {cpu: 500m}}")
    ).container
    assert container.quantity("limits", "nvidia.com/gpu") == 8
    assert container.quantity("limits", "memory") == 64 << 30
    assert container.quantity("requests", "cpu") == 500
    assert container.quantity("limits", "cpu") is None
    assert container.quantity("requests", "memory") is None


CACHES = [
    ({"VLLM_CACHE_ROOT": "/c/vllm"}, "/c"),
    ({"VLLM_CACHE_ROOT": "/c"}, "/c"),
    ({"VLLM_CACHE_ROOT": "/vllm"}, "/"),
    ({"GLOWPLUG_CACHE_ROOT": "/g/", "VLLM_CACHE_ROOT": "/c/vllm"}, "/g"),
    ({"XDG_CACHE_HOME": "/c"}, "/c"),
    ({"XDG_CACHE_HOME": "/x", "VLLM_CACHE_ROOT": "/c/vllm"}, "/c"),
    ({"TORCHINDUCTOR_CACHE_DIR": "/c/torchinductor"}, "/c"),
    ({"VLLM_CACHE_ROOT": "", "TRITON_CACHE_DIR": "/c/../d/triton"}, "/d"),
    ({"VLLM_CACHE_ROOT": "$(NOBODY)/vllm", "XDG_CACHE_HOME": "/x"}, None),
    ({"VLLM_CACHE_ROOT": "relative"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("variables", "root"), CACHES)
def test_the_cache_root_is_where_variables_point(variables: dict[str, str], root: str | None) -> None:
    lines = "".join(f'\n- {{name: {name}, value: "{value}"}}' for name, value in variables.items())
    assert workload(pod(VLLM + ("env:" + lines if lines else ""))).cache_root == root


@pytest.mark.parametrize(
    "broken",
    [
        "env: {A: b}",
        "env: [x, null, [], {value: 1}, {name: [a]}, {name: {}}, {name: A, value: [1]}, {name: B, valueFrom: x}]",
        "env: [{name: A, valueFrom: {configMapKeyRef: x}}, {name: B, valueFrom: {configMapKeyRef: {name: [], key: {}}}}]",
        "envFrom: [x, null, {configMapRef: []}, {configMapRef: {name: {}}}]",
        "envFrom: 1",
        "volumeMounts: {a: b}",
        "volumeMounts: [1, null, {name: 3, mountPath: 4}, {name: [], mountPath: {}}]",
        "resources: [limits]",
        "resources: {limits: [1], requests: 3}",
        "args: m",
        "args: [[a], {b: c}, null, 3, true]",
        "command: 8\nargs: {}",
        "image: [a]",
        "image: null",
        "name: 8",
    ],
)
def test_malformed_containers_are_read_as_far_as_they_go(broken: str) -> None:
    base = {"image": "image: vllm/vllm-openai:v0.21.0", "args": "args: [m]"}
    lines = [text for key, text in base.items() if f"{key}:" not in broken]
    for one in manifests(pod("\n".join([*lines, broken]))).workloads:
        assert one.container.quantity("limits", "memory") is None
        assert one.container.mount_of("/x") is None
        assert one.mode == ""
