"""Which names of images are names, by the table of cases of github.com/distribution/reference and what people paste."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from glowplug.manifests.references import is_reference

DIGEST = "sha256:" + "f" * 64

NAMES = [
    "test_com",
    "test.com:tag",
    "test.com:5000",
    "test.com/repo:tag",
    "test.com:5000/repo",
    "test.com:5000/repo:tag",
    f"test:5000/repo@{DIGEST}",
    f"test:5000/repo:tag@{DIGEST}",
    "lowercase:Uppercase",
    "Uppercase/lowercase:tag",
    "a/" * 120 + "a:tag",
    "sub-dom1.foo.com/bar/baz/quux",
    "sub-dom1.foo.com/bar/baz/quux:some-long-tag",
    "b.gcr.io/test.example.com/my-app:test.example.com",
    "xn--n3h.com/myimage:xn--n3h.com",
    "foo_bar.com:8080",
    "foo/foo_bar.com:8080",
    "[2001:db8::1]:5000/repo:tag",
    "192.168.1.1:5000/repo",
    "registry.example/a__b/c---d:1",
    "vllm/vllm-openai:v0.21.0",
    "123456789012.dkr.ecr.eu-central-1.amazonaws.com/glowplug:0.1.0",
    f"repo@sha512:{'0' * 128}",
    "f" * 63,
]
NO_NAMES = [
    "",
    ":justtag",
    f"@{DIGEST}",
    "repo@sha256:ffffffffffffffffffffffffffffffffff",
    "repo@md5:" + "f" * 64,
    f"repo@{DIGEST.upper()}",
    "IMAGE",
    "Uppercase:tag",
    "test:5000/Uppercase/lowercase:tag",
    "registry.example/Glowplug:1",
    "a/" * 128 + "a:tag",
    "aa/asdf$$^/aa",
    "-test.com/a",
    "test.com-/a",
    "a..b",
    "a.-b",
    "a___b",
    "repo:",
    "repo:-tag",
    "repo:" + "t" * 129,
    "Bad Image",
    "repo:tag\n",
    "répertoire:1",
    "https://registry.example/glowplug:1",
    "registry.example/glowplug:",
    "registry.example//glowplug",
    "/glowplug",
    "<registry>/glowplug",
    "f" * 64,
]


@pytest.mark.parametrize("text", NAMES)
def test_what_is_a_name(text: str) -> None:
    assert is_reference(text)


@pytest.mark.parametrize("text", NO_NAMES)
def test_what_is_none(text: str) -> None:
    assert not is_reference(text)


@given(some.text(alphabet="aA0.-_:/@[] ", max_size=600))
def test_any_text_is_answered_at_once(text: str) -> None:
    began = time.process_time()
    is_reference(text)
    assert time.process_time() - began < 1
