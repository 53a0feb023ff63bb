"""`make client`: a directory that works on every CPython it names, on others starts the engine plain, and stays apart from it."""

from __future__ import annotations

import ast
import json
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dev import client, pythons, pyz
from glowplug.manifests import recipe
from lab import s3
from tests.client.interpreters import find, python
from tests.client.starting import ENVIRONMENT, SHOWS, start
from tests.parts import requires

_SERVED = ("3.11", "3.12", "3.13", "3.14")
_OTHERS = ("3.6", "3.8", "3.9", "3.10")
_SHELL = ["sh", "-c", SHOWS, "engine", "two words", ""]
_ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
_OPTIONAL = {"boto3", "botocore", "cryptography", "yaml"}
"""Imported where they are asked for, by name in an error where they are not there: profiles and SSO, signatures, `-o yaml`."""


# What it is made of, without building it


def test_what_the_package_needs_is_in_the_client() -> None:
    project = tomllib.loads((client.ROOT / "pyproject.toml").read_text())
    declared = {canonicalize_name(Requirement(line).name) for line in project["project"]["dependencies"]}
    assert declared - {"pyyaml"} <= set(client.PACKAGES), "PyYAML is for manifests, which pods do not read"


def test_each_module_in_it_finds_what_it_imports() -> None:
    held = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name, _ in client.sources()}
    packages = {canonicalize_name(name).replace("-", "_") for name in client.PACKAGES} | {"backports"}
    missing = {
        (name, imported)
        for name, path in client.sources()
        if path.suffix == ".py"
        for imported in _imports(ast.parse(path.read_text()))
        if imported not in held and imported.split(".")[0] not in (sys.stdlib_module_names | packages | _OPTIONAL)
    }
    assert missing - {("glowplug/cache/zstd.py", "compression")} == set()


