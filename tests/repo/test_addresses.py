"""No file names a path of the machine it was written on, or the address of a package index.

A path of one machine works on no other; an index address overrides what a company's machine is configured to ask.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repo import tree

# Spelt in pieces, so that this file is not its own finding. A pod has homes, too: of root in most images, of the user `vllm` in
# some, with the directories in which engines, drivers and clients keep what they have. Those are the same everywhere.
_OF_TOOLS = r"\.(?:cache|triton|nv|aws|config|\.\.)(?![\w-])"
MACHINE_PATHS = [
    r"(?<![\w.~$}-])/(?:wo" + r"rk|fa" + r"rm)/",
    r"(?<![\w.~$}-])/ro" + rf"ot/(?!{_OF_TOOLS})",
    r"/ho" + rf"me/(?!user\b|USER\b|\$|<|vllm/{_OF_TOOLS})[a-z]\w*/",
    r"\.py" + r"env/",
    r"/tmp/ba" + r"sh_jobs",
    r"/tmp/py" + r"test-of-",
]
INDEX_ADDRESSES = [
    r"py" + r"pi\.org",
    "python" + "hosted",
    r"download\.py" + r"torch\.org",
    r"registry\.n" + r"pmjs",
    r"proxy\.go" + r"lang\.org",
    r"static\.cra" + r"tes\.io",
    r"--(?:extra-)?index" + r"-url",
    r"--find" + r"-links",
]


def _findings(patterns: list[str], text: str) -> list[str]:
    joined = re.compile("|".join(patterns))
    return [line.strip()[:120] for line in text.splitlines() if joined.search(line)]


@pytest.mark.parametrize("patterns", [MACHINE_PATHS, INDEX_ADDRESSES], ids=["machine paths", "index addresses"])
def test_no_file_has_one(patterns: list[str]) -> None:
    found = {name: lines for name in tree.files() if (lines := _findings(patterns, tree.text_of(name)))}
    assert found == {}


def test_no_file_names_this_checkout_or_home() -> None:
    here = [str(path) for path in (tree.ROOT, Path.home()) if len(path.parts) > 2]
    assert [name for name in tree.files() if any(path in tree.text_of(name) for path in here)] == []


@pytest.mark.parametrize(
    "line",
    [
        "cd /wo" + "rk/main",
        'open("/ro' + 'ot/project/x")',
        "/ro" + "ot/.venv/bin/python",
        "/ro" + "ot/.cacher/x",
        "/ho" + "me/alice/src",
        "/ho" + "me/alice/.cache/vllm",
        "/ho" + "me/vllm/glowplug/src",
        "pip install --index" + "-url https://mirror/simple x",
        "https://py" + "pi.org/simple",
    ],
)
def test_the_patterns_find_such_lines(line: str) -> None:
    assert _findings(MACHINE_PATHS + INDEX_ADDRESSES, line)


@pytest.mark.parametrize(
    "line",
    [
        "s3://bucket/wo" + "rk/x",
        "{name: a, mountPath: /ro" + "ot/.cache}",
        "/ro" + "ot/.cache/vllm",
        "/ro" + "ot/.aws/credentials",
        "/ro" + "ot/.nv/ComputeCache",
        "/ho" + "me/vllm/.cache/vllm",
        'env={"HOME": "/ho' + 'me/vllm"}',
        "$HO" + "ME/x",
        "build/wo" + "rk/",
    ],
)
def test_the_patterns_leave_others_alone(line: str) -> None:
    assert not _findings(MACHINE_PATHS + INDEX_ADDRESSES, line)
