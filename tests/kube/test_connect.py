"""Where a cluster is and who asks: kubeconfigs as kubectl reads them, login programs, the tokens of pods."""

from __future__ import annotations

import base64
import json
import os
import shlex
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from glowplug.core.clock import iso
from glowplug.core.errors import AccessDeniedError, BadInputError, GlowplugError, UsageError
from glowplug.kube import connect, credentials, kubeconfig
from lab import kube
from tests.clocks import SLACK, Held
from tests.kube.scripted import Asked, Scripted, pod, serving
from tests.parts import requires

TOKEN = "a-token-that-nobody-may-see"


@pytest.fixture
def server() -> Iterator[Scripted]:
    """Says who asks: 401 for whoever's token is not the one of now."""

    def answer(scripted: Scripted, one: Asked) -> None:
        wanted = scripted.__dict__.get("wanted")
        if wanted is None or one.headers.get("Authorization") == f"Bearer {wanted}":
            one.answer(200, pod("n"))
        else:
            one.answer(401, b"")

    with serving(answer) as scripted:
        yield scripted


def asked_by(server: Scripted) -> list[str | None]:
    return [one.headers.get("Authorization") for one in server.asked]


def write(path: Path, document: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def config(url: str, name: str = "c", cluster: Mapping[str, Any] | None = None, **user: Any) -> dict[str, Any]:
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"of-{name}"}}],
        "clusters": [{"name": name, "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": name, "user": user}],
    }


