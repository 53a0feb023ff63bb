"""Claims as a security boundary: whoever owns the inside of an admitted pod publishes for that pod's own workload, and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.agent.claims import MOST_STARTED, Refusal, image_digest, judge
from glowplug.agent.settings import Publisher
from glowplug.core.documents.fingerprint import Layout
from glowplug.manifests.podspec import stand_in
from tests.agent.claiming import (
    CANDIDATES,
    IMAGE,
    MODEL,
    SERVE,
    SETTINGS,
    changed,
    claim,
    container,
    pod,
)

SECRET = {"name": "K", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}


def refusal(part: Any, of: Any = None, settings: Any = SETTINGS, candidates: Any = CANDIDATES) -> str:
    found = judge(part, of or pod(), settings, candidates)
    return found.reason if found else ""


@pytest.mark.parametrize(
    ("command", "entries", "environ"),
    [
        pytest.param(SERVE, [], {}, id="plain"),
        pytest.param(("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL), [], {}, id="module"),
        pytest.param(("tini", "--", *SERVE), [], {}, id="wrapped"),
        pytest.param(("sh", "-c", f"export VLLM_USE_V1=0; exec vllm serve {MODEL} -tp 2"), [], {}, id="script"),
        pytest.param(
            ("vllm", "serve", "$(M)", "--api-key", "$(K)"),
            [{"name": "M", "value": MODEL}, SECRET],
            {"M": MODEL, "K": "sk-secret"},
            id="references",
        ),
        pytest.param(
            ("sh", "-c", 'exec vllm serve "$M" --api-key "$K" --port ${PORT:-8000}'),
            [{"name": "M", "value": MODEL}, SECRET],
            {"M": MODEL, "K": "sk-secret"},
            id="references-of-a-shell",
        ),
        pytest.param(
            SERVE,
            [{"name": "VLLM_USE_AOT_COMPILE", "value": "true"}, {"name": "VLLM_USE_V1", "value": "1"}],
            {"VLLM_USE_AOT_COMPILE": "true", "VLLM_USE_V1": "1"},
            id="variables",
        ),
        pytest.param(SERVE, [], {"TORCH_CUDA_ARCH_LIST": "9.0", "PATH": "/opt/bin"}, id="the-image's-variables"),
        pytest.param(
            SERVE,
            [{"name": "VLLM_MOE_X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "x"}}}],
            {"VLLM_MOE_X": "2"},
            id="a-variable-from-a-ConfigMap",
        ),
        pytest.param(
            SERVE, [{"name": "VLLM_CACHE_ROOT", "value": "/compile-cache/vllm"}], {}, id="as-glowplug-sets-it"
        ),
    ],
)
def test_what_the_launcher_of_a_pod_claims_is_believed(
    command: tuple[str, ...], entries: list[dict[str, Any]], environ: dict[str, str]
) -> None:
    assert judge(claim(command, environ), pod(container(command, *entries)), SETTINGS, CANDIDATES) is None


def test_a_program_of_torch_is_named_by_the_pod() -> None:
    words = ("python3", "/app/train.py", "$(DATA)")
    named = {"name": "GLOWPLUG_ENGINE", "value": "torch"}
    data = {"name": "DATA", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "d"}}}
    part = claim(words, {"DATA": "/data"}, wanted="torch", version="2.11.0")
    assert refusal(part, pod(container(words, named, data, image="mine/train:1"))) == ""
    assert refusal(changed(part, model="/app/serve.py"), pod(container(words, named, data))) == "claim:model"
    assert refusal(part, pod(container(words, data, image="mine/train:1"))) == "claim:command"  # nobody named it


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        pytest.param(claim(domain="team-b"), "claim:domain", id="another-namespace"),
        pytest.param(claim(domain="Team-a"), "claim:domain", id="a-domain-that-is-like-it"),
        pytest.param(claim(model="s3://models/llama/"), "claim:model", id="another-model"),
        pytest.param(claim(engine="torch"), "claim:engine", id="another-engine"),
        pytest.param(claim(layout=Layout(tp=4)), "claim:layout", id="another-layout"),
        pytest.param(claim(layout=Layout(tp=2, ep=2)), "claim:layout", id="experts"),
        pytest.param(claim(args={}), "claim:args", id="an-argument-less"),
        pytest.param(claim(args={"max_model_len": "4000"}), "claim:args", id="another-value"),
        pytest.param(claim(args={"max_model_len": "8000", "dtype": "half"}), "claim:args", id="an-argument-more"),
        pytest.param(claim(gpu="NVIDIA A10G"), "claim:gpu", id="another-GPU"),
        pytest.param(claim(gpu="cpu:generic"), "claim:gpu", id="no-GPU"),
        pytest.param(claim(machine="riscv64"), "claim:machine", id="another-machine"),
        pytest.param(claim(cache_root="/other"), "claim:cache_root", id="another-cache-root"),
        pytest.param(claim(engine_version="0.22.0"), "claim:engine_version", id="another-image's-version"),
        pytest.param(claim(engine_version="../../x"), "claim:engine_version", id="no-version"),
        pytest.param(claim(torch="2.11.0 \n"), "claim:torch", id="no-version-of-torch"),
        pytest.param(claim(env={"PATH": "/evil"}), "claim:env", id="a-variable-of-no-key"),
        pytest.param(claim(env={"VLLM_USE_V1": "1"}), "claim:env", id="a-default-that-no-key-has"),
        pytest.param(claim(env={"VLLM_MOE_X": " 2"}), "claim:env", id="not-as-keys-write-it"),
        pytest.param(claim(env={f"VLLM_MOE_{n}": "2" for n in range(65)}), "claim:env", id="many-variables"),
        pytest.param(claim(env={"VLLM_MOE_X": "2" * 5000}), "claim:env", id="a-long-variable"),
        pytest.param(claim(env={"VLLM_MOE_X\n": "2"}), "claim:env", id="no-variable's-name"),
        pytest.param(replace(claim(), guards={"weather": "fine"}), "claim:guards", id="no-guard"),
    ],
)
def test_a_pod_does_not_publish_for_what_it_is_not(part: Any, reason: str) -> None:
    assert refusal(part) == reason


def test_every_literal_variable_of_a_pod_that_is_in_keys_is_in_its_claim_with_that_value() -> None:
    own = pod(container(SERVE, {"name": "VLLM_USE_AOT_COMPILE", "value": "1"}))
    assert refusal(claim(env={"VLLM_USE_AOT_COMPILE": "1"}), own) == ""
    assert refusal(claim(), own) == "claim:env"
    assert refusal(claim(env={"VLLM_USE_AOT_COMPILE": "0"}), own) == "claim:env"
    switched_off = pod(container(SERVE, {"name": "VLLM_MOE_X", "value": ""}))
    assert refusal(claim(env={"VLLM_MOE_X": "2"}), switched_off) == "claim:env"  # an image does not overrule a pod


def test_what_a_command_sets_or_removes_is_not_claimed_otherwise() -> None:
    cleared = ("env", "-i", "PATH=/bin", "VLLM_USE_AOT_COMPILE=1", *SERVE)
    own = pod(container(cleared))
    assert refusal(claim(cleared), own) == ""
    assert refusal(claim(cleared, env={"VLLM_USE_AOT_COMPILE": "1", "VLLM_MOE_X": "2"}), own) == "claim:env"
    removed = ("env", "-u", "VLLM_MOE_X", *SERVE)
    assert refusal(claim(env={"VLLM_MOE_X": "2"}), pod(container(removed))) == "claim:env"


@pytest.mark.parametrize(
    ("command", "entries"),
    [
        pytest.param(("sh", "-c", "for i in 1; do vllm serve m; done"), [], id="logic"),
        pytest.param(("/start.sh",), [], id="a-script-in-the-image"),
        pytest.param(("vllm", "serve", "$(K)"), [SECRET], id="a-model-from-a-Secret"),
        pytest.param(("vllm", "serve", f"{MODEL}-$(K)"), [SECRET], id="half-a-model"),
        pytest.param(("sh", "-c", 'exec vllm serve "$MODEL"'), [], id="a-model-of-the-image's"),
        pytest.param(("vllm", "serve", MODEL, "$(K)"), [SECRET], id="a-word-that-may-be-an-option"),
        pytest.param(("vllm", "serve", MODEL, "--max-model-len", "$(K)"), [SECRET], id="a-number-from-a-Secret"),
        pytest.param(("vllm", "serve", MODEL, "--quantization", "$(K)"), [SECRET], id="an-argument-from-a-Secret"),
        pytest.param(("vllm", "serve", MODEL, "--config", "/etc/vllm.yaml"), [], id="a-file-of-the-pod's"),
        pytest.param(("sudo", "vllm", "serve", MODEL), [], id="sudo"),
        pytest.param(("true",), [], id="no-engine"),
    ],
)
def test_a_pod_whose_command_cannot_be_followed_publishes_nothing(
    command: tuple[str, ...], entries: list[dict[str, Any]]
) -> None:
    assert refusal(claim(), pod(container(command, *entries))) == "claim:command"


def test_the_word_that_stands_for_what_nobody_sees_is_no_value_to_claim() -> None:
    words = ("vllm", "serve", "$(K)")
    assert refusal(claim(words, {"K": stand_in("K")}), pod(container(words, SECRET))) == "claim:command"
    hidden = {"name": "VLLM_MOE_X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    part = claim(env={"VLLM_MOE_X": stand_in("VLLM_MOE_X")})
    assert refusal(part, pod(container(SERVE, hidden))) == "claim:command"


def test_no_file_of_the_agent_s_own_is_read_for_a_pod(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path in a pod's command is the pod's: what lies there on the agent's side is nobody's business."""
    config = tmp_path / "vllm.yaml"
    config.write_text("max-model-len: 8000\n")
    words = ("vllm", "serve", MODEL, "-tp", "2", "--config", str(config))
    assert refusal(claim(), pod(container(words))) == "claim:command"
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    own = claim(("vllm", "serve", str(model)))
    opened: list[str] = []

    def looked_at(path: str) -> str:
        opened.append(path)
        return ""

    monkeypatch.setattr("glowplug.fingerprint.build.local_config_sha256", looked_at)
    assert refusal(own, pod(container(("vllm", "serve", str(model))))) == ""
    assert not opened


