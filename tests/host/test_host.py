"""Mounts, processors, space, GPUs, and whether a cache root can be written."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.host import cpu, mounts, nvml, space, user, writable

MOUNTINFO = r"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:25 / /dev/shm rw,nosuid - tmpfs tmpfs rw
31 22 0:40 / /mnt/efs rw shared:5 - nfs4 10.0.0.1:/ rw,vers=4.1
32 22 0:41 / /mnt/s3 rw - fuse mountpoint-s3 rw
33 22 0:42 / /mnt/with\040blank ro - xfs /dev/nvme1n1 rw
34 22 259:1 / /compile-cache rw - xfs /dev/md127 rw
35 34 0:44 / /compile-cache rw - tmpfs none rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind", "network", "memory", "read_only"),
    [
        ("/etc", "ext4", False, False, False),
        ("/dev/shm/x", "tmpfs", False, True, False),
        ("/mnt/efs/cache", "nfs4", True, False, False),
        ("/mnt/s3", "fuse", True, False, False),
        ("/mnt/with blank/x", "xfs", False, False, True),
        ("/compile-cache/vllm", "tmpfs", False, True, False),
        ("/compile-cache-2", "ext4", False, False, False),
    ],
)
def test_the_mount_of_a_path(path: str, kind: str, *, network: bool, memory: bool, read_only: bool) -> None:
    found = mounts.holding(path, mounts.parse(MOUNTINFO))
    assert found is not None
    assert (found.kind, found.network, found.memory, found.read_only) == (kind, network, memory, read_only)


def test_this_machine_has_mounts_and_space(tmp_path: Path) -> None:
    assert mounts.of(str(tmp_path / "not" / "there")) is not None
    assert space.free(str(tmp_path / "not" / "there")).bytes > 0


@given(st.text(max_size=200))
def test_any_mountinfo(text: str) -> None:
    mounts.holding("/x", mounts.parse(text))


V3 = "avx avx2 bmi1 bmi2 f16c fma movbe"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (f"sse {V4} avx512_bf16 amx_tile avx512_vnni aes", "cpu:x86-64-v4+amx_tile+avx512_bf16+avx512_vnni"),
        (V4, "cpu:x86-64-v4"),
        (f"{V3} avx_vnni", "cpu:x86-64-v3+avx_vnni"),
        ("sse4_2 avx", "cpu:avx"),
        ("sse4_2", "cpu:generic"),
    ],
)
def test_processors(flags: str, name: str) -> None:
    assert (
        cpu.describe(f"processor : 0\nmodel name : X\nflags : {flags}\n\nprocessor : 1\nflags\t\t: {flags} extra\n")
        == name
    )


def test_other_processors() -> None:
    assert cpu.describe("Features : fp asimd sve bf16") == "cpu:asimd+bf16+sve"
    assert cpu.describe("") == "cpu:generic"
    assert cpu.here().startswith("cpu:")


def test_nvml_agrees_with_the_driver_or_is_absent() -> None:
    found = nvml.gpus()
    if not Path("/proc/driver/nvidia").exists():
        assert not found
        return
    assert found
    assert all(gpu.name for gpu in found)
    assert all(re.fullmatch(r"\d+\.\d+", gpu.capability) for gpu in found)


def test_names_of_users() -> None:
    assert user.name({"USER": "a", "LOGNAME": "b"}) == "b"
    assert user.name({})


def test_a_writable_root_is_left_as_it_was(tmp_path: Path) -> None:
    root = tmp_path / "a" / "b"
    assert writable.probe(str(root)) == ""
    assert list(root.iterdir()) == []
    assert writable.choose(str(root)) == writable.CacheRoot(str(root))


@pytest.mark.parametrize("kind", ["file", "proc", "relative", "long", "null"])
def test_roots_that_cannot_be(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    root = {
        "file": str(tmp_path / "file"),
        "proc": "/proc/glowplug",
        "relative": "x",
        "long": "/tmp/" + "x" * 300,
        "null": "/tmp/\0",
    }[kind]
    assert writable.probe(root)
    found = writable.choose(root, temporary=str(tmp_path))
    assert found.private
    assert found.why
    assert stat.S_IMODE(Path(found.path).stat().st_mode) == 0o700


def as_nobody(code: str, *arguments: str) -> str:
    """Run code as a user who is not root."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user: sudo make test")
    # What is imported comes first: the interpreter may lie where nobody may read.
    body = f"import os, sys, tempfile\nfrom glowplug.host import writable\nos.setgid(65534); os.setuid(65534)\n{code}"
    source = str(Path(writable.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", body, *arguments], env={"PYTHONPATH": source}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def reachable(path: Path) -> None:
    for parent in (path, *path.parents):
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)


PROBE = "print(writable.probe(sys.argv[1]))"
CHOOSE = (
    "root = writable.choose(None, default=sys.argv[1], fallback_parent=sys.argv[2], temporary=sys.argv[3])\n"
    "print(root.path, root.private, root.why)"
)


def test_a_root_of_another_user(tmp_path: Path) -> None:
    reachable(tmp_path)
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    assert "no permission" in as_nobody(PROBE, str(root))
    root.chmod(0o777)
    assert as_nobody(PROBE, str(root)) == ""
    deeper = root / "vllm" / "torch_compile_cache"
    deeper.mkdir(parents=True)
    os.chown(root / "vllm", 65534, 65534)
    assert "torch_compile_cache" in as_nobody(PROBE, str(root))


def test_the_fallback_must_be_the_callers_own(tmp_path: Path) -> None:
    reachable(tmp_path)
    temporary = tmp_path / "t"
    temporary.mkdir(mode=0o777)
    temporary.chmod(0o1777)
    arguments = (str(tmp_path / "missing"), str(temporary), str(temporary))
    own = temporary / "glowplug-65534"

    assert as_nobody(CHOOSE, *arguments) == f"{own}/compile-cache False"
    assert as_nobody(CHOOSE, *arguments) == f"{own}/compile-cache False"

    own.chmod(0o755)
    assert "has mode 0755" in as_nobody(CHOOSE, *arguments)
    own.chmod(0o700)
    os.chown(own, 0, 0)
    assert "belongs to another user" in as_nobody(CHOOSE, *arguments)
    own.rename(temporary / "elsewhere")
    os.chown(temporary / "elsewhere", 65534, 65534)
    own.symlink_to(temporary / "elsewhere")
    assert "not a directory" in as_nobody(CHOOSE, *arguments)


def test_a_default_that_is_there_is_not_left(tmp_path: Path) -> None:
    reachable(tmp_path)
    root, temporary = tmp_path / "root", tmp_path / "t"
    root.mkdir(mode=0o755)
    temporary.mkdir()
    temporary.chmod(0o1777)
    found = as_nobody(CHOOSE, str(root), str(temporary), str(temporary))
    assert " True " in found
    assert "no permission" in found


def test_no_space() -> None:
    if os.geteuid() != 0 or not Path("/usr/bin/unshare").exists():
        pytest.skip("needs root for a file system of its own: sudo make test")
    source = str(Path(writable.__file__).parents[2])
    script = (
        "mount -t tmpfs -o size=64k,nr_inodes=12 none /mnt && dd if=/dev/zero of=/mnt/full bs=4k count=99 2>/dev/null; "
        'exec "$0" -c "from glowplug.host import writable; print(writable.probe(\'/mnt\'))"'
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, sys.executable],
        env={"PYTHONPATH": source, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    if "permission denied" in done.stderr.lower() or "not permitted" in done.stderr.lower():
        pytest.skip("mounting is not allowed here")
    assert "no space" in done.stdout, done.stderr


def test_a_directory_that_vanishes_while_the_root_is_tried_forbids_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another engine in the same root makes and removes directories all the time."""
    for number in range(3):
        (tmp_path / f"d{number}").mkdir()
    real = os.access

    def access(path: str, *arguments: Any, **named: Any) -> bool:
        Path(path).rmdir()
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "access", access)
    monkeypatch.setattr(os, "supports_effective_ids", {access})
    assert writable.probe(str(tmp_path)) == ""
