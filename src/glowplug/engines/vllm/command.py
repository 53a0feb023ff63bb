"""What a vLLM command line starts: model, layout, what of it is in the key, and whether anything is compiled at
all.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Optional

from glowplug.core.documents.fingerprint import Layout
from glowplug.core.tables import table
from glowplug.engines.adapter import Invocation, Launch
from glowplug.engines.command import is_python, python_program
from glowplug.engines.vllm.arguments import Arguments, ReadText, canonical_json, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME: Final = "vllm"
_PACKAGE: Final = "glowplug.engines.vllm"
_SERVERS: Final = frozenset(
    {"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "vllm.entrypoints.grpc_server"}
)
_CLI_MODULES: Final = frozenset({"vllm", "vllm.entrypoints.cli.main"})
_NOT_A_START: Final = frozenset({"-h", "--help", "-v", "--version"})
_LONGEST_NAME: Final = 256
_LAYOUT: Final = frozenset(
    {
        "tensor-parallel-size",
        "pipeline-parallel-size",
        "data-parallel-size",
    }
)
_SEVERAL_NODES: Final = (
    "data-parallel-address",
    "data-parallel-rank",
    "data-parallel-start-rank",
    "data-parallel-hybrid-lb",
    "data-parallel-external-lb",
    "data-parallel-multi-port-external-lb",
    "headless",
    "node-rank",
)
_PREFIXES: Final = ("VLLM_", "TORCH", "TRITON_", "CUDA_", "NVIDIA_", "FLASHINFER_", "DG_", "RUNAI_", "INDUCTOR_")
_OFF_MODES: Final = frozenset({"0", "none"})
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})
_ANY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::", "[::]", "*"})  # noqa: S104 - recognised, not bound to


def read(invocation: Invocation, read_text: ReadText) -> Optional[Launch]:
    """The launch that an invocation describes, None when it is not a vLLM server. Raises UsageError for what vLLM
    refuses.
    """
    words = server_words(invocation.argv)
    if words is None or _NOT_A_START.intersection(words):
        return None
    arguments = parse(words, read_text)
    environ = invocation.environ
    layout = _layout(arguments)
    in_key, beside = _split_arguments(arguments)
    key_env, other_env = split_environment(environ)
    return Launch(
        engine=NAME,
        model=arguments.model,
        layout=layout,
        args=in_key,
        env=key_env,
        other_args=beside,
        other_env=other_env,
        local_ranks=_local_ranks(arguments, layout),
        disabled=_disabled(arguments, environ),
        ready_url=_ready_url(arguments),
        advice=(*arguments.advice, *_advice(arguments, environ)),
    )


def server_words(argv: Sequence[str]) -> Optional[Sequence[str]]:
    """The words after `vllm serve`, or after the server's module; None for anything else."""
    if not argv:
        return None
    if is_python(argv[0]):
        program = python_program(argv)
        if program is None:
            return None
        if program.kind == "module":
            if program.name in _SERVERS:
                return program.arguments
            return _after_serve(program.arguments) if program.name in _CLI_MODULES else None
        if program.kind == "script" and program.name.rpartition("/")[2] == "vllm":
            return _after_serve(program.arguments)
        return None
    return _after_serve(argv[1:]) if argv[0].rpartition("/")[2] == "vllm" else None


def _after_serve(words: Sequence[str]) -> Optional[Sequence[str]]:
    return words[1:] if words and words[0] == "serve" else None


def _layout(arguments: Arguments) -> Layout:
    tensor = arguments.number("tensor-parallel-size", 1)
    data = arguments.number("data-parallel-size", 1)
    # Experts are divided over all ranks that hold the layer (config/parallel.py).
    context = arguments.number("prefill-context-parallel-size", 1)
    experts = tensor * data * context if arguments.switched("enable-expert-parallel") else 1
    return Layout(tp=tensor, pp=arguments.number("pipeline-parallel-size", 1), dp=data, ep=experts)


def _local_ranks(arguments: Arguments, layout: Layout) -> Optional[int]:
    """Ranks that write on this machine, None where a layout over several nodes leaves that open."""
    if arguments.number("nnodes", 1) > 1 or arguments.options.get("distributed-executor-backend") == "ray":
        return None
    if any(arguments.options.get(name, "false") not in ("false", "0") for name in _SEVERAL_NODES):
        return None
    if arguments.number("data-parallel-size-local", layout.dp) != layout.dp:
        return None
    return layout.tp * layout.pp * layout.dp * arguments.number("prefill-context-parallel-size", 1)


def _split_arguments(arguments: Arguments) -> tuple[dict[str, str], dict[str, str]]:
    defaults = key_arguments()
    in_key: dict[str, str] = {}
    beside: dict[str, str] = {}
    for name, value in arguments.options.items():
        field = name.replace("-", "_")
        if name == "compilation-config":
            value = _without_places(value)  # noqa: PLW2901 - the same value without its places
        if name in _LAYOUT:
            continue
        if name not in defaults:
            beside[field] = value
        elif value != defaults[name]:
            in_key[field] = value
    return in_key, beside


