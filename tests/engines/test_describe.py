"""The generated documentation names every field of the key and every row of the tables."""

from __future__ import annotations

import dataclasses

from glowplug.core.documents.fingerprint import GUARDS, Key
from glowplug.core.tables import table
from glowplug.engines.describe import cache_key


def test_everything_is_described() -> None:
    text = cache_key()
    for field in dataclasses.fields(Key):
        assert f"| {field.name} |" in text
    for name in GUARDS:
        assert f"`{name}`" in text
    for row in (*table("glowplug.engines.vllm", "key_args"), *table("glowplug.engines.vllm", "key_env")):
        assert row["name"] in text
        assert row["reason"]
        assert row["source"]


def test_the_text_is_the_same_every_time() -> None:
    assert cache_key() == cache_key()
