"""Caches that are kept in vain."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed
from tests.lint.compile.manifests import GUIDE, ROOT, cached, field, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

AOT = "vllm/vllm-openai:v0.32.0"

FIRES = {
    "a streamed model of 0.10.2 (vllm#24460)": Fires(
        cached(image="vllm/vllm-openai:v0.10.2", env=GUIDE, args=["--model=s3://b/m", "--load-format=runai_streamer"]),
        ("vllm/vllm-openai:v0.10.2",),
        "new name at every start",
    ),
    "of 0.10.0, from Google": Fires(
        cached(image="vllm/vllm-openai:v0.10.0", env=GUIDE, args=["--model=gs://b/m"]), ("vllm/vllm-openai:v0.10.0",)
    ),
    "mode 2": Fires(cached(image=AOT, args=["--model=/m", '-cc={"mode":2}']), ('{"mode":2}',), "throws it away"),
    "mode 2 by its name": Fires(
        cached(image=AOT, args=["--model=/m", '-cc={"mode":"DYNAMO_TRACE_ONCE"}']), ('{"mode":"DYNAMO_TRACE_ONCE"}',)
    ),
    "CPUs": Fires(cached(image="vllm/vllm-openai-cpu:v0.32.0"), ("vllm/vllm-openai-cpu:v0.32.0",), "on CPUs"),
    "a directory of the pod's by subPathExpr": Fires(
        cached(
            env={"POD": field("metadata.uid"), **ROOT},
            mount="{name: compile-cache, mountPath: /compile-cache, subPathExpr: $(POD)}",
        ),
        ("$(POD)",),
    ),
    "a directory of the pod's name": Fires(
        cached(
            env={"POD": field("metadata.name"), **ROOT},
            mount="{name: compile-cache, mountPath: /compile-cache, subPathExpr: vllm/$(POD)}",
        ),
        ("vllm/$(POD)",),
    ),
    "on a volume of any name": Fires(
        pod(
            env={"POD": field("metadata.name"), "VLLM_CACHE_ROOT": "/data/$(POD)/vllm"},
            mounts=["{name: data, mountPath: /data}"],
            volumes={"data": "persistentVolumeClaim: {claimName: c}"},
        ),
        ("/data/$(POD)/vllm",),
    ),
    "a directory of the pod's by its variable": Fires(
        cached(env={"POD": field("metadata.name"), "VLLM_CACHE_ROOT": "/compile-cache/$(POD)"}),
        ("/compile-cache/$(POD)",),
    ),
}

SILENT = {
    "the guide": Silent(
        cached(image="vllm/vllm-openai:v0.21.0", env=GUIDE, args=["--model=s3://b/m", "--load-format=runai_streamer"])
    ),
    "0.10.2 with a directory": Silent(cached(image="vllm/vllm-openai:v0.10.2", args=["--model=/models/m"])),
    "0.10.2 without a cache": Silent(pod(image="vllm/vllm-openai:v0.10.2", args=["--model=s3://b/m"])),
    "0.11.0": Silent(cached(image="vllm/vllm-openai:v0.11.0", args=["--model=s3://b/m"])),
    "a version nobody knows": Silent(cached(image="vllm/vllm-openai:latest", args=["--model=s3://b/m"])),
    "mode 3": Silent(cached(image=AOT, args=["--model=/m", '-cc={"mode":3}'])),
    "mode 1 has no AOT": Silent(cached(image=AOT, args=["--model=/m", '-cc={"mode":1}'])),
    "mode 2 without AOT": Silent(
        cached(image=AOT, env={**ROOT, "VLLM_USE_AOT_COMPILE": "0"}, args=["--model=/m", '-cc={"mode":2}'])
    ),
    "mode 2 before AOT": Silent(cached(image="vllm/vllm-openai:v0.16.0", args=["--model=/m", '-cc={"mode":2}'])),
    "a newer version than was looked at": Silent(
        cached(image="vllm/vllm-openai:v0.33.0", args=["--model=/m", '-cc={"mode":2}'])
    ),
    "a StatefulSet's pods keep their names": Silent(
        cached(
            kind="StatefulSet",
            env={"POD": field("metadata.name"), **ROOT},
            mount="{name: compile-cache, mountPath: /compile-cache, subPathExpr: $(POD)}",
        )
    ),
    "a directory for each node": Silent(
        cached(
            env={"NODE": field("spec.nodeName"), **ROOT},
            mount="{name: compile-cache, mountPath: /compile-cache, subPathExpr: $(NODE)}",
        )
    ),
    "an emptyDir is the pod's anyway": Silent(
        cached(
            "emptyDir: {}",
            env={"POD": field("metadata.uid"), **ROOT},
            mount="{name: compile-cache, mountPath: /compile-cache, subPathExpr: $(POD)}",
        )
    ),
    "nothing is compiled": Silent(
        cached(image="vllm/vllm-openai:v0.10.2", args=["--model=s3://b/m", "--enforce-eager"])
    ),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_without_aot_inductors_caches_hit() -> None:
    text = cached(image=AOT, args=["--model=/m", '-cc={"mode":2}'])
    assert fixed(RULE, text) == cached(
        image=AOT, env={**ROOT, "VLLM_USE_AOT_COMPILE": "0"}, args=["--model=/m", '-cc={"mode":2}']
    )
