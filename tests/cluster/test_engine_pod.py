"""The engine environment of this machine in a pod: torch, its compiler, and the compile cache on the node's disk.

A whole vLLM becomes ready in such a pod too (`lab.vllm.Launch` with `--host 0.0.0.0`, the model from `Cluster.s3`); it takes three
minutes where two cores have other work, and no test of the nodes themselves needs it.
"""

from __future__ import annotations

import pytest

from lab import cluster, engine
from lab.cluster import pods
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3"), pytest.mark.slow]

_COMPILES = """
import importlib.metadata, torch
compiled = torch.compile(lambda x: torch.sin(x) + 1)
print(float(compiled(torch.zeros(8))[0]), importlib.metadata.version("vllm"))
"""


def test_the_engine_s_torch_compiles_in_a_pod_onto_the_node_s_disk() -> None:
    python = engine.build()
    with cluster.up(nodes=1) as one:
        pod = pods.pod(
            "compiles",
            [str(python), "-c", _COMPILES],
            env={"TORCHINDUCTOR_CACHE_DIR": "/compile-cache/inductor", "HOME": "/tmp"},
            host_paths={"/compile-cache": "/mnt/k8s-disks/0/compile-cache"},
            read_only=pods.engine_paths(python),
            empty_dirs=["/dev/shm"],
        )
        assert one.run(pod, seconds=200).endswith(f"1.0 {engine.VLLM_VERSION}+cpu\n")
        assert list((one.nodes["node-1"].disk / "compile-cache" / "inductor").rglob("*.so"))