def test_words_of_a_command_never_come_from_a_claim() -> None:
    words = ("sh", "-c", 'exec vllm serve "$VLLM_MOE_MODEL" ${VLLM_MOE_Y:+--dtype half}')
    own = pod(container(words))
    assert refusal(claim(("vllm", "serve", "s3://other/model"), env={"VLLM_MOE_MODEL": "s3://other/model"}), own) == (
        "claim:command"
    )


def test_who_is_not_admitted_publishes_nothing_however_true_it_is() -> None:
    assert refusal(claim(), pod(account="default")) == "publisher"
    assert refusal(claim(), pod(namespace="team-b")) == "publisher"
    assert refusal(claim(), pod(namespace="team-b", account="vllm", domain="team-a")) == "publisher"
    everyone = replace(SETTINGS, publishers=(Publisher("team-a"),))
    assert refusal(claim(), pod(account="default"), everyone) == ""
    assert refusal(claim(), settings=replace(SETTINGS, read_only=True)) == "publisher"
    assert refusal(claim(), settings=replace(SETTINGS, observe=True)) == "publisher"
    assert refusal(claim(), settings=replace(SETTINGS, publishers=())) == "publisher"


def test_a_namespace_that_gives_itself_a_domain_the_agent_does_not_keep_publishes_nothing() -> None:
    assert refusal(claim(domain="team-z"), pod(domain="team-z")) == "no_domain"
    assert refusal(claim(domain=""), pod(domain="")) == "no_domain"


