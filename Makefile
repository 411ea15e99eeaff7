# Short commands for development. `make` lists them. Each command first installs what it needs into .venv.

PYTHON  ?= python3
MODEL   ?= ece408-high
N       ?= 10000
BACKEND ?= auto
MXNET   ?=
EXTRAS  ?=
ARGS    ?=
WORKERS ?= 2

BIN := .venv/bin
# Generated pages, and past versions.
GENERATED := docs/results* docs/kernels.md CHANGELOG.md
# The tests of a file run in one process (--dist loadfile), because they share expensive results.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(if $(COVERAGE),--cov=fashion_infer)
# `make test ARGS=tests/...` also runs the slow tests of the files that ARGS names.
FAST = $(if $(filter tests/%,$(ARGS)),,-m "not slow")
# The least coverage applies only to the whole suite, because the tests named in ARGS cover only a part of the code.
FLOOR = $(if $(ARGS),,--cov-fail-under=90)

# If FASHION_INFER_DATA is not set, use a dataset in the folder `shared` next to the checkout.
ifeq ($(origin FASHION_INFER_DATA),undefined)
  FASHION_INFER_DATA := $(shell cd ../shared/fashion-mnist 2>/dev/null && pwd)
  ifneq ($(FASHION_INFER_DATA),)
    export FASHION_INFER_DATA
  endif
endif

# Creates or updates .venv. All its output goes to stderr, because stdout is for the program's output.
ENV = @command -v $(PYTHON) >/dev/null || { echo "fashion-infer: there is no $(PYTHON) here: install Python 3.8 or \
newer, or name one: make PYTHON=/path/to/python" >&2; exit 1; }; $(PYTHON) scripts/make_env.py .venv \
$(if $(filter file,$(origin PYTHON)),,--keep-to-this-python) $(if $(MXNET),--mxnet=$(MXNET)) \
$(if $(filter gpu,$(BACKEND)),--cuda)

.PHONY: help setup run test test-slow test-all mutants bench lint docs wheel release clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Create .venv and build the operator library (PYTHON=, MXNET=cpu|cu112, BACKEND=gpu, EXTRAS="test docs")
	$(ENV) $(addprefix --extra=,$(EXTRAS))

run: ## Run `fashion-infer run` (MODEL=, N=, BACKEND=auto|cpu|gpu, ARGS=)
	$(ENV)
	@$(BIN)/fashion-infer run --model $(MODEL) --n $(N) --backend $(BACKEND) $(ARGS)

test: ## Run the fast tests, with a random sample of each sweep (WORKERS=2, COVERAGE=1; ARGS= is passed to pytest)
	$(ENV) --extra=test
	@$(PYTEST) $(FAST) $(ARGS)

test-slow: ## Run the slow tests
	$(ENV) --extra=test
	@$(PYTEST) -m slow $(ARGS)

test-all: COVERAGE = 1
test-all: ## Run all tests with complete sweeps, and measure coverage (more than an hour; ARGS= is passed to pytest)
	$(ENV) --extra=test
	@HYPOTHESIS_PROFILE=all $(PYTEST) $(FLOOR) $(ARGS)

mutants: ## Put random faults into a copy of the code, and count how many the nearest tests find (N=300, ARGS="--seed 1")
	$(ENV) --extra=test --extra=mutants
	@$(BIN)/python scripts/mutants.py --count $(if $(filter file,$(origin N)),300,$(N)) $(ARGS)

bench: ## Run `fashion-infer bench conv` (ARGS=)
	$(ENV)
	@$(BIN)/fashion-infer bench conv $(ARGS)

lint: ## Check the style and types of the Python files, and the words in pages and messages
	$(ENV) --extra=test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@! git grep -nEi -f scripts/avoided_words -- '*.md' 'fashion_infer/*.py' 'fashion_infer/*.html' $(GENERATED:%=':!%')

docs: ## Build the documentation as a web site in build/site; a broken link is an error
	$(ENV) --extra=docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "built the site: build/site/index.html"

wheel: ## Build a release's wheels under dist/ (ARGS="x86_64 --no-cuda", "--cuda-archs=80-real")
	$(ENV) --extra=wheel
	@$(BIN)/python scripts/make_wheel.py $(ARGS)

release: ## Check the version, the changelog and the wheels of a release; with ARGS=--tag, tag the release
	$(ENV) --extra=wheel
	@$(BIN)/python scripts/release.py $(ARGS)

clean: ## Remove .venv, builds and caches
	rm -rf .venv build dist fashion_infer.egg-info fashion_infer/lib/libfashion_ops.so
	rm -rf .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage
