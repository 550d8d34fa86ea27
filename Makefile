# make demo    train and try a classifier on the sample that comes with the package
# make quick   lint and unit tests: about a minute
# make test    all tests: about six minutes
# make check   lint, types and import rules
# Each sets up what it needs in .venv. PYTHON names the interpreter to build it with. See docs/development.md.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
DEV := $(VENV)/.dev
AXE := $(VENV)/share/axe.min.js
ORT := $(VENV)/share/onnxruntime-web/ort.wasm.bundle.min.mjs
# The run ends when make does, even if make is killed (tests/guardian.py).
PYTEST := FIT_TEST_PARENT=$$PPID $(BIN)/python -m pytest

.PHONY: browser demo quick test test-docs check format docs accuracy clean

demo: $(CORE)
	$(BIN)/fit demo --out demo-output

quick: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PYTEST) -n 2 -m unit

test: $(DEV) $(AXE) $(ORT) browser
	$(PYTEST) -n 2

# The commands of every page; 'make test' skips the two pages whose commands have tests of their own.
test-docs: $(DEV) $(ORT)
	ALL_PAGES=1 $(PYTEST) tests/test_docs.py

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DEV)
	$(BIN)/python -m scripts.make_facts
	$(BIN)/python -m scripts.make_reference
	$(BIN)/python -m scripts.make_architecture

accuracy: $(DEV)
	$(BIN)/python benchmarks/accuracy.py --data ../shared/data

# torch is named first and by version, so that pip takes the CPU build where there is one.
PIP := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt torch==2.13.0

$(CORE): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "filmtransfer needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(DEV): $(CORE)
	$(PIP) -e '.[dev]'
	touch $@

# The accessibility checks for the pages.
$(AXE): $(DEV)
	mkdir -p $(@D) && cd $(@D) && npm pack --silent axe-core@4.14.0 && tar -xzf axe-core-*.tgz package/axe.min.js && mv package/axe.min.js axe.min.js && rm -rf package axe-core-*.tgz && touch axe.min.js

# The pages are tested in a real browser.
APT := apt-get install -y -q --no-install-recommends chromium

browser:
	@command -v chromium >/dev/null || $(APT) || { apt-get update -q && $(APT); } \
	  || { echo "make test needs Chromium (Debian's package chromium): install it, then run make test again." >&2; exit 1; }

# The runtime of an exported page.
$(ORT): $(DEV)
	mkdir -p $(@D) && cd $(@D) && npm pack --silent onnxruntime-web@1.30.0 && tar -xzf onnxruntime-web-*.tgz --strip-components=2 package/dist/ort.wasm.bundle.min.mjs package/dist/ort-wasm-simd-threaded.wasm && rm -f onnxruntime-web-*.tgz && touch ort.wasm.bundle.min.mjs

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output
