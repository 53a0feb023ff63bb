"""The GPU as the engine will see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.fingerprint import hardware
from glowplug.host import nvml
from glowplug.host.nvml import Gpu

H200 = [Gpu("NVIDIA H200", f"GPU-{number}a", "9.0") for number in range(4)]
MIXED = [Gpu("NVIDIA H200", "GPU-aaaa", "9.0"), Gpu("NVIDIA L4", "GPU-bbbb", "8.9")]


@pytest.mark.parametrize(
    ("gpus", "environ", "uuids"),
    [
        (H200, {}, ["GPU-0a", "GPU-1a", "GPU-2a", "GPU-3a"]),
        (H200, {"CUDA_VISIBLE_DEVICES": "2,0"}, ["GPU-2a", "GPU-0a"]),
        (H200, {"CUDA_VISIBLE_DEVICES": "1,9,2"}, ["GPU-1a"]),
        (H200, {"CUDA_VISIBLE_DEVICES": ""}, []),
        (H200, {"CUDA_VISIBLE_DEVICES": "-1"}, []),
        (H200, {"CUDA_VISIBLE_DEVICES": "GPU-3"}, ["GPU-3a"]),
        (H200, {"NVIDIA_VISIBLE_DEVICES": "void"}, ["GPU-0a", "GPU-1a", "GPU-2a", "GPU-3a"]),
        (MIXED, {"CUDA_VISIBLE_DEVICES": "0"}, None),
        (MIXED, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, ["GPU-bbbb"]),
        (MIXED, {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, ["GPU-bbbb"]),
    ],
)
def test_visible(gpus: list[Gpu], environ: dict[str, str], uuids: list[str] | None) -> None:
    seen = hardware.visible(gpus, environ)
    assert (None if seen is None else [gpu.uuid for gpu in seen]) == uuids


@pytest.mark.parametrize(
    ("gpus", "environ", "gpu", "capability"),
    [
        (tuple(H200), {}, "NVIDIA H200", "9.0"),
        (tuple(MIXED), {}, None, ""),
        (tuple(MIXED), {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, "NVIDIA L4", "8.9"),
        (tuple(MIXED), {"CUDA_VISIBLE_DEVICES": "0"}, None, ""),
        (tuple(H200), {"CUDA_VISIBLE_DEVICES": "-1"}, "cpu", ""),
        ((), {}, "cpu", ""),
        ((Gpu("", "GPU-x"),), {}, None, ""),
    ],
)
def test_look(
    monkeypatch: pytest.MonkeyPatch, gpus: tuple[Gpu, ...], environ: dict[str, str], gpu: str | None, capability: str
) -> None:
    monkeypatch.setattr(nvml, "gpus", lambda: gpus)
    found = hardware.look(environ)
    assert found.capability == capability
    if gpu is None:
        assert found.gpu is None
        assert found.why
    elif gpu == "cpu":
        assert found.gpu is not None
        assert found.gpu.value.startswith("cpu:")
        assert not found.accelerated
    else:
        assert found.gpu is not None
        assert found.gpu.value == gpu
        assert found.gpu.source == "observed:nvml"
        assert found.accelerated


def test_a_build_for_cpus_ignores_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "gpus", lambda: tuple(H200))
    found = hardware.look({}, cpu_build=True)
    assert found.gpu is not None
    assert found.gpu.value.startswith("cpu:")


def test_the_driver_without_nvml(tmp_path: Path) -> None:
    for number in (0, 1):
        folder = tmp_path / f"0000:0{number}:00.0"
        folder.mkdir()
        (folder / "information").write_text("Model: \t\t Tesla T4\nIRQ:   \t\t 1\nGPU UUID: \t GPU-1234\n")
    assert [gpu.name for gpu in hardware.from_proc(tmp_path)] == ["Tesla T4", "Tesla T4"]
    assert hardware.from_proc(tmp_path / "none") == ()


@given(st.text(max_size=30))
def test_any_list_of_devices(text: str) -> None:
    hardware.visible(H200, {"CUDA_VISIBLE_DEVICES": text})
