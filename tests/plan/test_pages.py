"""What the page lists is what the code has: every finding that a plan can raise, every bound of a load."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from glowplug.plan.bounds import SAID, UNKNOWN

ROOT = Path(__file__).parents[2]


def listed(heading: str) -> list[str]:
    """The names in the first column of the tables below a heading."""
    page = (ROOT / "docs/howto/plan-a-model.md").read_text()
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [name for line in section.splitlines() for name in re.findall(r"^\| `([a-z0-9-]+)`", line)]


def raised() -> Iterator[str]:
    """The names that calls of `Finding(…)` and `….finding(…)` below plan/ and models/ begin with."""
    for package in ("plan", "models"):
        for path in sorted((ROOT / "src/glowplug" / package).glob("*.py")):
            for function in ast.walk(ast.parse(path.read_text())):
                if isinstance(function, ast.FunctionDef):
                    yield from _of(function, path)


def _of(function: ast.FunctionDef, path: Path) -> Iterator[str]:
    for call in ast.walk(function):
        if not isinstance(call, ast.Call) or ast.unparse(call.func).split(".")[-1].lower() != "finding":
            continue
        name = call.args[0]
        if isinstance(name, ast.Constant):
            yield str(name.value)
        elif isinstance(name, ast.Name) and name.id in {argument.arg for argument in function.args.args}:
            continue  # a helper that hands a name on
        elif isinstance(name, ast.Name):
            yield from _of_loop(function, name.id, path)
        else:
            assert ast.unparse(name).endswith(".rule"), f"{path}: {ast.unparse(name)}"  # that of another finding


def _of_loop(function: ast.FunctionDef, name: str, path: Path) -> Iterator[str]:
    loops = [one for one in ast.walk(function) if isinstance(one, ast.For) and name in ast.unparse(one.target)]
    assert loops, f"{path}: where does {name} come from?"
    for row in ast.literal_eval(loops[0].iter):
        yield row[0]


def test_every_finding_is_explained_and_every_explanation_is_of_one() -> None:
    names = listed("Findings")
    assert sorted(names) == sorted(set(raised()))
    assert len(names) > 50


def test_every_bound_is_explained() -> None:
    assert sorted(listed("What bounds a load")) == sorted([*SAID, UNKNOWN])
