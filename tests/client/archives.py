"""An OCI archive, read by its own rules: every descriptor is followed, and what it points to has the digest and size it says."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Read:
    """One image of an archive: `layer` is the tar of its last layer, `below` those of the others."""

    architecture: str
    config: dict[str, Any]
    layer: bytes
    below: tuple[bytes, ...] = ()

    def members(self) -> list[tarfile.TarInfo]:
        with tarfile.open(fileobj=io.BytesIO(self.layer)) as tar:
            return tar.getmembers()

    def unpack(self, root: Path) -> None:
        for layer in (*self.below, self.layer):
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                tar.extractall(root, filter="fully_trusted")  # noqa: S202 - packed here


def read(archive: Path) -> tuple[dict[str, str], list[Read]]:
    """The annotations of what the archive holds, and the images."""
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar.getmembers()}  # type: ignore[union-attr]
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    used = {"oci-layout", "index.json"}

    def blob(descriptor: dict[str, Any]) -> bytes:
        algorithm, digest = descriptor["digest"].split(":")
        content = files[f"blobs/{algorithm}/{digest}"]
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (digest, descriptor["size"])
        used.add(f"blobs/{algorithm}/{digest}")
        return content

    (listed,) = json.loads(files["index.json"])["manifests"]
    document = json.loads(blob(listed))
    assert document["mediaType"] == listed["mediaType"]
    found = []
    for descriptor in document.get("manifests", [listed]):
        manifest = json.loads(blob(descriptor))
        config = json.loads(blob(manifest["config"]))
        layers = [_plain(layer, blob(layer)) for layer in manifest["layers"]]
        digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
        assert config["rootfs"] == {"type": "layers", "diff_ids": digests}
        assert descriptor["platform"] == {"architecture": config["architecture"], "os": config["os"]}
        found.append(Read(config["architecture"], config["config"], layers[-1], tuple(layers[:-1])))
    assert used == set(files), "nothing lies in it that nothing points to"
    return listed["annotations"], found


def _plain(descriptor: dict[str, Any], content: bytes) -> bytes:
    return gzip.decompress(content) if descriptor["mediaType"].endswith("+gzip") else content
