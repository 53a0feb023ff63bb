"""`__main__` of `glowplug.pyz`: the answer to `--probe`, else `entry.py`, as it was compiled for this very Python.

It is short since Python compiles it at each start, and twice: once for the probe. The probe compares the whole file with the sum
in its second line and then loads what the start would run, so that nothing of a damaged file, or for another Python, is ever run.

Any Python 3.6 has to be able to read this file.
"""

import marshal
import os
import sys
from importlib.util import MAGIC_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

_WHOLE, _DAMAGED = 42, 125
"""Nothing that a file which is cut off, empty or another one altogether would end with is 42."""
_LONGEST_LINE = 128


def _is_whole() -> "bool":
    import zlib

    with open(sys.path[0], "rb") as file:
        file.readline(_LONGEST_LINE)
        said = file.readline(_LONGEST_LINE)
        return said == b"#%08x\n" % zlib.crc32(file.read())


def _entry() -> "CodeType":
    name = f"entry-{sys.implementation.cache_tag}-{MAGIC_NUMBER[:2].hex()}"
    content = globals()["__loader__"].get_data
    try:
        code = marshal.loads(content(os.path.join(sys.path[0], "code", name)))  # noqa: S302 - of this very file
        if isinstance(code, type(_entry.__code__)):
            return code
    except (OSError, ValueError, EOFError, TypeError):
        pass
    return compile(content(os.path.join(sys.path[0], "entry.py")), "entry.py", "exec", dont_inherit=True)


if sys.argv[1:] == ["--probe"]:
    os._exit(_WHOLE if _is_whole() and _entry() is not None else _DAMAGED)
exec(_entry())  # noqa: S102 - it runs as this module, `__main__`
