"""A value that differs between pods is part of the engine's compile key.

## What it does

Finds variables, and options such as `--additional-config`, that vLLM hashes into its own key in the image's version, and whose
value is another one in every pod, on every node or after every roll-out: the pod's address, name or UID, the node's name, a
random number. And `VLLM_API_KEY` to 0.28.0, since a new key is then a new cache. Silent for a constant, for a version that
does not hash the variable, and for one that is not known, unless every version does.

## Why is this bad

vLLM looks for another directory each time: it compiles for 50 to 80 seconds although the artifacts are there, and leaves one more
directory behind. Nothing in its log says why. `VLLM_NIXL_SIDE_CHANNEL_HOST` with the pod's IP is what most manifests for
disaggregated serving have (ai-dynamo/dynamo#10695), a worker's id in `additional_config` what Dynamo had (#10119). vLLM to 0.28.0
also writes the value of `VLLM_API_KEY` into `cache_key_factors.json`.

## Example

```yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm
spec:
  selector:
    matchLabels: {app: vllm}
  template:
    metadata:
      labels: {app: vllm}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0
          args: [--model=/models/llama]
          env:
            - name: VLLM_NIXL_SIDE_CHANNEL_HOST
              valueFrom:
                fieldRef:
                  fieldPath: status.podIP
          resources:
            limits: {nvidia.com/gpu: "1"}
```

Finds `status.podIP`.

## Use instead

```yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm
spec:
  selector:
    matchLabels: {app: vllm}
  template:
    metadata:
      labels: {app: vllm}
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.33.0
          args: [--model=/models/llama]
          env:
            - name: VLLM_NIXL_SIDE_CHANNEL_HOST
              valueFrom:
                fieldRef:
                  fieldPath: status.podIP
          resources:
            limits: {nvidia.com/gpu: "1"}
```

## Fix safety

No fix: another value, or another version, may change what runs. The message says what the variable needs. `glowplug cache why`
names the variable where two starts differ.

## Source

ai-dynamo/dynamo#10695; ai-dynamo/dynamo#10119; vllm-project/vllm#46235; vllm envs.py compile_factors of 0.13.0 to 0.33.0
(docs/cache-key.md)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from glowplug.core.tables import table
from glowplug.engines.vllm import keys
from glowplug.engines.vllm.command import key_arguments
from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.compile.differing import SENTENCES, field_of, of_option, of_variable, place_of
from glowplug.lint.rules.compile.keeping import VLLM, at_least, behaviour
from glowplug.lint.rules.compile.off import compiling_off

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from glowplug.lint.view import Workload

_OLDEST: Final = "0.13.0"  # before it vLLM hashed a list of its own
_SECRET: Final = "secret"  # noqa: S105 - a word of the table
_HOMES: Final = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
_IN_KEY: Final = frozenset({"model", "additional-config"})


def _check(workload: Workload) -> Iterator[Problem]:
    if workload.engine.name != VLLM or any(compiling_off(workload)):
        return
    yield from _variables(workload)
    yield from _options(workload)


def _variables(workload: Workload) -> Iterator[Problem]:
    advice = _advice()
    named = f"vLLM {workload.engine.version}" if workload.engine.version else "vLLM"
    for name, variable in workload.container.environment.variables.items():
        by = of_variable(workload, variable)
        given = variable.value is None or bool(variable.value)
        secret = given and not by and advice.get(name, ("", ""))[0] == _SECRET
        if not (by or secret) or not _hashed(name, workload.engine.version):
            continue
        differs = (
            "is another cache with every new key, and stands in cache_key_factors.json" if secret else SENTENCES[by]
        )
        field = f" (`{field_of(variable)}`)" if by and field_of(variable) else ""
        yield Problem(
            variable.at if secret else place_of(workload, variable),
            f"`{name}`{field} {differs}, and {named} has it in its compile key: what one pod compiled, no other one finds",
            advice.get(name, ("", "give it one value in every pod"))[1],
        )


def _options(workload: Workload) -> Iterator[Problem]:
    names = _IN_KEY | key_arguments().keys()
    options = dict(workload.engine.options)
    if workload.engine.model is not None:
        options.setdefault("model", workload.engine.model)
    for name, option in options.items():
        by = of_option(workload, option) if name in names else ""
        if by:
            yield Problem(
                option.at,
                f"`--{name}` {SENTENCES[by]}, and vLLM has it in its compile key: what one pod compiled, no other one finds",
                "give it one value in every pod",
            )


@functools.lru_cache(maxsize=4096)
def _hashed(name: str, version: str) -> bool:
    """Whether a version has a variable in its key; an unknown one, where all have."""
    if version and not at_least(version, _OLDEST):
        return False
    versions = (version,) if version else (_OLDEST, "0.21.0", "")
    return all(_hashed_in(name, one) for one in versions)


def _hashed_in(name: str, version: str) -> bool:
    if name in _HOMES:
        return behaviour("home_and_xdg_roots_in_compile_key", version) == "yes"
    return keys.hashed(name, version)


@functools.cache
def _advice() -> Mapping[str, tuple[str, str]]:
    return {row["name"]: (row["differs"], row["advice"]) for row in table("glowplug.engines.vllm", "volatile")}


RULE = Rule(
    name="cache-key-poisoned", area="compile", severity=Severity.WARNING, documentation=__doc__ or "", workload=_check
)
