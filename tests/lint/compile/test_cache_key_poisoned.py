"""Values that differ between pods, and the versions that hash them."""

from __future__ import annotations

import pytest

from glowplug.core.tables import table
from tests.lint.checking import found
from tests.lint.compile.manifests import VLLM, field, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

OLD = "vllm/vllm-openai:v0.21.0"

FIRES = {
    "NIXL's host (dynamo#10695)": Fires(
        pod(image=OLD, env={"VLLM_NIXL_SIDE_CHANNEL_HOST": field("status.podIP")}),
        ("status.podIP",),
        "`VLLM_NIXL_SIDE_CHANNEL_HOST` (`status.podIP`) is another one in every pod, and vLLM 0.21.0 has it",
    ),
    "by a reference": Fires(
        pod(image=OLD, env={"POD_IP": field("status.podIP"), "VLLM_NIXL_SIDE_CHANNEL_HOST": "$(POD_IP)"}),
        ("$(POD_IP)",),
    ),
    "the peer's host": Fires(
        pod(env={"VLLM_P2P_SIDE_CHANNEL_HOST": field("status.podIP")}), ("status.podIP",), "0.33.0"
    ),
    "a prefix with the pod's name": Fires(
        pod(env={"VLLM_PROCESS_NAME_PREFIX": field("metadata.name")}), ("metadata.name",)
    ),
    "a StatefulSet's pods have names of their own too": Fires(
        pod(kind="StatefulSet", env={"VLLM_PROCESS_NAME_PREFIX": field("metadata.name")}), ("metadata.name",)
    ),
    "the node's name": Fires(
        pod(env={"VLLM_PROCESS_NAME_PREFIX": field("spec.nodeName")}), ("spec.nodeName",), "on every node"
    ),
    "the roll-out's hash": Fires(
        pod(env={"VLLM_IMAGE_TAG": field("""metadata.labels['pod-template-hash']""")}),
        ("\"metadata.labels['pod-template-hash']\"",),
        "roll-out",
    ),
    "every version hashes it": Fires(
        pod(image="vllm/vllm-openai:latest", env={"VLLM_PROCESS_NAME_PREFIX": field("metadata.uid")}),
        ("metadata.uid",),
        "and vLLM has it",
    ),
    "a key from a Secret": Fires(
        pod(image=OLD, env={"VLLM_API_KEY": "valueFrom: {secretKeyRef: {name: s, key: k}}"}),
        ("{secretKeyRef: {name: s, key: k}}",),
        "cache_key_factors.json",
    ),
    "a key in the manifest": Fires(pod(image=OLD, env={"VLLM_API_KEY": "hunter2"}), ("hunter2",)),
    "a worker's id (dynamo#10119)": Fires(
        pod(env={"POD": field("metadata.name")}, args=["--model=/m", '--additional-config={"id":"$(POD)"}']),
        ('{"id":"$(POD)"}',),
        "additional-config",
    ),
    "a model in a directory of the pod's": Fires(
        pod(env={"POD": field("metadata.uid")}, args=["--model=/data/$(POD)/m"]), ("/data/$(POD)/m",), "model"
    ),
    "a random port": Fires(
        pod(command=["sh", "-c"], args=["exec env VLLM_NIXL_SIDE_CHANNEL_PORT=1$RANDOM vllm serve /m"]),
        ("1$RANDOM",),
        "every start",
    ),
    "an export of the pod's address": Fires(
        pod(
            image=OLD,
            env={"IP": field("status.podIP")},
            command=["sh", "-c"],
            args=["export VLLM_NIXL_SIDE_CHANNEL_HOST=$IP && exec vllm serve /m"],
        ),
        ("$IP",),
        "every pod",
    ),
    "a home of the pod's": Fires(pod(image=OLD, env={"HOME": field("metadata.name")}), ("metadata.name",)),
}

SILENT = {
    "nothing": Silent(pod()),
    "a version that has it no longer": Silent(pod(env={"VLLM_NIXL_SIDE_CHANNEL_HOST": field("status.podIP")})),
    "a version nobody knows": Silent(
        pod(image="vllm/vllm-openai:latest", env={"VLLM_NIXL_SIDE_CHANNEL_HOST": field("status.podIP")})
    ),
    "one value for all": Silent(
        pod(image=OLD, env={"VLLM_NIXL_SIDE_CHANNEL_HOST": "localhost", "VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"})
    ),
    "never hashed": Silent(pod(image=OLD, env={"VLLM_HOST_IP": field("status.podIP"), "VLLM_PORT": "8000"})),
    "not vLLM's": Silent(pod(image=OLD, env={"POD_IP": field("status.podIP"), "POD_NAME": field("metadata.name")})),
    "the namespace is one for all": Silent(pod(env={"VLLM_PROCESS_NAME_PREFIX": field("metadata.namespace")})),
    "a label of the template": Silent(pod(env={"VLLM_PROCESS_NAME_PREFIX": field("""metadata.labels['app']""")})),
    "a key where it is not hashed": Silent(pod(env={"VLLM_API_KEY": "valueFrom: {secretKeyRef: {name: s, key: k}}"})),
    "a configuration nobody knows": Silent(
        pod(env={"VLLM_PROCESS_NAME_PREFIX": "valueFrom: {configMapKeyRef: {name: c, key: k}}"})
    ),
    "a home where it is not hashed": Silent(pod(env={"HOME": field("metadata.name")})),
    "an option that is in no key": Silent(
        pod(env={"POD": field("metadata.name")}, args=["--model=/m", "--served-model-name=$(POD)"])
    ),
    "nothing is compiled": Silent(
        pod(
            image=OLD,
            args=["--model=/m", "--enforce-eager"],
            env={"VLLM_NIXL_SIDE_CHANNEL_HOST": field("status.podIP")},
        )
    ),
    "another engine": Silent(
        pod(
            image="lmsysorg/sglang:v0.5.23",
            command=["python3", "-m", "sglang.launch_server"],
            args=["--model-path=/m"],
            env={"VLLM_PROCESS_NAME_PREFIX": field("metadata.name")},
        )
    ),
    "before that way of hashing": Silent(
        pod(image="vllm/vllm-openai:v0.10.2", env={"VLLM_PROCESS_NAME_PREFIX": field("metadata.name")})
    ),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_every_field_of_the_table_poisons() -> None:
    for row in table("glowplug.lint.rules.compile", "differing"):
        env = {"VLLM_PROCESS_NAME_PREFIX": field(row["field"])}
        written = f'"{row["field"]}"' if "[" in row["field"] else row["field"]
        Fires(pod(env=env), (written,)).check(RULE)


def test_a_secret_is_never_shown() -> None:
    (finding,) = found(RULE, pod(image=OLD, env={"VLLM_API_KEY": "hunter2"}))
    assert "hunter2" not in finding.message + finding.hint
    assert VLLM not in finding.message
