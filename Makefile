# Two commands do all: `make demo` shows what Wherry does, `make test` proves it.
# Both make the environment in .venv first; `uv` is used where it is installed, pip otherwise.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# As many workers as there are cores, and at least two.
JOBS   ?= $(shell n=$$(nproc); [ $$n -lt 2 ] && n=2; echo $$n)

.PHONY: demo test check lint types format bench soak docs clean

demo: $(VENV)/.demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/demo.sh

test: $(VENV)/.dev
	@sh scripts/engine.sh && sh scripts/images.sh || \
		echo "without a Docker Engine, the tests that need one are left out (CI=true: they fail)"
	$(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS)

check: lint types

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/local.py
	$(BIN)/python benchmarks/aws.py
	$(BIN)/python benchmarks/containers.py
	$(BIN)/python benchmarks/workspaces.py
	$(BIN)/python benchmarks/functions.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/maps.py

soak: $(VENV)/.dev
	$(BIN)/python benchmarks/soak.py
	$(BIN)/python benchmarks/emulator.py
	$(BIN)/python benchmarks/aws_faults.py

docs: $(VENV)/.dev
	$(BIN)/python scripts/write_docs.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .demo benchmarks/.peers

$(VENV)/.demo: pyproject.toml
	@PYTHON="$(PYTHON)" sh scripts/install.sh $(VENV) '.[demo,aws,emulator]'
	@touch $@

$(VENV)/.dev: pyproject.toml
	@PYTHON="$(PYTHON)" sh scripts/install.sh $(VENV) '.[dev,demo,aws,emulator]'
	@touch $@
