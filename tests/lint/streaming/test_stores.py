"""The way to the object store: endpoint, addressing, region, an address that nobody can read, and no streamer at all."""

from __future__ import annotations

import pytest

from tests.lint import checking
from tests.lint.streaming.pods import (
    CHUNK,
    FORMAT,
    MODEL,
    SGLANG,
    TENSORRT,
    Case,
    check,
    deployment,
    extra,
    quoted,
    streamed,
    table,
)

PATH = "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING"
SGLANG_SERVER = ("python3", "-m", "sglang.launch_server")
TRT = ("trtllm-serve",)


def at(url: str, **env: str) -> str:
    return streamed(env={**CHUNK, "AWS_ENDPOINT_URL": url, **env})


@table(
    Case("https", at("https://s3.example/"), "'https://s3.example/'", "ends with a slash"),
    Case("several", at("http://minio:9000//"), "'http://minio:9000//'"),
    Case("AWS's own", at("https://s3.us-west-2.amazonaws.com/"), "'https://s3.us-west-2.amazonaws.com/'"),
    Case("without a scheme", at("minio:9000/"), "'minio:9000/'"),
    Case(
        "SGLang",
        deployment("--model-path=s3://m/x", image=SGLANG, command=SGLANG_SERVER, env={"AWS_ENDPOINT_URL": "http://a/"}),
        "'http://a/'",
    ),
    Case("none", at("https://s3.example")),
    Case("no endpoint", streamed()),
    Case("nothing is streamed", deployment("--model=/models/x", env={"AWS_ENDPOINT_URL": "https://s3.example/"})),
    Case("from Google", deployment("--model=gs://b/m", env={"AWS_ENDPOINT_URL": "https://s3.example/"})),
    Case(
        "from a secret",
        streamed(entries="- name: AWS_ENDPOINT_URL\n  valueFrom: {secretKeyRef: {name: a, key: b}}"),
    ),
)
def test_slashes(case: Case) -> None:
    check("endpoint-trailing-slash", case)


@pytest.mark.parametrize(
    ("before", "after"), [("https://s3.example/", "https://s3.example"), ("http://minio:9000//", "http://minio:9000")]
)
def test_a_slash_goes(before: str, after: str) -> None:
    text = at(before)
    assert checking.fixed("endpoint-trailing-slash", text) == text.replace(quoted(before), quoted(after))


def test_a_slash_that_is_all_there_is_stays() -> None:
    text = at("https://")
    assert checking.fixed("endpoint-trailing-slash", text) == text


def test_a_password_in_an_address_is_not_told() -> None:
    (finding,) = checking.found("endpoint-trailing-slash", at("https://me:hunter2hunter2@s3.example/"))
    assert "hunter2" not in finding.message


@table(
    Case("a Service", at("http://minio.storage.svc:9000"), "'http://minio.storage.svc:9000'", "in front of the host"),
    Case("an address", at("http://10.0.0.7:8333"), "'http://10.0.0.7:8333'"),
    Case("an address of IPv6", at("http://[fd00::7]:8333"), "'http://[fd00::7]:8333'"),
    Case("one word", at("http://seaweedfs:8333"), "'http://seaweedfs:8333'"),
    Case("a public host", at("https://s3.provider.example"), "'https://s3.provider.example'"),
    Case("turned on where it cannot work", at("http://minio:9000", **{PATH: "1"}), "'1'"),
    Case("turned off", at("http://minio:9000", **{PATH: "0"})),
    Case("turned on by somebody who knows the host", at("https://s3.provider.example", **{PATH: "1"})),
    Case("AWS", at("https://bucket.vpce-1a2b.s3.eu-west-1.vpce.amazonaws.com")),
    Case("in China", at("https://s3.cn-north-1.amazonaws.com.cn")),
    Case("a provider that wants it so", at("https://oss-cn-hangzhou.aliyuncs.com")),
    Case("no endpoint", streamed()),
    Case("a value that is none", at("http://minio:9000", **{PATH: "false"})),
    Case(
        "from a secret",
        streamed(
            env={"AWS_ENDPOINT_URL": "http://minio:9000"},
            entries=f"- name: {PATH}\n  valueFrom: {{secretKeyRef: {{name: a, key: b}}}}",
        ),
    ),
)
def test_addressing(case: Case) -> None:
    check("endpoint-virtual-hosted", case)


