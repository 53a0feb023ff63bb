"""`make image`: the archive's real content, run as an init container runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev import agent, client, image, pythons, pyz
from glowplug.manifests import recipe
from glowplug.manifests.writing import plain
from lab import cluster
from lab.cluster import pods
from tests.client import archives
from tests.parts import requires

# "kube" for Go, which builds both.
pytestmark = [pytest.mark.slow, requires("kube")]
_NAME = "registry.example/glowplug-client:test"
_WHOLE = "registry.example/glowplug:test"
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small one, for both kinds of machine."""
    return image.build(tmp_path_factory.mktemp("image") / "client.tar", stage=image.CLIENT, name=_NAME)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one for everything, on this machine's Python."""
    return image.build(tmp_path_factory.mktemp("image") / "image.tar", name=_WHOLE)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `sh` and `cp`."""
    place = tmp_path_factory.mktemp("box")
    image.build_box(place / "sh", _ARCHITECTURE)
    (place / "cp").symlink_to("sh")
    return place


def test_it_is_for_both_kinds_of_machine(built: Path) -> None:
    annotations, found = archives.read(built)
    assert annotations["io.containerd.image.name"] == _NAME
    assert [one.architecture for one in found] == ["amd64", "arm64"]
    for one, machine in zip(found, client.MACHINES, strict=True):
        assert one.config["User"] == "65532:65532"
        names = [member.name for member in one.members()]
        wheels = {name.split("/")[5] for name in names if name.startswith("opt/glowplug/client/glowplug/wheels/")}
        assert wheels
        assert all(wheel.endswith((machine, "-any")) for wheel in wheels), "no pod copies what its machine cannot use"
        assert {"opt/glowplug/LICENSE", "opt/glowplug/NOTICE", "bin/sh", "bin/cp"} <= set(names)


def test_the_same_sources_give_the_same_bytes(built: Path, tmp_path: Path) -> None:
    again = image.build(tmp_path / "again.tar", stage=image.CLIENT, name=_NAME)
    assert again.read_bytes() == built.read_bytes()


def test_of_the_whole_image_too(whole: Path, tmp_path: Path) -> None:
    again = image.build(tmp_path / "again.tar", name=_WHOLE)
    assert again.read_bytes() == whole.read_bytes()


def test_another_kind_of_machine_needs_docker_or_no_base(tmp_path: Path) -> None:
    other = next(one for one in image.ARCHITECTURES if one != _ARCHITECTURE)
    with pytest.raises(image.ImageError, match="--target client"):
        image.build(tmp_path / "x.tar", architectures=(other,))


def test_the_client_of_the_image_is_the_one_of_make_client(built: Path, tmp_path: Path) -> None:
    made = client.build(tmp_path / "client", ("x86_64",))
    _, (found, _) = archives.read(built)
    found.unpack(tmp_path / "root")
    done = subprocess.run(
        ["diff", "-r", str(made), str(tmp_path / "root" / recipe.CLIENT_SOURCE.lstrip("/"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_stage_of_docker_has_all_that_it_needs(tmp_path: Path) -> None:
    """What its COPY lines bring, and nothing else of the checkout; wheels that were fetched are lent to it."""
    for name in ("pyproject.toml", "requirements/dev.txt", "requirements/image.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(image.ROOT / name, tmp_path / name)
    for name in ("dev", "src"):
        shutil.copytree(image.ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    client.fetch(client.Interpreter(11, "aarch64", "glibc"))
    (tmp_path / "build").mkdir()
    shutil.copytree(client.ROOT / "build" / "wheels", tmp_path / "build" / "wheels")
    for name in ("client", "agent"):
        command = [sys.executable, "-m", f"dev.{name}", "--machine", "arm64"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "build" / "client" / "glowplug" / "__main__.py").is_file()
    compiled = [path.name for path in (tmp_path / "build" / "agent" / "lib").rglob("*.so")]
    assert compiled
    assert not any("x86_64" in name for name in compiled)


# Shell and cp


def test_the_programs_are_static(box: Path) -> None:
    content = (box / "sh").read_bytes()
    assert content.startswith(b"\x7fELF")
    assert b"ld-linux" not in content
    assert b"/ld-musl" not in content


@pytest.mark.parametrize(
    ("argv", "status", "out"),
    [
        (["-c", 'echo "$0|$1|$#"', "name", "two words"], 0, "name|two words|1\n"),
        (["-c", "exit 3"], 3, ""),
        (["-c", "false || echo no >&2"], 0, ""),
        (["-c", "false && echo yes"], 1, ""),
        (["-ec", "false; echo on"], 1, ""),
        (["-e", "-c", "false; echo on"], 1, ""),
        (["-c", "no-such-command"], 127, ""),
        (["-c", "if ("], 2, ""),
        (["-c", ""], 0, ""),
        (["-c"], 2, ""),
        (["-c", 'for i in 1 2; do echo "$i"; done; x=$(echo a); echo "${x:-b}"'], 0, "1\n2\na\n"),
        (["-c", "exec true; echo on"], 0, ""),
        (["-c", "cat <<X\nwords\nX"], 0, "words\n"),
        (["/no/such/file"], 2, ""),
    ],
)
def test_the_shell_does_as_a_shell_does(box: Path, argv: list[str], status: int, out: str) -> None:
    theirs = subprocess.run(["sh", *argv], capture_output=True, text=True, check=False)
    assert (theirs.returncode, theirs.stdout) == (status, out), "the shell of this machine"
    ours = subprocess.run([box / "sh", *argv], capture_output=True, text=True, check=False)
    assert (ours.returncode, ours.stdout) == (status, out), ours.stderr
    assert bool(ours.stderr) == bool(theirs.stderr)


def test_a_script_may_come_by_standard_input(box: Path) -> None:
    done = subprocess.run([box / "sh"], input="echo read\nexit 4\n", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (4, "read\n")


_COPIES = {
    "a directory into one": ["-R", "tree", "there"],
    "a directory as another": ["-R", "tree", "new"],
    "a directory over itself": ["-R", "tree/.", "there"],
    "a file into a directory": ["tree/file", "there/"],
    "a file as another": ["tree/file", "new"],
    "a file over another": ["tree/file", "there/old"],
    "several": ["-r", "tree", "tree/file", "there"],
    "several into none": ["tree/file", "tree/run", "new"],
    "a file into no directory": ["tree/file", "new/"],
    "a directory without -R": ["tree", "there"],
    "what is not there": ["-R", "nothing", "there"],
    "one of two": ["-R", "nothing", "tree", "there"],
    "into itself": ["-R", "tree", "tree/inner"],
    "a link's target": ["tree/link", "new"],
    "nothing": [],
    "no target": ["-R", "tree"],
}


@pytest.mark.parametrize("argv", _COPIES.values(), ids=_COPIES.keys())
def test_cp_does_as_cp_does(box: Path, tmp_path: Path, argv: list[str]) -> None:
    found = []
    for name, program in (("theirs", "cp"), ("ours", str(box / "cp"))):
        place = tmp_path / name
        (place / "tree" / "inner").mkdir(parents=True)
        (place / "there").mkdir()
        (place / "there" / "old").write_text("old")
        (place / "tree" / "file").write_text("words")
        (place / "tree" / "run").write_text("#!")
        (place / "tree" / "run").chmod(0o755)
        (place / "tree" / "link").symlink_to("file")
        (place / "tree" / "lost").symlink_to("/no/such")
        done = subprocess.run([program, *argv], cwd=place, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == (done.stderr == "")
        shutil.rmtree(place / "tree" / "inner" / "tree", ignore_errors=True)  # how far each got before it noticed
        found.append((done.returncode, _shown(place)))
    assert found[0] == found[1]


def test_cp_again_over_what_is_in_use(box: Path, tmp_path: Path) -> None:
    """A pod's sandbox may be made anew, and its init containers run again over what they copied, files of a mode 444 too."""
    (tmp_path / "from").mkdir()
    program = tmp_path / "from" / "program"
    shutil.copy(shutil.which("sleep") or "", program)
    program.chmod(0o555)
    copy = [str(box / "cp"), "-R", "from", "to"]
    (tmp_path / "to").mkdir()
    subprocess.run(copy, cwd=tmp_path, check=True)
    with subprocess.Popen([str(tmp_path / "to" / "from" / "program"), "60"]) as running:
        subprocess.run(copy, cwd=tmp_path, check=True)
        assert running.poll() is None
        running.kill()


