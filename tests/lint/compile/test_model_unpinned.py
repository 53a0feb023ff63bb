"""Models of a hub, with and without a revision."""

from __future__ import annotations

import pytest

from tests.lint.compile.manifests import pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "a name": Fires(pod(args=["--model=Qwen/Qwen3-8B"]), ("Qwen/Qwen3-8B",), "whatever its repository holds"),
    "the positional one": Fires(pod(command=["vllm", "serve"], args=["Qwen/Qwen3-8B"]), ("Qwen/Qwen3-8B",)),
    "a branch": Fires(pod(args=["--model=Qwen/Qwen3-8B", "--revision=main"]), ("main",), "is a branch"),
    "SGLang": Fires(
        pod(
            image="lmsysorg/sglang:v0.5.23",
            command=["python3", "-m", "sglang.launch_server"],
            args=["--model-path", "Qwen/Qwen3-8B"],
        ),
        ("Qwen/Qwen3-8B",),
    ),
    "a quantised file of a repository": Fires(
        pod(args=["--model=unsloth/Qwen3-0.6B-GGUF:Q4_K_M"]), ("unsloth/Qwen3-0.6B-GGUF:Q4_K_M",)
    ),
    "in a script": Fires(
        pod(command=["sh", "-c"], args=["exec vllm serve Qwen/Qwen3-8B --port 8000"]), ("Qwen/Qwen3-8B",)
    ),
    "from a variable": Fires(pod(env={"MODEL": "Qwen/Qwen3-8B"}, args=["--model=$(MODEL)"]), ("Qwen/Qwen3-8B",)),
}

SILENT = {
    "a commit": Silent(pod(args=["--model=Qwen/Qwen3-8B", "--revision=b968826d9c46dd6066d109eabc6255188de91218"])),
    "a tag": Silent(pod(args=["--model=Qwen/Qwen3-8B", "--revision", "v1.0"])),
    "a bucket": Silent(pod(args=["--model=s3://models/llama"])),
    "a directory": Silent(pod(args=["--model=/models/Qwen/Qwen3-8B"])),
    "a directory below this one": Silent(pod(args=["--model=./Qwen/Qwen3-8B"])),
    "a working directory": Silent(pod(args=["--model=models/llama"], container="workingDir: /data")),
    "offline": Silent(pod(args=["--model=Qwen/Qwen3-8B"], env={"HF_HUB_OFFLINE": "1"})),
    "a model nobody knows": Silent(pod(args=["--model=$(MODEL)"])),
    "a revision nobody knows": Silent(pod(args=["--model=Qwen/Qwen3-8B", "--revision=$(REVISION)"])),
    "a file": Silent(pod(args=["--model=models/llama.gguf"])),
    "no model": Silent(pod(args=["--port=8000"])),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)
