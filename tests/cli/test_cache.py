"""`glowplug cache …`: what each subcommand prints, and the status it ends with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from inline_snapshot import snapshot

from glowplug.cache import sign
from tests.cli import trees
from tests.cli.conftest import Answer, Call
from tests.parts import requires
from tests.store.conftest import Place

Write = Callable[..., Path]
AOT = "torch_aot_compile/7a08bf389130f46a4dc8c3904fe0e54a66a3a74f52275825f0ceea425e50aa84"


def stable(text: str, tmp_path: Path) -> str:
    """Without what differs at every run: the directory, moments, seconds, packed sizes, digests of blobs."""
    text = text.replace(str(tmp_path), "/tmp")
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "MOMENT", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "MOMENT", text)
    text = re.sub(r"in \d+\.\d s", "in N s", text)
    text = re.sub(r"\b\d+(\.\d+)? (B|kB)\b", "SIZE", text)
    return re.sub(r" +SIZE", " SIZE", text)


def blobs(store: Path) -> list[Path]:
    return sorted(store.rglob("*.tar.zst"))


def manifest(store: Path) -> Path:
    return next(iter(store.glob("v1/*/keys/**/*.json")))


def tp2(write: Write) -> Path:
    return write("tp2.json", tp=2)


# ls


def test_an_empty_store_is_no_error(call: Call, store: Path) -> None:
    for form, empty in (("text", ""), ("wide", ""), ("json", None), ("yaml", None)):
        answer = call("cache", "ls", "-o", form)
        assert answer.status == 0
        if empty is not None:
            assert answer.out == empty
            assert answer.err.startswith("glowplug: no keys in domain 'default' of file://")
    assert call("cache", "ls", "-o", "json").json == {"schema": "glowplug.cache/1", "keys": [], "unreadable": []}


def test_ls(call: Call, published: str, tmp_path: Path) -> None:
    answer = call("cache", "ls")
    assert answer.status == 0
    assert answer.err == ""
    assert stable(answer.out, tmp_path) == snapshot(
        """\
