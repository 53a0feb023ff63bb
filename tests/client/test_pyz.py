"""`make pyz`: what is in the archive, on which Pythons it runs, and that the engine starts whatever is wrong with it."""

from __future__ import annotations

import marshal
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dev import pythons, pyz
from glowplug.manifests import recipe
from tests.client.interpreters import python
from tests.client.starting import ENVIRONMENT, SHOWS, Started, start

_PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
_TOO_OLD = ("3.6", "3.7", "3.8")
_SHELL = ["sh", "-c", SHOWS, "engine", "two words", ""]
_LARGEST = 2_000_000
_CODE = f"{pyz.CODE}/"


def _exec(archive: Path, *command: str, interpreter: str = "3.11") -> list[str]:
    return [python(interpreter), "-I", str(archive), "run", "--exec", "--", *command]


def test_it_holds_the_packages_below_the_line_and_no_other(archive: Path) -> None:
    below = {name.removeprefix("glowplug.") for name in pyz.kernel()}
    with zipfile.ZipFile(archive) as opened:
        names = [name for name in opened.namelist() if not name.startswith(_CODE)]
    assert {name.split("/")[1] for name in names if name.count("/") > 1} == below
    assert {name for name in names if name.count("/") < 2} == {"__main__.py", "entry.py", "glowplug/__init__.py"}
    assert not [name for name in names if "__pycache__" in name]


def test_every_table_that_its_modules_read_is_in_it(archive: Path) -> None:
    wanted = {
        f"glowplug/{path.relative_to(pyz.ROOT / 'src' / 'glowplug')}"
        for package in pyz.kernel()
        for path in (pyz.ROOT / "src").joinpath(*package.split(".")).rglob("*.csv")
    }
    with zipfile.ZipFile(archive) as opened:
        assert wanted
        assert wanted <= set(opened.namelist())


