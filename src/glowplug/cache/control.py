"""`v1/control.json`: the switch for a whole store.

One small object that a person can change in a console at three in the morning. Absent, refused, late or unreadable means on: the
switch must never become the outage.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from glowplug.cache import layout
from glowplug.core import canonical
from glowplug.core.errors import ConflictError, GlowplugError, IntegrityError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Store

_SECONDS: Final = 2.0
_DIGITS: Final = 8
_TRIES: Final = 8
_NUMBER: Final = re.compile(r"[0-9]+")
# Eight digits are enough for a date, and whatever is no version turns nothing off.
_VERSION: Final = re.compile(
    r"v?[0-9]{1,8}(?:\.[0-9]{1,8}){0,5}(?:[.\-]?[A-Za-z]{1,10}[.\-]?[0-9]{0,8})?(?:\+[\w.\-]{0,64})?", re.ASCII
)


@dataclass(frozen=True)
class Control:
    """What the store allows. `min_version`: the oldest glowplug that may take part, empty for any."""

    restore: bool = True
    publish: bool = True
    min_version: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def admits(self, version: str) -> bool:
        """Whether a glowplug of this version may take part."""
        return not self.min_version or _numbers(version) >= _numbers(self.min_version)


ON: Final = Control()


def read(store: Store, deadline: Deadline) -> Control:
    """The switch as it stands; everything on where that cannot be known within two seconds."""
    try:
        return _decode(store.get(layout.CONTROL, deadline.at_most(_SECONDS)).data)
    except (GlowplugError, ValueError, RecursionError, OverflowError):
        return ON


def inspect(store: Store, deadline: Deadline) -> tuple[Control, str]:
    """The switch as it stands, for a person, and what is wrong with it ("" for nothing). Raises the store's errors."""
    try:
        data = store.get(layout.CONTROL, deadline).data
        said = _decode(data)
        sound = json.loads(data).get("min_version") in (None, "", said.min_version)
    except NotFoundError:
        return ON, ""
    except (IntegrityError, ValueError, RecursionError, OverflowError) as error:
        return ON, f"{layout.CONTROL} is damaged, so everything is on ({error})"
    return said, "" if sound else f"{layout.CONTROL}: min_version is no version, so it counts as absent"


def change(store: Store, deadline: Deadline, *, restore: bool | None = None, publish: bool | None = None) -> Control:
    """Turn restoring or publishing on or off for everyone; None leaves a switch as it is. Returns what holds now.

    Raises the store's errors, and ConflictError when others keep changing it.
    """
    for _ in range(_TRIES):
        version = ""
        control = ON
        try:
            found = store.get(layout.CONTROL, deadline)
            version = found.meta.version
            control = _decode(found.data)
        except NotFoundError:
            pass
        except IntegrityError:  # larger than any switch: what is there is replaced
            version = _version(store, deadline)
        except (ValueError, RecursionError, OverflowError):
            pass
        new = dataclasses.replace(
            control,
            restore=control.restore if restore is None else restore,
            publish=control.publish if publish is None else publish,
        )
        data = _encode(new)
        try:
            if version:
                store.put_if(layout.CONTROL, data, version, deadline)
            else:
                store.put_new(layout.CONTROL, data, deadline)
        except ConflictError:
            continue
        return new
    raise ConflictError("control.json is being changed by others")


def _version(store: Store, deadline: Deadline) -> str:
    meta = store.head(layout.CONTROL, deadline)
    return meta.version if meta else ""


def _decode(data: bytes) -> Control:
    value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - any damage is one kind of damage here
    known = {item.name for item in dataclasses.fields(Control)} - {"extra"}
    version = value.get("min_version")
    return Control(
        restore=value.get("restore") is not False,
        publish=value.get("publish") is not False,
        min_version=version if isinstance(version, str) and _VERSION.fullmatch(version) else "",
        extra={name: item for name, item in value.items() if name not in known},
    )


def _encode(control: Control) -> bytes:
    return canonical.encode(
        {
            **control.extra,
            "restore": control.restore,
            "publish": control.publish,
            "min_version": control.min_version or None,
        }
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number[:_DIGITS]) for number in _NUMBER.findall(version.partition("+")[0])[:4])
