"""Scripts that a container starts from a ConfigMap of the input: followed, and every option points into the ConfigMap."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.lint import checking
from tests.lint.reading import manifests, pod, text_at, workload

SCRIPT = """\
#!/bin/bash
set -euo pipefail
export VLLM_CACHE_ROOT=/cache/vllm   # kept
exec vllm serve "$MODEL" \\
  --enforce-eager \\
  --tensor-parallel-size 4 "$@"
"""
VLLM = "image: vllm/vllm-openai:v0.21.0\nenv: [{name: MODEL, value: s3://b/m}]\n"
MOUNTED = "volumeMounts: [{name: scripts, mountPath: /scripts}]\n"
WHOLE = "volumes: [{name: scripts, configMap: {name: scripts}}]"
ITEMS = "volumes: [{name: scripts, configMap: {name: scripts, items: [{key: start.sh, path: bin/go}]}}]"
PROJECTED = "volumes: [{name: scripts, projected: {sources: [{secret: {name: s}}, {configMap: {name: scripts}}]}}]"


def config_map(script: str = SCRIPT) -> str:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: scripts}\ndata:\n  start.sh: |\n"
    return head + indent(script, "    ")


@pytest.mark.parametrize(
    ("container", "spec"),
    [
        ("command: [/bin/bash, /scripts/start.sh]", WHOLE),
        ("command: [bash, -eu, /scripts/start.sh]", WHOLE),
        ("command: [/scripts/start.sh]", WHOLE),
        ("command: [sh, -c, exec /scripts/start.sh]", WHOLE),
        ("command: [sh, -c, bash /scripts/start.sh]", WHOLE),
        ("command: [tini, --, bash]\nargs: [/scripts/start.sh]", WHOLE),
        ("command: [bash, start.sh]\nworkingDir: /scripts", WHOLE),
        ("command: [bash, /scripts/bin/go]", ITEMS),
        ("command: [bash, /scripts/start.sh]", PROJECTED),
    ],
)
def test_options_stand_in_the_config_map(container: str, spec: str) -> None:
    one = workload(pod(VLLM + MOUNTED + container, spec=spec), config_map())
    engine = one.engine
    assert engine.opaque == ""
    assert engine.script.startswith(("/scripts/", "start.sh"))
    assert engine.model is not None
    assert engine.model.value == "s3://b/m"
    eager, parallel = engine.options["enforce-eager"], engine.options["tensor-parallel-size"]
    assert (text_at(eager.at), parallel.value, text_at(parallel.at)) == ("--enforce-eager", "4", "4")
    assert getattr(eager.at, "place", eager.at).source.name == "2.yaml"
    assert one.container.environment.value("VLLM_CACHE_ROOT") == "/cache/vllm"


def test_arguments_go_to_the_script() -> None:
    container = VLLM + MOUNTED + "command: [bash, /scripts/start.sh]\nargs: [--max-model-len=8192]"
    engine = workload(pod(container, spec=WHOLE), config_map()).engine
    assert engine.value("max-model-len") == "8192"


def test_a_variable_that_only_the_script_names_is_not_known() -> None:
    container = "image: vllm/vllm-openai:v0.21.0\n" + MOUNTED + "command: [bash, /scripts/start.sh]"
    engine = workload(pod(container, spec=WHOLE), config_map()).engine
    assert engine.opaque == ""
    assert engine.model is not None
    assert engine.model.value is None


@pytest.mark.parametrize(
    ("container", "script", "why"),
    [
        ("command: [bash, /elsewhere/start.sh]", SCRIPT, "a shell script in a file"),
        ("command: [bash, /scripts/other.sh]", SCRIPT, "a shell script in a file"),
        ("command: [bash, /scripts/start.sh]", "if true; then vllm serve m; fi\n", "the shell's 'if'"),
        ("command: [/scripts/start.sh]", "#!/usr/bin/env python3\nprint()\n", "a program in a file"),
        ("command: [bash, /scripts/start.sh]", "exec /scripts/start.sh\n", "a program in a file"),
        ("command: [bash, /scripts/start.sh]", "#!/bin/sh\nexec bash /scripts/start.sh\n", "more than 16 wrappers"),
    ],
)
def test_what_cannot_be_followed_is_opaque(container: str, script: str, why: str) -> None:
    read = manifests(pod(VLLM + MOUNTED + container, spec=WHOLE), config_map(script))
    (one,) = read.workloads
    assert one.engine.opaque == why
    assert why in read.notes[0]


def test_a_script_is_not_changed_since_other_pods_may_start_from_it() -> None:
    texts = [pod(VLLM + MOUNTED + "command: [bash, /scripts/start.sh]", spec=WHOLE), config_map()]
    (finding,) = checking.found("eager-mode", *texts)
    assert checking.at(finding) == "--enforce-eager"
    assert checking.fixed_all("eager-mode", texts, unsafe=True) == texts
