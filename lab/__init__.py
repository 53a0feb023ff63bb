"""The laboratory: real parts on one machine for glowplug's tests, demo and benches.

Not part of the wheel, and nothing in `src/` imports it. Each module owns one real part: a vLLM that compiles on a
CPU the way a GPU fleet does (`engine`, `plugin`, `vllm`), a model small enough to make here (`model`), an S3 server
(`s3`) with a proxy that breaks it on purpose (`faults`), and a directory layout that behaves like a new machine
(`node`). What takes minutes to build is kept in one directory outside the checkout (`cachedir`).
"""