KEY           GPU                    ENGINE       TORCH   TP  MODEL             ENTRIES SIZE  LAST USED
c3cafecfd4b3  NVIDIA H100 80GB HBM3  vllm 0.32.0  2.13.0   1  s3://models/tiny  2 SIZE  MOMENT
"""
    )
    assert published in call("cache", "ls", "-o", "wide").out


def test_a_domain_without_keys_names_those_that_have_some(call: Call, published: str) -> None:
    assert "; there are some of default (--domain NAME, --all-domains)" in call("cache", "ls", "--domain", "team-a").err
    assert "some of" not in call("cache", "ls", "--domain", "team-a", "--gpu", "l40s").err


def test_a_processor_does_not_fill_the_line(call: Call, store: Path, write: Write, tmp_path: Path) -> None:
    cpu = "cpu:x86-64-v4+" + "+".join(f"avx512_{number}" for number in range(12))
    trees.vllm(tmp_path / "node")
    assert call("cache", "publish", "--cache-root", tmp_path / "node", "--fingerprint", write(gpu=cpu)).status == 0
    assert f"{cpu[:29]}...  vllm" in call("cache", "ls").out
    assert cpu in call("cache", "ls", "-o", "wide").out


def test_ls_as_json(call: Call, published: str) -> None:
    document = call("cache", "ls", "-o", "json").json
    assert document["schema"] == "glowplug.cache/1"
    (key,) = document["keys"]
    assert key["key_digest"] == published
    assert key["key"]["layout"] == {"tp": 1, "pp": 1, "dp": 1, "ep": 1}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT.*Z", key["last_used"])
    assert sorted(part["kind"] for part in key["parts"]) == ["entry", "entry", "support", "support"]
    assert yaml.safe_load(call("cache", "ls", "-o", "yaml").out)["keys"] == document["keys"]


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["--gpu", "h100"], 1),
        (["--gpu", "H200"], 0),
        (["--model", "TINY"], 1),
        (["--model", "large"], 0),
        (["--gpu", "h100", "--model", "tiny"], 1),
    ],
)
def test_ls_filters(call: Call, published: str, filters: list[str], count: int) -> None:
    answer = call("cache", "ls", *filters, "-o", "json")
    assert answer.status == 0
    assert len(answer.json["keys"]) == count


def test_domains_are_apart(call: Call, published: str, write: Write, tmp_path: Path) -> None:
    other = write("other.json", domain="Team B", tp=4)
    trees.vllm(tmp_path / "b", "aot-tp2")
    assert (
        call("cache", "publish", "--cache-root", tmp_path / "b", "--fingerprint", other).status == 1
    )  # ranks are missing
    other = write("other.json", domain="Team B", tp=2)
    assert call("cache", "publish", "--cache-root", tmp_path / "b", "--fingerprint", other).status == 0
    assert [key["key_digest"] for key in call("cache", "ls", "-o", "json").json["keys"]] == [published]
    theirs = call("cache", "ls", "--domain", "Team B", "-o", "json").json["keys"]
    assert [key["domain"] for key in theirs] == ["Team B"]
    digest = theirs[0]["key_digest"]
    everything = call("cache", "ls", "--all-domains", "-o", "json").json["keys"]
    assert {key["domain"] for key in everything} == {"default", "Team B"}
    assert "DOMAIN" in call("cache", "ls", "--all-domains").out
    elsewhere = call("cache", "show", digest)
    assert elsewhere.status == 1
    assert "hint: domain 'Team B' has one: --domain 'Team B'" in elsewhere.err
    assert "`glowplug cache ls` lists the keys" in call("cache", "show", "0" * 64).err
    assert call("cache", "show", digest, "--all-domains").status == 0
    assert call("cache", "diff", digest, published).status == 1
    why = call("cache", "why", "--fingerprint", write("w.json", domain="elsewhere"), "-o", "json")
    assert why.status == 1
    assert why.json["reason"] == "no_keys"
    assert why.json["neighbours"] == []


def test_the_callers_domain_stands_above_the_documents(
    call: Call, published: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("cache", "restore", "--fingerprint", write(), "--to", tmp_path / "to", "-o", "json")
    answer = call(*arguments, "--domain", "elsewhere")
    assert answer.status == 1
    assert answer.json["reason"] == "no_keys"
    assert "warning" in answer.err
    monkeypatch.setenv("GLOWPLUG_DOMAIN", "elsewhere")
    assert call(*arguments).json["reason"] == "no_keys"


# show, diff, why


def test_show(call: Call, published: str, tmp_path: Path) -> None:
    answer = call("cache", "show", published[:8])
    assert answer.status == 0
    shown = re.sub("(?m)^[0-9a-f]{12} ", "BLOB ", stable(answer.out, tmp_path))
    assert re.sub("  +", "  ", shown).replace(AOT, "AOT") == snapshot("""\
key  c3cafecfd4b3733a3240f7e115e05a7e6c9220c6084d50aedcf17ce9dd0cc8b2
domain  default
engine  vllm
engine_version  0.32.0
torch  2.13.0
gpu  NVIDIA H100 80GB HBM3
machine  x86_64
tp  1
model  s3://models/tiny
cache_root  /compile-cache
last used  MOMENT
signed  no

