"""What was asked to be rendered, as one checked value: nothing that gets past here can break a manifest or change its meaning.

Kubernetes refuses a bad name only when it is applied, and a shell or kubelet replaces `$(…)` without asking; so every name is held
to Kubernetes' own rule here, with a message that says which option it was.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.core import redact
from glowplug.core.errors import UsageError
from glowplug.manifests.marks import STARTUP_TAINT
from glowplug.manifests.references import is_reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from glowplug.catalog.gpus import Gpu
    from glowplug.catalog.instances import Instance
    from glowplug.plan.outcome import Plan

CACHE_ROOT: Final = "/compile-cache"
AGENT_NAMESPACE: Final = "glowplug-system"
AGENT_ACCOUNT: Final = "glowplug-agent"
GPU_NODE_LABEL: Final = "glowplug.dev/gpu-node"
"""On the nodes of rendered node groups: EKS puts no label on them that says GPU."""
# Cluster Autoscaler, which scales node groups, takes a taint for one that goes away only by this prefix.
AUTOSCALER_STARTUP_TAINT: Final = "startup-taint.cluster-autoscaler.kubernetes.io/glowplug-prewarming"

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-._a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?")
REGION: Final = re.compile(r"(?=.{1,32}\Z)[a-z]{2,4}(-[a-z]+)+-\d{1,2}", re.ASCII)
_ROLE: Final = re.compile(r"arn:aws[a-z-]{0,16}:iam::\d{12}:role/[\w+=,.@/-]{1,576}", re.ASCII)
_CLUSTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_ROLE_NAME: Final = re.compile(r"[A-Za-z0-9_+=,.@-]{1,64}")
_VPC: Final = re.compile(r"vpc-[0-9a-f]{8,17}")
_ROUTE_TABLE: Final = re.compile(r"rtb-[0-9a-f]{8,17}")
_KMS_KEY: Final = re.compile(
    r"(arn:aws[a-z-]{0,16}:kms:[a-z0-9-]{1,32}:\d{12}:key/)?(mrk-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    re.ASCII,
)
_OIDC: Final = re.compile(r"oidc\.eks\.[a-z0-9-]{1,32}\.amazonaws\.com(\.cn)?/id/[A-Z0-9]{1,64}")
# As store/schemes.py takes them, which alone knows what a bucket may really be called.
_STORE: Final = re.compile(
    r"(?=.{1,2048}\Z)(?!.*/\.{1,2}(?:/|\Z))(?:(?:s3|gs|az)://[A-Za-z0-9][\w.-]*(?:/[\w.=+@-]+)*/?|file:///[^\s\x00-\x1f\x7f?#]+)",
    re.ASCII,
)
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_PREFIX_LENGTH: Final = 52
_MOST_REPLICAS: Final = 2**31 - 1  # what Kubernetes has room for
_SHOWN: Final = 120
_LOOKED_AT: Final = 4096


class Compute(enum.StrEnum):
    """What makes the nodes: self-managed Karpenter, EKS Auto Mode, or a managed node group."""

    KARPENTER = "karpenter"
    AUTO_MODE = "auto-mode"
    NODEGROUP = "nodegroup"


class Mode(enum.StrEnum):
    """How compiled artifacts reach a pod: by its own init container, by the node's agent, or by one shared directory."""

    DIRECT = "direct"
    NODE = "node"
    SHARED = "shared"


