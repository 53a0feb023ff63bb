"""startup-probe-too-short: what a probe allows against one and a half cold starts."""

from __future__ import annotations

import math

import pytest

from glowplug.catalog.instances import instance
from glowplug.lint.rules.kubernetes import cold
from glowplug.models.read import of_size
from glowplug.plan.decide import decide
from glowplug.plan.request import Machine, Request
from glowplug.render import budget
from tests.lint.checking import at, fixed, found
from tests.lint.kubernetes.written import GPU_TOLERATION, deployment, line_of

RULE = "startup-probe-too-short"
GB = 10**9
ON_P5 = GPU_TOLERATION + "nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}\n"
ON_G5 = GPU_TOLERATION + "nodeSelector: {node.kubernetes.io/instance-type: g5.xlarge}\n"
ONE_GPU = ("s3://models/llama",)
EAGER = (*ONE_GPU, "--enforce-eager")


def probe(*, failures: int | None = None, period: int | None = None, delay: int | None = None, how: str = "") -> str:
    numbers = {"failureThreshold": failures, "periodSeconds": period, "initialDelaySeconds": delay}
    lines = [f"  {name}: {number}\n" for name, number in numbers.items() if number is not None]
    return "startupProbe:\n  " + (how or "httpGet: {path: /health, port: 8000}") + "\n" + "".join(lines)


@pytest.mark.parametrize(
    ("args", "given", "size", "pod", "fires"),
    [
        # Nothing is known: 140 s and half of that again.
        (ONE_GPU, {"failures": 21, "period": 10}, None, GPU_TOLERATION, True),
        (ONE_GPU, {"failures": 22, "period": 10}, None, GPU_TOLERATION, False),
        (ONE_GPU, {"failures": 12, "period": 10, "delay": 100}, None, GPU_TOLERATION, False),
        (ONE_GPU, {}, None, GPU_TOLERATION, True),  # Kubernetes' defaults: 3 × 10 s
        # Nothing is compiled, or nobody knows: 60 s and half of that.
        (EAGER, {"failures": 9, "period": 10}, None, GPU_TOLERATION, True),
        (EAGER, {"failures": 10, "period": 10}, None, GPU_TOLERATION, False),
        ((*ONE_GPU, "-O0"), {"failures": 10, "period": 10}, None, GPU_TOLERATION, False),
        ((*ONE_GPU, "$(MORE)"), {"failures": 10, "period": 10}, None, GPU_TOLERATION, False),
        # The guide's own: 30 + 60 × 10 s for 67 GB.
        (ONE_GPU, {"failures": 60, "period": 10, "delay": 30}, 67 * GB, ON_P5, False),
        (ONE_GPU, {"failures": 22, "period": 10}, 67 * GB, ON_P5, True),
        # g5.xlarge has 2.5 Gbit/s: 67 GB take 569 s, counted at half speed.
        (ONE_GPU, {"failures": 60, "period": 10, "delay": 30}, 67 * GB, ON_G5, True),
        (ONE_GPU, {"failures": 87, "period": 10}, 67 * GB, ON_G5, False),
        # A machine that nobody names may be the fastest.
        (ONE_GPU, {"failures": 60, "period": 10, "delay": 30}, 67 * GB, GPU_TOLERATION, False),
        # A model in the image or on a volume takes as long as that takes.
        (("/models/llama",), {"failures": 22, "period": 10}, 670 * GB, ON_G5, False),
    ],
)
def test_what_it_allows_against_a_cold_start(
    args: tuple[str, ...], given: dict[str, int], size: int | None, pod: str, fires: bool
) -> None:
    text = deployment(*args, container=probe(**given), pod=pod)
    assert bool(found(RULE, text, size=size)) == fires


@pytest.mark.parametrize(
    ("image", "compiles"),
    [
        ("vllm/vllm-openai:v0.11.0", True),
        ("vllm/vllm-openai:v0.34.1", True),
        ("vllm/vllm-openai:latest", True),
        ("docker.io/vllm/vllm-openai", True),
        ("vllm/vllm-openai:v0.10.2", False),  # V0 may run
        ("registry.example/llm:7", False),
        ("lmcache/vllm-openai:v0.3.9", False),
        ("vllm/vllm-openai@sha256:" + "0" * 64, False),
    ],
)
def test_whether_it_compiles_depends_on_the_version(image: str, compiles: bool) -> None:
    text = deployment(image=image, container=probe(failures=15, period=10))
    assert bool(found(RULE, text)) == compiles


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(deployment(), id="no probe"),
        pytest.param(
            deployment(container=probe(failures=1, how="exec: {command: [test, -f, /ready]}")), id="a command"
        ),
        pytest.param(
            deployment(container=probe(failures=1, how="httpGet: {path: /live, port: 9090}")), id="another port"
        ),
        pytest.param(
            deployment("m", "--port=80", container=probe(failures=1)), id="the engine listens on another port"
        ),
        pytest.param(
            deployment(
                container=probe(failures=1, how="httpGet: {path: /, port: x}")
                + "ports: [{name: y, containerPort: 8000}]\n"
            ),
            id="a port of no such name",
        ),
        pytest.param(deployment(container=probe(failures=1), gpus=None), id="no GPU: nobody has measured that"),
        pytest.param(
            deployment(container=probe(how="httpGet: {path: /, port: 8000}\n  periodSeconds: fast")), id="no number"
        ),
        pytest.param(
            deployment("eval $START", command="[sh, -c]", container=probe(failures=1)), id="an opaque command"
        ),
    ],
)
def test_it_is_silent(text: str) -> None:
    assert found(RULE, text) == []


