# The two commands of README.md are `make demo` and `make test`; everything they need, they set up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint format types unit simulate chaos clean node redis bench-growth

demo: $(VENV)/.product
	@$(BIN)/doubtless demo

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed (PYTHON=python3.12 make …)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.product: $(VENV)/bin/python pyproject.toml
	@echo "Installing Doubtless into $(VENV) (once)…"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(STAMP): $(VENV)/bin/python pyproject.toml
	@echo "Installing Doubtless and what its tests need into $(VENV) (once)…"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.product

test: $(STAMP) redis node lint types unit

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/mypy

unit: $(STAMP)
	@$(BIN)/python -m pytest -n 2 --dist worksteal -q

# The whole engine on virtual time, with everything that can go wrong: any number of seeds. A failing one is replayed by
# `python -m tests.simulation --seed N --trace`.
SEEDS ?= 2000
FROM ?= 1
simulate: $(STAMP)
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) --from $(FROM)

# What the store's operations cost with 1,000 and with 1,000,000 stored actions: a table, never a test. Some minutes.
bench-growth: $(STAMP)
	@$(BIN)/python -m tests.growth

# Processes killed and stopped under load, before the stand-in; then judged by its journal. SEED= tells a story again.
SECONDS ?= 60
chaos: $(STAMP) redis
	@$(BIN)/python -m tests.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

format: $(STAMP)
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format --quiet .

# What the tests use where the machine has it, or lets us install it. What is lacking is said at the end of the tests.
redis:
	@command -v redis-server >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  { apt-get update -qq && apt-get install -y -qq redis-server; } >/dev/null 2>&1; } || true

node: tests/sdk/node_modules/.installed
tests/sdk/node_modules/.installed: tests/sdk/package.json
	@if command -v npm >/dev/null; then \
	  (cd tests/sdk && npm install --silent --no-audit --no-fund --no-package-lock) && touch $@; \
	fi || true

clean:
	rm -rf $(VENV) tests/sdk/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
