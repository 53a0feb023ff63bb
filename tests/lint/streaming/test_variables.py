"""Variables: misspelt, dead, of a wrong type, without effect, harmful."""

from __future__ import annotations

import pytest

from glowplug.catalog import streamer
from tests.lint import checking
from tests.lint.streaming.pods import CHUNK, GUIDES, SGLANG, TENSORRT, Case, check, deployment, streamed, table

DEAD = "RUNAI_STREAMER_S3_ENDPOINT"
S3 = {"AWS_ENDPOINT_URL": "https://s3.example"}
TIMEOUT = "RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS"
SPEED = "RUNAI_STREAMER_S3_LOW_SPEED_LIMIT"
SECRET = "- name: {}\n  valueFrom: {{secretKeyRef: {{name: s, key: k}}}}"


def with_(**env: str) -> str:
    return streamed(env={**CHUNK, **env})


def on_disk(**env: str) -> str:
    return deployment("--model=/models/x", env=env)


@table(
    Case("one letter", with_(RUNAI_STREAMER_CONCURENCY="16"), "RUNAI_STREAMER_CONCURENCY"),
    Case("another word", with_(RUNAI_STREAMER_CHUNK_SIZE="4"), "RUNAI_STREAMER_CHUNK_SIZE"),
    Case("in small letters", with_(runai_streamer_memory_limit="4"), "runai_streamer_memory_limit"),
    Case("the region", with_(AWS_REGON="us-west-2"), "AWS_REGON", "does not read"),
    Case("an endpoint that only boto3 reads", with_(AWS_ENDPOINT_URL_S3="https://s3.example"), "AWS_ENDPOINT_URL_S3"),
    Case("like none", with_(RUNAI_STREAMER_FOO="1"), "RUNAI_STREAMER_FOO", "no version of the streamer"),
    Case(
        "beside the right one",
        with_(RUNAI_STREAMER_CHUNK_SIZE="4", RUNAI_STREAMER_CHUNK_BYTESIZE="8388608"),
        "RUNAI_STREAMER_CHUNK_SIZE",
        "set beside it",
    ),
    Case("from a secret", streamed(entries=SECRET.format("AWS_ACCES_KEY_ID")), "AWS_ACCES_KEY_ID"),
    Case(
        "in a script that cannot be followed",
        deployment(
            command=("sh", "-c", "while true; do vllm serve s3://a/b; done"), env={"RUNAI_STREAMER_CONCURENCY": "1"}
        ),
        "RUNAI_STREAMER_CONCURENCY",
    ),
    Case(
        "SGLang",
        deployment(
            "--model-path=s3://m/x",
            image=SGLANG,
            command=("python3", "-m", "sglang.launch_server"),
            env={"AWS_REGON": "x"},
        ),
        "AWS_REGON",
    ),
    Case("right", with_(RUNAI_STREAMER_S3_TIMEOUT="60", AWS_REGION="us-west-2", AWS_ROLE_ARN="x")),
    Case("of other SDKs", with_(AWS_STS_REGIONAL_ENDPOINTS="regional", AWS_SDK_LOAD_CONFIG="1")),
    Case("somebody's own", with_(AWS_SECRET_NAME="x", AWS_S3_BUCKET="y", RUNAI_JOB_NAME="z", LOG_LEVEL="info")),
    Case("AWS's own beside the one that counts", with_(AWS_ENDPOINT_URL_S3="https://a.example", **S3)),
    Case("AWS's, where nothing is streamed", on_disk(AWS_REGON="x")),
    Case("AWS's, from Google", deployment("--model=gs://b/m", env={"AWS_REGON": "x"})),
    Case("for trials", with_(RUNAI_STREAMER_INTERNAL_THING="1", RUNAI_STREAMER_EXPERIMENTAL_X="1")),
    Case(
        "no streamer",
        deployment("s3://m/x", image=TENSORRT, command=("trtllm-serve",), env={"RUNAI_STREAMER_CONCURENCY": "1"}),
    ),
)
def test_unknown(case: Case) -> None:
    check("streamer-variable-unknown", case)


def test_it_is_renamed() -> None:
    text = with_(RUNAI_STREAMER_CONCURENCY="16", AWS_REGON="us-west-2")
    expected = text.replace("CONCURENCY", "CONCURRENCY").replace("REGON", "REGION")
    assert checking.fixed("streamer-variable-unknown", text) == expected


def test_an_endpoint_is_renamed_on_request() -> None:
    text = with_(AWS_ENDPOINT_URL_S3="https://s3.example")
    assert checking.fixed("streamer-variable-unknown", text) == text
    assert "AWS_ENDPOINT_URL\n" in checking.fixed("streamer-variable-unknown", text, unsafe=True)


def test_values_are_not_told() -> None:
    text = with_(AWS_SECRET_ACCES_KEY="wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY")
    (finding,) = checking.found("streamer-variable-unknown", text)
    assert "wJalr" not in finding.message + finding.hint


