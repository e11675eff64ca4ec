# Two commands to know: `make demo` and `make test`. Both set up what they need, once.
VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: demo test test-all check setup clean

demo: setup  ## Post-train a small model on real sandboxed tasks, from check to report.
	$(VENV)/bin/strop train recipes/quickstart.toml

test: setup  ## The fast tests.
	$(PYTHON) -m pytest

test-all: setup  ## The fast tests and the slow ones.
	$(PYTHON) -m pytest -m "slow or not slow"

check: setup  ## Style, types and import contracts.
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:  ## Remove what set-up and tests made; runs stay.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
