"""Signatures over manifests: Ed25519, made by a named publisher.

A signer vouches for its own parts only. Where a manifest is there that it has not signed, it begins an own one instead of lending
its name to what others wrote: only a person's block stays.

A signature says who made these parts (a bake Job, CI), not that they passed through an agent. It is made over the manifest's
digest, which covers every part's digest. Text form: `ed25519:<first 16 hex digits of the SHA-256 of the public key>:<base64>`.
Needs the extra `sign` (cryptography), imported only here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.cache import format as manifests
from glowplug.core import files
from glowplug.core.errors import BadInputError, GlowplugError, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from glowplug.cache.format import Manifest

_PREFIX: Final = "ed25519"
_LARGEST_KEY: Final = 1 << 16
_CONTEXT: Final = b"glowplug.manifest/1 "


@dataclass(frozen=True)
class KeyPair:
    """PEM texts of a new pair."""

    private: bytes
    public: bytes


class Signer:
    """Signs manifests with one private key, and knows its own signature again."""

    def __init__(self, private_pem: bytes) -> None:
        """Raises BadInputError where the PEM is no Ed25519 private key."""
        library = _library()
        try:
            key = library.serialization.load_pem_private_key(private_pem, password=None)
        except (ValueError, TypeError) as error:
            raise BadInputError(f"not an Ed25519 private key: {error}") from None
        if not isinstance(key, library.ed25519.Ed25519PrivateKey):
            raise BadInputError("not an Ed25519 private key")
        self._key = key
        public = key.public_key()
        self._name = _name(library, public)
        form = library.serialization
        self._verify = verifier(public.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))

    def __call__(self, manifest: Manifest) -> str:
        """The signature of a manifest."""
        signature = self._key.sign(_CONTEXT + manifests.digest(manifest).encode())
        return f"{_PREFIX}:{self._name}:{base64.b64encode(signature).decode()}"

    def made(self, manifest: Manifest) -> bool:
        """Whether this key signed the manifest as it is."""
        try:
            self._verify(manifest)
        except IntegrityError:
            return False
        return True

    def own(self, manifest: Manifest | None) -> Manifest | None:
        """What of a manifest this signer may sign again: all of its own one, of another's nothing but a block."""
        if manifest is None or self.made(manifest):
            return manifest
        return None if manifest.blocked is None else manifests.Manifest(manifest.key, blocked=manifest.blocked)


class SameHand:
    """For a change that adds nothing of its own (a block, its lifting): signed again only where this key had signed before."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._made = False

    def own(self, manifest: Manifest | None) -> Manifest | None:
        """The whole manifest, whoever wrote it."""
        self._made = manifest is not None and self._signer.made(manifest)
        return manifest

    def __call__(self, manifest: Manifest) -> str:
        """The signature, "" where the key had not signed what was there."""
        return self._signer(manifest) if self._made else ""


def signer(private_pem: bytes) -> Signer:
    """What signs manifests. Raises BadInputError where the PEM is no Ed25519 private key."""
    return Signer(private_pem)


def verifier(*public_pems: bytes) -> Callable[[Manifest], None]:
    """A policy: raises IntegrityError (`signature`) for a manifest that none of these keys signed."""
    library = _library()
    known = {_name(library, key): key for key in (_load_public(library, pem) for pem in public_pems)}

    def verify(manifest: Manifest) -> None:
        kind, _, rest = manifest.signature.partition(":")
        name, _, text = rest.partition(":")
        if kind != _PREFIX or name not in known:
            raise IntegrityError("the manifest is not signed by a key that is trusted here", code="signature")
        try:
            known[name].verify(base64.b64decode(text, validate=True), _CONTEXT + manifests.digest(manifest).encode())
        except (library.InvalidSignature, binascii.Error):
            raise IntegrityError("the signature of the manifest is wrong", code="signature") from None

    return verify


def signer_in(path: Path) -> Signer:
    """The signer of a key file, for starts: read in bounded time and size. Raises OSError, BadInputError, `missing-extra`."""
    return signer(files.read_small(path, _LARGEST_KEY))


def verifier_in(path: Path) -> Callable[[Manifest], None]:
    """The policy of a key file, for starts. Raises as `signer_in`."""
    return verifier(files.read_small(path, _LARGEST_KEY))


def generate() -> KeyPair:
    """A new pair of keys."""
    library = _library()
    key = library.ed25519.Ed25519PrivateKey.generate()
    form = library.serialization
    return KeyPair(
        key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()),
        key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo),
    )


@dataclass(frozen=True)
class _Library:
    ed25519: Any
    serialization: Any
    InvalidSignature: type[Exception]


def _library() -> _Library:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise GlowplugError(
            "signatures need the package cryptography",
            code="missing-extra",
            hint="install glowplug with the extra `sign`",
        ) from None
    return _Library(ed25519, serialization, InvalidSignature)


def _load_public(library: _Library, pem: bytes) -> Any:
    try:
        key = library.serialization.load_pem_public_key(pem)
    except ValueError as error:
        raise BadInputError(f"not an Ed25519 public key: {error}") from None
    if not isinstance(key, library.ed25519.Ed25519PublicKey):
        raise BadInputError("not an Ed25519 public key")
    return key


def _name(library: _Library, key: Any) -> str:
    raw = key.public_bytes(library.serialization.Encoding.Raw, library.serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:16]