def test_cp_refuses_options_that_it_does_not_know(box: Path, tmp_path: Path) -> None:
    done = subprocess.run([box / "cp", "-Z", "a", "b"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "-Z" in done.stderr


def test_a_full_disk_is_a_failure(box: Path, tmp_path: Path) -> None:
    (tmp_path / "much").write_bytes(bytes(1 << 20))
    done = subprocess.run(
        [box / "cp", str(tmp_path / "much"), "/dev/full/"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    limited = f"ulimit -f 1; exec {box / 'cp'} much more"
    done = subprocess.run(["bash", "-c", limited], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0


def _shown(place: Path) -> dict[str, object]:
    return {
        path.relative_to(place).as_posix(): str(path.readlink())
        if path.is_symlink()
        else (oct(path.stat().st_mode), "" if path.is_dir() else path.read_text())
        for path in place.rglob("*")
    }


# As an init container


@requires("root")
def test_what_an_init_container_says_is_done_by_a_user_without_rights(built: Path, tmp_path: Path) -> None:
    _, found = archives.read(built)
    root = tmp_path / "root"
    next(one for one in found if one.architecture == _ARCHITECTURE).unpack(root)
    target = root / recipe.CLIENT_MOUNT.lstrip("/")
    target.mkdir()
    target.chmod(0o777)  # as kubelet makes an emptyDir
    (container,) = plain(recipe.direct(_NAME, recipe.Start()).init_containers)
    argv = ["chroot", "--userspec=65532:65532", str(root), *container["command"]]
    assert _status(argv) == (0, "", "")
    program = root / recipe.DIRECT_PROGRAM.lstrip("/")
    assert program.is_dir()
    assert program.stat().st_uid == 65532
    argv = [sys.executable, "-I", str(program), "run", "--exec", "--", "echo", "engine"]
    assert _status(argv)[:2] == (0, "engine\n")
    target.chmod(0o555)
    shutil.rmtree(target / "client")
    status, out, err = _status(["chroot", "--userspec=65532:65532", str(root), *container["command"]])
    assert (status, out) == (0, ""), "a pod starts without its client"
    assert "glowplug: no client, the engine starts plain" in err


def _status(argv: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(argv, env={"PATH": "/usr/sbin:/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


# As the agent's image


@requires("root")
def test_its_command_runs_by_any_user_on_a_read_only_root(whole: Path, tmp_path: Path) -> None:
    _, (found,) = archives.read(whole)
    root = tmp_path / "root"
    root.mkdir()
    found.unpack(root)
    command = ["env", *found.config["Env"], "glowplug", "--version"]
    run = f"mount --bind {root} {root} && mount -o remount,bind,ro {root} && exec chroot --userspec=65532:0 {root}"
    status, out, err = _status(["unshare", "--mount", "sh", "-ec", f"{run} {' '.join(command)}"])
    assert (status, err) == (0, "")
    assert out.startswith("glowplug ")


def test_everything_in_it_has_its_bytecode(whole: Path) -> None:
    """Which a container with a read-only root could not keep."""
    _, (found,) = archives.read(whole)
    names = {member.name for member in found.members()}
    packed = f"{agent.INSTALLED.lstrip('/')}/lib/"
    sources = [name for name in names if name.startswith(packed) and name.endswith(".py")]
    tag = sys.implementation.cache_tag
    lacking = [path for path in map(Path, sources) if f"{path.parent}/__pycache__/{path.stem}.{tag}.pyc" not in names]
    assert sources
    assert lacking == []


def test_what_it_puts_on_nodes_and_into_pods_has_bytecode_for_the_pythons_that_built_it(
    whole: Path, tmp_path: Path
) -> None:
    _, (found,) = archives.read(whole)
    found.unpack(tmp_path)
    program = tmp_path / agent.INSTALLED.lstrip("/") / "lib" / "glowplug.pyz"
    with zipfile.ZipFile(program) as opened:
        held = {name.removeprefix(f"{pyz.CODE}/") for name in opened.namelist() if name.startswith(f"{pyz.CODE}/")}
    named = list(pythons.find())
    assert held == {*named, *(f"entry-{name}" for name in named)}
    code = tmp_path / recipe.CLIENT_SOURCE.lstrip("/") / "glowplug" / pyz.CODE
    assert {path.name for path in code.iterdir()} == {
        name for name in named if any(name.startswith(f"cpython-3{one.minor}-") for one in client.interpreters())
    }


@pytest.fixture
def running() -> Iterator[cluster.Cluster]:
    with cluster.up(nodes=1) as one:
        yield one


@requires("cluster")
def test_a_real_pod_of_direct_mode_starts_its_command_with_the_client(
    built: Path, whole: Path, running: cluster.Cluster
) -> None:
    """Imported by containerd, chosen by kubelet for this machine, run as no root, and started by a Python of another image."""
    for archive, name in ((built, _NAME), (whole, _WHOLE)):
        running.load_image(archive)
        warmed = recipe.direct(name, recipe.Start())
        pod = pods.pod(
            f"warmed-{archive.stem}",
            warmed.command(["python3", "-c", "import os; print('engine is process', os.getpid())"]),
            securityContext={"runAsNonRoot": True, "runAsUser": 1000},
        )
        spec = pod["spec"]
        spec["initContainers"] = [{**item, "imagePullPolicy": "Never"} for item in plain(warmed.init_containers)]
        spec["volumes"] += plain(warmed.volumes)
        spec["containers"][0]["volumeMounts"] += plain(warmed.mounts)
        out = running.run(pod)
        assert "engine is process 1" in out
        assert "no_client" not in out
        assert "no client" not in out
    told = running.run(pods.pod("told", ["glowplug", "--version"], image=_WHOLE))
    assert told.startswith("glowplug ")
