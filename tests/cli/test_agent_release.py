"""`glowplug agent release --once` for a person: it always says what it did."""

from __future__ import annotations

from typing import Any

import pytest

from lab import kube
from tests.cli.conftest import Call
from tests.parts import requires

pytestmark = [requires("kube"), pytest.mark.slow]

_TAINT = "example.com/released-once"
"""Nobody else's: nodes of other tests may be older, and have theirs."""
TAINTED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "released-once"},
    "spec": {"taints": [{"key": _TAINT, "effect": "NoSchedule"}]},
}


def test_what_it_freed_and_that_there_was_nothing(
    call: Call, kube_server: kube.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kube_server.kubeconfig(kube_server.administrator)))
    kube_server.admin.create(TAINTED)
    try:
        nothing = call("agent", "release", "--older-than", "10m", "--taint", _TAINT, "--once")
        assert (nothing.status, nothing.out) == (0, "")
        assert f"nothing to free: no registered node has kept the taint {_TAINT} for 10m" in nothing.err
        freed = call("agent", "release", "--older-than", "0.01s", "--taint", _TAINT, "--once")
        assert freed.status == 0
        assert "released-once" in freed.err
        assert "nothing to free" not in freed.err
    finally:
        kube_server.admin.delete(TAINTED)
