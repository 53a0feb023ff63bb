"""What was asked to be rendered, as one checked value: nothing that gets past here can break a manifest or change its meaning.

Kubernetes refuses a bad name only when it is applied, and a shell or kubelet replaces `$(…)` without asking; so every name is held
to Kubernetes' own rule here, with a message that says which option it was.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import UsageError

if TYPE_CHECKING:
    from glowplug.catalog.gpus import Gpu
    from glowplug.catalog.instances import Instance
    from glowplug.plan.outcome import Plan

CACHE_ROOT: Final = "/compile-cache"
AGENT_NAMESPACE: Final = "glowplug-system"
AGENT_ACCOUNT: Final = "glowplug-agent"
STARTUP_TAINT: Final = "glowplug.dev/prewarming"
# Cluster Autoscaler, which scales node groups, takes a taint for one that goes away only by this prefix.
AUTOSCALER_STARTUP_TAINT: Final = "startup-taint.cluster-autoscaler.kubernetes.io/glowplug-prewarming"

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-._a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d{1,2}")
_ROLE: Final = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+")
_IMAGE: Final = re.compile(
    r"[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_AMI: Final = re.compile("al2023|bottlerocket")
_CLUSTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_ROLE_NAME: Final = re.compile(r"[A-Za-z0-9_+=,.@-]{1,64}")
_VPC: Final = re.compile(r"vpc-[0-9a-f]{8,17}")
_ROUTE_TABLE: Final = re.compile(r"rtb-[0-9a-f]{8,17}")
_KMS_KEY: Final = re.compile(
    r"(arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/)?(mrk-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)
_OIDC: Final = re.compile(r"oidc\.eks\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/id/[A-Z0-9]+")
# As store/schemes.py takes them, which alone knows what a bucket may really be called.
_STORE: Final = re.compile(
    r"(?!.*/\.{1,2}(?:/|\Z))(?:(?:s3|gs|az)://[A-Za-z0-9][\w.-]*(?:/[\w.=+@-]+)*/?|file:///[^\s\x00-\x1f\x7f?#]+)",
    re.ASCII,
)
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_PREFIX_LENGTH: Final = 52


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
        _demand(self.name, _SERVICE, "--name", "a lower-case letter, then letters, digits and `-`, at most 63 in all")
        if len(self.name) > _PREFIX_LENGTH:
            raise UsageError(
                f"--name: {self.name!r} is longer than {_PREFIX_LENGTH} characters, to which suffixes are added"
            )
        label = "lower-case letters, digits and `-`, at most 63, beginning and ending with a letter or digit"
        _demand(self.namespace, _LABEL, "--namespace", label)
        _demand(
            self.service_account,
            _SUBDOMAIN,
            "--service-account",
            label.replace("`-`", "`-` and `.`").replace("63", "253"),
        )
        _demand(self.nodepool, _LABEL_VALUE, "--nodepool", "letters, digits, `-`, `_` and `.`, at most 63")
        _demand(self.domain, _DOMAIN, "--domain", "lower-case letters, digits, `-`, `_` and `.`, at most 63")
        _demand(self.image, _IMAGE, "--image", "registry/repository:tag or …@sha256:digest, without spaces")
        _demand(self.glowplug_image or None, _IMAGE, "--glowplug-image", "registry/repository:tag or …@sha256:digest")
        _demand(self.region, _REGION, "--region", "a region of AWS such as eu-central-1")
        _demand(self.role_arn, _ROLE, "--role-arn", "arn:aws:iam::ACCOUNT:role/NAME")
        _demand(
            self.cluster, _CLUSTER, "--cluster", "the name of an EKS cluster: letters, digits, `-` and `_`, at most 100"
        )
        _demand(self.node_role, _ROLE_NAME, "--node-role", "the name of an IAM role, without path or ARN")
        _demand(self.vpc, _VPC, "--vpc", "the id of a VPC such as vpc-0123456789abcdef0")
        for table in self.route_tables:
            _demand(table, _ROUTE_TABLE, "--route-table", "the id of a route table such as rtb-0123456789abcdef0")
        _demand(self.kms_key, _KMS_KEY, "--kms-key", "the ARN or id of a KMS key (IAM policies cannot name an alias)")
        _demand(
            self.oidc_provider, _OIDC, "--oidc-provider", "the cluster's issuer, oidc.eks.REGION.amazonaws.com/id/ID"
        )
        if self.store is not None and not _STORE.fullmatch(self.store):
            raise UsageError(f"--store: not the address of a store: {self.store!r}", code="bad-store-url")
        for entry in self.publish_from:
            namespace, slash, account = entry.partition("/")
            if not _LABEL.fullmatch(namespace) or (slash and not _SUBDOMAIN.fullmatch(account)):
                raise UsageError(f"--publish-from: not NAMESPACE or NAMESPACE/SERVICEACCOUNT: {entry!r}")
        if self.model is not None and (not self.model.strip() or _UNPRINTABLE.search(self.model)):
            raise UsageError(f"MODEL: empty, or with characters that no path has: {self.model!r}")
        if self.model is not None and self.model.startswith("-"):
            raise UsageError(f"MODEL: an engine would take {self.model!r} for an option")
        if self.replicas < 0:
            raise UsageError(f"--replicas: {self.replicas} is less than none")

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


def _demand(value: str | None, pattern: re.Pattern[str], option: str, rule: str) -> None:
    if value is not None and not pattern.fullmatch(value):
        raise UsageError(f"{option}: {value!r} is not {rule}")
