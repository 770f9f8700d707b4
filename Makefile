# The index of commands: `make` alone lists them. A fresh machine needs make and Python 3.11 or newer, nothing else; every target that
# needs more sets up .venv first, from requirements.lock, and does so again only when that file or pyproject.toml has changed.
#
#   PYTHON       which Python makes the environment          make test PYTHON=python3.12
#   PYTEST_ARGS  what pytest is given                         make test PYTEST_ARGS="-x tests/unit"
#   SEEDS, SEED  how many simulations, and from which seed    make sim SEEDS=1000; make sim SEED=42 repeats that one

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
PYTEST_ARGS ?= -n auto --dist worksteal
SEEDS ?= $(if $(SEED),1,100)
FIRST_SEED = $(or $(SEED),1)

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.stamp-installed
READY_DOCS := $(VENV)/.stamp-installed-docs
PYTHON_FOLDERS = $(wildcard src tests tools benchmarks demo)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help run test test-long sim bench soak demo demo-queue docs shown lint types tidy format proto lock setup clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(READY) ## start a broker that keeps its messages in ./data
	@exec $(BIN)/bowstring serve --data ./data

test: lint types tidy ## check everything: lint, types, house rules, and all tests but the long ones
	$(BIN)/pytest $(PYTEST_ARGS)

test-long: $(READY) ## the tests that take many minutes: fuzzing, long simulations
	$(BIN)/pytest -m long --hypothesis-profile=long --timeout=0 $(PYTEST_ARGS)

sim: $(READY) ## simulate the whole broker: SEEDS=n runs, from SEED=k; with SEED alone just that one
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --seed $(FIRST_SEED)

bench: $(READY) ## measure, and write table, picture and JSON to benchmarks/results
	$(BIN)/python -m benchmarks

MINUTES ?= 30
soak: $(READY) ## a broker under load for MINUTES=30: do memory, files and start stay flat?
	$(BIN)/python -m benchmarks soak --minutes $(MINUTES)

demo: $(READY) ## a broker, a stream of orders, a Spark that adds them up; ends with a picture, demo.svg
	@$(BIN)/python -m demo

demo-queue: $(READY) ## workers on a queue: retries, crashes, dead letters, a redrive; half a minute
	@$(BIN)/python -m demo.queue

docs: $(READY_DOCS) ## build the site of docs/ to build/docs; a link that leads nowhere is an error
	@$(BIN)/python tools/reference.py --check
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean
	@echo "The site is in build/docs. To look at it: $(PYTHON) -m http.server --directory build/docs"

shown: $(READY) ## run the commands of README and docs, and write what they print below them
	BOWSTRING_WRITE_SHOWN=1 $(BIN)/pytest -q tests/docs/test_pages.py -k examples

$(READY_DOCS): $(READY) requirements-docs.lock
	@$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-docs.lock
	@touch $@

lint: $(READY) ## ruff: mistakes and layout
	$(BIN)/ruff check --quiet $(PYTHON_FOLDERS)
	$(BIN)/ruff format --check --quiet $(PYTHON_FOLDERS)

types: $(READY) ## basedpyright: strict over src and tools
	$(BIN)/basedpyright

tidy: $(READY) ## the house rules: who imports whom, pure core, sizes, names
	$(BIN)/python tools/tidy.py

format: $(READY) ## lay out the code, and mend what ruff can mend by itself
	$(BIN)/ruff check --fix --quiet $(PYTHON_FOLDERS)
	$(BIN)/ruff format --quiet $(PYTHON_FOLDERS)

proto: $(READY) ## generate the wire code from proto/bowstring/v1
	$(BIN)/python tools/proto.py

# The lock holds names, versions and hashes, and no address: where packages come from is the business of the machine that fetches them.
# `make lock LOCK_ARGS=--upgrade` moves to newer versions.
lock: $(READY) ## pin the dependencies of pyproject.toml in requirements.lock
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	    --no-emit-index-url --no-emit-find-links --quiet --output-file requirements.lock $(LOCK_ARGS)
	$(BIN)/uv pip compile --group docs --constraint requirements.lock --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --no-header --no-emit-index-url --no-emit-find-links --quiet --output-file requirements-docs.lock $(LOCK_ARGS)

setup: $(READY) ## make the environment in .venv (the other commands do it by themselves)

$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) > /dev/null || { \
	    echo "Bowstring needs Python 3.11 or newer, and there is no command '$(PYTHON)'. Name yours: make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "Bowstring needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -c 'import venv, ensurepip' 2> /dev/null || { \
	    echo "'$(PYTHON)' comes without venv or pip. Install them (on Debian and Ubuntu: the package python3-venv) and repeat." >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Setting up $(VENV), once; this takes a minute."; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || { \
	    echo "$(VENV) has no pip. Remove it with 'rm -r $(VENV)' and repeat." >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src tests # as an installation has it: where Python may not write bytecode, every start would compile all
	@touch $@

clean: ## remove what commands left behind, but neither .venv nor ./data
	rm -rf build dist .hypothesis .pytest_cache .ruff_cache
	find $(PYTHON_FOLDERS) -name __pycache__ -type d -prune -exec rm -rf {} +
