"""Roles for the service accounts of pods, each with the least it needs: CloudFormation with EKS Pod Identity, or IRSA.

Who may write a domain's prefix may run code in every pod that restores from it, so pods that serve never write: writing is the bake
job's and, in node mode, the agent's. In node and shared mode pods need no store rights at all, since the agent brings them what
they restore. Trust is bound to one service account of one cluster, in the role itself too, not only in the association: whoever may
make associations cannot hand the role to another pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import UsageError
from glowplug.manifests.writing import noted
from glowplug.render import cloudformation, permissions
from glowplug.render.cloudformation import arn, literal, parameter, ref, sub
from glowplug.render.options import AGENT_ACCOUNT, AGENT_NAMESPACE, Mode

if TYPE_CHECKING:
    from glowplug.render.cloudformation import Parameters, Template
    from glowplug.render.options import Options
    from glowplug.render.permissions import Place, Statement

_POLICY_VERSION: Final = "2012-10-17"
_DESCRIPTION: Final = (
    "Roles for pods that stream a model from S3 and restore compiled kernels, and for those who publish them."
)


@dataclass(frozen=True)
class Account:
    """A service account, its part in the template's names (`Serving`), what its role is for, and what it may do."""

    part: str
    namespace: str
    name: str
    purpose: str
    statements: tuple[Statement, ...]


def template(options: Options) -> Template:
    """A role for each service account that the mode has, and its association.

    Raises UsageError where neither model nor store is in S3, BadInputError for an s3:// URL that is none.
    """
    found = accounts(options)
    resources: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    for account in found:
        resources[f"{account.part}Role"] = noted(_role(options, account), account.purpose)
        if options.oidc_provider is None:
            resources[f"{account.part}Identity"] = _association(account)
        outputs[f"{account.part}RoleArn"] = _output(options, account)
    return cloudformation.template(_DESCRIPTION, _parameters(options), resources, outputs)


def text(options: Options) -> str:
    """What `glowplug render iam` prints."""
    return cloudformation.text(template(options))


def notes(options: Options) -> tuple[str, ...]:
    """What a person still has to do, in sentences for stderr."""
    asked = cloudformation.asks(template(options))
    if options.account is not None:
        return asked
    whole = f"without --service-account the role is for `default` of namespace {options.namespace}: every pod that names none"
    return (*asked, whole)


def accounts(options: Options) -> tuple[Account, ...]:
    """Who gets a role, and which rights. Raises as `template`."""
    model, store = _places(options)
    domain = options.trust_domain
    weights = permissions.read_model(model) if model else []
    reading = permissions.read_cache(store, domain) if store else []
    writing = permissions.write_cache(store, domain) if store else []
    restoring = reading if options.mode is Mode.DIRECT else []
    found = [
        _account(
            options,
            ("Serving", options.namespace, options.account or "default"),
            "Pods that serve: read the model"
            + (", restore from the cache." if restoring else "; the agent brings the cache."),
            [*weights, *restoring],
        )
    ]
    found.append(
        _account(
            options,
            ("Bake", options.namespace, options.bake_account),
            "The job that compiles once and publishes.",
            [*weights, *reading, *writing],
        )
    )
    if options.mode is not Mode.DIRECT:
        publishes = options.mode is Mode.NODE
        found.append(
            _account(
                options,
                ("Agent", AGENT_NAMESPACE, AGENT_ACCOUNT),
                "glowplug's agent: fetches for its node"
                + (", publishes what first pods compiled." if publishes else ", and publishes nothing."),
                [*reading, *(writing if publishes else [])],
            )
        )
    return tuple(account for account in found if account.statements)


def _places(options: Options) -> tuple[Place | None, Place | None]:
    model = permissions.place(options.model, "Model")
    store = permissions.place(options.store, "Store")
    if model is None and store is None:
        raise UsageError("neither the model nor the store is in S3", hint="IAM is for s3:// addresses")
    return model, store


def _account(options: Options, who: tuple[str, str, str], purpose: str, statements: list[Statement]) -> Account:
    if options.kms_key is not None and statements:
        writes = any(one["Sid"] == "WriteCache" for one in statements)
        # A large object is put together from encrypted parts, so who writes decrypts too.
        statements = [
            *statements,
            *permissions.use_key(options.kms_key, ["Decrypt", *(["GenerateDataKey"] if writes else [])]),
        ]
    return Account(*who, purpose, tuple(statements))


def _parameters(options: Options) -> Parameters:
    found: Parameters = {}
    if options.oidc_provider is None:
        found["ClusterName"] = parameter("String", "Name of the EKS cluster.", options.cluster)
    for place in _places(options):
        found |= place.parameters if place else {}
    return found


def _role(options: Options, account: Account) -> dict[str, Any]:
    trust = _pod_identity(account) if options.oidc_provider is None else _irsa(options.oidc_provider, account)
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "Description": f"{account.purpose} {account.namespace}/{account.name}",
            "AssumeRolePolicyDocument": _document([trust]),
            "Policies": [{"PolicyName": "glowplug", "PolicyDocument": _document(list(account.statements))}],
        },
    }


def _pod_identity(account: Account) -> Statement:
    return {
        "Effect": "Allow",
        "Principal": {"Service": "pods.eks.amazonaws.com"},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Condition": {
            "StringEquals": {
                "aws:SourceAccount": ref("AWS::AccountId"),
                "aws:RequestTag/eks-cluster-name": ref("ClusterName"),
                "aws:RequestTag/kubernetes-namespace": account.namespace,
                "aws:RequestTag/kubernetes-service-account": account.name,
            }
        },
    }


def _irsa(provider: str, account: Account) -> Statement:
    return {
        "Effect": "Allow",
        "Principal": {
            "Federated": sub(f"arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:oidc-provider/{literal(provider)}")
        },
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {
            "StringEquals": {
                f"{provider}:aud": "sts.amazonaws.com",
                f"{provider}:sub": f"system:serviceaccount:{account.namespace}:{account.name}",
            }
        },
    }


def _association(account: Account) -> dict[str, Any]:
    return {
        "Type": "AWS::EKS::PodIdentityAssociation",
        "Properties": {
            "ClusterName": ref("ClusterName"),
            "Namespace": account.namespace,
            "ServiceAccount": account.name,
            "RoleArn": arn(f"{account.part}Role"),
        },
    }


def _output(options: Options, account: Account) -> dict[str, Any]:
    where = f"service account {account.namespace}/{account.name}"
    how = f"Role of the {where}."
    if options.oidc_provider is not None:
        how = f"Annotate the {where} with eks.amazonaws.com/role-arn and this."
    return {"Description": how, "Value": arn(f"{account.part}Role")}


def _document(statements: list[Statement]) -> dict[str, Any]:
    return {"Version": _POLICY_VERSION, "Statement": statements}
