"""Real vLLM beyond the five paths: tensor parallel, a bundle without its support, and what is another key."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest

from demo import engines
from glowplug.cache import commit
from glowplug.cache.format import ENTRY, Manifest
from glowplug.cache.lookup import keys
from glowplug.core.clock import Deadline
from glowplug.store.schemes import open_store
from tests.engine.conftest import MODEL, Fleet, told, verdicts
from tests.parts import requires

pytestmark = [requires("engine", "s3"), pytest.mark.slow]


def test_tensor_parallel_two(fleet: Fleet) -> None:
    rows = [fleet.start(node, tensor_parallel=2) for node in ("first", "new")]
    assert verdicts(rows) == ["miss", "hit"], [told(row) for row in rows]
    assert rows[1].start["restore"]["outcome"] == "restored"
    assert rows[0].start["fingerprint"]["tp"]["value"] == 2


def test_an_entry_without_its_support_is_partial_and_other_starts_have_other_keys(fleet: Fleet) -> None:
    cold = fleet.start("first")
    assert cold.verdict == "miss", told(cold)
    command = engines.Vllm(fleet.python, MODEL)
    shown = fleet.site.node("desk").run(
        [
            sys.executable,
            "-m",
            "glowplug",
            "fingerprint",
            "--domain",
            "demo",
            "--cache-root",
            str(fleet.site.cache_root),
            "-o",
            "json",
            "--",
            *command.command(),
        ],
        fleet.server.env() | command.env(),
    )
    assert json.loads(shown.stdout)["key_digest"] == cold.start["key_digest"], shown.stderr

    _assert_other_keys(fleet)

    _drop_support(fleet)
    new = fleet.start("new", options=("--no-publish",))
    assert new.start["restore"]["outcome"] == "restored", told(new)
    assert new.verdict == "partial", told(new)
    seconds = new.start["verdict"]["compile_seconds"]
    assert seconds is not None
    assert seconds > 5


def _assert_other_keys(fleet: Fleet) -> None:
    """An argument of the allow-list, another path of the same model, TP, another cache root: nothing fits, and it says why."""
    for extra, model_url, tensor_parallel, field in (
        (("--max-num-batched-tokens", "1024"), MODEL, 1, "key:args.max_num_batched_tokens"),
        ((), "s3://models/tiny-llama-copy", 1, "key:model"),
        ((), MODEL, 2, "key:tp"),
    ):
        row = fleet.restored_only(model_url=model_url, tensor_parallel=tensor_parallel, extra=extra)
        assert (row["restore"]["outcome"], row["restore"]["reason"]) == ("none", field), row["restore"]


def _drop_support(fleet: Fleet) -> None:
    store = open_store(fleet.store, fleet.server.env())
    deadline = Deadline.after(30)
    (place,) = list(keys(store, "demo", deadline))

    def decide(current: Manifest | None) -> Manifest | None:
        assert current is not None
        return dataclasses.replace(current, parts=tuple(part for part in current.parts if part.kind == ENTRY))

    assert commit.change(store, place.path, decide, deadline) is not None
