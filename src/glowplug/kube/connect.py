"""Ways to an API server: the pod's own service account, or a kubeconfig and one of its contexts.

The HTTP client is not imported before one of these is called: that costs a tenth of a second, and most commands never ask a
cluster. Nothing is asked of the cluster here either.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import os
import tempfile
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import glowplug
from glowplug.core.errors import AccessDeniedError, BadInputError, UsageError
from glowplug.kube import answers, kubeconfig
from glowplug.kube.client import Client
from glowplug.kube.questions import MOST_ANSWER

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping

    import httpx2

    from glowplug.kube.kubeconfig import Cluster, User

SECONDS: Final = 30.0
"""How long one question may take, a login program included."""
BY_VARIABLE: Final = "let KUBECONFIG name one"
"""What a command without an option for it can be told."""
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(
    *,
    account: Path = ACCOUNT,
    seconds: float = SECONDS,
    environ: Mapping[str, str] = os.environ,
    most_bytes: int = MOST_ANSWER,
) -> Client:
    """As the pod's service account, whose token and authority are read again as kubelet renews them.

    Raises UsageError (outside of a pod; `missing-extra`), AccessDeniedError (`no-credentials`: no token is mounted).
    """
    _check_installed()
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise UsageError("this is no pod of a cluster: KUBERNETES_SERVICE_HOST is not set", hint="name a kubeconfig")
    token = account / "token"
    if not token.exists():
        raise AccessDeniedError(
            f"no credentials for Kubernetes: {token} is not there",
            code="no-credentials",
            hint="the pod needs automountServiceAccountToken: true",
        )
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    cluster = kubeconfig.Cluster(server, authority_file=str(account / "ca.crt"))
    return _client(cluster, kubeconfig.User(token_file=str(token)), _namespace(account), seconds, environ, most_bytes)


def from_kubeconfig(
    path: str = "",
    context: str = "",
    *,
    seconds: float = SECONDS,
    environ: Mapping[str, str] = os.environ,
    most_bytes: int = MOST_ANSWER,
    hint: str = BY_VARIABLE,
) -> Client:
    """As the user of a context, else of the current one; of this file, else of KUBECONFIG's or ~/.kube/config.

    Raises UsageError (no file, with `hint`; no such context; `missing-extra`), BadInputError, AccessDeniedError
    (`no-credentials`).
    """
    _check_installed()
    files = kubeconfig.paths(path, environ)
    if not files:
        raise UsageError(_no_kubeconfig(environ), hint=hint)
    try:
        joined = kubeconfig.read(files)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}", hint=hint) from error
    chosen = kubeconfig.choose(joined, context)
    return _client(chosen.cluster, chosen.user, chosen.namespace, seconds, environ, most_bytes)


def found(
    path: str = "",
    context: str = "",
    *,
    seconds: float = SECONDS,
    environ: Mapping[str, str] = os.environ,
    most_bytes: int = MOST_ANSWER,
    hint: str = BY_VARIABLE,
) -> Client:
    """By the kubeconfig that is named or there, else, in a pod, as its service account. Raises as the two above.

    `most_bytes`: how large one answer may be (`kube/questions.py`).
    """
    if not (path or context or kubeconfig.paths("", environ)) and environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(seconds=seconds, environ=environ, most_bytes=most_bytes)
    return from_kubeconfig(path, context, seconds=seconds, environ=environ, most_bytes=most_bytes, hint=hint)


def _no_kubeconfig(environ: Mapping[str, str]) -> str:
    listed = kubeconfig.by_variable(environ)
    if not listed:
        return "no kubeconfig: neither KUBECONFIG nor ~/.kube/config names one"
    absent = "it is not there" if len(listed) == 1 else "none of them is there"
    return f"KUBECONFIG names {', '.join(map(str, listed))}, and {absent}"


def _check_installed() -> None:
    if importlib.util.find_spec("httpx2") is None:
        raise UsageError(
            "asking Kubernetes needs httpx2, which is not installed",
            code="missing-extra",
            hint="install glowplug with the extra `agent`",
        )


def _namespace(account: Path) -> str:
    try:
        return (account / "namespace").read_text("utf-8").strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def _client(
    cluster: Cluster, user: User, namespace: str, seconds: float, environ: Mapping[str, str], most_bytes: int
) -> Client:
    import httpx2

    from glowplug.kube.link import Link
    from glowplug.kube.pool import Pool

    _check_address(cluster.server)
    credentials = _credentials(cluster, user, environ)

    def made() -> httpx2.Client:
        return httpx2.Client(
            base_url=cluster.server,
            verify=_trust(cluster, user),
            auth=credentials,
            headers={"User-Agent": f"glowplug/{glowplug.__version__}", **_impersonated(user)},
            proxy=cluster.proxy or None,
            trust_env=True,
        )

    try:
        pool = Pool(made, _files_of(cluster, user))
    except (httpx2.InvalidURL, ValueError, ImportError) as error:
        raise BadInputError(f"the address of the cluster or of a proxy on the way: {answers.line(error)}") from error
    link = Link(pool, seconds=seconds, server_name=cluster.server_name, most_bytes=most_bytes)
    return Client(link, default_namespace=namespace)


def _check_address(url: str) -> None:
    try:
        address = urllib.parse.urlsplit(url)
        sound = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise BadInputError(f"the address of the cluster is none: {answers.line(url)}")


def _trust(cluster: Cluster, user: User) -> ssl.SSLContext:
    """What is believed of certificates, and whose certificate is shown.

    Python 3.13 is stricter than Kubernetes' own clients, and refuses authorities of real clusters.
    """
    import ssl

    try:
        authority = cluster.authority.decode("ascii") or None
        file = None if authority else cluster.authority_file or None
        context = ssl.create_default_context(cafile=file, cadata=authority)
        if user.certificate or user.certificate_file:
            with _files(user) as (certificate, key):
                # Without a password OpenSSL would ask the terminal for that of an encrypted key, and wait.
                context.load_cert_chain(certificate, key, password="")
    except OSError as error:  # ssl.SSLError is one
        where = f"{error.filename}: " if getattr(error, "filename", None) else ""
        words = answers.line(error.strerror or error)
        raise BadInputError(f"a certificate or key of the cluster or its user: {where}{words}") from error
    except ValueError as error:
        raise BadInputError(f"a certificate or key of the cluster or its user: {answers.line(error)}") from error
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cluster.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _files_of(cluster: Cluster, user: User) -> list[str]:
    """Files that `_trust` reads. A token's file is read again by itself (`credentials.py`)."""
    authority = "" if cluster.authority else cluster.authority_file
    named = ("" if user.certificate else user.certificate_file, "" if user.key else user.key_file)
    return [path for path in (authority, *named) if path]


