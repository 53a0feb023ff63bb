"""The tiny model is a valid one, the same everywhere, and as large as asked."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab import model


def test_the_weight_file_is_safetensors_without_gaps(tmp_path: Path) -> None:
    size = model.make(tmp_path)
    header, data = _read(tmp_path / "model.safetensors")
    assert size == model.TINY.weight_bytes == len(data)
    end = 0
    for name, shape in model.TINY.tensors():
        assert header[name]["dtype"] == "BF16"
        assert header[name]["shape"] == list(shape)
        assert header[name]["data_offsets"] == [end, end + 2 * math.prod(shape)]
        end += 2 * math.prod(shape)
    assert end == len(data)


def test_weights_are_small_finite_numbers(tmp_path: Path) -> None:
    model.make(tmp_path)
    _, data = _read(tmp_path / "model.safetensors")
    values = {struct.unpack("<f", b"\0\0" + data[at : at + 2])[0] for at in range(0, len(data), 2)}
    assert all(2**-7 <= abs(value) < 2**-5 or value == 1 for value in values)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        model.make(tmp_path / name, seed=seed)
    assert _digests(tmp_path / "a") == _digests(tmp_path / "b")
    assert _digests(tmp_path / "a") != _digests(tmp_path / "c")


def test_the_model_is_the_one_that_recordings_were_made_with(tmp_path: Path) -> None:
    model.make(tmp_path)
    digest = _digests(tmp_path)["model.safetensors"]
    assert digest == "aa2a1114ba9908533fb517de086e95158d154688a995885ef95746cad3adef67"


def test_shards_hold_every_tensor_once(tmp_path: Path) -> None:
    model.make(tmp_path, shards=3)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == model.TINY.weight_bytes
    assert list(index["weight_map"]) == [name for name, _ in model.TINY.tensors()]
    files = sorted(set(index["weight_map"].values()))
    assert files == [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
    for file in files:
        header, _ = _read(tmp_path / file)
        expected = {name for name, where in index["weight_map"].items() if where == file}
        assert set(header) - {"__metadata__"} == expected


@pytest.mark.parametrize("size", [16 * 10**6, 100 * 10**6, 1 * 10**9, 2 * 1024**3, 20 * 10**9])
def test_a_shape_is_as_large_as_asked(size: int) -> None:
    shape = model.shape_of_size(size)
    assert abs(shape.weight_bytes - size) <= size / 100
    assert shape.hidden == shape.heads * 32


def _read(path: Path) -> tuple[Mapping[str, Any], bytes]:
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    assert length % 8 == 0
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def _digests(directory: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}
