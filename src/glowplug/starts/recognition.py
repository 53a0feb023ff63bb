"""Which engine wrote a log, where in it a start begins, and when the engine said that it serves.

The adapters' log readers are handed the lines of *one* start; finding the starts in a file that a container has written over
days is the business of this table. A row is data: adding an engine is adding a row, its adapter reads the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Signature:
    """How an engine's log looks from outside.

    `line`: a line that only this engine writes. `telling`: what every line for the others but `preamble` has in it (most lines of
    a large log have none of it, and cost one search). `banner`: its first words of a start. `again`: a line that begins a start
    where there is no banner (a library call), if the start before got as far as `ready` or `done`. `preamble`: what may come
    dated before the banner. `facts`: expressions with named groups that describe the workload.
    """

    engine: str
    line: re.Pattern[str]
    telling: re.Pattern[str]
    banner: re.Pattern[str]
    again: re.Pattern[str]
    preamble: re.Pattern[str]
    done: re.Pattern[str]
    ready: re.Pattern[str]
    facts: tuple[re.Pattern[str], ...]


VLLM: Final = Signature(
    engine="vllm",
    line=re.compile(
        r"(?:\(\w[^()]{0,80}\)\s+)?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[\w./]{1,200}:\d+\]"
    ),
    telling=re.compile(r"version |non-default args: |LLM engine \(v|init engine \(|startup complete"),
    # One server of several (`ApiServer_1`) repeats the banner of the first within one start.
    banner=re.compile(r"(?!\(ApiServer_[1-9]).{0,200}(?:vLLM API server version |█\s+version \d)"),
    again=re.compile(r".{0,200}\] Initializing a V\d LLM engine \(v"),
    # torch's own lines, the platform's, and the lines of the logo above the version.
    preamble=re.compile(
        r"\[?[DIWEF]\d{4} \d\d:\d\d:\d\d\.|.{0,120}\[[\w./]{1,100}:\d+\](?: Automatically detected platform|[\s█▀▄]*\Z)"
    ),
    done=re.compile(r".{0,200}\] init engine \("),
    ready=re.compile(r"(?:.{0,120}\s)?(?:INFO:\s+)?Application startup complete\.?\s*\Z"),
    facts=(
        re.compile(
            r".{0,200}(?:vLLM API server version |█\s+version |LLM engine \(v)(?P<engine_version>\d[\w.+!-]{0,60})"
        ),
        re.compile(r".{0,200}non-default args: \{.*?'model': '(?P<model>[^']{1,1000})'"),
        re.compile(r".{0,200}non-default args: \{.*?'model_tag': '(?P<model>[^']{1,1000})'"),
        re.compile(r".{0,300}LLM engine \(.*?\bserved_model_name=(?P<model>[^,\s]{1,1000})"),
        re.compile(r".{0,200}LLM engine \(.*?\btensor_parallel_size=(?P<tp>\d{1,6})\b"),
        re.compile(r".{0,200}LLM engine \(.*?\bpipeline_parallel_size=(?P<pp>\d{1,6})\b"),
        re.compile(r".{0,200}LLM engine \(.*?\bdata_parallel_size=(?P<dp>\d{1,6})\b"),
    ),
)

SIGNATURES: Final = (VLLM,)
