"""The manifest: frozen samples, what is kept, what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glowplug.cache import format as manifests
from glowplug.cache import layout
from glowplug.cache.format import Manifest, NewerManifestError, Part, Rejection
from glowplug.core import canonical
from glowplug.core.errors import IntegrityError
from tests.cache import making

SAMPLES = Path(__file__).parents[1] / "formats" / "v1"


def sample() -> Manifest:
    entry = Part(
        kind="entry",
        name="torch_compile_cache/torch_aot_compile/ab12/rank_0_0",
        sha256="1" * 64,
        size=1000,
        unpacked_bytes=5000,
        files=2,
        index=("vllm/torch_compile_cache/torch_aot_compile/ab12/rank_0_0/model",),
        guards={"triton": "3.6.0", "python": "3.12"},
        observed={"compile_ms": 38700, "ready_ms": 61000},
        created="2026-07-01T12:00:00.000Z",
        created_by="glowplug 0.1.0",
    )
    support = dataclasses.replace(
        entry, kind="support", name="support", of=entry.name, sha256="2" * 64, index=(), revision=1, observed={}
    )
    return Manifest(
        making.key(),
        parts=(entry, support),
        rejections=(Rejection("start-1", entry.name, "guards failed"),),
    )


def test_the_frozen_sample_is_what_this_code_writes() -> None:
    assert manifests.encode(sample()) == (SAMPLES / "manifest.json").read_bytes().rstrip(b"\n")


@pytest.mark.parametrize("name", ["manifest.json", "manifest-from-a-newer-writer.json", "manifest-blocked.json"])
def test_frozen_samples_are_read_and_written_again_without_loss(name: str) -> None:
    data = (SAMPLES / name).read_bytes().rstrip(b"\n")
    assert manifests.encode(manifests.decode(data)) == data


def test_the_sample_of_a_newer_writer_keeps_what_this_code_does_not_know() -> None:
    manifest = manifests.decode((SAMPLES / "manifest-from-a-newer-writer.json").read_bytes())
    assert [part.kind for part in manifest.parts] == ["entry", "support"]
    assert [part["kind"] for part in manifest.foreign_parts] == ["overlay"]
    assert manifest.extra == {"channel": "stable"}
    assert manifest.parts[0].extra == {"codec": {"level": 3}}
    changed = dataclasses.replace(manifest, blocked="by a person")
    again = json.loads(manifests.encode(changed))
    assert again["channel"] == "stable"
    assert again["parts"][0]["codec"] == {"level": 3}
    assert again["parts"][2]["kind"] == "overlay"


def test_a_newer_min_reader_is_told_apart_from_damage() -> None:
    data = (SAMPLES / "manifest-min-reader-2.json").read_bytes()
    with pytest.raises(NewerManifestError):
        manifests.decode(data)
    with pytest.raises(IntegrityError):
        manifests.decode(data.replace(b'"min_reader":2', b'"min_reader":3'))


TEXT = st.text(max_size=20)
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
COUNTS = st.integers(0, 2**60)
PARTS = st.builds(
    Part,
    kind=st.just("entry"),
    name=TEXT,
    sha256=DIGESTS,
    size=COUNTS,
    unpacked_bytes=COUNTS,
    files=COUNTS,
    created=TEXT,
    index=st.lists(TEXT, max_size=3).map(tuple),
    guards=st.dictionaries(TEXT, TEXT, max_size=3),
    observed=st.dictionaries(TEXT, COUNTS, max_size=3),
    created_by=TEXT,
)
MANIFESTS = st.builds(
    Manifest,
    key=st.builds(
        lambda model, args: making.key(model=model, args=args), TEXT, st.dictionaries(TEXT, TEXT, max_size=3)
    ),
    parts=st.lists(PARTS, max_size=4, unique_by=manifests.identity).map(tuple),
    rejections=st.lists(st.builds(Rejection, TEXT, TEXT, TEXT, extra=st.just({})), max_size=2).map(tuple),
    blocked=st.none() | TEXT,
    signature=TEXT,
    extra=st.dictionaries(st.just("later"), st.integers(), max_size=1),
)


@settings(max_examples=100, deadline=None)
@given(manifest=MANIFESTS)
def test_encode_and_decode_are_the_identity(manifest: Manifest) -> None:
    assert manifests.decode(manifests.encode(manifest)) == manifest


@settings(max_examples=400, deadline=None)
@given(at=st.integers(min_value=0), flip=st.integers(1, 255))
def test_no_flip_goes_unnoticed(at: int, flip: int) -> None:
    data = bytearray(manifests.encode(sample()))
    data[at % len(data)] ^= flip
    with pytest.raises(IntegrityError):
        manifests.decode(bytes(data))


def test_no_cut_goes_unnoticed() -> None:
    data = manifests.encode(sample())
    for end in range(len(data)):
        with pytest.raises(IntegrityError):
            manifests.decode(data[:end])


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_noise_raises_nothing_but_our_errors(data: bytes) -> None:
    with pytest.raises(IntegrityError):
        manifests.decode(data)


def _resealed(change: Any) -> bytes:
    """The sample with a change, its digest made right again: what a writer with a fault would write."""
    value = json.loads(manifests.encode(sample()))
    del value["digest"], value["signature"]
    change(value)
    return canonical.encode({**value, "digest": canonical.digest(value), "signature": None})


HUGE = 2**63
FAULTY: dict[str, Any] = {
    "min_reader is huge": lambda value: value.update(min_reader=HUGE),
    "min_reader is negative": lambda value: value.update(min_reader=-1),
    "a part of huge size": lambda value: value["parts"][0].update(size=HUGE),
    "a part that unpacks to huge bytes": lambda value: value["parts"][0].update(unpacked_bytes=10**400),
    "a part of huge files": lambda value: value["parts"][0].update(files=HUGE),
    "a part of huge revision": lambda value: value["parts"][1].update(revision=HUGE),
    "a huge observation": lambda value: value["parts"][0].update(observed={"compile_ms": 10**400}),
    "another schema": lambda value: value.update(schema="glowplug.manifest/2"),
    "min_reader is text": lambda value: value.update(min_reader="1"),
    "no min_reader": lambda value: value.pop("min_reader"),
    "no key": lambda value: value.pop("key"),
    "key lacks a field": lambda value: value["key"].pop("gpu"),
    "key with an argument that is a number": lambda value: value["key"]["args"].update(max_model_len=1),
    "key digest of another key": lambda value: value.update(key_digest="0" * 64),
    "key changed, digest kept": lambda value: value["key"].update(gpu="NVIDIA A100"),
    "parts is an object": lambda value: value.update(parts={}),
    "a part is text": lambda value: value["parts"].append("x"),
    "a part lacks its size": lambda value: value["parts"][0].pop("size"),
    "a part of negative size": lambda value: value["parts"][0].update(size=-1),
    "a part of true bytes": lambda value: value["parts"][0].update(unpacked_bytes=True),
    "a part's digest in capitals": lambda value: value["parts"][0].update(sha256="A" * 64),
    "a part's digest is a path": lambda value: value["parts"][0].update(sha256="../../" + "a" * 58),
    "one entry twice": lambda value: value["parts"].append(value["parts"][0]),
    "two supports of one entry": lambda value: value["parts"].append({**value["parts"][1], "name": "other"}),
    "index is text": lambda value: value["parts"][0].update(index="model"),
    "a thousand index files": lambda value: value["parts"][0].update(index=["x"] * 1000),
    "rejections is null": lambda value: value.update(rejections=None),
    "a rejection without a start": lambda value: value["rejections"][0].pop("start_id"),
    "blocked is text": lambda value: value.update(blocked="yes"),
    "blocked without reason": lambda value: value.update(blocked={}),
}


@pytest.mark.parametrize("name", FAULTY)
def test_faults_behind_a_right_digest_are_refused(name: str) -> None:
    assert manifests.decode(_resealed(lambda value: None))
    with pytest.raises(IntegrityError):
        manifests.decode(_resealed(FAULTY[name]))


def test_a_name_that_comes_twice_is_refused() -> None:
    data = manifests.encode(sample())
    with pytest.raises(IntegrityError, match="twice"):
        manifests.decode(data[:-1] + b',"signature":"x"}')


def test_a_manifest_under_another_keys_path_is_refused() -> None:
    data = manifests.encode(sample())
    assert manifests.decode(data, path=layout.manifest_path(making.key()))
    with pytest.raises(IntegrityError, match="another key"):
        manifests.decode(data, path=layout.manifest_path(making.key(domain="other")))


def test_a_manifest_of_more_than_a_mebibyte_is_neither_written_nor_read() -> None:
    with pytest.raises(IntegrityError) as caught:
        manifests.encode(dataclasses.replace(sample(), blocked="x" * (1 << 20)))
    assert caught.value.code == "archive-limit"
    with pytest.raises(IntegrityError):
        manifests.decode(b" " * (1 << 20) + manifests.encode(sample()))


def test_of_entries_with_one_name_the_one_with_fitting_guards_is_chosen() -> None:
    old = dataclasses.replace(sample().parts[0], guards={"triton": "3.5.0"})
    new = dataclasses.replace(sample().parts[0], guards={"triton": "3.6.0"}, created="2026-08-01T00:00:00.000Z")
    manifest = dataclasses.replace(sample(), parts=(old, new))
    assert manifest.entry(old.name, {"triton": "3.5.0", "cuda": "13"}) == old
    assert manifest.entry(old.name, {"triton": "3.6.0"}) == new
    assert manifest.entry(old.name, {}) == new
    assert manifest.entry(old.name, {"triton": "4"}) is None
