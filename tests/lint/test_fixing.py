"""`--fix`: nothing but what was meant changes, twice is once, and what cannot be written is told."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.lint.fixing import Fixed, fix
from glowplug.lint.rule import Fix, Problem, Rule
from glowplug.lint.run import Options
from glowplug.lint.view import Manifests, Workload
from glowplug.manifests import values
from glowplug.manifests.edit import Put, Remove, Replace
from glowplug.manifests.source import Source
from tests.lint import samples
from tests.lint.samples import DEPLOYMENT


def _fix(*texts: str, rules: tuple[Rule, ...] = samples.RULES, unsafe: bool = False) -> Fixed:
    """Fixed, with what holds for every fix checked."""
    sources = [Source(f"{number}.yaml", text) for number, text in enumerate(texts, 1)]
    done = fix(sources, Options(rules), unsafe=unsafe)
    assert [one.name for one in done.sources] == [one.name for one in sources]
    again = fix(done.sources, Options(rules), unsafe=unsafe)
    assert [one.text for one in again.sources] == [one.text for one in done.sources]
    assert not again.applied
    return done


def _text(*texts: str, rules: tuple[Rule, ...] = samples.RULES, unsafe: bool = False) -> str:
    return _fix(*texts, rules=rules, unsafe=unsafe).sources[0].text


def test_only_the_safe_fixes_are_made() -> None:
    safe, unsafe = _text(DEPLOYMENT), _text(DEPLOYMENT, unsafe=True)
    assert "OLD_" not in safe
    assert "--enforce-eager" in safe
    assert "--enforce-eager" not in unsafe
    assert "v0.22.0" in safe


def test_two_rules_that_want_the_same_get_it_once() -> None:
    done = _fix(DEPLOYMENT, rules=(samples.REGION, samples.REGION_TOO))
    assert done.sources[0].text.count("AWS_REGION") == 1
    assert done.applied == {("region", "set AWS_REGION"): 1}
    bare = re.sub(r"          env:\n(?:            .*\n)+", "", DEPLOYMENT)
    assert _text(bare, rules=(samples.REGION, samples.REGION_TOO)).count("AWS_REGION") == 1


def test_two_fixes_by_number_in_one_list_do_not_hit_a_neighbour() -> None:
    text = _text(DEPLOYMENT, rules=(samples.OLD,))
    [document] = values.load(Source("t", text))
    env = document.get("spec", "template", "spec", "containers", 0, "env")
    assert env is not None
    assert env.data == [{"name": "VLLM_API_KEY", "value": "sk-very-secret"}]


def test_many_fixes_in_one_list_are_all_made() -> None:
    many = "".join(f"            - {{name: OLD_{number}, value: x}}\n" for number in range(40))
    text = DEPLOYMENT.replace("            - {name: OLD_TWO", f"{many}            - {{name: OLD_TWO")
    done = _fix(text, rules=(samples.OLD,))
    assert "OLD_" not in done.sources[0].text
    assert done.findings == ()


def test_a_fix_that_makes_another_finding_is_followed_up() -> None:
    def chain(workload: Workload) -> Iterator[Problem]:
        image = workload.container.image
        step = re.search(r"v0\.21\.(\d)$", image.text) if image else None
        if image and step and step[1] < "3":
            to = f"{image.text[:-1]}{int(step[1]) + 1}"
            yield Problem(image, f"patch {step[1]}", "", Fix("take the next", (Replace(image, to),)))

    done = _fix(DEPLOYMENT, rules=(samples.each(chain),))
    assert "v0.21.3" in done.sources[0].text
    assert done.applied == {("sample", "take the next"): 3}


def test_rules_that_undo_each_other_end() -> None:
    def swap(old: str, new: str, name: str) -> Rule:
        def check(workload: Workload) -> Iterator[Problem]:
            name_ = workload.container.value.get("name")
            if name_ and name_.text == old:
                yield Problem(name_, f"{old} is wrong", "", Fix(f"call it {new}", (Replace(name_, new),)))

        return samples.each(check, name)

    rules = (swap("vllm", "other", "one"), swap("other", "vllm", "two"))
    done = _fix(DEPLOYMENT, rules=(*rules, samples.OLD))
    assert done.sources[0].text == _text(DEPLOYMENT, rules=(samples.OLD,)), "the others' fixes are made, theirs are not"
    [refused] = done.refused
    assert "without end" in refused.why


def test_a_fix_that_is_found_again_for_ever_is_not_made() -> None:
    def longer(workload: Workload) -> Iterator[Problem]:
        name = workload.container.value.get("name")
        if name:
            yield Problem(name, f"{name.text} is short", "", Fix("make it longer", (Replace(name, name.text + "-x"),)))

    done = _fix(DEPLOYMENT, rules=(samples.each(longer),))
    assert done.sources[0].text == DEPLOYMENT
    assert done.applied == {}
    assert [one.finding.rule for one in done.refused] == ["sample"]
    assert [one.fix for one in done.findings] == [None]


def test_every_workload_of_every_file_is_mended_and_other_files_are_not_touched() -> None:
    three = "---\n".join([DEPLOYMENT, DEPLOYMENT.replace("name: vllm\n", "name: b\n"), "# only this\n"])
    done = _fix(three, "kind: Nothing\n", DEPLOYMENT)
    assert "OLD_" not in done.sources[0].text + done.sources[2].text
    assert done.sources[0].text.endswith("# only this\n")
    assert done.sources[1].text == "kind: Nothing\n"


def test_a_fix_over_two_files_is_made_in_both() -> None:
    def both(manifests: Manifests) -> Iterator[Problem]:
        deployment, config = manifests.named("Deployment", "vllm"), manifests.named("ConfigMap", "m")
        if deployment and config and not config.value.get("data"):
            annotations = Put(deployment.value, "x-uses", "m")
            yield Problem(
                config.value, "not used", "", Fix("use it", (Put(config.value, "data", {"a": "b"}), annotations))
            )

    rule = Rule("both", "compile", samples.OLD.severity, "", everything=both)
    done = _fix(DEPLOYMENT, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n", rules=(rule, samples.OLD))
    assert "x-uses: m" in done.sources[0].text
    assert "OLD_" not in done.sources[0].text
    assert "a: b" in done.sources[1].text


ANCHORED = (
    DEPLOYMENT.replace("          args:\n", "          args: &args\n")
    + """\
        - name: second
          image: busybox
          args: *args
