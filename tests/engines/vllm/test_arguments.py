"""Two spellings of one configuration are one key; what turns compilation off; layout; readiness."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.documents.fingerprint import Layout
from glowplug.core.errors import GlowplugError, UsageError
from glowplug.engines.adapter import Invocation, Launch
from glowplug.engines.vllm import config_file
from glowplug.engines.vllm.arguments import canonical_json, human_int
from glowplug.engines.vllm.command import key_arguments, read

FILES = {
    "c.yaml": "# model\nmodel: s3://b/m\ntensor-parallel-size: 2\nmax_model_len: 8192\nenforce-eager: false\n"
    "cudagraph-capture-sizes: [1, 2, 4]\ncompilation-config:\n  pass_config:\n    fuse_allreduce_rms: true\n  mode: 3\n"
    "served-model-name:\n  - a\n  - 'b c'\n",
}


def launch(words: list[str], environ: Mapping[str, str] | None = None) -> Launch:
    found = read(Invocation(("vllm", "serve", *words), environ or {}), FILES.__getitem__)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--max-model-len", "8192"], "max_model_len", "8192"),
        (["--max-model-len=8192"], "max_model_len", "8192"),
        (["--max_model_len", "8K"], "max_model_len", "8192"),
        (["--max-model", "8192"], "max_model_len", "8192"),
        (["--max-model-len", "8k"], "max_model_len", "8000"),
        (["--max-model-len", "auto"], "max_model_len", "-1"),
        (["-q", "awq"], "quantization", "awq"),
        (["-q=awq"], "quantization", "awq"),
        (["-O3"], "optimization_level", "3"),
        (["-O=3"], "optimization_level", "3"),
        (["-O", "3"], "optimization_level", "3"),
        (["--optimization-level", "3"], "optimization_level", "3"),
        (["-cc.mode=3", "-cc.backend", "inductor"], "compilation_config", '{"backend":"inductor","mode":3}'),
        (
            ["--compilation-config", '{"mode": 3,  "backend": "inductor"}'],
            "compilation_config",
            '{"backend":"inductor","mode":3}',
        ),
        (["--compilation_config.mode", "3"], "compilation_config", '{"mode":3}'),
        (["-O.level=3"], "compilation_config", '{"level":3}'),
        (["--compilation-config.compile_sizes+=1,2"], "compilation_config", '{"compile_sizes":["1","2"]}'),
        (["--compilation-config", '{"mode": 3, "cache_dir": "/x"}'], "compilation_config", '{"mode":3}'),
        (["--cudagraph-capture-sizes", "1", "2", "4"], "cudagraph_capture_sizes", "1,2,4"),
        (["--enable-chunked-prefill"], "enable_chunked_prefill", "true"),
        (["--no-enable-chunked-prefill"], "enable_chunked_prefill", "false"),
        (
            ["--speculative-config", '{"num_speculative_tokens": 2}'],
            "speculative_config",
            '{"num_speculative_tokens":2}',
        ),
        (["--hf-overrides", '{"b": 1.5, "a": null}'], "hf_overrides", '{"a":null,"b":1.5}'),
    ],
)
def test_spellings(words: list[str], name: str, value: str) -> None:
    for line in (["m", *words], [*words, "--port", "1", "--model", "m"]):
        assert launch(line).args == {name: value}
        assert launch(line).model == "m"


def test_defaults_are_left_out() -> None:
    line = ["m", "--dtype", "auto", "--kv-cache-dtype=auto", "-O2", "--no-enable-lora", "--hf-overrides", "{}"]
    assert launch(line).args == {}


def test_what_does_not_change_code_is_beside_the_key() -> None:
    found = launch(
        ["m", "--port", "1", "--load-format", "runai_streamer", "--seed", "-1", "--new-option", "x", "--new-flag"]
    )
    assert found.args == {}
    assert found.other_args == {
        "port": "1",
        "load_format": "runai_streamer",
        "seed": "-1",
        "new_option": "x",
        "new_flag": "true",
    }


def test_a_configuration_file_is_read_and_the_command_line_wins() -> None:
    found = launch(["--config", "c.yaml", "--max-model-len", "1024"])
    assert found.model == "s3://b/m"
    assert found.layout.tp == 2
    assert found.args["max_model_len"] == "1024"
    assert found.args["cudagraph_capture_sizes"] == "1,2,4"
    assert json.loads(found.args["compilation_config"]) == {"mode": 3, "pass_config": {"fuse_allreduce_rms": True}}
    assert found.other_args["served_model_name"] == "a,b c"
    assert found.disabled == ""
    assert launch(["other", "--config", "c.yaml"]).model == "other"


@pytest.mark.parametrize(
    "words",
    [
        ["--config", "none.yaml"],
        ["--config"],
        ["--config", "c.json"],
        ["m", "-tp"],
        ["m", "-tp", "x"],
        ["m", "-tp", "0"],
        ["m", "--max-model-len", "1.5.5"],
    ],
)
def test_what_vllm_refuses_is_refused(words: list[str]) -> None:
    def missing(path: str) -> str:
        raise FileNotFoundError(path)

    with pytest.raises(UsageError):
        read(Invocation(("vllm", "serve", *words), {}), missing)


def test_a_model_after_an_unknown_flag_is_found() -> None:
    assert launch(["--brand-new-flag", "m"]).model == "m"


@pytest.mark.parametrize(
    ("words", "layout", "ranks"),
    [
        (["-tp", "2"], Layout(tp=2), 2),
        (["-tp=2", "-pp", "2", "--data-parallel-size=2"], Layout(2, 2, 2, 1), 8),
        (["-tp", "4", "-dp", "2", "--enable-expert-parallel"], Layout(4, 1, 2, 8), 8),
        (["-tp", "16", "--nnodes", "2"], Layout(tp=16), None),
        (["-tp", "8", "--distributed-executor-backend", "ray"], Layout(tp=8), None),
        (["-dp", "4", "-dpl", "2", "--data-parallel-address", "x"], Layout(dp=4), None),
        (["-dp", "4", "--headless"], Layout(dp=4), None),
    ],
)
def test_layout(words: list[str], layout: Layout, ranks: int | None) -> None:
    found = launch(["m", *words])
    assert found.layout == layout
    assert found.local_ranks == ranks
    assert "tensor_parallel_size" not in found.args


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (["--enforce-eager"], {}),
        (["-O0"], {}),
        (["-cc.mode=0"], {}),
        (["-cc.mode=none"], {}),
        (["--compilation-config", '{"level": 0}'], {}),
        (["-cc.backend=eager"], {}),
        ([], {"VLLM_DISABLE_COMPILE_CACHE": "1"}),
        ([], {"TORCH_COMPILE_DISABLE": "1"}),
        ([], {"TORCHDYNAMO_DISABLE": "1"}),
        ([], {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}),
        (["-cc.inductor_compile_config.force_disable_caches=true"], {}),
    ],
)
def test_off(words: list[str], environ: dict[str, str]) -> None:
    assert launch(["m", *words], environ).disabled


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (["-O0", "-cc.mode=3"], {}),
        (["--no-enforce-eager"], {}),
        ([], {"VLLM_DISABLE_COMPILE_CACHE": "0"}),
        (["-O1"], {}),
    ],
)
def test_not_off(words: list[str], environ: dict[str, str]) -> None:
    assert launch(["m", *words], environ).disabled == ""


def test_a_fixed_cache_directory_is_advised_against() -> None:
    assert "cache_dir" in launch(["m", "-cc.cache_dir=/x"]).advice[0]


@pytest.mark.parametrize(
    ("words", "url"),
    [
        ([], "http://127.0.0.1:8000/health"),
        (
            ["--host", "0.0.0.0", "--port", "9"],  # noqa: S104 - recognised, not bound to
            "http://127.0.0.1:9/health",
        ),
        (["--host", "::1"], "http://[::1]:8000/health"),
        (["--host", "10.0.0.1", "--ssl-certfile", "c", "--ssl-keyfile", "k"], "https://10.0.0.1:8000/health"),
        (["--root-path", "/v"], "http://127.0.0.1:8000/health"),
        (["--uds", "/s"], None),
        (["--headless"], None),
    ],
)
def test_ready_url(words: list[str], url: str | None) -> None:
    assert launch(["m", *words]).ready_url == url


def test_environment_of_the_key() -> None:
    environ = {
        "VLLM_USE_AOT_COMPILE": "True",
        "VLLM_USE_STANDALONE_COMPILE": "1",
        "VLLM_ROCM_USE_AITER": "1",
        "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR": "/x",
        "VLLM_IMAGE_TAG": "v1",
        "VLLM_HOST_IP": "10.0.0.1",
        "CUDA_HOME": "/usr/local/cuda",
        "TORCHINDUCTOR_CACHE_DIR": "/x",
        "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
        "PATH": "/bin",
    }
    found = launch(["m"], environ)
    assert found.env == {"VLLM_USE_AOT_COMPILE": "1", "VLLM_ROCM_USE_AITER": "1", "TORCHINDUCTOR_MAX_AUTOTUNE": "1"}
    assert "VLLM_IMAGE_TAG" in found.other_env
    assert "PATH" not in found.other_env


def test_every_argument_of_the_key_is_an_option() -> None:
    from glowplug.core.tables import table

    assert set(key_arguments()) <= {row["name"] for row in table("glowplug.engines.vllm", "options")}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            "a: 1\nb: '2'\nc: yes\nd: null\ne:\nf: 0x10\ng: 010\nh: 1_000\ni: 1.5\nj: 1e5",
            {"a": 1, "b": "2", "c": True, "d": None, "e": None, "f": 16, "g": 8, "h": 1000, "i": 1.5, "j": "1e5"},
        ),
        ("a: [1, 'b, c', {d: e}]\nb: {x: [], y: 2}", {"a": [1, "b, c", {"d": "e"}], "b": {"x": [], "y": 2}}),
        ("a:\n- 1\n- 2\nb:\n  c:\n    d: s3://x/y # comment", {"a": [1, 2], "b": {"c": {"d": "s3://x/y"}}}),
        ('---\na: "x # \\"y\\""\n...\nignored', {"a": 'x # "y"'}),
        ("", {}),
    ],
)
def test_yaml(text: str, value: object) -> None:
    import yaml

    assert config_file.parse(text, "f") == value
    assert (next(iter(yaml.safe_load_all(text)), None) or {}) == value


@pytest.mark.parametrize(
    "text",
    ["a: &x 1", "a: !!int 1", "a: |\n  text", "- a", "a: [1", "a: 'b", "a", "a: 1\n  b: 2", "a:\n\t- 1", "a: {b}"],
)
def test_yaml_that_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        config_file.parse(text, "f")


@given(st.text(alphabet="ab: -[]{},'\"#\n\t10.|&", max_size=60))
def test_any_configuration_file(text: str) -> None:
    with contextlib.suppress(GlowplugError):
        assert isinstance(config_file.parse(text, "f"), dict)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    )
)
def test_json_has_one_form(value: object) -> None:
    assert canonical_json(json.dumps(value)) == canonical_json(json.dumps(value, indent=3, sort_keys=True))


@given(st.text(max_size=12))
def test_human_numbers(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(human_int(text), int)


@given(
    st.lists(
        st.sampled_from(
            [
                "-tp",
                "2",
                "m",
                "--config",
                "-O3",
                "-O",
                "-cc.a.b",
                "--x.",
                "-.",
                "--",
                "-cc",
                "{",
                '{"a":1}',
                "--no-x",
                "--enable",
                "-q=",
                "=",
                "-1",
                "--hf-token",
            ]
        ),
        max_size=7,
    )
)
def test_any_arguments(words: list[str]) -> None:
    with contextlib.suppress(GlowplugError):
        launch(words)
