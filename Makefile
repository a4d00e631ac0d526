# Every target works from a fresh clone with Python 3.11+, make and a package registry at hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS_INSTALLED := $(VENV)/.peers-installed
WORKERS ?= 4
unexport PYTHONDONTWRITEBYTECODE # hundreds of processes start here, and each would compile every module it uses
PYTEST := $(BIN)/pytest --numprocesses $(WORKERS)

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

.PHONY: packages
packages: $(INSTALLED) ## install the system and npm packages that the tests need, where that is possible
	$(BIN)/python -m tests.support.system_packages
	$(BIN)/python -m tests.support.npm_packages

.PHONY: test
test: packages ## run every test, slow ones too (about ten minutes on two cores)
	$(PYTEST)

.PHONY: quick
quick: packages ## run the fast unit, property and attack tests (less than a minute on two cores)
	HEADGATE_EFFORT=quick $(BIN)/pytest --numprocesses 2 -m 'not slow' tests/unit tests/property tests/attack

.PHONY: soak
soak: packages ## run tests with large counts and new seeds: make soak MINUTES=600 [SEED=N] [TESTS=tests/fault]
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),60) $(SEED:%=--seed %) -- $(wordlist 2,99,$(PYTEST)) $(TESTS)

.PHONY: check
check: $(INSTALLED) ## format, lint, type and import rules, and coverage
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory coverage

COVERED_PACKAGES := protocol agent/journal runtime
COVERING_TESTS := $(addprefix tests/unit/,$(COVERED_PACKAGES)) tests/property/test_journal.py \
	$(addprefix tests/fault/test_,journal_bit_rot.py journal_full_disk.py journal_lives.py small_files_survive_crashes.py) \
	tests/unit/agent/operator/commands/test_journal.py tests/integration/test_mqtt_link.py

.PHONY: coverage
coverage: packages ## statement coverage of the packages that must not lose data, against floors (a minute)
	HEADGATE_EFFORT=quick $(PYTEST) -q -m 'not slow' $(COVERED_PACKAGES:%=--cov=%) --cov-report= $(COVERING_TESTS)
	$(BIN)/python -m tests.support.coverage_floors

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
deb: ## build dist/headgate_*.deb, which installs without a network
	PYTHON=$(PYTHON) systemd/make-deb.sh

.PHONY: clean
clean: ## remove the virtual environment and caches
	rm -rf $(VENV) dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
