# glowplug: `make` lists what there is. The two commands to know are `make demo` and `make test`; each sets up what it needs.
# PYTHON=… chooses the interpreter of .venv (default: the newest that will do, see dev/find-python), ENGINE=torch the fast demo.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help environment engine kube cluster cluster-up cluster-down check static formatted lint types layers fast format test bench soak demo docs lock pyz client image coverage changelog clean

PYTHON ?=
ENGINE ?= vllm
TESTS ?= tests
RUN := .venv/bin/python
TYPED := $(sort $(dir $(wildcard src/glowplug/*.py lab/*.py demo/*.py bench/*.py dev/*.py)))
PYTEST := $(RUN) -m pytest
FAST := not slow and not engine and not soak and not browser and not kube and not cluster and not s3
ifdef PYTEST_ARGS
PYTEST += $(PYTEST_ARGS)
endif

# As root in CI every part must be there; anywhere else a lacking part skips its tests and says what would bring it.
ROOT_IN_CI := $(shell [ "$$CI" = true ] && [ "$$(id -u)" = 0 ] && echo yes)
ifeq ($(ROOT_IN_CI),yes)
GLOWPLUG_TEST_REQUIRE ?= engine,s3,kube,cluster,browser,ninja,root
endif
export GLOWPLUG_TEST_REQUIRE

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

environment: ## .venv: glowplug and its tools from requirements/dev.txt (every target does this by itself)
	@if [ -z "$(PYTHON)" ] && [ -f .venv/glowplug-stamp ] && .venv/bin/python -c '' 2>/dev/null; \
	then python=.venv/bin/python; else python=$$(sh dev/find-python $(PYTHON)) || exit 1; fi; \
	"$$python" dev/environment.py --python "$$python"

engine: environment ## the engine environment (torch, vLLM) in the cache directory outside the checkout; minutes, once
	@$(RUN) -m dev.prepare engine

kube: environment ## Kubernetes' API server and etcd, built by Go into the same cache directory; minutes, once
	@$(RUN) -m dev.prepare kube

cluster: environment ## what real Kubernetes nodes need: as root system packages, and commands built by Go; minutes, once
	@$(RUN) -m dev.prepare cluster

cluster-up: environment ## as root: a cluster of two real nodes and an S3 server; on stdout what a shell needs to use it
	@$(RUN) -m dev.prepare cluster >&2
	@$(RUN) -m lab.cluster up

cluster-down: environment ## end the cluster of `make cluster-up`, and remove what a killed test run left of its own
	@$(RUN) -m lab.cluster down

check: environment ## format, lint, types, layers, fast tests; minutes on two cores
	@$(MAKE) --no-print-directory --keep-going formatted lint types layers fast

static: environment ## what of `make check` runs no test
	@$(MAKE) --no-print-directory --keep-going formatted lint types layers

formatted:
	$(RUN) -m ruff format --check --output-format concise .

lint:
	$(RUN) -m ruff check --output-format concise .

types:
	$(RUN) -m mypy $(TYPED)

layers:
	.venv/bin/lint-imports --no-logo

fast:
	$(PYTEST) -q -n 4 --dist loadfile --timeout 120 -m "$(FAST)" $(TESTS)

format: environment ## let ruff put the code into its form
	$(RUN) -m ruff check --fix --exit-zero --quiet .
	$(RUN) -m ruff format .

# Engines in pods are compared by their seconds: nothing runs beside them.
test: environment ## everything that asserts behaviour, generated documents included; all but `make soak`
	@$(RUN) -m dev.prepare test
	@status=0; \
	$(PYTEST) -n 3 --dist loadfile --timeout 1200 --durations 15 -m "not soak and not engine" $(TESTS) || [ $$? = 5 ] || status=1; \
	$(PYTEST) -n 2 --dist worksteal --timeout 1800 --durations 15 -m "engine and not cluster and not soak" $(TESTS) || [ $$? = 5 ] || status=1; \
	$(PYTEST) --timeout 1800 --durations 15 -m "engine and cluster and not soak" $(TESTS) || [ $$? = 5 ] || status=1; \
	exit $$status

soak: environment ## the long races and loads
	@$(RUN) -m dev.prepare test
	$(PYTEST) --timeout 3600 -m soak $(TESTS)

bench: environment ## the figures, as ratios: build/bench/*.json
	@$(RUN) -m dev.prepare bench
	$(RUN) -m bench

demo: environment ## the main job on real parts: cold, warm, new node; build/demo/report.html (ENGINE=torch: a fast variant)
	@$(RUN) -m dev.prepare demo
	$(RUN) -m demo --engine $(ENGINE)

pyz: environment ## build/glowplug.pyz: what pods run from a node's store, for any Python ≥ 3.9
	$(RUN) -m dev.pyz

client: environment ## build/client: what pods of direct mode carry, for CPython 3.11–3.14 on either kind of machine
	$(RUN) -m dev.client

image: environment ## build/glowplug-image.tar: glowplug's image on this machine's Python, without Docker; needs Go
	$(RUN) -m dev.image

docs: environment ## write the generated documents anew
	$(RUN) -m dev.docs

lock: environment ## pin the newest versions that pyproject.toml allows
	$(RUN) -m dev.lock

coverage: environment ## which lines the fast tests run
	$(RUN) -m coverage erase
	$(RUN) -m coverage run -m pytest -q -m "$(FAST)" $(TESTS)
	$(RUN) -m coverage combine -q
	$(RUN) -m coverage report

changelog: environment ## what the fragments of changelog.d say, as the next release would show it
	@$(RUN) -m dev.changelog

clean: ## remove what was made here (not the cache directory outside the checkout)
	rm -rf .venv build dist .coverage* .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find src lab demo bench dev tests -name __pycache__ -type d -prune -exec rm -rf {} +
