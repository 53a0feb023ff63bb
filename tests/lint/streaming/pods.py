"""Deployments of one engine as texts, and tables of what a rule finds in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.lint import checking

VLLM = "vllm/vllm-openai:v0.33.0"
GUIDES = "vllm/vllm-openai:v0.21.0"
SGLANG = "lmsysorg/sglang:v0.5.23"
TENSORRT = "nvcr.io/nvidia/tensorrt-llm/release:1.0.0"
MODEL = "--model=s3://models/llama-70b"
FORMAT = "--load-format=runai_streamer"
CHUNK = {"RUNAI_STREAMER_CHUNK_BYTESIZE": "4294967296"}


def extra(**keys: Any) -> str:
    """The option with these keys, as compact JSON."""
    return f"--model-loader-extra-config={json.dumps(keys, separators=(',', ':'))}"


def deployment(
    *args: str,
    image: str = VLLM,
    env: Mapping[str, str] | None = None,
    entries: str = "",
    command: Sequence[str] = (),
    limits: Mapping[str, str] | None = None,
    spec: str = "",
    annotations: Mapping[str, str] | None = None,
    container: str = "",
) -> str:
    """Words and values are quoted (`quoted`); `entries`, `spec` and `container` are lines put in as they are, indented from 0."""
    lines = [
        "apiVersion: apps/v1",
        "kind: Deployment",
        "metadata:",
        "  name: vllm",
        "spec:",
        "  template:",
        "    metadata:",
        "      labels: {app: vllm}",
    ]
    if annotations:
        lines += ["      annotations:", *(f"        {name}: {quoted(value)}" for name, value in annotations.items())]
    lines += [
        "    spec:",
        *_indented(spec, 6),
        "      containers:",
        "        - name: vllm",
        f"          image: {image}",
    ]
    if command:
        lines += ["          command:", *(f"            - {quoted(word)}" for word in command)]
    if args:
        lines += ["          args:", *(f"            - {quoted(word)}" for word in args)]
    if env or entries:
        lines.append("          env:")
        for name, value in (env or {}).items():
            lines += [f"            - name: {name}", f"              value: {quoted(value)}"]
        lines += _indented(entries, 12)
    if limits:
        lines += ["          resources:", "            limits:"]
        lines += [f"              {name}: {quoted(value)}" for name, value in limits.items()]
    lines += _indented(container, 10)
    return "\n".join(lines) + "\n"


def streamed(*args: str, **more: Any) -> str:
    """A Deployment that streams from S3, tuned unless the arguments say otherwise."""
    if not any("extra-config" in one for one in args):
        args = (*args, extra(concurrency=16))
    return deployment(MODEL, FORMAT, *args, **{"env": CHUNK, **more})


def quoted(text: str) -> str:
    """In single quotes; in double ones where it has several lines."""
    return json.dumps(text) if "\n" in text else "'" + text.replace("'", "''") + "'"


def _indented(lines: str, by: int) -> list[str]:
    return [" " * by + line if line else line for line in lines.splitlines()]


@dataclass(frozen=True)
class Case:
    """A text, and what the rule points at in it; "" where it says nothing. `says`: a piece of the message."""

    what: str
    text: str
    at: str = ""
    says: str = ""
    size: int | None = None
    compute: str = ""
    others: tuple[str, ...] = field(default=())


def check(rule: str, case: Case) -> None:
    """The finding is there or not, at its place, with its words."""
    findings = checking.found(rule, case.text, *case.others, compute=case.compute, size=case.size)
    if not case.at:
        assert [one.message for one in findings] == []
        return
    assert [checking.at(one) for one in findings] == [case.at]
    assert case.says in findings[0].message


def table(*cases: Case) -> pytest.MarkDecorator:
    """Parametrizes a test over them."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.what)
