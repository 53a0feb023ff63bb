"""`glowplug plan` as people and scripts call it: what it prints, how it ends, what it reads, and every way of asking wrongly."""

from __future__ import annotations

import json
import os
import shlex
import struct
from pathlib import Path
from typing import Any

import pytest
import yaml
from inline_snapshot import snapshot

from glowplug.core.clock import Deadline
from glowplug.core.errors import NotFoundError
from tests.cli.conftest import Call
from tests.cli.test_imports import HEAVY, _imported, _roots
from tests.parts import requires
from tests.store.conftest import Place

ROOT = Path(__file__).parents[2]

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


def write_model(folder: Path, config: dict[str, Any] | None = None, rows: int = 1024) -> Path:
    """A directory with one tensor of `rows` x 512 in BF16, and a config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    data = rows * 512 * 2
    header = json.dumps({"w": {"dtype": "BF16", "shape": [rows, 512], "data_offsets": [0, data]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(data))
    (folder / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    return folder


def test_the_guides_numbers_as_json(call: Call) -> None:
    answer = call("plan", "67GB", "--instance", "p5.48xlarge", "--profile", "guide", "-o", "json")
    assert answer.status == 0
    assert answer.err == ""
    assert answer.json["schema"] == "glowplug.plan/1"
    assert answer.json["streaming"]["extra_config"] == {"concurrency": 17, "distributed": True}
    assert answer.json["placement"]["tensor_parallel_size"] == 2


def test_yaml_says_the_same(call: Call) -> None:
    words = ("plan", "67GB", "--instance", "p5.48xlarge")
    assert yaml.safe_load(call(*words, "-o", "yaml").out) == call(*words, "-o", "json").json


def test_the_text_at_one_look(call: Call) -> None:
    answer = call("plan", "67GB", "--instance", "p5.48xlarge", "--nodes", "10")
    assert answer.status == 0
    assert answer.out == snapshot("""\
67 GB on p5.48xlarge (8 h100-80gb of 85.5 GB)
vllm 0.33.0, streamer 0.17.1, profile auto

