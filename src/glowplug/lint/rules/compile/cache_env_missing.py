"""A volume for compiled artifacts is mounted, and the engine is not told to use it.

## What it does

Finds a pod with a volume for compiled artifacts where the variable that moves the engine's own tree there is missing:
`VLLM_CACHE_ROOT` (or the guide's `XDG_CACHE_HOME`) for vLLM, `SGLANG_CACHE_DIR` or `TORCHINDUCTOR_CACHE_DIR` for SGLang. Where a
variable places one compiler's cache on the volume, its siblings that this version reads are asked for as well. Pods that glowplug
starts need none: the launcher sets them. Silent where the volume is some user's `~/.cache` and the image chooses the user.

## Why is this bad

vLLM writes to `~/.cache/vllm`, in the container's own layer, which ends with the container. The volume stays empty, every start
compiles for 50 to 80 seconds, and nothing says so. A volume that holds Inductor's files but not vLLM's own index hits nothing
either. The other way round vLLM's own artifacts hit, and what `torch.compile` makes outside them is compiled again; before torch
2.8 (vLLM 0.10.1 and older), and in 0.11.0, vLLM puts Inductor's and Triton's files into its own tree by itself.

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
          image: vllm/vllm-openai:v0.33.0
          args: [--model=/models/llama]
          resources:
            limits: {nvidia.com/gpu: "1"}
          volumeMounts:
            - name: cache
              mountPath: /compile-cache
      volumes:
        - name: cache
          hostPath:
            path: /mnt/k8s-disks/0/compile-cache
            type: DirectoryOrCreate
```

Finds `/compile-cache` in line 22.

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
            - name: VLLM_CACHE_ROOT
              value: /compile-cache/vllm
            - name: VLLM_ASSETS_CACHE
              value: /compile-cache/vllm/assets
          resources:
            limits: {nvidia.com/gpu: "1"}
          volumeMounts:
            - name: cache
              mountPath: /compile-cache
      volumes:
        - name: cache
          hostPath:
            path: /mnt/k8s-disks/0/compile-cache
            type: DirectoryOrCreate
```

## Fix safety

Safe: it adds the variables of the engine that are missing, the same that `glowplug render` writes, and changes none that is
there. Where a volume is mounted at the default directory of one of them (`~/.triton`), that one is left alone. Unsafe where the
engine does not run as root and the volume may be root's. No fix where the volume is a network file system or cannot be written:
then the volume is what has to change.

## Source

AWS, Accelerate model loading on Amazon EKS, "Add cache environment variables"; vllm envs.py, compilation/decorators.py,
compilation/backends.py (`make_compiler`) and compiler_interface.py, 0.8.5 to 0.33.0; torch _inductor/standalone_compile.py;
SGLang documentation, "Enabling cache for torch.compile".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.compile.filesystems import is_fit, is_surely_writable
from glowplug.lint.rules.compile.keeping import (
    SGLANG,
    VLLM,
    at_default,
    below,
    keeping,
    overwritten,
    placed,
    pointing,
    redirecting,
    set_together,
)
from glowplug.lint.rules.compile.off import compiling_off

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from glowplug.lint.rules.compile.keeping import Keeping
    from glowplug.lint.view import Mount, Variable, Workload

_INDUCTOR = "TORCHINDUCTOR_CACHE_DIR"
_TRITON = "TRITON_CACHE_DIR"
# Where a user that the image does not know has its home at /: whoever mounts these expects such a user (OpenShift), and it is the
# cluster that decides.
_HOME_AT_ROOT = ("/.cache", "/.triton", "/.config")


def _check(workload: Workload) -> Iterator[Problem]:
    environment = workload.container.environment
    if not environment.whole or workload.engine.opaque:
        return
    kept = keeping(workload)
    mount = kept.mount
    if kept.launcher or not kept.meant or mount is None or any(compiling_off(workload)):
        return
    if mount.path.rstrip("/") in _HOME_AT_ROOT:
        return
    missing = [why for why in _missing(workload, kept, mount) if why]
    if not missing:
        return
    title = f"set the engine's cache variables below {kept.cache_root}"
    used = f"the engine does not use the volume at `{mount.path}`"
    if _own_tree_is_there(workload, kept):
        used = f"the engine uses the volume at `{mount.path}` only for a part of what it compiles"
    fit = is_fit(workload, mount)
    operations = set_together(workload, _to_set(workload, kept)) if fit else None
    yield Problem(
        mount.value.get("mountPath") or mount.value,
        f"{used}: {'; '.join(missing)}",
        f"set {', '.join(_to_set(workload, kept))}"
        + ("" if fit else ", on a volume of the node's own that can be written"),
        Fix(title, operations, safe=is_surely_writable(workload, mount)) if operations else None,
    )


def _missing(workload: Workload, kept: Keeping, mount: Mount) -> Iterator[str]:
    """Each variable that is not set and should be, as a sentence."""
    there = pointing(workload)
    inside = {name for name, one in there.items() if one.value and workload.container.mount_of(one.value) is mount}
    if workload.engine.name == VLLM:
        yield _of_vllm(workload, kept, mount)
        if _misses_inductors(workload, kept):
            yield f"`{_INDUCTOR}` is not set, so what Inductor compiles beside vLLM's own tree lies in /tmp"
    elif not any(name in there for name in ("SGLANG_CACHE_DIR", _INDUCTOR)) and workload.engine.name == SGLANG:
        if _generic(workload, mount):
            return
        yield "neither `SGLANG_CACHE_DIR` nor `TORCHINDUCTOR_CACHE_DIR` is set"
    elif not there and not _generic(workload, mount):
        yield "none of its cache variables is set"
    if _INDUCTOR in inside and _misses_tritons(workload, there):
        yield f"`{_TRITON}` is not set, so kernels that Triton compiles by itself lie in ~/.triton"


def _misses_tritons(workload: Workload, there: Mapping[str, Variable]) -> bool:
    """Whether the kernels that the engine itself has Triton compile are lost. Inductor's come with its files."""
    if not workload.container.environment.lacks(_TRITON) or at_default(workload, _TRITON):
        return False
    by_root = workload.engine.name == SGLANG and "SGLANG_CACHE_DIR" in there
    return not by_root and redirecting(workload) is False


