"""A fixed cache_dir in vLLM's compilation configuration."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed
from tests.lint.compile.manifests import cached, pod
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "JSON": Fires(
        cached(args=["--model=/m", '--compilation-config={"cache_dir":"/compile-cache/m"}']),
        ('"/compile-cache/m"',),
        "/compile-cache/m",
    ),
    "among others": Fires(
        cached(args=["--model=/m", '-cc={"mode":3,"cache_dir":"/c","backend":"inductor"}']), ('"/c"',)
    ),
    "two words": Fires(cached(args=["--model=/m", "--compilation-config", '\'{"cache_dir": "/c"}\'']), ('"/c"',)),
    "dotted": Fires(cached(args=["--model=/m", "-cc.cache_dir=/c"]), ("/c",)),
    "in a script": Fires(cached(command=["sh", "-c"], args=["exec vllm serve /m -cc.cache_dir=/c"]), ("/c",)),
    "without a volume": Fires(pod(args=["--model=/m", '-cc={"cache_dir":"/c"}']), ('"/c"',)),
}

SILENT = {
    "no configuration": Silent(cached()),
    "another key": Silent(cached(args=["--model=/m", '-cc={"mode":3}'])),
    "empty": Silent(cached(args=["--model=/m", '-cc={"cache_dir":""}'])),
    "a directory for dumps": Silent(cached(args=["--model=/m", '-cc={"debug_dump_path":"/d"}'])),
    "nothing is compiled": Silent(cached(args=["--model=/m", "--enforce-eager", '-cc={"cache_dir":"/c"}'])),
    "no JSON": Silent(cached(args=["--model=/m", "-cc={cache_dir:/c}"])),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


@pytest.mark.parametrize(
    ("was", "mended"),
    [
        (['-cc={"mode":3,"cache_dir":"/c"}'], ['-cc={"mode":3}']),
        (['-cc={"cache_dir":"/c","mode":3}'], ['-cc={"mode":3}']),
        (['--compilation-config={"cache_dir":"/c"}'], []),
        (["-cc.mode=3", "-cc.cache_dir=/c"], ["-cc.mode=3"]),
    ],
)
def test_the_key_goes_where_vllms_own_directory_is_on_a_volume(was: list[str], mended: list[str]) -> None:
    assert fixed(RULE, cached(args=["--model=/m", *was])) == cached(args=["--model=/m", *mended])


def test_elsewhere_it_goes_only_when_that_is_asked_for() -> None:
    text = pod(args=["--model=/m", '-cc={"cache_dir":"/c","mode":3}'])
    assert fixed(RULE, text) == text
    assert fixed(RULE, text, unsafe=True) == pod(args=["--model=/m", '-cc={"mode":3}'])