@table(
    Case("alone", with_(**{DEAD: "https://s3.example"}), DEAD, "since 0.12.0"),
    Case("beside its successor", with_(**{DEAD: "https://s3.example"}, **S3), DEAD),
    Case("from a secret", streamed(entries=SECRET.format(DEAD)), DEAD),
    Case("in the guide's version", streamed(env={DEAD: "https://s3.example"}, image=GUIDES), DEAD),
    Case(
        "SGLang",
        deployment(
            "--model-path=s3://m/x", image=SGLANG, command=("python3", "-m", "sglang.launch_server"), env={DEAD: "x"}
        ),
        DEAD,
    ),
    Case("not there", with_(**S3)),
    Case("empty", with_(**{DEAD: ""})),
    Case("a version that nobody names", streamed(env={DEAD: "x"}, image="vllm/vllm-openai:latest")),
    Case("a version that may read it", streamed(env={DEAD: "x"}, image="vllm/vllm-openai:v0.8.5")),
    Case("nothing is streamed", on_disk(**{DEAD: "x"})),
)
def test_dead(case: Case) -> None:
    check("streamer-variable-dead", case)


def test_a_dead_one_beside_its_successor_goes() -> None:
    text = with_(**S3, **{DEAD: "https://old.example"})
    assert DEAD not in checking.fixed("streamer-variable-dead", text)


def test_a_dead_one_alone_is_renamed_on_request() -> None:
    text = with_(**{DEAD: "https://s3.example"})
    assert checking.fixed("streamer-variable-dead", text) == text
    assert checking.fixed("streamer-variable-dead", text, unsafe=True) == text.replace(DEAD, "AWS_ENDPOINT_URL")


@table(
    Case("a unit", streamed(env={"RUNAI_STREAMER_CHUNK_BYTESIZE": "4GiB"}), "'4GiB'", "must be a whole number"),
    Case("empty", streamed(env={"RUNAI_STREAMER_CHUNK_BYTESIZE": ""}), "''"),
    Case("a blank behind", with_(RUNAI_STREAMER_CONCURRENCY="16 "), "'16 '"),
    Case("no clients", with_(RUNAI_STREAMER_CONCURRENCY="0"), "'0'", "1 or more"),
    Case("less than none", with_(RUNAI_STREAMER_CONCURRENCY="-1"), "'-1'"),
    Case("a word for a switch", with_(RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING="false"), "'false'", "0 or 1"),
    Case("below every limit", with_(RUNAI_STREAMER_MEMORY_LIMIT="-2"), "'-2'", "-1 or more"),
    Case("gigabytes that are bytes", with_(RUNAI_STREAMER_MEMORY_LIMIT="40"), "'40'", "largest tensor"),
    Case("the smallest limit that may do", with_(RUNAI_STREAMER_MEMORY_LIMIT="1048576")),
    Case("seconds with a unit", with_(RUNAI_STREAMER_S3_TIMEOUT="60s"), "'60s'"),
    Case(
        "a word that is none of theirs",
        streamed("-tp", "2", '--model-loader-extra-config={"distributed":true}', env={"RUNAI_STREAMER_DIST": "yes"}),
        "'yes'",
        "0 or 1 or auto",
    ),
    Case("an exponent", with_(RUNAI_STREAMER_MEMORY_LIMIT="4e9"), "'4e9'"),
    Case(
        "numbers",
        with_(RUNAI_STREAMER_CONCURRENCY="16", RUNAI_STREAMER_MEMORY_LIMIT="-1", RUNAI_STREAMER_S3_TIMEOUT="0"),
    ),
    Case("capped with a warning", with_(RUNAI_STREAMER_CONCURRENCY="5000")),
    Case("raised silently", streamed(env={"RUNAI_STREAMER_CHUNK_BYTESIZE": "1024"})),
    Case("a blank before", with_(RUNAI_STREAMER_CONCURRENCY=" 16")),
    Case("switches", with_(RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING="0")),
    Case("what nobody measured", with_(RUNAI_STREAMER_LOG_LEVEL="noisy", RUNAI_STREAMER_LOG_TO_STDERR="true")),
    Case("a version that does not read it", streamed(env={"RUNAI_STREAMER_S3_TIMEOUT": "60s"}, image=GUIDES)),
    Case(
        "a version that nobody names",
        streamed(env={"RUNAI_STREAMER_S3_TIMEOUT": "60s"}, image="vllm/vllm-openai:latest"),
    ),
    Case("for S3 alone", deployment("--model=gs://b/m", env={"RUNAI_STREAMER_S3_TIMEOUT": "60s"})),
    Case("for several ranks alone", with_(RUNAI_STREAMER_DIST="yes")),
    Case("from a secret", streamed(env={}, entries=SECRET.format("RUNAI_STREAMER_CONCURRENCY"))),
    Case("nothing is streamed", on_disk(RUNAI_STREAMER_CONCURRENCY="0")),
)
def test_types(case: Case) -> None:
    check("streamer-variable-type", case)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("RUNAI_STREAMER_CHUNK_BYTESIZE", "4GiB", "4294967296"),
        ("RUNAI_STREAMER_CHUNK_BYTESIZE", "4Gi", "4294967296"),
        ("RUNAI_STREAMER_CHUNK_BYTESIZE", "256 MB", "256000000"),
        ("RUNAI_STREAMER_MEMORY_LIMIT", "40G", "40000000000"),
        ("RUNAI_STREAMER_CONCURRENCY", "16 ", "16"),
        ("RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING", "False", "0"),
        ("RUNAI_STREAMER_CONCURRENCY", "0", "0"),
        ("RUNAI_STREAMER_CONCURRENCY", "many", "many"),
        ("RUNAI_STREAMER_CONCURRENCY", "16k", "16k"),
        ("RUNAI_STREAMER_CHUNK_BYTESIZE", "", ""),
    ],
)
def test_what_was_meant_is_written(name: str, before: str, after: str) -> None:
    text = streamed(env={name: before})
    assert checking.fixed("streamer-variable-type", text) == text.replace(f"'{before}'", f"'{after}'")


