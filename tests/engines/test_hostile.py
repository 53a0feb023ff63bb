"""Commands and variables that somebody wrote to do harm: reading them raises what it promises, and takes no time to speak of."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.agent.asking import wished
from glowplug.core.errors import BadInputError, UsageError
from glowplug.engines import nested, registry, versions
from glowplug.engines.command import see_through
from glowplug.engines.shell import OpaqueError, follow
from glowplug.engines.vllm import arguments, config_file, keys
from glowplug.engines.vllm.command import split_environment
from glowplug.fingerprint import parse
from glowplug.manifests import images, podspec
from glowplug.starts import inferring
from tests.clocks import SLACK

DIGITS = "9" * 5000
NUMBERS = (
    "²",
    "٣",
    "-1",
    "0",
    "",
    " 7 ",
    "1e9",
    "9" * 390,
    DIGITS,
    f"{'9' * 390}k",
    f"{DIGITS}k",
    "²k",
    "1.5.2",
    "auto",
)
OPEN = tuple(sign * 30_000 for sign in ("[", '{"a":', '[{"a":', "(", "$(", "${A:-", "{ ", "if true; then "))
CLOSED = ("[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, '{"a":' + DIGITS + "}", '"' + "[" * 900 + '"')
NAMES = (
    "--tensor-parallel-size", "-tp", "--nnodes", "--nproc-per-node", "--nproc_per_node", "--max-model-len", "-O",
    "--compilation-config", "-cc", "--hf-overrides", "--speculative-config", "--config", "--data-parallel-size-local",
    "--compilation-config." + ".".join("a" * 20_000), "--hf-overrides.a", "--hf-overrides.a.b+", "--a..b", "--no-such",
)  # fmt: skip
PROGRAMS = (
    ("vllm", "serve", "m"),
    ("python3", "-m", "vllm.entrypoints.openai.api_server"),
    ("torchrun",),
    ("torchrun", "vllm", "serve"),
    ("env", "-S"),
    ("env", "-u"),
    ("sh", "-c"),
    ("sh", "-c", 'exec "$@"', "glowplug"),
    ("python3", "-m", "sglang.launch_server"),
    ("trtllm-serve",),
    ("timeout", "9", "nice", "-n"),
)
VARIABLES = (
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "VLLM_USE_V1",
    "A",
    "GLOWPLUG_ENGINE",
)


def of(values: Sequence[str]) -> st.SearchStrategy[str]:
    """One of these, which are too long to be shown."""
    return st.integers(0, len(values) - 1).map(lambda place: values[place])


signs = st.text(alphabet="$`'\"\\{}()[]|&;<>\n ,.=-²٣09aA#~*@\ud800\0", max_size=30)
texts = st.one_of(
    of((*NUMBERS, *OPEN, *CLOSED, *NAMES)),
    signs,
    st.text(max_size=10),
    st.builds("{}={}".format, of((*NAMES, *VARIABLES)), of((*NUMBERS, *OPEN, *CLOSED))),
    st.builds("exec vllm serve {}".format, signs),
    st.builds("A={};exec torchrun ${{{}}} vllm serve m".format, signs, of(NUMBERS)),
)
words = st.builds(
    lambda program, rest: (*program, *rest), st.sampled_from((*PROGRAMS, ())), st.lists(texts, max_size=6)
)
variables = st.dictionaries(st.sampled_from(VARIABLES) | st.text(max_size=5), texts, max_size=4)
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
containers = st.fixed_dictionaries(
    {},
    optional={
        "name": anything,
        "image": anything | of(("vllm/vllm-openai:v0.21.0", "vllm/vllm-openai:v" + DIGITS)),
        "command": st.lists(texts, max_size=5) | words.map(list) | anything,
        "args": st.lists(texts, max_size=5) | anything,
        "env": st.lists(
            st.fixed_dictionaries(
                {}, optional={"name": texts | anything, "value": texts | anything, "valueFrom": anything}
            )
        )
        | anything,
        "envFrom": anything,
        "volumeMounts": anything,
    },
)
pods = st.fixed_dictionaries(
    {},
    optional={
        "metadata": anything,
        "status": anything,
        "spec": st.fixed_dictionaries({"containers": st.lists(containers | anything, max_size=3) | anything})
        | anything,
    },
)


def nothing(path: str) -> str:
    raise FileNotFoundError(path)


class TestPromises:
    @given(words, variables, st.booleans())
    def test_seeing_through_a_command_raises_nothing_and_recognising_it_usage_errors(
        self, argv: tuple[str, ...], environ: dict[str, str], pass_others: bool
    ) -> None:
        seen = see_through(argv, environ, pass_others=pass_others)
        for wanted in ("auto", "vllm", "torch"):
            try:
                found = registry.recognise(seen, wanted=wanted, read_text=nothing)
            except UsageError:
                continue
            json.dumps([found.reason, found.launch and [dict(found.launch.args), str(found.launch.layout)]])

    @given(pods)
    def test_what_a_pod_asks_for_raises_nothing(self, pod: dict[str, Any]) -> None:
        for one in (*podspec.engines(pod), *podspec.containers(pod)):
            inferring.follow(one)
        wished(pod)

    @given(texts | st.builds("[{}".format, texts), of(NUMBERS + CLOSED))
    def test_a_configuration_file_raises_usage_errors(self, text: str, value: str) -> None:
        for written in (text, f"tensor-parallel-size: {value}", f"compilation-config: {{a: {value}}}", f"x: 0x{value}"):
            seen = see_through(("vllm", "serve", "m", "--config", "a.yaml"), {})
            with contextlib.suppress(UsageError):
                registry.recognise(seen, read_text=lambda _, said=written: said)  # type: ignore[misc]

    @given(texts | anything.map(json.dumps))
    def test_documents_are_refused_as_what_they_are(self, text: str) -> None:
        with contextlib.suppress(BadInputError):
            parse.parse(text)
        with contextlib.suppress(BadInputError):
            keys.parse(text.encode("utf-8", "surrogatepass"))


def test_a_name_that_is_deep_in_a_document_is_no_fault_of_ours() -> None:
    deep = "[" * 900 + "]" * 900
    for document in (
        f'{{"schema": "glowplug.fingerprint/1", "key": null, "unknown": [{deep}]}}',
        f'{{"schema": {deep}}}',
        f'{{"args": {deep}}}',
    ):
        with pytest.raises(BadInputError):
            parse.parse(document)
    with pytest.raises(BadInputError):
        keys.parse(f'{{"env": {{"A": {deep}}}}}'.encode())


class TestNumbers:
    @pytest.mark.parametrize("number", ["²", DIGITS, "9" * 10, "٣", "0", "-1"])
    @pytest.mark.parametrize("where", ["--nproc-per-node", "--nnodes", "PET_NNODES", "PET_NPROC_PER_NODE"])
    def test_what_torchrun_cannot_be_known_to_start_is_opaque(self, where: str, number: str) -> None:
        option = where.startswith("--")
        seen = see_through(("torchrun", *((where, number) if option else ()), "x"), {} if option else {where: number})
        assert seen.opaque
        assert len(seen.opaque) < 200

    @pytest.mark.parametrize(("reference", "value"), [("0", "z"), ("00", "z"), ("1", "a"), ("01", "a"), ("9", "")])
    def test_arguments_of_a_script_by_number(self, reference: str, value: str) -> None:
        assert follow(f'exec x "${{{reference}}}"', "z", ["a"], {}).words == ("x", value)

    @pytest.mark.parametrize("reference", ["²", DIGITS, "٣"])
    def test_and_by_what_is_none(self, reference: str) -> None:
        with pytest.raises(OpaqueError):
            follow(f"exec x ${{{reference}}}", "z", ["a"], {})

    def test_a_descriptor_is_of_plain_digits(self) -> None:
        assert follow("exec x ²> y", "z", [], {}).words == ("x", "²")
        assert follow("exec x 2> y", "z", [], {}).words == ("x",)

    @pytest.mark.parametrize("text", [f"{'9' * 390}k", f"{'9' * 390}T", f"{DIGITS}k", DIGITS])
    def test_a_number_of_any_length_is_a_number_or_none(self, text: str) -> None:
        with pytest.raises(ValueError, match="length"):
            arguments.human_int(text)

    def test_a_configuration_file_s_number_can_be_written_again(self) -> None:
        assert config_file.parse("a: 0x" + "f" * 9000, "f")["a"] == "0x" + "f" * 9000


class TestDepth:
    @pytest.mark.parametrize(
        ("levels", "canonical"), [(nested.DEEPEST, True), (nested.DEEPEST + 1, False), (900, False)]
    )
    def test_the_form_of_a_value_does_not_hang_on_how_deep_its_reader_is(self, levels: int, canonical: bool) -> None:
        text = "[ " * levels + "]" * levels

        def below(depth: int, work: Callable[[], str]) -> str:
            return below(depth - 1, work) if depth else work()

        found = {below(depth, lambda: arguments.canonical_json(text)) for depth in (0, sys.getrecursionlimit() // 2)}
        assert found == {text.replace(" ", "") if canonical else text}

    def test_brackets_in_a_text_are_no_levels(self) -> None:
        assert nested.read('{"a": "' + "[" * 1000 + '\\"{"}') == {"a": "[" * 1000 + '"{'}

    @pytest.mark.parametrize("levels", [2, nested.DEEPEST, nested.DEEPEST + 1, 50_000])
    def test_dotted_names_of_any_depth(self, levels: int) -> None:
        target: dict[str, Any] = {}
        arguments.merge(target, ["a"] * levels, 1)
        assert json.loads(json.dumps(target))
        found = registry.recognise(see_through(("vllm", "serve", "m", f"-cc.{'.'.join('a' * levels)}=1"), {}))
        assert found.launch is not None

    def test_a_pipeline_of_any_length(self) -> None:
        assert follow("exec x" + " | tee y" * 5000, "z", [], {}).words == ("x",)
        with pytest.raises(OpaqueError, match="pipeline"):
            follow("exec x" + " | tee y" * 5000 + " | sed", "z", [], {})


class TestTime:
    """Texts for which some way to read them takes time with the square of their length, or worse: minutes and more."""

    @pytest.mark.parametrize(
        "work",
        [
            lambda: follow("exec x {" + "," * 200_000, "z", [], {}),
            lambda: images.read("a/" * 100_000 + "vllm"),
            lambda: podspec.engines({"spec": {"containers": [{"command": ["vllm", f"$({'A_PORT_1_' * 30_000}.)"]}]}}),
            lambda: see_through(("env", *(("-u", "A") * 50_000), "x"), {}),
            lambda: see_through(("torchrun", *(("--a", "A") * 50_000), "x"), {}),
        ],
        ids=["braces", "image", "service", "unset", "torchrun"],
    )
    def test_of_reading_does_not_explode(self, work: Callable[[], object]) -> None:
        began = time.process_time()
        work()
        assert time.process_time() - began < SLACK


class TestMemory:
    def test_what_is_remembered_of_words_is_small(self) -> None:
        """What many pods name is known by heart; a name of a megabyte is nobody's, and is not kept."""
        large = "x" * 1_000_000
        for remembering, work in (
            (images._read, images.read),
            (versions._parts, versions.parts),
            (arguments._spelling, arguments.spelling),
        ):
            before = remembering.cache_info().currsize
            work(large)
            assert remembering.cache_info().currsize == before
        from glowplug.engines.vllm import command

        before = command._known_rule_of.cache_info().currsize
        assert split_environment({"VLLM_" + large: "1"})
        assert command._known_rule_of.cache_info().currsize == before


def test_an_option_is_found_by_its_beginning_where_that_is_enough() -> None:
    names = [arguments.spelling(word) for word in ("--tensor-par", "--max-model-l", "--m", "--no-enable-expert-p")]
    assert [name and (name.name, name.off) for name in names] == [
        ("tensor-parallel-size", False), ("max-model-len", False), None, ("enable-expert-parallel", True)
    ]  # fmt: skip
