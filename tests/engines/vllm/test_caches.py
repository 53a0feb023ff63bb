"""Trees of all versions: which files are an entry, when it is whole, what may travel, where caches are put."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.documents.fingerprint import Layout
from glowplug.engines.adapter import Entry, Launch, Placement, Reach
from glowplug.engines.registry import by_name
from glowplug.engines.vllm import caches
from glowplug.tree.model import File, Index

RECORDINGS = Path(__file__).parents[3] / "lab" / "recordings"
AOT = "vllm/torch_compile_cache/torch_aot_compile/" + "a" * 64
OLD_AOT = "vllm/torch_aot_compile/" + "b" * 64
PIECEWISE = "vllm/torch_compile_cache/0123456789"


def launch(tp: int = 1, pp: int = 1, ranks: int | None = 1, **args: str) -> Launch:
    return Launch(engine="vllm", model="m", layout=Layout(tp=tp, pp=pp), args=args, env={}, local_ranks=ranks)


def index(*paths: str, empty: tuple[str, ...] = ()) -> Index:
    return Index({path: File(path, 0 if path in empty else 9, "0" * 64, 0o644, 1) for path in paths})


def adapter():
    found = by_name("vllm")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ([f"{AOT}/rank_0_0/model"], ["torch_aot_compile/" + "a" * 64]),
        ([f"{OLD_AOT}/rank_0_0/model"], ["torch_aot_compile/" + "b" * 64]),
        ([f"{OLD_AOT}/rank_/model"], ["torch_aot_compile/" + "b" * 64]),
        ([f"{PIECEWISE}/rank_0_0/vllm_compile_cache.py"], ["torch_compile_cache/0123456789"]),
        ([f"{PIECEWISE}/rank_0_0/backbone/vllm_compile_cache.py"], ["torch_compile_cache/0123456789"]),
        ([f"{PIECEWISE}/rank_0_0/backbone/computation_graph.py"], []),
        (
            [f"{PIECEWISE}/rank_0_0/backbone/vllm_compile_cache.py", f"{AOT}/rank_0_0/model", "inductor/fxgraph/a/b/c"],
            ["torch_aot_compile/" + "a" * 64, "torch_compile_cache/0123456789"],
        ),
        (["inductor/fxgraph/a/b/c", "inductor/aotautograd/x/y"], ["inductor"]),
        (["huggingface/x", "vllm/assets/model_streamer/x/config.json"], []),
    ],
)
def test_entries(paths: list[str], names: list[str]) -> None:
    found = adapter().entries(index(*paths), launch())
    # The name of Inductor's own entry ends in a digest of what can be looked up in it.
    assert [
        entry.name.partition("-")[0] if entry.name.startswith("inductor") else entry.name for entry in found
    ] == names
    assert all(entry.incomplete == "" for entry in found)


def test_directories_of_inductor_inside_a_key_directory_are_support() -> None:
    tree = index(f"{AOT}/rank_0_0/model", f"{AOT}/inductor_cache/fxgraph/x", f"{PIECEWISE}/rank_0_0/triton_cache/x")
    (entry,) = adapter().entries(tree, launch())
    assert entry.files == (f"{AOT}/rank_0_0/model",)
    assert all(adapter().reach(path) is Reach.PORTABLE for path in tree.files)


@pytest.mark.parametrize(
    ("paths", "who", "why"),
    [
        ([f"{AOT}/rank_{rank}_0/model" for rank in range(7)], launch(tp=8, ranks=8), "7 of 8 ranks"),
        ([f"{AOT}/rank_0_0/model", f"{AOT}/rank_0_0/model.77.tmp"], launch(), "not finished"),
        ([f"{AOT}/rank_0_0/model", f"{AOT}/rank_0_0/tmpfcuo1nv4"], launch(), "not finished"),
        ([f"{AOT}/rank_0_0/model.77.tmp"], launch(), "not finished"),
        (
            [f"{PIECEWISE}/rank_0_0/b/vllm_compile_cache.py", f"{PIECEWISE}/rank_0_0/b/.1.2.tmp"],
            launch(),
            "not finished",
        ),
        ([f"{AOT}/rank_0_0/model"], launch(tp=16, ranks=None), "several nodes"),
        (
            [f"{PIECEWISE}/rank_{r}_0/b/vllm_compile_cache.py" for r in (0, 1)]
            + [f"{PIECEWISE}/rank_0_0/eagle/vllm_compile_cache.py"],
            launch(tp=2, ranks=2),
            "rank_1_0/eagle",
        ),
    ],
)
def test_what_is_not_whole_says_so(paths: list[str], who: Launch, why: str) -> None:
    assert why in adapter().entries(index(*paths), who)[0].incomplete


@pytest.mark.parametrize(
    "name", [f"{AOT}/rank_0_0/model", f"{PIECEWISE}/rank_0_0/b/artifact_compile_range_1_2048_subgraph_0"]
)
def test_an_empty_artifact_is_not_whole(name: str) -> None:
    paths = [f"{AOT}/rank_0_0/model", f"{PIECEWISE}/rank_0_0/b/vllm_compile_cache.py", name]
    assert any("is empty" in entry.incomplete for entry in adapter().entries(index(*paths, empty=(name,)), launch()))


def test_pipeline_stages_may_have_different_parts() -> None:
    paths = [f"{PIECEWISE}/rank_{r}_0/b/vllm_compile_cache.py" for r in (0, 1)] + [
        f"{PIECEWISE}/rank_1_0/eagle/vllm_compile_cache.py"
    ]
    assert adapter().entries(index(*paths), launch(pp=2, ranks=2))[0].incomplete == ""


@pytest.mark.parametrize(
    ("path", "reach"),
    [
        (f"{AOT}/inductor_cache/x", Reach.PORTABLE),
        ("vllm/modelinfos/x.json", Reach.PORTABLE),
        ("vllm/flashinfer_autotune_cache/0.6/90a/x/autotune_configs.json", Reach.PORTABLE),
        ("triton/x/y.cubin", Reach.PORTABLE),
        ("flashinfer/.cache/flashinfer/0.6/90a/cached_ops/x/build.ninja", Reach.PORTABLE),
        ("nv/x", Reach.PORTABLE),
        ("vllm/startup_plan/startup_plan_x.json", Reach.NODE_LOCAL),
        ("vllm/gpu_p2p_access_cache_for_0,1.json", Reach.NODE_LOCAL),
        ("vllm/assets/model_streamer/x/config.json", Reach.NEVER),
        ("vllm/xla_cache/x", Reach.NEVER),
        ("huggingface/token", Reach.NEVER),
        ("pip/http/x", Reach.NEVER),
        ("vllm/anything", Reach.NEVER),
        ("token", Reach.NEVER),
    ],
)
def test_reach(path: str, reach: Reach) -> None:
    assert adapter().reach(path) is reach


@pytest.mark.parametrize(
    "path",
    [
        "inductor/locks/x.lock",
        "inductor/ab/.12474.140606567874240.tmp",
        "triton/tmp.pid_7_ab/x.json",
        f"{AOT}/rank_0_0/model.9.tmp",
        "a/.glowplug-tmp-00",
    ],
)
def test_temporary(path: str) -> None:
    assert adapter().is_temporary(path)


@pytest.mark.parametrize(
    "path",
    [
        f"{AOT}/rank_0_0/model",
        "flashinfer/x/.ninja_log",
        "flashinfer/x/.ninja_deps",
        "triton/x/k.cubin",
        "deep_gemm/cache/x",
    ],
)
def test_not_temporary(path: str) -> None:
    assert not adapter().is_temporary(path)


def test_a_start_that_compiles_nothing_has_no_entry() -> None:
    assert recorded_entries(RECORDINGS / "eager" / "1-cold.json") == ()


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(RECORDINGS.glob("*/*.json")) if path.parent.name != "eager"],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_recorded_trees(path: Path) -> None:
    found = recorded_entries(path)
    assert found
    assert all(entry.incomplete == "" for entry in found)
    kind = path.parent.name.removesuffix("-support-lost")
    assert found[0].name.startswith(
        {"stock": "inductor", "vllm-compile": "torch_compile_cache"}.get(kind, "torch_aot_compile")
    )


def recorded_entries(path: Path) -> tuple[Entry, ...]:
    recording = json.loads(path.read_text())
    tree = Index(
        {
            item["path"]: File(item["path"], item["size"], item["sha256"], item["mode"], item["mtime_ns"])
            for item in recording["after"]
        }
    )
    tp = recording["argv"].count("-tp") + 1
    left = [name for name in tree.files if adapter().reach(name) is Reach.NEVER]
    assert left == []
    return adapter().entries(tree, launch(tp=tp, ranks=tp))


def place(
    environ: dict[str, str], version: str = "0.32.0", *, gpu: bool = True, who: Launch | None = None
) -> Placement:
    return adapter().place("/compile-cache", who or launch(), environ, engine_version=version, gpu=gpu)


def test_everything_is_placed_below_the_root() -> None:
    found = place({"HOME": "/root", "USER": "root"})
    assert found.variables["VLLM_CACHE_ROOT"] == "/compile-cache/vllm"
    assert {value.split("/")[2] for value in found.variables.values()} == {
        "vllm",
        "inductor",
        "triton",
        "flashinfer",
        "deep_gemm",
        "nv",
    }
    assert "/tmp/torchinductor_root" in found.escapes
    assert "/root/.nv/ComputeCache" in found.escapes
    assert found.costs == ()


def test_a_users_own_variables_are_kept_and_cost_what_they_cost() -> None:
    found = place(
        {
            "TRITON_CACHE_DIR": "/elsewhere",
            "TORCHINDUCTOR_CACHE_DIR": "/compile-cache/inductor",
            "CUDA_CACHE_PATH": "/compile-cache/other",
        }
    )
    assert found.kept == {"TRITON_CACHE_DIR": "/elsewhere", "CUDA_CACHE_PATH": "/compile-cache/other"}
    assert "TRITON_CACHE_DIR" not in found.variables
    assert len(found.costs) == 1
    assert "TRITON_CACHE_DIR=/elsewhere" in found.costs[0]
    assert "/elsewhere" in found.escapes


def test_a_variable_that_vllm_overwrites_costs_nothing() -> None:
    environ = {"TORCHINDUCTOR_CACHE_DIR": "/elsewhere"}
    assert place(environ).costs == ()
    assert place(environ, "0.19.1").costs != ()
    assert place({**environ, "VLLM_USE_AOT_COMPILE": "0"}).costs != ()


@pytest.mark.parametrize(
    ("version", "environ", "names"),
    [
        ("0.8.5", {}, {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}),
        ("0.9.2", {}, {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}),
        # torch 2.7 has nothing that the switch could switch to.
        ("0.10.1.1", {"VLLM_USE_STANDALONE_COMPILE": "1"}, {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}),
        ("0.10.2", {}, set()),
        ("0.10.2", {"VLLM_USE_STANDALONE_COMPILE": "0"}, {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}),
        ("0.11.0", {}, {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}),
        ("0.11.0", {"VLLM_USE_STANDALONE_COMPILE": "1"}, set()),
        ("0.11.2", {}, set()),
        ("0.21.0", {}, {"TORCHINDUCTOR_CACHE_DIR"}),
        ("0.21.0", {"VLLM_USE_AOT_COMPILE": "0"}, set()),
        ("0.33.0", {"VLLM_USE_STANDALONE_COMPILE": "0"}, {"TORCHINDUCTOR_CACHE_DIR"}),
    ],
)
def test_which_variables_vllm_sets_itself(version: str, environ: dict[str, str], names: set[str]) -> None:
    assert caches.overwritten(version, environ) == names
    own = {"TORCHINDUCTOR_CACHE_DIR": "/elsewhere", "TRITON_CACHE_DIR": "/elsewhere"}
    told = {cost.partition("=")[0] for cost in place({**environ, **own}, version).costs if "leads out" in cost}
    assert told == own.keys() - names


def test_headers_of_inductor_are_an_escape_on_cpu_only() -> None:
    assert place({}, gpu=False).variables["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] == "0"
    assert "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS" not in place({}).variables
    assert "149 MB" in place({"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "1"}, gpu=False).costs[0]


def test_a_streamed_model_makes_the_streamer_speak() -> None:
    streamed = Launch("vllm", "s3://b/m", Layout(), {}, {})
    assert place({}, who=streamed).variables["RUNAI_STREAMER_LOG_TO_STDERR"] == "1"
    assert "RUNAI_STREAMER_LOG_TO_STDERR" not in place({}).variables


@pytest.mark.parametrize(
    ("version", "told"),
    [("0.21.0", True), ("0.22.1", False), ("0.12.0", True), ("1.0.0", False)],
)
def test_what_makes_vllm_miss_is_named_for_its_versions(version: str, *, told: bool) -> None:
    costs = place({"VLLM_NIXL_SIDE_CHANNEL_HOST": "10.0.0.1"}, version).costs
    assert any("VLLM_NIXL_SIDE_CHANNEL_HOST" in cost for cost in costs) is told


PARTS = st.sampled_from(
    [
        "vllm",
        "torch_compile_cache",
        "torch_aot_compile",
        "a" * 64,
        "0123456789",
        "rank_0_0",
        "rank_",
        "model",
        "inductor",
        "fxgraph",
        "x.tmp",
        "",
        ".",
    ]
)


@given(st.lists(st.lists(st.one_of(PARTS, st.text(max_size=5)), max_size=6).map("/".join), max_size=6))
def test_any_tree(paths: list[str]) -> None:
    for entry in adapter().entries(index(*paths), launch()):
        assert set(entry.index_files) <= set(entry.files) <= set(paths)
        assert not any(adapter().is_temporary(path) for path in entry.files)
