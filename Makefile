# Two commands do all the set-up: `make demo` and `make test`. Everything goes into $(VENV); once installed,
# both work offline. PYTHON chooses the interpreter (3.11 to 3.13; the engine set is pinned for 3.11).
PYTHON ?= python3
VENV ?= .venv
# Where torch's CPU build is looked for when the configured indexes do not have it.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PYTEST_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps
ENGINE_LOCK := dflash_doctor/environment/cpu-engine.lock.txt
TORCH := $(shell grep '^torch==' $(ENGINE_LOCK))

.DEFAULT_GOAL := help
.PHONY: help demo test slow lint types wheel bench pair docs clean

help: ## show this
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.package ## run the bundled pair on the real engine; prints where the report is
	$(BIN)/dflash-doctor demo

test: $(VENV)/.test ## run the test suite (without the tests marked slow or wheel)
	$(BIN)/python -m pytest -m "not slow and not wheel" $(PYTEST_ARGS)

slow: $(VENV)/.test ## run the tests that take many minutes
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

lint: $(VENV)/.test ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test ## mypy --strict on the package
	$(BIN)/mypy dflash_doctor

wheel: $(VENV)/.test ## build sdist, then the wheel from it, and test the installed wheel
	$(BIN)/python -m pytest -m wheel $(PYTEST_ARGS)

bench: $(VENV)/.test ## measure, and write the tables into the README
	$(BIN)/python tests/benchmarks/run.py

pair: $(VENV)/.package ## build a tiny pair from nothing into build/tiny_pair (about 15 minutes)
	$(BIN)/python -m dflash_doctor.tinypair build/tiny_pair

docs: $(VENV)/.test ## write the generated blocks of the README
	$(BIN)/python tests/readme_blocks.py --write

clean: ## remove the environment and everything built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
		{ echo "dflash-doctor needs Python 3.11 to 3.13; $(PYTHON) is $$($(PYTHON) --version). Use: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The CPU engine, exactly as locked. --no-deps: the engine's own metadata asks for torchvision, torchaudio
# and torchcodec, whose public wheels do not fit this torch.
$(VENV)/.engine: $(ENGINE_LOCK) $(VENV)/.python
	@echo "installing the CPU engine into $(VENV) (one to two minutes) ..."
	@$(PIP) $(TORCH) || { echo "$(TORCH) is not in the configured indexes; trying $(TORCH_INDEX)"; \
		$(PIP) --extra-index-url $(TORCH_INDEX) $(TORCH); }
	@$(PIP) -r $(ENGINE_LOCK)
	@touch $@

$(VENV)/.package: pyproject.toml .ci/package.lock.txt $(VENV)/.engine
	@$(PIP) -r .ci/package.lock.txt
	@$(PIP) --no-build-isolation -e .
	@touch $@

$(VENV)/.test: .ci/test.lock.txt $(VENV)/.package
	@$(PIP) -r .ci/test.lock.txt
	@touch $@