PART  KIND  NAME  FILES SIZE  UNPACKED  CREATED  GUARDS
BLOB  support  AOT/support  34 SIZE SIZE  MOMENT  triton 3.6.0
BLOB  entry  AOT  1 SIZE SIZE  MOMENT  triton 3.6.0
BLOB  support  torch_compile_cache/95791e0ab8/support  1 SIZE SIZE  MOMENT  triton 3.6.0
BLOB  entry  torch_compile_cache/95791e0ab8  6 SIZE SIZE  MOMENT  triton 3.6.0
""")
    document = call("cache", "show", published, "-o", "json").json
    assert document["schema"] == "glowplug.cache/1"
    assert document["keys"][0]["path"].endswith(f"{published}.json")


def test_diff(call: Call, published: str, write: Write, tmp_path: Path) -> None:
    trees.vllm(tmp_path / "two", "aot-tp2")
    call("cache", "publish", "--cache-root", tmp_path / "two", "--fingerprint", tp2(write))
    other = next(
        key["key_digest"] for key in call("cache", "ls", "-o", "json").json["keys"] if key["key"]["layout"]["tp"] == 2
    )
    answer = call("cache", "diff", published, other)
    assert answer.status == 1
    assert answer.out.startswith("FIELD  FIRST  SECOND\ntp     1      2\n\nPART")
    document = call("cache", "diff", published, other, "-o", "json").json
    assert document["fields"] == [{"field": "tp", "first": "1", "second": "2"}]
    same = call("cache", "diff", published, published)
    assert (same.status, same.out) == (0, "nothing differs\n")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tp": 2}, "key:tp"),
        ({"gpu": "NVIDIA H200"}, "key:gpu"),
        ({"torch": "2.12.0"}, "key:torch"),
        ({"model": "s3://models/large"}, "key:model"),
        ({"cache_root": "/other"}, "key:cache_root"),
        ({"args": {"max_model_len": "512"}}, "key:args.max_model_len"),
        ({"engine_version": "0.31.0", "tp": 2}, "key:engine_version,tp"),
        ({"triton": "3.5.0"}, "guard:triton"),
        ({"domain": "other"}, "no_keys"),
    ],
)
def test_what_differs_is_named_and_nothing_is_written(
    call: Call, published: str, write: Write, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    f = write("changed.json", **changes)
    answer = call("cache", "restore", "--fingerprint", f, "--to", tmp_path / "new/to", "-o", "json")
    assert answer.status == 1
    assert answer.json["outcome"] == "none"
    assert answer.json["reason"] == reason
    assert answer.json["parts"] == []
    assert not (tmp_path / "new").exists()
    assert (
        call("cache", "restore", "--fingerprint", f, "--to", tmp_path / "new/to").out == f"nothing restored: {reason}\n"
    )
    why = call("cache", "why", "--fingerprint", f, "-o", "json")
    assert why.status == 1
    assert why.json["reason"] == reason
    assert reason in call("cache", "why", "--fingerprint", f).out


def test_why(call: Call, published: str, write: Write) -> None:
    answer = call("cache", "why", "--fingerprint", write("changed.json", tp=2, gpu="NVIDIA H200"))
    assert re.sub(r"^key [0-9a-f]{12}", "key MINE", answer.out) == snapshot("""\
key MINE: nothing is offered: key:gpu,tp

