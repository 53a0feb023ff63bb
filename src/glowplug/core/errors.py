"""One tree of errors, ordered by what the caller can do about them.

The command line turns each into one line `error[CODE]: what`, a line `hint: …` and an exit status, in one place
(`cli/errors.py`). Every concrete error has a stable code; `docs/errors.md` is generated from `CODES`, so a code is made by
adding a row there and is never reused. Lower layers raise these and nothing else for a foreseeable fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final


class GlowplugError(Exception):
    """A foreseeable fault.

    `code` is stable and machine-readable, `hint` is one sentence that says what to do next, empty where nothing helps.
    """

    exit_status: ClassVar[int] = 3
    default_code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, code: str | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.hint = hint or hint_of(self.code)

    def __str__(self) -> str:
        return self.message


class UsageError(GlowplugError):
    """The call itself is wrong: an option, a combination of options, a malformed argument."""

    exit_status = 2
    default_code = "usage"


class BadInputError(GlowplugError):
    """A file or document that somebody gave us is not what it has to be."""

    exit_status = 2
    default_code = "bad-input"


class NotFoundError(GlowplugError):
    """What was asked for does not exist: the answer is no."""

    exit_status = 1
    default_code = "not-found"


class ConflictError(GlowplugError):
    """Somebody else changed it first (a lost conditional write)."""

    exit_status = 3
    default_code = "conflict"


class AccessDeniedError(GlowplugError):
    """The outside says that these credentials may not do this."""

    exit_status = 3
    default_code = "access-denied"


class UnavailableError(GlowplugError):
    """The outside does not answer, or not in time; trying again later may help.

    `retry_after` is in seconds, None where the other side gave none.
    """

    exit_status = 3
    default_code = "unavailable"

    def __init__(
        self, message: str, *, code: str | None = None, hint: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.retry_after = retry_after


class IntegrityError(GlowplugError):
    """Bytes are not what their digest, signature or format says. Never used, always reported."""

    exit_status = 4
    default_code = "integrity"


class InternalError(GlowplugError):
    """A fault of glowplug's own."""

    exit_status = 3
    default_code = "internal"


@dataclass(frozen=True)
class Code:
    """A row of docs/errors.md: what a code means and what to do."""

    meaning: str
    hint: str


