# Each target makes the virtual environment that it needs. Once that stands, nothing here uses the network.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# On every core; ARGS="-n 0 --pdb" stays in one process.
PYTEST = -m pytest -n auto --dist worksteal

# The pinned versions hold for the build backend too (older pip reads the first for that, newer the second).
export PIP_CONSTRAINT = constraints.txt
export PIP_BUILD_CONSTRAINT = constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint house types coverage fuzz bench docs contract reference costs mutate sim chaos check wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/cli.stamp ## see a reminder survive a crash, offline
	$(BIN)/watchbell demo

test: $(VENV)/dev.stamp ## run the tests; ARGS="-k torn" passes arguments on
	$(BIN)/python $(PYTEST) $(ARGS)

lint: $(VENV)/dev.stamp house ## Ruff, the import contracts and the house
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/lint-imports --no-logo

house: $(VENV)/dev.stamp ## does the code keep to its plan: circles, sizes, documented names
	$(BIN)/python -m tests.house

types: $(VENV)/dev.stamp ## basedpyright: strict, the tests in basic mode
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/basedpyright --pythonpath $(BIN)/python -p tests

coverage: $(VENV)/dev.stamp ## the tests, with branch coverage and its floor
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run $(PYTEST) $(ARGS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

fuzz: $(VENV)/dev.stamp ## fuzz what reads logs, for SECONDS=60 unless told otherwise
	$(BIN)/python -m tests.properties.fuzz_log --seconds $(or $(SECONDS),60)

bench: $(VENV)/bench.stamp ## measure, and print the figures; ARGS="resume --runs 1" for a part
	$(BIN)/python -m benchmarks $(ARGS)

sim: $(VENV)/dev.stamp ## break the promise, if you can: SEED=n, RUNS=n, SECONDS=n
	$(BIN)/python -m tests.simulation \
		$(if $(SEED),--seed $(SEED)) $(if $(RUNS),--runs $(RUNS)) $(if $(SECONDS),--seconds $(SECONDS))

chaos: $(VENV)/dev.stamp ## kill real hosts on real files: KILLS=n, SEED=n
	$(BIN)/python -m tests.chaos $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED))

docs: $(VENV)/dev.stamp ## run every example, follow every link, build site/
	$(BIN)/python -m pytest tests/docs tests/examples $(ARGS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

contract: $(VENV)/dev.stamp ## write docs/reference/contract.md from its tests
	$(BIN)/python -m tests.docs.render_contract

reference: $(VENV)/dev.stamp ## write the reference of the Python API from its docstrings
	$(BIN)/python -m tests.docs.render_reference

costs: $(VENV)/dev.stamp ## write docs/explanation/costs.md, measured
	$(BIN)/python -m tests.docs.render_costs

mutate: $(VENV)/mutate.stamp ## mutants of Schedule's pure half that the tests do not see; some 15 minutes
	rm -rf mutants
	$(BIN)/mutmut run
	$(BIN)/mutmut results

check: lint types coverage ## all that CI asks of a change

wheel: $(VENV)/dev.stamp ## build dist/*.whl and the source archive
	rm -rf dist
	$(BIN)/python -m build --no-isolation

clean: ## remove what make and the tools made
	rm -rf .venv build dist htmlcov mutants site .coverage .coverage.* .hypothesis .import_linter_cache .pytest_cache .ruff_cache
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

$(VENV)/mutate.stamp: $(VENV)/dev.stamp
	$(BIN)/python -m pip install --quiet mutmut
	@touch $@
