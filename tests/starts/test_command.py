"""`glowplug startup` and `glowplug report`, as they are called."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from glowplug.cli.main import main

LOGS = Path(__file__).parent / "logs"
COLD = str(LOGS / "vllm-0.32.0-aot-1-cold.log")
HIT = str(LOGS / "vllm-0.32.0-aot-2-hit.log")


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def stdin(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def as_json(capsys, *arguments):
    status = main(["startup", *arguments, "-o", "json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_log(capsys):
    assert main(["startup", COLD]) == 0
    out, err = capsys.readouterr()
    assert "compile MISS" in out
    assert "\x1b" not in out
    assert err == ""


def test_a_log_as_json(capsys):
    status, document = as_json(capsys, COLD)
    assert status == 0
    assert document["schema"] == "glowplug.startup/1"
    assert document["starts"][0]["schema"] == "glowplug.start/1"
    assert document["starts"][0]["source"] == "log"
    assert document["comparison"]["baseline"] == document["starts"][0]["id"]


def test_stdin(capsys, stdin):
    stdin(Path(HIT).read_bytes())
    status, document = as_json(capsys, "-")
    assert status == 0
    assert document["starts"][0]["verdict"]["compile"] == "hit"


def test_two_logs_are_compared(capsys):
    status, document = as_json(capsys, COLD, HIT)
    assert status == 0
    assert document["comparison"]["explains"]["phase"] == "compile"
    assert document["comparison"]["verdicts"] == ["miss", "hit"]


def test_what_was_printed_can_be_read_again(capsys, tmp_path):
    _, first = as_json(capsys, COLD, HIT)
    again = tmp_path / "again.json"
    again.write_text(json.dumps(first))
    one = tmp_path / "one.json"
    one.write_text(json.dumps(first["starts"][1]))
    status, second = as_json(capsys, str(again), str(one))
    assert status == 0
    assert second["starts"] == [*first["starts"], first["starts"][1]]


@pytest.mark.parametrize(("limit", "status"), [("20s", 1), ("2m", 0)])
def test_fail_over(capsys, limit, status):
    assert main(["startup", COLD, "--fail-over", limit]) == status
    assert bool(capsys.readouterr().err) is bool(status)


def test_a_regression_against_the_baseline(capsys):
    assert main(["startup", COLD, "--baseline", HIT]) == 1
    assert "the baseline 24" in capsys.readouterr().err
    assert main(["startup", HIT, "--baseline", COLD]) == 0


def test_help_says_what_a_regression_is(capsys):
    assert main(["startup", "--help"]) == 0
    assert "10 % and more than 1 s" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("source", ["pod/vllm-0", "deploy/vllm", "StatefulSet/vllm", "deployment.apps/vllm", "job/x"])
def test_an_object_of_a_cluster_needs_one(capsys, monkeypatch, tmp_path, source):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert main(["startup", source]) == 2
    said = capsys.readouterr().err
    assert "no kubeconfig: neither KUBECONFIG nor ~/.kube/config" in said
    assert "hint: give --kubeconfig FILE, or let KUBECONFIG name one" in said


@pytest.mark.parametrize("names", [["gone"], ["gone", "lost"]])
def test_a_kubeconfig_that_is_named_and_not_there(capsys, monkeypatch, tmp_path, names):
    files = [str(tmp_path / name) for name in names]
    monkeypatch.setenv("KUBECONFIG", ":".join(files))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main(["startup", "pod/x"]) == 2
    said = capsys.readouterr().err
    assert (
        f"KUBECONFIG names {', '.join(files)}, and {'it is not' if len(files) == 1 else 'none of them is'} there"
        in said
    )
    for command in (["agent", "release"], ["agent", "--node-name", "n", "--domain", "d", "--root", str(tmp_path)]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert files[0] in said
        assert "--kubeconfig" not in said, "which these commands do not have"


@pytest.mark.parametrize("source", ["foo/llama", "llama-bake-xyz", "nothing-here.log"])
def test_what_is_neither_a_file_nor_an_object_is_told_how_objects_are_named(capsys, source):
    assert main(["startup", source]) == 3
    said = capsys.readouterr().err
    assert f"{source}: No such file" in said
    assert "pod/NAME, deploy/NAME" in said
    assert "-n" in said


def test_a_file_of_that_name_is_a_file(tmp_path, monkeypatch):
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod" / "vllm.log").write_bytes(Path(HIT).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert main(["startup", "pod/vllm.log"]) == 0


def test_a_text_that_no_engine_wrote(capsys, tmp_path):
    (tmp_path / "x.log").write_bytes(b"\x00\xff hello\n")
    assert main(["startup", str(tmp_path / "x.log")]) == 1
    assert "--engine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["nothing-here.log"], 3),
        (["-", "-"], 2),
        ([COLD, "--engine", "ford"], 2),
        ([COLD, "--fail-over", "soon"], 2),
        ([], 2),
    ],
)
def test_faults_have_one_line(capsys, arguments, status):
    assert main(["startup", *arguments]) == status
    assert capsys.readouterr().err.startswith("error[") or not arguments


def test_a_damaged_document(capsys, tmp_path):
    (tmp_path / "d.json").write_text('{"schema": "glowplug.start/1", "id": 3}')
    assert main(["startup", str(tmp_path / "d.json")]) == 2
    assert "error[bad-document]" in capsys.readouterr().err


def test_a_page_of_documents(capsys, tmp_path):
    _, document = as_json(capsys, COLD, HIT)
    (tmp_path / "d.json").write_text(json.dumps(document))
    assert main(["report", str(tmp_path / "d.json"), "--out", str(tmp_path / "page.html")]) == 0
    assert "explains" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert main(["report", str(tmp_path / "d.json"), "--title", "Monday"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_a_page_of_something_else(capsys, tmp_path):
    (tmp_path / "d.json").write_text("{}")
    assert main(["report", str(tmp_path / "d.json")]) == 2
    assert main(["report", str(tmp_path / "d.json"), "--out", str(tmp_path / "no" / "p.html")]) == 2
    assert "error[" in capsys.readouterr().err