CODES: Final[dict[str, Code]] = {
    "usage": Code("The command line is wrong.", "run the command with --help"),
    "bad-input": Code("A file is not what it has to be.", ""),
    "bad-size": Code("A size cannot be read.", "write it as 67GB, 64GiB or a number of bytes"),
    "bad-duration": Code("A duration cannot be read.", "write it as 30s, 10m, 2h or 30d"),
    "bad-fingerprint": Code(
        "A fingerprint file lacks fields of the key.", "`glowplug fingerprint -o json -- COMMAND` prints a whole one"
    ),
    "bad-yaml": Code("A manifest is no YAML, no UTF-8, or exceeds the limits on what is read.", ""),
    "bad-document": Code("A glowplug document is damaged or of another kind.", ""),
    "not-found": Code("What was asked for does not exist.", ""),
    "key-not-found": Code("No key of the domain begins with these digits.", "`glowplug cache ls` lists the keys"),
    "key-ambiguous": Code("Several keys begin with these digits.", "give more digits of the key digest"),
    "blob-missing": Code(
        "The manifest names a blob that the store does not have (replication may lag, or gc ran).",
        "try again later, or publish the key anew",
    ),
    "conflict": Code("Another writer was faster.", "run the command again"),
    "access-denied": Code(
        "The store refuses these credentials.", "compare the role or keys with the permissions in docs/security.md"
    ),
    "no-credentials": Code(
        "No credentials were found for the store.",
        "set AWS_PROFILE or AWS_ACCESS_KEY_ID, or give the pod a service account with an IAM role",
    ),
    "no-certificates": Code(
        "This machine or image has no certificates of authorities, and the client of the store does not start without.",
        "install ca-certificates, or let SSL_CERT_FILE name a bundle",
    ),
    "unavailable": Code("The store or service does not answer.", "check the network path and the endpoint"),
    "timeout": Code("The deadline passed before the answer came.", "raise the timeout, or look at the network path"),
    "throttled": Code("The service asks for patience: too many requests of this account.", "try again in a minute"),
    "no-region": Code("No AWS region is known, or what was given is none.", "set AWS_REGION, or give --region"),
    "no-bucket": Code("The bucket does not exist.", "check the name and the region of the store"),
    "wrong-region": Code("The bucket is in another region.", "set AWS_REGION to the region of the bucket"),
    "read-only-store": Code(
        "The store cannot be written, or has no conditional writes.", "use a store with If-None-Match and write access"
    ),
    "bad-store-url": Code(
        "The address of the store is not one.", "write s3://bucket/prefix, gs://…, az://… or file:///…"
    ),
    "bad-model": Code(
        "MODEL is no size, no directory and no address.", "write 67GB, a local directory or s3://bucket/prefix"
    ),
    "no-safetensors": Code(
        "The folder holds no weights that an engine can stream.", "give the folder whose root holds *.safetensors"
    ),
    "no-ranges": Code(
        "The server sends whole objects where a part was asked for.", "use a server or proxy that honours HTTP ranges"
    ),
    "does-not-fit": Code(
        "The model does not fit on this machine.", "`glowplug plan MODEL` lists machines that it fits on"
    ),
    "instance-unfit": Code(
        "On this kind of compute a pod could not use the instance type's GPUs or its NVMe.",
        "choose another instance type",
    ),
    "rule-unknown": Code("There is no lint rule of this name.", "`glowplug rules` lists them"),
    "missing-extra": Code("A part of glowplug is not installed.", ""),
    "integrity": Code("Bytes are not what their digest says.", "`glowplug cache verify --deep` finds what is damaged"),
    "bad-archive": Code(
        "An archive breaks a rule of docs/format.md.",
        "`glowplug cache rm KEY` removes the key; the next start publishes it anew",
    ),
    "archive-limit": Code("An archive is larger than the limits allow.", ""),
    "bad-manifest": Code("A manifest is damaged.", ""),
    "signature": Code("A signature is missing or wrong.", ""),
    "tree-changing": Code("The cache changes while it is packed.", "wait until the engine is ready and idle"),
    "no-space": Code("The disk is too small for what was asked.", "free space, or choose another directory"),
    "cache-root-unwritable": Code("The cache root cannot be written.", "give the process a directory that it owns"),
    "outbox-unwritable": Code(
        "A pod cannot hand what it compiled to its node's agent: its outbox cannot be written.", ""
    ),
    "secret-found": Code(
        "A secret of this environment occurs in an artifact.", "it is not published; see docs/security.md"
    ),
    "engine-unknown": Code("No adapter knows this engine.", "name one with --engine"),
    "unknown-instance": Code(
        "The catalogue has no instance type of this name.",
        "name a GPU instance type of EC2, or describe the machine with --gpu and --gpu-count",
    ),
    "unknown-gpu": Code(
        "The catalogue has no GPU of this name.",
        "write the name as NVML, a node label, Karpenter or EC2 spells it, such as h100-80gb",
    ),
    "ambiguous-gpu": Code("Several cards go by this name.", "write the card with its memory, such as a100-80gb"),
    "partial-gpu": Code(
        "The name is that of a MIG part of a GPU, not of a whole one.",
        "name the whole card; parts cannot be planned for",
    ),
    "internal": Code("A fault of glowplug's own.", "please report it with the output of `glowplug --version`"),
}


def hint_of(code: str) -> str:
    """The general hint of a code, empty for a code without one."""
    row = CODES.get(code)
    return row.hint if row else ""
