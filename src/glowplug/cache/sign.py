"""Signatures over manifests: Ed25519, made by a named publisher.

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
from glowplug.core.errors import BadInputError, GlowplugError, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from glowplug.cache.format import Manifest

_PREFIX: Final = "ed25519"
_CONTEXT: Final = b"glowplug.manifest/1 "


@dataclass(frozen=True)
class KeyPair:
    """PEM texts of a new pair."""

    private: bytes
    public: bytes


def signer(private_pem: bytes) -> Callable[[Manifest], str]:
    """A function that signs manifests. Raises BadInputError where the PEM is no Ed25519 private key."""
    library = _library()
    try:
        key = library.serialization.load_pem_private_key(private_pem, password=None)
    except (ValueError, TypeError) as error:
        raise BadInputError(f"not an Ed25519 private key: {error}") from None
    if not isinstance(key, library.ed25519.Ed25519PrivateKey):
        raise BadInputError("not an Ed25519 private key")
    name = _name(library, key.public_key())

    def sign(manifest: Manifest) -> str:
        signature = key.sign(_CONTEXT + manifests.digest(manifest).encode())
        return f"{_PREFIX}:{name}:{base64.b64encode(signature).decode()}"

    return sign


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
