"""The API server of the laboratory: Kubernetes' own judgement, and nothing left of it afterwards."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import kube
from lab.kube import binaries, server
from tests.parts import requires

pytestmark = [requires("kube"), pytest.mark.slow]


def _deployment(name: str, namespace: str = "default", **pod: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **pod}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def _refused(call: Callable[[], object]) -> kube.RefusedError:
    with pytest.raises(kube.RefusedError) as caught:
        call()
    return caught.value


def test_it_is_the_version_that_is_pinned(kube_server: kube.Server) -> None:
    assert kube_server.admin.request("GET", "/version").document["gitVersion"] == binaries.KUBERNETES


def test_what_is_created_is_got_listed_changed_and_deleted(kube_server: kube.Server) -> None:
    admin = kube_server.admin
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "1"}}
    admin.create(document)
    assert _refused(lambda: admin.create(document)).reason == "AlreadyExists"
    admin.patch(document, {"data": {"b": "2"}})
    assert admin.get("v1", "ConfigMap", "one").document["data"] == {"a": "1", "b": "2"}
    assert "one" in [item["metadata"]["name"] for item in admin.list("v1", "ConfigMap", "default")]
    admin.delete(document)
    assert _refused(lambda: admin.get("v1", "ConfigMap", "one")).status == 404


def test_a_dry_run_stores_nothing(kube_server: kube.Server) -> None:
    answer = kube_server.admin.apply(_deployment("dry"), dry_run=True)
    assert answer.document["spec"]["replicas"] == 1  # a default that only the server knows
    assert _refused(lambda: kube_server.admin.get("apps/v1", "Deployment", "dry")).reason == "NotFound"


@pytest.mark.parametrize("how", ["apply", "create"])
def test_an_unknown_field_is_refused_by_its_name(kube_server: kube.Server, how: str) -> None:
    document = _deployment("misspelt", tolerationz=[])
    refusal = _refused(lambda: getattr(kube_server.admin, how)(document, dry_run=True))
    assert "tolerationz" in refusal.message


def test_a_text_is_read_by_the_server_itself(kube_server: kube.Server) -> None:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: text\ndata:\n"
    first, second = kube_server.admin.apply_text(
        f"# two\n---\n{head}  a: \"y\"\n---\n{head}  a: '---'\n---\n", dry_run=True
    )
    assert (first.document["data"], second.document["data"]) == ({"a": "y"}, {"a": "---"})
    refusal = _refused(lambda: kube_server.admin.apply_text(f"{head}  a: b\n  a: c\n", dry_run=True))
    assert '"a" already set' in refusal.message


def test_a_pod_s_token_names_the_pod_and_its_node(kube_server: kube.Server) -> None:
    admin = kube_server.admin
    kube_server.make_namespace("ours")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    spec = {"nodeName": "node-1", "containers": [{"name": "c", "image": "i:1"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bound", "namespace": "ours"}, "spec": spec}
    admin.create(node)
    admin.create(pod)
    try:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": admin.token_of(pod)},
        }
        user = admin.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review).document["status"]["user"]
    finally:
        admin.delete(pod)
        admin.delete(node)
    assert user["username"] == "system:serviceaccount:ours:default"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["bound"]
    assert user["extra"]["authentication.kubernetes.io/node-name"] == ["node-1"]


def test_a_wrong_value_is_refused_with_the_server_s_words(kube_server: kube.Server) -> None:
    refusal = _refused(lambda: kube_server.admin.apply(_deployment("bad", restartPolicy="Sometimes"), dry_run=True))
    assert (refusal.status, refusal.reason) == (422, "Invalid")
    assert 'Unsupported value: "Sometimes"' in refusal.message


def test_what_the_server_only_warns_of_is_seen(kube_server: kube.Server) -> None:
    kube_server.make_namespace("warned", {"pod-security.kubernetes.io/warn": "baseline"})
    quiet = kube_server.admin.apply(_deployment("quiet", "warned"), dry_run=True)
    (warning,) = kube_server.admin.apply(_deployment("loud", "warned", hostPID=True), dry_run=True).warnings
    assert quiet.warnings == ()
    assert warning == 'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'


def test_pods_are_admitted_to_a_namespace_of_ours(kube_server: kube.Server) -> None:
    kube_server.make_namespace("ours")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ours"},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]},
    }
    assert kube_server.admin.create(pod, dry_run=True).document["spec"]["serviceAccountName"] == "default"


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("karpenter.sh/v1", "NodePool"),
        ("karpenter.sh/v1", "NodeClaim"),
        ("karpenter.k8s.aws/v1", "EC2NodeClass"),
        ("eks.amazonaws.com/v1", "NodeClass"),
    ],
)
def test_the_kinds_of_karpenter_and_auto_mode_are_there_and_strict(
    kube_server: kube.Server, api_version: str, kind: str
) -> None:
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "n"}, "spec": {"misspelt": 1}}
    assert kube_server.admin.list(api_version, kind) == []
    assert "misspelt" in _refused(lambda: kube_server.admin.apply(document, dry_run=True)).message


def test_a_kind_that_the_server_lacks_is_said(kube_server: kube.Server) -> None:
    unknown = {"apiVersion": "karpenter.sh/v1", "kind": "NodePuddle", "metadata": {"name": "n"}}
    assert "no NodePuddle in karpenter.sh/v1" in _refused(lambda: kube_server.admin.apply(unknown)).message
    other = {"apiVersion": "nobody.example/v1", "kind": "Thing", "metadata": {"name": "n"}}
    assert _refused(lambda: kube_server.admin.apply(other)).status == 404


def test_rights_are_asked_of_whoever_is_impersonated(kube_server: kube.Server) -> None:
    nobody = kube_server.admin.impersonating("system:serviceaccount:default:nobody")
    assert _refused(lambda: nobody.get("v1", "Namespace", "default")).reason == "Forbidden"
    member = kube_server.admin.impersonating("somebody", ["system:masters"])
    assert member.get("v1", "Namespace", "default").document["kind"] == "Namespace"


def test_without_a_token_nothing_is_answered(kube_server: kube.Server) -> None:
    assert _refused(lambda: kube_server.admin.with_token("guessed").request("GET", "/version")).status == 401


def test_nobody_else_reaches_what_it_keeps(kube_server: kube.Server) -> None:
    own = kube_server.directory
    assert own.stat().st_mode & 0o077 == 0
    kube_server.kubeconfig(kube_server.administrator)
    secret = [*own.glob("*.key"), *own.glob("*.csv"), *own.glob("*.kubeconfig")]
    assert len(secret) == 4
    assert all(path.stat().st_mode & 0o077 == 0 for path in secret)
    ports = _listening(_pids(own))
    assert ports == {("0100007F", kube_server.port)}


def test_a_client_that_does_not_know_its_authority_does_not_trust_it(kube_server: kube.Server) -> None:
    connection = http.client.HTTPSConnection(kube_server.host, kube_server.port, timeout=30)
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.request("GET", "/version")


def test_further_identities_have_their_own_rights() -> None:
    scheduler = server.Identity("system:kube-scheduler")
    with kube.serve([scheduler]) as running:
        client = running.client(scheduler)
        assert client.list("v1", "Pod") == []
        assert _refused(lambda: client.list("v1", "Secret")).reason == "Forbidden"
        kubeconfig = json.loads(running.kubeconfig(scheduler).read_text())
        assert kubeconfig["users"] == [{"name": "system:kube-scheduler", "user": {"token": scheduler.token}}]
        assert kubeconfig["clusters"][0]["cluster"]["server"] == running.url


def test_a_port_that_was_taken_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = [other.getsockname()[1]]
        free = server._free_port
        monkeypatch.setattr(server, "_free_port", lambda address: ports.pop() if ports else free(address))
        with kube.serve(directory=tmp_path) as running:
            assert running.port != other.getsockname()[1]
            assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_come_up_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'no mood today' >&2\nexit 1\n")
    broken.chmod(0o755)
    built = binaries.build(server.COMMANDS) | {"kube-apiserver": broken}
    monkeypatch.setattr(binaries, "build", lambda names: built)
    with pytest.raises(OSError, match="kube-apiserver ended at once: no mood today"), kube.serve(directory=tmp_path):
        pass
    assert list(tmp_path.iterdir()) == [broken]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_without_leftovers_when_its_starter_is_stopped(tmp_path: Path, how: signal.Signals) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-m", "lab.kube"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with starter:
        assert starter.stdout is not None
        own = Path(starter.stdout.readline().strip()).parent
        pids = _pids(own)
        starter.send_signal(how)
        status = starter.wait(60)
    assert status == (-9 if how == signal.SIGKILL else 0)
    assert len(pids) == 2
    _eventually(lambda: not any(_runs(pid) for pid in pids))
    _eventually(lambda: not list(tmp_path.iterdir()))


def _eventually(holds: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def _pids(own: Path) -> list[int]:
    """The processes that work in the server's directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink() == own:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _listening(pids: list[int]) -> set[tuple[str, int]]:
    """Address (as the kernel writes it) and port of every TCP socket on which these processes wait for connections."""
    sockets = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                sockets.add(str(descriptor.readlink()))
            except OSError:
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address, port = fields[1].split(":")
                found.add((address, int(port, 16)))
    return found