nearest key c3cafecfd4b3 differs in 2 fields:
FIELD  THIS START   STORE
gpu    NVIDIA H200  NVIDIA H100 80GB HBM3
tp     2            1
""")
    assert call("cache", "why", "--fingerprint", write()).status == 0
    guarded = call("cache", "why", "--fingerprint", write("g.json", triton="3.5.0"), "-o", "json").json
    assert {(item["field"], item["mine"], item["theirs"]) for item in guarded["guards"]} == {
        ("triton", "3.5.0", "3.6.0")
    }


# publish and restore


@pytest.mark.parametrize(
    ("name", "tp", "entries"),
    [("aot", 1, 2), ("mega-aot", 1, 1), ("vllm-compile", 1, 1), ("stock", 1, 1), ("aot-tp2", 2, 2)],
)
def test_there_and_back(
    call: Call, store: Path, write: Write, tmp_path: Path, name: str, tp: int, entries: int
) -> None:
    node, other = trees.vllm(tmp_path / "node", name), tmp_path / "other"
    f = write(tp=tp, cache_root=str(node))
    answer = call("cache", "publish", "--cache-root", node, "--fingerprint", f, "-o", "json")
    assert (answer.status, answer.err) == (0, "")
    assert answer.json["outcome"] == "published"
    assert len(answer.json["parts"]) == 2 * entries
    again = call("cache", "publish", "--cache-root", node, "--fingerprint", f, "-o", "json")
    assert (again.status, again.json["outcome"]) == (0, "unchanged")
    restored = call("cache", "restore", "--fingerprint", f, "--to", other, "-o", "json")
    assert restored.status == 0
    assert restored.json["outcome"] == "restored"
    assert restored.json["source"] == f"file://{store}"
    assert sorted(restored.json["parts"]) == sorted(answer.json["parts"])
    theirs = trees.snapshot(other)
    assert theirs
    assert theirs.items() <= trees.snapshot(node).items()
    assert all((other / path).stat().st_mtime_ns == trees.MOMENT for path in theirs)
    assert {path.split("/")[0] for path in theirs} <= {"vllm", "inductor", "triton"}
    present = call("cache", "restore", "--fingerprint", f, "--to", other, "-o", "json")
    assert (present.status, present.json["outcome"], present.json["reason"]) == (0, "skipped", "already_present")


def test_a_program_of_torchs(call: Call, store: Path, write: Write, tmp_path: Path) -> None:
    node = trees.torch(tmp_path / "node")
    f = write(**trees.TORCH)
    answer = call("cache", "publish", "--cache-root", node, "--fingerprint", f, "-o", "json")
    assert answer.status == 0
    assert len(answer.json["parts"]) == 2
    assert call("cache", "restore", "--fingerprint", f, "--to", tmp_path / "other").status == 0
    assert trees.snapshot(tmp_path / "other") == trees.snapshot(node)


def test_what_no_engine_writes_is_skipped_and_listed(call: Call, store: Path, write: Write, tmp_path: Path) -> None:
    node = trees.vllm(tmp_path / "node")
    for path in (
        "huggingface/token",
        "huggingface/hub/blob",
        "vllm/assets/a/b",
        "vllm/startup_plan/p",
        "note.txt",
        "pip/x",
    ):
        (node / path).parent.mkdir(parents=True, exist_ok=True)
        (node / path).write_text("secret")
    (node / "inductor/link").parent.mkdir(exist_ok=True)
    (node / "inductor/link").symlink_to("/etc/passwd")
    answer = call("cache", "publish", "--cache-root", node, "--fingerprint", write())
    assert answer.status == 0
    assert stable(answer.err, tmp_path) == snapshot("""\