@pytest.mark.parametrize(
    "how",
    [
        "httpGet: {path: /health, port: 8000}",
        'httpGet: {path: /health, port: "8000"}',
        "tcpSocket: {port: 8000}",
        "httpGet: {path: /health, port: http}",
    ],
)
def test_probes_that_the_engine_answers(how: str) -> None:
    ports = "ports: [{name: http, containerPort: 8000}]\n"
    assert found(RULE, deployment(container=ports + probe(failures=6, how=how)))


@pytest.mark.parametrize(
    ("engine", "port"),
    [
        ({"image": "lmsysorg/sglang:v0.5.9", "command": "[python3, -m, sglang.launch_server]"}, 30000),
        ({"image": "nvcr.io/nvidia/tensorrt-llm/release:1.0.0", "command": "[trtllm-serve]"}, 8000),
    ],
)
def test_other_engines_that_compile_nothing_by_themselves(engine: dict[str, str], port: int) -> None:
    def of(failures: int) -> str:
        text = probe(failures=failures, period=10, how=f"httpGet: {{path: /health, port: {port}}}")
        return deployment("--model-path=s3://b/m", container=text, **engine)

    assert found(RULE, of(9))
    assert found(RULE, of(10)) == []


def test_it_points_at_the_number_and_says_how_it_counts() -> None:
    text = deployment(container=probe(failures=6, period=10, delay=30))
    (finding,) = found(RULE, text)
    assert at(finding) == "6"
    assert finding.line == line_of(text, "failureThreshold")
    assert "may end the start after 80 s (30 s + 5 × 10 s); a cold start takes about 140 s" in finding.message
    assert finding.hint == "set failureThreshold: 60, for the 620 s that `glowplug render` would allow"
    (bare,) = found(RULE, deployment(container=probe()))
    assert at(bare) == "startupProbe"


def test_the_annotation_says_the_size_too() -> None:
    annotation = "annotations: {glowplug.dev/weights: 67GB}\n"
    text = deployment(annotations=annotation, container=probe(failures=60, period=10), pod=ON_G5)
    (finding,) = found(RULE, text)
    assert "weights of 67 GB" in finding.message


@pytest.mark.parametrize("size", [None, 67 * GB, 640 * GB])
@pytest.mark.parametrize("pod", [GPU_TOLERATION, ON_G5, ON_P5])
def test_the_fix_allows_what_render_would(size: int | None, pod: str) -> None:
    text = deployment(container=probe(failures=6, period=10, delay=30) + "  # it is slow\n", pod=pod)
    after = fixed(RULE, text, size=size)
    tries = int(after.split("failureThreshold: ")[1].split("\n")[0])
    assert after == text.replace("failureThreshold: 6", f"failureThreshold: {tries}")
    assert 30 + 10 * (tries - 1) >= 620
    if size and pod == ON_G5:
        request = Request(of_size(size, "s3://b/m"), machine=Machine.of_instance(instance("g5.xlarge")))
        assert 30 + 10 * (tries - 1) >= budget.undisturbed_seconds(decide(request))


def test_a_probe_without_numbers_gets_one() -> None:
    assert "failureThreshold: 63" in fixed(RULE, deployment(container=probe()))


@pytest.mark.parametrize("size", [1, GB, 67 * GB])
def test_what_is_not_known_makes_the_estimate_smaller(size: int) -> None:
    """An estimate with everything known is never below the one without."""
    known = deployment(container=probe(failures=1, period=1), pod=ON_G5)
    unknown = deployment(container=probe(failures=1, period=1))
    seconds = [
        float(one.message.split("about ")[1].split(" s")[0])
        for one in (*found(RULE, known, size=size), *found(RULE, unknown, size=size), *found(RULE, unknown))
    ]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] == math.ceil(140) == 140
    assert cold.MARGIN == 1.5
