"""nonroot-hostpath-cache: a directory that kubelet makes for root (llm-d/llm-d#485)."""

from __future__ import annotations

import pytest

from tests.lint.checking import at, found
from tests.lint.kubernetes.written import GPU_TOLERATION, daemon_set, deployment, line_of

RULE = "nonroot-hostpath-cache"
PATH = "/mnt/k8s-disks/0/compile-cache"
USER = "securityContext: {runAsUser: 1000, fsGroup: 1000}\n"
MADE = f"{{path: {PATH}, type: DirectoryOrCreate}}"


def cached(
    pod: str = USER,
    host_path: str = MADE,
    container: str = "",
    variable: str = "VLLM_CACHE_ROOT",
    value: str = "/compile-cache/vllm",
    mount: str = "{name: cache, mountPath: /compile-cache}",
    kind: str = "hostPath",
) -> str:
    volumes = f"volumes:\n- {{name: cache, {kind}: {host_path}}}\n"
    inner = f"env:\n- {{name: {variable}, value: {value}}}\nvolumeMounts:\n- {mount}\n"
    return deployment(pod=pod + GPU_TOLERATION + volumes, container=container + inner)


@pytest.mark.parametrize(
    ("text", "user"),
    [
        (cached(), "user 1000"),
        (cached(host_path=f"{{path: {PATH}}}"), "user 1000"),
        (cached(pod="", container=USER), "user 1000"),
        (
            cached(pod="securityContext: {runAsUser: 0}\n", container="securityContext: {runAsUser: 65532}\n"),
            "user 65532",
        ),
        (cached(pod="securityContext: {runAsNonRoot: true}\n"), "a user other than root"),
        (cached(variable="XDG_CACHE_HOME", value="/compile-cache"), "user 1000"),
        (cached(variable="TRITON_CACHE_DIR", value="/compile-cache/triton"), "user 1000"),
    ],
)
def test_it_fires(text: str, user: str) -> None:
    (finding,) = found(RULE, text)
    assert user in finding.message
    assert at(finding) == PATH
    assert finding.line == line_of(text, PATH)


INIT = "initContainers:\n- name: own\n  image: busybox:1.37\n  {}\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(cached(pod=""), id="root, or whoever the image says"),
        pytest.param(cached(pod="securityContext: {runAsUser: 0}\n"), id="root"),
        pytest.param(cached(pod=USER, container="securityContext: {runAsUser: 0}\n"), id="root in this container"),
        pytest.param(cached(pod="securityContext: {runAsNonRoot: false}\n"), id="not held to it"),
        pytest.param(cached(host_path=f"{{path: {PATH}, type: Directory}}"), id="somebody has made it"),
        pytest.param(cached(kind="emptyDir", host_path="{}"), id="an emptyDir"),
        pytest.param(
            cached(mount="{name: cache, mountPath: /compile-cache, readOnly: true}"), id="read-only: another rule"
        ),
        pytest.param(cached(mount="{name: cache, mountPath: /models}"), id="not the cache"),
        pytest.param(
            cached(pod=USER + INIT.format("volumeMounts: [{name: cache, mountPath: /c}]")),
            id="an init container has it",
        ),
        pytest.param(
            cached(pod=USER + INIT.format("securityContext: {privileged: true}")),
            id="an init container that may do anything",
        ),
    ],
)
def test_it_is_silent(text: str) -> None:
    assert found(RULE, text) == []


@pytest.mark.parametrize(
    ("path", "fires"), [(PATH, False), ("/mnt/k8s-disks/0", False), ("/", False), ("/mnt/k8s-disks/0/other", True)]
)
def test_a_daemon_set_may_have_given_it_away(path: str, fires: bool) -> None:
    owner = daemon_set(name="owner", image="busybox:1.37", pod=f"volumes:\n- {{name: d, hostPath: {{path: {path}}}}}\n")
    assert bool(found(RULE, cached(), owner)) == fires
