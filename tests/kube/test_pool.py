"""A cluster whose authority is rotated, and credentials that are renewed, while an agent of it works: no restart is needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from glowplug.core.errors import AccessDeniedError, BadInputError
from glowplug.kube import connect
from glowplug.kube.client import Client
from glowplug.kube.contract import Seen
from glowplug.kube.pool import LOOK_SECONDS, Pool
from lab import kube
from lab.kube import certificates
from lab.kube.client import wait_for
from tests.clocks import Held
from tests.parts import requires


@dataclass
class Http:
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclass
class Making:
    """Clients that a pool asked for; `fault` is raised instead of the next one."""

    made: list[Http] = field(default_factory=list)
    fault: Exception | None = None

    def __call__(self) -> Any:
        if self.fault is not None:
            raise self.fault
        self.made.append(Http())
        return self.made[-1]


def rewrite(path: Path, text: str) -> None:
    """As kubelet does it: another file under the name."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


class TestThePool:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "ca.crt"
        path.write_text("one")
        return path

    def test_is_made_anew_once_a_minute_where_a_file_has_changed(self, file: Path) -> None:
        making, clock = Making(), Held()
        pool = Pool(making, [str(file)], clock)
        for second in range(0, 600, 30):
            clock.at = float(second)
            with pool.client():
                pass
        assert len(making.made) == 1
        rewrite(file, "two")
        with pool.client():
            pass
        assert len(making.made) == 1
        clock.at += LOOK_SECONDS
        with pool.client() as http:
            assert cast("Any", http) is making.made[1]
        assert [one.closed for one in making.made] == [True, False]

    def test_keeps_what_is_in_use_until_that_is_over(self, file: Path) -> None:
        making = Making()
        pool = Pool(making, [str(file)])
        with pool.client(), pool.client():
            rewrite(file, "two")
            assert pool.renew()
            with pool.client():
                pass
            assert [one.closed for one in making.made] == [False, False]
        assert [one.closed for one in making.made] == [True, False]
        pool.close()
        assert making.made[1].closed

    def test_stays_with_what_it_has_while_the_files_cannot_be_read(self, file: Path) -> None:
        making = Making()
        pool = Pool(making, [str(file)])
        assert not pool.renew(), "nothing has changed"
        rewrite(file, "half of")
        making.fault = BadInputError("no certificate")
        assert not pool.renew()
        file.unlink()
        assert not pool.renew()
        making.fault = None
        rewrite(file, "half of it and the rest")
        assert pool.renew()


@requires("kube")
@pytest.mark.slow
class TestARealServer:
    @pytest.fixture
    def server(self) -> Iterator[kube.Server]:
        """One of its own, since its certificate is changed."""
        with kube.serve() as server:
            yield server

    @pytest.fixture
    def account(self, server: kube.Server, tmp_path: Path) -> Path:
        """What kubelet mounts into a pod."""
        folder = tmp_path / "serviceaccount"
        folder.mkdir()
        (folder / "ca.crt").write_bytes(server.files.authority.read_bytes())
        (folder / "token").write_text(server.administrator.token)
        return folder

    def _rotate(self, server: kube.Server, folder: Path) -> Path:
        """The server's certificate is of another authority from now on; returns that authority's."""
        folder.mkdir()
        made = certificates.make(folder, ("localhost", "kubernetes"), ("127.0.0.1",))
        server.files.server_key.write_bytes(made.server_key.read_bytes())
        server.files.server.write_bytes(made.server.read_bytes())
        asking = kube.Client(server.host, server.port, made.authority, server.administrator.token)

        def shown() -> bool:
            try:
                asking.request("GET", "/readyz")
            except OSError:
                return False
            return True

        wait_for(180, "the server shows its new certificate", shown)
        return made.authority

    def test_is_believed_again_as_soon_as_its_new_authority_is_there(
        self, server: kube.Server, account: Path, tmp_path: Path
    ) -> None:
        environ = {"KUBERNETES_SERVICE_HOST": server.host, "KUBERNETES_SERVICE_PORT": str(server.port)}
        stop = threading.Event()
        with connect.in_cluster(account=account, environ=environ) as client:
            watch = client.watch_pods(node="n", stop=stop)
            assert next(watch).seen is Seen.LISTING
            authority = self._rotate(server, tmp_path / "anew")
            self._fresh_connection(client)
            with pytest.raises(AccessDeniedError, match="not trusted"):
                client.namespace("default")
            rewrite(account / "ca.crt", authority.read_text())
            assert client.namespace("default")["metadata"]["name"] == "default"
            assert next(watch).seen is Seen.SYNCED, "what was under way goes on"
            stop.set()

    def _fresh_connection(self, client: Client) -> None:
        """Idle connections are closed by load balancers and by servers that start anew."""
        with client._link._pool.client() as http:
            for one in http._transport._pool.connections:  # type: ignore[attr-defined]
                if one.is_idle():
                    one.close()

    def test_refuses_a_token_and_takes_the_one_that_lies_there_since(
        self, kube_server: kube.Server, tmp_path: Path
    ) -> None:
        (tmp_path / "ca.crt").write_bytes(kube_server.files.authority.read_bytes())
        (tmp_path / "token").write_text("of yesterday")
        environ = {"KUBERNETES_SERVICE_HOST": kube_server.host, "KUBERNETES_SERVICE_PORT": str(kube_server.port)}
        with connect.in_cluster(account=tmp_path, environ=environ) as client:
            with pytest.raises(AccessDeniedError):
                client.namespace("default")
            rewrite(tmp_path / "token", kube_server.administrator.token)
            assert client.namespace("default")["metadata"]["name"] == "default"