@dataclass(frozen=True)
class Options:
    """One rendering. Names that were not given are None where leaving them out means something.

    `model` is what the engine is told (`s3://bucket/prefix`, a directory in the image or volume), None for kinds without one.
    `endpoint` is the address of an S3-compatible server as pods reach it, `unreachable` one that the caller used and pods cannot
    reach, `unsigned` that the model is read without credentials.
    `plan` is None for kinds without a model. `domain` is None where the namespace is the trust domain. `store` is the URL of
    the cache store, None where none was named. `region` is AWS's, None where unknown. `publish_from` are
    `NAMESPACE[/SERVICEACCOUNT]` that the agent publishes for. `role_arn` annotates service accounts for IRSA.

    Nodes are of type `instance`, else of any type with `gpu_count` of `gpu`, else of the plan's.

    Of the account and the cluster, each None where it was not given: `cluster` is the EKS cluster's name, `node_role` the name of
    the role that nodes have, `vpc` and `route_tables` where the S3 endpoint goes, `kms_key` the key that encrypts model and
    store (ARN or id), `oidc_provider` the cluster's issuer without `https://` (roles then trust it, else EKS Pod Identity).

    Raises UsageError for whatever Kubernetes, AWS or the engine's command line would take for something else.
    """

    name: str
    namespace: str = "default"
    model: str | None = None
    plan: Plan | None = None
    instance: Instance | None = None
    gpu: Gpu | None = None
    gpu_count: int = 1
    engine: str = "vllm"
    profile: str = "auto"
    compute: Compute = Compute.KARPENTER
    mode: Mode = Mode.DIRECT
    nodepool: str | None = None
    service_account: str | None = None
    image: str | None = None
    glowplug_image: str = ""
    store: str | None = None
    domain: str | None = None
    replicas: int = 1
    region: str | None = None
    endpoint: str | None = None
    unreachable: str | None = None
    unsigned: bool = False
    role_arn: str | None = None
    publish_from: tuple[str, ...] = field(default=())
    ami: str = "al2023"
    cluster: str | None = None
    node_role: str | None = None
    vpc: str | None = None
    route_tables: tuple[str, ...] = field(default=())
    kms_key: str | None = None
    oidc_provider: str | None = None

    def __post_init__(self) -> None:
        """Every field against its rule."""
        for option, value in self._named().items():
            for one in value if isinstance(value, tuple) else (value,):
                _RULES[option].demand(option, one)
        if len(self.name) > _PREFIX_LENGTH:
            raise UsageError(
                f"--name: {quoted(self.name)} is longer than {_PREFIX_LENGTH} characters, to which suffixes are added",
                hint="choose a shorter name",
            )
        if self.store is not None and not _STORE.fullmatch(self.store):
            raise UsageError(f"--store: not the address of a store: {quoted(self.store)}", code="bad-store-url")
        for entry in self.publish_from:
            namespace, slash, account = entry.partition("/")
            if not _LABEL.fullmatch(namespace) or (slash and not _SUBDOMAIN.fullmatch(account)):
                raise UsageError(
                    f"--publish-from: not NAMESPACE or NAMESPACE/SERVICEACCOUNT: {quoted(entry)}",
                    hint="for example --publish-from inference/vllm",
                )
        if self.model is not None and (not self.model.strip() or _UNPRINTABLE.search(self.model)):
            raise UsageError(
                f"MODEL: empty, or with characters that no path has: {quoted(self.model)}",
                hint="write s3://bucket/prefix",
            )
        if self.model is not None and self.model.startswith("-"):
            raise UsageError(
                f"MODEL: an engine would take {quoted(self.model)} for an option",
                hint="write s3://bucket/prefix, or a whole path",
            )
        if not 0 <= self.replicas <= _MOST_REPLICAS:
            raise UsageError(
                f"--replicas: not a number from 0 to {_MOST_REPLICAS}", hint="0 renders a Deployment without pods"
            )

    def _named(self) -> dict[str, str | tuple[str, ...] | None]:
        return {
            "--name": self.name,
            "--namespace": self.namespace,
            "--service-account": self.service_account,
            "--nodepool": self.nodepool,
            "--domain": self.domain,
            "--image": self.image,
            "--glowplug-image": self.glowplug_image or None,
            "--region": self.region,
            "--role-arn": self.role_arn,
            "--cluster": self.cluster,
            "--node-role": self.node_role,
            "--vpc": self.vpc,
            "--route-table": self.route_tables,
            "--kms-key": self.kms_key,
            "--oidc-provider": self.oidc_provider,
        }

    @property
    def trust_domain(self) -> str:
        """The domain of what this workload restores and publishes: the namespace, where none was named."""
        return self.domain or self.namespace

    @property
    def startup_taint(self) -> str:
        """The key of the taint that keeps inference pods off a node until the agent has warmed it (shared mode)."""
        return AUTOSCALER_STARTUP_TAINT if self.compute is Compute.NODEGROUP else STARTUP_TAINT

    @property
    def account(self) -> str | None:
        """The service account of the pods, None for the namespace's default one."""
        return self.service_account

    @property
    def bake_account(self) -> str:
        """The service account of the job that bakes: one of its own, since it may write to the store and pods may only read."""
        return f"{self.name}-bake"


