"""Command lines as people write them end in one invocation, or are called opaque."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.engines.command import python_program, resolve_references, see_through

SERVE = ("vllm", "serve", "s3://b/m", "--port", "1")

SAME = [
    (["vllm", "serve", "s3://b/m", "--port", "1"], {}),
    (["/usr/bin/env", "-u", "X", "A=b", "vllm", "serve", "s3://b/m", "--port", "1"], {"A": "b"}),
    (["env", "-i", "A=b", "vllm", "serve", "s3://b/m", "--port", "1"], {"A": "b"}),
    (["env", "-S", "A=b vllm serve", "s3://b/m", "--port", "1"], {"A": "b"}),
    (["sh", "-c", "exec vllm serve s3://b/m --port 1"], {}),
    (["/bin/bash", "-euo", "pipefail", "-c", "vllm serve s3://b/m --port 1"], {}),
    (["bash", "-lc", "set -e; export A=b; exec vllm serve s3://b/m \\\n  --port 1"], {"A": "b"}),
    (["sh", "-c", "A=b vllm serve s3://b/m --port 1"], {"A": "b"}),
    (["sh", "-c", "A=x; export A; A=b vllm serve s3://b/m --port 1"], {"A": "b"}),
    (["sh", "-c", "# comment\nulimit -n 65535\nmkdir -p /x && cd /x && vllm serve s3://b/m --port 1"], {}),
    (["sh", "-c", "vllm serve $MODEL --port ${PORT:-1}"], {}),
    (["sh", "-c", 'vllm serve "${MODEL}" $FLAGS'], {}),
    (["sh", "-c", 'vllm serve "$0" "$@"', "s3://b/m", "--port", "1"], {}),
    (["sh", "-c", 'exec "$@"', "--", "vllm", "serve", "s3://b/m", "--port", "1"], {}),
    (["sh", "-c", 'set -- serve "$MODEL" --port 1; exec vllm "$@"'], {}),
    (["sh", "-c", "vllm serve s3://b/m --port 1 2>&1 | tee /tmp/log"], {}),
    (["sh", "-c", "vllm serve s3://b/m --port 1 >/dev/null 2>/dev/null"], {}),
    (["sh", "-c", "exec 2>/dev/null; exec vllm serve s3://b/m --port 1"], {}),
    (["tini", "-g", "--", "vllm", "serve", "s3://b/m", "--port", "1"], {}),
    (["dumb-init", "--rewrite", "15:2", "--", "vllm", "serve", "s3://b/m", "--port", "1"], {}),
    (["numactl", "--cpunodebind=0", "--membind", "0", "nice", "-n", "5", *SERVE], {}),
    (["nohup", "stdbuf", "-oL", "timeout", "-s", "INT", "60", *SERVE], {}),
    (["glowplug", "run", "--store", "s3://c", "--", *SERVE], {}),
    (["sh", "-c", '[ -r P ] && exec python3 -I P --x -- "$@"; exec "$@"', "glowplug", *SERVE], {}),
]


@pytest.mark.parametrize(("argv", "added"), SAME)
def test_wrapping_does_not_change_what_is_started(argv: list[str], added: dict[str, str]) -> None:
    environ = {"MODEL": "s3://b/m", "FLAGS": "--port 1"}
    seen = see_through(argv, environ)
    assert seen.opaque == ""
    assert seen.argv == SERVE
    assert {name: value for name, value in seen.environ.items() if environ.get(name) != value} == added


OPAQUE = [
    (["sh", "-c", "vllm serve $(cat /model)"], "substitution"),
    (["sh", "-c", "vllm serve `cat /model`"], "substitution"),
    (["sh", "-c", "if true; then vllm serve m; fi"], "if"),
    (["sh", "-c", "for i in 1 2; do vllm serve m; done"], "for"),
    (["sh", "-c", "source /env.sh; vllm serve m"], "source"),
    (["sh", "-c", "pip install x && vllm serve m"], "more than one program"),
    (["sh", "-c", "vllm serve m & wait"], "&"),
    (["sh", "-c", "vllm serve m || sleep 9"], "||"),
    (["sh", "-c", "cat m | vllm serve"], "pipeline"),
    (["sh", "-c", "vllm serve 'm"], "quote"),
    (["sh", "-c", "vllm serve {a,b}"], "brace"),
    (["sh", "-c", ""], "empty"),
    (["sh", "-c", "export A=b"], "starts no program"),
    (["sh", "/start.sh"], "shell script in a file"),
    (["sudo", "vllm", "serve", "m"], "sudo"),
    (["torchrun", "--nproc-per-node", "gpu", "t.py"], "gpu"),
    (["torchrun", "--nnodes=1:4", "t.py"], "elastic"),
    (["env", "A=b"], "without a command"),
    ([], "no program"),
]


@pytest.mark.parametrize(("argv", "why"), OPAQUE)
def test_what_cannot_be_followed_is_said(argv: list[str], why: str) -> None:
    seen = see_through(argv, {"X": "y"})
    assert why in seen.opaque
    assert seen.argv == tuple(argv)
    assert seen.environ == {"X": "y"}


@pytest.mark.parametrize(
    "argv",
    [
        ["torchrun", "--standalone", "--nproc_per_node=2", "t.py", "--x"],
        ["/v/bin/torchrun", "--nnodes", "1", "--nproc-per-node", "2", "t.py", "--x"],
        ["python3", "-u", "-m", "torch.distributed.run", "--nproc-per-node=2", "t.py", "--x"],
        ["sh", "-c", "exec torchrun --nproc-per-node $N t.py --x"],
    ],
)
def test_torchrun_sets_the_world(argv: list[str]) -> None:
    seen = see_through(argv, {"N": "2"})
    assert seen.argv[1:] == ("t.py", "--x")
    assert seen.environ["WORLD_SIZE"] == "2"
    program = python_program(seen.argv)
    assert program is not None
    assert program.kind == "script"


@pytest.mark.parametrize(
    ("argv", "kind", "name", "rest"),
    [
        (["python", "a.py", "x"], "script", "a.py", ("x",)),
        (["/usr/bin/python3.12", "-u", "-X", "dev", "-W", "ignore", "-m", "a.b", "-x"], "module", "a.b", ("-x",)),
        (["python3", "-Oum", "a.b"], "module", "a.b", ()),
        (["python3", "-Xdev", "-ma.b", "x"], "module", "a.b", ("x",)),
        (["python3", "-c", "pass", "x"], "code", "pass", ("x",)),
        (["python3"], "", "", ()),
    ],
)
def test_python_options(argv: list[str], kind: str, name: str, rest: tuple[str, ...]) -> None:
    program = python_program(argv)
    assert program is not None
    assert (program.kind, program.name, program.arguments) == (kind, name, rest)


def test_references_of_pods() -> None:
    words = ["$(MODEL)", "--x=$(PORT)-$(NONE)", "$$(MODEL)"]
    assert resolve_references(words, {"MODEL": "m", "PORT": "1"}) == ("m", "--x=1-$(NONE)", "$(MODEL)")


WORDS = st.sampled_from(
    [
        "sh",
        "-c",
        "env",
        "exec",
        "A=b",
        "--",
        "-",
        "tini",
        "torchrun",
        "python3",
        "-m",
        "vllm",
        "serve",
        "'",
        '"$@"',
        "$X",
        "\\",
        "|",
        "{a,b}",
    ]
)


@given(
    st.lists(st.one_of(WORDS, st.text(max_size=30)), max_size=8),
    st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3),
)
def test_any_command_line_is_seen_through_or_opaque(argv: list[str], environ: dict[str, str]) -> None:
    seen = see_through(argv, environ)
    assert seen.opaque or seen.argv
    python_program(seen.argv)


@given(st.text(alphabet="ab '\"\\$@{}()|&;<>\n#=-`~*1:", max_size=60))
def test_any_script_is_followed_or_opaque(script: str) -> None:
    seen = see_through(["sh", "-c", script, "zero", "one two"], {"a": "1 2", "HOME": "/h"})
    assert seen.opaque or seen.argv
