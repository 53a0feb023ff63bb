"""Engines are read from commands as people write them, and every option points at its own characters."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from glowplug.engines.vllm import arguments
from glowplug.lint.view import Engine
from tests.lint.reading import manifests, pod, text_at, workload

WANTED = {
    "tensor-parallel-size": ("8", "8"),
    "load-format": ("runai_streamer", "runai_streamer"),
}


@dataclass(frozen=True)
class Shape:
    """A container, and what is read of it. `options`: name → (value, the text at its place)."""

    container: str
    engine: str = "vllm"
    model: tuple[str, str] = ("s3://b/m", "s3://b/m")
    options: dict[str, tuple[str | None, str]] = field(default_factory=lambda: dict(WANTED))
    spec: str = ""
    more: str = ""


VLLM = "image: vllm/vllm-openai:v0.21.0\n"

SHAPES = {
    "items": Shape(VLLM + 'command: [vllm, serve, s3://b/m, --tensor-parallel-size=8, "--load-format=runai_streamer"]'),
    "two items an option": Shape(
        VLLM
        + """
        command:
        - vllm
        - serve
        args:
        - s3://b/m
        - --tensor-parallel-size
        - "8"
        - --load-format
        - runai_streamer
        """,
        options={"tensor-parallel-size": ("8", '"8"'), "load-format": ("runai_streamer", "runai_streamer")},
    ),
    "the module": Shape(
        VLLM
        + """
        command: ["python3", "-m", "vllm.entrypoints.openai.api_server"]
        args: ["--model=s3://b/m", "--tensor-parallel-size=8", "--load-format=runai_streamer"]
        """
    ),
    "the module with options of Python": Shape(
        VLLM
        + """
        command: [python, -u, -m, vllm.entrypoints.openai.api_server]
        args: [--model, s3://b/m, -tp=8, --load_format=runai_streamer]
        """
    ),
    "the module of the command line": Shape(
        VLLM + "command: [python3, -m, vllm.entrypoints.cli.main, serve, s3://b/m, -tp=8, --load-format=runai_streamer]"
    ),
    "the image's own entry point": Shape(
        VLLM + "args: [--model=s3://b/m, --tensor-parallel-size=8, --load-format=runai_streamer]"
    ),
    "the image's own entry point, model first": Shape(VLLM + "args: [s3://b/m, -tp=8, --load-format=runai_streamer]"),
    "a mirror with digest": Shape(
        "image: 1.dkr.ecr.us-west-2.amazonaws.com/vllm/vllm-openai:v0.21.0@sha256:00\n"
        "args: [s3://b/m, -tp=8, --load-format=runai_streamer]"
    ),
    "an image of one's own": Shape(
        "image: registry:5000/ml/vllm:0.21.0\nargs: [--model=s3://b/m, -tp=8, --load-format=runai_streamer]"
    ),
    "an entry point that starts what it is given": Shape(
        "image: nvcr.io/nvidia/vllm:25.09-py3\nargs: [vllm, serve, s3://b/m, -tp=8, --load-format=runai_streamer]"
    ),
    "an image that says nothing": Shape(
        "image: ml/server\ncommand: [vllm, serve, s3://b/m, -tp=8, --load-format=runai_streamer]"
    ),
    "a shell": Shape(
        VLLM
        + """
        command: [sh, -c, "exec vllm serve s3://b/m --tensor-parallel-size=8 --load-format runai_streamer"]
        """
    ),
    "a shell, the script in args": Shape(
        VLLM
        + """
        command: ["/bin/bash", "-euo", "pipefail", "-c"]
        args: ["vllm serve s3://b/m --tensor-parallel-size 8 --load-format=runai_streamer"]
        """
    ),
    "a block with continued lines": Shape(
        VLLM
        + r"""
        command: ["/bin/sh", "-c"]
        args:
        - |
          vllm serve s3://b/m \
            --tensor-parallel-size 8 \
            --load-format=runai_streamer
        """
    ),
    "a folded block": Shape(
        VLLM
        + """
        command: ["/bin/sh", "-c"]
        args:
        - >-
          vllm serve s3://b/m
          --tensor-parallel-size 8
          --load-format=runai_streamer
        """
    ),
    "a folded block that keeps the end of a line, which nothing behind exec reaches": Shape(
        VLLM
        + """
        command: ["/bin/sh", "-c"]
        args:
        - >
          exec vllm serve s3://b/m --tensor-parallel-size 8
            --load-format=runai_streamer
        """,
        options={"tensor-parallel-size": ("8", "8")},
    ),
    "a plain scalar over several lines": Shape(
        VLLM
        + """
        command:
        - sh
        - -c
        - vllm serve s3://b/m
          --tensor-parallel-size 8
          --load-format=runai_streamer
        """
    ),
    "quotes within double quotes": Shape(
        VLLM
        + r"""command: [sh, -c, "vllm serve \"s3://b/m\" --tensor-parallel-size \"8\" --load-format='runai_streamer'"]"""
    ),
    "quotes within single quotes": Shape(
        VLLM
        + """command: [sh, -c, 'vllm serve "s3://b/m" --tensor-parallel-size=''8'' --load-format="runai_streamer"']"""
    ),
    "double quotes over several lines": Shape(
        VLLM
        + r"""
        command:
        - sh
        - -c
        - "vllm serve s3://b/m \
           --tensor-parallel-size 8
           --load-format=runai_streamer"
        """
    ),
    "escapes of YAML before it": Shape(
        VLLM + r"""command: [sh, -c, "echo \u00e9\t\x41; vllm serve s3://b/m -tp 8 --load-format=runai_streamer"]"""
    ),
    "what comes before": Shape(
        VLLM
        + """
        command: [bash, -c]
        args:
        - |
          set -x
          ulimit -n 65535   # enough for the streamer
          export HF_HOME=/tmp
          cd /tmp && mkdir -p x && exec vllm serve s3://b/m --tensor-parallel-size 8 --load-format=runai_streamer
        """
    ),
    "other programs before": Shape(
        VLLM
        + """
        command: [bash, -c]
        args: ["pip install x && ray start --head; vllm serve s3://b/m -tp 8 --load-format runai_streamer 2>&1 | tee /tmp/l"]
        """
    ),
    "kubelet's references": Shape(
        VLLM
        + """
        command: [vllm, serve, $(MODEL)]
        args: ["--tensor-parallel-size=$(TP)", --load-format, $(FORMAT)]
        env:
        - {name: BUCKET, value: b}
        - {name: MODEL, value: s3://$(BUCKET)/m}
        - {name: TP, value: "8"}
        - {name: FORMAT, value: runai_streamer}
        """,
        model=("s3://b/m", "$(MODEL)"),
        options={"tensor-parallel-size": ("8", '"8"'), "load-format": ("runai_streamer", "runai_streamer")},
    ),
    "kubelet's references in a script": Shape(
        VLLM
        + """
        command: [sh, -c, "vllm serve s3://b/m -tp=$(TP) --load-format=runai_$(KIND)"]
        env: [{name: TP, value: "8"}, {name: KIND, value: streamer}]
        """,
        options={"tensor-parallel-size": ("8", '"8"'), "load-format": ("runai_streamer", "runai_$(KIND)")},
    ),
    "a shell's variables": Shape(
        VLLM
        + """
        command: [sh, -c, 'vllm serve "${MODEL}" --tensor-parallel-size=$TP --load-format="${FORMAT:-runai_streamer}"']
        env: [{name: MODEL, value: s3://b/m}, {name: TP, value: "8"}]
        """,
        options={"tensor-parallel-size": ("8", '"8"'), "load-format": ("runai_streamer", "runai_streamer")},
    ),
    "variables of the script": Shape(
        VLLM
        + """
        command: [sh, -c]
        args: ["M=s3://b/m; export TP=8; vllm serve $M -tp $TP --load-format runai_streamer"]
        """
    ),
    "several words in a variable": Shape(
        VLLM
        + """
        command: [sh, -c, "vllm serve s3://b/m $FLAGS"]
        env: [{name: FLAGS, value: -tp 8 --load-format runai_streamer}]
        """
    ),
    "variables of a ConfigMap": Shape(
        VLLM
        + """
        command: [vllm, serve, $(model)]
        args: [-tp, $(TP), --load-format=runai_streamer]
        envFrom: [{configMapRef: {name: c}}]
        env: [{name: TP, valueFrom: {configMapKeyRef: {name: c, key: ranks}}}]
        """,
        more='apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {model: s3://b/m, ranks: "8"}\n',
        options={"tensor-parallel-size": ("8", '"8"'), "load-format": ("runai_streamer", "runai_streamer")},
    ),
    "arguments of a script": Shape(
        VLLM
        + """
        command: [sh, -c, 'exec vllm serve "$@"', sh]
        args: [s3://b/m, --tensor-parallel-size=8, --load-format, runai_streamer]
        """
    ),
    "glowplug's launcher": Shape(
        VLLM
        + """
        command:
        - sh
        - -c
        - '[ "$GLOWPLUG_DISABLE" != 1 ] && exec python3 -I /g run --exec -- "$@"; exec "$@"'
        - glowplug
        - vllm
        - serve
        args: [s3://b/m, -tp=8, --load-format=runai_streamer]
        """
    ),
    "glowplug run": Shape(
        VLLM
        + "command: [glowplug, run, --store, s3://c, --, vllm, serve, s3://b/m, -tp=8, --load-format=runai_streamer]"
    ),
    "wrappers": Shape(
        VLLM
        + """
        command: [tini, --, /usr/bin/env, A=b, numactl, --cpunodebind=0, vllm, serve]
        args: [s3://b/m, -tp=8, --load-format=runai_streamer]
        """
    ),
    "a shell in a shell": Shape(
        VLLM + """command: [sh, -c, "exec sh -c 'vllm serve s3://b/m -tp 8 --load-format runai_streamer'"]"""
    ),
    "a configuration file": Shape(
        VLLM
        + """
        command: [vllm, serve, --config, /etc/vllm/config.yaml, --load-format=runai_streamer]
        volumeMounts: [{name: c, mountPath: /etc/vllm}]
        """,
        spec="volumes: [{name: c, configMap: {name: f}}]",
        more="""\
apiVersion: v1
kind: ConfigMap
metadata: {name: f}
data:
  config.yaml: |
    # the model
    model: "s3://b/m"   # is there
    tensor_parallel_size: 8
    load-format: auto
""",
        model=("s3://b/m", '"s3://b/m"   # is there'),
    ),
    "a configuration file by subPath": Shape(
        VLLM
        + """
        args: [--config, /c.yaml]
        volumeMounts: [{name: c, mountPath: /c.yaml, subPath: x/v.yaml}]
        """,
        spec="volumes: [{name: c, configMap: {name: f, items: [{key: k, path: x/v.yaml}]}}]",
        more="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: f}\ndata:\n  k: |\n"
        "    model: s3://b/m\n    tensor-parallel-size: 8\n    load-format: runai_streamer\n",
    ),
    "SGLang": Shape(
        "image: lmsysorg/sglang:v0.5.9-cu129\n"
        "command: [python3, -m, sglang.launch_server, --model-path, s3://b/m, --tp, '8', --load-format=runai_streamer]",
        engine="sglang",
        options={"tensor-parallel-size": ("8", "'8'"), "load-format": ("runai_streamer", "runai_streamer")},
    ),
    "SGLang without a command": Shape(
        "image: lmsysorg/sglang:v0.5.9\n"
        "args: [sglang, serve, --model-path=s3://b/m, --tp-size=8, --load-format, runai_streamer, --enable-metrics]",
        engine="sglang",
    ),
    "SGLang in a shell": Shape(
        "image: lmsysorg/sglang:latest\ncommand: [bash, -c]\n"
        "args: ['python -m sglang.launch_server --model s3://b/m --tensor-parallel-size 8 --load-format runai_streamer']",
        engine="sglang",
    ),
    "SGLang with a configuration file": Shape(
        "image: lmsysorg/sglang:v0.5.9\n"
        "command: [python3, -m, sglang.launch_server, --config, /c/s.yaml, --load-format=runai_streamer]\n"
        "volumeMounts: [{name: c, mountPath: /c}]",
        engine="sglang",
        spec="volumes: [{name: c, configMap: {name: f}}]",
        more="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: f}\ndata:\n  s.yaml: |\n"
        "    model-path: s3://b/m\n    tp-size: 8\n    load-format: auto\n",
    ),
    "TensorRT-LLM": Shape(
        "image: nvcr.io/nvidia/tensorrt-llm/release:1.0.0\n"
        "command: [trtllm-serve, s3://b/m, --tp_size=8, --load_format, runai_streamer]",
        engine="tensorrt-llm",
    ),
    "TensorRT-LLM over several processes": Shape(
        "image: nvcr.io/nvidia/tensorrt-llm/release:1.0.0\n"
        "args: [trtllm-llmapi-launch, trtllm-serve, serve, s3://b/m, --tp_size, 8, --load_format=runai_streamer]",
        engine="tensorrt-llm",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_options_are_read_and_pointed_at(name: str) -> None:
    shape = SHAPES[name]
    one = workload(pod(shape.container, spec=shape.spec), *([shape.more] if shape.more else []))
    engine = one.engine
    assert (engine.name, engine.opaque) == (shape.engine, "")
    assert engine.model is not None
    assert (engine.model.value, text_at(engine.model.at)) == shape.model
    for option, (value, text) in shape.options.items():
        found = engine.options[option]
        assert (found.value, text_at(found.at)) == (value, text), option


@pytest.mark.parametrize("name", SHAPES)
def test_words_stand_where_they_say(name: str) -> None:
    shape = SHAPES[name]
    one = workload(pod(shape.container, spec=shape.spec), *([shape.more] if shape.more else []))
    for option in one.engine.options.values():
        if option.first < 0:
            continue
        word = one.engine.words[option.first]
        assert word.value.text[word.start : word.end]
        spelled = arguments.spelling(text_at(option.option_at).strip("\"'").partition("=")[0])
        if spelled is not None and one.engine.name == "vllm" and not word.shared:
            assert spelled.name == option.name
    for word in one.engine.words:
        if word.alone:
            assert (word.start, word.end) == (0, len(word.value.text))
        elif "$" not in word.value.text:
            written = word.value.text[word.start : word.end]
            assert written.replace('"', "").replace("'", "").replace("\\", "") == word.text


def engine_of(container: str) -> Engine:
    return workload(pod(container)).engine


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.21.0", "0.21.0"),
        ("vllm/vllm-openai:v0.21.0-cu129", "0.21.0"),
        ("vllm/vllm-openai:v0.10.1.post1", "0.10.1.post1"),
        ("vllm/vllm-openai:v0.22.0rc1", "0.22.0rc1"),
        ("docker.io/vllm/vllm-openai:v0.21.0@sha256:00", "0.21.0"),
        ("1.dkr.ecr.us-west-2.amazonaws.com/mirror/vllm-openai:0.21.0", "0.21.0"),
        ("localhost:5000/vllm:0.21.0", "0.21.0"),
        ("localhost:5000/vllm", ""),
        ("vllm/vllm-openai:latest", ""),
        ("vllm/vllm-openai:nightly-0.21.0", ""),
        ("vllm/vllm-openai:v0.21", ""),
        ("vllm/vllm-openai", ""),
        ("vllm/vllm-openai@sha256:00", ""),
        ("lmcache/vllm-openai:v0.3.9", ""),
        ("nvcr.io/nvidia/vllm:25.09-py3", ""),
        ("ghcr.io/llm-d/llm-d-cuda:v0.5.0", ""),
        ("rocm/vllm:7.0.0_vllm_0.11", ""),
        ("ml/server:v0.21.0", ""),
    ],
)
def test_versions_are_those_of_the_engine_s_own_tags(image: str, version: str) -> None:
    assert engine_of(f"image: {image}\ncommand: [vllm, serve, m]").version == version


OPTIONS = {
    "--enforce-eager": ("enforce-eager", "", "--enforce-eager"),
    "--enforce_eager": ("enforce-eager", "", "--enforce_eager"),
    "--no-enforce-eager": ("enforce-eager", "false", "--no-enforce-eager"),
    "--enforce-eager=true": ("enforce-eager", "true", "true"),
    "--tensor-par=4": ("tensor-parallel-size", "4", "4"),
    "-tp=4": ("tensor-parallel-size", "4", "4"),
    "-O3": ("optimization-level", "3", "3"),
    "-O=2": ("optimization-level", "2", "2"),
    "--a-new-one=4": ("a-new-one", "4", "4"),
    "--host=": ("host", "", ""),
    "--seed=-1": ("seed", "-1", "-1"),
}


@pytest.mark.parametrize("word", OPTIONS)
def test_spellings_of_vllm(word: str) -> None:
    name, value, text = OPTIONS[word]
    found = engine_of(f"{VLLM}args: [m, {word}, --port, '1']").options[name]
    assert (found.value, text_at(found.at), found.flag) == (value, text, name == "enforce-eager")


def test_flags_are_on_or_off() -> None:
    assert engine_of(VLLM + "args: [m, --enforce-eager]").flag("enforce-eager")
    assert engine_of(VLLM + "args: [m, --enforce-eager=True]").flag("enforce-eager")
    assert not engine_of(VLLM + "args: [m, --enforce-eager, --no-enforce-eager]").flag("enforce-eager")
    assert not engine_of(VLLM + "args: [m, --enforce-eager=false]").flag("enforce-eager")


def test_the_last_of_a_name_wins() -> None:
    engine = engine_of(VLLM + "args: [m, -tp=2, --tensor_parallel_size, '4', --port=1]")
    assert engine.value("tensor-parallel-size") == "4"
    assert (engine.options["tensor-parallel-size"].first, engine.options["tensor-parallel-size"].count) == (2, 2)


def test_lists_and_unknown_options_leave_the_model_alone() -> None:
    engine = engine_of(VLLM + "args: [m, --served-model-name, a, b, --brand-new, x, --port, '1']")
    assert engine.value("served-model-name") == "a,b"
    assert engine.value("brand-new") == "x"
    assert engine.value("port") == "1"
    assert engine.model is not None
    assert engine.model.value == "m"


def test_dotted_names_are_one_json_option() -> None:
    engine = engine_of(VLLM + "args: [m, -cc.mode=3, --model-loader-extra-config.concurrency, '8', --port=1]")
    assert engine.value("compilation-config") == '{"mode": 3}'
    extra = engine.options["model-loader-extra-config"]
    assert extra.value == '{"concurrency": 8}'
    assert [(one.name, one.value, text_at(one.at)) for one in extra.dotted] == [
        ("model-loader-extra-config.concurrency", "8", "'8'")
    ]


OPAQUE = {
    "a script in a file": (
        "image: vllm/vllm-openai:v0.21.0\ncommand: [/bin/sh, /start.sh]",
        "a shell script in a file",
    ),
    "a substitution": (VLLM + "command: [sh, -c, 'vllm serve `cat /m`']", "a command substitution"),
    "a condition": (VLLM + "command: [sh, -c, 'if x; then vllm serve m; fi']", "the shell's 'if'"),
    "a pipeline into it": ("image: x\ncommand: [sh, -c, 'cat m | vllm serve m']", "a pipeline"),
    "in the background": ("image: x\ncommand: [sh, -c, 'vllm serve m & wait']", "the shell operator '&'"),
    "another program after it": (VLLM + "command: [sh, -c, 'vllm serve m; sleep 9']", "not the last program"),
    "a program that nobody knows": (VLLM + "command: [$(PROGRAM), serve]", "a variable that is not known"),
    "a command for an image with one": (VLLM + "args: [vllm, serve, m]", "the image starts vLLM itself"),
    "nothing at all": ("image: ml/vllm:0.21.0", "the image decides"),
}


@pytest.mark.parametrize("name", OPAQUE)
def test_what_cannot_be_followed_is_opaque_and_nothing_is_guessed(name: str) -> None:
    container, why = OPAQUE[name]
    engine = engine_of(container)
    assert (engine.name, engine.words, dict(engine.options), engine.model) == ("vllm", (), {}, None)
    assert why in engine.opaque
    assert not engine.lacks("load-format")


@pytest.mark.parametrize(
    "container",
    [
        VLLM + "command: [sleep, infinity]",
        VLLM + "command: [sh, -c, 'python3 bench.py --url http://x']",
        VLLM + "command: [vllm, bench, serve]",
        VLLM + "command: [vllm, serve, --help]",
        "image: nginx",
        "image: vllm/vllm-router:v0.1.0",
        "image: python:3.12\ncommand: [python, -m, http.server]",
        "image: x\ncommand: []",
        "{}",
    ],
)
def test_other_containers_are_no_engines(container: str) -> None:
    assert manifests(pod(container)).workloads == ()


UNKNOWN = {
    "a secret": (
        VLLM + "args: [m, --tensor-parallel-size=$(TP)]\n"
        "env: [{name: TP, valueFrom: {secretKeyRef: {name: s, key: k}}}]",
        "$(TP)",
    ),
    "a variable of the image": (VLLM + "command: [sh, -c, 'vllm serve m --tensor-parallel-size \"$TP\"']", "$TP"),
    "part of a value": (VLLM + "command: [sh, -c, 'vllm serve m --tensor-parallel-size=1$TP']", "1$TP"),
    "a ConfigMap elsewhere": (
        VLLM + "args: [m, --tensor-parallel-size, $(TP)]\n"
        "env: [{name: TP, valueFrom: {configMapKeyRef: {name: s, key: k}}}]",
        "$(TP)",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_values_that_nobody_knows_are_none_and_pointed_at_where_they_are_used(name: str) -> None:
    container, text = UNKNOWN[name]
    engine = engine_of(container)
    option = engine.options["tensor-parallel-size"]
    assert (option.value, text_at(option.at)) == (None, text)
    assert engine.value("tensor-parallel-size") is None
    assert not engine.lacks("tensor-parallel-size")
    assert engine.lacks("load-format")


def test_an_unknown_model_is_the_model_still() -> None:
    engine = engine_of(VLLM + "args: [$(MODEL), --port=1]")
    assert engine.model is not None
    assert engine.model.value is None
    assert engine.lacks("load-format")


@pytest.mark.parametrize(
    "container",
    [
        VLLM + "command: [sh, -c, 'vllm serve m $EXTRA']",
        VLLM + "args: [m, $(EXTRA)]",
        VLLM + "args: [m, --config, /not/here.yaml]",
        "image: ml/vllm:0.21.0\nargs: [m, --port=1]",
    ],
)
def test_where_options_may_be_missing_none_is_certainly_lacking(container: str) -> None:
    engine = engine_of(container)
    assert engine.opaque == ""
    assert not engine.lacks("load-format")


def test_variables_of_the_command_line_are_the_container_s() -> None:
    one = workload(
        pod(
            VLLM
            + """
            command: [sh, -c, "unset B; export VLLM_CACHE_ROOT=/c/vllm; A=2 exec env D=4 vllm serve m"]
            env: [{name: A, value: "1"}, {name: B, value: "1"}, {name: C, value: "3"}]
            """
        )
    )
    environment = one.container.environment
    assert {name: (one.value, one.origin) for name, one in environment.variables.items()} == {
        "A": ("2", "command"),
        "C": ("3", "value"),
        "D": ("4", "command"),
        "VLLM_CACHE_ROOT": ("/c/vllm", "command"),
    }
    assert text_at(environment.variables["VLLM_CACHE_ROOT"].at) == "/c/vllm"
    assert one.containers[0] is one.container
