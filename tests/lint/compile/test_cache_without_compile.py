"""A cache that is kept for an engine that compiles nothing."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed
from tests.lint.compile.manifests import GUIDE, MOUNT, ROOT, SGLANG, cached, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "hostPath and --enforce-eager": Fires(
        cached(args=["--model=/m", "--enforce-eager"]), ("/compile-cache",), "--enforce-eager"
    ),
    "the guide's variables": Fires(cached(env=GUIDE, args=["--model=/m", "--enforce-eager"]), ("/compile-cache",)),
    "a volume of that name, no variable": Fires(
        cached(env={}, args=["--model=/m", "--enforce-eager"]), ("/compile-cache",)
    ),
    "-O0": Fires(cached(args=["--model=/m", "-O0"]), ("/compile-cache",), "`-O0`"),
    "torch.compile disabled": Fires(
        cached(env={**ROOT, "TORCH_COMPILE_DISABLE": "1"}), ("/compile-cache",), "TORCH_COMPILE_DISABLE"
    ),
    "a claim": Fires(
        cached("persistentVolumeClaim: {claimName: cache}", args=["--model=/m", "--enforce-eager"]), ("/compile-cache",)
    ),
    "the launcher and --enforce-eager": Fires(
        cached("emptyDir: {}", env={"GLOWPLUG_STORE": "s3://b/c"}, args=["--model=/m", "--enforce-eager"]),
        ("/compile-cache",),
    ),
    "a volume that only a variable says": Fires(
        pod(
            env={"VLLM_CACHE_ROOT": "/data/vllm"},
            mounts=["{name: data, mountPath: /data}"],
            volumes={"data": "emptyDir: {}"},
            args=["--model=/m", "--enforce-eager"],
        ),
        ("/data",),
    ),
}

SILENT = {
    "it compiles": Silent(cached()),
    "eager without a cache": Silent(pod(args=["--model=/m", "--enforce-eager"])),
    "eager with a volume for models": Silent(
        pod(
            args=["--model=/models/m", "--enforce-eager"],
            mounts=["{name: models, mountPath: /models}"],
            volumes={"models": "emptyDir: {}"},
        )
    ),
    "a hub's cache in the home": Silent(
        pod(
            args=["--model=a/b", "--enforce-eager"],
            mounts=["{name: cache, mountPath: /root/.cache}"],
            volumes={"cache": "persistentVolumeClaim: {claimName: hub}"},
        )
    ),
    "a hub's cache by a misleading name": Silent(
        pod(
            args=["--model=a/b", "--enforce-eager"],
            mounts=["{name: vllm-cache, mountPath: /root/.cache/huggingface}"],
            volumes={"vllm-cache": "emptyDir: {}"},
        )
    ),
    "the cache is turned off, not the compiler": Silent(cached(env={**ROOT, "VLLM_DISABLE_COMPILE_CACHE": "1"})),
    "SGLang without its switch": Silent(
        cached(
            env=SGLANG,
            image="lmsysorg/sglang:v0.5.23",
            command=["python3", "-m", "sglang.launch_server"],
            args=["--model-path=/m"],
        )
    ),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_the_unsafe_fix_takes_every_cause_back() -> None:
    text = pod(
        args=["--model=/m", "--enforce-eager"],
        env={**ROOT, "TORCH_COMPILE_DISABLE": "1"},
        mounts=[MOUNT],
        volumes={"compile-cache": "emptyDir: {}"},
    )
    assert fixed(RULE, text) == text
    mended = fixed(RULE, text, unsafe=True)
    assert "eager" not in mended
    assert "DISABLE" not in mended
    assert "VLLM_CACHE_ROOT" in mended
