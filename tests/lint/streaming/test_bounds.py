"""What a load needs of the node: memory and open files."""

from __future__ import annotations

from tests.lint import checking
from tests.lint.streaming.pods import CHUNK, FORMAT, GUIDES, MODEL, Case, check, deployment, extra, streamed, table

GB = 10**9


def limited(memory: str, *args: str, **more: object) -> str:
    return streamed(*args, limits={"memory": memory}, **more)


@table(
    Case("the ring alone is more", limited("32Gi"), "'32Gi'", "loading fills 44.3 GB", size=140 * GB),
    Case("by annotation", limited("32Gi", annotations={"glowplug.dev/weights": "140GB"}), "'32Gi'"),
    Case(
        "the whole model, where its own limit is ignored",
        limited("80Gi", "-tp", "2", extra(concurrency=35, distributed=True), image=GUIDES),
        "'80Gi'",
        "149 GB",
        size=140 * GB,
    ),
    Case("without a limit of its own", limited("64Gi", extra(memory_limit=-1)), "'64Gi'", size=140 * GB),
    Case(
        "a larger one",
        limited("64Gi", env={**CHUNK, "RUNAI_STREAMER_MEMORY_LIMIT": "80000000000"}),
        "'64Gi'",
        size=140 * GB,
    ),
    Case(
        "from a disk too", deployment("--model=/models/x", FORMAT, limits={"memory": "32Gi"}), "'32Gi'", size=140 * GB
    ),
    Case("room for the ring", limited("48Gi"), size=140 * GB),
    Case("a small model", limited("32Gi"), size=16 * GB),
    Case("a smaller ring", limited("32Gi", extra(concurrency=16, memory_limit=16 * GB)), size=140 * GB),
    Case("no limit", streamed(), size=140 * GB),
    Case("no size", limited("1Gi")),
    Case("a version that nobody names", limited("32Gi", image="vllm/vllm-openai:latest"), size=140 * GB),
    Case("ranks that are elsewhere", limited("32Gi", "--pipeline-parallel-size=2"), size=140 * GB),
    Case("as large as the largest tensor", limited("32Gi", extra(memory_limit=0)), size=140 * GB),
    Case(
        "a limit from a secret",
        limited("32Gi", entries="- name: RUNAI_STREAMER_MEMORY_LIMIT\n  valueFrom: {secretKeyRef: {name: a, key: b}}"),
        size=140 * GB,
    ),
    Case("another loader", deployment("--model=/models/x", limits={"memory": "1Gi"}), size=140 * GB),
)
def test_memory(case: Case) -> None:
    check("host-memory-bound", case)


def test_the_limit_is_raised_on_request() -> None:
    text = limited("32Gi")
    assert checking.fixed("host-memory-bound", text, size=140 * GB) == text
    fixed = checking.fixed("host-memory-bound", text, size=140 * GB, unsafe=True)
    assert fixed != text
    assert "memory: '74Gi'" in fixed


def script(before: str, concurrency: int = 32) -> str:
    serve = f"exec vllm serve s3://m/x --model-loader-extra-config.concurrency={concurrency}"
    return deployment(command=("sh", "-c", f"{before}\n{serve}"))


@table(
    Case("both limits", script("ulimit -n 1024"), "1024", "needs about 2,048 open files"),
    Case("the hard one", script("ulimit -Hn 1024"), "1024"),
    Case("both, said so", script("ulimit -SHn 512", 16), "512"),
    Case(
        "in one line",
        deployment("ulimit -n 256; exec vllm serve s3://m/x", command=("sh", "-c")),
        "256",
        "needs about 512",
    ),
    Case(
        "more than a container can have",
        deployment(MODEL, FORMAT, extra(concurrency=20000), image=GUIDES),
        "20000",
        "1,048,576",
    ),
    Case("enough", script("ulimit -n 65536")),
    Case("the soft one is raised again", script("ulimit -Sn 1024")),
    Case("none", script("true")),
    Case("no limit", script("ulimit -n unlimited")),
    Case("of another kind", script("ulimit -c 0")),
    Case("few clients", script("ulimit -n 1024", 8)),
    Case("bounded by the streamer", deployment(MODEL, FORMAT, extra(concurrency=20000))),
    Case("nothing is streamed", deployment(command=("sh", "-c", "ulimit -n 64; exec vllm serve /models/x"))),
)
def test_open_files(case: Case) -> None:
    check("file-descriptor-bound", case)


def test_the_number_of_open_files_is_raised_on_request() -> None:
    text = script("ulimit -n 1024")
    assert checking.fixed("file-descriptor-bound", text) == text
    assert checking.fixed("file-descriptor-bound", text, unsafe=True) == text.replace("1024", "65536")
