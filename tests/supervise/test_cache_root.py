"""A cache root that cannot be written: the engine starts all the same, with a private cache, and the document says why."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts import requires
from tests.supervise.machine import Done, Machine

NOBODY = 65534
SOMEBODY = 65533


def assert_private(machine: Machine, done: Done, why: str) -> None:
    assert (done.status, "miss g1" in done.out) == (0, True), done
    assert done.restore == ("skipped", "cache_root_unwritable")
    assert done.publish == ("skipped", "cache_root_unwritable")
    said = done.document["workload"]["cache_root"]
    assert said["private"] is True
    assert why in said["reason"], said
    assert why in done.err
    placed = done.document["workload"]["placed"]["TORCHINDUCTOR_CACHE_DIR"]
    assert not Path(placed).exists(), "the private cache goes with the start"
    blobs = list((machine.base / "store").rglob("*.tar.zst"))
    assert not blobs


def mount(*arguments: str) -> list[str]:
    """A prefix: in a mount namespace of its own, first mount this."""
    return ["unshare", "--mount", "sh", "-c", f'mount {" ".join(arguments)} && exec "$@"', "-"]


@requires("root")
def test_read_only(machine: Machine) -> None:
    machine.root.mkdir()
    done = machine.run(prefix=mount("-t", "tmpfs", "-o", "ro", "none", str(machine.root)))
    assert_private(machine, done, "read-only")


@pytest.mark.slow
@requires("root")
def test_no_space(machine: Machine) -> None:
    machine.root.mkdir()
    full = f"-t tmpfs -o size=4k none {machine.root} && head -c 4096 /dev/zero > {machine.root}/full"
    assert_private(machine, machine.run(prefix=mount(full)), "no space")


@pytest.mark.slow
@requires("root")
def test_no_inodes(machine: Machine) -> None:
    machine.root.mkdir()
    done = machine.run(prefix=mount("-t", "tmpfs", "-o", "nr_inodes=1", "none", str(machine.root)))
    assert_private(machine, done, "no space or no inodes")


@pytest.mark.slow
@requires("root")
def test_room_for_the_probe_and_not_for_the_bundle(machine: Machine) -> None:
    """The engine has what room there is: nothing half restored takes it."""
    assert machine.run("--bytes", "3000000").publish[0] == "published"
    machine.move()
    machine.root.mkdir()
    done = machine.run("--bytes", "10", prefix=mount("-t", "tmpfs", "-o", "size=1m", "none", str(machine.root)))
    assert (done.status, done.restore) == (0, ("failed", "no_space"))
    assert "miss g1" in done.out


def test_a_file_in_its_place(machine: Machine) -> None:
    machine.root.write_text("")
    assert_private(machine, machine.run(), str(machine.root))


@pytest.mark.slow
def test_a_link_to_nowhere(machine: Machine) -> None:
    machine.root.symlink_to(machine.base / "nowhere" / "else")
    done = machine.run()
    assert done.status == 0
    assert_private(machine, done, str(machine.root))


def test_the_users_own_variables_move_with_it(machine: Machine) -> None:
    machine.root.write_text("")
    show = "import os; print(os.environ['TRITON_CACHE_DIR'], os.environ['MINE'], os.environ['NOT_BELOW'])"
    env = {"TRITON_CACHE_DIR": f"{machine.root}/t", "MINE": str(machine.root), "NOT_BELOW": f"{machine.root}s/x"}
    command = machine.command([])
    done = machine.run(argv=[*command[: command.index("--") + 1], sys.executable, "-c", show], env=env)
    below, itself, beside = done.out.split()
    assert itself.startswith(str(machine.base / "tmp"))
    assert below == itself + "/t"
    assert beside == f"{machine.root}s/x"


@pytest.fixture
def shared() -> Iterator[Machine]:
    """A machine whose directories every user may use, as /tmp is; pytest's own are root's alone."""
    base = Path(tempfile.mkdtemp(prefix="glowplug-shared-"))
    machine = Machine(base, (base / "store").as_uri())
    for path in (base, *base.iterdir()):
        path.chmod(0o1777)
    yield machine
    machine.close()
    shutil.rmtree(base)


def as_user(uid: int) -> list[str]:
    """A prefix: as a user who is not root. Reading is allowed, since interpreter and checkout may lie in root's home."""
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *reading]


@requires("root")
def test_owned_by_another_user(shared: Machine) -> None:
    shared.root.mkdir(mode=0o755)
    assert_private(shared, shared.run(prefix=as_user(NOBODY)), "no permission")


@pytest.mark.slow
@requires("root")
def test_a_directory_below_it_is_another_users(shared: Machine) -> None:
    shared.root.mkdir()
    shared.root.chmod(0o1777)
    (shared.root / "inductor").mkdir(mode=0o755)
    assert_private(shared, shared.run(prefix=as_user(NOBODY)), "no permission")


def fallback(machine: Machine) -> tuple[Path, list[str]]:
    """A /var/tmp of the test's own, and a prefix that puts it in place for a user who may not make /compile-cache."""
    own = machine.base / "var-tmp"
    own.mkdir()
    own.chmod(0o1777)
    return own, [*mount("--bind", str(own), "/var/tmp"), *as_user(NOBODY)]


@pytest.mark.slow
@requires("root")
@pytest.mark.skipif(Path("/compile-cache").exists(), reason="/compile-cache is there: no fallback is used")
@pytest.mark.parametrize("planted", ["nothing", "own", "other owner", "open mode", "link", "file"])
def test_the_fallback_directory_is_the_users_own_or_unwritable(shared: Machine, planted: str) -> None:
    own, prefix = fallback(shared)
    place = own / f"glowplug-{NOBODY}"
    elsewhere = shared.base / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    elsewhere.chmod(0o777)
    if planted == "link":
        place.symlink_to(elsewhere)
        os.lchown(place, NOBODY, NOBODY)
    elif planted == "file":
        place.write_text("")
        os.chown(place, NOBODY, NOBODY)
    elif planted != "nothing":
        place.mkdir()
        place.chmod(0o777 if planted == "open mode" else 0o700)
        os.chown(place, *((SOMEBODY, SOMEBODY) if planted == "other owner" else (NOBODY, NOBODY)))
    command = shared.command([])
    at = command.index("--cache-root")
    done = shared.run(argv=command[:at] + command[at + 2 :], prefix=prefix)
    if planted in ("nothing", "own"):
        assert (done.status, done.publish) == (0, ("published", "")), done
        assert done.document["fingerprint"]["cache_root"]["value"] == f"/var/tmp/glowplug-{NOBODY}/compile-cache"
        assert place.stat().st_mode & 0o777 == 0o700
    else:
        assert_private(shared, done, f"glowplug-{NOBODY}")
        assert not list(elsewhere.iterdir())
