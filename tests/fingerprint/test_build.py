"""One start has one key digest, wherever it is seen; another start has another."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.documents.fingerprint import Fact, Fingerprint
from glowplug.engines.command import see_through
from glowplug.engines.registry import recognise
from glowplug.fingerprint.build import fingerprint
from glowplug.fingerprint.hardware import Hardware
from glowplug.fingerprint.software import Software

SOFTWARE = Software(
    {
        name: Fact(value, "observed:test")
        for name, value in {
            "engine_version": "0.21.0",
            "torch": "2.11.0",
            "triton": "3.6.0",
            "python": "3.12.3",
            "cuda": "13.0",
        }.items()
    }
)
HARDWARE = Hardware(Fact("NVIDIA H200", "observed:nvml"), Fact("x86_64", "observed:uname"), "9.0", accelerated=True)


def build(
    argv: list[str],
    environ: Mapping[str, str] | None = None,
    *,
    wanted: str = "auto",
    domain: str = "default",
    cache_root: str = "/compile-cache",
    software: Software = SOFTWARE,
    hardware: Hardware = HARDWARE,
    **more: str,
) -> Fingerprint:
    found = recognise(see_through(argv, environ or {}), None, wanted)
    assert found.launch is not None
    assert found.adapter is not None
    invocation = see_through(argv, environ or {})
    return fingerprint(
        invocation,
        found.launch,
        found.adapter,
        domain=domain,
        cache_root=cache_root,
        software=software,
        hardware=hardware,
        **more,
    )


BASE = ["vllm", "serve", "s3://b/m", "-tp", "2", "--max-model-len", "8192"]


def test_a_whole_fingerprint() -> None:
    found = build(BASE)
    assert found.key is not None
    assert found.key.gpu == "NVIDIA H200"
    assert found.key.layout.tp == 2
    assert found.key.args == {"max_model_len": "8192"}
    assert found.key_digest == found.key.digest()
    assert found.guards == {"triton": "3.6.0", "cuda": "13.0", "python": "3.12.3", "capability": "9.0"}
    assert found.unknown == ()
    assert all(fact.source.partition(":")[0] in ("observed", "given", "inferred") for fact in found.fields.values())
    assert set(found.fields) >= {
        "domain",
        "engine",
        "engine_version",
        "torch",
        "gpu",
        "machine",
        "tp",
        "pp",
        "dp",
        "ep",
        "model",
        "args",
        "env",
        "cache_root",
    }


SAME: list[tuple[list[str], dict[str, str]]] = [
    (
        BASE,
        {
            "VLLM_PORT": "1",
            "HOSTNAME": "pod-1",
            "VLLM_HOST_IP": "10.0.0.1",
            "VLLM_IMAGE_TAG": "x",
            "CUDA_HOME": "/c",
            "VLLM_API_KEY": "k",
        },
    ),
    (["sh", "-c", "exec vllm serve s3://b/m --tensor-parallel-size=2 --max_model_len 8K"], {}),
    (
        [
            "python3",
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model",
            "s3://b/m",
            "-tp=2",
            "--max-model-len=8192",
            "--port",
            "9",
        ],
        {},
    ),
    (
        [
            *BASE,
            "--load-format",
            "runai_streamer",
            "--served-model-name",
            "x",
            "--dtype",
            "auto",
            "--api-key",
            "secret",
        ],
        {},
    ),
    (
        BASE,
        {
            "VLLM_ASSETS_CACHE": "/compile-cache/vllm/assets",
            "VLLM_CACHE_ROOT": "/compile-cache/vllm",
            "TRITON_CACHE_DIR": "/compile-cache/triton",
        },
    ),
    (BASE, {"VLLM_USE_STANDALONE_COMPILE": "1", "VLLM_BATCH_INVARIANT": "0"}),
]


@pytest.mark.parametrize(("argv", "environ"), SAME)
def test_one_start_has_one_digest(argv: list[str], environ: dict[str, str]) -> None:
    assert build(argv, environ).key_digest == build(BASE).key_digest


def _software(**changed: str) -> Software:
    return Software({**SOFTWARE.facts, **{name: Fact(value, "x") for name, value in changed.items()}})


OTHER = [
    (build(["vllm", "serve", "s3://b/m", "-tp", "4", "--max-model-len", "8192"]), "tp"),
    (build(["vllm", "serve", "s3://b/m/", "-tp", "2", "--max-model-len", "8192"]), "model"),
    (build([*BASE, "-pp", "2"]), "pp"),
    (build([*BASE, "-dp", "2"]), "dp"),
    (build([*BASE, "--enable-expert-parallel"]), "args.enable_expert_parallel,ep"),
    (build([*BASE[:-1], "4096"]), "args.max_model_len"),
    (build([*BASE, "--block-size", "32"]), "args.block_size"),
    (build(BASE, {"VLLM_PP_LAYER_PARTITION": "1,2"}), "env.VLLM_PP_LAYER_PARTITION"),
    (build(BASE, {"VLLM_USE_AOT_COMPILE": "0"}), "env.VLLM_USE_AOT_COMPILE"),
    (build(BASE, {"VLLM_ASSETS_CACHE": "/other"}), "env.VLLM_ASSETS_CACHE"),
    (build(BASE, domain="team"), "domain"),
    (build(BASE, cache_root="/other"), "cache_root"),
    (build(BASE, software=_software(torch="2.12.0")), "torch"),
    (build(BASE, software=_software(engine_version="0.21.1")), "engine_version"),
    (build(BASE, hardware=dataclasses.replace(HARDWARE, gpu=Fact("NVIDIA L4", "x"))), "gpu"),
    (build(BASE, hardware=dataclasses.replace(HARDWARE, machine=Fact("aarch64", "x"))), "machine"),
]


@pytest.mark.parametrize(("other", "fields"), OTHER, ids=[fields for _, fields in OTHER])
def test_another_start_has_another_digest_and_the_field_is_named(other: Fingerprint, fields: str) -> None:
    base = build(BASE)
    assert base.key is not None
    assert other.key is not None
    assert ",".join(base.key.differences(other.key)) == fields
    assert other.key_digest != base.key_digest


@pytest.mark.parametrize("name", ["triton", "cuda", "python"])
def test_guards_are_not_in_the_key(name: str) -> None:
    other = build(BASE, software=_software(**{name: "0"}))
    assert other.key_digest == build(BASE).key_digest
    assert other.guards[name] == "0"


@pytest.mark.parametrize(
    ("found", "unknown"),
    [
        (build(BASE, software=Software({})), ("engine_version", "torch")),
        (build(BASE, hardware=Hardware(None, Fact("x86_64", "x"), why="mixed")), ("gpu",)),
        (build(["vllm", "serve"]), ("model",)),
    ],
)
def test_what_cannot_be_known_is_named_and_gives_no_key(found: Fingerprint, unknown: tuple[str, ...]) -> None:
    assert found.unknown == unknown
    assert found.key is None
    assert found.key_digest is None


def test_secrets_are_digests_and_still_count() -> None:
    one = build(
        [*BASE, "--additional-config", '{"a": 1}', "--hf-token", "hf_secret_value"],
        {"TORCHINDUCTOR_REDIS_URL": "redis://user:pw@h", "VLLM_API_KEY": "sk-secret"},
    )
    text = repr(one)
    for secret in ("hf_secret_value", "sk-secret", "user:pw"):
        assert secret not in text


def test_the_model_s_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"a": 1}')
    local = build(["vllm", "serve", str(tmp_path)])
    assert local.guards["model_config_sha256"] == hashlib.sha256(b'{"a": 1}').hexdigest()
    assert build(BASE, model_config_sha256="ab", image_digest="sha256:cd").guards["model_config_sha256"] == "ab"
    assert "model_config_sha256" not in build(BASE).guards


def test_plain_torch() -> None:
    found = build(["python3", "dir/train.py"], wanted="torch")
    assert found.key is not None
    assert (found.key.engine, found.key.engine_version, found.key.model) == ("torch", "2.11.0", "dir/train.py")


@given(
    st.lists(st.text(max_size=12), max_size=4),
    st.dictionaries(
        st.sampled_from(["VLLM_PLUGINS", "TORCHINDUCTOR_X", "VLLM_ATTENTION_BACKEND"]), st.text(max_size=9)
    ),
)
def test_any_argument_can_be_digested(words: list[str], environ: dict[str, str]) -> None:
    argv = ["python3", *(word for word in words if word and not word.startswith("-")), "\udcff"]
    found = build(argv, environ, wanted="torch")
    assert found.key is not None
    assert found.key_digest == build(argv, dict(reversed(environ.items())), wanted="torch").key_digest


@given(
    st.dictionaries(
        st.sampled_from(["--block-size", "--max-model-len", "--max-num-seqs", "-tp"]), st.integers(1, 64), min_size=1
    ),
    st.randoms(),
)
def test_the_order_of_arguments_is_no_difference(options: dict[str, int], random) -> None:
    items = list(options.items())
    random.shuffle(items)
    one = build(["vllm", "serve", "m", *(str(part) for item in options.items() for part in item)])
    other = build(["vllm", "serve", *(str(part) for item in items for part in item), "--model", "m"])
    assert one.key_digest == other.key_digest