def test_path_style_is_set_where_the_other_cannot_work() -> None:
    assert f"- name: {PATH}\n" in checking.fixed("endpoint-virtual-hosted", at("http://minio.storage.svc:9000"))
    text = at("https://s3.provider.example")
    assert checking.fixed("endpoint-virtual-hosted", text) == text
    assert PATH in checking.fixed("endpoint-virtual-hosted", text, unsafe=True)


KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "x"}
OFF = {"AWS_EC2_METADATA_DISABLED": "true"}
SECRET_KEYS = "- name: AWS_ACCESS_KEY_ID\n  valueFrom: {secretKeyRef: {name: aws, key: id}}"
BUCKET = "s3://models/llama-70b"
ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com/vllm/vllm-openai:v0.33.0"
NODES = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: gpu}}
spec:
  template:
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}
      requirements: []
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: gpu}}
spec: {{metadataOptions: {{httpPutResponseHopLimit: {hops}}}}}
"""


@table(
    Case("keys, and no metadata", streamed(env={**KEYS, **OFF}), BUCKET, "us-east-1"),
    Case("keys of a secret", streamed(env=OFF, entries=SECRET_KEYS), BUCKET),
    Case("Auto Mode's pods reach no metadata", streamed(env=KEYS), BUCKET, compute="auto-mode"),
    Case("nodes with one hop", streamed(env=KEYS), BUCKET, others=(NODES.format(hops=1),)),
    Case("empty, so that no webhook sets it", streamed(env={**KEYS, **OFF, "AWS_REGION": ""}), "''"),
    Case(
        "an empty name of a host",
        streamed(env={"AWS_DEFAULT_REGION": "", "AWS_REGION": "us-west-2"}),
        "''",
        "s3..amazonaws.com",
    ),
    Case("set", streamed(env={**KEYS, **OFF, "AWS_REGION": "us-west-2"})),
    Case("set by the older name", streamed(env={**KEYS, **OFF, "AWS_DEFAULT_REGION": "us-west-2"})),
    Case("a public bucket is read under some role", streamed(env={**OFF, "RUNAI_STREAMER_S3_UNSIGNED": "1"})),
    Case("IRSA or Pod Identity may bring it", streamed(env=OFF, spec="serviceAccountName: reader")),
    Case("so they may for the default account", streamed(env=OFF)),
    Case("Auto Mode without visible credentials", streamed(), compute="auto-mode"),
    Case("the instance may tell it", streamed(env=KEYS)),
    Case("nodes with two hops", streamed(env=KEYS), others=(NODES.format(hops=2),)),
    Case("the host's network reaches it", streamed(env=KEYS, spec="hostNetwork: true"), compute="auto-mode"),
    Case("a profile", streamed(env={**KEYS, **OFF, "AWS_PROFILE": "models"})),
    Case(
        "a mounted configuration",
        streamed(env={**KEYS, **OFF}, container="volumeMounts:\n- {name: a, mountPath: /root/.aws}"),
    ),
    Case(
        "from a ConfigMap that is not here",
        streamed(env={**KEYS, **OFF}, container="envFrom:\n- configMapRef: {name: aws}"),
    ),
    Case("another server", streamed(env={**KEYS, **OFF, "AWS_ENDPOINT_URL": "http://minio:9000"})),
    Case("the default is right", streamed(env={**KEYS, **OFF}, image=ECR)),
    Case(
        "the default is right, by zone",
        streamed(env={**KEYS, **OFF}, spec="nodeSelector: {topology.kubernetes.io/zone: us-east-1a}"),
    ),
    Case("nothing is streamed", deployment("--model=/models/x", env={**KEYS, **OFF})),
    Case("from Google", deployment("--model=gs://b/m", env={**KEYS, **OFF})),
)
def test_regions(case: Case) -> None:
    check("region-missing", case)


@table(
    Case("TensorRT-LLM", deployment("s3://m/x", image=TENSORRT, command=TRT), "'s3://m/x'", "no Run:ai loader"),
    Case(
        "an old SGLang",
        deployment("--model-path=s3://m/x", image="lmsysorg/sglang:v0.5.9", command=SGLANG_SERVER),
        "s3://m/x",
        "sglang 0.5.9",
    ),
    Case(
        "an old SGLang, told to stream",
        deployment("--model-path=/m", FORMAT, image="lmsysorg/sglang:v0.5.9", command=SGLANG_SERVER),
        "runai_streamer",
    ),
    Case("another format", deployment(MODEL, "--load-format=safetensors"), "safetensors", "ValueError"),
    Case("an empty model", deployment(MODEL, "--load-format=dummy"), "dummy"),
    Case(
        "a copy",
        deployment(
            "--model=/models/llama",
            spec="""\
