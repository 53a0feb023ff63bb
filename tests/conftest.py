"""What holds for every test: parts that are lacking, parts that must not be, and the closing line.

`parts.py` says what a part is. Here a test's `requires(…)` becomes markers (for `-m`), a skip (where a part is lacking), or a
failure (where GLOWPLUG_TEST_REQUIRE names the part: then not even a test's own `pytest.skip` passes, but for parts that nothing
could bring to this machine).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import parts

if TYPE_CHECKING:
    from lab import kube

# The time of one example says nothing on a busy machine; what must be quick has a test of its own.
settings.register_profile("glowplug", deadline=None)
settings.load_profile("glowplug")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "requires(*parts): needs these parts of tests/parts.py")
    for part in parts.PARTS.values():
        config.addinivalue_line("markers", f"{part.name}: needs {part.meaning}")
    try:
        parts.required()
    except KeyError as error:
        raise pytest.UsageError(
            f"{parts.ENVIRONMENT}: no part is called {error}; there are {', '.join(parts.PARTS)}"
        ) from None


def pytest_itemcollected(item: pytest.Item) -> None:
    for mark in item.iter_markers("requires"):
        for name in mark.args:
            item.add_marker(name)


def pytest_runtest_setup(item: pytest.Item) -> None:
    # The first that is found speaks for all: what nothing could bring goes before what something could.
    for name in sorted(_parts_of(item), key=lambda name: not parts.impossible(name)):
        reason = parts.lacking(name)
        if reason:
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    wanted = _parts_of(item)
    insisted = wanted & parts.required()
    if report.skipped and insisted and not _excused(wanted) and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but {parts.ENVIRONMENT} requires {', '.join(sorted(insisted))}: {report.longrepr}"
    return report


def _excused(wanted: frozenset[str]) -> bool:
    """Whether a skip is right: nothing could bring a part here, or all that is lacking is what nobody insists on."""
    if any(map(parts.impossible, wanted)):
        return True
    lacking = {name for name in wanted if parts.lacking(name)}
    return bool(lacking) and not lacking & parts.required()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The plain closing line; errors in set-up and tear-down count as failures."""
    stats = terminalreporter.stats
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    passed, skipped = len(stats.get("passed", [])), len(stats.get("skipped", []))
    terminalreporter.write_line(f"{passed} passed, {failed} failed, {skipped} skipped")


@pytest.fixture(scope="session")
def kube_server() -> Iterator[kube.Server]:
    """The one API server of the session, with Karpenter's and Auto Mode's kinds; for tests that `requires("kube")`.

    Tests make namespaces of their own in it, and end what holds for the whole cluster.
    """
    from lab import kube

    with kube.serve() as server:
        server.install_crds(kube.CRDS.glob("*.yaml"))
        yield server


def _parts_of(item: pytest.Item) -> frozenset[str]:
    return frozenset(mark.name for mark in item.iter_markers() if mark.name in parts.PARTS)
