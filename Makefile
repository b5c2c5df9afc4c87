# One virtual environment, made on first use; every target works on a fresh machine with Python >= 3.10.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FILE ?= lunarlander-continuous-sac
# A file of versions and hashes to install, such as .ci/requirements.txt; without it pip takes the newest that setup.cfg allows.
LOCK ?=
# Two processes: whole files go to one of them, and all tests that start Ray to the same one, in the order of tests/conftest.py.
# A third was tried: on two cores the tests took no less time, and more of the processor's.
SIDE_BY_SIDE := -n 2 --dist loadgroup --no-loadscope-reorder

.PHONY: help install train check types test test-slow lint bench fidelity lock release-check docs pictures clean

help:  ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/.installed: setup.cfg setup.py
	$(PYTHON) -m venv $(VENV)
	$(if $(LOCK),$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK))
	$(BIN)/pip install --quiet --disable-pip-version-check $(if $(LOCK),--no-deps) --editable '.[test]'
	$(BIN)/python -m compileall -q drl_cli
	@touch $@

install: $(VENV)/.installed  ## make .venv and install drl into it

train: $(VENV)/.installed  ## the main job: SAC lands LunarLanderContinuous (FILE=name for another tuned file)
	$(BIN)/drl train -f $(FILE)

check: $(VENV)/.installed  ## style, and the tests that load neither TensorFlow nor Ray: a minute or so
	$(BIN)/ruff check .
	$(BIN)/python -m pytest --light -m "not slow and not tensorflow and not process and not ray and not learning" $(SIDE_BY_SIDE)

types: $(VENV)/.installed  ## annotations, with pyright in its standard mode
	$(BIN)/basedpyright

# Types are checked beside the tests and reported after them.
test: $(VENV)/.installed  ## lint, fast tests, tests on a small Ray, short learning tests
	$(BIN)/ruff check .
	@mkdir -p build
	@$(BIN)/basedpyright > build/types.txt 2>&1 & types=$$!; \
	$(BIN)/python -m pytest $(SIDE_BY_SIDE); tests=$$?; \
	wait $$types; types=$$?; cat build/types.txt; exit $$((tests | types))

test-slow: $(VENV)/.installed  ## everything, minutes-long learning tests included
	$(BIN)/python -m pytest -m "slow or not slow"

lint: $(VENV)/.installed  ## style, common mistakes, and types
	$(BIN)/ruff check .
	$(BIN)/basedpyright

bench: $(VENV)/.installed  ## speed of the parts, and time to the goal over seeds 0 to 4
	$(BIN)/python benchmarks/parts.py
	$(BIN)/python benchmarks/time_to_goal.py $(FILE)

fidelity: $(VENV)/.installed  ## measure a tuned file over seeds 0 to 4 and write its receipt (FILE=name); goes on if interrupted
	$(BIN)/python benchmarks/fidelity.py $(FILE)

lock: $(VENV)/.installed  ## write .ci/requirements.txt: versions and hashes of all that tests and pages need (make test LOCK=...)
	$(BIN)/python benchmarks/release_check.py --lock .ci/requirements.txt

release-check: $(VENV)/.installed  ## two equal builds, bill of materials, licences, known vulnerabilities
	$(BIN)/python benchmarks/release_check.py

docs: $(VENV)/.installed  ## the pages of docs/ as HTML, in build/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

pictures: $(VENV)/.installed  ## the screenshots, the curves and the film of docs/pictures, made anew: some minutes
	$(BIN)/python docs/make_pictures.py

clean:  ## remove the virtual environment and build leftovers
	rm -rf $(VENV) build dist docs/reference *.egg-info
