# Each target makes the virtual environment that it needs. Once that stands, nothing here uses the network.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

# The pinned versions hold for the build backend too (older pip reads the first for that, newer the second).
export PIP_CONSTRAINT = constraints.txt
export PIP_BUILD_CONSTRAINT = constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint types coverage bench docs contract check wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/cli.stamp ## see a reminder survive a crash, offline
	$(BIN)/watchbell demo

test: $(VENV)/dev.stamp ## run the tests; ARGS="-k torn" passes arguments on
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/dev.stamp ## Ruff and the import contracts
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/lint-imports --no-logo

types: $(VENV)/dev.stamp ## basedpyright, strict
	$(BIN)/basedpyright --pythonpath $(BIN)/python

coverage: $(VENV)/dev.stamp ## the tests, with branch coverage and its floor
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest $(ARGS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

bench: $(VENV)/bench.stamp ## measure, and print the figures; ARGS="resume --runs 1" for a part
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/dev.stamp ## run every example, follow every link
	$(BIN)/python -m pytest tests/docs $(ARGS)

contract: $(VENV)/dev.stamp ## write docs/reference/contract.md from its tests
	$(BIN)/python -m tests.docs.render_contract

check: lint types coverage ## all that CI asks of a change

wheel: $(VENV)/dev.stamp ## build dist/*.whl and the source archive
	rm -rf dist
	$(BIN)/python -m build --no-isolation

clean: ## remove what make and the tools made
	rm -rf .venv build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/venv.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Watchbell needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/cli.stamp: pyproject.toml constraints.txt | $(VENV)/venv.stamp
	$(BIN)/python -m pip install --quiet --editable '.[cli]'
	@touch $@

$(VENV)/bench.stamp: pyproject.toml constraints.txt | $(VENV)/venv.stamp
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(VENV)/venv.stamp
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(VENV)/cli.stamp $@