def test_a_node_whose_label_means_two_cards_believes_either_and_no_third() -> None:
    both = ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB")
    assert [refusal(claim(gpu=one), candidates=both) for one in both] == ["", ""]
    assert refusal(claim(), candidates=both) == "claim:gpu"
    assert refusal(claim(), candidates=()) == "claim:gpu"


def test_each_engine_of_a_pod_publishes_for_itself() -> None:
    other = ("vllm", "serve", "s3://models/draft")
    both = pod(
        container(), {**container(other), "name": "draft"}, {"name": "proxy", "image": "envoy", "command": ["envoy"]}
    )
    assert refusal(claim(), both) == refusal(claim(other), both) == ""
    assert refusal(claim(("vllm", "serve", "s3://models/third")), both) == "claim:model"


def test_a_sidecar_without_an_engine_is_none() -> None:
    assert refusal(claim(), pod({"name": "proxy", "image": "envoy", "command": ["envoy"]})) == "claim:command"


def test_the_image_s_tag_says_the_version_where_it_is_the_engine_s_own() -> None:
    for version in ("0.21.0", "0.21.0+g1a2b3c"):
        assert refusal(claim(version=version)) == ""
    for image in ("registry.local/own-build:7", "vllm/vllm-openai@sha256:" + "0" * 64, "lmcache/vllm-openai:v0.3.9"):
        assert refusal(claim(version="0.22.0"), pod(container(image=image))) == ""


