"""A real vLLM in a pod: the engine environment of this machine, the model from S3, compile caches on the node's disk."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from lab import cluster, engine, model
from lab.cluster import pods
from lab.vllm import READY_SECONDS, CompilePath, Launch, cache_env
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3"), pytest.mark.slow]


def test_vllm_becomes_ready_and_leaves_its_compile_cache_on_the_node(tmp_path: Path) -> None:
    python = engine.build()
    model.make(tmp_path / "model")
    with cluster.up(nodes=1, buckets=["models"]) as one:
        model.upload(tmp_path / "model", "s3://models/tiny", one.s3.env())
        launch = Launch(python, "s3://models/tiny", 8000, CompilePath.AOT, extra=("--host", "0.0.0.0"))
        pod = pods.pod(
            "vllm",
            launch.argv(),
            env=launch.env(one.s3.env()) | cache_env(Path("/compile-cache")) | {"HOME": "/tmp"},
            host_paths={"/compile-cache": "/mnt/k8s-disks/0/compile-cache"},
            read_only=pods.engine_paths(python),
            empty_dirs=["/dev/shm"],
        )
        health = {"path": "/health", "port": launch.port}
        pod["spec"]["containers"][0]["readinessProbe"] = {"httpGet": health, "periodSeconds": 1}
        one.kube.admin.create(pod)
        state = one.wait_for_pod("vllm", lambda it: pods.is_ready(it) or pods.has_ended(it), seconds=READY_SECONDS)
        assert pods.is_ready(state), one.logs("vllm")[-3000:]
        with urllib.request.urlopen(f"http://{state['status']['podIP']}:{launch.port}/v1/models", timeout=30) as answer:
            assert b"s3://models/tiny" in answer.read()
        cache = one.nodes["node-1"].disk / "compile-cache"
        assert list((cache / "vllm").rglob("*")), "vLLM's own index"
        assert list((cache / "inductor").rglob("*.so")), "what Inductor's C++ compiler made"
