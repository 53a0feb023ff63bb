"""YAML in all the styles in which people write it, at random: the text, and what it says."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

PLAIN = (
    "vllm",
    "s3://bucket/model",
    "--load-format",
    "a b  c",
    "x#y",
    "a:b",
    "é😀",
    "0.21.0",
    "nvidia.com/gpu",
    "-1x",
    "a'b\"",
)
HARD = (
    "",
    " x",
    "a: b",
    "a #b",
    "- a",
    "8",
    "true",
    "on",
    "null",
    "{x}",
    "[a, b]",
    "it's",
    'say "no"',
    "\t",
    "a\\b",
    "&a",
    "*b",
    "!c",
    "%d",
)
LINES = (
    "exec vllm serve \\\n  --eager\n",
    "a\nb",
    "a\n\nb\n",
    "# no comment\nx\n",
    "x\n\n",
    '{\n  "a": 1\n}\n',
    "a b c\n",
)
NAMES = ("name", "value", "env", "spec", "args", "image", "x.y/z", "A_B", "limits", "ports", "kind", "1", "a key")


@dataclass
class Styled:
    """A writer of one text. `eol` ends its lines, `step` indents mappings and `dash` lists below keys."""

    random: Random
    eol: str = "\n"
    step: int = 2
    dash: int = 2
    comments: int = 0
    written: list[str] = field(default_factory=list)

    def text(self) -> tuple[str, Any]:
        """One document of lines, and its data."""
        self.step = self.random.choice((2, 2, 2, 4))
        self.dash = self.random.choice((0, 2, 2))
        if self.random.random() < 0.15:
            data, text = self.flow(3, json_only=self.random.random() < 0.5)
            return text + self.eol, data
        data, lines = self.block(3, 0, mapping=self.random.random() < 0.9)
        return "".join(line + self.eol for line in lines), data

    def comment(self) -> str:
        self.comments += 1
        return f"# c{self.comments}"

    def above(self, indent: int) -> list[str]:
        lines = []
        if self.random.random() < 0.1:
            lines.append("")
        if self.random.random() < 0.2:
            lines.append(" " * indent + self.comment())
        return lines

    def behind(self) -> str:
        return "  " + self.comment() if self.random.random() < 0.15 else ""

    def block(self, depth: int, indent: int, *, mapping: bool) -> tuple[Any, list[str]]:
        """A collection of at least one entry, as lines."""
        lines: list[str] = []
        size = self.random.choice((1, 1, 2, 3, 4))
        if mapping:
            data: Any = {}
            for name in self.random.sample(NAMES, size):
                lines += self.above(indent) if lines or indent else []
                value, (first, *rest) = self.entry(depth, indent, in_list=False)
                data[name] = value
                quote = self.random.choice(("", "", "", '"', "'")) if name != "1" else '"'
                lines += [f"{' ' * indent}{quote}{name}{quote}:{first}", *rest]
            return data, lines
        data = []
        for _ in range(size):
            lines += self.above(indent) if lines or indent else []
            if depth and self.random.random() < 0.5:
                value, (first, *rest) = self.block(depth - 1, indent + 2, mapping=self.random.random() < 0.85)
                if not first or first.lstrip().startswith("#"):
                    lines += [" " * indent + "-", first, *rest]
                else:
                    lines += [" " * indent + "- " + first[indent + 2 :], *rest]
            else:
                value, (first, *rest) = self.entry(0, indent, in_list=True)
                lines += [f"{' ' * indent}-{first}", *rest]
            data.append(value)
        return data, lines

    def entry(self, depth: int, indent: int, *, in_list: bool) -> tuple[Any, list[str]]:
        """A value as it stands behind its colon or dash: the rest of that line, and lines below."""
        kind = self.random.random()
        if depth and kind < 0.55:
            mapping = self.random.random() < 0.6
            data, lines = self.block(depth - 1, indent + (self.step if mapping else self.dash), mapping=mapping)
            return data, [self.behind(), *lines]
        if kind < 0.65:
            data, text = self.flow(2)
            return data, [" " + text + self.behind()]
        if kind < 0.7:
            return None, [self.behind() if not in_list else ""]
        if kind < 0.8:
            return self.literal(indent)
        data, text = self.scalar(flow=False)
        if (
            self.random.random() < 0.05
            and isinstance(data, str)
            and "  " not in data
            and data.count(" ") > 1
            and text[0] in "'\""
        ):
            head, _, tail = text.partition(" ")
            if head not in ("'", '"') and tail.strip("'\""):
                return data, [f" {head}", " " * (indent + 3) + tail]
        return data, [" " + text + self.behind()]

    def literal(self, indent: int) -> tuple[Any, list[str]]:
        text = self.random.choice(LINES)
        chomping = (
            "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") else self.random.choice(("", "", "+"))
        )
        inner = indent + self.random.choice((2, 2, 4))
        header = "|" + chomping + ("  " + self.comment() if self.random.random() < 0.1 else "")
        body = text.removesuffix("\n").split("\n")
        return text, [" " + header, *((" " * inner + line) if line else "" for line in body)]

    def scalar(self, *, flow: bool, json_only: bool = False) -> tuple[Any, str]:
        kind = self.random.random()
        if kind < 0.2:
            number = self.random.choice((0, 8, -1, 4294967296, 0.5, True, False, None))
            return number, json.dumps(number)
        text = self.random.choice(PLAIN + HARD)
        if json_only or kind < 0.4 or "\t" in text:
            return text, json.dumps(text, ensure_ascii=False)
        if kind < 0.55 or text in HARD or (flow and ("," in text or ":" in text or "'" in text)):
            return text, "'" + text.replace("'", "''") + "'"
        return text, text

    def flow(self, depth: int, *, json_only: bool = False) -> tuple[Any, str]:
        """A flow collection, at times on several lines when it is JSON."""
        size = self.random.choice((0, 1, 2, 3))
        if json_only:
            data = self.json(depth)
            text = json.dumps(data, ensure_ascii=False, indent=self.random.choice((None, 2, 4)))
            return data, text.replace("\n", self.eol)
        inside = [
            self.flow(depth - 1) if depth and self.random.random() < 0.3 else self.scalar(flow=True)
            for _ in range(size)
        ]
        edge = self.random.choice(("", "", " "))
        comma = "," if size and self.random.random() < 0.1 else ""
        if self.random.random() < 0.5:
            return [value for value, _ in inside], f"[{edge}{', '.join(text for _, text in inside)}{comma}{edge}]"
        names = self.random.sample([name for name in NAMES if name != "1"], size)
        pairs = ", ".join(f"{name}: {text}" for name, (_, text) in zip(names, inside, strict=True))
        return {name: value for name, (value, _) in zip(names, inside, strict=True)}, f"{{{edge}{pairs}{comma}{edge}}}"

    def json(self, depth: int) -> Any:
        kind = self.random.random()
        if depth == 3 or (depth and kind < 0.5):
            size = self.random.choice((0, 1, 2, 3))
            if self.random.random() < 0.6:
                return {name: self.json(depth - 1) for name in self.random.sample(NAMES, size)}
            return [self.json(depth - 1) for _ in range(size)]
        return self.scalar(flow=True, json_only=True)[0]
