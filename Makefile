# `make run` and `make test` do their own set-up; start with them.

WORKERS ?= auto
ARGS ?=
BIN := .venv/bin

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup run test check coverage format bench bundle lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## create .venv with everything that checks and tests need
	@scripts/setup test

# Nothing here may write to stdout: with ARGS="--transport stdio" it belongs to the protocol.
run: ## serve every pack that can run on port 3000; more flags in ARGS="..."
	@scripts/setup run
	@exec $(BIN)/hubbub serve $(ARGS)

test: check ## check, then every test in parallel, on every supported Python; pytest flags in ARGS="..."
	@WORKERS=$(WORKERS) scripts/test $(ARGS)

check: setup ## ruff, mypy and import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

coverage: setup ## branch coverage of protocol, server and security, each at least 90 %
	@WORKERS=$(WORKERS) scripts/coverage $(ARGS)

format: setup ## fix formatting and import order
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup ## compare with other implementations
	bench/run $(ARGS)

bundle: ## write dist/hubbub-VERSION.mcpb, for clients that install bundles, and dist/server.json
	@scripts/setup run
	$(BIN)/python scripts/bundle.py

lock: ## update the lock files; ARGS=--upgrade for newer versions
	scripts/lock $(ARGS)

clean: ## remove everything that set-up, checks and tests created
	rm -rf .venv .venv-* .node .judges .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	rm -rf tests/judges/node_modules
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
