"""`glowplug agent` as its container runs it: against a real API server and a real store, until it is told to end."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from glowplug.agent.settings import Settings
from glowplug.core.errors import UsageError
from glowplug.kube import connect
from glowplug.nodestore import layout as nodes
from glowplug.nodestore.read import NodeStore
from lab import faults, kube
from tests import clocks
from tests.agent import claiming, outboxes, standing
from tests.agent.hearing import entries, mount, put
from tests.cache import making
from tests.cli.conftest import Call, call, quiet
from tests.kube.scripted import serving
from tests.parts import requires
from tests.store.conftest import Place, proxy, s3_place, s3_server

__all__ = ["call", "proxy", "quiet", "s3_place", "s3_server"]

real = requires("s3", "kube")
NODE = ("--node-name", "n1", "--domain", "default")


def until(holds: Callable[[], object], seconds: float = 300) -> None:
    """Long enough for a checkout that has to pack glowplug.pyz first."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def node(kube_server: kube.Server) -> str:
    name = f"n-{secrets.token_hex(4)}"
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    kube_server.admin.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    return name


@pytest.fixture
def environ(kube_server: kube.Server, proxy: faults.Proxy) -> Mapping[str, str]:
    kubeconfig = str(kube_server.kubeconfig(kube_server.administrator))
    return {"PATH": os.environ["PATH"], "HOME": "/nowhere", "KUBECONFIG": kubeconfig, **proxy.server.env()}


def arguments(root: Path, node: str, place: Place, *more: str) -> list[str]:
    told = ["--root", str(root), "--node-name", node, "--domain", "default", "--store", place.url, "--max-bytes", "1GB"]
    return [sys.executable, "-m", "glowplug", "agent", *told, "--listen", "127.0.0.1:0", *more]


def on_the_node(root: Path, domain: str, digest: str) -> set[str] | None:
    found = NodeStore(nodes.store(root, domain)).held(digest)
    return None if found is None else {part.name for part in found.entries()}


