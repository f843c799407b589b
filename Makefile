# Two commands do all the set-up: `make demo` and `make test` create .venv and reuse it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
RUNTIME := .venv/.runtime

.DEFAULT_GOAL := help
.PHONY: help fmt lint type test test-slow test-py312 test-py313 test-py314 demo bench chaos fuzz check clean

help:    ## this list
	@grep -E '^[a-z0-9 -]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 23

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,lsp]'
	touch $@ $(RUNTIME)

# What users install, without the development tools.
$(RUNTIME): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

fmt: $(READY)    ## format and sort imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet .

lint: $(READY)    ## ruff, import-linter
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

type: $(READY)    ## mypy and pyright, both strict
	$(BIN)/mypy
	$(BIN)/pyright

test: lint type    ## lint, types and every test
	$(BIN)/pytest -n 2 --dist worksteal -q

test-slow: $(READY)    ## what engine and stores promise, with every short cut left out
	TENUTO_SLOW=all $(BIN)/pytest -n 2 --dist worksteal -q tests/conformance tests/acceptance

test-py312 test-py313: test-py3%: .venv-py3%/.ready    ## the whole suite on another Python, where it is on the PATH
	.venv-py3$*/bin/pytest -n 2 --dist worksteal -q

.venv-py3%/.ready: pyproject.toml constraints.txt
	test -x .venv-py3$*/bin/python || python3.$* -m venv .venv-py3$*
	.venv-py3$*/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,lsp]'
	touch $@

test-py314: $(READY)    ## what needs no thread, socket or binary wheel, on CPython 3.14 compiled to WebAssembly
	$(BIN)/python scripts/test_py314.py

demo: $(RUNTIME)    ## the main job, surviving a crash, on the embedded default
	$(BIN)/tenuto demo

bench: $(READY)    ## ratios within one run each: kernel, entities, directives, TWF, and beside the peers that are installed
	$(BIN)/python bench/kernel.py
	$(BIN)/python bench/entity.py
	$(BIN)/python bench/twf.py
	$(BIN)/python bench/peers.py
	$(BIN)/python bench/directives.py

chaos: $(READY)    ## real processes, killed: more runs and kills than in make test
	TENUTO_CHAOS_RUNS=200 TENUTO_CHAOS_KILLS=40 $(BIN)/pytest -q tests/chaos

fuzz: $(READY)    ## generated programs and values, many more of them; bounded
	TENUTO_FUZZ=1 $(BIN)/pytest -n 2 --dist worksteal -q -m fuzz

check: test    ## all a push must pass

clean:    ## remove what make created
	rm -rf .venv .venv-py312 .venv-py313 .cache build dist