def quoted(value: str) -> str:
    """A value for a line of ours: not too long, without passwords."""
    looked_at = value[:_LOOKED_AT]
    # A digest is no host, so that what stands before it may hold another @.
    digest = looked_at.rfind("@sha256:")
    end = looked_at.rfind("@", 0, digest) if digest >= 0 else looked_at.rfind("@")
    hidden = f"…{looked_at[end:]}" if end > 0 and ":" in looked_at[:end] else redact.value("", looked_at)
    return repr(hidden if len(hidden) <= _SHOWN else hidden[:_SHOWN] + "…")


@dataclass(frozen=True)
class _Rule:
    """What a name has to be, as a test and in words, and where a right one is found."""

    fits: Callable[[str], object]
    words: str
    hint: str

    def demand(self, option: str, value: str | None) -> None:
        if value is not None and not self.fits(value):
            raise UsageError(f"{option}: {quoted(value)} is not {self.words}", hint=self.hint)


_NAMES: Final = "lower-case letters, digits and `-`, at most 63, beginning and ending with a letter or digit"
_IMAGES: Final = (
    "the name of an image: registry/repository:tag or …@sha256:digest, the repository in lower case, without spaces"
)
_DESCRIBE: Final = "`aws eks describe-cluster --name CLUSTER --query {query}` prints it"
_RULES: Final = {
    "--name": _Rule(
        _SERVICE.fullmatch,
        "a lower-case letter, then letters, digits and `-`, at most 63 in all",
        "for example --name llama-70b",
    ),
    "--namespace": _Rule(_LABEL.fullmatch, _NAMES, "`kubectl get namespaces` lists those that there are"),
    "--service-account": _Rule(
        _SUBDOMAIN.fullmatch,
        _NAMES.replace("`-`", "`-` and `.`").replace("63", "253"),
        "the account's name alone, as `kubectl get serviceaccounts -n NAMESPACE` lists it",
    ),
    "--nodepool": _Rule(
        _LABEL_VALUE.fullmatch,
        "letters, digits, `-`, `_` and `.`, at most 63",
        "`kubectl get nodepools`, or `aws eks list-nodegroups --cluster-name CLUSTER`, lists those that there are",
    ),
    "--domain": _Rule(
        _DOMAIN.fullmatch,
        "lower-case letters, digits, `-`, `_` and `.`, at most 63",
        "leave it out, and it is the namespace",
    ),
    "--image": _Rule(is_reference, _IMAGES, "leave it out for the engine's own image"),
    "--glowplug-image": _Rule(is_reference, _IMAGES, "for example registry.example/glowplug:1"),
    "--region": _Rule(
        REGION.fullmatch, "a region of AWS such as eu-central-1", "write its code: eu-central-1, us-east-1"
    ),
    "--role-arn": _Rule(
        _ROLE.fullmatch,
        "arn:aws:iam::ACCOUNT:role/NAME, the account in 12 digits",
        "`aws iam get-role --role-name NAME --query Role.Arn` prints it",
    ),
    "--cluster": _Rule(
        _CLUSTER.fullmatch,
        "the name of an EKS cluster: letters, digits, `-` and `_`, at most 100",
        "`aws eks list-clusters` lists them; it is the name, not the ARN",
    ),
    "--node-role": _Rule(
        _ROLE_NAME.fullmatch, "the name of an IAM role, without path or ARN", "what stands behind the last / of its ARN"
    ),
    "--vpc": _Rule(
        _VPC.fullmatch,
        "the id of a VPC such as vpc-0123456789abcdef0",
        _DESCRIBE.format(query="cluster.resourcesVpcConfig.vpcId"),
    ),
    "--route-table": _Rule(
        _ROUTE_TABLE.fullmatch,
        "the id of a route table such as rtb-0123456789abcdef0",
        "`glowplug check network --cluster NAME` lists those of the nodes' subnets; it is the id of a table, not of a subnet",
    ),
    "--kms-key": _Rule(
        _KMS_KEY.fullmatch,
        "the ARN or id of a KMS key (IAM policies cannot name an alias)",
        "`aws kms describe-key --key-id alias/NAME --query KeyMetadata.Arn` prints it",
    ),
    "--oidc-provider": _Rule(
        _OIDC.fullmatch,
        "the cluster's issuer, oidc.eks.REGION.amazonaws.com/id/ID",
        _DESCRIBE.format(query="cluster.identity.oidc.issuer") + "; without https://",
    ),
}