@contextmanager
def agent(command: list[str], environ: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@real
@pytest.mark.slow
class TestAsAProcess:
    def test_it_fills_the_node_and_ends_when_told(
        self, kube_server: kube.Server, node: str, environ: Mapping[str, str], s3_place: Place, tmp_path: Path
    ) -> None:
        key, root = put(s3_place.open(), tmp_path, making.key()), tmp_path / "root"
        with agent(arguments(root, node, s3_place), environ) as process:
            until((mount(root) / nodes.READY).exists)
            assert entries(root, key) == {"e1"}

            def notes() -> Mapping[str, str]:
                found: Mapping[str, str] = kube_server.admin.get("v1", "Node", node).document["metadata"]["annotations"]
                return found

            until(lambda: notes().get("glowplug.dev/nvme-backed") == "false")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0

    def test_it_ends_in_the_middle_of_a_fetch(
        self, node: str, environ: Mapping[str, str], s3_place: Place, proxy: faults.Proxy, tmp_path: Path
    ) -> None:
        key, root = put(s3_place.open(), tmp_path, making.key(), size=200_000), tmp_path / "root"
        slow = proxy.add(faults.Slow(500), method="GET", path="*/blobs/*", times=None)
        with agent(arguments(root, node, s3_place), environ) as process:
            assert slow.wait(300)
            with clocks.by(10):
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0
        assert entries(root, key) is None

    def test_once_fills_the_node_and_is_done(
        self, node: str, environ: Mapping[str, str], s3_place: Place, tmp_path: Path
    ) -> None:
        key, root = put(s3_place.open(), tmp_path, making.key()), tmp_path / "root"
        done = subprocess.run(arguments(root, node, s3_place, "--once"), env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert entries(root, key) == {"e1"}

    def test_a_wrong_domain_and_a_wrong_bucket_are_told_where_people_look(
        self,
        kube_server: kube.Server,
        node: str,
        environ: Mapping[str, str],
        s3_place: Place,
        tmp_path: Path,
        call: Call,
    ) -> None:
        """The pod's events, and `glowplug check node`: nobody can be asked to read all logs of all agents."""
        namespace, root = f"typo-{secrets.token_hex(4)}", tmp_path / "root"
        kube_server.make_namespace(namespace)
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "llama-0", "namespace": namespace, "labels": {"glowplug.dev/mode": "node"}},
            "spec": {"nodeName": node, "containers": [claiming.container()]},
        }
        kube_server.admin.create(document)
        nodes.store(root, namespace).mkdir(parents=True)  # by kubelet, for the pod
        place = replace(s3_place, url="s3://no-such-bucket/cache")

        def checked() -> str:
            return call("check", "node", "--root", str(root)).out

        with agent(arguments(root, node, place), environ), connect.from_kubeconfig(environ["KUBECONFIG"]) as api:
            uid = kube_server.admin.get("v1", "Pod", "llama-0", namespace).document["metadata"]["uid"]
            until(lambda: list(api.events(namespace, uid)))
            until(lambda: "no_bucket" in checked() and f"{namespace}/llama-0" in checked())
            ((reason, message),) = [(one["reason"], one["message"]) for one in api.events(namespace, uid)]
            assert reason == "CompileCacheNotKept"
            assert f"pod {namespace}/llama-0 is of domain {namespace}, which this agent does not keep" in message
            assert "domain 'default' is not ready: no_bucket: " in checked()
            assert f"no agent keeps domain '{namespace}', and pod {namespace}/llama-0 is of it" in checked()
            assert f"spec.nodeName={node}" in checked()

    @pytest.mark.parametrize("reachable", [True, False], ids=["a store that answers", "a store that refuses"])
    def test_once_publishes_what_a_pod_handed_over(
        self,
        kube_server: kube.Server,
        node: str,
        environ: Mapping[str, str],
        s3_place: Place,
        tmp_path: Path,
        reachable: bool,
    ) -> None:
        """A pass by a CronJob, or by a test: what is sealed is in the store afterwards, or still here for the next pass."""
        namespace = f"once-{secrets.token_hex(4)}"
        kube_server.make_namespace(namespace)
        containers, wanted = [claiming.container()], outboxes.claim(domain=namespace)
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "vllm-0", "namespace": namespace},
            "spec": {"nodeName": node, "serviceAccountName": "default", "containers": containers},
        }
        kube_server.admin.create(document)
        found = kube_server.admin.get("v1", "Pod", "vllm-0", namespace).document
        pod, here = replace(outboxes.pod(), uid=found["metadata"]["uid"]), outboxes.Node(tmp_path)
        here.run(pod)
        here.hand_over(pod, outboxes.tree(tmp_path / "made"), said=wanted)
        more = ["--domain", namespace, "--publish-from", namespace, "--once"]
        keys = {} if reachable else {"AWS_SECRET_ACCESS_KEY": "not-the-secret"}
        command = arguments(here.root, node, s3_place, *more)
        done = subprocess.run(command, env={**environ, **keys}, capture_output=True, text=True)
        assert (done.returncode, len(here.archives(pod))) == ((0, 0) if reachable else (3, 2)), done.stderr
        assert (f'"outcome": "{"published" if reachable else "waiting"}"') in done.stderr
        held = on_the_node(here.root, namespace, wanted.key.digest())
        assert held == ({outboxes.ENTRY_NAME} if reachable else None), "and the node itself has it"

    def test_once_in_shared_mode_fills_the_directory_and_takes_the_taint_away(
        self, kube_server: kube.Server, environ: Mapping[str, str], s3_place: Place, tmp_path: Path
    ) -> None:
        put(s3_place.open(), tmp_path, making.key())
        product = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        with standing.node(kube_server.admin) as one:
            one.admin.patch(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": one.name}}, {"metadata": {"labels": product}}
            )
            live = tmp_path / "live"
            more = ["--mode", "shared", "--shared-dir", str(live), "--once"]
            command = arguments(tmp_path / "root", one.name, s3_place, *more)
            done = subprocess.run(command, env=environ, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert (live / "vllm" / "e1" / "model").is_file()
            assert one.taints() == ["nvidia.com/gpu"]

    def test_once_says_that_it_could_not(self, environ: Mapping[str, str], s3_place: Place, tmp_path: Path) -> None:
        command = arguments(tmp_path / "root", "no-such-node", s3_place, "--once")
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
        assert done.returncode == 3
        assert '"of": "api"' in done.stderr


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("--domain", "a"), "which node is this?"),
            (("--node-name", "n"), "no trust domain is named"),
            ((*NODE, "--domain", "a/b"), "cannot be the name of a directory"),
            ((*NODE, "--domain", ""), "its value is empty"),
            ((*NODE, "--store", "s3:/b"), "two slashes are missing"),
            ((*NODE, "--root", "relative"), "not an absolute path"),
            ((*NODE, "--root", "/a/../b"), "not an absolute path"),
            ((*NODE, "--listen", "9090"), "is no address"),
            ((*NODE, "--listen", ":99999"), "is no address"),
            ((*NODE, "--publish-from", "Team A"), "is neither NAMESPACE nor"),
            ((*NODE, "--publish-from", "a/b/c"), "is neither NAMESPACE nor"),
            ((*NODE, "--max-bytes", "many"), "not a size"),
            ((*NODE, "--relist", "0s"), "no time to wait"),
            ((*NODE, "--taint", "a b"), "cannot be the key of a taint"),
            ((*NODE, "--mode", "direct"), "'direct' is not one of"),
            ((*NODE, "argument"), "No such command"),
        ],
    )
    def test_what_is_wrong_is_said(self, call: Call, arguments: tuple[str, ...], said: str) -> None:
        answer = call("agent", *arguments)
        assert answer.status == 2
        assert said in answer.err

    def test_nothing_leads_to_kubernetes(self, call: Call) -> None:
        answer = call("agent", *NODE, "--root", "/tmp/glowplug-never-made")
        assert answer.status == 2
        assert "no kubeconfig" in answer.err
        assert not Path("/tmp/glowplug-never-made").exists()

    def test_its_variables_are_not_those_of_the_command_that_frees_nodes(
        self, call: Call, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`render` has a mode more, and a file may lie where the agent is and not here."""
        for name, value in {"MODE": "direct", "VERIFY_KEY": "/nowhere/key.pem", "ROOT": __file__}.items():
            monkeypatch.setenv(f"GLOWPLUG_{name}", value)
            assert "no kubeconfig" in call("agent", "release").err
            assert f"--{name.lower().replace('_', '-')}" in call("agent", *NODE).err
            monkeypatch.delenv(f"GLOWPLUG_{name}")
        assert "'direct' is not one of" in call("agent", "--mode", "direct", "release").err

    def test_the_help_of_both_is_had_whatever_the_variables_are(
        self, call: Call, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GLOWPLUG_MODE", "direct")
        assert "--older-than" in call("agent", "release", "--help").out
        assert "--prewarm-timeout" in call("agent", "--help").out

    @pytest.mark.parametrize(
        ("arguments", "shared"),
        [
            (("--root", "/disk/glowplug"), "/disk/compile-cache"),
            (("--root", "/glowplug"), "/compile-cache"),
            ((), "/mnt/k8s-disks/0/compile-cache"),
            (("--root", "/disk/glowplug", "--shared-dir", "/other/live"), "/other/live"),
        ],
    )
    def test_the_shared_directory_is_beside_the_root(
        self, call: Call, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], shared: str
    ) -> None:
        told: list[Settings] = []

        def outside(settings: Settings, _place: object) -> None:
            told.append(settings)
            raise UsageError("as far as this")

        monkeypatch.setattr("glowplug.cli.agent._outside", outside)
        call("agent", *NODE, "--mode", "shared", *arguments)
        assert [str(one.shared_dir) for one in told] == [shared]


@requires("root")
@pytest.mark.parametrize(
    "words", [("agent", *NODE, "--once"), ("agent", "release", "--once")], ids=["the agent", "what frees nodes"]
)
def test_once_ends_when_told_also_as_process_1(words: tuple[str, ...], tmp_path: Path) -> None:
    """For which the kernel drops a signal that it does not ask for; and what it waits for never comes."""
    with serving(lambda server, _: server.ended.wait(60)) as server:
        environ = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "KUBECONFIG": server.kubeconfig(tmp_path)}
        own = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
        more = ["--root", str(tmp_path / "root"), "--max-bytes", "1GB", "--store", (tmp_path / "store").as_uri()]
        command = [*own, sys.executable, "-m", "glowplug", *words, *([] if "release" in words else more)]
        with subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL) as process:
            try:
                until(lambda: server.asked)
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                with clocks.by(15):
                    os.kill(int(children[0]), signal.SIGTERM)
                    assert process.wait(60) == 3
            finally:
                process.kill()
