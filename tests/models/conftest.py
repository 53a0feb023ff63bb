"""Parts that tests of models share: the real S3 server, alone and behind a proxy that fails on purpose."""

from __future__ import annotations

from tests.store.conftest import proxy, s3_server, soon

__all__ = ["proxy", "s3_server", "soon"]
