"""Cold, steady and new place of a torch.compile + Triton program on a machine with an NVIDIA GPU: one file, about three minutes.

    python bench/gpu.py [--out gpu.json]

Needs a Python with torch (CUDA build) and Triton; glowplug itself is not needed for the measured program, only for
`glowplug run` around it when it is importable, else the caches are copied by hand and the output says so. Where there is no GPU
it says so and stops with status 1. The program compiles a few fused layers by Inductor and one hand-written Triton kernel, in
a fresh process each time; the figure of a start is the seconds of compile + first call that the program prints.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = r"""
import sys, time
import torch
import triton
import triton.language as tl

@triton.jit
def scale_add(x, y, out, n, a, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) * a + tl.load(y + at, mask=mask), mask=mask)

class Block(torch.nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = torch.nn.RMSNorm(width)
        self.gate = torch.nn.Linear(width, inner)
        self.up = torch.nn.Linear(width, inner)
        self.down = torch.nn.Linear(inner, width)
    def forward(self, x):
        h = self.norm(x)
        h = torch.nn.functional.silu(self.gate(h)) * self.up(h)
        h = self.down(h)
        return x + h * h.softmax(dim=-1).cumsum(dim=-1).sin()

torch.manual_seed(0)
model = torch.nn.Sequential(*(Block(1024, 1536 + 256 * i) for i in range(int(sys.argv[1])))).cuda().bfloat16()
x = torch.randn(8, 256, 1024, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
began = time.monotonic()
compiled = torch.compile(model)
with torch.no_grad():
    y = compiled(x)
out = torch.empty_like(y)
scale_add[(triton.cdiv(y.numel(), 1024),)](x, y, out, y.numel(), 0.5, BLOCK=1024)
torch.cuda.synchronize()
print(f"compile + first call took {time.monotonic() - began:.3f} s on cuda", flush=True)
"""


def main() -> int:
    """Measure; prints JSON."""
    parser = argparse.ArgumentParser(description="cold / steady / new place of a torch.compile + Triton program")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    about = _about()
    if about is None:
        print("no NVIDIA GPU with torch and Triton here: nothing measured", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="glowplug-gpu-") as directory:
        document = about | _measure(Path(directory), options.layers, options.repeat)
    text = json.dumps(document, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    return 0


def _about() -> dict[str, object] | None:
    code = (
        "import json, torch, triton; assert torch.cuda.is_available(); "
        "print(json.dumps({'gpu': torch.cuda.get_device_name(0), 'torch': torch.__version__, 'triton': triton.__version__}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    found: dict[str, object] = json.loads(done.stdout)
    return found


def _measure(base: Path, layers: int, repeat: int) -> dict[str, object]:
    program = base / "program.py"
    program.write_text(PROGRAM)
    root = base / "compile-cache"
    through_glowplug = _has_glowplug()
    cold: list[float] = []
    steady: list[float] = []
    new_place: list[float] = []
    verdicts: list[str] = []
    for round_number in range(repeat):
        store = base / f"store-{round_number}"
        saved = base / "saved"
        for path in (root, saved):
            shutil.rmtree(path, ignore_errors=True)
        for series in (cold, steady):
            series.append(_start(base, program, root, layers, store if through_glowplug else None, verdicts))
        if not through_glowplug:
            shutil.copytree(root, saved)
        shutil.rmtree(root)  # a new place: nothing but the store, at the same path
        if not through_glowplug:
            shutil.copytree(saved, root)
        new_place.append(_start(base, program, root, layers, store if through_glowplug else None, verdicts))
    medians = {name: statistics.median(series) for name, series in _named(cold, steady, new_place).items()}
    return {
        "schema": "glowplug.bench/1",
        "name": "gpu",
        "through": "glowplug run" if through_glowplug else "caches copied by hand",
        "seconds": _named(cold, steady, new_place),
        "verdicts": verdicts,
        "ratios": {
            "cold_to_new_place": round(medians["cold"] / medians["new_place"], 2),
            "new_place_to_steady": round(medians["new_place"] / medians["steady"], 3),
        },
    }


def _named(cold: list[float], steady: list[float], new_place: list[float]) -> dict[str, list[float]]:
    return {"cold": cold, "steady": steady, "new_place": new_place}


def _start(base: Path, program: Path, root: Path, layers: int, store: Path | None, verdicts: list[str]) -> float:
    home = Path(tempfile.mkdtemp(dir=base, prefix="home-"))
    environ = os.environ | {"HOME": str(home), "TMPDIR": str(home), "XDG_STATE_HOME": str(home)}
    command = [sys.executable, str(program), str(layers)]
    report = home / "start.json"
    if store is None:
        environ |= {"TORCHINDUCTOR_CACHE_DIR": str(root / "inductor"), "TRITON_CACHE_DIR": str(root / "triton")}
    else:
        options = ["--store", store.as_uri(), "--cache-root", str(root), "--engine", "torch", "--report", str(report)]
        command = [sys.executable, "-m", "glowplug", "run", *options, "--", *command]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    if report.exists():
        verdicts.append(json.loads(report.read_text())["verdict"]["compile"])
    return float(done.stdout.split("compile + first call took ")[1].split()[0])


def _has_glowplug() -> bool:
    done = subprocess.run([sys.executable, "-m", "glowplug", "--version"], capture_output=True, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
