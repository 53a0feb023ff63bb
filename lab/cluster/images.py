"""Container images without a registry and without Docker: archives in OCI form, packed here, imported by each node.

Two come with every node. PAUSE holds a pod's namespaces. PYTHON is what pods of tests run: a shell, the usual commands and Python's
standard library, all copied from this machine with the shared libraries that they need, at the paths where the machine has them
(so that the machine's own `/usr` can be mounted over, see `pods`). They are built once (`lab.cachedir`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lab import cachedir

PAUSE = "glowplug.lab/pause:1"
PYTHON = "glowplug.lab/python:1"
_KIND = "cluster-images"
_PAUSE_SOURCE = Path(__file__).resolve().with_name("pause.go")
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_COMMANDS = (
    *(
        "sh",
        "cat",
        "ls",
        "echo",
        "sleep",
        "id",
        "env",
        "mkdir",
        "rm",
        "cp",
        "mv",
        "ln",
        "touch",
        "chmod",
        "chown",
        "stat",
    ),
    *(
        "df",
        "du",
        "head",
        "tail",
        "sort",
        "wc",
        "tr",
        "cut",
        "date",
        "true",
        "false",
        "mktemp",
        "dd",
        "readlink",
        "sha256sum",
    ),
    *("grep", "sed", "find", "hostname", "uname", "seq", "tee", "kill", "ps", "mount"),
)
_DIRECTORIES = [
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "usr/lib64",
    "usr/local/bin",
    "etc",
    "proc",
    "sys",
    "dev",
    "mnt",
    "run",
    "var",
]
_WITH_C = (
    *("libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libm.so.6", "libresolv.so.2"),
    *("libnss_dns.so.2", "libnss_files.so.2", "libgcc_s.so.1"),
)
"""What comes with the C library in every image that has one, and what compiled packages of Python are linked against."""
_LEFT_OUT = shutil.ignore_patterns(
    *("site-packages", "dist-packages", "test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3"),
    *("config-*", "*.opt-?.pyc", "*.a", "_tkinter*", "_test*"),
)
_LIBRARY = re.compile(r"(?:=>)?\s(/\S+) \(0x")


def built() -> tuple[Path, ...] | None:
    """The archives that every node imports, or None when they have not been packed here."""
    product = cachedir.find(_KIND, _definition())
    return _archives(product) if product else None


def build() -> tuple[Path, ...]:
    """The archives that every node imports, packed now if need be (seconds). Raises CalledProcessError when Go fails."""
    return _archives(cachedir.get(_KIND, _definition(), _build))


def base() -> Path:
    """The archive of PYTHON alone, for images that need an interpreter below what they bring. Raises as `build`."""
    return build()[1]


def load(archive: Path) -> None:
    """In a node: import an archive under the name that it bears. Raises OSError with containerd's words."""
    done = subprocess.run(import_command(str(archive)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{archive}: {done.stderr.strip()}")


def import_command(source: str = "-") -> list[str]:
    """The command that imports an archive, of standard input by default, for kubelet to find it."""
    return ["ctr", "--namespace", "k8s.io", "images", "import", source]


def pack(archive: Path, name: str, root: Path, argv: Sequence[str] = (), env: Iterable[str] = ()) -> None:
    """Write an image of one layer, the content of directory `root`, that is called `name` and runs `argv` unless told otherwise.

    Everything in it belongs to root. Nothing is compressed: it goes from one directory of this machine into another.
    """
    layer_file = archive.with_name(archive.name + ".layer")
    try:
        with tarfile.open(layer_file, "w", format=tarfile.PAX_FORMAT) as tar:
            for entry in sorted(root.iterdir()):
                tar.add(entry, entry.name, filter=_owned_by_root)
        layer = {"digest": f"sha256:{_digest(layer_file)}", "size": layer_file.stat().st_size}
        config = _blob(
            {
                "architecture": _architecture(),
                "os": "linux",
                "config": {"Env": [f"PATH={_PATH}", *env], "Cmd": list(argv), "WorkingDir": "/"},
                "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
                "history": [{"created_by": "glowplug lab"}],
            }
        )
        prefix = "application/vnd.oci.image"
        manifest = _blob(
            {
                "schemaVersion": 2,
                "mediaType": f"{prefix}.manifest.v1+json",
                "config": {"mediaType": f"{prefix}.config.v1+json", **_described(config)},
                "layers": [{"mediaType": f"{prefix}.layer.v1.tar", **layer}],
            }
        )
        listed = {
            "mediaType": f"{prefix}.manifest.v1+json",
            **_described(manifest),
            "platform": {"architecture": _architecture(), "os": "linux"},
            "annotations": {
                "io.containerd.image.name": name,
                "org.opencontainers.image.ref.name": name.rpartition(":")[2],
            },
        }
        index = {"schemaVersion": 2, "mediaType": f"{prefix}.index.v1+json", "manifests": [listed]}
        with tarfile.open(archive, "w") as tar:
            _add(tar, "oci-layout", _blob({"imageLayoutVersion": "1.0.0"}))
            _add(tar, "index.json", _blob(index))
            for blob in (config, manifest):
                _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
            tar.add(layer_file, "blobs/sha256/" + str(layer["digest"]).partition(":")[2], filter=_owned_by_root)
    finally:
        layer_file.unlink(missing_ok=True)


def _build(beside: Path, _final: Path) -> None:
    with cachedir.step("packing the images of pods"):
        root = beside / "root"
        root.mkdir()
        env = os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
        env |= {"GOFLAGS": "-trimpath -buildvcs=false", "GOCACHE": str(cachedir.root() / "go-build")}
        go = ["go", "build", "-ldflags", "-s -w", "-o", str(root / "pause"), str(_PAUSE_SOURCE)]
        subprocess.run(go, env=env, check=True, stdout=sys.stderr)
        pack(beside / "pause.tar", PAUSE, root, ["/pause"])
        shutil.rmtree(root)
        _fill(root)
        pack(beside / "python.tar", PYTHON, root, ["python3"])
        shutil.rmtree(root)


def _fill(root: Path) -> None:
    """A small root file system out of this machine's own files."""
    for directory in _DIRECTORIES:
        (root / directory).mkdir(parents=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    (root / "etc" / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
    if _CERTIFICATES.is_file():
        _copy(root, _CERTIFICATES)  # as images of engines have: what speaks to S3 does not start without
    programs = []
    for name in _COMMANDS:
        found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
        if found is None:
            continue
        shutil.copy2(found, root / "usr" / "bin" / name)
        programs.append(Path(found))
    interpreter = Path(sys.executable).resolve()
    _copy(root, interpreter)
    for name in ("python3", "python"):
        (root / "usr" / "local" / "bin" / name).symlink_to(interpreter)
    standard = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix}))
    shutil.copytree(standard, _inside(root, standard), symlinks=True, ignore=_LEFT_OUT)
    programs += [interpreter, *_inside(root, standard).rglob("*.so")]
    needed = _libraries(programs)
    (c_library,) = (library for library in needed if library.name == "libc.so.6")
    for library in needed.union(c_library.with_name(name) for name in _WITH_C):
        if library.exists():
            _copy(root, library)


def _libraries(programs: Sequence[Path]) -> set[Path]:
    """The shared libraries and loaders that these load, by their names on this machine."""
    done = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False)
    return {Path(path) for path in _LIBRARY.findall(done.stdout)}


def _copy(root: Path, file: Path) -> None:
    target = _inside(root, file)
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy2(file, target)


def _inside(root: Path, path: Path) -> Path:
    """Where a file of the machine lies in the image, whose /bin and /lib are links into /usr as the machine's may be or not."""
    first, *rest = path.parts[1:]
    return root.joinpath(*(["usr", first] if first in ("bin", "sbin", "lib", "lib64") else [first]), *rest)


def _definition() -> dict[str, str]:
    return {
        "source": Path(__file__).read_text(),
        "pause": _PAUSE_SOURCE.read_text(),
        "python": platform.python_version(),
        "interpreter": str(Path(sys.executable).resolve()),
        "machine": platform.machine(),
        "system": Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else "",
    }


def _archives(product: Path) -> tuple[Path, ...]:
    return product / "pause.tar", product / "python.tar"


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _architecture() -> str:
    """As Go calls it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _blob(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _described(blob: bytes) -> dict[str, Any]:
    return {"digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = 0o644
    tar.addfile(member, io.BytesIO(content))
