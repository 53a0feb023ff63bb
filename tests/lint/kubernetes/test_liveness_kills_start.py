"""liveness-kills-start: a liveness probe that counts from the first second."""

from __future__ import annotations

import pytest
import yaml

from tests.lint.checking import at, fixed, found
from tests.lint.kubernetes.written import GPU_TOLERATION, deployment, line_of

RULE = "liveness-kills-start"
HEALTH = "httpGet: {path: /health, port: 8000}"
ON_G5 = GPU_TOLERATION + "nodeSelector: {node.kubernetes.io/instance-type: g5.xlarge}\n"


def liveness(delay: int = 0, period: int = 10, failures: int = 3, how: str = HEALTH) -> str:
    return (
        f"livenessProbe:\n  {how}\n  initialDelaySeconds: {delay}\n  periodSeconds: {period}\n"
        f"  failureThreshold: {failures}\n"
    )


@pytest.mark.parametrize(
    ("args", "container", "size", "fires"),
    [
        (("m",), liveness(60), None, True),
        (("m",), liveness(0), None, True),
        # The third failure comes two periods after the first, which may come at once after the delay.
        (("m",), liveness(119), None, True),
        (("m",), liveness(120), None, False),
        (("m",), liveness(139, 10, 1), None, True),
        (("m",), liveness(140, 10, 1), None, False),
        (("m", "--enforce-eager"), liveness(39), None, True),
        (("m", "--enforce-eager"), liveness(40), None, False),
        (("s3://b/m",), liveness(300), 67 * 10**9, True),
        (("s3://b/m",), liveness(600), 67 * 10**9, False),
        (("m",), liveness(0, 30, 20), None, False),
        (("m",), "startupProbe:\n  httpGet: {path: /health, port: 8000}\n" + liveness(), None, False),
        (("m",), "startupProbe: {}\n" + liveness(), None, True),
        (("m",), liveness(how="exec: {command: [pgrep, vllm]}"), None, False),
        (("m",), liveness(how="httpGet: {path: /live, port: 9090}"), None, False),
        (("m",), "readinessProbe:\n  " + HEALTH + "\n", None, False),
    ],
)
def test_what_it_allows_against_a_cold_start(
    args: tuple[str, ...], container: str, size: int | None, fires: bool
) -> None:
    assert bool(found(RULE, deployment(*args, container=container, pod=ON_G5), size=size)) == fires


@pytest.mark.parametrize("gpus", [None, "0"])
def test_pods_without_a_gpu_are_left_alone(gpus: str | None) -> None:
    assert found(RULE, deployment(gpus=gpus, container=liveness())) == []


def test_it_points_at_the_probe() -> None:
    text = deployment(container=liveness(60))
    (finding,) = found(RULE, text)
    assert at(finding) == "livenessProbe"
    assert finding.line == line_of(text, "livenessProbe")
    assert "may end the container after 80 s (60 s + 2 × 10 s)" in finding.message


def test_the_fix_adds_a_startup_probe_that_asks_the_same() -> None:
    container = "# the probe\nlivenessProbe:  # by hand\n  tcpSocket: {port: 8000}\n  timeoutSeconds: 4\n"
    text = deployment(container=container)
    after = fixed(RULE, text)
    (one,) = yaml.safe_load(after)["spec"]["template"]["spec"]["containers"]
    assert one["startupProbe"] == {
        "tcpSocket": {"port": 8000},
        "periodSeconds": 10,
        "timeoutSeconds": 4,
        "failureThreshold": 63,
    }
    assert [line for line in text.splitlines() if line not in after.splitlines()] == []
    assert list(one).index("startupProbe") < list(one).index("livenessProbe")
