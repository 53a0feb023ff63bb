"""check/local.py: what a machine can tell by itself, and that it says so when it cannot. Nothing here dials out."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from glowplug.check import local
from glowplug.check.local import Here
from glowplug.core.clock import Deadline
from glowplug.core.errors import UsageError
from glowplug.store import regions
from lab import aws
from tests.clocks import SLACK

REGION = {"AWS_REGION": "us-west-2"}
HOST = "s3.us-west-2.amazonaws.com"


@dataclass
class Fake:
    """A network with these answers; an exception is raised, a number of seconds is slept."""

    addresses: Sequence[str] | OSError | float = ("52.92.16.1",)
    connection: OSError | float | None = None
    facts: Mapping[str, str] | OSError | float = field(default_factory=lambda: OSError("timed out"))

    def resolve(self, host: str, port: int) -> Sequence[str]:
        assert (host, port) == (HOST, 443)
        return _give(self.addresses)  # type: ignore[no-any-return]

    def connect(self, address: str, port: int, seconds: float) -> None:
        _give(self.connection)

    def metadata(self, endpoint: str, paths: Sequence[str], seconds: float) -> Mapping[str, str]:
        facts: Mapping[str, str] = _give(self.facts)
        return {path: facts[path] for path in paths if path in facts}


def _give(value: object) -> object:
    if isinstance(value, OSError):
        raise value
    if isinstance(value, float):
        time.sleep(value)
        return ()
    return value


INSTANCE = aws.instance("subnet-0123", "b")


def _look(fake: Fake, environ: Mapping[str, str] = REGION, seconds: float = 5) -> Here:
    return local.look(environ, fake, Deadline.after(seconds))


def _said(here: Here) -> dict[str, tuple[str, str]]:
    return {check.name: (check.status, check.message) for check in here.checks}


def test_on_an_instance() -> None:
    here = _look(Fake(facts=INSTANCE))
    assert (here.subnet, here.region) == ("subnet-0123", "us-west-2")
    said = _said(here)
    assert said["local:instance"] == ("pass", "p5.48xlarge in us-west-2b, subnet-0123")
    assert said["local:region"] == ("pass", "the region is us-west-2")
    assert said["local:dns"] == ("pass", f"{HOST} has public addresses")
    assert said["local:connect"][0] == "pass"
    assert said["local:path"] == ("unknown", "gateway endpoint, NAT or internet gateway: they look alike from inside")


def test_in_a_pod_behind_a_hop_limit() -> None:
    said = _said(_look(Fake()))
    assert said["local:instance"][0] == "unknown"
    assert "hop limit" in said["local:instance"][1]


def test_metadata_is_not_asked_where_it_is_disabled() -> None:
    said = _said(_look(Fake(facts=AssertionError("asked")), {**REGION, "AWS_EC2_METADATA_DISABLED": "true"}))  # type: ignore[arg-type]
    assert said["local:instance"] == (
        "unknown",
        "the instance metadata service is not asked (AWS_EC2_METADATA_DISABLED)",
    )


def test_no_region_is_warned_of_with_the_instances_own() -> None:
    here = _look(Fake(facts=INSTANCE), {})
    found = next(check for check in here.checks if check.name == "local:region")
    assert (found.status, found.hint) == ("warn", "set AWS_REGION=us-west-2")
    assert here.region == "us-west-2"


def test_no_region_at_all() -> None:
    here = _look(Fake(), {})
    assert list(_said(here)) == ["local:instance", "local:region"]


@pytest.mark.parametrize(
    ("addresses", "kind", "path"),
    [
        (["10.0.1.2", "10.0.2.2"], "private", "interface"),
        (["fd00::1"], "private", "interface"),
        (["52.92.16.1"], "public", None),
        (["10.0.1.2", "52.92.16.1"], "mixed", None),
    ],
)
def test_private_addresses_are_an_interface_endpoint(addresses: list[str], kind: str, path: str | None) -> None:
    checks = {check.name: check for check in _look(Fake(addresses)).checks}
    assert checks["local:dns"].evidence["kind"] == kind
    assert checks["local:path"].evidence["path"] == path
    assert checks["local:path"].status == "unknown"


@pytest.mark.parametrize(
    "fault", [socket.gaierror(-2, "Name or service not known"), 10.0], ids=["no such name", "silence"]
)
def test_a_name_without_an_address(fault: OSError | float) -> None:
    said = _said(_look(Fake(fault)))
    assert said["local:dns"][0] == "fail"
    assert "local:connect" not in said


@pytest.mark.parametrize("fault", [ConnectionRefusedError(111, "Connection refused"), 10.0], ids=["refused", "silence"])
def test_no_connection(fault: OSError | float) -> None:
    assert _said(_look(Fake(connection=fault)))["local:connect"][0] == "fail"


def test_all_silent_ends_in_time() -> None:
    begin = time.monotonic()
    _look(Fake(60.0, 60.0, 60.0), seconds=60)
    assert time.monotonic() - begin < local.SECONDS + SLACK


def test_without_time_nothing_is_said_to_have_failed() -> None:
    statuses = {check.status for check in _look(Fake(facts=INSTANCE), seconds=0).checks}
    assert statuses == {"unknown", "pass"}


@pytest.mark.parametrize(
    ("variables", "warns"),
    [
        ({"HTTPS_PROXY": "http://proxy:3128"}, True),
        ({"https_proxy": "http://proxy:3128", "NO_PROXY": "localhost,example.com"}, True),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "localhost,.amazonaws.com"}, False),
        ({"HTTPS_PROXY": "http://proxy:3128", "no_proxy": HOST}, False),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "*"}, False),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "ws.com"}, True),
        ({"http_proxy": "http://proxy:3128"}, False),
    ],
    ids=str,
)
def test_a_proxy_in_the_way(variables: Mapping[str, str], warns: bool) -> None:
    assert (_said(_look(Fake(), {**REGION, **variables}))["local:path"][0] == "warn") is warns


def test_the_real_machine() -> None:
    """Sockets, resolver and metadata service as they are, on 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as server, aws.metadata(INSTANCE) as metadata:
        port = server.getsockname()[1]
        environ = {"AWS_ENDPOINT_URL_S3": f"http://localhost:{port}", "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata}
        here = local.look(environ, local.Machine(), Deadline.after(5))
    said = _said(here)
    assert here.subnet == "subnet-0123"
    assert said["local:dns"] == ("pass", "localhost has private addresses")
    assert said["local:path"] == ("unknown", "AWS_ENDPOINT_URL names a server of your own, not S3 of AWS")


def test_the_real_machine_connects_and_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        local.Machine().connect("127.0.0.1", port, 5)
    with pytest.raises(OSError, match="refused"):
        local.Machine().connect("127.0.0.1", port, 5)


def test_the_region_of_a_bucket_where_nobody_answers() -> None:
    environ = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}
    assert local.region_of("bucket", environ, Deadline.after(2), "us-west-2") == ""


@pytest.mark.parametrize("told", ["us-west-2; id", "us-$(id)", "\x9b31m"])
def test_a_region_that_is_none_is_not_taken_from_a_server(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "of_bucket", lambda *_: told)
    assert local.region_of("bucket", REGION, Deadline.after(2), "us-west-2") == ""
    here = _look(Fake(facts={**INSTANCE, "placement/region": told}), environ={})
    assert here.region == ""
    assert told not in "".join(check.hint for check in here.checks)


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_EC2_METADATA_SERVICE_ENDPOINT"])
@pytest.mark.parametrize("server", ["http://[", "nonsense", " ", "http://127.0.0.1:99999", "http://u:hunter2@host"])
def test_a_server_that_is_none_is_refused_by_the_variables_name(name: str, server: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is not the address") as refused:
        _look(Fake(), environ={**REGION, name: server})
    assert "hunter2" not in refused.value.message
