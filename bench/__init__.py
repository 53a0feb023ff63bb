"""The figures of docs/performance.md, as ratios measured side by side in one run; medians, since machines are noisy."""