def _misses_inductors(workload: Workload, kept: Keeping) -> bool:
    """Whether what torch.compile makes outside vLLM's backend is lost; vLLM's own artifacts are whole without."""
    if not workload.container.environment.lacks(_INDUCTOR) or at_default(workload, _INDUCTOR):
        return False
    return overwritten(workload, _INDUCTOR) is False and _own_tree_is_there(workload, kept)


def _of_vllm(workload: Workload, kept: Keeping, mount: Mount) -> str:
    if not workload.container.environment.lacks("VLLM_CACHE_ROOT"):
        return ""
    if _own_tree_is_there(workload, kept):
        return ""
    if kept.root is None and (kept.root_by is not None or _is_a_home(mount)):
        return ""
    if kept.root_by is not None and kept.root_by.name == "XDG_CACHE_HOME":
        return ""  # set, and to a place outside: another rule's
    return f"`VLLM_CACHE_ROOT` is not set, so vLLM keeps its own tree in {kept.root or '~/.cache/vllm'}"


def _own_tree_is_there(workload: Workload, kept: Keeping) -> bool:
    if kept.root is None:
        return False
    # Or a part of it: `torch_compile_cache` alone.
    mounted = kept.mount is not None and below(kept.mount.path, kept.root)
    return mounted or workload.container.mount_of(kept.root) is not None


def _is_a_home(mount: Mount) -> bool:
    """Whether the volume may be where the engine keeps its caches unasked: `~/.cache` of a user whom the image chooses."""
    return "/.cache/" in f"{mount.path}/"


def _generic(workload: Workload, mount: Mount) -> bool:
    """Whether a directory that many programs keep caches in lies on the volume, and so perhaps this engine's."""
    environment = workload.container.environment
    values = (environment.value(name) for name in ("XDG_CACHE_HOME", "HOME"))
    return _is_a_home(mount) or any(value and workload.container.mount_of(value) is mount for value in values)


def _to_set(workload: Workload, kept: Keeping) -> dict[str, str]:
    environment = workload.container.environment
    wanted = placed(workload, kept.cache_root)
    if (kept.root_by is None or kept.root_by.name != "VLLM_CACHE_ROOT") and _own_tree_is_there(workload, kept):
        # The engine's tree is on the volume by its default or by XDG_CACHE_HOME: moving it would lose what is there.
        wanted = {name: value for name, value in wanted.items() if not name.startswith("VLLM_")}
    return {name: value for name, value in wanted.items() if environment.lacks(name) and not at_default(workload, name)}


RULE = Rule(
    name="cache-env-missing", area="compile", severity=Severity.ERROR, documentation=__doc__ or "", workload=_check
)
