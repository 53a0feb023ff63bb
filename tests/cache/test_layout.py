"""Paths in the store: one domain's prefix, readable folders, no step out of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.cache import layout
from glowplug.store import paths
from tests.cache import making


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("torch-2.11.0", "torch-2.11.0"),
        ("cpu", "cpu"),
        ("NVIDIA L4", "nvidia-l4-32cfe486"),
        ("s3://b/m", "s3---b-m-f11d32ee"),
        ("a" * 63, "a" * 63),
        ("a" * 64, "a" * 63 + "-ffe054fe"),
        ("..", "--5ec1f7e7"),
        ("", "--e3b0c442"),
    ],
)
def test_slugs(text: str, slug: str) -> None:
    assert layout.slug(text) == slug


@given(st.text())
def test_every_slug_is_one_harmless_path_part(text: str) -> None:
    slug = layout.slug(text)
    assert re.fullmatch(r"[a-z0-9._-]{1,72}", slug)
    assert slug.strip(".")
    paths.check(f"v1/{slug}")
    if slug == text:
        assert len(text) <= 63


@given(st.text(), st.text())
def test_two_texts_never_share_a_slug(one: str, other: str) -> None:
    assert (layout.slug(one) == layout.slug(other)) == (one == other)


def test_a_manifests_path_names_what_people_look_for() -> None:
    path = layout.manifest_path(making.key())
    gpu, model = layout.slug("NVIDIA H100 80GB HBM3"), layout.slug("s3://bucket/model")
    digest = making.key().digest()
    assert path == f"v1/default/keys/{gpu}/vllm-0.21.0/torch-2.11.0/tp1/{model}/{digest}.json"
    place = layout.parse_manifest_path(path)
    assert place == layout.Place(path, digest, layout.key_parts(making.key()))


@pytest.mark.parametrize(
    "path", ["", "v1", "v1/d/keys/x.json", "v1/d/keys/a/b/c/d/e/short.json", "v2/" + "a/" * 7 + "0" * 64]
)
def test_what_is_no_manifest_is_passed_over(path: str) -> None:
    assert layout.parse_manifest_path(path) is None


def test_domains_share_no_prefix() -> None:
    assert layout.manifest_path(making.key(domain="a")).startswith("v1/a/")
    assert not layout.keys_prefix("ab").startswith(layout.keys_prefix("a"))
    assert layout.domain_prefix("../other").count("/") == 1


def test_a_name_that_looks_like_anothers_slug_has_its_own() -> None:
    """Two domains never share a prefix, whatever somebody calls theirs."""
    for text in ("A", "s3://bucket/model", "x" * 80):
        taken = layout.slug(text)
        assert layout.slug(taken) != taken
        assert layout.slug(layout.slug(taken)) not in (taken, layout.slug(taken))
