"""`run --exec`: this process becomes the engine, whatever happens before.

The one promise is at the end of `main`: every way through it ends in the exec of the command, as it was given or with the cache
variables added. GLOWPLUG_DISABLE=1 takes that way at once, with nothing of glowplug imported but this module.

What stands in between shares one deadline and runs in a process of its own, so that a disk or a store that hangs holds that process
alone, see `launch.preparing`. The watcher is forked before any of that, see `launch.watcher`.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Final, NoReturn, Optional

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from glowplug.launch.means import Choose
    from glowplug.launch.options import RunOptions

_USAGE: Final = 125


def main(argv: Sequence[str], environ: Mapping[str, str], choose: Optional[Choose] = None) -> NoReturn:
    """Become the command behind `--`; `argv` is without the program's own name.

    `choose` gives what restores and publishes for the options; by default what the standard library alone can do.
    """
    words = list(argv)
    command = words[words.index("--") + 1 :] if "--" in words else []
    if not command:
        _say("no command to run: put it behind `--`")
        os._exit(_USAGE)
    start(lambda own: _options(words, own), command, environ, choose)


def start(
    options: Callable[[Mapping[str, str]], Optional[RunOptions]],
    command: Sequence[str],
    environ: Mapping[str, str],
    choose: Optional[Choose] = None,
) -> NoReturn:
    """Become `command`; where `options` gives None, as it was given."""
    own = dict(environ)
    # Nothing that is made from here on is given up before exec; looking for what is takes a tenth of the time.
    gc.disable()
    try:
        from glowplug.launch.execute import as_given

        own = as_given(environ)
    except BaseException as error:  # noqa: BLE001 - as below
        _say(f"{type(error).__name__}: {error}")
    if environ.get("GLOWPLUG_DISABLE") != "1":
        try:
            own = _prepared(options, command, own, choose)
        except BaseException as error:  # noqa: BLE001 - the engine starts, that is the promise
            _say(f"{type(error).__name__}: {error}; the command is started as it is")
    _become(command, own)


def _options(words: Sequence[str], environ: Mapping[str, str]) -> Optional[RunOptions]:
    from glowplug.core.errors import UsageError
    from glowplug.launch import arguments

    try:
        return arguments.parse(words, environ)
    except UsageError as error:
        _say(f"{error.message}; the command is started as it is")
        return None


def _prepared(
    options: Callable[[Mapping[str, str]], Optional[RunOptions]],
    command: Sequence[str],
    environ: dict[str, str],
    choose: Optional[Choose],
) -> dict[str, str]:
    wanted = options(environ)
    if wanted is None:
        return environ
    from glowplug.launch import means
    from glowplug.launch.starting import begin

    return begin(wanted, command, environ, (choose or means.kernel)(wanted))


def _become(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    status = _USAGE
    try:
        from glowplug.launch.execute import execute

        status = execute(command, environ, _say)
    finally:
        # Not sys.exit: nothing that was registered for an end must hold this process.
        os._exit(status)


def _say(message: str) -> None:
    try:
        text = message.encode("ascii", "backslashreplace").decode("ascii")
        line = "".join(letter if letter.isprintable() else " " for letter in text)
        os.write(2, f"glowplug: {line}\n".encode("ascii"))
    except OSError:
        return