glowplug: warning: the artifacts hold paths below /compile-cache, and are read from /tmp/node
glowplug: skipped: huggingface/ (2 files; not a cache of vllm's)
glowplug: skipped: note.txt (1 file; not a cache of vllm's)
glowplug: skipped: pip/ (1 file; not a cache of vllm's)
glowplug: skipped: vllm/assets/ (1 file; not a cache of vllm's)
glowplug: skipped: vllm/startup_plan/ (1 file; stays on its machine)
glowplug: skipped: inductor/link is no regular file, or cannot be read
""")
    call("cache", "restore", "--fingerprint", write(), "--to", tmp_path / "other")
    assert {path.split("/")[0] for path in trees.snapshot(tmp_path / "other")} == {"vllm"}
    assert not (tmp_path / "other/vllm/assets").exists()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda root: None, "no_entries"),
        (lambda root: (trees.vllm(root), next(root.rglob("model")).write_bytes(b"")), "incomplete"),
    ],
)
def test_nothing_that_may_be_published(
    call: Call, store: Path, write: Write, tmp_path: Path, spoil: Callable[[Path], Any], reason: str
) -> None:
    node = tmp_path / "node"
    node.mkdir()
    spoil(node)
    for found in list(node.rglob("vllm_compile_cache.py")):
        found.unlink()
    answer = call("cache", "publish", "--cache-root", node, "--fingerprint", write(), "-o", "json")
    assert answer.status == 1
    assert answer.json["outcome"] == "skipped"
    assert answer.json["reason"].startswith(reason)
    assert blobs(store) == []


def test_an_engine_without_an_adapter(call: Call, store: Path, write: Write, tmp_path: Path) -> None:
    answer = call("cache", "publish", "--cache-root", tmp_path, "--fingerprint", write(engine="sglang"), "-o", "json")
    assert (answer.status, answer.json["reason"]) == (1, "engine_not_supported")


def test_a_secret_of_this_environment_is_not_published(
    call: Call, store: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = trees.vllm(tmp_path / "node", salt="hunter2hunter2")
    monkeypatch.setenv("SOME_TOKEN", "hunter2hunter2")
    answer = call("cache", "publish", "--cache-root", node, "--fingerprint", write(), "-o", "json")
    assert answer.status == 1
    assert answer.json["reason"].startswith("secret_found")
    assert "SOME_TOKEN" in answer.err
    assert "hunter2" not in answer.out + answer.err
    assert blobs(store) == []


def test_restore_by_key(call: Call, published: str, tmp_path: Path) -> None:
    answer = call("cache", "restore", published[:10], "--to", tmp_path / "to")
    assert answer.status == 0
    assert stable(answer.out, tmp_path) == snapshot("restored 4 parts, SIZE in N s from file:///tmp/store\n")
    assert stable(answer.err, tmp_path) == snapshot(
        "glowplug: warning: the artifacts hold paths below /compile-cache; an engine that looks for them in /tmp/to may miss them\n"
    )


def test_a_missing_blob(call: Call, published: str, store: Path, write: Write, tmp_path: Path) -> None:
    blobs(store)[0].unlink()
    for how in ([published], ["--fingerprint", write()]):
        answer = call("cache", "restore", *how, "--to", tmp_path / "to", "-o", "json")
        assert answer.status == 1
        assert (answer.json["outcome"], answer.json["reason"]) == ("none", "blob_missing")
        assert answer.err.splitlines()[-2].startswith("error[blob-missing]")
        assert not (tmp_path / "to").exists()
    for arguments in ([], [published], ["--deep"]):
        answer = call("cache", "verify", *arguments, "-o", "json")
        assert answer.status == 1
        assert [fault["code"] for fault in answer.json["faults"]] == ["blob-missing"]


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(bytes(data))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize("damage", [_flip, _cut])
@pytest.mark.parametrize("what", ["blob", "manifest"])
def test_damage(
    call: Call,
    published: str,
    store: Path,
    write: Write,
    tmp_path: Path,
    what: str,
    damage: Callable[[Path], None],
) -> None:
    damage(blobs(store)[0] if what == "blob" else manifest(store))
    for how in ([published], ["--fingerprint", write()]):
        answer = call("cache", "restore", *how, "--to", tmp_path / "to", "-o", "json")
        assert answer.status == 4
        assert (answer.json["outcome"], answer.json["reason"]) == ("failed", "integrity")
        assert not (tmp_path / "to").exists()
    assert call("cache", "verify", "--deep").status == 4
    assert call("cache", "copy", store, tmp_path / "copy").status == 4
    ls = call("cache", "ls", "-o", "json")
    assert ls.status == 0
    if what == "manifest":
        assert ls.json["keys"] == []
        assert [item["key_digest"] for item in ls.json["unreadable"]] == [published]
        assert "warning" in ls.err
        assert call("cache", "show", published).status == 4


def test_signatures(call: Call, store: Path, write: Write, tmp_path: Path) -> None:
    for name in ("mine", "other"):
        pair = sign.generate()
        (tmp_path / f"{name}.pem").write_bytes(pair.private)
        (tmp_path / f"{name}.pub").write_bytes(pair.public)
    node = trees.vllm(tmp_path / "node")
    arguments = ("--cache-root", node, "--fingerprint", write(), "--sign-key", tmp_path / "mine.pem")
    assert call("cache", "publish", *arguments).status == 0

    def restore(key: str) -> Answer:
        return call(
            "cache", "restore", "--fingerprint", write(), "--to", tmp_path / "to", "--verify-key", tmp_path / key
        )

    assert restore("other.pub").status == 4
    assert not (tmp_path / "to").exists()
    assert restore("mine.pub").status == 0
    assert call("cache", "verify", "--verify-key", tmp_path / "mine.pub").status == 0
    assert call("cache", "verify", "--verify-key", tmp_path / "other.pub").status == 4
    assert call("cache", "copy", store, tmp_path / "c", "--verify-key", tmp_path / "other.pub").status == 4
    assert call("cache", "verify", "--verify-key", write()).status == 2  # not a key at all


# keeping order


def test_verify(call: Call, published: str, tmp_path: Path) -> None:
    answer = call("cache", "verify", "--deep")
    assert (answer.status, stable(answer.out, tmp_path)) == (0, "1 key, 4 parts, SIZE (every byte read): all well\n")
    document = call("cache", "verify", published[:9], "-o", "json").json
    assert (document["keys"], document["parts"], document["faults"]) == (1, 4, [])


def test_quarantine(call: Call, published: str, write: Write, tmp_path: Path) -> None:
    f = write()
    answer = call("cache", "quarantine", published[:8], "--reason", "wrong results")
    assert (answer.status, answer.out) == (0, f"key {published[:12]} is blocked: wrong results\n")
    assert "it was blocked already" in call("cache", "quarantine", published).err
    assert "2 blocked" in call("cache", "ls").out
    assert call("cache", "show", published, "-o", "json").json["keys"][0]["blocked"] == {"reason": "wrong results"}
    for how in ([published], ["--fingerprint", f]):
        refused = call("cache", "restore", *how, "--to", tmp_path / "to", "-o", "json")
        assert (refused.status, refused.json["reason"]) == (1, "key_blocked")
    assert not (tmp_path / "to").exists()
    publish = call("cache", "publish", "--cache-root", tmp_path / "node", "--fingerprint", f, "-o", "json")
    assert (publish.status, publish.json["reason"]) == (1, "key_blocked")
    assert call("cache", "quarantine", published, "--lift", "-o", "json").json["keys"][0]["blocked"] is None
    assert call("cache", "restore", published, "--to", tmp_path / "to").status == 0


def test_control(call: Call, published: str, store: Path, write: Write, tmp_path: Path) -> None:
    assert call("cache", "control").out == "restore  on\npublish  on\n"
    assert not (store / "v1/control.json").exists()
    answer = call("cache", "control", "--restore", "off", "-o", "json")
    assert (answer.status, answer.json["restore"], answer.json["publish"]) == (0, False, True)
    for how in ([published], ["--fingerprint", write()]):
        refused = call("cache", "restore", *how, "--to", tmp_path / "to", "-o", "json")
        assert (refused.status, refused.json["outcome"], refused.json["reason"]) == (1, "skipped", "restore_off")
    call("cache", "control", "--restore", "on", "--publish", "off")
    trees.vllm(tmp_path / "m", "mega-aot")
    refused = call("cache", "publish", "--cache-root", tmp_path / "m", "--fingerprint", tp2(write), "-o", "json")
    assert refused.status == 1
    one = call("cache", "publish", "--cache-root", tmp_path / "m", "--fingerprint", write(), "-o", "json")
    assert (one.status, one.json["reason"]) == (1, "publish_off")


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[]", b"{", b"[" * 100_000, b'"' + b"x" * (2 << 20) + b'"'])
def test_a_damaged_switch_is_on(call: Call, published: str, store: Path, tmp_path: Path, data: bytes) -> None:
    (store / "v1/control.json").write_bytes(data)
    answer = call("cache", "control", "-o", "json")
    assert (answer.status, answer.json["restore"], answer.json["damaged"]) == (0, True, True)
    assert "warning" in answer.err
    assert call("cache", "restore", published, "--to", tmp_path / "to").status == 0
    assert call("cache", "control", "--publish", "off", "-o", "json").json["publish"] is False
    assert call("cache", "control", "-o", "json").json["damaged"] is False


def test_copy(call: Call, published: str, store: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    dry = call("cache", "copy", store, target, "--dry-run", "-o", "json")
    assert (dry.status, dry.json["keys"], dry.json["blobs"]) == (0, [published], 4)
    assert not list(target.rglob("*.*"))
    done = call("cache", "copy", store, target, "-o", "json").json
    assert {**dry.json, "dry_run": False} == done
    again = call("cache", "copy", target, "--key", published[:8], "-o", "json")  # SRC is --store
    assert (again.status, again.json["unchanged"]) == (0, [published])
    assert call("cache", "verify", "--deep", "--store", target).status == 0
    assert call("cache", "copy").status == 2
    assert call("cache", "copy", store, target, "--key", "0" * 12).status == 1


def test_a_copy_that_is_partly_done(call: Call, published: str, store: Path, write: Write, tmp_path: Path) -> None:
    node = trees.torch(tmp_path / "torch")
    before = set(blobs(store))
    call("cache", "publish", "--cache-root", node, "--fingerprint", write("t.json", **trees.TORCH))
    next(iter(set(blobs(store)) - before)).unlink()
    answer = call("cache", "copy", store, tmp_path / "target", "-o", "json")
    assert answer.status == 5
    assert answer.json["keys"] == [published]
    assert [item["reason"] for item in answer.json["left_out"]] == ["blob-missing"]


def test_gc(call: Call, published: str, store: Path) -> None:
    nothing = call("cache", "gc", "--older-than", "30d", "-o", "json").json["domains"][0]
    assert (nothing["keys"], nothing["blobs"], nothing["noted"]) == ([], [], [])
    dry = call("cache", "gc", "--older-than", "0s", "--dry-run", "-o", "json").json
    assert dry["domains"][0]["keys"] == [published]
    assert len(call("cache", "ls", "-o", "json").json["keys"]) == 1
    kept = call("cache", "gc", "--older-than", "0s", "--keep", "1", "-o", "json").json
    assert kept["domains"][0]["keys"] == []
    gone = call("cache", "gc", "--keep", "0", "--grace", "0s", "-o", "json").json["domains"][0]
    assert gone["keys"] == [published]
    assert call("cache", "ls", "-o", "json").json["keys"] == []
    assert len(blobs(store)) == 4  # noted only
    last = call("cache", "gc", "--all-domains", "--grace", "0s", "-o", "json").json["domains"]
    assert [len(item["blobs"]) for item in last] == [4]
    assert blobs(store) == []


def test_rm(call: Call, published: str, store: Path) -> None:
    assert call("cache", "rm", published, "0" * 8).status == 1  # and nothing is removed
    dry = call("cache", "rm", published[:8], "--dry-run")
    assert (dry.status, dry.out) == (0, f"would remove key {published}\n")
    answer = call("cache", "rm", published[:8], "-o", "json")
    assert (answer.status, answer.json["keys"]) == (0, [published])
    assert call("cache", "ls", "-o", "json").json["keys"] == []


def test_stats(call: Call, published: str, tmp_path: Path) -> None:
    assert stable(call("cache", "stats").out, tmp_path) == snapshot("""\
domain          default
keys            1 (0 blocked, 0 unreadable)
entries         2
parts           4, SIZE unpacked
blobs           4, SIZE
without a name  0 blobs, SIZE
missing         0 blobs
gpu             NVIDIA H100 80GB HBM3: 1 key
engine          vllm 0.32.0: 1 key
""")
    (domain,) = call("cache", "stats", "--all-domains", "-o", "json").json["domains"]
    assert (domain["keys"], domain["entries"], domain["parts"], domain["blobs"]) == (1, 2, 4, 4)


# KEY


@pytest.mark.parametrize("verb", [["show"], ["restore", "--to", "/nowhere"], ["verify"], ["quarantine"], ["rm"]])
@pytest.mark.parametrize(
    ("digits", "status", "code"),
    [
        ("", 2, "usage"),
        ("abc", 2, "usage"),
        ("ABCDEF0123", 2, "usage"),
        ("zzzzzzzz", 2, "usage"),
        ("0" * 65, 2, "usage"),
        ("../../../etc", 2, "usage"),
        ("00000000", 1, "key-not-found"),
    ],
)
def test_a_key_that_is_none(call: Call, published: str, verb: list[str], digits: str, status: int, code: str) -> None:
    for domains in ([], ["--all-domains"]):
        answer = call("cache", *verb, digits, *domains)
        assert answer.status == status
        assert f"error[{code}]" in answer.err
    if "restore" in verb and status == 1:
        assert json.loads(call("cache", *verb, digits, "-o", "json").out)["outcome"] == "none"


def test_an_ambiguous_key(call: Call, published: str, store: Path) -> None:
    twin = published[:8] + ("0" if published[8] != "0" else "1") + published[9:]
    (manifest(store).parent / f"{twin}.json").write_bytes(b"{}")
    answer = call("cache", "show", published[:8])
    assert answer.status == 1
    assert "error[key-ambiguous]" in answer.err
    assert call("cache", "show", published[:9]).status == 0


# a real S3 server


@requires("s3")
def test_all_of_it_on_s3(
    call: Call, s3_place: Place, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**s3_place.environ, "GLOWPLUG_STORE": s3_place.url}.items():
        monkeypatch.setenv(name, value)
    node = trees.vllm(tmp_path / "node", "aot-tp2")
    f = write(tp=2)
    assert call("cache", "ls").status == 0
    none = call("cache", "restore", "--fingerprint", f, "--to", tmp_path / "to", "-o", "json")
    assert (none.status, none.json["reason"]) == (1, "no_keys")
    assert call("cache", "publish", "--cache-root", node, "--fingerprint", f).status == 0
    (key,) = call("cache", "ls", "-o", "json").json["keys"]
    digest = key["key_digest"]
    other = call("cache", "restore", "--fingerprint", write("one.json", tp=1), "--to", tmp_path / "to", "-o", "json")
    assert (other.status, other.json["reason"]) == (1, "key:tp")
    assert call("cache", "restore", digest[:8], "--to", tmp_path / "to").status == 0
    assert trees.snapshot(tmp_path / "to").items() <= trees.snapshot(node).items()
    assert call("cache", "verify", "--deep").status == 0
    assert call("cache", "copy", tmp_path / "copy", "--all-domains").status == 0
    assert call("cache", "verify", "--store", tmp_path / "copy").status == 0
    assert call("cache", "quarantine", digest).status == 0
    assert call("cache", "control", "--publish", "off").status == 0
    assert call("cache", "stats", "-o", "json").json["domains"][0]["blobs"] == 4
    assert call("cache", "rm", digest).status == 0
    assert call("cache", "gc", "-o", "json").json["domains"][0]["noted"]


@requires("s3")
@pytest.mark.parametrize("why", ["no bucket", "refused"])
def test_a_store_that_refuses(
    call: Call, s3_place: Place, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    url = "s3://no-such-bucket-here/cache" if why == "no bucket" else s3_place.url
    secret = {"AWS_SECRET_ACCESS_KEY": "wrong" * 8} if why == "refused" else {}
    for name, value in {**s3_place.environ, "GLOWPLUG_STORE": url, **secret}.items():
        monkeypatch.setenv(name, value)
    node = trees.vllm(tmp_path / "node")
    assert call("cache", "ls").status == 3
    assert call("cache", "publish", "--cache-root", node, "--fingerprint", write()).status == 3
    answer = call("cache", "restore", "--fingerprint", write(), "--to", tmp_path / "to", "-o", "json")
    assert (answer.status, answer.json["outcome"]) == (3, "failed")
    assert "error[" in answer.err
    assert "wrongwrong" not in answer.out + answer.err