def _imports(node: ast.AST) -> Iterator[str]:
    """Modules that are imported wherever in the code, but for those that only type checkers import."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        if node.module == "glowplug" or (pyz.ROOT / "src" / node.module.replace(".", "/")).is_dir():
            own = [f"{node.module}.{alias.name}" for alias in node.names]
            files = [(pyz.ROOT / "src" / name.replace(".", "/")) for name in own]
            yield from (
                name for name, path in zip(own, files, strict=True) if path.is_dir() or path.with_suffix(".py").exists()
            )
        yield node.module if node.module.startswith("glowplug") else node.module.split(".")[0]
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


# What is in it

slow = pytest.mark.slow


@slow
def test_it_serves_each_python_on_each_machine_and_c_library(packed: Path) -> None:
    table = json.loads((packed / "wheels.json").read_text())
    assert set(table) == {
        f"cpython-{version}-{machine}-{libc}"
        for version in _SERVED
        for machine in ("x86_64", "aarch64")
        for libc in ("glibc", "musl")
    }
    assert {folder for folders in table.values() for folder in folders} == {
        path.relative_to(packed).as_posix() for path in (packed / "wheels").iterdir()
    }


@slow
def test_libraries_are_those_of_the_interpreter_that_gets_them(packed: Path) -> None:
    for name, folders in json.loads((packed / "wheels.json").read_text()).items():
        _, version, machine, libc = name.split("-")
        libraries = [path for folder in folders for path in (packed / folder).rglob("*.so*")]
        assert len(libraries) >= (1 if version == "3.14" else 2), name
        for library in libraries:
            header = library.read_bytes()[:20]
            assert _ELF_MACHINES[int.from_bytes(header[18:20], "little")] == machine
            assert ("musllinux" in library.as_posix()) == (libc == "musl")
            own = any(part.endswith(".libs") for part in library.parts)
            assert own or "abi3" in library.name or f"cpython-{version.replace('.', '')}" in library.name


@slow
@pytest.mark.parametrize("version", _SERVED)
def test_each_wheel_finds_what_it_requires(packed: Path, version: str) -> None:
    table = json.loads((packed / "wheels.json").read_text())
    environment = {"python_version": version, "python_full_version": f"{version}.0", "sys_platform": "linux"}
    environment |= {"platform_system": "Linux", "extra": ""}
    for folder in table[f"cpython-{version}-x86_64-glibc"]:
        (metadata,) = (packed / folder).glob("*.dist-info/METADATA")
        for line in metadata.read_text().split("\n\n")[0].splitlines():
            if line.startswith("Requires-Dist: "):
                wanted = Requirement(line.removeprefix("Requires-Dist: "))
                if Marker(str(wanted.marker)).evaluate(environment) if wanted.marker else True:
                    assert canonicalize_name(wanted.name) in client.PACKAGES
                    assert client.PACKAGES[canonicalize_name(wanted.name)] >= int(version.split(".")[1])


@slow
def test_it_is_readable_by_any_user_and_says_what_it_is_made_of(packed: Path) -> None:
    for path in packed.rglob("*"):
        assert path.stat().st_mode & 0o044 == 0o044, path
    for folder in (packed / "wheels").iterdir():
        (metadata,) = folder.glob("*.dist-info/METADATA")
        assert "License" in metadata.read_text()


@slow
def test_wheels_that_the_lock_does_not_know_are_refused(packed: Path, tmp_path: Path) -> None:
    """Those of an earlier build, in `build/wheels`, are read again each time."""
    del packed  # has fetched them
    interpreter = client.Interpreter(12, "x86_64", "glibc")
    kept = client.fetch(interpreter)[0].parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "_WHEELS", tmp_path)
        shutil.copytree(kept, tmp_path / kept.name)
        wheel = client.fetch(interpreter)[0]
        wheel.write_bytes(wheel.read_bytes() + b"\0")
        with pytest.raises(client.ClientError, match="remove it"):
            client.fetch(interpreter)


@slow
def test_the_same_sources_and_lock_give_the_same_bytes(packed: Path, tmp_path: Path) -> None:
    again = client.build(tmp_path / "client") / "glowplug"
    assert _content(again) == _content(packed)


def _content(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_mode, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


@slow
def test_it_has_bytecode_for_each_python_of_this_machine_that_it_serves(packed: Path) -> None:
    served = {
        name for name in pythons.find() if name.startswith(tuple(f"cpython-{one.replace('.', '')}-" for one in _SERVED))
    }
    assert {path.name for path in (packed / pyz.CODE).iterdir()} == served
    tags = {path.name.split(".")[-2] for path in (packed / "wheels").rglob("*.pyc")}
    assert tags == {name.rpartition("-")[0] for name in served}
    assert not list((packed / "lib").rglob("*.pyc")), "one file a Python, not one for each module"
    for compiled in (packed / "wheels").rglob("*.pyc"):
        assert compiled.read_bytes()[4:8] == b"\1\0\0\0", "it is not compared with a source"


@slow
@pytest.mark.parametrize("version", [one for one in _SERVED if find(one)])
def test_a_start_compiles_nothing(packed: Path, tmp_path: Path, version: str) -> None:
    start_of_engine = ["run", "--exec", "--cache-root", str(tmp_path), "--engine", "torch", "--", "echo", "engine"]
    for words, shown in ((start_of_engine, "glowplug.launch"), (["--version"], f"{packed}/wheels/click-")):
        started = start([python(version), "-I", "-v", str(packed), *words])
        assert started.status == 0
        assert shown in started.err
        compiled = [line for line in started.lines if line.startswith("# code object from") and ".pyc" not in line]
        assert [line for line in compiled if str(packed) in line] == []


# Started


@slow
@pytest.mark.parametrize("version", _SERVED)
def test_it_answers_the_probe_of_a_pod(packed: Path, version: str) -> None:
    assert start([python(version), "-IS", str(packed), "--probe"]).status == recipe.PROBED


@slow
@pytest.mark.parametrize("version", [*_SERVED, *_OTHERS])
@pytest.mark.parametrize("environ", [{}, {"GLOWPLUG_DISABLE": "1"}], ids=["bare", "disabled"])
def test_a_command_starts_as_it_would_without(packed: Path, version: str, environ: dict[str, str]) -> None:
    without = start(_SHELL, ENVIRONMENT | environ)
    with_it = start(
        [python(version), "-I", str(packed), "run", "--exec", "--no-publish", "--", *_SHELL], ENVIRONMENT | environ
    )
    assert (with_it.status, with_it.out) == (7, without.out)


@slow
@pytest.mark.parametrize("version", _OTHERS)
def test_a_python_that_it_does_not_serve_is_told(packed: Path, version: str) -> None:
    started = start([python(version), "-I", str(packed), "run", "--exec", "--", "echo", "engine"])
    assert (started.status, started.out) == (0, "engine\n")
    assert [line.startswith("glowplug: no_client: ") for line in started.lines] == [True]
    assert version in started.err


@slow
@pytest.mark.parametrize("version", _OTHERS)
def test_a_bake_needs_the_client(packed: Path, version: str) -> None:
    """Its engine would serve for ever and publish nothing."""
    started = start([python(version), "-I", str(packed), "run", "--exit-when-ready", "--", "echo", "engine"])
    assert (started.status, started.out) == (125, "")


@slow
def test_without_its_wheels_it_starts_the_command(packed: Path, tmp_path: Path) -> None:
    """An init container that was stopped half-way."""
    for number, lost in enumerate(("wheels.json", "wheels", "lib", "lib/glowplug/core")):
        half = tmp_path / str(number)
        shutil.copytree(packed, half, ignore=lambda folder, names: ["__pycache__"] if "__pycache__" in names else [])
        shutil.rmtree(half / lost) if (half / lost).is_dir() else (half / lost).unlink()
        argv = [python("3.11"), "-I", str(half), "run", "--exec", "--store", "s3://b/c", "--", *_SHELL]
        started = start(argv)
        assert (started.status, started.out) == (7, start(_SHELL).out), lost
        assert "Traceback" not in started.err


@slow
@requires("s3")
@pytest.mark.parametrize("version", [one for one in _SERVED if find(one)])
def test_it_reaches_a_store_with_nothing_of_the_interpreters_packages(packed: Path, version: str) -> None:
    with s3.serve(buckets=["cache"]) as server:
        argv = [python(version), "-I", "-S", "-B", str(packed), "cache", "ls", "--store", "s3://cache/x", "-o", "json"]
        started = start(argv, ENVIRONMENT | server.env())
    assert started.status == 0, started.err
    assert json.loads(started.out)["keys"] == []


@slow
@pytest.mark.parametrize("version", _SERVED)
def test_its_packages_go_before_the_engines_own(packed: Path, tmp_path: Path, version: str) -> None:
    """Which may be of any version; a package `backports` of another kind would hide a namespace of that name."""
    subprocess.run([python(version), "-m", "venv", "--without-pip", str(tmp_path / "engine")], check=True)
    (site,) = (tmp_path / "engine").glob("lib/python3.*/site-packages")
    for name in ("click", "obstore", "backports", "typing_extensions", "glowplug"):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(f"raise ImportError('the engine has another {name}')\n")
    store = tmp_path / "store"
    fields = {"domain": "default", "engine": "vllm", "engine_version": "0.21.0", "torch": "2.11.0", "gpu": "g", "tp": 1}
    fields |= {"model": "m", "cache_root": str(tmp_path / "cache")}
    (tmp_path / "f.json").write_text(json.dumps(fields))
    entry = tmp_path / "cache" / "vllm" / "torch_compile_cache" / ("a" * 10) / "rank_0_0"
    entry.mkdir(parents=True)
    (entry / "vllm_compile_cache.py").write_text("{}")
    argv = [str(tmp_path / "engine" / "bin" / "python"), "-I", str(packed), "cache", "publish"]
    argv += [
        "--store",
        store.as_uri(),
        "--cache-root",
        str(tmp_path / "cache"),
        "--fingerprint",
        str(tmp_path / "f.json"),
    ]
    started = start(argv)
    assert started.status == 0, started.err
    assert list(store.rglob("*.tar.zst")), "packed by backports.zstd"


@slow
def test_other_commands_are_not_there(packed: Path) -> None:
    started = start([python("3.11"), "-I", str(packed), "plan", "67GB"])
    assert (started.status, len(started.lines)) == (125, 1)
    assert start([python("3.11"), "-I", str(packed), "--version"]).out.startswith("glowplug ")


def test_this_machine_has_a_python_that_it_serves() -> None:
    """Else most tests here would be skipped."""
    assert any(interpreter.machine == platform.machine() for interpreter in client.interpreters())
    assert f"3.{sys.version_info.minor}" in _SERVED
