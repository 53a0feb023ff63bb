"""Fragments are well-formed, and a release is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev import changelog
from tests.repo import tree


@pytest.mark.parametrize("path", changelog.fragments(tree.ROOT / "changelog.d"), ids=lambda path: path.name)
def test_fragment_is_well_formed(path: Path) -> None:
    assert changelog.faults(path) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("12.added.txt", "A whole sentence of words."),
        ("Upper.added.md", "A whole sentence of words."),
        ("12.improved.md", "A whole sentence of words."),
        ("12.added.md", "too short."),
        ("12.added.md", "A whole sentence without its end"),
        ("12.added.md", "# A heading\n\nA whole sentence of words."),
    ],
)
def test_a_fault_is_found(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert changelog.faults(tmp_path / name) != []


def test_a_release_takes_the_fragments(tmp_path: Path) -> None:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "README.md").write_text("How to.")
    (tmp_path / "changelog.d" / "2.fixed.md").write_text("A fault is gone for good.\n")
    (tmp_path / "changelog.d" / "10.added.md").write_text("A thing can be done\nin two lines.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n<!-- releases below -->\n\n## 0.1.0 (2026-01-01)\n")

    changelog.release(tmp_path, "0.2.0", "2026-02-02")

    assert [path.name for path in (tmp_path / "changelog.d").iterdir()] == ["README.md"]
    assert (tmp_path / "CHANGELOG.md").read_text() == (
        "# Changelog\n\n<!-- releases below -->\n\n## 0.2.0 (2026-02-02)\n\n### Added\n\n- A thing can be done\n"
        "  in two lines.\n\n### Fixed\n\n- A fault is gone for good.\n\n## 0.1.0 (2026-01-01)\n"
    )


def test_no_release_of_faulty_fragments(tmp_path: Path) -> None:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "2.fixd.md").write_text("A fault is gone for good.\n")
    (tmp_path / "CHANGELOG.md").write_text("<!-- releases below -->\n")
    with pytest.raises(ValueError, match="fixd"):
        changelog.release(tmp_path, "0.2.0", "2026-02-02")
    assert (tmp_path / "changelog.d" / "2.fixd.md").exists()
