"""`glowplug lint`: inputs, forms, exit statuses, what is written and what is not."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glowplug.cli.main import main
from glowplug.lint import registry
from tests.cli.conftest import Answer, Call
from tests.lint import samples
from tests.lint.samples import DEPLOYMENT, POOL

ROOT = Path(__file__).resolve().parents[2]
RULES = {one.name: samples.documented(one) for one in samples.RULES}
CLEAN = DEPLOYMENT.replace("            - --enforce-eager\n", "").replace("OLD_", "NEW_").replace("v0.21.0", "v0.23.0")
CLEAN = CLEAN.replace("name: NEW_ONE", "name: AWS_REGION").replace("VLLM_API_KEY", "OTHER")


@pytest.fixture(autouse=True)
def _few_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command line is tested with rules that no other change moves; and in an empty directory."""
    monkeypatch.setattr(registry, "RULES", RULES)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def deploy() -> Path:
    path = Path("deploy.yaml")
    path.write_text(DEPLOYMENT)
    return path


@pytest.fixture
def piped(call: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """A call with this on stdin."""

    def run(data: str | bytes, *arguments: str) -> Answer:
        import io

        raw = data.encode() if isinstance(data, str) else data
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        return call("lint", *arguments)

    return run


# Statuses


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 1),
        (("--select", "eager"), 1),
        (("--select", "image"), 0),
        (("--select", "pool"), 0),
        (("--exit-zero",), 0),
        (("--ignore", "all"), 0),
        (("--ignore", "eager,old", "--ignore", "region,secret"), 0),
        (("--select", "nothing"), 2),
        (("--ignore", "nothing", "--exit-zero"), 2),
        (("--select", ""), 2),
        (("--size", "much"), 2),
        (("--size", ""), 2),
        (("--compute", "cloud"), 2),
        (("-o", "xml"), 2),
        (("--diff", "-o", "json"), 2),
        (("absent.yaml",), 2),
        (("absent.yaml", "--exit-zero"), 2),
    ],
)
def test_the_exit_status(call: Call, deploy: Path, arguments: tuple[str, ...], status: int) -> None:
    answer = call("lint", deploy, *arguments)
    assert answer.status == status, answer
    assert (status == 2) == answer.err.startswith("error[")


def test_findings_of_severity_info_alone_are_no_failure(call: Call, deploy: Path) -> None:
    answer = call("lint", deploy, "--select", "image", "-o", "json")
    assert answer.status == 0
    assert answer.json["summary"]["infos"] == 1


def test_a_rule_that_fails_is_told_once_and_the_others_are_heard(
    call: Call, deploy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "RULES", {**RULES, "broken": samples.documented(samples.BROKEN)})
    Path("b.yaml").write_text(DEPLOYMENT.replace("name: vllm\n", "name: b\n"))
    status = main(["lint", str(deploy), "b.yaml", "-o", "json", "--exit-zero"])
    out, err = capsys.readouterr()
    assert status == 3
    assert err.count("error[internal]") == 1
    assert "rule broken" in err
    assert "Traceback" not in err
    assert {one["rule"] for one in json.loads(out)["findings"]} >= {"broken", "eager", "old"}


