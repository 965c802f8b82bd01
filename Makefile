# Everything this project needs on a fresh machine. `make help` lists the targets.
# Paths stay relative, so that a checkout below a folder with spaces works.

PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
SITE_ENV ?= development

VENV := .venv
RUN := $(VENV)/bin/python -m

# Real MCP clients: each in an environment of its own, because they need different versions of the same packages.
CLIENTS := .clients
CLIENTS_PYTHON := $(patsubst tests/clients/requirements-%.txt,$(CLIENTS)/%/.installed,$(wildcard tests/clients/requirements-*.txt))
CLIENTS_NODE := tests/clients/node_modules/.installed

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

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

.PHONY: clients
clients: $(CLIENTS_PYTHON) $(CLIENTS_NODE) ## install the MCP clients that the tests connect with

$(CLIENTS)/%/.installed: tests/clients/requirements-%.txt
	$(PYTHON) -m venv --clear $(CLIENTS)/$*
	$(CLIENTS)/$*/bin/python -m pip install --quiet --requirement $<
	@touch $@

# npm ci makes node_modules anew.
$(CLIENTS_NODE): tests/clients/package.json tests/clients/package-lock.json tests/clients/.npmrc $(CLIENTS)/node/.installed
	cd tests/clients && PATH="$$OLDPWD/$(CLIENTS)/node/bin:$$PATH" npm ci --loglevel=error
	@touch $@

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
	rm -rf $(VENV) $(CLIENTS) tests/clients/node_modules build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage instance
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
