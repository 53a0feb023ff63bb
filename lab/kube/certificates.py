"""What a control plane and its clients know each other by: an authority, a server certificate, a signing key, bearer tokens.

Everything is made anew for each server and thrown away with it. Tokens and not client certificates: a kubeconfig then is four
lines, and an identity is a row in a table.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=7)
_SKEW = datetime.timedelta(hours=1)
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Identity:
    """A user of the server who proves himself by a token, and his groups."""

    user: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def row(self) -> str:
        """His line of kube-apiserver's --token-auth-file."""
        groups = f',"{",".join(self.groups)}"' if self.groups else ""
        return f"{self.token},{self.user},{self.user}{groups}\n"


@dataclass(frozen=True)
class Certificates:
    """Files in PEM form: the authority, the server's certificate and key, the key that signs service-account tokens."""

    authority: Path
    server: Path
    server_key: Path
    signing_key: Path


def make(directory: Path, names: Sequence[str], addresses: Sequence[str]) -> Certificates:
    """Write an authority and a server certificate for these DNS names and IP addresses into the directory."""
    authority_key, server_key, signing_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    authority = (
        _builder("glowplug-lab", "glowplug-lab", authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    reached = [*map(x509.DNSName, names), *(x509.IPAddress(ipaddress.ip_address(one)) for one in addresses)]
    server = (
        _builder("kube-apiserver", "glowplug-lab", server_key.public_key())
        .add_extension(x509.SubjectAlternativeName(reached), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    files = Certificates(
        directory / "authority.crt", directory / "server.crt", directory / "server.key", directory / "signing.key"
    )
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.server.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    for path, key in ((files.server_key, server_key), (files.signing_key, signing_key)):
        _write_secret(path, _pem(key))
    return files


def write_tokens(path: Path, identities: Sequence[Identity]) -> None:
    """Write kube-apiserver's --token-auth-file, readable by its owner alone."""
    _write_secret(path, "".join(one.row() for one in identities).encode())


def write_kubeconfig(path: Path, server: str, authority: Path, identity: Identity) -> None:
    """Write a kubeconfig (JSON, which is YAML) by which `identity` reaches `server`, readable by its owner alone."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": identity.user, "user": {"token": identity.token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": identity.user}}],
    }
    _write_secret(path, json.dumps(document, indent=1).encode())


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The form that kube-apiserver's parser of signing keys knows for elliptic curves.
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