def test_options_are_variables_too(call: Call, deploy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOWPLUG_SELECT", "eager,old")
    monkeypatch.setenv("GLOWPLUG_EXIT_ZERO", "1")
    monkeypatch.setenv("GLOWPLUG_OUTPUT", "json")
    answer = call("lint", deploy)
    assert answer.status == 0
    assert {one["rule"] for one in answer.json["findings"]} == {"eager", "old"}


# Inputs


def test_files_that_cannot_be_read_are_all_told_and_the_others_linted(call: Call, deploy: Path) -> None:
    Path("bad.yaml").write_text("a: [\n")
    Path("latin.yaml").write_bytes(b"a: \xe9\n")
    Path("nul.yaml").write_bytes(b"a: \0\n")
    answer = call("lint", "bad.yaml", "absent.yaml", deploy, "latin.yaml", "nul.yaml", "-o", "json")
    assert answer.status == 2
    for name in ("bad.yaml", "absent.yaml", "latin.yaml", "nul.yaml"):
        assert sum(line.startswith("error[") and name in line for line in answer.err.splitlines()) == 1, answer.err
    assert {one["file"] for one in answer.json["findings"]} == {"deploy.yaml"}
    assert answer.json["summary"]["files"] == 1


def test_of_nothing_no_findings_are_not_said(call: Call) -> None:
    Path("bad.yaml").write_text("a: [\n")
    assert call("lint", "bad.yaml").out == ""
    assert call("lint", "absent.yaml", "--fix").out == ""
    assert call("lint", "bad.yaml", "-o", "json").json["findings"] == []


def test_a_directory_is_read_all_the_way_down_but_for_what_is_hidden(call: Call) -> None:
    for name in ("a.yaml", "b.yml", "c.json", "D.YAML", "deep/er/e.yaml"):
        Path("m", name).parent.mkdir(parents=True, exist_ok=True)
        Path("m", name).write_text(json.dumps(yaml.safe_load(DEPLOYMENT)) if name == "c.json" else DEPLOYMENT)
    for name in (".hidden.yaml", ".git/f.yaml", "notes.txt", "deep/.x/g.yaml"):
        Path("m", name).parent.mkdir(parents=True, exist_ok=True)
        Path("m", name).write_text(DEPLOYMENT)
    os.mkfifo("m/pipe.yaml")
    Path("m/loop").symlink_to("..")
    answer = call("lint", "m", "--select", "eager", "-o", "json")
    files = [one["file"] for one in answer.json["findings"]]
    assert files == ["m/D.YAML", "m/a.yaml", "m/b.yml", "m/c.json", "m/deep/er/e.yaml"]
    assert answer.status == 2, "a pipe in a directory is told, not read"
    assert "m/pipe.yaml" in answer.err


def test_a_file_that_is_named_twice_is_one(call: Call, deploy: Path) -> None:
    Path("link.yaml").symlink_to(deploy)
    answer = call("lint", deploy, ".", "./deploy.yaml", "link.yaml", "--select", "eager", "-o", "json")
    assert [one["file"] for one in answer.json["findings"]] == ["deploy.yaml"]


def test_templates_of_charts_are_left_out_with_a_note(call: Call) -> None:
    Path("chart/templates").mkdir(parents=True)
    Path("chart/Chart.yaml").write_text("name: c\n")
    Path("chart/values.yaml").write_text("a: 1\n")
    Path("chart/templates/a.yaml").write_text(DEPLOYMENT.replace("name: vllm\n", 'name: "{{ .Values.name }}"\n'))
    Path("chart/templates/b.yaml").write_text(DEPLOYMENT)
    Path("loose").mkdir()
    Path("loose/t.yaml").write_text("{{- if .Values.x }}\na: 1\n{{- end }}\n")
    Path("loose/ok.yaml").write_text(DEPLOYMENT.replace("s3://bucket/model", '"{{ not helm }}"'))
    answer = call("lint", "chart", "loose", "--select", "eager", "-o", "json")
    assert answer.status == 1, answer.err
    assert [one["file"] for one in answer.json["findings"]] == ["chart/templates/b.yaml", "loose/ok.yaml"]
    for name in ("chart/templates/a.yaml", "loose/t.yaml"):
        assert sum(name in line and "template" in line for line in answer.err.splitlines()) == 1
    named = call("lint", "loose/t.yaml")
    assert named.status == 2, "who names a template means it"
    assert "helm template" in named.err


OVERLAY = """\
resources: [../base, service.yaml]
images: [{name: vllm/vllm-openai, newTag: v0.34.0}]
patches:
  - path: patch.yaml
  - target: {kind: Deployment}
    patch: "- {op: add, path: /spec/replicas, value: 2}"
"""
PATCH = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm}
spec: {template: {spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.33.0", args: [--enforce-eager]}]}}}
"""


def test_kustomizations_are_left_out_with_their_patches_and_told(call: Call) -> None:
    for name in ("base", "overlay"):
        Path(name).mkdir()
    Path("base/kustomization.yaml").write_text("resources: [deploy.yaml]\n")
    Path("base/deploy.yaml").write_text(DEPLOYMENT)
    Path("overlay/kustomization.yaml").write_text(OVERLAY)
    Path("overlay/patch.yaml").write_text(PATCH)
    Path("overlay/service.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    every = sorted(str(path) for path in Path().rglob("*.yaml") if path.parent.name)
    for paths in (["base", "overlay"], every):
        answer = call("lint", *paths, "--select", "eager", "-o", "json")
        assert [one["file"] for one in answer.json["findings"]] == ["base/deploy.yaml"]
        (line,) = answer.err.splitlines()
        assert "overlay/kustomization.yaml: left out with its patches" in line
        assert "`kustomize build overlay` prints" in line
    alone = call("lint", "overlay")
    assert alone.status == 0
    assert "kustomize build overlay" in alone.err
    assert call("lint", "base", "--select", "eager").err == "", "it changes nothing, and its files are there"
    assert "kustomize build" in call("lint", "base/kustomization.yaml").err, "its file is not"


def test_files_without_objects_are_told_in_one_line(call: Call) -> None:
    for number in range(12):
        Path(f"{number:02}.json").write_text('{"a": 1}\n')
    Path("deploy.yaml").write_text(DEPLOYMENT)
    answer = call("lint", ".", "--select", "eager")
    (line,) = answer.err.splitlines()
    assert "12 documents in 12 files are no Kubernetes objects" in line
    assert line.endswith("00.json, 01.json, 02.json and 9 more")
    Path("one").mkdir()
    Path("one/values.yaml").write_text("a: 1\n")
    assert "one/values.yaml, line 1: no Kubernetes object" in call("lint", "one").err


def test_an_empty_directory_and_manifests_without_engines(call: Call) -> None:
    Path("empty").mkdir()
    Path("other.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
    answer = call("lint", "empty", "other.yaml")
    assert answer.status == 0
    assert "empty" in answer.err
    assert "there is no pod with an engine" in answer.out


def test_stdin(piped: Callable[..., Answer]) -> None:
    answer = piped(DEPLOYMENT, "-", "--select", "eager", "-o", "json")
    assert answer.status == 1
    assert answer.json["findings"][0]["file"] == "<stdin>"


def test_a_pipe_that_is_named_is_read(call: Call, tmp_path: Path) -> None:
    """As bash's `<(helm template …)` gives it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", 'printf "%s" "$0" > "$1"', DEPLOYMENT, str(pipe)]) as writer:
        answer = call("lint", pipe, "--select", "eager", "-o", "json")
        assert writer.wait(30) == 0
    assert len(answer.json["findings"]) == 1


# Forms


def test_json_is_what_is_promised(call: Call, deploy: Path) -> None:
    answer = call("lint", deploy, "-o", "json")
    document = answer.json
    assert document["schema"] == "glowplug.lint/1"
    schema = json.loads((ROOT / "docs/schema/lint-1.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    [eager] = [one for one in document["findings"] if one["rule"] == "eager"]
    line = DEPLOYMENT.splitlines().index("            - --enforce-eager") + 1
    assert eager == {
        "rule": "eager",
        "severity": "warning",
        "file": "deploy.yaml",
        "line": line,
        "column": 15,
        "end_line": line,
        "end_column": 30,
        "object": "Deployment default/vllm",
        "message": "`--enforce-eager` turns compiling off",
        "hint": "remove it",
        "fixable": False,
        "fix": {"title": "remove --enforce-eager", "safe": False},
        "docs": "docs/rules/eager.md",
    }
    counts = document["summary"]
    assert counts["errors"] + counts["warnings"] + counts["infos"] == len(document["findings"])
    assert yaml.safe_load(call("lint", deploy, "-o", "yaml").out) == document
    unsafe = call("lint", deploy, "-o", "json", "--unsafe-fixes").json
    assert [one["fixable"] for one in unsafe["findings"] if one["rule"] == "eager"] == [True]


@pytest.mark.parametrize("form", ["text", "json", "yaml", "sarif", "github"])
def test_every_form_has_each_finding_and_no_colour(call: Call, deploy: Path, form: str) -> None:
    answer = call("lint", deploy, "-o", form)
    assert answer.status == 1
    assert "\x1b" not in answer.out
    for name in ("eager", "old", "region"):
        assert name in answer.out
    assert answer.err == ("" if form != "github" else answer.err)


def test_a_terminal_gets_colours_and_no_color_none(tmp_path: Path, deploy: Path) -> None:
    import pty

    def on_terminal(**environment: str) -> bytes:
        leader, follower = pty.openpty()
        environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | environment
        script = "from glowplug.cli.main import main; main(['lint', 'deploy.yaml', '--compute', 'karpenter'])"
        with subprocess.Popen([sys.executable, "-c", script], stdout=follower, stderr=follower, env=environ) as child:
            os.close(follower)
            shown = b""
            while True:
                try:
                    piece = os.read(leader, 65536)
                except OSError:
                    break
                if not piece:
                    break
                shown += piece
            child.wait(60)
        os.close(leader)
        return shown

    assert b"\x1b[" in on_terminal(TERM="xterm")
    assert b"\x1b[" not in on_terminal(TERM="xterm", NO_COLOR="1")


def test_annotations_hide_and_are_counted(call: Call, deploy: Path) -> None:
    text = DEPLOYMENT.replace(
        "  namespace: default\n",
        "  namespace: default\n  annotations: {ignore.glowplug.dev/eager: x, ignore.glowplug.dev/oldd: y}\n",
    )
    deploy.write_text(text)
    answer = call("lint", deploy, "-o", "json")
    assert answer.json["summary"]["ignored"] == 1
    assert "did you mean old?" in answer.err


# Fixes


def test_fix_writes_the_file_and_shows_what_is_left(call: Call, deploy: Path) -> None:
    answer = call("lint", "--fix", deploy, "-o", "json")
    assert answer.status == 1
    text = deploy.read_text()
    assert "OLD_" not in text
    assert "--enforce-eager" in text
    assert answer.json["summary"]["fixed"] >= 3
    assert {one["rule"] for one in answer.json["findings"]} == {"eager", "secret", "image"}
    before = deploy.stat()
    again = call("lint", "--fix", deploy)
    assert again.status == 1
    assert deploy.read_text() == text
    assert deploy.stat().st_mtime_ns == before.st_mtime_ns, "what is not changed is not written"
    clean = call("lint", "--fix", "--unsafe-fixes", deploy, "--ignore", "secret")
    assert clean.status == 0


def test_a_written_file_keeps_mode_and_link(call: Call, deploy: Path) -> None:
    deploy.chmod(0o640)
    real = deploy.rename("real.yaml")
    deploy.symlink_to(real)
    call("lint", "--fix", deploy)
    assert deploy.is_symlink()
    assert "OLD_" not in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in Path().iterdir()) == ["deploy.yaml", "real.yaml"]


def test_fix_of_stdin_goes_to_stdout_and_findings_to_stderr(piped: Callable[..., Answer]) -> None:
    text = DEPLOYMENT.replace("\n", "\r\n")
    answer = piped(text, "--fix", "-")
    assert answer.status == 1
    assert "OLD_" not in answer.out
    assert "--enforce-eager" in answer.out
    assert yaml.safe_load(answer.out)["kind"] == "Deployment"
    assert "warning eager" in answer.err
    again = piped(answer.out.encode(), "--fix", "-")
    assert again.out == answer.out
    assert piped(CLEAN, "--fix", "-").out == CLEAN
    assert piped("a: [", "--fix", "-").out == ""
    assert piped(DEPLOYMENT, "--fix", "-", "-o", "json").status == 2


def test_diff_writes_nothing_and_patch_makes_of_it_what_fix_makes(call: Call, deploy: Path) -> None:
    for number, text in enumerate([DEPLOYMENT.replace("\n", "\r\n"), DEPLOYMENT.rstrip("\n"), "\ufeff" + DEPLOYMENT]):
        Path(f"{number}.yaml").write_bytes(text.encode())
    Path("clean.yaml").write_text(CLEAN)
    names = sorted(str(path) for path in Path().glob("*.yaml"))
    before = {name: Path(name).read_bytes() for name in names}
    answer = call("lint", "--diff", *names)
    assert answer.status == 1
    assert {name: Path(name).read_bytes() for name in names} == before
    assert "clean.yaml" not in answer.out
    Path("p").mkdir()
    for name, data in before.items():
        Path("p", name).write_bytes(data)
    done = subprocess.run(
        ["patch", "-p0", "--binary"], cwd="p", input=answer.out.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout
    call("lint", "--fix", *names)
    for name in names:
        assert Path("p", name).read_bytes() == Path(name).read_bytes(), name
    assert call("lint", "--diff", *names).out == ""


def test_diff_of_what_is_clean_is_nothing_and_status_zero(call: Call) -> None:
    Path("clean.yaml").write_text(CLEAN)
    answer = call("lint", "--diff", "clean.yaml")
    assert (answer.status, answer.out) == (0, "")


def test_what_cannot_be_fixed_here_is_told(call: Call, deploy: Path) -> None:
    deploy.write_text(DEPLOYMENT.replace("args:\n", "args: &a\n") + "        - {name: b, image: busybox, args: *a}\n")
    answer = call("lint", "--fix", "--unsafe-fixes", deploy, "--select", "eager", "-o", "json")
    assert answer.status == 1
    assert "eager cannot be fixed here" in answer.err
    assert [one["fixable"] for one in answer.json["findings"]] == [False]


def test_a_file_that_cannot_be_written_is_told_and_the_others_are(
    call: Call, deploy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glowplug.core import atomic

    Path("other.yaml").write_text(DEPLOYMENT)
    real = atomic.rewrite

    def refusing(path: Path, data: bytes, **more: Any) -> None:
        if path.name == "deploy.yaml":
            raise PermissionError(13, "Permission denied", str(path))
        real(path, data, **more)

    monkeypatch.setattr(atomic, "rewrite", refusing)
    alone = call("lint", "--fix", "--diff", "other.yaml")
    number = int(alone.err.split("--fix would make: ")[1].split(";")[0])
    answer = call("lint", "--fix", "deploy.yaml", "other.yaml", "-o", "json")
    assert answer.status == 3
    assert "error[os]: deploy.yaml: Permission denied" in answer.err
    assert "OLD_" in deploy.read_text()
    assert "OLD_" not in Path("other.yaml").read_text()
    assert answer.json["summary"]["fixed"] == number
    assert {one["file"] for one in answer.json["findings"] if one["rule"] == "old"} == {"deploy.yaml"}


@pytest.mark.parametrize("words", [("lint", "--fix"), ("inject", "--store", "s3://b/c")])
def test_what_is_saved_while_it_runs_is_not_lost(
    call: Call, deploy: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    from glowplug.core import atomic

    Path("other.yaml").write_text(DEPLOYMENT)
    real = atomic.rewrite

    def late(path: Path, data: bytes, **more: Any) -> None:
        if path.name == "deploy.yaml":
            path.write_text("# mine\n" + DEPLOYMENT)
        real(path, data, **more)

    monkeypatch.setattr(atomic, "rewrite", late)
    answer = call(*words, "deploy.yaml", "other.yaml")
    assert answer.status == 3
    assert "error[os]: deploy.yaml: it was changed while this ran" in answer.err
    assert deploy.read_text() == "# mine\n" + DEPLOYMENT
    assert Path("other.yaml").read_text() != DEPLOYMENT
    if words[0] == "inject":
        assert "deploy.yaml: Deployment default/vllm: refused: the file could not be written" in answer.out


@pytest.mark.parametrize("form", ["text", "json", "yaml", "sarif", "github"])
@pytest.mark.parametrize("name", [b"\xff\xfe.yaml", b"a\n::error::pwn\n.yaml", b"\x1b[2J.yaml", b'a "b" %.yaml'])
def test_files_may_have_any_name(call: Call, deploy: Path, name: bytes, form: str) -> None:
    path = Path(os.fsdecode(name))
    path.write_text(DEPLOYMENT)
    answer = call("lint", path, "-o", form, "--compute", "karpenter")
    assert answer.status == 1
    assert "Traceback" not in answer.err
    assert "\n::error::pwn" not in answer.out + answer.err
    assert "\x1b[2J" not in answer.out + answer.err
    if form == "text":
        for words in (("lint", "--diff"), ("inject", "--diff"), ("inject",), ("lint", "--fix")):
            answer = call(*words, path)
            assert answer.status in (0, 1), answer.err
            assert "\n::error::pwn" not in answer.out + answer.err


def test_a_directory_whose_files_were_given_by_name_is_not_empty(call: Call, deploy: Path) -> None:
    assert "no *.yaml" not in call("lint", "deploy.yaml", ".").err
    Path("empty").mkdir()
    assert "empty: no *.yaml, *.yml or *.json in it" in call("lint", "empty", ".").err


# Whatever is given


YAMLISH = st.text(
    st.one_of(st.sampled_from("{}[]:-,&*!|>'\"%@#? \n\t\r~abkind"), st.characters(exclude_categories=("Cs",))),
    max_size=200,
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=200),
        YAMLISH,
        st.lists(
            st.sampled_from([*DEPLOYMENT.splitlines(), *POOL.splitlines(), "---", "&a", "x: *a"]), max_size=30
        ).map("\n".join),
    )
)
def test_any_bytes_are_findings_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], data: bytes | str
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.yaml"
    raw = data.encode() if isinstance(data, str) else data
    path.write_bytes(raw)
    for arguments in (["-o", "json"], ["-o", "sarif"], ["--diff", "--unsafe-fixes"], []):
        status = main(["lint", str(path), *arguments])
        out, err = capsys.readouterr()
        assert status in (0, 1, 2)
        assert "internal" not in err
        assert "Traceback" not in out + err
    assert path.read_bytes() == raw
    assert main(["lint", str(path), "--fix", "--unsafe-fixes"]) in (0, 1, 2)
    once = path.read_bytes()
    main(["lint", str(path), "--fix", "--unsafe-fixes"])
    assert path.read_bytes() == once
