"""What the word MODEL means, and what is said of words that mean nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.errors import AccessDeniedError, BadInputError, GlowplugError, UsageError
from glowplug.models import address
from glowplug.models.address import Directory, Objects


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("67GB", 67 * 10**9),
        ("67gb", 67 * 10**9),
        (" 67 GB ", 67 * 10**9),
        ("64GiB", 64 << 30),
        ("1.5TB", 1_500_000_000_000),
        ("4294967296", 4294967296),
        ("1MB", 10**6),
    ],
)
def test_sizes(text: str, nbytes: int) -> None:
    assert address.is_size(text)
    assert address.parse_size(text) == nbytes


@pytest.mark.parametrize(
    "text", ["", "GB", "-5GB", "67GBs", "./67GB", "67GB/x", "s3://67GB", "6 7GB", "0x10", "٣GB", "9" * 500, "67\0GB"]
)
def test_what_is_no_size(text: str) -> None:
    assert not address.is_size(text)
    with pytest.raises(UsageError) as caught:
        address.parse_size(text)
    assert caught.value.code == "bad-size"


@pytest.mark.parametrize(
    ("text", "meant"), [("7B", "14GB"), ("70b", "140GB"), ("1.5B", "3GB"), ("0GB", ""), ("5kB", ""), ("999999", "")]
)
def test_a_size_that_is_a_mistake(text: str, meant: str) -> None:
    """`7B` are seven bytes; whoever writes it means parameters."""
    with pytest.raises(UsageError) as caught:
        address.parse_size(text)
    assert caught.value.code == "bad-size"
    assert meant in caught.value.hint


@pytest.mark.parametrize(
    "text", ["2000TB", "9999999999999999999999", "9" * 190, "9" * 190 + ".5", "1" + "0" * 180 + "PB"]
)
def test_a_size_that_no_model_has(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        address.parse_size(text)
    assert caught.value.code == "bad-size"
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("s3://bucket/models/m", "s3://bucket/models/m"),
        ("s3://bucket/models/m/", "s3://bucket/models/m"),
        ("s3://bucket/models/m///", "s3://bucket/models/m"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("gs://bucket/m", "gs://bucket/m"),
        ("az://container/m", "az://container/m"),
    ],
)
def test_addresses(text: str, source: str) -> None:
    assert address.parse(text, {}) == Objects(source)


@pytest.mark.parametrize("scheme", ["S3", "s3", "Gs", "GS", "AZ"])
def test_a_scheme_in_capitals_is_read_and_told(scheme: str) -> None:
    found = address.parse(f"{scheme}://bucket/m/", {})
    assert isinstance(found, Objects)
    assert found.source == f"{scheme.lower()}://bucket/m"
    told = [(finding.rule, finding.severity, finding.hint) for finding in found.findings]
    assert told == ([] if scheme == "s3" else [("scheme-case", "error", f"write {scheme.lower()}://bucket/m")])


@pytest.mark.parametrize("spelling", ["{path}", "{path}/", "file://{path}", "file://localhost{path}/", "FILE://{path}"])
def test_directories(tmp_path: Path, spelling: str) -> None:
    found = address.parse(spelling.format(path=tmp_path), {})
    assert isinstance(found, Directory)
    assert found.path == tmp_path
    assert not found.source.endswith("/")


def test_directories_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "model").mkdir(parents=True)
    (tmp_path / "67GB").mkdir()
    monkeypatch.chdir(tmp_path)
    for text in ("org/model", "./org/model", "org/model/", "./67GB", "org/../org/model"):
        found = address.parse(text, {})
        assert isinstance(found, Directory)
        assert found.path.is_dir()
    home = address.parse("~/org", {"HOME": str(tmp_path)})
    assert isinstance(home, Directory)
    assert home.path == tmp_path / "org"
    link = tmp_path / "link"
    link.symlink_to("org")
    assert address.parse(str(link), {}) == Directory(str(link), link)


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("Qwen/Qwen3-32B", "bad-model", "--size"),
        ("meta-llama/Llama-3.1-8B-Instruct/", "bad-model", "--size"),
        ("hf://Qwen/Qwen3-32B", "bad-model", "--size"),
        ("gpt2", "bad-model", "s3://bucket/prefix"),
        ("https://bucket.s3.amazonaws.com/m", "bad-model", "s3://bucket/prefix"),
        ("s3a://bucket/m", "bad-model", "s3://bucket/m"),
        ("gcs://bucket/m", "bad-model", "gs://bucket/m"),
        ("abfss://container/m", "bad-model", "az://container/m"),
        ("ftp://host/m", "bad-model", "s3://bucket/prefix"),
        ("s3:/bucket/m", "bad-model", "s3://bucket/m"),
        ("s3:bucket/m", "bad-model", "s3://bucket/m"),
        ("file://models/m", "bad-model", "file:///models/m"),
        ("C:\\models", "bad-model", ""),
        ("67G B", "bad-model", ""),
        ("67G", None, ""),
        ("67 gigs", "bad-size", "67GB"),
        ("67,5GB", "bad-size", "67GB"),
        ("67GBs", "bad-size", "67GB"),
        ("", "bad-model", "67GB"),
        ("  ", "bad-model", "67GB"),
        ("a\nb", "bad-model", ""),
        ("a\0b", "bad-model", ""),
        ("\x1b[2J", "bad-model", ""),
        ("x" * 5000, "bad-model", ""),
    ],
)
def test_words_that_mean_nothing(text: str, code: str | None, hint: str) -> None:
    if code is None:
        assert address.is_size(text)
        return
    with pytest.raises(UsageError) as caught:
        address.parse(text, {})
    assert caught.value.code == code
    assert hint in caught.value.hint
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_one_file_is_not_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    for text in (str(file), "s3://bucket/m/model.safetensors", f"file://{file}"):
        with pytest.raises(BadInputError) as caught:
            address.parse(text, {})
        assert caught.value.code == "bad-model"
        assert "folder" in caught.value.hint
    with pytest.raises(BadInputError):
        address.parse("/dev/null", {})


@pytest.mark.parametrize(
    "text", ["/no/such/place", "./no-such", "../no-such", "~/no-such", "file:///no/such/place", "/" + "x" * 300]
)
def test_a_directory_that_is_not_there(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        address.parse(text, {"HOME": "/no"})
    assert caught.value.code == "not-found"
    assert caught.value.hint


def test_a_directory_that_may_not_be_looked_at(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "m").mkdir(parents=True)
    closed.chmod(0)
    tmp_path.chmod(0o755)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)
        with pytest.raises(AccessDeniedError) as caught:
            address.parse(str(closed / "m"), {})
    finally:
        os.seteuid(user)
        closed.chmod(0o755)
    assert caught.value.hint


SECRETS = [
    *("s3://AKIA:geheim@bucket/m", "s3://AKIA:ge/heim@bucket/m", "s3://geheim@bucket/m", "s3:AKIA:geheim@bucket/m"),
    *("S3A://AKIA:geheim@bucket/m", "s3a://AKIA:p/geheim@b/m", "s3:/AKIA:p/geheim@b", "file://u:p/geheim@host/x"),
    *("//AKIA:geheim@bucket/m", "//AKIA:p/geheim@bucket", "https://AKIA:geheim@host/m", "AKIA:geheim@bucket/m"),
    *(
        "s3://bucket/m?X-Amz-Signature=geheim",
        "s3://bucket/m#token=geheim",
        "/models/m?token=geheim",
        "https://host/m?sig=geheim",
    ),
]


@pytest.mark.parametrize("read", [lambda text: address.parse(text, {}), address.unread], ids=["parse", "unread"])
@pytest.mark.parametrize("text", SECRETS)
def test_credentials_are_not_repeated(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert caught.value.code == "bad-model"
    assert "geheim" not in str(caught.value) + caught.value.hint
    assert "heim" not in str(caught.value) + caught.value.hint


ODD = [
    *("s3://", "s3:///m", "s3://Bucket", "s3://buck_et/m", "s3://-bucket", "s3://bucket-/m", "s3://.b", "s3://a..b/m"),
    *("s3://bücket/m", "s3://b\uff13/m", f"s3://{'b' * 64}", "s3://bucket:9000/m", "s3://b*", "az://Container/m"),
    *(
        "s3://bucket//m",
        "s3://bucket/a//m",
        "s3://bucket/../m",
        "s3://bucket/a/..",
        "s3://bucket/./m",
        "gs://bucket/..",
    ),
    *(
        "s3://bucket/a b",
        "s3://bucket/m*",
        "s3://bucket/$(HOME)",
        "s3://bucket/${x}",
        "s3://bucket/m?",
        "s3://bucket/ü",
    ),
    *("s3://bucket/" + "m" * 256, "s3://bucket/" + "m/" * 510 + "m"),
]


@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text)[:40])
def test_what_readers_of_an_address_disagree_on_is_refused(text: str) -> None:
    for read in (lambda text: address.parse(text, {}), address.unread):
        with pytest.raises(UsageError) as caught:
            read(text)
        assert caught.value.code == "bad-model"
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("s3://b/m", "s3://b/m"),
        ("S3://bucket/m//", "s3://bucket/m"),
        ("s3://my.bucket-1/a/m_1.2+x=y@z", "s3://my.bucket-1/a/m_1.2+x=y@z"),
        ("gs://b_1", "gs://b_1"),
        ("file:///models/x", "/models/x"),
        ("file://localhost/models/x%20y/", "/models/x y"),
        ("/models/x", "/models/x"),
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B"),
        ("./m", "./m"),
        ("67GB", "67GB"),
    ],
)
def test_a_model_that_is_not_read_need_not_be_there(text: str, told: str) -> None:
    assert address.unread(text) == told


@pytest.mark.parametrize(
    "text", ["", " ", "m" * 300_000, "m\n", "\udcff", "m\0", "\x1b[2J"], ids=lambda text: ascii(text)[:20]
)
def test_what_no_model_is_called_is_refused_unread(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        address.unread(text)
    assert caught.value.code == "bad-model"
    assert len(str(caught.value)) < 400


@given(st.text(max_size=40) | st.text("s3:/ab.@%~ \0GB7", max_size=20))
def test_any_word_means_something_or_is_refused(text: str) -> None:
    try:
        found = address.parse(text, {})
    except GlowplugError as error:
        assert str(error).isprintable()
        return
    assert isinstance(found, Directory | Objects)
