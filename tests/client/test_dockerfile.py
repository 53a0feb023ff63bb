"""The Dockerfile as `make image` reads it, and what a build with Docker would be given."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest

from dev import dockerfile, image
from glowplug.manifests import recipe

_TEXT = (image.ROOT / "Dockerfile").read_text()
_CONTEXT_COPY = re.compile(r"^COPY (?!--from)(.+) \S+$", re.MULTILINE)


def test_the_client_is_where_pods_look_for_it() -> None:
    copies = dockerfile.last_stage(_TEXT).copies
    assert [copy.target for copy in copies if copy.stage == "client"] == [recipe.CLIENT_SOURCE]
    assert {copy.target for copy in copies if copy.stage == "box"} == {"/bin/sh", "/bin/cp"}


def test_it_runs_as_a_user_without_rights() -> None:
    """By number: with a name, kubelet could not tell that `runAsNonRoot` holds."""
    assert dockerfile.last_stage(_TEXT).config["User"] == "65532:65532"


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
    assert dockerfile.last_stage(f"FROM other AS x\nRUN anything\nFROM scratch\n{lines}\n") == stage


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
        dockerfile.last_stage(f"FROM scratch\nUSER 1\n{line}\n")


@pytest.mark.parametrize("text", ["", "USER 1\n", "FROM scratch\nFROM busybox\n", "FROM scratch AS x\n"])
def test_another_base_is_refused(text: str) -> None:
    with pytest.raises(dockerfile.DockerfileError, match="scratch"):
        dockerfile.last_stage(text)
