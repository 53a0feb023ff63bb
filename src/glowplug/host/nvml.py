"""NVIDIA's management library by ctypes: names, capabilities and identifiers of the GPUs that this process can see.

A Python binding would be a dependency of the kernel; the handful of calls needed here is stable since 2019. Without
the library (no GPU, or a container without one) the answer is None, which is not the same as a library that lists no
GPU. The name is the one that torch reports as well, MIG instances included.
"""

from __future__ import annotations

import contextlib
import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Optional

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LIBRARIES: Final = ("libnvidia-ml.so.1", "libnvidia-ml.so")
_NAME_BYTES: Final = 128
_SUCCESS: Final = 0


@dataclass(frozen=True)
class Gpu:
    """A GPU or MIG instance. `capability` is like `9.0`, "" where the library does not say."""

    name: str
    uuid: str
    capability: str = ""


def gpus() -> Optional[tuple[Gpu, ...]]:
    """GPUs in NVML's order (PCI bus), None when NVML cannot be used here. Raises nothing."""
    library = _load()
    if library is None or library.nvmlInit_v2() != _SUCCESS:
        return None
    try:
        return tuple(_all(library))
    except (OSError, AttributeError, ValueError):
        return None
    finally:
        with contextlib.suppress(OSError, AttributeError):
            library.nvmlShutdown()


def _load() -> Any:
    for name in _LIBRARIES:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


def _all(library: Any) -> Iterator[Gpu]:
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != _SUCCESS:
        return
    for place in range(count.value):
        handle = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(place), ctypes.byref(handle)) != _SUCCESS:
            continue
        capability = _capability(library, handle)
        instances = _instances(library, handle)
        for device in instances or (handle,):
            yield Gpu(_text(library.nvmlDeviceGetName, device), _text(library.nvmlDeviceGetUUID, device), capability)


def _text(call: Any, handle: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(_NAME_BYTES)
    if call(handle, buffer, ctypes.c_uint(_NAME_BYTES)) != _SUCCESS:
        return ""
    return buffer.value.decode("utf-8", "replace").strip()


def _capability(library: Any, handle: ctypes.c_void_p) -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    if library.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor)) != _SUCCESS:
        return ""
    return f"{major.value}.{minor.value}"


def _instances(library: Any, handle: ctypes.c_void_p) -> Sequence[ctypes.c_void_p]:
    """The MIG instances of a GPU, none where MIG is off or unknown to the library."""
    if not hasattr(library, "nvmlDeviceGetMigMode"):
        return ()
    current, pending, most = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    if (
        library.nvmlDeviceGetMigMode(handle, ctypes.byref(current), ctypes.byref(pending)) != _SUCCESS
        or not current.value
    ):
        return ()
    if library.nvmlDeviceGetMaxMigDeviceCount(handle, ctypes.byref(most)) != _SUCCESS:
        return ()
    found: list[ctypes.c_void_p] = []
    for place in range(most.value):
        instance = ctypes.c_void_p()
        if (
            library.nvmlDeviceGetMigDeviceHandleByIndex(handle, ctypes.c_uint(place), ctypes.byref(instance))
            == _SUCCESS
        ):
            found.append(instance)
    return found