@contextlib.contextmanager
def _files(user: User) -> Iterator[tuple[str, str | None]]:
    """The user's certificate and key as files, which is all that OpenSSL takes; those made here are nobody else's, and go."""
    with tempfile.TemporaryDirectory(prefix="glowplug-") as directory:
        made = []
        for name, data, path in (
            ("certificate", user.certificate, user.certificate_file),
            ("key", user.key, user.key_file),
        ):
            if data:
                (Path(directory) / name).write_bytes(data)
            made.append(str(Path(directory) / name) if data else path)
        yield made[0], made[1] or None


def _credentials(cluster: Cluster, user: User, environ: Mapping[str, str]) -> httpx2.Auth | None:
    """In kubectl's order: a token's file, a token, a name and a password, a program; client certificates are a matter of TLS."""
    import httpx2

    from glowplug.kube import credentials

    if user.token_file:
        return credentials.Bearer(credentials.from_file(Path(user.token_file)))
    if user.token:
        token = credentials.Token(user.token)
        return credentials.Bearer(lambda: token)
    if user.name and user.password:
        return httpx2.BasicAuth(user.name, user.password)
    if user.program:
        told = _told(cluster) if user.program.wants_cluster else {}
        return credentials.Bearer(credentials.from_program(user.program, environ, told))
    if user.outdated:
        raise AccessDeniedError(
            "no credentials for Kubernetes: the kubeconfig's auth-provider is of a kind that Kubernetes gave up",
            code="no-credentials",
            hint="write the kubeconfig anew: aws eks update-kubeconfig",
        )
    return None


def _told(cluster: Cluster) -> dict[str, Any]:
    """What a login program is told of the cluster, in the fields of an ExecCredential."""
    authority = cluster.authority
    if cluster.authority_file and not authority:
        try:
            authority = Path(cluster.authority_file).read_bytes()
        except OSError as error:
            raise BadInputError(f"the cluster's authority: {error.filename}: {error.strerror}") from error
    told = {
        "server": cluster.server,
        "tls-server-name": cluster.server_name,
        "insecure-skip-tls-verify": cluster.insecure,
        "certificate-authority-data": base64.b64encode(authority).decode(),
        "proxy-url": cluster.proxy,
    }
    return {name: value for name, value in told.items() if value}


def _impersonated(user: User) -> dict[str, str]:
    """The headers by which one acts as another."""
    headers = {"Impersonate-User": user.acts_as, "Impersonate-Group": user.acts_in}
    return {name: value for name, value in headers.items() if value}
