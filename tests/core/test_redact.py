"""Credentials in command lines, variables and texts."""

from __future__ import annotations

import json

import pytest

from glowplug.core import redact

H = redact.hashed
KEY = "sk-0123456789abcdef"
TOKEN = "hf_abcdefghijklmnop"


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--api-key", "k1", "k2", "--port", "8000"], ["--api-key", H("k1"), H("k2"), "--port", "8000"]),
        (["--api-key", "k1", "k2", "-tp", "2"], ["--api-key", H("k1"), H("k2"), "-tp", "2"]),
        (["--api-key", "k1", "-k2longer", "--x"], ["--api-key", H("k1"), H("-k2longer"), "--x"]),
        (["--api-key", "-abc"], ["--api-key", H("-abc")]),
        (["--api-key", "--abc", "--port", "1"], ["--api-key", H("--abc"), "--port", "1"]),
        (["--api-key=k1", "model"], [f"--api-key={H('k1')}", "model"]),
        (["--hf-overrides.api_key", "k1"], ["--hf-overrides.api_key", H("k1")]),
        (["HF_TOKEN=k1", "vllm"], [f"HF_TOKEN={H('k1')}", "vllm"]),
        (["--apiKey", "k1"], ["--apiKey", H("k1")]),
        (["--enable-auth", "--model", "m"], ["--enable-auth", "--model", "m"]),
        (["curl", "-u", "me:k1", "http://x"], ["curl", "-u", f"me:{H('k1')}", "http://x"]),
        (["sh", "-c", "curl --user 'me:k1' x; vllm"], ["sh", "-c", f"curl --user 'me:{H('k1')}' x; vllm"]),
        (["docker", "run", "-u", "1000:1000", "x"], ["docker", "run", "-u", "1000:1000", "x"]),
        (["python3", "-u", "serve.py", "a:b"], ["python3", "-u", "serve.py", "a:b"]),
        (["--allow-credentials", "--model", "m"], ["--allow-credentials", "--model", "m"]),
        (["--token", "--password", "hunter2"], ["--token", H("--password"), H("hunter2")]),
        (["-H", "Authorization:", "Bearer", "k1", "x"], ["-H", "Authorization:", "Bearer", H("k1"), "x"]),
    ],
)
def test_values_of_credential_options(argv: list[str], shown: list[str]) -> None:
    assert redact.arguments(argv) == shown


SECRET_TEXTS = {
    "presigned": ("https://b.s3.amazonaws.com/k?X-Amz-Date=2026&X-Amz-Signature={}&x=1", ["X-Amz-Date=2026", "&x=1"]),
    "session token": ("s3://b/k?X-Amz-Security-Token={}", ["s3://b/k"]),
    "credential": ("https://h/k?X-Amz-Credential={}", []),
    "percent-encoded name": ("https://h/k?X%2DAmz%2DSignature={}", []),
    "SAS": ("https://a.blob.core.windows.net/c?sv=2020&sr=c&sig={}", ["sv=2020"]),
    "signature": ("https://h/k?Signature={}&Expires=1", ["Expires=1"]),
    "key": ("https://h/k?key={}", []),
    "password": ("/p?a=1;password={}", []),
    "fragment": ("https://h/#access_token={}", []),
    "connection string": ("AccountName=a;AccountKey={};x", ["AccountName=a"]),
    "JSON": ('{{"level": 3, "hf_token": "{}"}}', ['"level": 3']),
    "nested JSON": ('{{"a":[{{"b":{{"api_key":"{}"}}}}]}}', []),
    "JSON list": ('{{"api_keys": ["{}", "x"]}}', []),
    "JSON twice": ('{{"a": {{"token": "{}"}}, "a": {{}}}}', []),
    "JSON in JSON": ('{{"a": "{{\\"token\\": \\"{}\\"}}"}}', []),
    "JSON behind letters": ('-O{{"token": "{}"}}', ["-O"]),
    "URL in JSON": ('{{"u": "https://h/?sig={}"}}', []),
    "cut-off JSON": ('{{"a": 1, "token": "{}', []),
    "no JSON": ("{{'hf_token': '{}', 'a': 1}}", ["'a': 1"]),
    "bearer": ("Authorization: Bearer {}", ["Authorization: Bearer "]),
    "bearer alone": ("x: bearer {}", []),
    "basic": ("authorization: Basic {}", []),
    "header": ("X-Api-Key: {}", ["X-Api-Key: "]),
    "header in JSON": ('{{"Authorization": "Bearer {}"}}', []),
    "shell": ("exec vllm serve m --api-key {} && echo done", ["exec vllm serve m --api-key ", " && echo done"]),
    "shell, quoted": ("vllm serve m --api-key='{}' --port 1", ["--port 1"]),
    "shell, variable": ("HF_TOKEN={} vllm serve m", ["vllm serve m"]),
    "password in a URL": ("https://user:{}@h/path", ["@h/path"]),
    "password with a slash": ("https://user:pw/{}@h", ["@h"]),
    "password with an at": ("https://user:p@{}@h/x", ["@h/x"]),
    "password with a question mark": ("https://user:p?{}@h", ["@h"]),
    "digits before the slash": ("https://user:12/{}@h", ["@h"]),
    "second URL": ("http://a.example/x,http://u:{}@h", ["http://a.example/x"]),
}


