# Every target works from a fresh clone with Python 3.11+, make and a package registry at hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS_INSTALLED := $(VENV)/.peers-installed

.PHONY: help
help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headgate needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[node,ingest,dev]'
	@touch $@

$(PEERS_INSTALLED): $(INSTALLED) benchmarks/peers.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement benchmarks/peers.txt
	@touch $@

.PHONY: test
test: $(INSTALLED) ## run every test, slow ones too
	$(BIN)/pytest

.PHONY: quick
quick: $(INSTALLED) ## run the fast tests (seconds)
	$(BIN)/pytest -m 'not slow'

.PHONY: check
check: $(INSTALLED) ## format, lint, type and import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: fuzz
fuzz: $(INSTALLED) ## fuzz one decoder: make fuzz TARGET=iomessage SECONDS=60
	$(BIN)/python -m tests.fuzz $(TARGET) -max_total_time=$(or $(SECONDS),60)

.PHONY: bench
bench: $(PEERS_INSTALLED) ## print ratios against limits and peers; also into build/benchmarks
	$(BIN)/python -m benchmarks --out build/benchmarks

.PHONY: demo
demo: $(INSTALLED) ## the whole picture on this machine, broken and settled, in a minute or two
	$(BIN)/headgate demo

.PHONY: deb
deb: $(INSTALLED) ## build dist/headgate_*.deb, which installs without a network
	PYTHON=$(BIN)/python systemd/make-deb.sh

.PHONY: clean
clean: ## remove the virtual environment and caches
	rm -rf $(VENV) dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
