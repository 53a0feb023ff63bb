"""Every reason that a start can have is told in words, and always by its own word first."""

from __future__ import annotations

import pytest

from glowplug.core.errors import CODES
from glowplug.launch.words import explained


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("no_bucket", "The bucket does not exist"),
        ("key:tp,args.max_model_len", "another tp, args.max_model_len"),
        ("guard:triton", "compiled under another triton"),
        ("engine_unknown", "--engine torch"),
        ("key_blocked", "--lift"),
    ],
)
def test_a_reason_is_explained(reason: str, words: str) -> None:
    assert explained(reason).startswith(f"{reason} (")
    assert words in explained(reason)


@pytest.mark.parametrize("reason", ["", "something_new", "secret_found: the value of HF_TOKEN occurs in x"])
def test_a_reason_without_words_stays_as_it_is(reason: str) -> None:
    assert explained(reason) == reason


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_an_error_can_be_a_reason(code: str) -> None:
    assert explained(code.replace("-", "_")).startswith(code.replace("-", "_"))