def _without_places(compilation: str) -> str:
    """The compilation configuration without what vLLM does not hash either: where things are written."""
    found = Arguments("", {"c": compilation}).json("c")
    if not found:
        return canonical_json(compilation)
    import json

    kept = {
        name: value for name, value in found.items() if name not in ("cache_dir", "debug_dump_path", "local_cache_dir")
    }
    return canonical_json(json.dumps(kept))


@functools.cache
def key_arguments() -> Mapping[str, str]:
    """Name of each argument of the key → the value that is left out because it is the default."""
    return {row["name"]: row["default"] for row in table(_PACKAGE, "key_args")}


@dataclass(frozen=True)
class _Rule:
    """One row of the table."""

    name: str
    treat: str
    default: str


@functools.cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(_Rule(row["name"], row["treat"], row["default"]) for row in table(_PACKAGE, "key_env"))


def _rule_of(name: str) -> Optional[_Rule]:
    # What is remembered of strangers' words must be small.
    return _known_rule_of(name) if len(name) <= _LONGEST_NAME else _find_rule(name)


@functools.lru_cache(maxsize=4096)
def _known_rule_of(name: str) -> Optional[_Rule]:
    return _find_rule(name)


def _find_rule(name: str) -> Optional[_Rule]:
    for rule in _rules():
        if _fits(name, rule.name):
            return rule
    return None


def _fits(name: str, pattern: str) -> bool:
    """Whether it is the name, or one that fits where the pattern has its star; by hand, since `fnmatch` compiles each pattern."""
    head, star, tail = pattern.partition("*")
    if not star:
        return name == pattern
    return len(name) >= len(head) + len(tail) and name.startswith(head) and name.endswith(tail)


def split_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Variables of the key with normalised values, and others that have to do with engines, recorded beside it."""
    in_key: dict[str, str] = {}
    beside: dict[str, str] = {}
    for name, value in sorted(environ.items()):
        rule = _rule_of(name)
        if rule is None or rule.treat == "never":
            if name.startswith(_PREFIXES):
                beside[name] = value
            continue
        text = _boolean(value) if rule.treat == "bool" else value.strip()
        if text not in ("", rule.default):
            in_key[name] = text
    return in_key, beside


def _boolean(value: str) -> str:
    lower = value.strip().lower()
    return "1" if lower in _TRUE else "0" if lower in _FALSE else value.strip()


def on(environ: Mapping[str, str], name: str) -> bool:
    """Whether a variable switches something on."""
    return environ.get(name, "").strip().lower() in _TRUE


def _disabled(arguments: Arguments, environ: Mapping[str, str]) -> str:
    """Why nothing will be compiled or cached, "" when something will."""
    compilation = arguments.json("compilation-config")
    mode = compilation.get("mode", compilation.get("level"))
    inductor = compilation.get("inductor_compile_config")
    forced = inductor.get("force_disable_caches") if isinstance(inductor, dict) else None
    level = arguments.options.get("optimization-level", "").lower()
    reasons = (
        (arguments.switched("enforce-eager"), "--enforce-eager turns torch.compile off"),
        (mode is not None and str(mode).lower() in _OFF_MODES, "compilation mode 0 turns torch.compile off"),
        (mode is None and level in ("0", "o0"), "-O0 turns torch.compile off"),
        (compilation.get("backend") == "eager", "the compilation backend `eager` compiles nothing"),
        (on(environ, "VLLM_DISABLE_COMPILE_CACHE"), "VLLM_DISABLE_COMPILE_CACHE turns vLLM's compile cache off"),
        (environ.get("TORCH_COMPILE_DISABLE") == "1", "TORCH_COMPILE_DISABLE turns torch.compile off"),
        (environ.get("TORCHDYNAMO_DISABLE") == "1", "TORCHDYNAMO_DISABLE turns torch.compile off"),
        (
            environ.get("TORCHINDUCTOR_FORCE_DISABLE_CACHES") == "1",
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES turns caches off",
        ),
        (forced is True, "inductor_compile_config.force_disable_caches turns caches off"),
    )
    return next((reason for true, reason in reasons if true), "")


def _ready_url(arguments: Arguments) -> Optional[str]:
    options = arguments.options
    if "uds" in options or arguments.switched("headless"):
        return None
    host = options.get("host", "").strip()
    if host in _ANY_ADDRESS or host == "None":
        host = "127.0.0.1"
    elif ":" in host and not host.startswith("["):
        host = f"[{host}]"
    scheme = "https" if "ssl-certfile" in options or "ssl-keyfile" in options else "http"
    # FastAPI answers below --root-path and without it; the plain path works on all versions.
    return f"{scheme}://{host}:{options.get('port', '8000')}/health"


def _advice(arguments: Arguments, environ: Mapping[str, str]) -> list[str]:
    found: list[str] = []
    compilation = arguments.json("compilation-config")
    if compilation.get("cache_dir"):
        found.append(
            "compilation_config.cache_dir replaces vLLM's hashed directory name: vLLM then never checks whether the artifacts fit;"
            " remove it"
        )
    if environ.get("VLLM_COMPILE_CACHE_SAVE_FORMAT", "").strip() == "unpacked":
        found.append("VLLM_COMPILE_CACHE_SAVE_FORMAT=unpacked is not safe with several processes; use binary")
    if not arguments.model:
        found.append("no model is named, so vLLM takes the default of its version; name one")
    return found
