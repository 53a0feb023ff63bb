"""Views → one page of HTML that can be mailed: nothing outside it is referred to, and it needs no script.

Templates escape everything; what a document says can never become markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glowplug import __version__
from glowplug.core.errors import UsageError
from glowplug.report import views

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def page(documents: Sequence[Mapping[str, Any]], *, title: str = "glowplug report") -> str:
    """Any glowplug documents (JSON values) as one self-contained page; all text in them is escaped.

    Raises BadInputError for a damaged document, UsageError (`missing-extra`) where jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError:
        raise UsageError(
            "pages need jinja2, which is not installed",
            code="missing-extra",
            hint="install glowplug with the extra `report`",
        ) from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("glowplug.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    html = environment.get_template("page.html").render(
        title=title, version=__version__, sections=views.sections(documents)
    )
    return _legible(html)


def _legible(html: str) -> str:
    """Without what no HTML may hold: control characters and halves of surrogate pairs, wherever a document had them."""
    return (
        "".join(
            letter if (letter >= " " and not "\x7f" <= letter <= "\x9f") or letter in "\n\t" else "\ufffd"
            for letter in html
        )
        .encode("utf-8", "replace")
        .decode()
    )
