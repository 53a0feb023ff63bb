"""Container images written without Docker: a directory becomes a layer, layers become one archive in OCI's image layout.

The same content gives the same bytes: names are sorted, everything belongs to root, no time is recorded, and modes are 755, 644
or those of links. An archive may hold an image for several kinds of machine under one name; `ctr images import`, `skopeo copy
oci-archive:` and `docker load` read it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from dev.written import replaced

_IMAGE = "application/vnd.oci.image"


@dataclass(frozen=True)
class Image:
    """For one kind of machine (`amd64`, `arm64`, as Go calls them): one layer, the content of `root`; `config` as OCI has it.

    `base` is the archive of one image for that kind of machine: its layers lie below.
    """

    architecture: str
    root: Path
    config: Mapping[str, object]
    base: Path | None = None


def write(archive: Path, name: str, images: Sequence[Image]) -> None:
    """Write `images` into `archive` under `name` (`glowplug:0.1.0`), replacing another file there in one step."""
    with tempfile.TemporaryDirectory(dir=_made(archive.parent), prefix=".layers-") as beside:
        blobs = _Blobs(Path(beside))
        manifests = [_manifest(blobs, image) for image in images]
        listed = manifests[0]
        if len(manifests) > 1:
            index = {"schemaVersion": 2, "mediaType": f"{_IMAGE}.index.v1+json", "manifests": manifests}
            listed = {"mediaType": f"{_IMAGE}.index.v1+json", **blobs.add(index)}
        listed["annotations"] = {
            "io.containerd.image.name": full_name(name),
            "org.opencontainers.image.ref.name": name.rpartition(":")[2],
        }
        with replaced(archive) as new, tarfile.open(new, "w", format=tarfile.PAX_FORMAT) as tar:
            _add_bytes(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
            top = {"schemaVersion": 2, "mediaType": f"{_IMAGE}.index.v1+json", "manifests": [listed]}
            _add_bytes(tar, "index.json", _json(top))
            for blob in blobs.files():
                with blob.open("rb") as file:
                    _add(tar, _member(f"blobs/sha256/{blob.name}", size=blob.stat().st_size), file)


class BaseError(ValueError):
    """An archive that is no image to build on."""


def full_name(name: str) -> str:
    """As kubelet looks for an image that a pod calls `name`: `glowplug:1` is `docker.io/library/glowplug:1`."""
    host, slash, _ = name.partition("/")
    if slash and (set(host) & set(".:") or host == "localhost"):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"


class _Blobs:
    """Content by digest, in a directory."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def add(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """A JSON document; returns digest and size as descriptors have them."""
        content = _json(document)
        digest = hashlib.sha256(content).hexdigest()
        (self._place / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    def add_layer(self, root: Path) -> tuple[dict[str, Any], str]:
        """A compressed layer; returns digest and size, and the digest of what is compressed."""
        plain = self._place / ".plain"
        packed = self._place / ".packed"
        with plain.open("wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in _walk(root):
                _add_path(tar, root, path)
        with (
            plain.open("rb") as source,
            packed.open("wb") as file,
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as compressed,
        ):
            shutil.copyfileobj(source, compressed)
        difference, digest = _digest(plain), _digest(packed)
        plain.unlink()
        packed.rename(self._place / digest)
        return {"digest": f"sha256:{digest}", "size": (self._place / digest).stat().st_size}, f"sha256:{difference}"

    def add_base(self, archive: Path, architecture: str) -> tuple[list[dict[str, Any]], list[str]]:
        """The layers of an image for that kind of machine, as they are, and the digests of what they hold. Raises BaseError."""
        with tarfile.open(archive) as tar:
            (listed,) = _read(tar, "index.json")["manifests"]
            manifest = _read(tar, _blob(listed))
            config = _read(tar, _blob(manifest["config"]))
            if config["architecture"] != architecture:
                raise BaseError(f"{archive} is for {config['architecture']}, not for {architecture}")
            for layer in manifest["layers"]:
                with _opened(tar, _blob(layer)) as source, (self._place / _blob(layer).name).open("wb") as file:
                    shutil.copyfileobj(source, file)
        return manifest["layers"], config["rootfs"]["diff_ids"]

    def files(self) -> list[Path]:
        """All of them, by digest."""
        return sorted(self._place.iterdir())


def _manifest(blobs: _Blobs, image: Image) -> dict[str, Any]:
    below, differences = blobs.add_base(image.base, image.architecture) if image.base else ([], [])
    layer, difference = blobs.add_layer(image.root)
    config = blobs.add(
        {
            "architecture": image.architecture,
            "os": "linux",
            "config": dict(image.config),
            "rootfs": {"type": "layers", "diff_ids": [*differences, difference]},
        }
    )
    manifest = blobs.add(
        {
            "schemaVersion": 2,
            "mediaType": f"{_IMAGE}.manifest.v1+json",
            "config": {"mediaType": f"{_IMAGE}.config.v1+json", **config},
            "layers": [*below, {"mediaType": f"{_IMAGE}.layer.v1.tar+gzip", **layer}],
        }
    )
    platform = {"architecture": image.architecture, "os": "linux"}
    return {"mediaType": f"{_IMAGE}.manifest.v1+json", **manifest, "platform": platform}


def _blob(descriptor: Mapping[str, Any]) -> PurePosixPath:
    return PurePosixPath("blobs", *descriptor["digest"].split(":"))


def _read(tar: tarfile.TarFile, name: str | PurePosixPath) -> dict[str, Any]:
    with _opened(tar, name) as file:
        document: dict[str, Any] = json.load(file)
    return document


def _opened(tar: tarfile.TarFile, name: str | PurePosixPath) -> IO[bytes]:
    file = tar.extractfile(str(name))
    if file is None:
        raise BaseError(f"{tar.name!r} holds no file {name}")
    return file


def _walk(root: Path) -> Iterator[Path]:
    """Everything below a directory, parents first, each directory's content sorted."""
    for path in sorted(root.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def _add_path(tar: tarfile.TarFile, root: Path, path: Path) -> None:
    mode = path.lstat().st_mode
    name = path.relative_to(root).as_posix()
    if stat.S_ISLNK(mode):
        member = _member(name, kind=tarfile.SYMTYPE, mode=0o777)
        member.linkname = os.fspath(path.readlink())
        tar.addfile(member)
    elif stat.S_ISDIR(mode):
        sticky = mode & 0o1002 == 0o1002
        tar.addfile(_member(name, kind=tarfile.DIRTYPE, mode=0o1777 if sticky else 0o755))
    else:
        with path.open("rb") as file:
            member = _member(name, size=path.stat().st_size, mode=0o755 if mode & stat.S_IXUSR else 0o644)
            _add(tar, member, file)


def _member(name: str, *, size: int = 0, kind: bytes = tarfile.REGTYPE, mode: int = 0o644) -> tarfile.TarInfo:
    """Owner root and no time: TarInfo's own defaults."""
    member = tarfile.TarInfo(name)
    member.size, member.type, member.mode = size, kind, mode
    return member


def _add(tar: tarfile.TarFile, member: tarfile.TarInfo, file: BinaryIO) -> None:
    tar.addfile(member, file)


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    _add(tar, _member(name, size=len(content)), io.BytesIO(content))


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
