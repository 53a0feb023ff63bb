"""render/kinds.py: the same input gives the same bytes, and the printed text is exactly what was meant."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from glowplug import __version__
from glowplug.catalog.instances import instance
from glowplug.core.errors import NotFoundError, UsageError
from glowplug.engines.command import resolve_references
from glowplug.models.contents import Finding
from glowplug.plan.outcome import Plan
from glowplug.render import kinds
from glowplug.render.options import Compute, Mode, Options
from tests.render.planned import AUTO, GUIDE, SGLANG, TENSORRT, options

GIVEN: dict[str, Any] = {
    "store": "s3://cache/fleet",
    "service_account": "serving",
    "region": "eu-central-1",
    "glowplug_image": "registry.example/glowplug:1",
}
SHOWN = [
    ("deployment", AUTO, Mode.DIRECT),
    ("deployment", AUTO, Mode.NODE),
    ("deployment", AUTO, Mode.SHARED),
    ("deployment", GUIDE, Mode.SHARED),
    ("deployment", SGLANG, Mode.DIRECT),
    ("deployment", TENSORRT, Mode.NODE),
    ("bake", AUTO, Mode.DIRECT),
    ("agent", AUTO, Mode.NODE),
    ("agent", AUTO, Mode.SHARED),
]


@pytest.mark.parametrize(
    ("kind", "plan", "mode"), SHOWN, ids=[f"{kind}-{plan.engine}-{plan.profile}-{mode}" for kind, plan, mode in SHOWN]
)
def test_it_reads_like_this(kind: str, plan: Plan, mode: Mode) -> None:
    expected = _expected(kind, plan, mode)
    assert _text(kind, plan, mode) == expected.read_text(), "python -m tests.render.test_kinds writes them anew"


def _text(kind: str, plan: Plan, mode: Mode) -> str:
    return kinds.render(kind, options(plan, mode=mode, **GIVEN)).text.replace(__version__, "VERSION")


def _expected(kind: str, plan: Plan, mode: Mode) -> Path:
    return Path(__file__).parent / "expected" / f"{kind}-{plan.engine}-{plan.profile}-{mode}.yaml"


@pytest.mark.parametrize("kind", kinds.KINDS)
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("compute", Compute)
def test_the_same_input_gives_the_same_bytes_and_the_text_is_the_value(kind: str, mode: Mode, compute: Compute) -> None:
    if (kind, mode) == ("agent", Mode.DIRECT):
        return
    asked = options(mode=mode, compute=compute, **GIVEN)
    first, second = (kinds.render(kind, asked) for _ in range(2))
    assert first == second
    documents = list(yaml.safe_load_all(first.text))
    assert documents == (first.value["items"] if first.value.get("kind") == "List" else [first.value])
    assert first.text.endswith("\n")


@pytest.mark.parametrize(
    ("mode", "found"),
    [
        (Mode.DIRECT, ["EC2NodeClass", "NodePool", "ServiceAccount", "ServiceAccount", "Job", "Deployment"]),
        (Mode.NODE, ["EC2NodeClass", "NodePool", "Namespace", "ServiceAccount", "DaemonSet", "Job", "Deployment"]),
        (
            Mode.SHARED,
            ["EC2NodeClass", "NodePool", "Namespace", "DaemonSet", "Deployment", "ServiceAccount", "Job", "Deployment"],
        ),
    ],
)
def test_all_is_in_the_order_in_which_it_is_applied(mode: Mode, found: list[str]) -> None:
    shown = [one["kind"] for one in kinds.render("all", options(mode=mode, **GIVEN)).value["items"]]
    rest = iter(shown)
    assert all(kind in rest for kind in found), shown
    assert ("Job" in shown, "DaemonSet" in shown) == ("Job" in found, "DaemonSet" in found)


def test_no_object_is_there_twice() -> None:
    items = kinds.render("all", options(mode=Mode.NODE, **GIVEN)).value["items"]
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in items]
    assert len(names) == len(set(names))


def test_the_parts_of_all_are_the_kinds_by_themselves() -> None:
    asked = options(mode=Mode.NODE, **GIVEN)
    items = kinds.render("all", asked).value["items"]
    for kind in ("nodepool", "agent", "bake", "deployment"):
        value = kinds.render(kind, asked).value
        for one in value["items"] if value.get("kind") == "List" else [value]:
            assert one in items


@pytest.mark.parametrize("kind", ["deployment", "bake", "all", "nodepool"])
def test_what_does_not_fit_is_not_rendered(kind: str) -> None:
    too_large = replace(
        AUTO,
        placement=replace(AUTO.placement, fits=False),
        findings=(Finding("does-not-fit", "error", "too large", "take a larger one"),),
    )
    with pytest.raises(NotFoundError, match="too large") as caught:
        kinds.render(kind, options(too_large))
    assert (caught.value.code, caught.value.hint, caught.value.exit_status) == ("does-not-fit", "take a larger one", 1)


@pytest.mark.parametrize("kind", ["deployment", "bake", "all"])
def test_without_a_model_there_is_nothing_to_serve(kind: str) -> None:
    with pytest.raises(UsageError, match="needs a model"):
        kinds.render(kind, Options(name="a"))


# ---- names that would mean something else


def _options(**given: Any) -> Options:
    return options(**given)


NAMES = ["", "A", "-a", "a-", "a_b", "a b", "a.b", "1a", "a" * 53, "a\nb", "é", "a/b", "$(x)"]
RULES = {
    "name": NAMES,
    "namespace": ["", "A", "-a", "a.b", "a" * 64, "a b", "a\n"],
    "service_account": ["", "A", ".a", "a..b", "a" * 254, "a b", "a:b"],
    "nodepool": ["", "-a", "a b", "a" * 64, "a/b"],
    "domain": ["", "A", "a/b", "..", ".", "a" * 64, "a\n", "../x"],
    "image": ["", " ", "a b", "A/B:c d", "a:", "a@sha256:1", "-a", "a:b:c"],
    "glowplug_image": [" ", "a b"],
    "store": [
        "",
        "bucket",
        "s3:/b",
        "http://b",
        "s3://",
        "s3://b c",
        "s3://b?x",
        "s3://b\n",
        "s3:///x",
        "s3://b//x",
        "file://x",
        "s3://$(x)",
    ],
    "region": ["", "frankfurt", "eu-central", "eu central 1"],
    "role_arn": ["", "role", "arn:aws:iam::1:role/x"],
    "model": ["", " ", "a\nb", "a\0b", "--host=evil", "\ud800"],
}


@pytest.mark.parametrize(("field", "value"), [(name, value) for name, values in RULES.items() for value in values])
def test_a_name_that_kubernetes_would_refuse_is_refused_here(field: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        _options(**{field: value})
    option = "MODEL" if field == "model" else f"--{field.replace('_', '-')}"
    assert option in caught.value.message


@pytest.mark.parametrize("model", ["s3://", "s3:///x", "gs:b", "az://"])
@pytest.mark.parametrize("kind", ["deployment", "bake", "all"])
def test_an_address_names_a_bucket(kind: str, model: str) -> None:
    with pytest.raises(UsageError, match="names no bucket"):
        kinds.render(kind, options(model=model))


@pytest.mark.parametrize("entry", ["", "A", "a/", "/a", "a/b/c", "a b"])
def test_who_may_publish_is_a_namespace_or_an_account(entry: str) -> None:
    with pytest.raises(UsageError, match="--publish-from"):
        Options(name="a", publish_from=(entry,))


@settings(max_examples=60)
@given(
    st.sampled_from(["name", "namespace", "service_account", "nodepool", "domain", "image", "store", "model"]),
    st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=20)
    | st.text(alphabet="yesno1e-:#{}[]'\"$()/. ", min_size=1, max_size=10)
    | st.sampled_from(["null", "yes", "1e3", "0x1f", "true", "on", "s3://b/1e3", "a:1", "2024-01-01"]),
)
def test_a_value_is_refused_or_printed_as_it_is(field: str, value: str) -> None:
    try:
        asked = _options(**{field: value})
    except UsageError:
        return
    rendered = kinds.render("deployment", asked)
    (document,) = yaml.safe_load_all(rendered.text)
    assert document == rendered.value
    shown = _shown(document, field)
    assert (resolve_references([shown], {})[0] if field in ("model", "store") else shown) == value


def _shown(document: dict[str, Any], field: str) -> str:
    spec = document["spec"]["template"]["spec"]
    container = spec["containers"][0]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    found = {
        "name": lambda: document["metadata"]["name"],
        "namespace": lambda: document["metadata"]["namespace"],
        "service_account": lambda: spec["serviceAccountName"],
        "nodepool": lambda: spec["nodeSelector"]["karpenter.sh/nodepool"],
        "domain": lambda: variables["GLOWPLUG_DOMAIN"],
        "store": lambda: variables["GLOWPLUG_STORE"],
        "image": lambda: container["image"],
        "model": lambda: container["args"][0].removeprefix("--model="),
    }[field]()
    assert isinstance(found, str)
    return found


# ---- what people are told


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        ("deployment", {"mode": Mode.DIRECT}, ["these pods do not start", "--glowplug-image", "--mode shared"]),
        ("bake", {"mode": Mode.DIRECT}, ["glowplug run --exit-when-ready"]),
        ("agent", {"mode": Mode.NODE}, ["the agent's pods do not start", "--glowplug-image"]),
        ("agent", {"mode": Mode.SHARED}, ["the agent's pods do not start", "--glowplug-image"]),
        ("all", {"mode": Mode.SHARED}, ["the agent's pods do not start"]),
        ("all", {"mode": Mode.NODE}, ["the agent's pods do not start"]),
        ("all", {"mode": Mode.DIRECT}, ["these pods do not start"]),
    ],
)
def test_what_does_not_work_as_rendered_is_the_last_warning_and_the_first_comment(
    kind: str, given: dict[str, Any], words: list[str]
) -> None:
    made = kinds.render(kind, options(**given))
    assert [word for word in words if word not in made.warnings[-1]] == []
    comment = list(itertools.takewhile(lambda line: line.startswith("# "), made.text.splitlines()))
    said = " ".join(line.removeprefix("# ") for line in comment)
    places = [said.index(f"warning: {one}") for one in made.warnings]
    assert places == sorted(places, reverse=True)
    assert said.startswith(("glowplug ", "warning: "))


@pytest.mark.parametrize("kind", ["agent", "all"])
def test_an_agent_that_keeps_no_domain_of_those_who_publish_warns(kind: str) -> None:
    asked = {"mode": Mode.NODE, "glowplug_image": "mine:1", "store": "s3://b/c", "namespace": "inferense"}
    made = kinds.render(kind, options(**asked, publish_from=("inference/vllm", "inferense/vllm", "inference")))
    (warning,) = made.warnings
    assert "--publish-from names inference, and this agent keeps the domain inferense alone" in warning
    assert "glowplug.dev/domain=inferense" in warning
    assert kinds.render(kind, options(**asked, publish_from=("inferense/vllm",))).warnings == ()
    named = kinds.render(kind, options(**asked, domain="team", publish_from=("inference/vllm",)))
    assert named.warnings == (), "a domain that is named is reached by a label, which a note says"
    assert "label namespace inference glowplug.dev/domain=team" in " ".join(named.notes)


WORKS: list[tuple[str, dict[str, Any]]] = [
    ("deployment", {"mode": Mode.DIRECT, "glowplug_image": "mine:1"}),
    ("bake", {"mode": Mode.DIRECT, "glowplug_image": "mine:1", "store": "s3://b/c"}),
    ("all", {"mode": Mode.DIRECT, "glowplug_image": "mine:1", "store": "s3://b/c"}),
    ("deployment", {"mode": Mode.SHARED}),
    ("deployment", {"mode": Mode.SHARED, "profile": "guide", "plan": GUIDE}),
    ("nodepool", {"mode": Mode.DIRECT}),
    ("nodepool", {"mode": Mode.NODE}),
    ("nodepool", {"mode": Mode.SHARED}),
    ("deployment", {"mode": Mode.NODE}),
    ("agent", {"mode": Mode.NODE, "glowplug_image": "mine:1"}),
    ("agent", {"mode": Mode.SHARED, "glowplug_image": "mine:1"}),
    ("all", {"mode": Mode.NODE, "glowplug_image": "mine:1", "store": "s3://b/c"}),
    ("all", {"mode": Mode.SHARED, "glowplug_image": "mine:1", "store": "s3://b/c"}),
    ("network", {}),
    ("iam", {}),
]


@pytest.mark.parametrize(("kind", "given"), WORKS)
def test_what_works_today_warns_of_nothing(kind: str, given: dict[str, Any]) -> None:
    made = kinds.render(kind, options(**given))
    assert made.warnings == ()
    assert "warning" not in made.text


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        ("deployment", {"mode": Mode.NODE}, ["render agent", "as if glowplug were not there"]),
        ("nodepool", {"mode": Mode.SHARED}, ["only the agent removes glowplug.dev/prewarming"]),
        (
            "nodepool",
            {"mode": Mode.SHARED, "compute": Compute.NODEGROUP},
            ["only the agent removes startup-taint.cluster-autoscaler.kubernetes.io/"],
        ),
        ("agent", {"mode": Mode.SHARED}, ["is not published", "render bake"]),
    ],
)
def test_what_one_part_is_without_the_others_is_said(kind: str, given: dict[str, Any], words: list[str]) -> None:
    notes = " ".join(kinds.render(kind, options(**given)).notes)
    assert [word for word in words if word not in notes] == []


@pytest.mark.parametrize(
    ("kind", "given", "labelled"),
    [
        ("deployment", {}, ["models"]),
        ("all", {"publish_from": ("models/a", "more/b")}, ["models", "more"]),
        ("agent", {}, ["models"]),
        ("agent", {"publish_from": ("one/a", "two", "team-a")}, ["one", "two"]),
        ("deployment", {"namespace": "team-a"}, []),
        ("deployment", {"domain": None}, []),
        ("deployment", {"mode": Mode.DIRECT}, []),
        ("agent", {"mode": Mode.SHARED}, []),
    ],
)
def test_which_namespaces_need_a_label_to_be_of_the_domain_is_said(
    kind: str, given: dict[str, Any], labelled: list[str]
) -> None:
    """The agent and the policy go by it; nothing that is rendered sets it."""
    asked = {"mode": Mode.NODE, "namespace": "models", "domain": "team-a", **given}
    notes = " ".join(kinds.render(kind, options(**asked)).notes)
    assert re.findall(r"`kubectl label namespace (\S+) glowplug\.dev/domain=team-a`", notes) == labelled


def test_a_store_that_is_a_directory_is_not_mounted_and_that_is_said() -> None:
    told = kinds.render("deployment", options(store="file:///mnt/cache")).notes
    assert any("file:///mnt/cache" in note for note in told)


def test_the_guides_own_deployment_needs_nothing_of_glowplug() -> None:
    own = {"mode": Mode.SHARED, "service_account": "serving", "nodepool": "gpus"}
    assert kinds.render("deployment", options(GUIDE, **own)).notes == ()


@pytest.mark.parametrize(
    ("given", "word"),
    [({"nodepool": "gpus"}, "--mode shared"), ({"mode": Mode.SHARED}, "any GPU node"), ({}, "any GPU node")],
)
def test_what_differs_from_the_guide_or_is_left_to_the_reader_is_said(given: dict[str, Any], word: str) -> None:
    assert any(word in note for note in kinds.render("deployment", options(GUIDE, **given)).notes)


@pytest.mark.parametrize(
    ("machine", "words"), [("g6.xlarge", ["12 CPUs", "80Gi"]), ("g6.12xlarge", []), ("g5.4xlarge", ["80Gi"])]
)
def test_the_guides_requests_are_compared_with_the_machine(machine: str, words: list[str]) -> None:
    one = options(GUIDE, mode=Mode.SHARED, instance=instance(machine))
    said = " ".join(kinds.render("deployment", one).warnings)
    assert ("stay Pending" in said, [word for word in words if word not in said]) == (bool(words), [])


if __name__ == "__main__":
    for row in SHOWN:
        _expected(*row).write_text(_text(*row))
