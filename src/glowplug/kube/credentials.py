"""Who asks: a token from a kubeconfig, from a file that kubelet renews, or from a program such as `aws eks get-token`.

A token's file is read again before the server refuses the old token, since EKS counts that as a stale token; a program is asked
again before its token expires, and is not waited for without an end.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx2

from glowplug.core.clock import SYSTEM, Clock, from_iso
from glowplug.core.errors import AccessDeniedError
from glowplug.kube import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from glowplug.kube.kubeconfig import Program

FRESH_SECONDS: Final = 60.0
"""A token's file is read again after this; kubelet renews it long before the token ends."""
PROGRAM_SECONDS: Final = 25.0
_EARLY_SECONDS: Final = 30.0
_SENDABLE: Final = re.compile(r"[\x21-\x7e]+\Z")
_API: Final = "client.authentication.k8s.io/"


@dataclass(frozen=True)
class Token:
    """A bearer token, and when it is of no use any more (seconds of the clock's wall time)."""

    text: str = field(repr=False)
    until: float = float("inf")


class Bearer(httpx2.Auth):
    """Sends a token that `get` renews: when it is too old, and once after a refusal.

    What no header can hold is refused here: the HTTP client's own error would show the token.
    """

    def __init__(self, get: Callable[[], Token], clock: Clock = SYSTEM) -> None:
        self._get = get
        self._clock = clock
        self._lock = threading.Lock()
        self._token: Token | None = None

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """The request with the token; the same with a new one where the server does not know it."""
        token = self._fresh(None)
        request.headers["Authorization"] = f"Bearer {token.text}"
        response = yield request
        if response.status_code == 401:
            newer = self._fresh(token)
            if newer.text != token.text:
                request.headers["Authorization"] = f"Bearer {newer.text}"
                yield request

    def _fresh(self, refused: Token | None) -> Token:
        """One thread asks, the others wait for its answer."""
        with self._lock:
            known = self._token
            if known is None or known is refused or known.until <= self._clock.now():
                known = self._get()
                if not _SENDABLE.match(known.text):
                    raise _none("the token has characters that no token has")
                self._token = known
            return known


def from_file(path: Path, clock: Clock = SYSTEM) -> Callable[[], Token]:
    """Reads a token's file. The reader raises AccessDeniedError (`no-credentials`)."""

    def get() -> Token:
        try:
            text = path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise _none(f"{path}: {getattr(error, 'strerror', None) or 'not text'}") from error
        if not text:
            raise _none(f"{path} is empty")
        return Token(text, clock.now() + FRESH_SECONDS)

    return get


def from_program(
    program: Program,
    environ: Mapping[str, str],
    cluster: Mapping[str, Any] | None = None,
    *,
    seconds: float = PROGRAM_SECONDS,
) -> Callable[[], Token]:
    """Runs a program that prints an ExecCredential. The runner raises AccessDeniedError (`no-credentials`).

    `cluster`: what the program is told of it, where the kubeconfig asks for that.
    """
    if not program.api_version.startswith(_API):
        raise _none(f"{program.command}: {program.api_version or 'no apiVersion'} is no version of ExecCredential")
    spec: dict[str, Any] = {"interactive": False}
    if cluster:
        spec["cluster"] = dict(cluster)
    info = {"apiVersion": program.api_version, "kind": "ExecCredential", "spec": spec}
    env = {**environ, **program.variables, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    return lambda: _token(_output([program.command, *program.arguments], env, program.hint, seconds), program.command)


def _output(argv: list[str], env: Mapping[str, str], hint: str, seconds: float) -> bytes:
    """What the program prints. It has a process group of its own, so that what it starts ends with it."""
    name = argv[0]
    try:
        process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or answers.line(error)
        raise _none(
            f"{name}: {told}", hint or "the kubeconfig names this program; install it or put it on PATH"
        ) from error
    with process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise _none(
                f"{name} gave none within {seconds:.0f} s", "run it by hand: it may wait for a sign-in"
            ) from None
    if process.returncode != 0:
        words = answers.line(err[-4096:].decode("utf-8", "replace"))
        raise _none(f"{name} ended with status {process.returncode}: {words}", hint)
    return out


def _token(out: bytes, name: str) -> Token:
    """The token of an ExecCredential. Nothing of what cannot be read is shown: it may hold a token."""
    try:
        status = json.loads(out)["status"]
        text = status.get("token") or ""
        ends = status.get("expirationTimestamp")
        until = from_iso(ends) - _EARLY_SECONDS if ends else float("inf")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _none(f"{name} printed no ExecCredential") from None
    if not isinstance(text, str) or not text:
        kind = "a client certificate, which is not supported" if status.get("clientCertificateData") else "no token"
        raise _none(f"{name} gave {kind}")
    return Token(text, until)


def _none(what: str, hint: str = "") -> AccessDeniedError:
    return AccessDeniedError(
        f"no credentials for Kubernetes: {what}",
        code="no-credentials",
        hint=hint or "`kubectl auth whoami` asks the same",
    )
