"""What is said of a folder: one row a fault, and a sound folder of which nothing is said."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from glowplug.core.clock import Deadline
from glowplug.core.errors import BadInputError
from glowplug.models import findings
from glowplug.models.contents import Finding, Model
from glowplug.models.findings import Contents
from glowplug.models.folder import Entry
from glowplug.models.read import read
from tests.models import folders
from tests.models.folders import Files, shard, shard_name, tensors_of

Change = Callable[[Files], object]

SECOND = shard_name(2, 2)
OTHER = {"other.weight": ("BF16", (8, 8))}


def model_of(files: Files, directory: Path) -> Model:
    return read(str(folders.write(files, directory)), {}, Deadline.after(60))


def rules(model: Model) -> list[tuple[str, str]]:
    return [(finding.rule, finding.severity) for finding in model.findings]


@pytest.mark.parametrize("shards", [1, 2, 12])
def test_of_a_sound_folder_nothing_is_said(tmp_path: Path, shards: int) -> None:
    assert model_of(folders.model(shards), tmp_path).findings == ()


def test_a_single_file_needs_no_index(tmp_path: Path) -> None:
    files = folders.model(1)
    files["model.safetensors"] = files.pop(shard_name(1, 1))
    del files["model.safetensors.index.json"]
    found = model_of(files | {"README.md": b"x", "generation_config.json": b"{}", ".gitattributes": b""}, tmp_path)
    assert found.findings == ()
    assert found.indexed_bytes is None


def replace(name: str, change: Callable[[bytes], bytes]) -> Change:
    def work(files: Files) -> None:
        files[name] = change(files[name])

    return work


def weight_map(change: Callable[[dict[str, str]], object]) -> Change:
    def work(files: Files) -> None:
        value = json.loads(files["model.safetensors.index.json"])
        change(value["weight_map"])
        files["model.safetensors.index.json"] = json.dumps(value).encode()

    return work


ROWS: dict[str, tuple[Change, list[tuple[str, str]], str]] = {
    "a shard is missing": (lambda files: files.pop(SECOND), [("shard-missing", "error")], SECOND),
    "a shard is missing and nothing names it but a number": (
        lambda files: [files.pop(SECOND), files.pop("model.safetensors.index.json")],
        [("shard-missing", "error")],
        SECOND,
    ),
    "a shard is not in the index": (
        lambda files: files.update({"extra.safetensors": shard(OTHER)}),
        [("shard-unindexed", "warning")],
        "extra.safetensors",
    ),
    "a shard is empty": (replace(SECOND, lambda data: b""), [("shard-empty", "error")], SECOND),
    "a shard ends in its length": (replace(SECOND, lambda data: data[:5]), [("shard-truncated", "error")], SECOND),
    "a shard ends in its header": (replace(SECOND, lambda data: data[:60]), [("shard-truncated", "error")], SECOND),
    "a shard ends in its data": (replace(SECOND, lambda data: data[:-1]), [("shard-truncated", "error")], SECOND),
    "a shard is too long": (replace(SECOND, lambda data: data + b"\0"), [("shard-too-long", "warning")], SECOND),
    "a shard is an error page": (
        replace(SECOND, lambda data: b"<html>not found</html>"),
        [("shard-header", "error")],
        SECOND,
    ),
    "a shard is a pointer": (
        replace(SECOND, lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"),
        [("shard-header", "error")],
        "Git LFS",
    ),
    "a header is none": (replace(SECOND, lambda data: folders.head(b"[1]")), [("shard-header", "error")], SECOND),
    "tensors overlap": (
        replace(
            SECOND,
            lambda data: (
                folders.head(
                    {
                        "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                        "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
                    }
                )
                + bytes(6)
            ),
        ),
        [("shard-header", "error")],
        "overlap",
    ),
    "a shard holds nothing": (
        lambda files: files.update({"none.safetensors": folders.head({})}),
        [("shard-without-tensors", "warning"), ("shard-unindexed", "warning")],
        "none.safetensors",
    ),
    "a type of tomorrow": (
        lambda files: files.update(
            {"new.safetensors": folders.head({"n": {"dtype": "F3", "shape": [8], "data_offsets": [0, 3]}}) + bytes(3)}
        ),
        [("dtype-unknown", "warning"), ("shard-unindexed", "warning")],
        "F3",
    ),
    "a tensor in two shards": (
        lambda files: files.update({"extra.safetensors": shard(tensors_of(0))}),
        [("shard-unindexed", "warning"), ("tensor-twice", "warning")],
        "model.layers.0.mlp.up_proj.weight",
    ),
    "a tensor is not where the index says": (
        weight_map(lambda known: known.update({"lost.weight": SECOND})),
        [("tensor-missing", "error")],
        "lost.weight",
    ),
    "the index leads out of the folder": (
        weight_map(lambda known: known.update({"x": "../../etc/x.safetensors"})),
        [("index-outside", "error")],
        "../../etc",
    ),
    "the index is damaged": (
        lambda files: files.update({"model.safetensors.index.json": b"{"}),
        [("index-unusable", "warning")],
        "index.json",
    ),
    "the index is empty": (
        lambda files: files.update({"model.safetensors.index.json": b""}),
        [("index-unusable", "warning")],
        "empty",
    ),
    "the index is huge": (
        lambda files: files.update({"model.safetensors.index.json": b" " * ((32 << 20) + 1)}),
        [("index-unusable", "warning")],
        "more than",
    ),
    "the index counts otherwise": (
        lambda files: files.update(
            {"model.safetensors.index.json": files["model.safetensors.index.json"].replace(b"12288", b"12289")}
        ),
        [("index-total-size", "info")],
        "12289",
    ),
    "shards of two cuts": (
        lambda files: files.update({shard_name(1, 1): shard(OTHER)}),
        [("shard-numbers-mixed", "warning"), ("shard-unindexed", "warning")],
        "model",
    ),
    "both layouts": (
        lambda files: files.update({"consolidated.safetensors": shard(OTHER)}),
        [("consolidated-twice", "warning")],
        "consolidated.safetensors",
    ),
    "an adapter": (
        lambda files: files.update({"adapter_model.safetensors": shard(OTHER)}),
        [("adapter-beside", "warning")],
        "adapter_model",
    ),
    "no configuration": (lambda files: files.pop("config.json"), [("config-missing", "error")], "config.json"),
    "Mistral's configuration": (
        lambda files: [files.pop("config.json"), files.update({"params.json": b"{}"})],
        [("config-missing", "warning")],
        "params.json",
    ),
    "a damaged configuration": (
        lambda files: files.update({"config.json": b"{"}),
        [("config-unusable", "error")],
        "config.json",
    ),
    "an empty configuration": (
        lambda files: files.update({"config.json": b""}),
        [("config-unusable", "error")],
        "empty",
    ),
    "a huge configuration": (
        lambda files: files.update({"config.json": b" " * ((8 << 20) + 1)}),
        [("config-unusable", "error")],
        "more than",
    ),
    "no tokenizer": (lambda files: files.pop("tokenizer.json"), [("tokenizer-missing", "warning")], "tokenizer"),
    "the original format": (
        lambda files: files.update({"original/consolidated.00.pth": bytes(1000), "original/params.json": b"{}"}),
        [("ignorable-bytes", "info")],
        "original/ holds 1 kB (1002 bytes) in 2 files",
    ),
    "a history": (
        lambda files: files.update({".git/objects/ab/cd": bytes(77)}),
        [("ignorable-bytes", "info")],
        "77 bytes",
    ),
    "weights further down": (
        lambda files: files.update({"text_encoder/model.safetensors": shard(OTHER), "text_encoder/config.json": b"{}"}),
        [("ignorable-bytes", "info")],
        "text_encoder/",
    ),
    "other formats": (
        lambda files: files.update({"pytorch_model.bin": bytes(10), "m.gguf": bytes(20), "m.Q4.gguf": bytes(5)}),
        [("ignorable-bytes", "info"), ("ignorable-bytes", "info")],
        "*.gguf: 25 B (25 bytes) in 2 files",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_said(tmp_path: Path, name: str) -> None:
    change, expected, words = ROWS[name]
    files = folders.model(2)
    change(files)
    model = model_of(files, tmp_path)
    assert sorted(rules(model)) == sorted(expected)
    assert any(words in finding.message for finding in model.findings)
    assert all(finding.hint or finding.severity == "info" for finding in model.findings)
    assert all(finding.message.isprintable() for finding in model.findings)


def test_folders_below_that_the_engine_needs_are_not_named(tmp_path: Path) -> None:
    files = folders.model(1) | {"1_Pooling/config.json": b"{}", "processor/preprocessor_config.json": b"{}"}
    assert model_of(files, tmp_path).findings == ()


def test_errors_come_first(tmp_path: Path) -> None:
    files = folders.model(3) | {"m.gguf": b"x", "consolidated.safetensors": shard(OTHER)}
    del files[shard_name(2, 3)]
    severities = [finding.severity for finding in model_of(files, tmp_path).findings]
    assert severities == ["error", "warning", "info"]


def test_a_hundred_shards_are_one_finding(tmp_path: Path) -> None:
    files = {shard_name(number, 300): b"" for number in range(1, 101)} | {"config.json": b"{}", "tokenizer.json": b""}
    found = model_of(files, tmp_path).findings
    assert [finding.rule for finding in found] == ["shard-empty", "shard-missing"]
    assert "and 95 more" in found[0].message
    assert found[1].message.startswith("200 shards are missing")
    assert all(len(finding.message) < 1000 for finding in found)


def test_numbers_that_nobody_has_cost_nothing() -> None:
    weights = [Entry(f"{stem}-00001-of-999999.safetensors", 1) for stem in range(5000)]
    found = findings.find(Contents("/m", weights, weights, ()))
    missing = next(finding for finding in found if finding.rule == "shard-missing")
    assert missing.message.startswith(f"{5000 * 999_998} shards")


@pytest.mark.parametrize("first", [0, 1])
def test_shards_are_counted_from_one_or_from_nought(first: int) -> None:
    weights = [Entry(f"m-{number:05}-of-00003.safetensors", 1) for number in range(first, first + 3)]
    assert "shard-missing" not in {finding.rule for finding in findings.find(Contents("/m", weights, weights, ()))}
    rest = weights[:-1]
    missing = [finding for finding in findings.find(Contents("/m", rest, rest, ())) if finding.rule == "shard-missing"]
    assert [finding.message for finding in missing] == [f"1 shards are missing: {weights[-1].path}"]


# Commands in hints.


def hint_of(source: str, entries: list[Entry], rule: str) -> Finding:
    weights = [entry for entry in entries if entry.in_root and entry.path.endswith(".safetensors")]
    return next(finding for finding in findings.find(Contents(source, entries, weights, ())) if finding.rule == rule)


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ("s3://b/m", "aws s3 rm --recursive s3://b/m/original/"),
        ("gs://b/m", "gcloud storage rm --recursive gs://b/m/original/"),
        ("az://b/m", ""),
        ("/models/m", "rm -r /models/m/original/"),
    ],
)
def test_the_command_that_removes_a_folder(source: str, command: str) -> None:
    assert hint_of(source, [Entry("original/x.pth", 5)], "ignorable-bytes").hint == command


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ("s3://b/m", "aws s3 rm s3://b/m/consolidated.safetensors"),
        ("gs://b/m", "gcloud storage rm gs://b/m/consolidated.safetensors"),
        ("az://b/m", "remove these files from the folder"),
        ("/models/m", "rm /models/m/consolidated.safetensors"),
    ],
)
def test_the_command_that_removes_a_file(source: str, command: str) -> None:
    entries = [Entry("consolidated.safetensors", 5), Entry("model.safetensors", 5)]
    assert hint_of(source, entries, "consolidated-twice").hint == command


@pytest.mark.parametrize(
    "name", ["$(reboot)", "`reboot`", "a;reboot", "a b", "a'b", 'a"b', "--include *", "a&b", "$HOME"]
)
def test_a_name_is_never_a_command(name: str) -> None:
    file = f"consolidated{name}.safetensors"
    finding = hint_of("s3://b/m", [Entry(file, 5), Entry("model.safetensors", 5)], "consolidated-twice")
    assert shlex.split(finding.hint) == ["aws", "s3", "rm", f"s3://b/m/{file}"]


@pytest.mark.parametrize("name", ["\x1b[2J", "a\nb", "a\rb", "\u202egnp"])
def test_a_name_does_not_move_the_cursor(name: str) -> None:
    file = f"consolidated{name}.safetensors"
    for finding in findings.find(
        Contents(
            "s3://b/m",
            [Entry(file, 5), Entry("model.safetensors", 5)],
            [Entry(file, 5), Entry("model.safetensors", 5)],
            (),
        )
    ):
        assert finding.message.isprintable()
        assert finding.hint.isprintable()


def test_what_vllm_downloads_of_it_is_said() -> None:
    """vLLM copies everything but *.pt, *.safetensors, *.bin, *.tensors and *.pth from a bucket."""
    entries = [Entry("original/x.pth", 5_000_000), Entry("original/big.gguf", 3_000_000)]
    finding = hint_of("s3://b/m", entries, "ignorable-bytes")
    assert finding.severity == "warning"
    assert "8 MB (8000000 bytes) in 2 files" in finding.message
    assert "downloads 3 MB" in finding.message
    assert hint_of("s3://b/m", entries[:1], "ignorable-bytes").severity == "info"
    assert hint_of("/m", entries, "ignorable-bytes").severity == "info"


# Folders without weights.


@pytest.mark.parametrize(
    ("files", "words", "hint"),
    [
        ({"config.json": b"{}"}, "no *.safetensors", ""),
        (
            {"pytorch_model-00001-of-00002.bin": bytes(5), "pytorch_model-00002-of-00002.bin": bytes(6)},
            "(11 B)",
            "convert",
        ),
        ({"m.Q4_K_M.gguf": b"x"}, "m.Q4_K_M.gguf", "GGUF"),
        ({"tf_model.h5": b"x"}, "tf_model.h5", "safetensors"),
        ({"fp16/model.safetensors": b"x", "README.md": b""}, "fp16", "/fp16"),
        ({"model.SAFETENSORS": b"x"}, "no *.safetensors", ""),
        ({".safetensors": b"x"}, "no *.safetensors", ""),
    ],
)
def test_a_folder_without_weights_is_no_model(tmp_path: Path, files: Files, words: str, hint: str) -> None:
    with pytest.raises(BadInputError) as caught:
        model_of(files, tmp_path)
    assert caught.value.code == "no-safetensors"
    assert words in str(caught.value)
    assert hint in caught.value.hint
    assert caught.value.hint


def test_an_adapter_alone_is_no_model(tmp_path: Path) -> None:
    files = {"adapter_model.safetensors": shard(OTHER), "config.json": b"{}", "tokenizer.json": b"{}"}
    assert rules(model_of(files, tmp_path)) == [("adapter-only", "error")]
