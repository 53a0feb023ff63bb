"""A small program that uses torch.compile, as a stand-in for an engine without an adapter: compile, first call, steady calls.

Run with the engine environment's interpreter. It prints one line with the seconds of compile + first call, which the demo, the
benches and the tests read, and ends; with `--serve SECONDS` it stays for that long after it. Runs on a GPU where there is one.
"""

from __future__ import annotations

import argparse
import time
from typing import Any


def main() -> None:
    """Compile a small transformer block and call it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", type=float, default=0.0)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--fail", action="store_true", help="end with status 3 before anything is compiled")
    options = parser.parse_args()
    if options.fail:
        raise SystemExit(3)

    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = _model(torch, options.layers).to(device)
    compiled = torch.compile(model)
    batch = torch.randn(4, 32, 128, device=device)
    began = time.monotonic()
    with torch.no_grad():
        first = compiled(batch)
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"compile + first call took {time.monotonic() - began:.3f} s on {device}", flush=True)
    with torch.no_grad():
        again = compiled(batch)
    if not torch.allclose(first, again, atol=1e-3):
        raise SystemExit("the second call gave another result")
    time.sleep(options.serve)


def _model(torch: Any, layers: int) -> Any:
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        """Norm, gated feed-forward and a softmax mix: enough for several fused kernels."""

        def __init__(self, width: int, inner: int) -> None:
            super().__init__()
            self.norm = nn.RMSNorm(width)
            self.gate = nn.Linear(width, inner)
            self.up = nn.Linear(width, inner)
            self.down = nn.Linear(inner, width)

        def forward(self, x: Any) -> Any:
            h = self.norm(x)
            h = nn.functional.silu(self.gate(h)) * self.up(h)
            h = self.down(h)
            return x + h * h.softmax(dim=-1).cumsum(dim=-1).sin()

    # Widths differ, so that every layer is compiled into kernels of its own.
    return nn.Sequential(*(Block(128, 192 + 32 * layer) for layer in range(layers)))


if __name__ == "__main__":
    main()
