"""Ways to an API server: the pod's own service account, or a kubeconfig and one of its contexts.

Nothing of lightkube or of its HTTP client is imported before one of these is called: that costs a fifth of a second, and most
commands never ask a cluster. Nothing is asked of the cluster here either.
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

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping

    import httpx2
    from lightkube.config.models import Cluster, User

SECONDS: Final = 30.0
"""How long one question may take, a login program included."""
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(*, account: Path = ACCOUNT, seconds: float = SECONDS, environ: Mapping[str, str] = os.environ) -> Client:
    """As the pod's service account, whose token is read again as kubelet renews it.

    Raises UsageError (outside of a pod; `missing-extra`), AccessDeniedError (`no-credentials`: no token is mounted).
    """
    _check_installed()
    from lightkube.config.models import Cluster, User

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
    cluster = Cluster(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}", certificate_auth=str(account / "ca.crt")
    )
    user = User(token_file=str(token))
    return _client(cluster, user, {}, {}, _namespace(account), seconds, environ)


def from_kubeconfig(
    path: str = "", context: str = "", *, seconds: float = SECONDS, environ: Mapping[str, str] = os.environ
) -> Client:
    """As the user of a context, else of the current one; of this file, else of KUBECONFIG's or ~/.kube/config.

    Raises UsageError (no file, no such context; `missing-extra`), BadInputError, AccessDeniedError (`no-credentials`).
    """
    _check_installed()
    import msgspec
    from lightkube import ConfigError, KubeConfig

    files = kubeconfig.paths(path, environ)
    if not files:
        raise UsageError(
            "no kubeconfig: neither KUBECONFIG nor ~/.kube/config names one", hint="give --kubeconfig FILE"
        )
    try:
        joined = kubeconfig.read(files)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}", hint="give --kubeconfig FILE") from error
    name, chosen, cluster, user = kubeconfig.choose(joined, context)
    try:
        only: dict[str, Any] = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}}],
        }
        single = KubeConfig.from_dict(only).get(name)
        if single is None or single.user is None:
            raise KeyError(name)
    except (ConfigError, msgspec.ValidationError, KeyError, TypeError) as error:
        raise BadInputError(f"the kubeconfig's context {name!r}: {answers.line(error)}") from error
    namespace = kubeconfig.text(chosen.get("namespace"), "namespace") or "default"
    return _client(single.cluster, single.user, cluster, user, namespace, seconds, environ)


def found(
    path: str = "", context: str = "", *, seconds: float = SECONDS, environ: Mapping[str, str] = os.environ
) -> Client:
    """By the kubeconfig that is named or there, else, in a pod, as its service account. Raises as the two above."""
    if not (path or context or kubeconfig.paths("", environ)) and environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(seconds=seconds, environ=environ)
    return from_kubeconfig(path, context, seconds=seconds, environ=environ)


def _check_installed() -> None:
    if importlib.util.find_spec("lightkube") is None:
        raise UsageError(
            "asking Kubernetes needs lightkube, which is not installed",
            code="missing-extra",
            hint="install glowplug with the extra `agent`",
        )


def _namespace(account: Path) -> str:
    try:
        return (account / "namespace").read_text("utf-8").strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def _client(
    cluster: Cluster,
    user: User,
    written_cluster: Mapping[str, Any],
    written_user: Mapping[str, Any],
    namespace: str,
    seconds: float,
    environ: Mapping[str, str],
) -> Client:
    """`written_…`: the fields as they stand in the kubeconfig, for those that lightkube does not know."""
    import httpx2

    from glowplug.kube.link import Link

    _check_address(cluster.server)
    try:
        http = httpx2.Client(
            base_url=cluster.server,
            verify=_trust(cluster, user),
            auth=_credentials(cluster, user, written_cluster, environ),
            headers={"User-Agent": f"glowplug/{glowplug.__version__}", **_impersonated(written_user)},
            proxy=kubeconfig.text(written_cluster.get("proxy-url"), "proxy-url") or None,
            trust_env=True,
        )
    except (httpx2.InvalidURL, ValueError, ImportError) as error:
        raise BadInputError(f"the address of the cluster or of a proxy on the way: {answers.line(error)}") from error
    name = kubeconfig.text(written_cluster.get("tls-server-name"), "tls-server-name")
    return Client(Link(http, seconds=seconds, server_name=name), default_namespace=namespace)


def _check_address(url: str) -> None:
    try:
        address = urllib.parse.urlsplit(url)
        sound = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise BadInputError(f"the address of the cluster is none: {answers.line(url)}")


def _trust(cluster: Cluster, user: User) -> ssl.SSLContext:
    """What is believed of certificates, and whose certificate is shown. lightkube's own verifies where a kubeconfig says not to.

    Python 3.13 is stricter than Kubernetes' own clients, and refuses authorities of real clusters.
    """
    import ssl

    try:
        authority = _pem(cluster.certificate_auth_data).decode("ascii") or None
        context = ssl.create_default_context(cafile=None if authority else cluster.certificate_auth, cadata=authority)
        if user.client_cert_data or user.client_cert:
            with _files(user) as (certificate, key):
                context.load_cert_chain(certificate, key)
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


def _pem(data: str | None) -> bytes:
    """Raises ValueError."""
    return base64.b64decode(data or "", validate=True)


@contextlib.contextmanager
def _files(user: User) -> Iterator[tuple[str, str | None]]:
    """The user's certificate and key as files, which is all that OpenSSL takes; those made here are nobody else's, and go."""
    with tempfile.TemporaryDirectory(prefix="glowplug-") as directory:
        made = []
        for name, data, path in (
            ("certificate", user.client_cert_data, user.client_cert),
            ("key", user.client_key_data, user.client_key),
        ):
            if data:
                (Path(directory) / name).write_bytes(_pem(data))
            made.append(str(Path(directory) / name) if data else path)
        yield made[0] or "", made[1] or None


def _credentials(
    cluster: Cluster, user: User, written_cluster: Mapping[str, Any], environ: Mapping[str, str]
) -> httpx2.Auth | None:
    """In kubectl's order: a token's file, a token, a name and a password, a program; client certificates are a matter of TLS."""
    import httpx2

    from glowplug.kube import credentials

    if user.token_file:
        return credentials.Bearer(credentials.from_file(Path(user.token_file)))
    if user.token:
        token = credentials.Token(user.token)
        return credentials.Bearer(lambda: token)
    if user.username and user.password:
        return httpx2.BasicAuth(user.username, user.password)
    if user.exec:
        told = {"server": cluster.server}
        if cluster.certificate_auth_data:
            told["certificate-authority-data"] = cluster.certificate_auth_data
        if written_cluster.get("tls-server-name"):
            told["tls-server-name"] = str(written_cluster["tls-server-name"])
        program = credentials.Program(
            command=user.exec.command,
            arguments=tuple(user.exec.args or ()),
            variables={one.name: one.value for one in user.exec.env or ()},
            api_version=user.exec.apiVersion,
            hint=answers.line(user.exec.installHint or ""),
            cluster=told,
        )
        return credentials.Bearer(credentials.from_program(program, environ))
    if user.auth_provider:
        raise AccessDeniedError(
            "no credentials for Kubernetes: the kubeconfig's auth-provider is of a kind that Kubernetes gave up",
            code="no-credentials",
            hint="write the kubeconfig anew: aws eks update-kubeconfig",
        )
    return None


def _impersonated(user: Mapping[str, Any]) -> dict[str, str]:
    """The headers of `as` and `as-groups`: to leave them out would be to act with other rights than the file says."""
    who = kubeconfig.text(user.get("as"), "as")
    groups = [kubeconfig.text(one, "as-groups") for one in user.get("as-groups") or ()]
    others = sorted(name for name in user if name.startswith("as-") and name != "as-groups" and user[name])
    if others or len(groups) > 1 or (groups and not who):
        raise BadInputError(
            f"the kubeconfig impersonates by {', '.join(others) or 'several groups, or a group alone'}, which is not supported"
        )
    return {**({"Impersonate-User": who} if who else {}), **({"Impersonate-Group": groups[0]} if groups else {})}
