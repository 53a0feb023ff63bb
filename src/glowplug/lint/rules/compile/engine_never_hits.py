"""The pod keeps a compile cache, and this engine never finds anything in it.

## What it does

Finds pods that keep a compile cache in vain:

- a model streamed from a bucket with vLLM up to 0.10.2,
- compilation mode 2 (`DYNAMO_TRACE_ONCE`), or vLLM on CPUs, with ahead-of-time compilation on, in the versions that are known to
  throw their own artifact away,
- a cache directory that bears the pod's name or UID, on a volume that outlives the pod.

Values in the key that differ between pods are `cache-key-poisoned`.

## Why is this bad

Each start compiles for 50 to 80 seconds, writes one more entry, and the volume grows. vLLM up to 0.10.2 keeps a streamed model's
configuration in a temporary directory with a random name, which is the model's name in its key. In mode 2 the loaded function
lacks what the loader asks for (`'function' object has no attribute 'finalize_loading'`): one warning, and everything is
compiled again.

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
          image: vllm/vllm-openai:v0.10.2
          args: [--model=s3://models/llama, --load-format=runai_streamer]
          env:
            - name: XDG_CACHE_HOME
              value: /compile-cache
            - name: TORCHINDUCTOR_CACHE_DIR
              value: /compile-cache/inductor
            - name: TRITON_CACHE_DIR
              value: /compile-cache/triton
            - name: AWS_REGION
              value: eu-central-1
          resources:
            limits: {nvidia.com/gpu: "1"}
          volumeMounts:
            - name: compile-cache
              mountPath: /compile-cache
      volumes:
        - name: compile-cache
          hostPath:
            path: /mnt/k8s-disks/0/compile-cache
            type: DirectoryOrCreate
```

Finds `vllm/vllm-openai:v0.10.2`.

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
          args: [--model=s3://models/llama, --load-format=runai_streamer]
          env:
            - name: XDG_CACHE_HOME
              value: /compile-cache
            - name: TORCHINDUCTOR_CACHE_DIR
              value: /compile-cache/inductor
            - name: TRITON_CACHE_DIR
              value: /compile-cache/triton
            - name: AWS_REGION
              value: eu-central-1
          resources:
            limits: {nvidia.com/gpu: "1"}
          volumeMounts:
            - name: compile-cache
              mountPath: /compile-cache
      volumes:
        - name: compile-cache
          hostPath:
            path: /mnt/k8s-disks/0/compile-cache
            type: DirectoryOrCreate
```

## Fix safety

Safe for mode 2: `VLLM_USE_AOT_COMPILE=0` is set, after which Inductor's own caches hit (measured: 61 s, then 6 s). For a
directory of the pod's own, and for old versions, no fix.

## Source

vllm-project/vllm#24460, fixed by vllm-project/vllm#24922; vllm compilation/decorators.py of 0.20.2, 0.21.0 and 0.32.0
(`finalize_loading`); docs/engines.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.lint import mending
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.differing import of_text, of_variable, text_at
from glowplug.lint.rules.compile.keeping import VLLM, aot, behaviour, keeping
from glowplug.lint.rules.compile.off import COMPILATION, caches_off, compiling_off, configuration
from glowplug.plan.loaders import Loader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rules.compile.keeping import Keeping
    from glowplug.lint.view import Workload

_STREAMED: Final = ("s3://", "gs://", "az://")
_TRACE_ONCE: Final = ("2", "dynamo_trace_once")
_ON_CPU: Final = re.compile(r"(?:^|/)vllm[^/:@]*-cpu\b")
_ENDS_WITH_THE_POD: Final = ("emptyDir", "")
_SWITCH: Final = "VLLM_USE_AOT_COMPILE"


def _check(workload: Workload) -> Iterator[Problem]:
    kept = keeping(workload)
    if not kept.kept or any(compiling_off(workload)) or any(caches_off(workload)):
        return
    if workload.engine.name == VLLM and workload.engine.version:
        yield from _streamed(workload)
        yield from _thrown_away(workload)
    yield from _of_its_own(workload, kept)


def _streamed(workload: Workload) -> Iterator[Problem]:
    engine, image = workload.engine, workload.container.image
    model = engine.model.value if engine.model is not None else None
    if model is None or not model.lower().startswith(_STREAMED) or image is None:
        return
    loader = Loader(engine.name, engine.version)
    if loader.behaviour("streamed_model_hits").value == "no":
        yield Problem(
            image,
            f"vLLM {engine.version} gives a streamed model a new name at every start, which is in its compile key: it never hits",
            f"use {loader.first_with('streamed_model_hits', 'yes')} or newer",
        )


def _thrown_away(workload: Workload) -> Iterator[Problem]:
    engine, image = workload.engine, workload.container.image
    if behaviour("aot_of_mode_2_loads", engine.version) != "no" or not aot(workload):
        return
    mode = str(configuration(engine).get("mode", "")).lower()
    option = engine.option(COMPILATION)
    if mode in _TRACE_ONCE and option is not None:
        at, why = option.at, f"in compilation mode `{mode}`"
    elif not mode and image is not None and _ON_CPU.search(image.text):
        at, why = image, "on CPUs"
    else:
        return
    operations = mending.set_variable(workload.container, _SWITCH, "0")
    yield Problem(
        at,
        f"vLLM {engine.version} loads its ahead-of-time artifact {why}, throws it away and compiles again at every start",
        f"set `{_SWITCH}=0`",
        Fix(f"set {_SWITCH} to 0", operations) if operations else None,
    )


def _of_its_own(workload: Workload, kept: Keeping) -> Iterator[Problem]:
    """A directory on a lasting volume that only one pod ever has."""
    mount = kept.mount
    if mount is None or mount.kind in _ENDS_WITH_THE_POD:
        return
    expression = mount.value.get("subPathExpr")
    if expression is not None and _once(of_text(workload, expression.text)):
        yield Problem(
            expression,
            f"the compile cache at `{mount.path}` has a directory of its own for every pod, so that no pod finds what another "
            "compiled",
            "use a directory that all pods of the workload have",
        )
        return
    by = kept.root_by
    if by is not None and _once(of_variable(workload, by)) and text_at(by.at).startswith(mount.path):
        yield Problem(
            by.at,
            f"`{by.name}` is another directory in every pod, so that no pod finds what another compiled",
            "use a directory that all pods of the workload have",
        )


def _once(by: str) -> bool:
    return by in ("pod", "start")


RULE = Rule(
    name="engine-never-hits", area="compile", severity=Severity.ERROR, documentation=__doc__ or "", workload=_check
)