fits       with tensor parallel 2, 4 pods a node
load       8.2 s at best: nobody has published a faster load by the streamer
10 nodes   53.6 s through one NAT gateway (the NAT gateway bounds it), $30.15; 14.6 s through a gateway
           endpoint for S3 (S3's request rate for one prefix bounds it), no charge
needs      at most 116 GB of host memory, 900 connections, 1,152 open files a process
also on    g7e.2xlarge (TP 1), g6.12xlarge (TP 4), g5.12xlarge (TP 4), g4dn.metal (TP 8), g6e.12xlarge (TP 2),
           g7.24xlarge (TP 4)

arguments
  --tensor-parallel-size=2
      the fewest GPUs with weights in three quarters of the memory; nothing but the size of the model is known
  --load-format=runai_streamer
      weights are streamed into GPU memory, with no copy on disk
  --model-loader-extra-config={"concurrency":18,"distributed":true}
      concurrency: streamer 0.17.1 has 18 ring buffers, more clients than chunks in flight gain nothing
      distributed: the 2 ranks share the reading; without it each of 2 ranks reads the whole model

variables
  RUNAI_STREAMER_CHUNK_BYTESIZE=4294967296
      fewest requests, and best in AWS's measurements on a fast link
  RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS=30000
      survives a first byte that takes long (another region); under 3000 nothing changes
  RUNAI_STREAMER_S3_TIMEOUT=60
      503 is retried for so many seconds instead of six times
  RUNAI_STREAMER_LOG_TO_STDERR=1
      the streamer then says how many bytes it loaded in how many seconds
  VLLM_CACHE_ROOT=/compile-cache/vllm
  VLLM_ASSETS_CACHE=/compile-cache/vllm/assets
  TORCHINDUCTOR_CACHE_DIR=/compile-cache/inductor
  TRITON_CACHE_DIR=/compile-cache/triton
  FLASHINFER_WORKSPACE_BASE=/compile-cache/flashinfer
  DG_JIT_CACHE_DIR=/compile-cache/deep_gemm
  CUDA_CACHE_PATH=/compile-cache/nv
      below /compile-cache: the engine's own variables; XDG_CACHE_HOME would move every other cache too
  no RUNAI_STREAMER_S3_LOW_SPEED_LIMIT
      it aborts each connection that is slow, which all of many on one slow link are

to know
  info    region-missing: the engine needs the bucket's region: where pods cannot reach the instance metadata
          (EKS Auto Mode), S3 is asked in us-east-1 otherwise; set AWS_REGION in the pod, unless Pod Identity
          or IRSA sets it

next
  glowplug render deployment s3://your-bucket/your-model --size 67GB --instance p5.48xlarge --nodes 10
""")


def test_the_guides_text(call: Call) -> None:
    answer = call("plan", "140GB", "--instance", "p5.48xlarge", "--profile", "guide")
    assert answer.out == snapshot("""\
140 GB on p5.48xlarge (8 h100-80gb of 85.5 GB)
vllm 0.21.0, streamer 0.15.9, profile guide

fits       with tensor parallel 4, 2 pods a node
load       17.2 s at best: nobody has published a faster load by the streamer
1 node     17.2 s through one NAT gateway, $6.30; 17.2 s through a gateway endpoint for S3, no charge
needs      at most 297 GB of host memory, 3,500 connections, 2,240 open files a process
also on    g7e.12xlarge (TP 2), g6e.12xlarge (TP 4), g6.48xlarge (TP 8), g5.48xlarge (TP 8), p4d.24xlarge (TP
           8), p4de.24xlarge (TP 4)

arguments
  --tensor-parallel-size=4
      the fewest GPUs that hold 140 GB, with weights in at most three quarters of the memory
  --load-format=runai_streamer
      weights are streamed from S3 into GPU memory
  --model-loader-extra-config={"concurrency":35,"distributed":true}
      concurrency: ceil(140 GB / 4 GB)
      distributed: tensor parallelism is used

variables
  RUNAI_STREAMER_CHUNK_BYTESIZE=4294967296
      the chunk that was best in AWS's measurements
  RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS=3000
      meant to retry slow answers sooner
  RUNAI_STREAMER_S3_LOW_SPEED_LIMIT=1048576
      meant to retry slow transfers
  XDG_CACHE_HOME=/compile-cache
      moves the compile cache to the volume
  TORCHINDUCTOR_CACHE_DIR=/compile-cache/inductor
  TRITON_CACHE_DIR=/compile-cache/triton

to know
  warning streamer-low-speed-limit: RUNAI_STREAMER_S3_LOW_SPEED_LIMIT counts for each connection: where many
          share a slow link, all are aborted and the download fails; profile auto leaves it out
  warning distributed-corrupts: `distributed` with vllm 0.21.0 can silently corrupt models that hold tensors
          back while loading (vllm#41749, vllm#43163: models that hold tensors back get overwritten ones;
          0.21.0 lacks vllm#43464); use vllm 0.22.0 or newer
  info    streamer-timeout-ineffective: RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS=3000 changes nothing: the SDK's
          window is three seconds at least, and that is its default; profile auto uses 30000, which survives a
          slow first byte
  info    concurrency-formula: the guide divides decimal GB by 4 but reads chunks of 4 GiB: 35 clients for 33
          chunks
  info    xdg-moves-everything: XDG_CACHE_HOME also moves the caches of Hugging Face, pip and others into the
          compile cache; profile auto sets the engine's own variables
  info    cache-variable-overwritten: vllm 0.21.0 overwrites TORCHINDUCTOR_CACHE_DIR; its files are below
          vllm/torch_compile_cache instead

next
  glowplug render deployment s3://your-bucket/your-model --size 140GB --instance p5.48xlarge --profile guide --mode shared
""")


def test_what_does_not_fit_ends_with_one(call: Call) -> None:
    answer = call("plan", "140GB", "--instance", "g6.xlarge", "-o", "json")
    assert answer.status == 1
    assert answer.json["placement"]["fits"] is False
    assert answer.json["placement"]["candidates"]
    text = call("plan", "140GB", "--instance", "g6.xlarge")
    assert text.status == 1
    assert "NO FIT" in text.out
    candidate = answer.json["placement"]["candidates"][0]["instance"]
    assert text.out.splitlines()[-1].strip() == f"glowplug plan 140GB --instance {candidate}"


@pytest.mark.parametrize(
    "asked",
    [
        "--engine sglang --engine-version 0.5.20",
        "--profile guide --streamer-version 0.17.1",
        "--engine-version 0.21.0 --tp 4 --nodes 3",
        "--max-model-len 32768 --chunk-size 1000000000",
    ],
)
def test_what_to_do_next_asks_for_the_same(call: Call, asked: str) -> None:
    answer = call("plan", "67GB", "--instance", "p5.48xlarge", *asked.split())
    guide = " --mode shared" if "guide" in asked else ""
    assert answer.out.splitlines()[-1].endswith(f"--instance p5.48xlarge {asked}{guide}")


@pytest.mark.parametrize("machine", ["--instance p5.48xlarge", "--gpu h100 --gpu-count 8", ""])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_what_to_do_next_can_be_typed(call: Call, machine: str, engine: str) -> None:
    answer = call("plan", "67GB", *machine.split(), "--engine", engine, "--max-model-len", "4096")
    words = shlex.split(answer.out.splitlines()[-1])
    rendered = call(*words[1:])
    assert rendered.status == 0, rendered.err
    assert "4096" in rendered.out


def test_a_local_models_config_goes_with_it(call: Call, tmp_path: Path) -> None:
    answer = call("plan", write_model(tmp_path / "model"), "--instance", "g6.xlarge")
    last = answer.out.splitlines()[-1]
    assert "s3://your-bucket/your-model --size " in last
    assert last.endswith("--tp 1 --max-model-len 4096")


def test_a_bucket_without_the_model_is_no_answer_about_it(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> None:
        raise NotFoundError("s3://b/none holds nothing", code="not-found", hint="check the bucket and the prefix")

    monkeypatch.setattr("glowplug.models.read.read", read)
    for words in (["plan", "s3://b/none"], ["render", "deployment", "s3://b/none"]):
        answer = call(*words, "--instance", "p5.48xlarge")
        assert (answer.status, answer.err.splitlines()[0]) == (2, "error[not-found]: s3://b/none holds nothing")


def test_a_local_model_is_read(call: Call, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    answer = call("plan", folder, "--instance", "g6.xlarge", "-o", "json", "-v")
    assert answer.status == 0
    assert answer.json["model"]["tensors"] == 1
    assert answer.json["model"]["dtype"] == "BF16"
    assert answer.json["model"]["weights_bytes"] == (folder / "model.safetensors").stat().st_size
    assert answer.json["max_model_len"] == 4096
    assert "requests" in answer.err
    assert "bytes" in answer.err


@requires("s3")
def test_a_model_on_a_server_of_ones_own(
    call: Call, s3_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read with the caller's endpoint and region, and planned for pods that use them: path style, no chunk measured on AWS."""
    for name, value in s3_place.environ.items():
        monkeypatch.setenv(name, value)
    store = s3_place.open()
    for file in write_model(tmp_path / "model").iterdir():
        store.put(f"model/{file.name}", file.read_bytes(), Deadline.after(30))
    answer = call("plan", f"{s3_place.url}/model/", "--instance", "g6.xlarge", "-o", "json", "-v")
    assert answer.status == 0, answer
    assert answer.json["model"]["tensors"] == 1
    env = answer.json["streaming"]["env"]
    assert env["AWS_ENDPOINT_URL"] == (s3_place.environ.get("AWS_ENDPOINT_URL") or "").rstrip("/")
    assert env["AWS_REGION"] == s3_place.environ["AWS_REGION"]
    assert env["RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING"] == "0"
    assert answer.json["streaming"]["chunk_bytes"] == 8 * 2**20
    assert "secret" not in answer.out.lower()
    assert s3_place.environ["AWS_SECRET_ACCESS_KEY"] not in answer.out + answer.err
    assert "requests" in answer.err
    guide = call("plan", f"{s3_place.url}/model/", "--instance", "g6.xlarge", "-o", "json", "--profile", "guide")
    assert set(guide.json["streaming"]["env"]) == {
        "RUNAI_STREAMER_CHUNK_BYTESIZE",
        "RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS",
        "RUNAI_STREAMER_S3_LOW_SPEED_LIMIT",
    }


def test_without_v_nothing_is_said_of_reading(call: Call, tmp_path: Path) -> None:
    assert call("plan", write_model(tmp_path / "model"), "--instance", "g6.xlarge").err == ""


def test_a_given_size_is_not_read(call: Call) -> None:
    answer = call("plan", "s3://no-such-bucket/model", "--size", "67GB", "--instance", "p5.48xlarge", "-o", "json")
    assert (answer.status, answer.json["model"]["weights_bytes"]) == (0, 67_000_000_000)
    assert answer.json["model"]["source"] == "s3://no-such-bucket/model"


@pytest.mark.parametrize(
    ("size", "weights"), [("67GB", 67_000_000_000), ("64GiB", 64 * 2**30), ("4294967296", 2**32), ("0.5TB", 5 * 10**11)]
)
def test_sizes(call: Call, size: str, weights: int) -> None:
    assert call("plan", size, "--instance", "p5.48xlarge", "-o", "json").json["model"]["weights_bytes"] == weights


def test_another_chunk(call: Call) -> None:
    answer = call(
        "plan", "67GB", "--instance", "p5.48xlarge", "--profile", "guide", "--chunk-size", "8GiB", "-o", "json"
    )
    assert answer.json["streaming"]["chunk_bytes"] == 8 * 2**30
    assert answer.json["streaming"]["concurrency"] == 8


def test_gpus_instead_of_an_instance(call: Call) -> None:
    answer = call("plan", "67GB", "--gpu", "NVIDIA H100 80GB HBM3", "--gpu-count", "2", "-o", "json")
    assert answer.json["placement"]["instance"] is None
    assert answer.json["placement"]["gpu"] == "h100-80gb"
    assert answer.json["placement"]["gpus_per_node"] == 2
    assert answer.json["estimate"]["load_seconds_single"] is None
    assert "--gpu h100-80gb --gpu-count 2" in call("plan", "67GB", "--gpu", "h100", "--gpu-count", "2").out


def test_the_cheapest_machine_is_chosen(call: Call) -> None:
    answer = call("plan", "16GB", "-o", "json")
    assert answer.status == 0
    assert answer.json["placement"]["instance"]
    assert [reason for reason in answer.json["reasons"] if reason["setting"] == "instance"]


def test_options_are_variables(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"INSTANCE": "g6.12xlarge", "TP": "4", "ENGINE_VERSION": "0.21.0", "NODES": "3"}.items():
        monkeypatch.setenv(f"GLOWPLUG_{name}", value)
    document = call("plan", "30GB", "-o", "json").json
    assert (document["placement"]["instance"], document["placement"]["tensor_parallel_size"]) == ("g6.12xlarge", 4)
    assert (document["engine_version"], document["nodes"]) == ("0.21.0", 3)


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["67GB", "--instance", "p5.49xlarge"], 2, "unknown-instance"),
        (["67GB", "--gpu", "h9000"], 2, "unknown-gpu"),
        (["67GB", "--gpu", "a100"], 2, "ambiguous-gpu"),
        (["67GB", "--gpu", "l4", "--instance", "g6.xlarge"], 2, "usage"),
        (["67GB", "--gpu-count", "2"], 2, "usage"),
        (["67GB", "--gpu", "l4", "--gpu-count", "0"], 2, "usage"),
        (["67GB", "--tp", "0"], 2, "usage"),
        (["67GB", "--tp", "two"], 2, "usage"),
        (["67GB", "--nodes", "-1"], 2, "usage"),
        (["67GB", "--engine", "ollama"], 2, "usage"),
        (["67GB", "--profile", "best"], 2, "usage"),
        (["67GB", "--engine-version", "0.21 && true"], 2, "usage"),
        (["67GB", "--engine-version", "latest"], 2, "usage"),
        (["67GB", "--engine-version", ""], 2, "usage"),
        (["67GB", "--streamer-version", "newest"], 2, "usage"),
        (["67GB", "--streamer-version", ""], 2, "usage"),
        (["67GB", "--chunk-size", "0"], 2, "bad-size"),
        (["67GB", "--chunk-size", "big"], 2, "bad-size"),
        (["67GB", "--chunk-size", "9" * 5000], 2, "bad-size"),
        (["67GB", "--size", "-1"], 2, "bad-size"),
        (["67GB", "--size", "0"], 2, "bad-size"),
        (["67GB", "--size", "9" * 5000], 2, "bad-size"),
        *(
            (["67GB", "--timeout", text], 2, "bad-duration")
            for text in ("soon", "0", "0s", "-1s", "\uff13s", "9" * 400)
        ),
        *((["67GB", f"--{name}", "\uff13"], 2, "usage") for name in ("tp", "nodes", "gpu-count", "max-model-len")),
        *((["67GB", f"--{name}", "9" * 400], 2, "usage") for name in ("tp", "nodes", "gpu-count", "max-model-len")),
        (["67GB", "--max-model-len", str(2**31)], 2, "usage"),
        (["67GB", "--size", "\uff16GB"], 2, "bad-size"),
        (["67GB", "--chunk-size", "\uff13GB"], 2, "bad-size"),
        (["67GB", "--chunk-size", "9" * 400 + ".5GB"], 2, "bad-size"),
        *(
            (["67GB", f"--{name}", ""], 2, "usage")
            for name in ("instance", "gpu", "tp", "size", "chunk-size", "timeout", "engine", "profile", "max-model-len")
        ),
        *(
            ([model, "--size", "67GB"], 2, "bad-model")
            for model in (
                "",
                " ",
                "m" * 300_000,
                "\udcff",
                "s3://",
                "s3://Bucket",
                "s3://b//m",
                "s3://b/../m",
                "hf://o/m",
            )
        ),
        (["", "--instance", "g6.xlarge"], 2, ""),
        (["/no/such/directory", "--instance", "g6.xlarge"], 2, "not-found"),
        (["./none", "--instance", "g6.xlarge"], 2, "not-found"),
        (["file:///no/such/directory", "--instance", "g6.xlarge"], 2, "not-found"),
        (["ftp://server/model", "--instance", "g6.xlarge"], 2, ""),
        ([], 2, "usage"),
    ],
)
def test_a_wrong_question_is_answered_in_a_line(call: Call, words: list[str], status: int, code: str) -> None:
    answer = call("plan", *words)
    assert answer.status == status
    if status:
        assert answer.out == ""
        assert f"error[{code}" in answer.err
        assert len(answer.err.splitlines()) <= 2