def test_without_a_word_of_the_pod_the_cache_root_is_one_that_the_launcher_takes() -> None:
    bare = container()
    bare["env"] = [one for one in bare["env"] if one["name"] != "GLOWPLUG_CACHE_ROOT"]
    for root in ("/compile-cache", "/var/tmp/glowplug-1000/compile-cache"):
        assert refusal(claim(cache_root=root), pod(bare)) == ""
    for root in ("/var/tmp/glowplug-1000/../compile-cache", "/", "/compile-cache/"):
        assert refusal(claim(cache_root=root), pod(bare)) == "claim:cache_root"
    hidden = {"name": "GLOWPLUG_CACHE_ROOT", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    assert refusal(claim(), pod({**bare, "env": [*bare["env"], hidden]})) == "claim:cache_root"


def test_an_engine_that_compiles_nothing_has_nothing_to_publish() -> None:
    words = (*SERVE, "--enforce-eager")
    assert refusal(claim(words), pod(container(words))) == "claim:disabled"


def test_the_image_s_digest_is_the_runtime_s_word() -> None:
    digest = "sha256:" + "ab" * 32
    own = pod()
    status = {"containerStatuses": [{"name": "vllm", "imageID": f"docker.io/vllm/vllm-openai@{digest}"}]}
    running = replace(own, object={**own.object, "status": status})
    assert image_digest(running, "vllm") == digest
    assert image_digest(own, "vllm") == image_digest(running, "other") == ""
    assert refusal(replace(claim(), guards={"image_digest": digest}), running) == ""
    assert refusal(replace(claim(), guards={"image_digest": "sha256:" + "cd" * 32}), running) == "claim:image_digest"
    assert refusal(replace(claim(), guards={"image_digest": digest}), own) == "claim:image_digest"


def test_a_refusal_says_what_differs_on_one_short_line_without_secrets() -> None:
    found = judge(claim(model="x" * 5000 + "\n\x1b[31m"), pod(), SETTINGS, CANDIDATES)
    assert found is not None
    assert found.detail.isprintable()
    assert len(found.detail) < 300
    secret = ("vllm", "serve", "s3://user:hunter22@models/llama")
    hidden = judge(claim(), pod(container(secret)), SETTINGS, CANDIDATES)
    assert hidden is not None
    assert "hunter22" not in hidden.detail
    exported = ("sh", "-c", 'export "my key=hunter22"; exec vllm serve m')
    opaque = judge(claim(), pod(container(exported)), SETTINGS, CANDIDATES)
    assert opaque is not None
    assert "hunter22" not in opaque.detail


def test_a_command_that_takes_minutes_to_read_is_none_that_a_pod_can_have() -> None:
    """The longest script that is followed, of names that nobody sets: as long as reading it, not the square of that."""
    script = "exec vllm serve m " + " ".join(f"$A{n}" for n in range(9_000))
    assert refusal(claim(), pod(container(("sh", "-c", script)))) == "claim:command"
    bomb = [{"name": "A0", "value": "x" * 100}] + [
        {"name": f"A{n}", "value": f"$(A{n - 1})" * 10} for n in range(1, 12)
    ]
    assert refusal(claim(), pod(container(("vllm", "serve", "$(A11)"), *bomb))) == "claim:command"


@pytest.mark.parametrize(
    "long",
    [
        container((*SERVE, "x" * MOST_STARTED)),
        container((*SERVE, *["x"] * (MOST_STARTED // 2))),
        container(SERVE, args=["x" * MOST_STARTED]),
        container(SERVE, {"name": "A", "value": "x" * MOST_STARTED}),
        container(SERVE, *({"name": f"A{number}", "value": ""} for number in range(MOST_STARTED // 4))),
    ],
    ids=["a long word", "many words", "arguments", "a long value", "many variables"],
)
def test_what_is_longer_than_any_engine_s_command_is_not_followed(long: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the container is in which it stands: all of them are read to find out which is the engine."""
    assert refusal(claim(), pod(container())) == ""
    monkeypatch.setattr("glowplug.manifests.podspec.engines", lambda _: pytest.fail("it was read"))
    for containers in ([long], [container(), long]):
        found = judge(claim(), pod(*containers), SETTINGS, CANDIDATES)
        assert found is not None
        assert (found.reason, str(MOST_STARTED) in found.detail) == ("claim:command", True)
        assert len(found.detail) < 200


def test_whatever_a_refusal_quotes_it_is_one_short_line() -> None:
    """Events and log lines are made of it."""
    long = Refusal("claim:gpu", "a\nb" * 10_000)
    assert (len(long.detail), "\n" in long.detail) == (400, False)
    part = changed(claim(), gpu="x" * 60_000)
    found = judge(part, pod(), SETTINGS, tuple(f"GPU {number}" for number in range(500)))
    assert found is not None and len(found.detail) <= 400


def test_a_pod_that_is_not_kept_whole_is_told_so() -> None:
    """`watching.py` keeps a name and a status of it."""
    found = judge(claim(), replace(pod(), object={"metadata": {}, "spec": {}}), SETTINGS, CANDIDATES)
    assert found is not None
    assert (found.reason, "larger than what the agent keeps" in found.detail) == ("claim:command", True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
SHAPES = st.fixed_dictionaries(
    {},
    optional={
        "name": JSON,
        "image": JSON | st.just(IMAGE),
        "command": JSON
        | st.lists(st.sampled_from(["vllm", "serve", "sh", "-c", "$(X)", "$X", "-tp", "glowplug"]) | JSON),
        "args": JSON,
        "env": JSON | st.lists(st.fixed_dictionaries({"name": JSON | st.just("X"), "value": JSON})),
        "envFrom": JSON,
        "volumeMounts": JSON,
    },
)


@given(st.lists(SHAPES | JSON, max_size=3), JSON)
def test_nothing_that_a_pod_may_look_like_makes_it_raise_or_believe(containers: list[Any], status: Any) -> None:
    made = pod()
    made = replace(made, object={**made.object, "spec": {"containers": containers}, "status": status})
    found = judge(claim(), made, SETTINGS, CANDIDATES)
    assert isinstance(found, Refusal)


TEXTS = st.text(max_size=12)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "engine": TEXTS,
        "model": TEXTS,
        "args": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "layout": st.builds(Layout, st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
        "cache_root": TEXTS,
        "gpu": TEXTS,
        "machine": TEXTS,
        "domain": TEXTS,
    },
)


@given(FIELDS)
def test_a_claim_is_believed_only_where_each_field_that_the_api_shows_is_the_pod_s(fields: dict[str, Any]) -> None:
    true = claim()
    part = changed(true, **fields)
    assert (refusal(part) == "") == (part.key == true.key)
