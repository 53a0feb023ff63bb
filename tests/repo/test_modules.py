"""Each module says what it owns and why; what it imports is what its place allows."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.repo import tree

PROJECT = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())
_CONTRACTS = {contract["name"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}
KERNEL = [
    name.removeprefix("glowplug.") for name in _CONTRACTS["the kernel uses the standard library only"]["source_modules"]
]
_EMPTY_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by for from has have in is it its module modules of on or package that the this to what which "
        "with glowplug glowplugs code functions classes contains implements provides helper helpers",
    )
)
_LEAST_NEW_WORDS = 5


def _says_something(name: str, docstring: str) -> bool:
    """Whether a docstring has words beyond those of the file's own path."""
    own = set(re.findall(r"[a-z]+", name.lower()))
    words = {word for word in re.findall(r"[a-z]+", docstring.lower()) if word not in _EMPTY_WORDS}
    new = {word for word in words if not any(word.startswith(part[:5]) for part in own if len(part) > 2)}
    return len(new) >= _LEAST_NEW_WORDS


@pytest.mark.parametrize("name", tree.python_files("src", "lab", "demo", "bench", "dev"))
def test_docstring_is_more_than_a_restatement(name: str) -> None:
    assert _says_something(name, ast.get_docstring(ast.parse(tree.text_of(name))) or "")


@pytest.mark.parametrize(
    "docstring", ["", "Retry.", "The retry module of the store package.", "Helpers for store retries."]
)
def test_a_restatement_is_found(docstring: str) -> None:
    assert not _says_something("src/glowplug/store/retry.py", docstring)


def _imports(name: str) -> set[str]:
    """Top-level names that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(tree.text_of(name))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def _third_party(name: str) -> set[str]:
    return _imports(name) - sys.stdlib_module_names - {"glowplug", "compression"}


def _layer(name: str) -> str:
    return Path(name).parts[2] if len(Path(name).parts) > 3 else ""


@pytest.mark.parametrize("name", [name for name in tree.python_files("src") if _layer(name) in KERNEL])
def test_the_kernel_imports_the_standard_library_only(name: str) -> None:
    """import-linter forbids the packages it is told; this forbids every other one too."""
    assert _third_party(name) == set()


_MODULES = {
    "backports": "backports.zstd",
    "botocore": "boto3",
    "prometheus_client": "prometheus-client",
    "yaml": "pyyaml",
}


def _distribution(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match
    return match[0].lower()


def test_what_the_package_imports_is_declared() -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    declared = {_distribution(line) for line in [*PROJECT["project"]["dependencies"], *(x for e in extras for x in e)]}
    imported = {_MODULES.get(module, module) for name in tree.python_files("src") for module in _third_party(name)}
    # vLLM's and torch's own modules are named in the adapters' data, never imported.
    assert imported - declared == set()


def test_the_package_imports_nothing_of_the_repository_around_it() -> None:
    around = {"lab", "demo", "bench", "dev", "tests"}
    assert {name: wrong for name in tree.python_files("src") if (wrong := _imports(name) & around)} == {}