@pytest.mark.parametrize("secret", [KEY, TOKEN])
@pytest.mark.parametrize(("form", "readable"), SECRET_TEXTS.values(), ids=list(SECRET_TEXTS))
def test_credentials_inside_a_text(form: str, readable: list[str], secret: str) -> None:
    text = form.format(secret)
    for shown in (
        redact.value("model", text),
        redact.value("args", text),
        *(redact.arguments(argv)[-1] for argv in (["--x", text], [f"--x={text}"], [text])),
    ):
        assert secret not in shown
    for shown in (redact.value("args", text), redact.arguments(["x", f"--x={text}"])[1]):
        for part in readable:
            assert part in shown
    assert redact.value("model", text) == redact.value("model", text)


@pytest.mark.parametrize("name", [name for name in SECRET_TEXTS if name != "digits before the slash"])
def test_they_are_searched_for_before_publishing(name: str) -> None:
    text = SECRET_TEXTS[name][0].format(KEY)
    for found in (redact.secret_values({}, ["--x", text]), redact.secret_values({"X": text})):
        if "password with" in name:
            assert any(KEY.encode() in data for data in found.values()), found
        else:
            assert KEY.encode() in found.values()


@pytest.mark.parametrize("text", [form.format(KEY) for form, _ in SECRET_TEXTS.values()])
def test_what_is_redacted_stays_as_it_is(text: str) -> None:
    once = redact.value("model", text)
    assert redact.value("model", once) == once


def test_values_of_options_are_searched_for() -> None:
    argv = [
        "vllm",
        "serve",
        "--api-key",
        KEY,
        "another-long-key",
        "--hf-token",
        TOKEN,
        "org/model-name",
        "--port",
        "80",
    ]
    assert redact.secret_values({"HF_TOKEN": TOKEN}, argv) == {
        "HF_TOKEN": TOKEN.encode(),
        "--api-key": KEY.encode(),
        "--api-key (2)": b"another-long-key",
    }


def test_what_is_no_credential_is_not_searched_for() -> None:
    argv = [
        "--token",
        "--gpu-memory-utilization",
        "0.9",
        "--model",
        "http://minio:9000/bucket/a@v2",
        "x?key=models/llama",
    ]
    assert redact.secret_values({"AWS_ACCESS_KEY_ID": "AKIA1234567890", "API_KEY": "short"}, argv) == {}


@pytest.mark.parametrize(
    "argv",
    [
        ["--max-num-batched-tokens", "8192", "x"],
        ["--long-prefill-token-threshold", "2048", "x"],
        ["--tokenizer", "org/name"],
        ["tokenizer=org/name"],
        ["s3://bucket/prefix@v2/model"],
        ["http://localhost:8000/prefix@v2/model"],
        ["https://host.example:8000/prefix@v2/model?revision=3"],
        ["http://[::1]:8000/a@b"],
        ["user@host"],
        ["--served-model-name", "a@b"],
        ["--speculative-config", '{"num_speculative_tokens":  5, "model": "x"}'],
        ["--hf-overrides", '{"eos_token": "</s>", "image_token_id":7}'],
        ["--compilation-config", '{"level":3,  "cudagraph_capture_sizes":[1,2]}'],
        ["--chat-template", "{% if x %} a - b {{ c }} {% endif %}"],
        ["sh", "-c", "exec  vllm serve m\t--port 8000"],
        ["--ssl-keyfile", "/etc/key.pem"],
        ["basic usage"],
        ["{" * 5000],
        ['{"a":' * 50000],
        ['{"n": ' + "9" * 5000 + "}"],
    ],
    ids=lambda argv: argv[-1][:30],
)
def test_harmless_words_stay_readable(argv: list[str]) -> None:
    assert redact.arguments(argv) == argv
    assert redact.secret_values({}, argv) == {}


def test_two_paths_do_not_become_one() -> None:
    first, second = (redact.value("model", f"http://minio:9000/bucket/{name}@v2") for name in "ab")
    assert first != second


def test_json_stays_json() -> None:
    text = json.dumps({"a": 1, "auth": {"user": "u", "password": KEY}})
    shown = json.loads(redact.value("x", text))
    assert shown == {"a": 1, "auth": {"user": H("u"), "password": H(KEY)}}


@pytest.mark.parametrize("text", ["\udcff\udc9b", "\ud800"])
def test_bytes_that_are_no_text(text: str) -> None:
    assert redact.value("api_key", text).startswith("sha256:")
    assert redact.arguments(["--api-key", text])[1].startswith("sha256:")
    assert redact.secret_values({}, ["--api-key", text * 8])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "RUNAI_STREAMER_CONCURRENCY is `hf_abcdefGHIJKL0123456789`, no number",
            "RUNAI_STREAMER_CONCURRENCY is `hf_***`, no number",
        ),
        ("key sk-proj-abcdefGHIJ-KL_0123456789.", "key sk-***."),
        ("AKIAIOSFODNN7EXAMPLE,ASIAIOSFODNN7EXAMPLE", "AKIA***,ASIA***"),
        ("x=ghp_abcdefGHIJKL0123456789", "x=ghp_***"),
        ("a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc-_DEF b", "a eyJ*** b"),
        ("https://me:pass@host/ is slow", "https://…@host/ is slow"),
    ],
)
def test_what_is_a_credential_by_its_own_form(text: str, shown: str) -> None:
    assert redact.known_forms(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Deployment task-a-long-name-of-something",
        "sk-a-long-name-of-a-service",
        "hf_transfer and hf_xet",
        "HF_HUB_ENABLE_HF_TRANSFER",
        "set VLLM_API_KEY; the token ends",
        "s3://bucket/model@v1",
        "sha256:0123456789abcdef",
        "meta-llama/Llama-3.1-70B-Instruct",
        "",
    ],
)
def test_other_words_of_a_sentence_are_none(text: str) -> None:
    assert redact.known_forms(text) == text
    assert redact.tokens(text) == []
