# make demo    train and try a classifier on the sample that comes with the package
# make quick   lint and unit tests: about a minute
# make test    all tests but the longest (make test-long): about ten minutes
# make fuzz    mutated inputs for everything that reads bytes from outside
# make check   lint, types and import rules
# Each sets up what it needs in .venv. PYTHON names the interpreter to build it with;
# LOCK=no installs by version only. See docs/development.md.
PYTHON ?= python3
VENV ?= .venv
LOCK ?= yes
CASES ?= 1000
BIN := $(VENV)/bin
CORE := $(VENV)/.core
DEV := $(VENV)/.dev
AXE := $(VENV)/share/axe.min.js
ORT := $(VENV)/share/onnxruntime-web/ort.wasm.bundle.min.mjs
# The run ends when make does, even if make is killed (tests/guardian.py).
PYTEST := FIT_TEST_PARENT=$$PPID $(BIN)/python -m pytest

.PHONY: browser demo quick test test-long test-docs fuzz check format docs lock accuracy clean

demo: $(CORE)
	$(BIN)/fit demo --out demo-output

quick: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PYTEST) -n 2 -m unit

test: $(DEV) $(AXE) $(ORT) browser
	$(PYTEST) -n 2 -m "not long"

# Complete systems of many processes, whose parts have tests of their own.
test-long: $(DEV)
	$(PYTEST) -m long

# The commands of every page; 'make test' skips the two pages whose commands have tests of their own.
test-docs: $(DEV) $(ORT)
	ALL_PAGES=1 $(PYTEST) tests/test_docs.py

# Failing inputs are written to tests/fuzz/found, from where the tests repeat them.
fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz --cases $(CASES) $(if $(SEED),--seed $(SEED)) $(TARGETS)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m scripts.make_lock --check

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DEV)
	$(BIN)/python -m scripts.make_facts
	$(BIN)/python -m scripts.make_reference
	$(BIN)/python -m scripts.make_architecture
	$(BIN)/python -m scripts.make_budgets

accuracy: $(DEV)
	$(BIN)/python benchmarks/accuracy.py --data ../shared/data

$(CORE): pyproject.toml constraints.txt $(wildcard locks/*.txt)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "filmtransfer needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python scripts/install.py core --lock $(LOCK)
	touch $@

$(DEV): $(CORE)
	$(BIN)/python scripts/install.py dev --lock $(LOCK)
	touch $@

# The accessibility checks for the pages.
$(AXE): $(DEV)
	$(BIN)/python -m scripts.fetch_npm axe-core $(@D)

# The pages are tested in a real browser.
APT := apt-get install -y -q --no-install-recommends chromium

browser:
	@command -v chromium >/dev/null || $(APT) || { apt-get update -q && $(APT); } \
	  || { echo "make test needs Chromium (Debian's package chromium): install it, then run make test again." >&2; exit 1; }

# The runtime of an exported page.
$(ORT): $(DEV)
	$(BIN)/python -m scripts.fetch_npm onnxruntime-web $(@D)

# The exact files of the set-up, after a change of pyproject.toml or constraints.txt; UPGRADE=--upgrade takes newer ones.
lock:
	$(BIN)/python -m scripts.make_lock $(UPGRADE)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output
