"""What is tested here is built once a session, as `make` builds it but elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev import client, pyz


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """glowplug.pyz"""
    return pyz.build(tmp_path_factory.mktemp("pyz") / "glowplug.pyz")


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's directory, for all interpreters and machines; pip fetches wheels the first time."""
    return client.build(tmp_path_factory.mktemp("client") / "client") / "glowplug"
