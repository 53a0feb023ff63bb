"""Findings point at the very key or value, however the manifest is written, and fixes leave the rest as it was."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.lint import checking

HEAD = """\
kind: Deployment
apiVersion: apps/v1
metadata: {name: vllm}
spec:
  template:
    spec:
      containers:
"""
FLOW = """\
{apiVersion: apps/v1, kind: Deployment, metadata: {name: vllm}, spec: {template: {spec: {containers: [
  {name: vllm, image: "vllm/vllm-openai:v0.33.0", args: ["--model=s3://m/x", '--model-loader-extra-config={"concurency": 16}'],
   env: [{name: RUNAI_STREAMER_CHUNK_BYTESIZE, value: "4GiB"}, {name: AWS_ENDPOINT_URL, value: 'http://minio:9000/'}]}]}}}}
"""


def pod(lines: str) -> str:
    """One container of these lines."""
    first, *rest = ["name: vllm", "image: vllm/vllm-openai:v0.33.0", *lines.splitlines()]
    return HEAD + "\n".join([f"      - {first}", *(f"        {line}" for line in rest)]) + "\n"


@dataclass(frozen=True)
class Place:
    """`at` stands once in the text; `before` and `after` are what the fix changes, "" where there is none."""

    what: str
    rule: str
    text: str
    at: str
    before: str = ""
    after: str = ""


PLACES = [
    Place(
        "flow: a key of JSON in single quotes", "loader-key-unknown", FLOW, '"concurency"', "concurency", "concurrency"
    ),
    Place("flow: a variable", "streamer-variable-type", FLOW, '"4GiB"', '"4GiB"', '"4294967296"'),
    Place("flow: an endpoint", "endpoint-trailing-slash", FLOW, "'http://minio:9000/'", "9000/'", "9000'"),
    Place(
        "JSON in double quotes",
        "loader-key-type",
        pod(r"""args: ["s3://m/x", "--model-loader-extra-config={\"concurrency\": \"16\"}"]"""),
        r"\"16\"",
        r"\"16\"",
        "16",
    ),
    Place(
        "JSON without quotes of YAML",
        "loader-key-type",
        pod('args:\n- s3://m/x\n- --model-loader-extra-config={"concurrency":"16"}'),
        '"16"',
        '"16"',
        "16",
    ),
    Place(
        "JSON as an item of its own, over two lines",
        "loader-key-unknown",
        pod(
            'args:\n- s3://m/x\n- --model-loader-extra-config\n- >-\n  { "concurency" : 16,\n    "memory_limit" : -1 }'
        ),
        '"concurency"',
        "concurency",
        "concurrency",
    ),
    Place(
        "a dotted option",
        "loader-key-type",
        pod("args: [s3://m/x, --model-loader-extra-config.concurrency, many]"),
        "many",
    ),
    Place(
        "a dotted option with an equals sign",
        "loader-key-unknown",
        pod("args: [s3://m/x, --model-loader-extra-config.concurency=16]"),
        "concurency",
        "concurency",
        "concurrency",
    ),
    Place(
        "a literal script",
        "loader-key-unknown",
        pod(
            "command: [bash, -c]\nargs:\n- |\n  set -e\n  exec vllm serve s3://m/x \\\n"
            "    --model-loader-extra-config '{\"concurency\": 16}'"
        ),
        '"concurency"',
        "concurency",
        "concurrency",
    ),
    Place(
        "a script with escaped JSON",
        "loader-key-type",
        pod(
            "command: [sh, -c]\nargs:\n- |\n"
            '  exec vllm serve s3://m/x --model-loader-extra-config "{\\"concurrency\\": \\"16\\"}"'
        ),
        '\\"16\\"',
        '\\"16\\"',
        "16",
    ),
    Place(
        "a folded script",
        "distributed-without-tp",
        pod(
            "command: [sh, -c]\nargs:\n- >-\n  exec vllm serve s3://m/x\n"
            '  --model-loader-extra-config=\'{"concurrency": 16, "distributed": true}\''
        ),
        '"distributed"',
        ', "distributed": true',
        "",
    ),
    Place(
        "a scheme in a script",
        "scheme-case",
        pod("command: [sh, -c]\nargs:\n- |\n  exec vllm serve S3://m/x"),
        "S3",
        "S3:",
        "s3:",
    ),
    Place(
        "a variable of a script",
        "streamer-variable-type",
        pod("command: [sh, -c]\nargs:\n- |\n  export RUNAI_STREAMER_CHUNK_BYTESIZE=4GiB\n  exec vllm serve s3://m/x"),
        "4GiB",
    ),
    Place(
        "a block scalar as a value",
        "streamer-variable-type",
        pod("args: [s3://m/x]\nenv:\n- name: RUNAI_STREAMER_CONCURRENCY\n  value: |\n    16"),
        "|\n            16",
    ),
    Place(
        "a limit",
        "streamer-low-speed-limit",
        pod(
            'args: [s3://m/x]\nenv:\n# kept\n- {name: RUNAI_STREAMER_S3_LOW_SPEED_LIMIT, value: "1048576"}\n- {name: A, value: b}'
        ),
        '"1048576"',
        '        - {name: RUNAI_STREAMER_S3_LOW_SPEED_LIMIT, value: "1048576"}\n',
        "",
    ),
]


@pytest.mark.parametrize("case", PLACES, ids=lambda case: case.what)
def test_places(case: Place) -> None:
    (finding,) = checking.found(case.rule, case.text)
    begin = case.text.index(case.at)
    line_start = case.text.rfind("\n", 0, begin) + 1
    assert case.text.count(case.at) == 1
    assert checking.at(finding) == case.at
    assert finding.start == (case.text.count("\n", 0, begin) + 1, begin - line_start + 1)


@pytest.mark.parametrize("case", [case for case in PLACES if case.before], ids=lambda case: case.what)
def test_fixes_change_nothing_else(case: Place) -> None:
    fixed = checking.fixed(case.rule, case.text)
    assert case.text.count(case.before) == 1
    assert fixed.replace("        # kept\n", "") == case.text.replace(case.before, case.after).replace(
        "        # kept\n", ""
    )


@pytest.mark.parametrize("case", [case for case in PLACES if not case.before], ids=lambda case: case.what)
def test_what_has_no_fix_stays(case: Place) -> None:
    assert checking.fixed(case.rule, case.text) in (
        case.text,
        case.text.replace("value: |\n            16\n", 'value: "16"\n'),
    )
