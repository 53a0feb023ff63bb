"""A cache variable that points outside the volume that the pod has for it."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed, found
from tests.lint.compile.manifests import GUIDE, ROOT, cached, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "the engine's own": Fires(
        cached(env={"VLLM_CACHE_ROOT": "/cache/vllm"}), ("/cache/vllm",), "VLLM_CACHE_ROOT=/cache/vllm"
    ),
    "a path that only begins alike": Fires(
        cached(env={"VLLM_CACHE_ROOT": "/compile-cache2/vllm"}), ("/compile-cache2/vllm",)
    ),
    "Triton's": Fires(cached(env={**ROOT, "TRITON_CACHE_DIR": "/var/triton"}), ("/var/triton",)),
    "XDG": Fires(cached(env={"XDG_CACHE_HOME": "/cache"}), ("/cache",), "XDG_CACHE_HOME"),
    "Inductor's before AOT": Fires(
        cached(image="vllm/vllm-openai:v0.16.0", env={**ROOT, "TORCHINDUCTOR_CACHE_DIR": "/var/inductor"}),
        ("/var/inductor",),
    ),
    "with the launcher": Fires(
        cached(
            "emptyDir: {}",
            env={"GLOWPLUG_STORE": "s3://b/c", "GLOWPLUG_CACHE_ROOT": "/compile-cache", "VLLM_CACHE_ROOT": "/x"},
        ),
        ("/x",),
    ),
    "SGLang": Fires(
        cached(
            env={"SGLANG_CACHE_DIR": "/x"},
            image="lmsysorg/sglang:v0.5.23",
            command=["python3", "-m", "sglang.launch_server"],
            args=["--model-path=/m", "--enable-torch-compile"],
        ),
        ("/x",),
    ),
    "from a reference": Fires(
        cached(env={"BASE": "/x", "VLLM_CACHE_ROOT": "$(BASE)/vllm"}), ("$(BASE)/vllm",), "/x/vllm"
    ),
}

SILENT = {
    "inside": Silent(cached()),
    "the mount itself": Silent(cached(env={"VLLM_CACHE_ROOT": "/compile-cache"})),
    "the guide": Silent(cached(env=GUIDE, image="vllm/vllm-openai:v0.21.0")),
    "no volume for it": Silent(pod(env={"VLLM_CACHE_ROOT": "/tmp/vllm", "TRITON_CACHE_DIR": "/tmp/triton"})),
    "Inductor's where AOT overwrites it": Silent(
        cached(image="vllm/vllm-openai:v0.21.0", env={**ROOT, "TORCHINDUCTOR_CACHE_DIR": "/x"})
    ),
    "Inductor's in a version nobody knows": Silent(
        cached(image="vllm/vllm-openai:latest", env={**ROOT, "TORCHINDUCTOR_CACHE_DIR": "/x"})
    ),
    "Triton's where vLLM overwrites it": Silent(
        cached(image="vllm/vllm-openai:v0.10.1", env={**ROOT, "TRITON_CACHE_DIR": "/x"})
    ),
    "assets are no artifacts": Silent(cached(env={**ROOT, "VLLM_ASSETS_CACHE": "/assets"})),
    "XDG beside the engine's own": Silent(cached(env={**ROOT, "XDG_CACHE_HOME": "/x"})),
    "another volume": Silent(
        pod(
            env={**ROOT, "TRITON_CACHE_DIR": "/t/triton"},
            mounts=["{name: compile-cache, mountPath: /compile-cache}", "{name: t, mountPath: /t}"],
            volumes={"compile-cache": "emptyDir: {}", "t": "emptyDir: {}"},
        )
    ),
    "a value nobody knows": Silent(cached(env={"VLLM_CACHE_ROOT": "valueFrom: {secretKeyRef: {name: s, key: k}}"})),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


@pytest.mark.parametrize(
    ("env", "mended"),
    [
        ({"VLLM_CACHE_ROOT": "/x"}, {"VLLM_CACHE_ROOT": "/compile-cache/vllm"}),
        ({"XDG_CACHE_HOME": "/x"}, {"XDG_CACHE_HOME": "/x", "VLLM_CACHE_ROOT": "/compile-cache/vllm"}),
        ({**ROOT, "TRITON_CACHE_DIR": "/x"}, {**ROOT, "TRITON_CACHE_DIR": "/compile-cache/triton"}),
    ],
    ids=str,
)
def test_the_fix_puts_it_on_the_volume(env: dict[str, str], mended: dict[str, str]) -> None:
    assert fixed(RULE, cached(env=env)) == cached(env=mended)


def test_nothing_more_is_put_on_a_network_file_system() -> None:
    (one,) = found(RULE, cached("nfs: {server: n, path: /}", env={**ROOT, "TRITON_CACHE_DIR": "/x"}))
    assert one.fix is None
