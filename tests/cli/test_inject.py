"""`glowplug inject`: files changed in place or left alone, texts passed through, and statuses that scripts can rely on."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from glowplug.manifests import recipe
from tests.cli.conftest import Call
from tests.render.injected import DEPLOYMENT, STORE, changed

REFUSED = changed(DEPLOYMENT, hostNetwork=True)
TEMPLATE = "{{- if .Values.on }}\napiVersion: v1\nkind: Pod\n{{- end }}\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Deployment in the directory that calls are made from."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "deploy.yaml"
    path.write_text(DEPLOYMENT)
    return path


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The Deployment on stdin."""
    _pipe(monkeypatch, DEPLOYMENT)
    return monkeypatch


def _pipe(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_file_is_changed_in_place_and_told(call: Call, file: Path) -> None:
    answer = call("inject", "deploy.yaml", "--store", STORE)
    assert answer.status == 0
    assert answer.out.startswith(
        "deploy.yaml: Deployment inference/llama: changed\n  label glowplug.dev/mode: direct\n"
    )
    assert f"  variable GLOWPLUG_STORE={STORE}\n" in answer.out
    spec = yaml.safe_load(file.read_text())["spec"]["template"]["spec"]
    assert [one["name"] for one in spec["initContainers"]] == ["glowplug"]
    again = call("inject", "deploy.yaml", "--store", STORE)
    assert (again.status, again.out) == (0, "deploy.yaml: Deployment inference/llama: unchanged\n")


def test_a_file_that_is_not_changed_is_not_written(call: Call, file: Path) -> None:
    call("inject", "--mode", "shared", file)
    before = file.stat()
    call("inject", "--mode", "shared", file)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_modes_and_links_stay(call: Call, file: Path) -> None:
    file.chmod(0o640)
    link = file.parent / "link.yaml"
    link.symlink_to(file.name)
    assert call("inject", "--mode", "shared", link).status == 0
    assert (link.is_symlink(), file.is_symlink(), stat.S_IMODE(file.stat().st_mode)) == (True, False, 0o640)
    assert recipe.CACHE_VOLUME in file.read_text()
    assert sorted(path.name for path in file.parent.iterdir()) == ["deploy.yaml", "link.yaml"]


def test_line_ends_and_a_mark_stay(call: Call, file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + DEPLOYMENT.replace("\n", "\r\n").encode())
    assert call("inject", file).status == 0
    data = file.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf# Our model")
    assert data.count(b"\n") == data.count(b"\r\n")


def test_stdin_goes_to_stdout_and_words_to_stderr(call: Call, file: Path, piped: pytest.MonkeyPatch) -> None:
    answer = call("inject", "--store", STORE, "-")
    assert answer.status == 0
    assert "changed" in answer.err
    assert call("inject", "--store", STORE, file).status == 0
    assert answer.out == file.read_text()


def test_a_text_with_nothing_to_change_passes_through(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, status in ((REFUSED, 1), ("# nothing\n", 1), ("kind: ConfigMap\napiVersion: v1\n", 1)):
        _pipe(monkeypatch, text)
        answer = call("inject", "-")
        assert (answer.status, answer.out) == (status, text)


def test_a_diff_is_printed_and_nothing_written(call: Call, file: Path) -> None:
    answer = call("inject", "--diff", "--mode", "shared", "deploy.yaml")
    assert (answer.status, file.read_text()) == (0, DEPLOYMENT)
    assert answer.out.startswith("--- deploy.yaml\n+++ deploy.yaml\n@@")
    assert "would be changed" in answer.err
    subprocess.run(["patch", "-p0", "-s"], input=answer.out.encode(), check=True, cwd=file.parent)
    patched = file.read_text()
    file.write_text(DEPLOYMENT)
    call("inject", "--mode", "shared", file)
    assert file.read_text() == patched


def test_the_document(call: Call, file: Path) -> None:
    (file.parent / "other.yaml").write_text(REFUSED)
    answer = call("inject", "-o", "json", "deploy.yaml", "other.yaml")
    assert answer.status == 1
    assert answer.json["schema"] == "glowplug.inject/1"
    assert (answer.json["diff"], answer.json["text"]) == (None, None)
    one, other = answer.json["objects"]
    assert (one["file"], one["object"], one["outcome"], one["reason"]) == (
        "deploy.yaml",
        "Deployment inference/llama",
        "changed",
        "",
    )
    assert "volume compile-cache (emptyDir)" in one["changes"]
    assert (other["file"], other["outcome"], other["changes"]) == ("other.yaml", "refused", [])
    assert "hostNetwork" in other["reason"]
    assert yaml.safe_load(call("inject", "-o", "yaml", file).out)["objects"][0]["outcome"] == "unchanged"


def test_the_document_of_a_diff_and_of_a_pipe(call: Call, file: Path, piped: pytest.MonkeyPatch) -> None:
    diffed = call("inject", "-o", "json", "--diff", "deploy.yaml")
    assert diffed.json["diff"] == call("inject", "--diff", "deploy.yaml").out
    assert file.read_text() == DEPLOYMENT
    through = call("inject", "-o", "json", "-")
    call("inject", file)
    assert through.json["text"] == file.read_text()


def test_what_is_refused_stays_and_the_rest_is_done(call: Call, file: Path) -> None:
    other = file.parent / "other.yaml"
    other.write_text(REFUSED)
    answer = call("inject", ".")
    assert answer.status == 1
    assert "other.yaml: Deployment inference/llama: refused: it is on the network of its node" in answer.out
    assert (other.read_text(), file.read_text() != DEPLOYMENT) == (REFUSED, True)


def test_a_charts_template_is_refused(call: Call, file: Path) -> None:
    chart = file.parent / "chart.yaml"
    chart.write_text(TEMPLATE)
    answer = call("inject", file, chart)
    assert answer.status == 1
    assert "refused: it is a chart's template: inject what `helm template` prints, through -" in answer.out
    assert chart.read_text() == TEMPLATE
    listed = call("inject", "--diff", file.parent)
    assert (listed.status, "chart.yaml" in listed.err, "chart's template" in listed.err) == (0, True, True)
    assert recipe.CACHE_VOLUME in file.read_text()


@pytest.mark.parametrize("text", ["a: [\n", "\x00", "a: b: c\n"])
def test_what_is_no_yaml_is_told_by_its_place_and_the_rest_is_done(call: Call, file: Path, text: str) -> None:
    (file.parent / "bad.yaml").write_text(text)
    answer = call("inject", "bad.yaml", file)
    assert answer.status == 2
    assert answer.err.startswith("error[bad-yaml]: bad.yaml")
    assert recipe.CACHE_VOLUME in file.read_text()


def test_one_object_of_several_is_chosen(call: Call, file: Path) -> None:
    second = DEPLOYMENT.replace("name: llama\n", "name: qwen\n", 1)
    file.write_text(f"{DEPLOYMENT}---\n{second}")
    for name in ("deployment/qwen", "Deployment/inference/qwen"):
        answer = call("inject", "--diff", "--object", name, file)
        assert answer.err.count("would be changed") == 1
        assert "Deployment inference/qwen: would be changed" in answer.err
    answer = call("inject", "--object", "Deployment/mistral", file)
    assert (answer.status, answer.out) == (1, "")
    assert "no pod with an engine is called so" in answer.err
    assert "Deployment/llama, Deployment/qwen" in answer.err


def test_objects_are_chosen_by_a_variable_too(call: Call, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("qwen", "gemma")
    file.write_text(
        "---\n".join([DEPLOYMENT, *(DEPLOYMENT.replace("name: llama\n", f"name: {one}\n", 1) for one in names)])
    )
    monkeypatch.setenv("GLOWPLUG_OBJECT", "Deployment/qwen Deployment/gemma")
    answer = call("inject", "--diff", file)
    assert answer.err.count("would be changed") == len(names)
    assert "llama: would be changed" not in answer.err


def test_a_namespace_is_given_where_the_manifest_names_none(call: Call, file: Path) -> None:
    file.write_text(DEPLOYMENT.replace("  namespace: inference\n", ""))
    assert call("inject", "--mode", "node", file).status == 1
    assert call("inject", "--mode", "node", "-n", "team-a", file).status == 0
    assert "/glowplug/store/team-a" in file.read_text()
    assert "namespace: team-a" not in file.read_text()


@pytest.mark.parametrize("mode", ["direct", "node", "shared"])
@pytest.mark.parametrize("image", [(), ("--glowplug-image", "mine/glowplug:1")])
def test_what_does_not_work_is_said_last_as_render_says_it(
    call: Call, file: Path, mode: str, image: tuple[str, ...]
) -> None:
    def warned(*words: str | Path) -> list[str]:
        return [line for line in call(*words).err.splitlines() if line.startswith("warning: ")]

    sized = ("s3://models/llama", "--size", "67GB", "--instance", "p5.48xlarge", "--engine-version", "0.21.0")
    wanted = warned("render", "deployment", *sized, "--mode", mode, *image)
    found = warned("inject", file, "--mode", mode, *image)
    assert found == wanted
    assert bool(found) == (mode == "direct" and not image)


def test_without_a_store_it_is_told_that_nothing_is_restored(call: Call, file: Path) -> None:
    assert "no --store: nothing is restored" in call("inject", file).out
    assert "no --store" not in call("inject", "--store", STORE, file).out
    assert "no --store" not in call("inject", file).out  # it stays the one that it was


def test_options_are_variables_too(call: Call, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOWPLUG_STORE", STORE)
    monkeypatch.setenv("GLOWPLUG_MODE", "direct")
    call("inject", file)
    assert STORE in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "usage"),
        (("deploy.yaml", "--mode", "both"), "usage"),
        (("deploy.yaml", "--store", ""), "usage"),
        (("deploy.yaml", "--store", "ftp://x"), "bad-store-url"),
        (("deploy.yaml", "--domain", "A B"), "usage"),
        (("deploy.yaml", "--glowplug-image", "a b"), "usage"),
        (("deploy.yaml", "--glowplug-image", "IMAGE"), "usage"),
        (("deploy.yaml", "-n", "A"), "usage"),
    ],
)
def test_wrong_usage_changes_nothing(call: Call, file: Path, arguments: tuple[str, ...], code: str) -> None:
    answer = call("inject", *arguments)
    assert (answer.status, answer.out, file.read_text()) == (2, "", DEPLOYMENT)
    assert f"error[{code}]: " in answer.err


def test_a_file_that_is_not_there_is_told(call: Call, file: Path) -> None:
    answer = call("inject", "nowhere.yaml", file)
    assert (answer.status, "nowhere.yaml" in answer.err) == (2, True)


def test_a_disk_that_is_full_keeps_the_file_whole(call: Call, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    answer = call("inject", file)
    assert (answer.status, file.read_text()) == (3, DEPLOYMENT)
    assert f"error[os]: {file}: No space left on device" in answer.err
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_values_that_are_secret_are_not_shown(call: Call, file: Path) -> None:
    env = [{"name": "VLLM_CACHE_ROOT", "value": "s3://key:hunter2@host/x"}, {"name": "HF_TOKEN", "value": "hf_secret"}]
    file.write_text(changed(DEPLOYMENT, {"env": env}))
    answer = call("inject", file)
    assert "hunter2" not in answer.out + answer.err
    assert "hf_secret" not in answer.out + answer.err


def test_a_domain_that_is_not_the_namespace_needs_a_label_and_the_command_is_printed(call: Call, file: Path) -> None:
    """In the words of `render`; the agent and the admission policy go by the label, which nothing in these files sets."""
    both = DEPLOYMENT.replace("name: llama", "name: other").replace("  namespace: inference\n", "")
    file.write_text(f"{DEPLOYMENT}---\n{both}")

    def labelled(*words: str) -> list[str]:
        err = call("inject", "--diff", "deploy.yaml", "--domain", "team-a", *words).err
        return re.findall(r"glowplug: `kubectl label namespace (\S+) glowplug\.dev/domain=team-a`, unless", err)

    assert labelled("--mode", "node") == ["inference", "NAMESPACE"]
    assert labelled("--mode", "node", "-n", "models") == ["inference", "models"]
    assert labelled("--mode", "node", "-n", "team-a", "--object", "Deployment/other") == []
    assert labelled("--mode", "node", "-n", "inference") == ["inference"]
    assert labelled("--mode", "direct", "--store", STORE) == []
