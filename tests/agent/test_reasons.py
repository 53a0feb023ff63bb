"""One table of the words that say why: whatever the program writes as a reason has its place there, and so its own label."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import glowplug
from glowplug.agent import bounding
from glowplug.core import faults
from glowplug.core.errors import CODES
from glowplug.launch import reasons, words

_SOURCE = Path(glowplug.__file__).parent
_PACKAGES = ("core", "nodestore", "launch", "cache", "supervise", "agent")
_MADE_OF_RETURNS = ("nodestore/restore.py", "cache/restore.py", "cache/lookup.py", "agent/collecting.py")
"""Modules with functions that return a reason for another to write."""
_NO_REASONS = ("Verdict", "Rejection", "explained")
"""What takes sentences for people, or quotes of an engine, under that name."""
_NAMES = ("reason", "unknown", "private")
_WORD = re.compile(r"[a-z]+(_[a-z]+)*")
_MODULES = [path for package in _PACKAGES for path in sorted((_SOURCE / package).rglob("*.py"))]


def _texts(node: ast.expr | None) -> Iterator[str]:
    """The texts that an expression may be, of an f-string its beginning."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from (*_texts(one), *_texts(other))
        case ast.BoolOp(values=values):
            for one in values:
                yield from _texts(one)
        case ast.BinOp(left=one):
            yield from _texts(one)
        case ast.Tuple(elts=elements):
            for one in elements:
                yield from _texts(one)


def _takers(trees: Mapping[Path, ast.Module]) -> dict[str, int]:
    """Functions, methods and data classes that take a reason: name → at which place."""
    found: dict[str, int] = {}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                fields = [
                    one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                ]
                made = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
                names = [one.arg for one in made[0].args.args[1:]] if made else fields
                name = node.name
            elif isinstance(node, ast.FunctionDef):
                names = [one.arg for one in node.args.args if one.arg != "self"]
                name = node.name
            else:
                continue
            if "reason" in names and name not in _NO_REASONS:
                found[name] = names.index("reason")
    return found


def _written() -> dict[str, str]:
    """Every reason that stands in the program, without its details, and a place where it does."""
    trees = {path: ast.parse(path.read_text()) for path in _MODULES}
    takers = _takers(trees)
    found: dict[str, str] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            for text in _of(node, takers, returns=str(path.relative_to(_SOURCE)) in _MADE_OF_RETURNS):
                name = text.partition(":")[0]
                if name == "claim" and _WORD.fullmatch(text.partition(":")[2]):
                    name = text
                if _WORD.fullmatch(name.replace(":", "_")):
                    found[name] = f"{path.relative_to(_SOURCE)}:{getattr(node, 'lineno', 0)}"
    return found


def _of(node: ast.AST, takers: Mapping[str, int], *, returns: bool) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=given, keywords=named):
            if name in takers and takers[name] < len(given):
                yield from _texts(given[takers[name]])
            if name not in _NO_REASONS:
                for one in named:
                    if one.arg in _NAMES:
                        yield from _texts(one.value)
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _NAMES:
            yield from _texts(value)
        case ast.Return(value=value) if returns:
            yield from _texts(value)


def test_every_reason_that_is_written_has_its_place() -> None:
    written = _written()
    assert len(written) > 30, "the search finds nothing any more"
    known = bounding.REASONS | {f"claim:{what}" for what in bounding.FIELDS | reasons.CLAIMS}
    assert {name: place for name, place in written.items() if name not in known} == {}


def test_every_word_for_a_fault_has_its_place() -> None:
    made = {*faults._WORDS.values(), *faults._DISK.values(), "disk", *(code.replace("-", "_") for code in CODES)}
    assert made - bounding.REASONS == set()


def test_every_word_that_is_explained_has_its_place() -> None:
    assert {*words._WORDS, *words._DETAILED} - bounding.REASONS == set()


def test_no_word_is_there_that_nobody_writes() -> None:
    tables = ("reasons.py", "bounding.py", "words.py")
    text = "\n".join(path.read_text() for path in _MODULES if path.name not in tables)
    assert reasons.ALL - set(re.findall(r"\"([a-z_]+)[\":]", text)) == set()
