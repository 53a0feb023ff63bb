"""What can be rendered: one row a kind, and `all`, which is the Kubernetes objects in the order in which they are applied.

A kind is documents (Kubernetes) or a template (CloudFormation). Nothing is rendered of a plan that does not fit: what is
printed here goes into `kubectl apply`, where half an answer is worse than none.
"""

from __future__ import annotations

import importlib
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug import __version__
from glowplug.core.errors import NotFoundError, UsageError
from glowplug.manifests.kubelet import escaped
from glowplug.manifests.writing import plain, stream
from glowplug.render import accounts, machines, notice
from glowplug.render.options import Mode, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ALL: Final = "all"
_COLUMNS: Final = 98


@dataclass(frozen=True)
class Kind:
    """One kind. `model`: whether it needs a MODEL; `cloud`: whether it is a CloudFormation template."""

    name: str
    what: str
    model: bool
    cloud: bool = False


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("deployment", "the Deployment that serves the model", model=True),
        Kind("bake", "a Job that compiles and publishes", model=True),
        Kind("agent", "the DaemonSet that warms nodes, with its rights and policies", model=False),
        Kind("nodepool", "nodes whose NVMe disks are used", model=False),
        Kind("network", "CloudFormation: the S3 gateway endpoint", model=False, cloud=True),
        Kind("iam", "CloudFormation: roles of the pods", model=False, cloud=True),
        Kind(ALL, "all Kubernetes objects, in the order in which they are applied", model=True),
    )
}


@dataclass(frozen=True)
class Rendered:
    """What is printed: YAML as `text`, the same as `value` (a JSON value), and for people `notes` and `warnings`, which stand in
    the text's first lines too."""

    text: str
    value: Any
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def default_mode(kind: str) -> Mode:
    """The mode of a kind where none was named."""
    return Mode.NODE if kind == "agent" else Mode.DIRECT


def render(kind: str, options: Options) -> Rendered:
    """One kind. Raises UsageError for what is missing, NotFoundError (`does-not-fit`) for a model that does not fit."""
    row = KINDS.get(kind)
    if row is None:
        raise UsageError(f"no kind {kind!r}", hint=f"one of {', '.join(KINDS)}")
    if row.model and options.plan is None:
        raise UsageError(f"render {kind} needs a model", hint=f"glowplug render {kind} s3://bucket/model")
    _fitting(options)
    if row.model:
        machines.check_pods(options)
    names = _parts(options) if kind == ALL else (kind,)
    notes = (*notice.notes(kind, options), *(note for name in names for note in _own_notes(name, options)))
    warnings = notice.warnings(kind, options)
    if row.cloud or (kind == "nodepool" and not _module(kind).documents(options)):
        text = _comment(warnings) + _module(kind).text(options)
        return Rendered(text, _from_text(text), notes, warnings)
    found = [escaped(document) for name in names for document in _PARTS[name](options)]
    if kind == ALL:
        found = _together(found)
    return Rendered(stream(found, _header(kind, options, warnings)), _listed(found), notes, warnings)


def _parts(options: Options) -> tuple[str, ...]:
    """The parts of `all`; in direct mode there is no agent."""
    agent = () if options.mode is Mode.DIRECT else ("agent",)
    return ("nodepool", *agent, "account", "bake", "deployment")


def _account(options: Options) -> list[dict[str, Any]]:
    """The service account of the pods, where one was named: an account that exists already stays as it is."""
    if options.account is None:
        return []
    return [accounts.service_account(options, options.account, role=None)]


def _documents(name: str) -> Callable[[Options], list[dict[str, Any]]]:
    def made(options: Options) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = _module(name).documents(options)
        return found

    return made


_PARTS: Final[dict[str, Callable[[Options], list[dict[str, Any]]]]] = {
    "account": _account,
    **{name: _documents(name) for name in ("nodepool", "agent", "bake", "deployment")},
}


def _module(name: str) -> Any:
    return importlib.import_module(f"glowplug.render.{name}")


def _own_notes(name: str, options: Options) -> Sequence[str]:
    if name == "account":
        return ()
    made = getattr(_module(name), "notes", None)
    return () if made is None else tuple(made(options))


def _fitting(options: Options) -> None:
    plan = options.plan
    if plan is None or plan.placement.fits:
        return
    finding = next((one for one in plan.findings if one.severity == "error"), None)
    message = finding.message if finding else "the model does not fit"
    raise NotFoundError(message, code="does-not-fit", hint=finding.hint if finding else "")


def _together(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without an object that is there already (a service account that two parts need)."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for document in documents:
        metadata = document["metadata"]
        found.setdefault((document["kind"], metadata.get("namespace", ""), metadata["name"]), document)
    return list(found.values())


def _listed(documents: list[dict[str, Any]]) -> Any:
    values = [plain(document) for document in documents]
    return values[0] if len(values) == 1 else {"apiVersion": "v1", "kind": "List", "items": values}


def _header(kind: str, options: Options, warnings: Sequence[str]) -> str:
    modes = "" if kind == "nodepool" and options.mode is not Mode.SHARED else f", mode {options.mode.value}"
    profile = f", profile {options.profile}" if KINDS[kind].model else ""
    first = f"glowplug {__version__}: render {kind}{profile}{modes}, compute {options.compute.value}"
    return "\n".join([first, *_lines(warnings)])


def _comment(warnings: Sequence[str]) -> str:
    return "".join(f"# {line}\n" for line in _lines(warnings))


def _lines(warnings: Sequence[str]) -> list[str]:
    """Above everything else, the most important first here."""
    wrapped = [textwrap.wrap(f"warning: {one}", _COLUMNS, break_on_hyphens=False) for one in reversed(warnings)]
    return [line for lines in wrapped for line in lines]


def _from_text(text: str) -> Any:
    import yaml

    return yaml.safe_load(text)