SECRETS = [
    *("s3://AKIA:geheim@bucket/m", "s3://AKIA:p/geheim@b/m", "//AKIA:geheim@bucket", "https://AKIA:geheim@host/m"),
    *("s3://bucket/m?X-Amz-Signature=geheim", "AKIA:geheim@bucket/m", "s3:/AKIA:p/geheim@b"),
]


@pytest.mark.parametrize("model", SECRETS)
@pytest.mark.parametrize("size", [(), ("--size", "67GB")], ids=["read", "size"])
def test_a_secret_in_the_model_is_refused_and_not_repeated(call: Call, model: str, size: tuple[str, ...]) -> None:
    for form in ("text", "json", "yaml"):
        answer = call("plan", model, *size, "-o", form)
        assert (answer.status, answer.out) == (2, "")
        assert "error[bad-model]" in answer.err
        assert "geheim" not in answer.err


ENDPOINTS = [
    *(
        "https://u:geheim@host:9000",
        "https://host/?X-Amz-Signature=geheim",
        "geheim",
        "http://h\ngeheim",
        "http:// geheim",
    ),
    *("http://geheim\0", "   "),
]


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
@pytest.mark.parametrize("value", ENDPOINTS, ids=ascii)
def test_an_endpoint_that_is_none_is_refused_and_not_repeated(
    call: Call, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setattr("os.environ", {**os.environ, variable: value})
    for words in (["plan"], ["render", "deployment"], ["render", "all", "--mode", "node"]):
        answer = call(*words, "s3://bucket/m", "--size", "67GB", "--instance", "p5.48xlarge")
        assert (answer.status, answer.out) == (2, "")
        assert f"error[bad-store-url]: {variable} is not" in answer.err
        assert "geheim" not in answer.err


def test_a_plan_of_a_bucket_of_any_name_that_is_not_read(call: Call) -> None:
    assert call("plan", "s3://b/m", "--size", "67GB", "-o", "json").json["model"]["source"] == "s3://b/m"
    assert call("plan", "file:///models/x", "--size", "67GB", "-o", "json").json["model"]["source"] == "/models/x"


def test_a_timeout_that_is_none(call: Call, tmp_path: Path) -> None:
    answer = call("plan", write_model(tmp_path / "m"), "--timeout", "soon")
    assert (answer.status, "error[bad-duration]" in answer.err) == (2, True)


def test_control_characters_of_a_source_move_no_cursor(call: Call) -> None:
    answer = call("plan", "s3://b/\x1b[2J", "--size", "16GB", "--instance", "g6.xlarge")
    assert "\x1b[2J" not in answer.out


def test_what_a_plan_from_a_size_imports() -> None:
    modules = _imported("plan", "67GB", "--instance", "p5.48xlarge")
    assert "glowplug.plan.decide" in modules
    assert not _roots(modules) & HEAVY
    layers = {name.split(".")[1] for name in modules if name.startswith("glowplug.")}
    assert not layers & {"store", "cache", "supervise", "report", "render", "check", "aws", "observe"}


def test_help_of_plan_imports_no_planner() -> None:
    own = {name for name in _imported("plan", "--help") if name.startswith("glowplug.")}
    assert not {name for name in own if name.split(".")[1] not in ("cli", "core")}


def test_the_howto_shows_what_is_printed(call: Call) -> None:
    page = (ROOT / "docs/howto/plan-a-model.md").read_text()
    assert call("plan", "67GB", "--instance", "p5.48xlarge", "--nodes", "10").out in page
    answer = call("plan", "140GB", "--instance", "g6.12xlarge", "-o", "json").json["placement"]
    shown = {"fits": answer["fits"], "candidates": [one["instance"] for one in answer["candidates"]]}
    assert json.dumps(shown, separators=(",", ":")) in page


def test_a_long_label_keeps_its_space(call: Call) -> None:
    out = call("plan", "67GB", "--instance", "p5.48xlarge", "--nodes", "100000").out
    assert [line for line in out.splitlines() if line.startswith("100000 nodes ")]


def test_heads_that_are_not_known_are_not_named(call: Call, tmp_path: Path) -> None:
    config = {name: value for name, value in CONFIG.items() if name != "num_key_value_heads"}
    for given in ({**CONFIG, "num_key_value_heads": None}, config):
        words = ("plan", write_model(tmp_path / "m", given), "--instance", "p5.48xlarge", "--tp", "3", "-o", "json")
        (finding,) = [one for one in call(*words).json["findings"] if one["rule"] == "tensor-parallel-heads"]
        assert "8 attention heads" in finding["message"]
        assert "None" not in finding["message"]


@pytest.mark.parametrize(
    "option",
    [
        "tp",
        "nodes",
        "gpu-count",
        "max-model-len",
        "size",
        "chunk-size",
        "timeout",
        "engine-version",
        "streamer-version",
    ],
)
def test_an_address_in_the_wrong_option_is_told_without_its_password(call: Call, option: str) -> None:
    answer = call("plan", "67GB", f"--{option}", "https://u:geheim@host/x")
    assert (answer.status, answer.out) == (2, "")
    assert "geheim" not in answer.err