"""
)


def test_what_cannot_be_written_stays_a_finding_and_is_told() -> None:
    done = _fix(ANCHORED, rules=(samples.EAGER, samples.OLD), unsafe=True)
    assert [one.rule for one in done.findings] == ["eager"]
    [refused] = done.refused
    assert refused.finding.rule == "eager"
    assert refused.why
    assert done.findings[0].fix is None
    # The other fix of the same file is made all the same.
    assert "OLD_" not in done.sources[0].text
    assert "--enforce-eager" in done.sources[0].text


def test_an_anchor_within_the_fix_hinders_nothing_else() -> None:
    """Of fixes that cannot be made together, those that can alone are."""

    def removes(workload: Workload) -> Iterator[Problem]:
        for key in ("image", "command"):
            if workload.container.value.get(key):
                at = workload.container.value.key(key)
                assert at
                yield Problem(at, key, "", Fix(f"no {key}", (Remove(workload.container.value, key),)))

    text = ANCHORED.replace("command: [vllm, serve]", "command: &c [vllm, serve]")
    text = text.replace("image: busybox", "image: busybox\n          command: *c")
    done = _fix(text, rules=(samples.EAGER, samples.each(removes)), unsafe=True)
    assert "vllm/vllm-openai" not in done.sources[0].text
    assert {one.rule for one in done.findings} <= {"eager", "sample"}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text + "# the end\n\n\n",
        lambda text: "%YAML 1.1\n---\n" + text + "...\n",
        lambda text: text.replace("          image:", "          # why\n          image:"),
    ],
    ids=["as it is", "CRLF", "byte order mark", "no last line end", "comments", "directives", "comment between"],
)
def test_lines_that_no_fix_is_about_stay_byte_for_byte(change: object) -> None:
    before = change(DEPLOYMENT)  # type: ignore[operator]
    after = _text(before)
    gone = [line for line in before.split("\n") if line not in after.split("\n")]
    assert all(re.search(r"OLD_|value: \"1\"|v0\.21\.0|sk-very-secret", line) for line in gone), gone
    kept = [line for line in after.split("\n") if line in before.split("\n")]
    assert kept == [line for line in before.split("\n") if line in after.split("\n")]


WORDS = st.sampled_from(
    ["          env:\n", "            - name: OLD_ONE\n", '              value: "1"\n', "&a ", "*a", "#", "\t", "{", "]", "- ",
     ": ", "|\n", "'", '"', "---\n", "\r\n", "é", "\ufeff", "<<: *a\n", "              ", "? "]
)  # fmt: skip


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, len(DEPLOYMENT)), st.integers(0, 30), st.one_of(WORDS, st.text(max_size=5))),
        max_size=4,
    )
)
def test_mutated_manifests_are_fixed_or_refused_and_twice_is_once(changes: list[tuple[int, int, str]]) -> None:
    from glowplug.core.errors import BadInputError

    text = DEPLOYMENT
    for place, length, new in changes:
        text = text[:place] + new + text[place + length :]
    if any(0xD800 <= ord(character) < 0xE000 for character in text):
        return
    try:
        done = _fix(text, rules=(samples.EAGER, samples.OLD, samples.REGION, samples.IMAGE), unsafe=True)
    except BadInputError:
        return
    values.load(done.sources[0])
    assert not [one for one in done.findings if one.fix]
