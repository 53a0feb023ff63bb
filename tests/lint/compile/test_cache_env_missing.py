"""A volume for compiled artifacts that the engine is not told to use."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from tests.lint.checking import fixed, found
from tests.lint.compile.manifests import GUIDE, MOUNT, NVME, ROOT, cached, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "no variable at all": Fires(cached(env={}), ("/compile-cache",), "`VLLM_CACHE_ROOT` is not set"),
    "only the compilers": Fires(
        cached(env={"TORCHINDUCTOR_CACHE_DIR": "/compile-cache/inductor", "TRITON_CACHE_DIR": "/compile-cache/triton"}),
        ("/compile-cache",),
        "VLLM_CACHE_ROOT",
    ),
    "the guide without XDG_CACHE_HOME": Fires(
        cached(
            env={name: value for name, value in GUIDE.items() if "XDG" not in name}, image="vllm/vllm-openai:v0.21.0"
        ),
        ("/compile-cache",),
    ),
    "the guide without TRITON_CACHE_DIR": Fires(
        cached(
            env={name: value for name, value in GUIDE.items() if "TRITON" not in name}, image="vllm/vllm-openai:v0.21.0"
        ),
        ("/compile-cache",),
        "TRITON_CACHE_DIR",
    ),
    "before AOT without Inductor's": Fires(
        cached(image="vllm/vllm-openai:v0.16.0"), ("/compile-cache",), "only for a part of what it compiles"
    ),
    "0.10.2, the first with torch 2.8": Fires(cached(image="vllm/vllm-openai:v0.10.2"), ("/compile-cache",)),
    "0.11.0 where vLLM is told to leave the variables alone": Fires(
        cached(image="vllm/vllm-openai:v0.11.0", env={**ROOT, "VLLM_USE_STANDALONE_COMPILE": "1"}), ("/compile-cache",)
    ),
    "the engine's own directory, whatever the volume's name": Fires(
        pod(image="vllm/vllm-openai:v0.11.2", mounts=["{name: v, mountPath: /root/.cache/vllm/}"], volumes={"v": NVME}),
        ("/root/.cache/vllm/",),
        "TORCHINDUCTOR_CACHE_DIR",
    ),
    "AOT off without Inductor's": Fires(
        cached(env={**ROOT, "VLLM_USE_AOT_COMPILE": "0"}), ("/compile-cache",), "TORCHINDUCTOR_CACHE_DIR"
    ),
    "named by the volume alone": Fires(
        pod(mounts=["{name: torch-compile-cache, mountPath: /data}"], volumes={"torch-compile-cache": NVME}), ("/data",)
    ),
    "named by its path alone": Fires(
        pod(mounts=["{name: c, mountPath: /var/cache/torch-compile-cache}"], volumes={"c": "emptyDir: {}"}),
        ("/var/cache/torch-compile-cache",),
    ),
    "a home elsewhere": Fires(cached(env={"HOME": "/home/vllm"}), ("/compile-cache",), "/home/vllm/.cache/vllm"),
    "SGLang": Fires(
        cached(
            env={},
            image="lmsysorg/sglang:v0.5.23",
            command=["python3", "-m", "sglang.launch_server"],
            args=["--model-path=/m", "--enable-torch-compile"],
        ),
        ("/compile-cache",),
        "SGLANG_CACHE_DIR",
    ),
    "TensorRT-LLM": Fires(
        cached(env={}, image="nvcr.io/nvidia/tensorrt-llm/release:1.0.0", command=["trtllm-serve"], args=["/m"]),
        ("/compile-cache",),
    ),
}

SILENT = {
    "the engine's own": Silent(cached()),
    "the guide": Silent(cached(env=GUIDE, image="vllm/vllm-openai:v0.21.0")),
    "AOT sets Inductor's itself": Silent(cached(image="vllm/vllm-openai:v0.21.0")),
    "no volume": Silent(pod()),
    **{
        f"{version} redirects Inductor and Triton itself": Silent(cached(env=env, image=f"vllm/vllm-openai:v{version}"))
        for version in ("0.8.5", "0.9.2", "0.10.1", "0.10.1.1", "0.11.0")
        for env in ({**ROOT, "TORCHINDUCTOR_CACHE_DIR": "/compile-cache/inductor"}, ROOT)
    },
    "a version that was not read": Silent(cached(image="vllm/vllm-openai:v0.11.1")),
    "told to redirect": Silent(
        cached(image="vllm/vllm-openai:v0.16.0", env={**ROOT, "VLLM_USE_STANDALONE_COMPILE": "0"})
    ),
    "told by a variable that nobody knows": Silent(
        cached(
            image="vllm/vllm-openai:v0.16.0",
            env={**ROOT, "VLLM_USE_STANDALONE_COMPILE": "valueFrom: {configMapKeyRef: {name: c, key: k}}"},
        )
    ),
    "the part of its tree that is compiled": Silent(
        pod(mounts=["{name: c, mountPath: /root/.cache/vllm/torch_compile_cache}"], volumes={"c": NVME})
    ),
    "Triton's own volume": Silent(
        pod(
            env={**ROOT, "TORCHINDUCTOR_CACHE_DIR": "/compile-cache/inductor"},
            mounts=[MOUNT, "{name: triton, mountPath: /root/.triton}"],
            volumes={"compile-cache": NVME, "triton": NVME},
            image="vllm/vllm-openai:v0.16.0",
        )
    ),
    "Inductor's own volume": Silent(
        pod(
            env=ROOT,
            mounts=[MOUNT, "{name: i, mountPath: /tmp/torchinductor_root}"],
            volumes={"compile-cache": NVME, "i": NVME},
            image="vllm/vllm-openai:v0.16.0",
        )
    ),
    "a volume for weights": Silent(
        pod(mounts=["{name: models, mountPath: /models}"], volumes={"models": "emptyDir: {}"})
    ),
    "a hub's cache": Silent(
        pod(
            mounts=["{name: cache-volume, mountPath: /root/.cache/huggingface}"],
            volumes={"cache-volume": "persistentVolumeClaim: {claimName: hub}"},
        )
    ),
    "a name that may mean a hub's": Silent(
        pod(
            env={"HF_HOME": "/vllm-cache"},
            mounts=["{name: vllm-cache, mountPath: /vllm-cache}"],
            volumes={"vllm-cache": "emptyDir: {}"},
        )
    ),
    "the default directory": Silent(
        pod(mounts=["{name: compile-cache, mountPath: /root/.cache/vllm}"], volumes={"compile-cache": NVME})
    ),
    "a home's cache, the image chooses the user (llm-d)": Silent(
        pod(
            image="ghcr.io/llm-d/llm-d:v0.3.1",
            command=["vllm", "serve"],
            args=["/m"],
            mounts=["{name: torch-compile-cache, mountPath: /.cache}"],
            volumes={"torch-compile-cache": "emptyDir: {}"},
        )
    ),
    "a home's cache, the pod chooses the user": Silent(
        pod(
            container="securityContext: {runAsUser: 1000}",
            mounts=["{name: compile-cache, mountPath: /home/vllm/.cache}"],
            volumes={"compile-cache": "emptyDir: {}"},
        )
    ),
    "the launcher sets them": Silent(
        cached("emptyDir: {}", env={"GLOWPLUG_STORE": "s3://b/c", "GLOWPLUG_CACHE_ROOT": "/compile-cache"})
    ),
    "variables from a Secret": Silent(cached(env={}, env_from="[{secretRef: {name: s}}]")),
    "a script nobody can follow": Silent(
        cached(env={}, command=["bash", "-c"], args=['"source /env.sh; for i in 1; do vllm serve /m; done"'])
    ),
    "a value nobody knows": Silent(cached(env={"VLLM_CACHE_ROOT": "valueFrom: {configMapKeyRef: {name: c, key: k}}"})),
    "nothing is compiled": Silent(cached(env={}, args=["--model=/m", "--enforce-eager"])),
    "a version nobody knows": Silent(cached(image="vllm/vllm-openai:latest")),
    "SGLang by Inductor's variable": Silent(
        cached(
            env={"TORCHINDUCTOR_CACHE_DIR": "/compile-cache/i", "TRITON_CACHE_DIR": "/compile-cache/t"},
            image="lmsysorg/sglang:v0.5.23",
            command=["python3", "-m", "sglang.launch_server"],
            args=["--model-path=/m", "--enable-torch-compile"],
        )
    ),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def _env(text: str) -> dict[str, str]:
    container = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]
    return {one["name"]: one["value"] for one in container["env"]}


@pytest.mark.parametrize("env", [{}, {"TRITON_CACHE_DIR": "/compile-cache/triton"}, {"HF_HOME": "/hf"}], ids=str)
def test_the_fix_sets_what_render_sets_and_changes_nothing_that_is_there(env: dict[str, str]) -> None:
    mended = _env(fixed(RULE, cached(env=env)))
    assert (
        mended.items()
        >= {
            "VLLM_CACHE_ROOT": "/compile-cache/vllm",
            "VLLM_ASSETS_CACHE": "/compile-cache/vllm/assets",
            "TORCHINDUCTOR_CACHE_DIR": "/compile-cache/inductor",
            "TRITON_CACHE_DIR": "/compile-cache/triton",
            **env,
        }.items()
    )


def test_a_tree_that_lies_on_the_volume_already_stays_where_it_is() -> None:
    env = {"XDG_CACHE_HOME": "/compile-cache", "TORCHINDUCTOR_CACHE_DIR": "/compile-cache/inductor"}
    mended = _env(fixed(RULE, cached(env=env, image="vllm/vllm-openai:v0.21.0")))
    assert mended["TRITON_CACHE_DIR"] == "/compile-cache/triton"
    assert not any(name.startswith("VLLM_") for name in mended)


def test_the_variables_follow_the_mount() -> None:
    text = cached(env={}, mount=MOUNT.replace("/compile-cache", "/cache/compile/"))
    assert _env(fixed(RULE, text))["VLLM_CACHE_ROOT"] == "/cache/compile/vllm"


def test_a_volume_at_a_default_directory_keeps_what_it_holds() -> None:
    text = pod(
        image="vllm/vllm-openai:v0.11.2",
        mounts=["{name: cache, mountPath: /root/.cache/vllm}", "{name: triton, mountPath: /root/.triton}"],
        volumes={"cache": NVME, "triton": "hostPath: {path: /var/cache/triton}"},
    )
    mended = _env(fixed(RULE, text))
    assert mended["TORCHINDUCTOR_CACHE_DIR"] == "/root/.cache/vllm/inductor"
    assert not mended.keys() & {"VLLM_CACHE_ROOT", "VLLM_ASSETS_CACHE", "TRITON_CACHE_DIR"}


_MANY = "persistentVolumeClaim: {claimName: models}"
_CLAIM = """\
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: models, namespace: default}
spec:
  storageClassName: efs-sc
  accessModes: [ReadWriteMany]