class TestKubeconfig:
    def test_the_files_of_the_variable_are_one_and_the_first_word_counts(
        self, server: Scripted, tmp_path: Path
    ) -> None:
        one = write(tmp_path / "one", config(server.url, "a", token="t-a"))
        two = write(tmp_path / "two", config("http://127.0.0.1:1", "a", token="no") | {"current-context": "b"})
        three = write(tmp_path / "three", config(server.url, "b", token="t-b"))
        environ = {"KUBECONFIG": f"{one}:{two}:{tmp_path}/not-there::{three}"}
        for context, namespace in (("", "of-a"), ("b", "of-b")):
            with connect.from_kubeconfig("", context, environ=environ) as client:
                client.node("n")
                assert client.default_namespace == namespace
        assert asked_by(server) == ["Bearer t-a", "Bearer t-b"]

    def test_the_file_at_home(self, server: Scripted, tmp_path: Path) -> None:
        write(tmp_path / ".kube" / "config", config(server.url, token="t"))
        with connect.from_kubeconfig(environ={"HOME": str(tmp_path)}) as client:
            assert client.default_namespace == "of-c"

    def test_paths_are_relative_to_their_file(self, server: Scripted, tmp_path: Path) -> None:
        (tmp_path / "kube").mkdir()
        (tmp_path / "kube" / "tok").write_text("from-file\n")
        path = write(tmp_path / "kube" / "config", config(server.url, tokenFile="tok"))
        with connect.from_kubeconfig(str(path)) as client:
            client.node("n")
        assert asked_by(server) == ["Bearer from-file"]

    def test_nobody_in_particular_and_a_name_with_a_password(self, server: Scripted, tmp_path: Path) -> None:
        without = config(server.url)
        without["contexts"][0]["context"].pop("user")
        for document in (without, config(server.url, username="u", password="p")):
            with connect.from_kubeconfig(str(write(tmp_path / "config", document))) as client:
                client.node("n")
        assert asked_by(server) == [None, f"Basic {base64.b64encode(b'u:p').decode()}"]

    def test_a_field_that_is_null_is_not_there(self, server: Scripted, tmp_path: Path) -> None:
        nothing = {"token": None, "exec": None, "as": None, "as-groups": None, "client-key-data": None}
        document = config(server.url, cluster={"insecure-skip-tls-verify": None, "proxy-url": None}, **nothing)
        with connect.from_kubeconfig(str(write(tmp_path / "config", document))) as client:
            client.node("n")
        assert asked_by(server) == [None]

    def test_what_is_broken_in_an_entry_of_others_is_theirs(self, server: Scripted, tmp_path: Path) -> None:
        document = config(server.url, token="t")
        document["users"].append({"name": "other", "user": {"token": 7}})
        with connect.from_kubeconfig(str(write(tmp_path / "config", document))) as client:
            client.node("n")

    def test_no_secret_is_in_what_a_user_looks_like(self, tmp_path: Path) -> None:
        data = base64.b64encode(TOKEN.encode()).decode()
        document = config("https://h", token=TOKEN, username="u", password=TOKEN, **{"client-key-data": data})
        user = kubeconfig.choose(kubeconfig.read([write(tmp_path / "config", document)]), "").user
        assert (user.token, user.password, user.key) == (TOKEN, TOKEN, TOKEN.encode())
        assert TOKEN not in repr(user)

    @pytest.mark.parametrize("token", [f"{TOKEN}\nx", f"{TOKEN} x", f"{TOKEN}\u00fc", "\x00"])
    def test_a_token_that_no_header_can_hold(self, server: Scripted, tmp_path: Path, token: str) -> None:
        path = write(tmp_path / "config", config(server.url, token=token))
        with connect.from_kubeconfig(str(path)) as client, pytest.raises(AccessDeniedError) as caught:
            client.node("n")
        assert caught.value.code == "no-credentials"
        assert TOKEN not in f"{caught.value.message} {caught.value.hint}"

    def test_a_range_of_addresses_needs_no_proxy(
        self, server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a pod the server's address is one of the cluster's range, which is what NO_PROXY names on EKS."""
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,127.0.0.0/8")
        with connect.from_kubeconfig(str(write(tmp_path / "config", config(server.url, token="t")))) as client:
            client.node("n")

    def test_who_acts_as_another_says_so(self, server: Scripted, tmp_path: Path) -> None:
        acting = config(server.url, token="t", **{"as": "somebody", "as-groups": ["g"]})
        with connect.from_kubeconfig(str(write(tmp_path / "config", acting))) as client:
            client.node("n")
        assert server.asked[0].headers["Impersonate-User"] == "somebody"
        assert server.asked[0].headers["Impersonate-Group"] == "g"
        acting = config(server.url, token="t", **{"as": "somebody", "as-uid": "7"})
        with pytest.raises(BadInputError, match="as-uid"):
            connect.from_kubeconfig(str(write(tmp_path / "config", acting)))

    @pytest.mark.parametrize(
        ("change", "kind", "words"),
        [
            ({"current-context": ""}, UsageError, "no current context"),
            ({"current-context": "x"}, UsageError, "no context 'x'"),
            ({"clusters": []}, UsageError, "names cluster 'c', which the kubeconfig lacks"),
            ({"users": []}, UsageError, "names user 'c', whom the kubeconfig lacks"),
            ({"users": [{"name": "c", "user": {"auth-provider": {"name": "gcp"}}}]}, AccessDeniedError, "gave up"),
            ({"users": [{"name": "c", "user": {"token": 7}}]}, BadInputError, "token"),
            ({"users": [{"name": "c", "user": {"exec": {"command": 7}}}]}, BadInputError, "context 'c'"),
            (
                {"users": [{"name": "c", "user": {"exec": {"command": "x", "apiVersion": "v1"}}}]},
                AccessDeniedError,
                "v1",
            ),
            ({"users": [{"name": "c", "user": {"exec": {"apiVersion": "v1"}}}]}, BadInputError, "exec.command"),
            (
                {"users": [{"name": "c", "user": {"exec": {"command": "x", "args": [7]}}}]},
                BadInputError,
                r"context 'c': user.exec.args: a text expected, not int",
            ),
            (
                {"users": [{"name": "c", "user": {"exec": {"command": "x", "env": ["A=b"]}}}]},
                BadInputError,
                "user.exec.env: a mapping expected, not str",
            ),
            ({"users": [{"name": "c", "user": {"exec": "x"}}]}, BadInputError, "user.exec: a mapping expected"),
            ({"users": [{"name": "c", "user": {"as": ["x"]}}]}, BadInputError, "user.as: a text expected, not list"),
            (
                {"users": [{"name": "c", "user": {"client-key-data": TOKEN}}]},
                BadInputError,
                "user.client-key-data: base64 expected",
            ),
            ({"clusters": [{"name": "c", "cluster": {}}]}, BadInputError, "cluster.server: the address"),
            (
                {"clusters": [{"name": "c", "cluster": {"server": "h", "insecure-skip-tls-verify": "no"}}]},
                BadInputError,
                "cluster.insecure-skip-tls-verify: true or false expected, not str",
            ),
            (
                {"contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": 7}}]},
                BadInputError,
                "namespace: a text expected",
            ),
            ({"users": 7}, BadInputError, "a list expected"),
            ({"users": [7]}, BadInputError, "has no name"),
            ({"users": [{"name": "c", "user": "x"}]}, BadInputError, "a mapping expected"),
            ({"clusters": [{"name": "c", "cluster": {"server": "https://["}}]}, BadInputError, "address"),
            (
                {"clusters": [{"name": "c", "cluster": {"server": "http://h", "proxy-url": "x://y"}}]},
                BadInputError,
                "proxy",
            ),
            (
                {"clusters": [{"name": "c", "cluster": {"server": "https://h", "certificate-authority": "/no/where"}}]},
                BadInputError,
                "No such file",
            ),
            (
                {"clusters": [{"name": "c", "cluster": {"server": "https://h", "certificate-authority-data": "!"}}]},
                BadInputError,
                "certificate",
            ),
        ],
    )
    def test_what_is_wrong_is_said(
        self, tmp_path: Path, change: Mapping[str, Any], kind: type[GlowplugError], words: str
    ) -> None:
        path = write(tmp_path / "config", config("http://127.0.0.1:1", token=TOKEN) | dict(change))
        with pytest.raises(kind, match=words) as caught:
            connect.from_kubeconfig(str(path))
        assert TOKEN not in f"{caught.value.message} {caught.value.hint}"

    @pytest.mark.parametrize(
        "text", [f"users: [{TOKEN}: {{", f"{TOKEN}", "\x00", "[" * 9000, f"a: &x [*x, *x]\n- {TOKEN}"]
    )
    def test_a_file_that_is_none_shows_nothing_of_itself(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "config").write_text(text)
        with pytest.raises(BadInputError) as caught:
            connect.from_kubeconfig(str(tmp_path / "config"))
        assert TOKEN not in caught.value.message

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="No such file"):
            connect.from_kubeconfig(str(tmp_path / "config"))
        with pytest.raises(UsageError, match="no kubeconfig"):
            connect.from_kubeconfig(environ={"HOME": str(tmp_path)})

    def test_in_a_pod_without_one_it_is_the_pods_account(self, tmp_path: Path) -> None:
        with pytest.raises(AccessDeniedError, match="token is not there"):
            connect.found(
                environ={"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}
            )
        with pytest.raises(UsageError, match="no kubeconfig"):
            connect.found(environ={"HOME": str(tmp_path)})

    def test_without_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        for way in (connect.in_cluster, connect.from_kubeconfig, connect.found):
            with pytest.raises(UsageError) as caught:
                way()
            assert (caught.value.code, "extra `agent`" in caught.value.hint) == ("missing-extra", True)


def encrypted(key: bytes) -> bytes:
    """The same key (PEM), for which one needs a password."""
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )


@requires("kube")
class TestTrust:
    def ask(self, kube_server: kube.Server, tmp_path: Path, **cluster: Any) -> None:
        document = config(kube_server.url, cluster=cluster, token=kube_server.administrator.token)
        with connect.from_kubeconfig(str(write(tmp_path / "config", document))) as client:
            client.namespace("default")

    def test_an_authority_in_the_file(self, kube_server: kube.Server, tmp_path: Path) -> None:
        data = base64.b64encode(kube_server.files.authority.read_bytes()).decode()
        self.ask(kube_server, tmp_path, **{"certificate-authority-data": data})

    def test_a_certificate_of_the_user(self, kube_server: kube.Server, tmp_path: Path) -> None:
        files = kube_server.files
        known = {"certificate-authority": str(files.authority)}
        given = {
            "client-certificate-data": base64.b64encode(files.server.read_bytes()).decode(),
            "client-key": str(files.server_key),
        }
        document = config(kube_server.url, cluster=known, token=kube_server.administrator.token, **given)
        with connect.from_kubeconfig(str(write(tmp_path / "config", document))) as client:
            client.namespace("default")
        locked = tmp_path / "locked"
        locked.write_bytes(encrypted(files.server_key.read_bytes()))
        for wrong in (
            {"client-certificate-data": base64.b64encode(b"x").decode()},
            {"client-key": "/no/where"},
            {"client-key": str(files.server)},
            {"client-key": str(locked)},
        ):
            document = config(kube_server.url, cluster=known, **{**given, **wrong})
            with pytest.raises(BadInputError, match="a certificate or key"):
                connect.from_kubeconfig(str(write(tmp_path / "config", document)))

    def test_of_data_and_a_file_the_data_counts(self, kube_server: kube.Server, tmp_path: Path) -> None:
        files = kube_server.files
        whole = base64.encodebytes(files.authority.read_bytes()).decode()
        known = {"certificate-authority": "/no/where", "certificate-authority-data": whole}
        given = {
            "client-certificate": "/no/where",
            "client-certificate-data": base64.b64encode(files.server.read_bytes()).decode(),
            "client-key": "/no/where",
            "client-key-data": base64.b64encode(files.server_key.read_bytes()).decode(),
        }
        document = config(kube_server.url, cluster=known, token=kube_server.administrator.token, **given)
        with connect.from_kubeconfig(str(write(tmp_path / "config", document))) as client:
            client.namespace("default")

    def test_a_name_that_is_not_the_address(self, kube_server: kube.Server, tmp_path: Path) -> None:
        known = {"certificate-authority": str(kube_server.files.authority)}
        self.ask(kube_server, tmp_path, **known, **{"tls-server-name": "kubernetes.default"})
        with pytest.raises(AccessDeniedError, match="is not trusted"):
            self.ask(kube_server, tmp_path, **known, **{"tls-server-name": "other.example"})

    def test_an_unknown_authority_is_not_trusted_unless_the_file_says_so(
        self, kube_server: kube.Server, tmp_path: Path
    ) -> None:
        with pytest.raises(AccessDeniedError, match="is not trusted") as caught:
            self.ask(kube_server, tmp_path)
        assert kube_server.administrator.token not in caught.value.message
        self.ask(kube_server, tmp_path, **{"insecure-skip-tls-verify": True})


class TestPrograms:
    """`aws eks get-token` and its like."""

    @staticmethod
    def program(directory: Path, body: str) -> str:
        path = directory / "login"
        path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{textwrap.dedent(body)}")
        path.chmod(0o755)
        return str(path)

    def user(self, command: str, version: str = "v1beta1", **fields: Any) -> dict[str, Any]:
        return {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": command, **fields}}

    @pytest.mark.parametrize("version", ["v1beta1", "v1"])
    def test_it_is_asked_once_and_told_what_it_needs(self, server: Scripted, tmp_path: Path, version: str) -> None:
        body = """
            open(sys.argv[0] + ".runs", "a").write("x")
            told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
            token = "-".join([told["apiVersion"].rpartition("/")[2], os.environ["MINE"], *sys.argv[1:]])
            print(json.dumps({"kind": "ExecCredential", "status": {"token": token}}))
        """
        self.program(tmp_path, body)
        user = self.user("./login", version, args=["a"], env=[{"name": "MINE", "value": "m"}])
        path = write(tmp_path / "config", config(server.url, **user))
        with connect.from_kubeconfig(str(path)) as client:
            threads = [threading.Thread(target=client.node, args=["n"]) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert asked_by(server) == [f"Bearer {version}-m-a"] * 4
        assert (tmp_path / "login.runs").read_text() == "x"

    @pytest.mark.parametrize("wanted", [True, False, None])
    def test_it_is_told_of_the_cluster_where_the_file_says_so(
        self, server: Scripted, tmp_path: Path, wanted: bool | None
    ) -> None:
        body = """
            told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
            json.dump(told["spec"], open(sys.argv[0] + ".told", "w"))
            print(json.dumps({"status": {"token": "t"}}))
        """
        user = self.user(self.program(tmp_path, body), provideClusterInfo=wanted)
        cluster = {"tls-server-name": "s", "insecure-skip-tls-verify": True}
        path = write(tmp_path / "config", config(server.url, cluster=cluster, **user))
        with connect.from_kubeconfig(str(path)) as client:
            client.node("n")
        told = json.loads((tmp_path / "login.told").read_text())
        assert told == {"interactive": False, **({"cluster": {"server": server.url, **cluster}} if wanted else {})}

    def test_a_token_that_is_refused_is_asked_for_anew(self, server: Scripted, tmp_path: Path) -> None:
        body = """
            open(sys.argv[0] + ".runs", "a").write("x")
            runs = len(open(sys.argv[0] + ".runs").read())
            print(json.dumps({"status": {"token": f"t{runs}"}}))
        """
        path = write(tmp_path / "config", config(server.url, **self.user(self.program(tmp_path, body))))
        with connect.from_kubeconfig(str(path)) as client:
            for wanted in ("t1", "t2"):
                server.__dict__["wanted"] = wanted
                client.node("n")
            server.__dict__["wanted"] = "t9"
            with pytest.raises(AccessDeniedError):
                client.node("n")
        assert asked_by(server) == ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2", "Bearer t3"]

    def test_a_token_that_will_expire_is_renewed_before(self, tmp_path: Path) -> None:
        clock = Held(1_000_000.0)
        body = f"""
            open(sys.argv[0] + ".runs", "a").write("x")
            print(json.dumps({{"status": {{"token": "t", "expirationTimestamp": "{iso(1_000_900.0)}"}}}}))
        """
        command = self.program(tmp_path, body)
        get = credentials.from_program(kubeconfig.Program(command, (), {}, f"{credentials._API}v1"), os.environ)
        bearer = credentials.Bearer(get, clock)
        for at, runs in ((0, 1), (800, 1), (880, 2)):
            clock.at = 1_000_000.0 + at
            bearer._fresh(None)
            assert len((tmp_path / "login.runs").read_text()) == runs

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ("sys.exit('no session; run aws sso login')", "status 1: no session; run aws sso login"),
            (f"print('{TOKEN}')", "printed no ExecCredential"),
            (f"print(json.dumps(['{TOKEN}']))", "printed no ExecCredential"),
            (
                f"print(json.dumps({{'status': {{'expirationTimestamp': 'soon', 'token': '{TOKEN}'}}}}))",
                "printed no Exec",
            ),
            ("print(json.dumps({'status': {}}))", "no token"),
            ("print(json.dumps({'status': {'clientCertificateData': 'x'}}))", "client certificate"),
            ("print(json.dumps({'status': {'token': 7}}))", "no token"),
        ],
    )
    def test_one_that_gives_none(self, server: Scripted, tmp_path: Path, body: str, words: str) -> None:
        path = write(tmp_path / "config", config(server.url, **self.user(self.program(tmp_path, body))))
        with connect.from_kubeconfig(str(path)) as client, pytest.raises(AccessDeniedError, match=words) as caught:
            client.node("n")
        assert caught.value.code == "no-credentials"
        assert TOKEN not in caught.value.message
        assert server.asked == []

    def test_one_that_is_not_there_says_how_to_install_it(self, server: Scripted, tmp_path: Path) -> None:
        user = self.user("no-such-login", installHint="get it from your administrator")
        path = write(tmp_path / "config", config(server.url, **user))
        with (
            connect.from_kubeconfig(str(path)) as client,
            pytest.raises(AccessDeniedError, match="No such file") as caught,
        ):
            client.node("n")
        assert caught.value.hint == "get it from your administrator"

    def test_one_that_waits_for_ever_is_ended_with_what_it_started(self, tmp_path: Path) -> None:
        command = tmp_path / "login"
        command.write_text(f"#!/bin/sh\nsleep 600 & echo $! > {shlex.quote(str(tmp_path / 'pid'))}; wait\n")
        command.chmod(0o755)
        program = kubeconfig.Program(str(command), (), {}, f"{credentials._API}v1")
        with pytest.raises(AccessDeniedError, match="gave none within"):
            credentials.from_program(program, os.environ, seconds=0.5)()
        pid = int((tmp_path / "pid").read_text())
        ended = threading.Event()
        for _ in range(round(SLACK / 0.05)):
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                return
            if state == "Z":
                return
            ended.wait(0.05)
        raise AssertionError("what the program started still runs")


class TestTokensOfPods:
    def test_the_file_is_read_again_as_kubelet_renews_it(self, tmp_path: Path) -> None:
        path = tmp_path / "token"
        path.write_text("one\n")
        clock = Held(100.0)
        bearer = credentials.Bearer(credentials.from_file(path, clock), clock)
        assert bearer._fresh(None).text == "one"
        path.write_text("two\n")
        assert bearer._fresh(None).text == "one"
        clock.at += credentials.FRESH_SECONDS
        assert bearer._fresh(None).text == "two"

    def test_a_refusal_reads_it_at_once(self, server: Scripted, tmp_path: Path) -> None:
        (tmp_path / "tok").write_text("one")
        path = write(tmp_path / "config", config(server.url, tokenFile="tok"))
        with connect.from_kubeconfig(str(path)) as client:
            client.node("n")
            (tmp_path / "tok").write_text("two")
            server.__dict__["wanted"] = "two"
            client.node("n")
        assert asked_by(server) == ["Bearer one", "Bearer one", "Bearer two"]

    @pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff"])
    def test_one_that_cannot_be_used(self, tmp_path: Path, content: bytes | None) -> None:
        if content is not None:
            (tmp_path / "token").write_bytes(content)
        with pytest.raises(AccessDeniedError) as caught:
            credentials.from_file(tmp_path / "token")()
        assert caught.value.code == "no-credentials"

    def test_outside_of_a_pod(self) -> None:
        with pytest.raises(UsageError, match="no pod of a cluster"):
            connect.in_cluster(environ={})