def test_it_has_bytecode_for_each_python_of_this_machine(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        names = [name.removeprefix(_CODE) for name in opened.namelist() if name.startswith(_CODE)]
    assert names == [name for found in pythons.find() for name in (f"entry-{found}", found)]
    assert f"cpython-3{sys.version_info.minor}-" in " ".join(names)


def test_it_is_small(archive: Path) -> None:
    assert archive.stat().st_size <= _LARGEST


def test_the_same_sources_give_the_same_bytes(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in another checkout, whose files are of another time and may be executable."""
    shutil.copytree(pyz.ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (tmp_path / "src").rglob("*.py"):
        path.chmod(0o755)
        os.utime(path, (1e9, 1e9))
    monkeypatch.setattr(pyz, "_SOURCE", tmp_path / "src")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert pyz.build(tmp_path / "again.pyz").read_bytes() == archive.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("version", _PYTHONS)
def test_each_module_is_imported_without_any_package(archive: Path, version: str) -> None:
    program = (
        "import importlib, pkgutil, sys\n"
        f"sys.path.insert(0, {str(archive)!r})\n"
        "import glowplug\n"
        "names = [found.name for found in pkgutil.walk_packages(glowplug.__path__, 'glowplug.')]\n"
        "for name in names: importlib.import_module(name)\n"
        "print(*names)\n"
    )
    done = subprocess.run(
        [python(version), "-I", "-S", "-B", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(archive) as opened:
        modules = {name[:-3].replace("/", ".") for name in opened.namelist() if name.endswith(".py")}
    assert {name.removesuffix(".__init__") for name in modules} == {
        *done.stdout.split(),
        "glowplug",
        "__main__",
        "entry",
    }


# The engine starts


@pytest.mark.parametrize("version", [*_TOO_OLD, "3.9", "3.11"])
@pytest.mark.parametrize("environ", [{}, {"LC_ALL": "C"}, {"GLOWPLUG_DISABLE": "1"}], ids=["bare", "C", "disabled"])
def test_a_command_starts_as_it_would_without(archive: Path, version: str, environ: dict[str, str]) -> None:
    """Its words, environment, signals and open files; whatever the Python."""
    environ = ENVIRONMENT | environ
    without = start(_SHELL, environ)
    with_it = start(_exec(archive, *_SHELL, interpreter=version), environ)
    assert (with_it.status, with_it.out) == (without.status, without.out) == (7, without.out)


def test_its_process_is_the_commands(archive: Path) -> None:
    started = start(_exec(archive, "sh", "-c", "echo $$"))
    assert started.out == f"{started.pid}\n"


@pytest.mark.parametrize("version", ["3.9", "3.11"])
def test_whenever_it_is_interrupted_it_ends(archive: Path, version: str) -> None:
    """A start takes a tenth of a second and more; each is interrupted somewhat later than the one before."""
    for number in range(20):
        words = _exec(archive, "sleep", "600", interpreter=version)
        with subprocess.Popen(words, env=ENVIRONMENT, stderr=subprocess.DEVNULL, start_new_session=True) as process:
            time.sleep(0.01 * number)
            process.send_signal(signal.SIGINT)
            try:
                assert process.wait(30) != 0
            except subprocess.TimeoutExpired:
                process.kill()
                pytest.fail(f"interrupted {number}0 ms after its begin it went on")


@pytest.mark.parametrize("version", _PYTHONS)
@pytest.mark.parametrize("gone", [".py", _CODE], ids=["bytecode alone", "sources alone"])
def test_bytecode_or_sources_are_enough(archive: Path, tmp_path: Path, version: str, gone: str) -> None:
    half = _rewritten(
        archive, tmp_path / "half.pyz", without=lambda name: name != "__main__.py" and gone in name[-3:] + name[:5]
    )
    argv = [python(version), "-IS", str(half), "run", "--exec", "--engine", "torch", "--", *_SHELL]
    started = start(argv, ENVIRONMENT | {"TMPDIR": str(tmp_path), "GLOWPLUG_CACHE_ROOT": str(tmp_path / "root")})
    assert (started.status, started.out.splitlines()[0]) == (7, "engine|2|two words "), started.err
    assert not [line for line in started.lines if "failed" in line or "Error" in line], started.err
    assert (tmp_path / "root").is_dir(), "the launcher ran"


@pytest.mark.parametrize(
    "code",
    [
        *(b"", b"no such value", marshal.dumps(None), marshal.dumps(({}, b"no such stream"))),
        marshal.dumps(({"glowplug": (True, b"")}, zlib.compress(b"N"))),
    ],
)
def test_bytecode_that_cannot_be_read_is_as_good_as_none(archive: Path, tmp_path: Path, code: bytes) -> None:
    every = [f"{_CODE}{kind}{name}" for kind in ("", "entry-") for name in pythons.find()]
    broken = _rewritten(archive, tmp_path / "broken.pyz", dict.fromkeys(every, code))
    started = start(_exec(broken, "echo", "ran"))
    assert started.out == "ran\n"
    assert "engine_unknown" in started.err


def test_a_python_that_it_has_no_bytecode_for_runs_the_sources(archive: Path, tmp_path: Path) -> None:
    """Slower, and the same."""
    other = _rewritten(archive, tmp_path / "other.pyz", without=lambda name: "cpython-312-" in name)
    environ = ENVIRONMENT | {"TMPDIR": str(tmp_path), "GLOWPLUG_CACHE_ROOT": str(tmp_path / "root")}
    argv = [python("3.12"), "-IS", str(other), "run", "--exec", "--engine", "torch", "--", "echo", "ran"]
    started = start(argv, environ)
    assert (started.status, started.out) == (0, "ran\n")
    assert (tmp_path / "root").is_dir(), "the launcher ran"


@pytest.mark.parametrize("version", [one for one in _PYTHONS if one != "3.9"])
def test_what_is_compiled_beforehand_is_what_is_imported(archive: Path, version: str) -> None:
    """No module by its source, and no regular expression of a module by `re`'s own compiler."""
    program = (
        "import runpy, sys\n"
        f"sys.argv = [{str(archive)!r}, 'run', '--exec', '--engine', 'torch', '--', 'true']\n"
        f"sys.path.insert(0, {str(archive)!r})\n"
        "import os, re\n"
        "parser = sys.modules.get('re._parser') or sys.modules['sre_parse']\n"
        "parse, parsed = parser.parse, []\n"
        "parser.parse = lambda text, *more: parsed.append(text) or parse(text, *more)\n"
        "def ended(*words):\n"
        "    loaders = {type(m.__spec__.loader).__name__ for n, m in list(sys.modules.items()) if n.startswith('glowplug')}\n"
        "    print(*loaders, len(parsed), flush=True)\n"
        "    os._exit(0)\n"
        "os.execvpe = ended\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    environ = ENVIRONMENT | {"GLOWPLUG_CACHE_ROOT": "/proc/none"}
    started = start([python(version), "-ISc", program], environ)
    loaders, count = started.out.split()
    assert loaders == "_Bytecode", started.err
    assert int(count) <= 10, "what code compiles while it runs"


@pytest.mark.parametrize("version", _TOO_OLD)
def test_a_python_that_is_too_old_is_told(archive: Path, version: str) -> None:
    started = start(_exec(archive, "true", interpreter=version))
    assert (started.status, started.lines) == (
        0,
        [f"glowplug: no_client: Python {version} is too old; the engine starts plain"],
    )


def test_switched_off_nothing_of_it_is_imported(archive: Path) -> None:
    argv = [python("3.11"), "-I", "-X", "importtime", str(archive), "run", "--exec", "--", "echo", "ran"]
    started = start(argv, ENVIRONMENT | {"GLOWPLUG_DISABLE": "1"})
    assert started.out == "ran\n"
    assert "zipimport" in started.err, "imports are shown"
    assert not [line for line in started.lines if "glowplug" in line]


_FAULTS = {
    "an exception": "raise RuntimeError('broken')",
    "an exit": "raise SystemExit(3)",
    "a syntax error": "def (",
    "an endless recursion": "def f(): return f()\nf()",
    "no memory": "raise MemoryError",
    "an interrupt": "raise KeyboardInterrupt",
    "it returns": "def main(argv, environ): return None",
    "it takes other arguments": "def main(): return None",
    "a module that is not there": "import glowplug.nowhere",
    "a damaged error": "class E(Exception):\n    def __str__(self): raise ValueError('worse')\nraise E",
}


@pytest.mark.parametrize("fault", _FAULTS.values(), ids=_FAULTS.keys())
def test_whatever_the_launcher_does_the_command_starts(archive: Path, tmp_path: Path, fault: str) -> None:
    broken = _of_sources(archive, tmp_path / "broken.pyz", {"glowplug/launch/main.py": fault.encode()})
    started = start(_exec(broken, *_SHELL))
    assert (started.status, started.out) == (7, start(_SHELL).out)
    assert "Traceback" not in started.err
    assert len(started.lines) == (0 if "return None" in fault and "argv" in fault else 1), started.err


@pytest.mark.parametrize("name", ["glowplug/launch/main.py", "glowplug/core/errors.py", "glowplug/__init__.py"])
def test_a_damaged_member_is_one_line(archive: Path, tmp_path: Path, name: str) -> None:
    started = start(_exec(_of_sources(archive, tmp_path / "broken.pyz", {name: b"\0\xff"}), *_SHELL))
    assert (started.status, started.out) == (7, start(_SHELL).out)
    assert [line.startswith("glowplug: ") for line in started.lines] == [True]


def test_a_command_that_is_none_has_the_status_that_a_shell_gives(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "not-executable").write_text("")
    for environ in (ENVIRONMENT, ENVIRONMENT | {"GLOWPLUG_DISABLE": "1"}):
        assert start(_exec(archive, "no-such-command"), environ).status == 127
        assert start(_exec(archive, str(tmp_path / "not-executable")), environ).status == 126
        assert start(_exec(archive), environ).status == 125


def test_the_status_of_a_command_that_was_killed_is_its_signal(archive: Path) -> None:
    assert start(_exec(archive, "sh", "-c", "kill -TERM $$")).status == -signal.SIGTERM


def test_what_else_is_asked_of_it_is_refused_in_one_line(archive: Path) -> None:
    started = start([python("3.11"), "-I", str(archive), "cache", "ls"])
    assert (started.status, started.lines) == (
        125,
        ["glowplug: what pods carry of glowplug is run --exec, and no more"],
    )


@pytest.mark.parametrize("present", [True, False])
def test_the_words_of_a_pod_start_it(archive: Path, present: bool, tmp_path: Path) -> None:
    """As `render` and `inject` write them, with the archive and without."""
    started = _in_pod(archive if present else tmp_path / "absent.pyz")
    assert (started.status, started.out.splitlines()[0]) == (7, "engine|2|two words ")
    assert ("started as it is" in started.err) == present


_HARMS: Mapping[str, Callable[[bytes], bytes]] = {
    "empty": lambda _data: b"",
    "cut in the middle": lambda data: data[: len(data) // 2],
    "cut at the end": lambda data: data[:-1],
    "the head alone": lambda data: data[:40],
    "zeros in the middle": lambda data: data[: len(data) // 2] + bytes(4096) + data[len(data) // 2 + 4096 :],
    "one bit of bytecode": lambda data: _flipped(data, data.index(f"{_CODE}cpython-311".encode()) + 5000),
    "one bit of a source": lambda data: _flipped(data, data.index(b"glowplug/launch/main.py") + 200),
    "another sum": lambda data: data.replace(b"#", b"#0", 2)[: len(data)],
    "something else": lambda _data: b"import os\nos._exit(0)\n",
    "text": lambda _data: b"not found\n",
}


@pytest.mark.parametrize("harm", _HARMS.values(), ids=_HARMS.keys())
def test_a_damaged_archive_is_as_good_as_none(archive: Path, tmp_path: Path, harm: Callable[[bytes], bytes]) -> None:
    """Whatever is wrong with its bytes: the engine starts, and nobody says a word in its log."""
    damaged = tmp_path / "damaged.pyz"
    damaged.write_bytes(harm(archive.read_bytes()))
    started = _in_pod(damaged)
    assert (started.status, started.out.splitlines()[0], started.err) == (7, "engine|2|two words ", "")


def test_the_probe_imports_nothing(archive: Path) -> None:
    started = start([python("3.11"), "-IS", "-X", "importtime", str(archive), "--probe"])
    assert (started.status, started.out) == (recipe.PROBED, "")
    imported = {line.rpartition("|")[2].strip() for line in started.lines}
    assert not [name for name in imported if "glowplug" in name or name in ("re", "json", "signal", "enum")]


@pytest.mark.parametrize("version", _PYTHONS)
def test_a_start_does_not_import_what_takes_long(archive: Path, tmp_path: Path, version: str) -> None:
    """`inspect` alone is a tenth of all that a launcher may take; `dataclasses` asks for it unless each class is documented."""
    argv = [python(version), "-IS", "-X", "importtime", str(archive), "run", "--exec", "--cache-root", str(tmp_path)]
    started = start([*argv, "--ready-url", "http://127.0.0.1:1/", "--", "vllm", "serve", "some/model"])
    imported = {line.rpartition("|")[2].strip() for line in started.lines}
    assert "glowplug.engines.vllm.config_file" in imported
    assert not imported & {"inspect", "ast", "tokenize"}


def test_without_a_python_the_engine_starts(archive: Path) -> None:
    started = _in_pod(archive, path="/usr/sbin")
    assert (started.status, started.out.splitlines()[0], started.err) == (7, "engine|2|two words ", "")


def _in_pod(program: Path, path: str = "") -> Started:
    """A pod's words with `program` in the place of the node's archive, and Python 3.11 as its `python3`."""
    prefix = [word.replace(recipe.NODE_PROGRAM, str(program)) for word in recipe.node("/mnt/x", "default").prefix]
    assert any(str(program) in word for word in prefix)
    found = path or f"{Path(python('3.11')).parent}:{ENVIRONMENT['PATH']}"
    words = ["/bin/sh", *prefix[1:], "/bin/sh", "-c", f"PATH={ENVIRONMENT['PATH']}; {SHOWS}", *_SHELL[3:]]
    return start(words, ENVIRONMENT | {"PATH": found})


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _rewritten(
    archive: Path,
    target: Path,
    replaced: Mapping[str, bytes] = {},
    without: Callable[[str], bool] = lambda _name: False,
) -> Path:
    """The archive with other content in some members, and without others."""
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as written:
        content = {name: source.read(name) for name in source.namelist()} | dict(replaced)
        for name, data in content.items():
            if not without(name):
                written.writestr(name, data)
    return target


def _of_sources(archive: Path, target: Path, replaced: Mapping[str, bytes]) -> Path:
    """The same without bytecode, which goes before sources."""
    return _rewritten(archive, target, replaced, lambda name: name.startswith(_CODE))
