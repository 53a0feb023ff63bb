"""The Dockerfile as `make image` reads it, and what a build with Docker would be given."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest

from dev import agent, dockerfile, image
from glowplug.manifests import recipe

_TEXT = (image.ROOT / "Dockerfile").read_text()
_CONTEXT_COPY = re.compile(r"^COPY (?!--from)(.+) \S+$", re.MULTILINE)


_IMAGES = ("", image.CLIENT)


@pytest.mark.parametrize("name", _IMAGES)
def test_the_client_is_where_pods_look_for_it(name: str) -> None:
    targets = {copy.target: copy.sources for copy in dockerfile.stage(_TEXT, name).copies if copy.stage == "packed"}
    assert targets[recipe.CLIENT_SOURCE] == ("/src/build/client",)


def test_the_small_image_has_a_shell_of_its_own_and_no_base() -> None:
    stage = dockerfile.stage(_TEXT, image.CLIENT)
    assert {copy.target for copy in stage.copies if copy.stage == "box"} == {"/bin/sh", "/bin/cp"}
    assert stage.base == "scratch"


def test_the_agent_lies_where_its_bytecode_and_its_command_say() -> None:
    stage = dockerfile.stage(_TEXT)
    assert dockerfile.Copy("packed", ("/src/build/agent",), agent.INSTALLED) in stage.copies
    assert f"{agent.INSTALLED}/bin" in str(stage.config["Env"])


def test_the_agent_is_packed_by_the_python_that_runs_it() -> None:
    assert dockerfile.stage(_TEXT).base == "${PYTHON}"
    assert re.search(r"^FROM --platform=\$BUILDPLATFORM \$\{PYTHON\} AS packed$", _TEXT, re.MULTILINE)


def test_each_python_of_engines_images_compiles() -> None:
    """The base's own beside those of other images, each on PATH and known to run."""
    base = re.search(r"^ARG PYTHON=.*/python:(3\.\d+)-slim$", _TEXT, re.MULTILINE)
    brought = re.findall(r"^COPY --from=python(\d)(\d+) /usr/local /opt/python\1\.\2$", _TEXT, re.MULTILINE)
    found = [f"{major}.{minor}" for major, minor in brought]
    assert base
    assert [*found, base[1]] == ["3.10", "3.11", "3.12", "3.13"]
    assert f"ENV PATH=$PATH:{':'.join(f'/opt/python{version}/bin' for version in found)}\n" in _TEXT
    assert f"RUN for version in {' '.join(found)}; do" in _TEXT
    for version in found:
        name = version.replace(".", "")
        assert f"ARG PYTHON{name}=docker.io/library/python:{version}-slim\n" in _TEXT
        assert f"FROM --platform=$BUILDPLATFORM ${{PYTHON{name}}} AS python{name}\n" in _TEXT


@pytest.mark.parametrize("name", _IMAGES)
def test_it_runs_as_a_user_without_rights(name: str) -> None:
    """By number: with a name, kubelet could not tell that `runAsNonRoot` holds."""
    assert dockerfile.stage(_TEXT, name).config["User"] == "65532:65532"


def test_docker_is_sent_what_the_stages_copy_and_little_else() -> None:
    sent = [line[1:] for line in (image.ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = {word.rstrip("/") for rest in _CONTEXT_COPY.findall(_TEXT) for word in rest.split()}
    assert copied
    for path in copied:
        assert (image.ROOT / path).exists(), path
        assert any(fnmatch(path, allowed) or path.startswith(f"{allowed}/") for allowed in sent), path
    for allowed in sent:
        assert any(path == allowed or path.startswith(f"{allowed}/") for path in copied), allowed


@pytest.mark.parametrize(
    ("lines", "stage"),
    [
        ("COPY a b", dockerfile.Stage((dockerfile.Copy("", ("a",), "b"),))),
        ("COPY --from=x /a /b \\\n /c/", dockerfile.Stage((dockerfile.Copy("x", ("/a", "/b"), "/c/"),))),
        ("# COPY a b\n\nUSER 1:2", dockerfile.Stage((), {"User": "1:2"})),
        ("WORKDIR /x", dockerfile.Stage((), {"WorkingDir": "/x"})),
        ('CMD ["a", "b c"]', dockerfile.Stage((), {"Cmd": ["a", "b c"]})),
        ('ENV A=b C="d e"\nENV F=g', dockerfile.Stage((), {"Env": ["A=b", "C=d e", "F=g"]})),
        ('LABEL a.b="c d" e=f', dockerfile.Stage((), {"Labels": {"a.b": "c d", "e": "f"}})),
    ],
)
def test_what_is_understood(lines: str, stage: dockerfile.Stage) -> None:
    assert dockerfile.stage(f"FROM other AS x\nRUN anything\nFROM scratch\n{lines}\n") == stage


def test_a_stage_by_its_name_ends_where_the_next_begins() -> None:
    text = "FROM a AS one\nUSER 1\nFROM b AS two\nUSER 2\n"
    assert dockerfile.stage(text, "one") == dockerfile.Stage((), {"User": "1"}, "a")
    assert dockerfile.stage(text) == dockerfile.Stage((), {"User": "2"}, "b")


@pytest.mark.parametrize(
    "line",
    [
        *("RUN make", "ENTRYPOINT x", "ADD a b", "ARG X", "SHELL x", "copy a b"),
        *("COPY a", "COPY --chown=1 a b", "COPY --from=x --chmod=1 a b", "COPY *.py b", "COPY $A b", 'COPY ["a", "b"]'),
        *("CMD a b", 'CMD {"a": 1}', "CMD [1]", "ENV A b", "ENV A=$B", "LABEL a"),
    ],
)
def test_what_is_not_understood_is_refused_and_named(line: str) -> None:
    with pytest.raises(dockerfile.DockerfileError, match=re.escape(line)):
        dockerfile.stage(f"FROM scratch\nUSER 1\n{line}\n")


@pytest.mark.parametrize("line", ["FROM --platform=x base", "FROM a b", "FROM a AS b c"])
def test_another_form_of_from_is_refused(line: str) -> None:
    with pytest.raises(dockerfile.DockerfileError, match="not understood"):
        dockerfile.stage(f"{line}\n")


@pytest.mark.parametrize(("text", "name"), [("", ""), ("USER 1\n", ""), ("FROM a AS b\n", "c"), ("FROM b\n", "b")])
def test_a_stage_that_is_not_there_is_told(text: str, name: str) -> None:
    with pytest.raises(dockerfile.DockerfileError):
        dockerfile.stage(text, name)
