"""service-account-missing: a model in S3, and nobody who may read it."""

from __future__ import annotations

import pytest

from tests.lint.checking import at, found
from tests.lint.kubernetes.written import deployment, line_of

RULE = "service-account-missing"


def variable(name: str, value: str) -> str:
    return f"env:\n- {{name: {name}, value: {value}}}\n"


@pytest.mark.parametrize(
    "text",
    [
        deployment(),
        deployment("--model=s3://models/llama"),
        deployment(pod="serviceAccountName:\n"),
        deployment(pod='serviceAccountName: ""\n'),
        deployment(container=variable("RUNAI_STREAMER_S3_UNSIGNED", '"0"')),
        deployment(container=variable("AWS_ENDPOINT_URL", "https://s3.eu-central-1.amazonaws.com")),
        deployment(
            "--model-path=s3://models/llama",
            image="lmsysorg/sglang:v0.5.9",
            command="[python3, -m, sglang.launch_server]",
        ),
    ],
)
def test_it_fires(text: str) -> None:
    (finding,) = found(RULE, text)
    assert at(finding).strip('"').endswith("s3://models/llama")
    assert finding.line == line_of(text, "s3://models/llama")


SECRET = "env:\n- name: AWS_ACCESS_KEY_ID\n  valueFrom: {secretKeyRef: {name: s3, key: id}}\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(deployment(pod="serviceAccountName: reader\n"), id="named"),
        pytest.param(deployment(pod="serviceAccount: reader\n"), id="by the old name"),
        pytest.param(deployment(pod="serviceAccountName: default\n"), id="default, said so"),
        pytest.param(deployment("meta-llama/Llama-3.1-8B"), id="not in S3"),
        pytest.param(deployment("/models/llama"), id="on a volume"),
        pytest.param(deployment("gs://models/llama"), id="another cloud's"),
        pytest.param(deployment("$(MODEL)"), id="not known"),
        pytest.param(deployment(container=SECRET), id="keys of a Secret"),
        pytest.param(deployment(container="envFrom:\n- secretRef: {name: s3}\n"), id="a Secret that may hold keys"),
        pytest.param(
            deployment(container=variable("RUNAI_STREAMER_S3_UNSIGNED", '"1"')),
            id="a public bucket: model-streamer#145",
        ),
        pytest.param(deployment(container=variable("AWS_ENDPOINT_URL", "http://minio:9000")), id="another server"),
        pytest.param(deployment(pod="hostNetwork: true\n"), id="the node's network"),
    ],
)
def test_it_is_silent(text: str) -> None:
    assert found(RULE, text) == []


@pytest.mark.parametrize(
    ("namespace", "annotations", "fires"),
    [
        ("prod", "{eks.amazonaws.com/role-arn: 'arn:aws:iam::123456789012:role/reader'}", False),
        ("prod", "{}", True),
        ("other", "{eks.amazonaws.com/role-arn: 'arn:aws:iam::123456789012:role/reader'}", True),
    ],
)
def test_the_default_account_may_have_a_role(namespace: str, annotations: str, fires: bool) -> None:
    metadata = f"{{name: default, namespace: {namespace}, annotations: {annotations}}}"
    account = f"apiVersion: v1\nkind: ServiceAccount\nmetadata: {metadata}\n"
    assert bool(found(RULE, deployment(namespace="prod"), account)) == fires
