"""The page in a real browser: it lays out, wide and narrow, and nothing sticks out."""

from __future__ import annotations

import struct
import subprocess

import pytest

from dev.system import CHROMIUM_NAMES
from glowplug import report
from tests.parts import requires, tool
from tests.report.test_page import DOCUMENTS

pytestmark = requires("browser")

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-extensions"]


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")

    def call(page, *arguments):
        path = folder / "page.html"
        path.write_text(page, encoding="utf-8")
        command = [tool(*CHROMIUM_NAMES), *FLAGS, f"--user-data-dir={folder}/profile", *arguments, path.as_uri()]
        return subprocess.run(command, capture_output=True, timeout=120, check=True).stdout.decode()

    return call


@pytest.mark.parametrize("width", [1280, 500])
def test_nothing_sticks_out(browse, width):
    # The page itself forbids scripts; the copy that is measured carries one that reports the width.
    page = report.page(list(DOCUMENTS.values())).replace("default-src 'none';", "script-src 'unsafe-inline';")
    probe = "<script>document.title = document.documentElement.scrollWidth + '/' + innerWidth</script>"
    dom = browse(page.replace("</body>", f"{probe}</body>"), f"--window-size={width},1000", "--dump-dom")
    needed, given = dom.partition("<title>")[2].partition("</title>")[0].split("/")
    assert int(given) == width
    assert int(needed) <= int(given)


def test_a_screenshot_has_the_colours_of_the_phases(browse, tmp_path):
    picture = tmp_path / "page.png"
    browse(report.page([DOCUMENTS["demo"]]), "--window-size=1000,1500", f"--screenshot={picture}")
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", head[16:24]) == (1000, 1500)
    assert picture.stat().st_size > 30_000


def test_scripts_in_a_document_do_not_run(browse):
    document = {"schema": "glowplug.other/1", "value": "<script>document.title='owned'</script>"}
    assert "<title>glowplug report</title>" in browse(report.page([document]), "--dump-dom")