volumes:
- {name: model, emptyDir: {}}
initContainers:
- name: copy
  image: amazon/aws-cli
  command: [sh, -c, 'aws s3 sync s3://models/llama /models/llama']
  volumeMounts: [{name: model, mountPath: /models}]
""",
            container="volumeMounts:\n- {name: model, mountPath: /models}",
        ),
        "'aws s3 sync s3://models/llama /models/llama'",
        "copies the model",
    ),
    Case("streamed", streamed()),
    Case("an address alone", deployment(MODEL)),
    Case("each rank's own file", deployment(MODEL, "--load-format=runai_streamer_sharded")),
    Case("a new SGLang", deployment("--model-path=s3://m/x", image=SGLANG, command=SGLANG_SERVER)),
    Case(
        "an SGLang that nobody names",
        deployment("--model-path=s3://m/x", image="lmsysorg/sglang:latest", command=SGLANG_SERVER),
    ),
    Case("TensorRT-LLM from a disk", deployment("/models/x", image=TENSORRT, command=TRT)),
    Case("from Hugging Face", deployment("--model=meta-llama/Llama-3.1-8B")),
    Case("tensorizer has addresses of its own", deployment(MODEL, "--load-format=tensorizer")),
    Case(
        "SGLang has other loaders",
        deployment("--model-path=s3://m/x", "--load-format=remote", image=SGLANG, command=SGLANG_SERVER),
    ),
    Case(
        "a copy that stays on the node",
        deployment(
            "--model=/models/llama",
            spec="""\
volumes:
- {name: model, hostPath: {path: /mnt/k8s-disks/0/models}}
initContainers:
- name: copy
  image: amazon/aws-cli
  command: [sh, -c, 'aws s3 sync s3://models/llama /models/llama']
  volumeMounts: [{name: model, mountPath: /models}]
""",
            container="volumeMounts:\n- {name: model, mountPath: /models}",
        ),
    ),
)
def test_no_streamer(case: Case) -> None:
    check("streamer-missing", case)


def test_another_format_becomes_the_streamer() -> None:
    text = deployment(MODEL, "--load-format=safetensors")
    assert checking.fixed("streamer-missing", text) == text.replace("safetensors", "runai_streamer")


def test_another_formats_keys_are_not_handed_to_the_streamer() -> None:
    text = deployment(MODEL, "--load-format=safetensors", extra(num_threads=8))
    assert checking.fixed("streamer-missing", text) == text


@table(
    Case("S3", streamed().replace("s3://", "S3://"), "S3", "does not know S3://"),
    Case("by position", deployment("S3://m/x", command=("vllm", "serve")), "S3"),
    Case("in two words", deployment("--model", "GS://m/x"), "GS"),
    Case("SGLang", deployment("--model-path=S3://m/x", image=SGLANG, command=SGLANG_SERVER), "S3"),
    Case("the tokenizer", streamed("--tokenizer=S3://models/tokenizer"), "S3"),
    Case("mixed", deployment("--model=aZ://m/x"), "aZ"),
    Case("lower", streamed()),
    Case("upper in the key", deployment("--model=s3://models/LLAMA")),
    Case("a path", deployment("--model=/S3/x")),
    Case("something else", deployment("--model=HF://x/y")),
    Case("no streamer", deployment("S3://m/x", image=TENSORRT, command=TRT)),
)
def test_schemes(case: Case) -> None:
    check("scheme-case", case)


@pytest.mark.parametrize(
    "text",
    [
        deployment("--model=S3://m/x"),
        deployment("--model", "S3://m/X"),
        deployment("S3://m/x", command=("vllm", "serve")),
        deployment(command=("sh", "-c", "exec vllm serve S3://m/x --port 80")),
    ],
)
def test_a_scheme_is_written_small(text: str) -> None:
    assert checking.fixed("scheme-case", text) == text.replace("S3://", "s3://")
