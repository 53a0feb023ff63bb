"""vLLM's own key: comparing two, and keeping secrets out of its metadata."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.errors import BadInputError
from glowplug.engines.registry import by_name
from glowplug.engines.vllm import keys

PATH = "vllm/torch_compile_cache/0123456789/rank_0_0/backbone/cache_key_factors.json"


def factors(env: dict[str, object], **hashes: str) -> bytes:
    return json.dumps(
        {"env": env, "config_hash": "c", "code_hash": "d", "compiler_hash": "e", **hashes}, indent=2
    ).encode()


def differences(first: bytes, second: bytes) -> list[str]:
    return [item.name for item in keys.compare(keys.parse(first), keys.parse(second))]


def test_the_variable_that_differs_is_named() -> None:
    first = factors({"VLLM_NIXL_SIDE_CHANNEL_HOST": "10.0.0.1", "VLLM_USE_V1": True})
    second = factors({"VLLM_NIXL_SIDE_CHANNEL_HOST": "10.0.0.2", "VLLM_USE_V1": True})
    (found,) = keys.compare(keys.parse(first), keys.parse(second))
    assert found.name == "VLLM_NIXL_SIDE_CHANNEL_HOST"
    assert (found.first, found.second) == ("10.0.0.1", "10.0.0.2")
    assert "differs by pod" in found.explanation


def test_equal_keys_and_other_factors() -> None:
    assert differences(factors({"A": 1}), factors({"A": 1})) == []
    assert differences(factors({"A": 1}), factors({"B": 1}, code_hash="x")) == ["A", "B", "code_hash"]


def test_a_secret_is_compared_but_not_shown() -> None:
    found = keys.compare(
        keys.parse(factors({"VLLM_API_KEY": "sk-one"})), keys.parse(factors({"VLLM_API_KEY": "sk-two"}))
    )
    assert "sk-" not in repr(found)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"env": 1}', b"\xff", b"[" * 100_000])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(BadInputError):
        keys.parse(data)


@pytest.mark.parametrize(
    ("name", "version", "hashed"),
    [
        ("VLLM_API_KEY", "0.28.0", True),
        ("VLLM_API_KEY", "0.29.0", False),
        ("VLLM_IMAGE_TAG", "0.25.1", False),
        ("VLLM_IMAGE_TAG", "0.26.0", True),
        ("VLLM_IMAGE_TAG", "9.0.0", True),
        ("VLLM_NIXL_SIDE_CHANNEL_HOST", "0.10.2", True),
        ("VLLM_CACHE_ROOT", "0.21.0", False),
        ("CUDA_HOME", "0.33.0", True),
    ],
)
def test_what_is_hashed_in_which_version(name: str, version: str, *, hashed: bool) -> None:
    assert keys.hashed(name, version) is hashed


def test_redaction_keeps_the_form_and_everything_else() -> None:
    adapter = by_name("vllm")
    assert adapter is not None
    data = factors({"VLLM_API_KEY": 'sk-"secret"', "VLLM_PLUGINS": None, "VLLM_PORT": "1"})
    clean = adapter.redact(PATH, data)
    assert b"secret" not in clean
    document = json.loads(clean)
    assert document["env"]["VLLM_API_KEY"].startswith("sha256:")
    assert document["env"]["VLLM_PORT"] == "1"
    assert clean.count(b"\n") == data.count(b"\n")
    assert adapter.redact(PATH, clean) == clean
    assert adapter.redact("vllm/x/computation_graph.py", data) == data


def test_a_cut_off_file_is_redacted_too() -> None:
    data = factors({"VLLM_API_KEY": "sk-secret", "Z": "z"})[:-40]
    assert b"sk-secret" not in keys.redacted(data)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    keys.redacted(data)
    with contextlib.suppress(BadInputError):
        keys.parse(data)


@given(
    st.dictionaries(
        st.sampled_from(["VLLM_API_KEY", "MY_TOKEN", "DB_PASSWORD"]), st.text(min_size=8, max_size=30), min_size=1
    )
)
def test_no_secret_survives(env: dict[str, str]) -> None:
    clean = json.loads(keys.redacted(factors(dict(env))))
    assert all(clean["env"][name] != value for name, value in env.items())
