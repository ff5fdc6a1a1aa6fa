# Everything a developer runs. `make` alone lists the targets; each makes or refreshes .venv first.

PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python3.10,$(shell command -v $(name))))
BIN := .venv/bin
# Further arguments for pytest, as in: make test ARGS="-m 'not slow'"
ARGS ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help env servers demo test test-all compat compat-ci lint contracts typecheck format coverage bench dist clean

# $(call step,what is done,command,what to say when it fails)
step = @printf '== %s\n' "$(1)"; $(2) || { echo "make $@: $(3)" >&2; exit 1; }

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

env: ## make or refresh the virtual environment .venv
	@test -n "$(PYTHON)" || { echo "make: no Python found: install Python 3.10 or newer" >&2; exit 1; }
	@$(PYTHON) tools/environment.py

servers: env ## install the servers that tests use (as root), or say which are missing
	@$(BIN)/python -m tools.install_servers

demo: env ## watch an unmodified Celery program work on the engine, without any server
	@$(BIN)/python demo/run.py

test: lint contracts typecheck servers ## check everything: style, layers, types, tests, coverage
	$(call step,tests,$(BIN)/python tools/run_tests.py $(ARGS),a test failed or coverage fell below its floor (see above))

test-all: env servers ## run the tests on every Python from 3.10 to 3.13 found here
	@$(BIN)/python tools/test_all.py $(ARGS)

compat: env servers ## other people's test suites on the shim and on the real Celery, and the report
	@cd compat-suite && ../$(BIN)/python -m compat all $(ARGS)

compat-ci: env servers ## the part of them that CI runs, on the shim alone
	@cd compat-suite && ../$(BIN)/python -m compat ci $(ARGS)

differential: env servers ## random canvases on the real Celery and on the shim: what differs
	@$(BIN)/python -m tests.differential --examples 2000 $(ARGS)

lint: env ## ruff: rules and formatting
	$(call step,ruff check,$(BIN)/ruff check --quiet .,ruff found problems (make format mends some))
	$(call step,ruff format,$(BIN)/ruff format --check .,a file is not formatted (make format mends it))

contracts: env ## import-linter: the layers of the architecture
	$(call step,import contracts,$(BIN)/lint-imports --no-logo,an import breaks a contract of pyproject.toml)

typecheck: env ## mypy
	$(call step,mypy,$(BIN)/mypy,mypy found problems)

format: env ## mend style and formatting in place
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet .

coverage: env servers ## run the tests and write htmlcov/index.html
	$(call step,tests with coverage,$(BIN)/pytest -n auto --cov --cov-report=html $(ARGS),a test failed or coverage fell below its floor)

bench: env ## measure the engine (tests/bench)
	@$(BIN)/python -m tests.bench $(ARGS)

dist: env ## build the wheels of all four distributions into dist/
	@rm -rf dist
	@for folder in taskmq_core taskmq_celery taskmq_celery/provider migrate; do \
		$(BIN)/python -m build --wheel --no-isolation --outdir dist "$$folder" >dist.log 2>&1 \
		|| { tail -n 1 dist.log; echo "make dist: $$folder does not build (see dist.log)" >&2; exit 1; }; \
	done; rm -f dist.log; ls dist

clean: ## remove what the other targets made
	@rm -rf .cache compat-suite/.cache .venv .venvs dist dist.log build htmlcov .coverage .coverage.* \
		.hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
