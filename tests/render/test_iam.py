"""Roles: who gets one, what each may do, and that real starts and publishes get by with exactly that."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from glowplug.cache import control, layout
from glowplug.cache.publish import publish
from glowplug.cache.restore import restore
from glowplug.core.clock import Deadline
from glowplug.core.documents.start import PublishOutcome, RestoreOutcome
from glowplug.core.errors import AccessDeniedError, BadInputError, UsageError
from glowplug.render import iam
from glowplug.render.options import AGENT_ACCOUNT, AGENT_NAMESPACE, Mode, Options
from glowplug.store.contract import Store
from glowplug.store.schemes import open_store
from lab import s3
from tests.cache import making
from tests.parts import requires
from tests.render import deployed

ISSUER = "oidc.eks.eu-central-1.amazonaws.com/id/ABCDEF0123456789"
KEY_ID = "mrk-0123456789abcdef0123456789abcdef"
Statements = list[dict[str, Any]]


def options(**changes: Any) -> Options:
    base = {
        "name": "vllm",
        "namespace": "team-a",
        "service_account": "inference",
        "cluster": "prod",
        "model": "s3://models/qwen/35b",
        "store": "s3://my-bucket/cache",
    }
    return Options(**{**base, **changes})


def roles(asked: Options, **parameters: str) -> dict[str, Statements]:
    """What each role may do, by its part: Serving, Bake, Agent."""
    found = deployed.deploy(iam.text(asked), **parameters)
    return {
        name.removesuffix("Role"): role["Policies"][0]["PolicyDocument"]["Statement"]
        for name, role in found.items()
        if role["Type"] == "AWS::IAM::Role"
    }


def sids(statements: Statements) -> list[str]:
    return [statement["Sid"] for statement in statements]


VARIANTS: list[dict[str, Any]] = [
    {},
    {"oidc_provider": ISSUER},
    {"kms_key": KEY_ID},
    {"model": None, "store": None, "cluster": None},
    {"model": "/models/llama"},
    {"store": "file:///cache"},
    {"model": "s3://models"},
]


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("changes", VARIANTS)
def test_a_template_without_faults(changes: dict[str, Any], mode: Mode) -> None:
    assert deployed.findings(iam.text(options(mode=mode, **changes))) == []


@pytest.mark.slow
def test_in_every_region() -> None:
    assert deployed.findings(iam.text(options(mode=Mode.NODE)), deployed.REGIONS) == []


MODEL, READ, WRITE = ["ListModel", "ReadModel"], ["ListCache", "ReadCache"], ["WriteCache", "RemoveProbes"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.DIRECT, {"Serving": MODEL + READ, "Bake": MODEL + READ + WRITE}),
        (Mode.NODE, {"Serving": MODEL, "Bake": MODEL + READ + WRITE, "Agent": READ + WRITE}),
        (Mode.SHARED, {"Serving": MODEL, "Bake": MODEL + READ + WRITE, "Agent": READ}),
    ],
)
def test_who_may_do_what(mode: Mode, expected: dict[str, list[str]]) -> None:
    assert {part: sids(statements) for part, statements in roles(options(mode=mode)).items()} == expected


@pytest.mark.parametrize("mode", Mode)
def test_a_pod_that_serves_changes_nothing(mode: Mode) -> None:
    for statement in roles(options(mode=mode, kms_key=KEY_ID))["Serving"]:
        actions = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        assert set(actions) <= {"s3:GetObject", "s3:ListBucket", "kms:Decrypt"}


ACCOUNTS = [
    (Mode.DIRECT, "Serving", "team-a", "inference"),
    (Mode.DIRECT, "Bake", "team-a", "vllm-bake"),
    (Mode.NODE, "Agent", AGENT_NAMESPACE, AGENT_ACCOUNT),
]


@pytest.mark.parametrize(("mode", "part", "namespace", "account"), ACCOUNTS)
def test_pod_identity_is_for_one_account_of_one_cluster(mode: Mode, part: str, namespace: str, account: str) -> None:
    found = deployed.deploy(iam.text(options(mode=mode)))
    (trust,) = found[f"{part}Role"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert trust["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert trust["Condition"]["StringEquals"] == {
        "aws:SourceAccount": deployed.PSEUDO["AWS::AccountId"],
        "aws:RequestTag/eks-cluster-name": "prod",
        "aws:RequestTag/kubernetes-namespace": namespace,
        "aws:RequestTag/kubernetes-service-account": account,
    }
    assert found[f"{part}Identity"] == {
        "Type": "AWS::EKS::PodIdentityAssociation",
        "ClusterName": "prod",
        "Namespace": namespace,
        "ServiceAccount": account,
        "RoleArn": f"<{part}Role.Arn>",
    }


@pytest.mark.parametrize(("mode", "part", "namespace", "account"), ACCOUNTS)
def test_irsa_is_for_one_account_of_one_issuer(mode: Mode, part: str, namespace: str, account: str) -> None:
    found = deployed.deploy(iam.text(options(mode=mode, oidc_provider=ISSUER)))
    (trust,) = found[f"{part}Role"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Federated": f"arn:aws:iam::123456789012:oidc-provider/{ISSUER}"}
    assert trust["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert trust["Condition"]["StringEquals"] == {
        f"{ISSUER}:aud": "sts.amazonaws.com",
        f"{ISSUER}:sub": f"system:serviceaccount:{namespace}:{account}",
    }
    assert not [one for one in found.values() if one["Type"] == "AWS::EKS::PodIdentityAssociation"]


def test_a_key_is_used_through_s3_alone_and_writers_encrypt_too() -> None:
    uses_of = {part: statements[-1] for part, statements in roles(options(mode=Mode.NODE, kms_key=KEY_ID)).items()}
    assert {part: one["Action"] for part, one in uses_of.items()} == {
        "Serving": ["kms:Decrypt"],
        "Bake": ["kms:Decrypt", "kms:GenerateDataKey"],
        "Agent": ["kms:Decrypt", "kms:GenerateDataKey"],
    }
    for one in uses_of.values():
        assert one["Resource"] == f"arn:aws:kms:eu-central-1:123456789012:key/{KEY_ID}"
        assert one["Condition"] == {"StringLike": {"kms:ViaService": "s3.*.amazonaws.com*"}}


def test_a_key_elsewhere_is_named_as_it_is() -> None:
    elsewhere = f"arn:aws:kms:us-east-1:210987654321:key/{KEY_ID}"
    assert roles(options(kms_key=elsewhere))["Serving"][-1]["Resource"] == elsewhere


def test_deploying_asks_for_what_was_not_given() -> None:
    bare = options(model=None, store=None, cluster=None)
    assert iam.notes(bare) == ("deploying asks for ClusterName, ModelBucket, StoreBucket",)
    found = roles(bare, ClusterName="c", ModelBucket="mine", ModelPrefix="m/", StoreBucket="mine", StorePrefix="cache/")
    assert deployed.allows(found["Serving"], "s3:GetObject", "arn:aws:s3:::mine/m/config.json")
    assert deployed.allows(found["Serving"], "s3:GetObject", "arn:aws:s3:::mine/cache/v1/team-a/keys/x")
    assert not deployed.allows(found["Serving"], "s3:GetObject", "arn:aws:s3:::mine/other")


@pytest.mark.parametrize(
    ("prefix", "taken"), [("", True), ("m/", True), ("a/b/", True), ("m", False), ("/", False), ("m*/", False)]
)
def test_a_prefix_that_is_asked_for_ends_with_a_slash(prefix: str, taken: bool) -> None:
    pattern = yaml.safe_load(iam.text(options(model=None)))["Parameters"]["ModelPrefix"]["AllowedPattern"]
    assert bool(re.fullmatch(pattern, prefix)) == taken


def test_the_accounts_that_nobody_named_are_told() -> None:
    (note,) = iam.notes(options(service_account=None))
    assert "`default`" in note
    assert "--service-account" in note


def test_what_is_not_in_s3_needs_no_role() -> None:
    assert sids(roles(options(model="/models/llama"))["Serving"]) == READ
    assert set(roles(options(store="gs://bucket/cache", mode=Mode.NODE))) == {"Serving", "Bake"}
    with pytest.raises(UsageError, match="neither"):
        iam.text(options(model="/models/llama", store="gs://bucket/cache"))


@pytest.mark.parametrize(
    "url",
    [
        *("s3://", "s3://b*/x", "s3://bucket/a*", "s3://bucket/a?b", "s3://bucket/${aws:username}"),
        *("s3://bucket//m", "s3://bucket/a//m", "s3://bucket/../m", "s3://bucket/a/.", "s3://u:pw@bucket/m"),
    ],
)
def test_an_address_that_a_policy_would_misread_is_refused(url: str) -> None:
    with pytest.raises(BadInputError):
        iam.text(options(model=url))


@pytest.mark.parametrize("mode", Mode)
def test_other_partitions_are_served_too(mode: Mode) -> None:
    assert "arn:aws" not in iam.text(options(mode=mode, oidc_provider=ISSUER, kms_key=KEY_ID))


# The documentation says the same.


def test_security_md_says_what_is_rendered() -> None:
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    section = text.partition("## IAM")[2].partition("\n## ")[0]
    documents = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", section, re.DOTALL)]
    said = [statement for document in documents for statement in document.get("Statement", [document])]
    rendered = roles(options(namespace="team-a", mode=Mode.NODE))["Agent"]
    assert _alike(said) == _alike(rendered)


def _alike(statements: Statements) -> dict[str, Any]:
    return {one["Sid"]: {key: _sorted(item) for key, item in one.items()} for one in statements}


def _sorted(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _sorted(inner) for key, inner in item.items()}
    return sorted(item) if isinstance(item, list) else [item]


# And a real server, held to what a role may do, lets a start restore and a job publish.


@pytest.fixture(scope="module")
def server() -> Iterator[s3.Server]:
    with s3.serve(["my-bucket"]) as running:
        yield running


class Guest:
    """The store as an identity sees it that may do what `statements` say, and nothing else."""

    def __init__(self, server: s3.Server, statements: Statements) -> None:
        self._server = server
        self._statements = [{**one, "Principal": "*"} for one in statements]

    def open(self, prefix: str = "cache") -> Store:
        self._server.set_policy("my-bucket", self._statements)
        return open_store(f"s3://my-bucket/{prefix}", self._server.with_keys(s3.GUEST).env())


@pytest.fixture
def reader(server: s3.Server) -> Guest:
    return Guest(server, [one for one in roles(options())["Serving"] if one["Sid"] in READ])


@pytest.fixture
def publisher(server: s3.Server) -> Guest:
    return Guest(server, [one for one in roles(options())["Bake"] if one["Sid"] in READ + WRITE])


KEY = making.key(domain="team-a")


def soon() -> Deadline:
    return Deadline.after(60)


@requires("s3")
def test_a_job_publishes_and_a_pod_restores(publisher: Guest, reader: Guest, server: s3.Server, tmp_path: Path) -> None:
    large = making.tree(tmp_path / "tree", files=3, size=0)
    # Beyond what goes up in one request, and nothing that a compressor makes small.
    (large / "vllm" / "e1" / "graph0").write_bytes(random.Random(7).randbytes(9 << 20))  # noqa: S311 - no secret
    published = publish(publisher.open(), KEY, {}, making.parts(large), deadline=soon())
    assert (published.outcome, published.reason) == (PublishOutcome.PUBLISHED, "")
    there = _keys(server)
    assert f"cache/{layout.uses_path('team-a', KEY.digest())}" in there
    assert not [key for key in there if "/.probe/" in key]

    restored = restore(reader.open(), KEY, {}, tmp_path / "other", deadline=soon())
    assert (restored.outcome, restored.reason) == (RestoreOutcome.RESTORED, "")
    assert making.snapshot(tmp_path / "other") == making.snapshot(large)


def _keys(server: s3.Server) -> list[str]:
    _, body = server.request("GET", "/my-bucket", query="list-type=2")
    return re.findall(r"<Key>(.*?)</Key>", body.decode())


@requires("s3")
def test_a_miss_is_a_miss_and_no_refusal(reader: Guest, tmp_path: Path) -> None:
    other = making.key(domain="team-a", torch="2.13.0")
    result = restore(reader.open(), other, {}, tmp_path / "tree", deadline=soon())
    assert result.outcome is RestoreOutcome.NONE
    assert result.reason != "access_denied"


@requires("s3")
def test_the_switch_of_the_whole_store_is_obeyed(reader: Guest, server: s3.Server, tmp_path: Path) -> None:
    everything = open_store("s3://my-bucket/cache", server.env())
    control.change(everything, soon(), restore=False)
    try:
        result = restore(reader.open(), KEY, {}, tmp_path / "tree", deadline=soon())
        assert result.reason == "restore_off"
    finally:
        control.change(everything, soon(), restore=True)


@requires("s3")
@pytest.mark.parametrize(
    "path", ["v1/team-b/keys/x.json", "v1/control.json", "v1/team-a/gc.json", "other", "v1/team-ab/keys/x.json"]
)
def test_a_publisher_writes_in_its_own_domain_only(publisher: Guest, path: str) -> None:
    with pytest.raises(AccessDeniedError):
        publisher.open().put(path, b"x", soon())


@requires("s3")
@pytest.mark.parametrize("kind", ["keys", "blobs", "uses"])
def test_a_publisher_removes_nothing_that_was_published(publisher: Guest, kind: str) -> None:
    store = publisher.open()
    store.put(f"v1/team-a/{kind}/x", b"x", soon())
    with pytest.raises(AccessDeniedError):
        store.delete(f"v1/team-a/{kind}/x", soon())


@requires("s3")
def test_a_reader_writes_nothing(reader: Guest, tmp_path: Path) -> None:
    store = reader.open()
    with pytest.raises(AccessDeniedError):
        store.put("v1/team-a/keys/x", b"x", soon())
    result = publish(store, KEY, {}, making.parts(making.tree(tmp_path, name="e2"), "e2"), deadline=soon())
    assert result.outcome is not PublishOutcome.PUBLISHED


@requires("s3")
def test_a_reader_sees_nothing_of_another_domain(reader: Guest, server: s3.Server) -> None:
    open_store("s3://my-bucket/cache", server.env()).put("v1/team-b/keys/x.json", b"x", soon())
    store = reader.open()
    for read in (lambda: store.get("v1/team-b/keys/x.json", soon()), lambda: list(store.list("v1/team-b", soon()))):
        with pytest.raises(AccessDeniedError):
            read()


@requires("s3")
def test_a_domain_of_odd_characters_is_the_same_prefix_for_both(server: s3.Server, tmp_path: Path) -> None:
    """The role's prefix is the store's own spelling of the domain, not another one's guess."""
    asked = options(domain="a.team_1")
    guest = Guest(server, [one for one in roles(asked)["Bake"] if one["Sid"] in READ + WRITE])
    key = making.key(domain=asked.trust_domain)
    result = publish(guest.open(), key, {}, making.parts(making.tree(tmp_path)), deadline=soon())
    assert result.outcome is PublishOutcome.PUBLISHED
