# The short commands. `make` lists them; each sets up by itself what it needs.

PYTHON  ?= python3
MODEL   ?= ece408-high
N       ?= 10000
BACKEND ?= auto
MXNET   ?=
EXTRAS  ?=
ARGS    ?=
WORKERS ?= 2

BIN := .venv/bin
# A file's tests share expensive results, so they stay in one process.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(if $(COVERAGE),--cov=fashion_infer $(FLOOR))
# What is named in ARGS covers its own part of the code alone: the floor is for the whole suite.
FLOOR = $(if $(ARGS),,--cov-fail-under=90)

# A dataset that lies beside the checkout is used where it lies.
ifeq ($(origin FASHION_INFER_DATA),undefined)
  FASHION_INFER_DATA := $(shell cd ../shared/fashion-mnist 2>/dev/null && pwd)
  ifneq ($(FASHION_INFER_DATA),)
    export FASHION_INFER_DATA
  endif
endif

# All that setting up has to say goes to stderr: stdout is the program's.
ENV = @command -v $(PYTHON) >/dev/null || { echo "fashion-infer: there is no $(PYTHON) here: install Python 3.8 or \
newer, or name one: make PYTHON=/path/to/python" >&2; exit 1; }; $(PYTHON) scripts/make_env.py .venv \
$(if $(filter file,$(origin PYTHON)),,--keep-to-this-python) $(if $(MXNET),--mxnet=$(MXNET)) \
$(if $(filter gpu,$(BACKEND)),--cuda)

.PHONY: help setup run test test-all mutants bench lint docs wheel release clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv and build the operator library (PYTHON=, MXNET=cpu|cu112, BACKEND=gpu, EXTRAS="test docs")
	$(ENV) $(addprefix --extra=,$(EXTRAS))

run: ## Run the inference (MODEL=, N=, BACKEND=auto|cpu|gpu, ARGS=)
	$(ENV)
	@$(BIN)/fashion-infer run --model $(MODEL) --n $(N) --backend $(BACKEND) $(ARGS)

test: ## Run the tests; of sweeps a fresh random sample (WORKERS=2, COVERAGE=1, ARGS= go to pytest)
	$(ENV) --extra=test
	@$(PYTEST) $(ARGS)

test-all: COVERAGE = 1
test-all: ## Run every test with every sweep in full and coverage (more than an hour; ARGS= go to pytest)
	$(ENV) --extra=test
	@HYPOTHESIS_PROFILE=all $(PYTEST) $(ARGS)

mutants: ## Put random faults into a copy of the code, and count those that the nearest tests notice (N=300, ARGS="--seed 1")
	$(ENV) --extra=test --extra=mutants
	@$(BIN)/python scripts/mutants.py --count $(if $(filter file,$(origin N)),300,$(N)) $(ARGS)

bench: ## Measure the convolution kernels (ARGS=)
	$(ENV)
	@$(BIN)/fashion-infer bench conv $(ARGS)

lint: ## Check the Python files' style and types, and the words of pages and messages
	$(ENV) --extra=test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python scripts/plain_words.py

docs: ## Build the documentation as a web site, build/site/index.html; a broken link is an error
	$(ENV) --extra=docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "the site is there: build/site/index.html"

wheel: ## Build a release's wheels under dist/ (ARGS="x86_64 --no-cuda", "--cuda-archs=80-real")
	$(ENV) --extra=wheel
	@$(BIN)/python scripts/make_wheel.py $(ARGS)

release: ## Check a release: version, changelog, wheels; a dry run (ARGS=--tag tags)
	$(ENV) --extra=wheel
	@$(BIN)/python scripts/release.py $(ARGS)

clean: ## Remove .venv and everything that was built
	rm -rf .venv build dist fashion_infer.egg-info fashion_infer/lib/libfashion_ops.so
	rm -rf .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage
