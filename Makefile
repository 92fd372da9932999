# Every target sets up what it needs: a fresh machine has only Python 3.11 (or newer) and pip.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# Some tests wait for other programs: one more of them than there are cores. Neighbours share what they set up, so they stay together
# (worksteal); hundreds of programs are started, so bytecode is kept, whatever the environment says.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

.DEFAULT_GOAL := help
.PHONY: help demo test check fix bench docs clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY) ## a conversation with tools on every wire, handed over in the middle: no key, no network
	@$(BIN)/toolglot demo

test: $(READY) ## all tests with coverage, then the scores on the recordings where they are present (SYSTEM=no installs no programs)
	@SYSTEM=$(SYSTEM) sh tests/system.sh
	@PYTHONDONTWRITEBYTECODE= PYTEST_XDIST_AUTO_NUM_WORKERS=$(WORKERS) \
		$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal --cov --cov-report=term:skip-covered --cov-fail-under=90
	@$(BIN)/python tests/scores.py

check: $(READY) ## format, lint, types, import contracts, documentation examples
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright --warnings
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -q tests/test_docs.py

fix: $(READY) ## format and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY) ## speed, as ratios against the floor and the official SDKs (the loop: python -m bench loop loop-goals)
	@$(BIN)/python -m bench

docs: $(READY) ## write the generated parts of the documentation anew
	@$(BIN)/python docs/generate.py

clean: ## remove what make made
	@rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .coverage