def test_every_checked_variable_takes_its_own_default() -> None:
    for one in streamer.variables():
        if one.refuses and one.default and not one.dead:
            text = streamed("-tp", "2", '--model-loader-extra-config={"distributed":true}', env={one.name: one.default})
            assert checking.found("streamer-variable-type", text) == [], one.name


@table(
    Case("the guide's", with_(**{TIMEOUT: "3000"}), "'3000'", "changes nothing"),
    Case("the default", with_(**{TIMEOUT: "1000"}), "'1000'"),
    Case("the last without effect", with_(**{TIMEOUT: "3999"}), "'3999'"),
    Case("zero", with_(**{TIMEOUT: "0"}), "'0'"),
    Case("the first with one", with_(**{TIMEOUT: "4000"})),
    Case("the plan's", with_(**{TIMEOUT: "30000"})),
    Case("no number", with_(**{TIMEOUT: "3s"})),
    Case("not there", with_()),
    Case("Google's has another default", deployment("--model=gs://b/m", env={TIMEOUT: "3000"})),
    Case("from a secret", streamed(entries=SECRET.format(TIMEOUT))),
)
def test_timeouts(case: Case) -> None:
    check("streamer-timeout-ineffective", case)


def test_a_timeout_becomes_the_plans() -> None:
    text = with_(**{TIMEOUT: "3000"})
    assert checking.fixed("streamer-timeout-ineffective", text) == text.replace("'3000'", "'30000'")


@table(
    Case("the guide's", with_(**{SPEED: "1048576"}), "'1048576'", "counts for each connection"),
    Case("less, and still too much", with_(**{SPEED: "131072"}), "'131072'"),
    Case(
        "with the defaults",
        deployment("s3://b/m", command=("vllm", "serve"), env={SPEED: "1048576"}),
        "'1048576'",
        "200 of them",
    ),
    Case(
        "SGLang",
        deployment(
            "--model-path=s3://m/x",
            image=SGLANG,
            command=("python3", "-m", "sglang.launch_server"),
            env={SPEED: "1048576"},
        ),
        "'1048576'",
    ),
    Case("harmless", with_(**{SPEED: "1024"})),
    Case("the SDK's", with_(**{SPEED: "0"})),
    Case("not there", with_()),
    Case("no number", with_(**{SPEED: "1MiB"})),
    Case("nothing is streamed", on_disk(**{SPEED: "1048576"})),
    Case("from Google", deployment("--model=gs://b/m", env={SPEED: "1048576"})),
)
def test_speed_limits(case: Case) -> None:
    check("streamer-low-speed-limit", case)


def test_a_speed_limit_goes() -> None:
    text = with_(**{SPEED: "1048576"})
    assert checking.fixed("streamer-low-speed-limit", text) == with_()


CONFIGURED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  RUNAI_STREAMER_CONCURENCY: "16"  # clients
"""


@pytest.mark.parametrize("prefix", ["", "RUNAI_STREAMER_"])
def test_a_key_of_a_config_map_is_marked_and_renamed(prefix: str) -> None:
    source = f"envFrom:\n- {{configMapRef: {{name: settings}}, prefix: {prefix or repr(prefix)}}}"
    configured = CONFIGURED.replace("RUNAI_STREAMER_CONC", "RUNAI_STREAMER_CONC".removeprefix(prefix))
    texts = (streamed(container=source), streamed(container=source).replace("name: vllm", "name: other"), configured)
    for finding in checking.found("streamer-variable-unknown", *texts):
        assert checking.at(finding) == "RUNAI_STREAMER_CONCURENCY".removeprefix(prefix)
    assert checking.fixed_all("streamer-variable-unknown", texts) == list(texts), "other pods may ask for the key"
    *_, after = checking.fixed_all("streamer-variable-unknown", texts, unsafe=True)
    assert after == configured.replace("CONCURENCY", "CONCURRENCY")


def test_a_name_that_a_prefix_spoils_cannot_be_renamed_in_the_config_map() -> None:
    source = "envFrom:\n- {configMapRef: {name: settings}, prefix: RUNAI_STREAMR_}"
    texts = (streamed(container=source), CONFIGURED.replace("RUNAI_STREAMER_CONCURENCY", "CONCURRENCY"))
    assert checking.fixed_all("streamer-variable-unknown", texts, unsafe=True) == list(texts)
