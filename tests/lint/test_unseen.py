"""What was not seen is told: commands that cannot be followed, KServe's own server, values that no API server takes."""

from __future__ import annotations

import pytest

from tests.lint.reading import manifests, pod

VLLM = "image: vllm/vllm-openai:v0.21.0\n"


def inference(model: str) -> str:
    return (
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: llama}\n"
        f"spec: {{predictor: {{model: {model}}}}}\n"
    )


def runtime(image: str, kind: str = "ServingRuntime") -> str:
    return (
        f"apiVersion: serving.kserve.io/v1alpha1\nkind: {kind}\nmetadata: {{name: r}}\n"
        f"spec: {{containers: [{{name: kserve-container, image: {image}}}]}}\n"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (pod(VLLM + "command: [/bin/bash, /scripts/start.sh]"), "the command is not seen (a shell script in a file)"),
        (pod(VLLM + "command: [/scripts/start.sh]"), "the command is not seen (a shell script in a file)"),
        (pod(VLLM + "command: [bash, -c, 'if true; then vllm serve m; fi']"), "not seen (the shell's 'if')"),
        (pod("image: lmsysorg/sglang:v0.5.9"), "not seen (the image decides what it starts)"),
        (inference("{modelFormat: {name: huggingface}}"), "InferenceService llama: KServe's runtime for Hugging Face"),
        (inference("{modelFormat: {name: x}, runtime: kserve-huggingfaceserver}"), "is not known"),
        (runtime("kserve/huggingfaceserver:v0.15.0-gpu"), "ServingRuntime r: KServe's runtime"),
        (runtime("docker.io/kserve/huggingfaceserver", "ClusterServingRuntime"), "ClusterServingRuntime r"),
        (pod(VLLM + "env: [{name: RUNAI_STREAMER_CONCURRENCY, value: 16}]"), "RUNAI_STREAMER_CONCURRENCY is no string"),
        (pod(VLLM + "env: [{name: VLLM_USE_V1, value: true}]"), "the value of VLLM_USE_V1 is no string"),
    ],
)
def test_one_note(text: str, told: str) -> None:
    (note,) = manifests(text).notes
    assert note.startswith("1.yaml, line ")
    assert told in note


@pytest.mark.parametrize(
    "text",
    [
        pod(VLLM + "command: [vllm, serve, m]\nenv: [{name: A, value: '16'}, {name: B}, {name: C, value: null}]"),
        pod("image: nginx:1.27\nenv: [{name: A, value: 16}]"),
        pod("image: vllm/vllm-openai:v0.21.0\ncommand: [sleep, infinity]"),
        inference("{modelFormat: {name: sklearn}}"),
        inference("{modelFormat: {name: vLLM}, args: [--enforce-eager]}"),
        inference("7"),
        runtime("kserve/sklearnserver:v0.15.0"),
    ],
)
def test_nothing_is_told(text: str) -> None:
    assert manifests(text).notes == ()


def test_a_note_never_quotes_a_script() -> None:
    script = 'export "$A hf_secret"; exec vllm serve ${TOKEN:-$(cat hf_secret)}'
    text = pod(VLLM + f"command: [sh, -c, {script!r}]\nenv: [{{name: A, value: hf_secret}}]")
    (note,) = manifests(text).notes
    assert "secret" not in note
