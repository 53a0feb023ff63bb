"""The name under which torch files its temporary directory (`/tmp/torchinductor_<user>`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def name(environ: Mapping[str, str]) -> str:
    """What `getpass.getuser()` gives in a process with this environment; `uid_<n>` where no name is known."""
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        if environ.get(variable):
            return environ[variable]
    import pwd  # a library of its own, for those who have no such variable

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError):
        return f"uid_{os.getuid()}"
