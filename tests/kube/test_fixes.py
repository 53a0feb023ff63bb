"""What `lint --fix` leaves is taken by a real API server, strictly and without a warning: what people write, rules' examples.

An example need not be a whole manifest, so that the server may refuse it for its own reasons; what counts is that mending makes
nothing worse.
"""

from __future__ import annotations

import re

import pytest
import yaml

from glowplug.lint import documentation, fixing, registry, run
from glowplug.manifests.source import Source
from lab import kube
from tests.parts import requires
from tests.render.asked import printed
from tests.render.injected import DEPLOYMENT, changed

pytestmark = requires("kube")

BAD = """\
# Everything that can be wrong with one Deployment, more or less.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm
  namespace: inference
spec:
  selector:
    matchLabels: {app: vllm}
  template:
    metadata:
      labels: {app: vllm}
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0   # pinned
          command: ["vllm", "serve"]
          args: ["S3://models/llama", "--load-format=runai_streamer", "--enforce-eager",
                 "--model-loader-extra-config={\\"concurrency\\": \\"16\\", \\"distributed\\": true}"]
          env:
            - name: VLLM_DISABLE_COMPILE_CACHE
              value: "1"
            - {name: RUNAI_STREAMER_S3_LOW_SPEED_LIMIT, value: "1048576"}
            - name: RUNAI_STREAMER_CHUNK_BYTESIZE
              value: 4GiB
            # misspelt
            - name: AWS_ENDPOINT_URL_s3
              value: https://s3.example.com/
          resources:
            limits:
              nvidia.com/gpu: "1"
          livenessProbe:
            httpGet: {path: /health, port: 8000}
            periodSeconds: 5
          volumeMounts:
            - name: compile-cache
              mountPath: /compile-cache
      volumes:
        - name: compile-cache
          hostPath:
            path: /tmp/cache
            type: DirectoryOrCreate
"""
WRITTEN = {
    "everything": BAD,
    "guide": printed("deployment", mode="shared", profile="guide"),
    "guide-node": printed("deployment", mode="node", profile="guide"),
    "script": changed(
        BAD,
        {"command": ["sh", "-c", "exec vllm serve S3://m/l --enforce-eager --load-format runai_streamer"]},
        tolerations=[],
    ),
    "plain": DEPLOYMENT,
    "pools": printed("all", mode="shared", profile="guide"),
}
EXAMPLES = {name: documentation.read(rule).example for name, rule in registry.RULES.items()}
_BETWEEN = re.compile(r"^---$", re.MULTILINE)


@pytest.fixture(scope="module")
def admin(kube_server: kube.Server) -> kube.Client:
    """The administrator, in a cluster that has every namespace that these manifests name."""
    for text in (*WRITTEN.values(), *(one.text for one in EXAMPLES.values())):
        for document in yaml.safe_load_all(text):
            namespace = (document or {}).get("metadata", {}).get("namespace")
            if namespace:
                kube_server.make_namespace(namespace)
    return kube_server.admin


def verdicts(admin: kube.Client, text: str) -> list[list[str]]:
    """What the server says to each document: nothing where it takes it, its warnings, or why it refuses."""
    found: list[list[str]] = []
    for document in _BETWEEN.split(text):
        if yaml.safe_load(document) is None:
            continue
        try:
            answers = admin.apply_text(document, dry_run=True)
        except kube.RefusedError as error:
            found.append([str(error)])
        else:
            found.append([warning for answer in answers for warning in answer.warnings])
    return found


def mended(text: str, compute: str = "", *, unsafe: bool = True) -> fixing.Fixed:
    """After `lint --fix --unsafe-fixes` with all rules."""
    return fixing.fix([Source("it.yaml", text)], run.Options(compute=compute), unsafe=unsafe)


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_mended_is_accepted(admin: kube.Client, name: str, unsafe: bool) -> None:
    before = WRITTEN[name]
    assert all(said == [] for said in verdicts(admin, before))
    done = mended(before, unsafe=unsafe)
    assert all(said == [] for said in verdicts(admin, done.sources[0].text))


def test_there_was_something_to_mend() -> None:
    assert len({rule for rule, _ in mended(BAD).applied}) >= 5


@pytest.mark.parametrize("name", EXAMPLES)
def test_mending_a_rules_example_makes_nothing_worse(admin: kube.Client, name: str) -> None:
    example = EXAMPLES[name]
    before = verdicts(admin, example.text)
    after = verdicts(admin, mended(example.text, example.compute).sources[0].text)
    assert len(after) == len(before)
    for was, became in zip(before, after, strict=True):
        assert set(became) <= set(was)


def test_most_examples_are_manifests_that_a_server_takes(admin: kube.Client) -> None:
    """Else the test above would say little."""
    taken = [name for name, one in EXAMPLES.items() if all(said == [] for said in verdicts(admin, one.text))]
    assert len(taken) * 2 > len(EXAMPLES)