"""


@pytest.mark.parametrize("env", [{}, {"VLLM_CACHE_ROOT": "/compile-cache/vllm"}], ids=["none", "its root"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(lambda env: cached(_MANY, env=env, image="vllm/vllm-openai:v0.16.0") + _CLAIM, id="EFS"),
        pytest.param(
            lambda env: cached("nfs: {server: n, path: /}", env=env, image="vllm/vllm-openai:v0.16.0"), id="NFS"
        ),
        pytest.param(
            lambda env: cached(
                NVME, mount=MOUNT.replace("}", ", readOnly: true}"), env=env, image="vllm/vllm-openai:v0.16.0"
            ),
            id="read-only",
        ),
    ],
)
def test_nothing_more_is_put_on_a_volume_that_is_the_fault_itself(
    text: Callable[[dict[str, str]], str], env: dict[str, str]
) -> None:
    (one,) = found(RULE, text(env))
    assert one.fix is None
    assert "on a volume of the node's own" in one.hint


@pytest.mark.parametrize(
    ("volume", "spec", "safe"),
    [
        (NVME, "", True),
        (NVME, "securityContext: {runAsUser: 1000}", False),
        ("emptyDir: {}", "securityContext: {runAsUser: 1000}", True),
        ("persistentVolumeClaim: {claimName: c}", "securityContext: {runAsUser: 1000}", False),
        ("persistentVolumeClaim: {claimName: c}", "securityContext: {runAsUser: 1000, fsGroup: 1000}", True),
    ],
)
def test_a_directory_that_is_roots_makes_the_fix_unsafe_for_another_user(volume: str, spec: str, *, safe: bool) -> None:
    (one,) = found(RULE, cached(volume, env={}, spec=spec))
    assert one.fix is not None
    assert one.fix.safe is safe
