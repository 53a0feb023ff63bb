"""Every relative link in a Markdown file leads to a file, and to a heading where it names one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repo import tree

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*#*$", re.MULTILINE)
MARKDOWN = [name for name in tree.files() if name.endswith(".md")]


def _slug(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """The anchors of a page; a heading that occurs again gets a number."""
    found: dict[str, int] = {}
    for match in _HEADING.finditer(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        slug = _slug(match[1])
        found[slug if slug not in found else f"{slug}-{found[slug]}"] = found.get(slug, 0) + 1
    return set(found) | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def broken(name: str, root: Path = tree.ROOT) -> list[str]:
    """The links of a page that lead nowhere."""
    page = root / name
    wrong = []
    for match in _LINK.finditer(_CODE.sub("", page.read_text())):
        link = match[1] or match[2]
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        names_a_heading = bool(anchor) and target.suffix == ".md"
        if not target.exists() or (names_a_heading and anchor not in anchors(target.read_text())):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("name", MARKDOWN)
def test_links_resolve(name: str) -> None:
    assert broken(name) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A `heading` of two\n# Again\n# Again\n")
    (tmp_path / "page.md").write_text(
        "[a](other.md) [b](other.md#a-heading-of-two) [c](other.md#again-1) [d](https://example.com/x) `[e](f)`\n"
        "[x](gone.md) [y](other.md#nowhere) ![z](gone.png)\n"
    )
    assert broken("page.md", tmp_path) == ["gone.md", "other.md#nowhere", "gone.png"]
