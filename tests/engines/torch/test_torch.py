"""A program that calls torch.compile, as cli.md states it."""

from __future__ import annotations

import pytest

from glowplug.core.errors import UsageError
from glowplug.engines.adapter import Launch, Trace
from glowplug.engines.command import see_through
from glowplug.engines.registry import recognise
from glowplug.tree.model import File, Index


def launch(argv: list[str], environ: dict[str, str] | None = None) -> Launch:
    found = recognise(see_through(argv, environ or {}), None, "torch").launch
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("argv", "model"),
    [
        (["python3", "./dir/train.py", "--x"], "./dir/train.py"),
        (["python3", "-u", "-m", "package.train"], "package.train"),
        (["/usr/local/bin/my-trainer", "--x"], "/usr/local/bin/my-trainer"),
        (["sh", "-c", "exec python3 train.py"], "train.py"),
    ],
)
def test_the_model_is_the_script_as_spelled(argv: list[str], model: str) -> None:
    assert launch(argv).model == model


def test_the_world_is_the_tensor_parallel_size() -> None:
    assert launch(["python3", "t.py"]).layout.tp == 1
    found = launch(["torchrun", "--nproc-per-node=2", "t.py"])
    assert (found.layout.tp, found.local_ranks) == (2, 2)
    assert launch(["python3", "t.py"], {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}).local_ranks is None
    with pytest.raises(UsageError):
        launch(["python3", "t.py"], {"WORLD_SIZE": "many"})


def test_one_entry() -> None:
    found = recognise(see_through(["python3", "t.py"], {}), None, "torch")
    assert found.adapter is not None
    assert found.launch is not None
    paths = [
        "inductor/fxgraph/a/b/c",
        "inductor/aotautograd/d/e",
        "inductor/ab/x.py",
        "triton/x",
        "inductor/fxgraph/a/.1.2.tmp",
    ]
    tree = Index({path: File(path, 1, "0" * 64, 0o644, 1) for path in paths})
    (entry,) = found.adapter.entries(tree, found.launch)
    assert entry.index_files == ("inductor/aotautograd/d/e", "inductor/fxgraph/a/b/c")
    assert "not finished" in entry.incomplete
    assert found.adapter.entries(Index({}), found.launch) == ()
    assert found.adapter.log_reader().trace() == Trace()


def test_nothing_is_ready_but_quiet() -> None:
    assert launch(["python3", "t.py"]).ready_url is None


def test_environment_of_the_key() -> None:
    found = launch(["python3", "t.py"], {"TORCHINDUCTOR_MAX_AUTOTUNE": "1", "VLLM_USE_AOT_COMPILE": "1", "HOME": "/x"})
    assert found.env == {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}
