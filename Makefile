# make demo   train and try a classifier on the sample that ships with the package
# make test   run the tests
# Both set up .venv by themselves. PYTHON names the interpreter to build it with.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
AXE := $(VENV)/share/axe.min.js
ORT := $(VENV)/share/onnxruntime-web/ort.wasm.bundle.min.mjs

.PHONY: browser demo test test-docs check format docs accuracy clean

demo: $(STAMP)
	$(BIN)/fit demo --out demo-output

test: $(STAMP) $(AXE) $(ORT) browser
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

# Every page's commands; 'make test' leaves out the two whose commands are tested on their own.
test-docs: $(STAMP) $(ORT)
	ALL_PAGES=1 OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python -m pytest tests/test_docs.py

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	$(BIN)/python -m scripts.make_reference

accuracy: $(STAMP)
	$(BIN)/python benchmarks/accuracy.py --data ../shared/data

# torch is named first and by version, so that pip takes the CPU build where one is to be had.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "filmtransfer needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt torch==2.13.0 -e '.[dev]'
	touch $(STAMP)

# What the pages are checked with for people who cannot see or use a mouse.
$(AXE): $(STAMP)
	mkdir -p $(@D) && cd $(@D) && npm pack --silent axe-core@4.14.0 && tar -xzf axe-core-*.tgz package/axe.min.js && mv package/axe.min.js axe.min.js && rm -rf package axe-core-*.tgz && touch axe.min.js

# The pages are tried in a real browser.
browser:
	@command -v chromium >/dev/null || apt-get install -y -q chromium || { apt-get update -q && apt-get install -y -q chromium; } \
	  || { echo "make test needs Chromium (Debian's package chromium): install it, then run make test again." >&2; exit 1; }

# What an exported page runs its model with.
$(ORT): $(STAMP)
	mkdir -p $(@D) && cd $(@D) && npm pack --silent onnxruntime-web@1.30.0 && tar -xzf onnxruntime-web-*.tgz --strip-components=2 package/dist/ort.wasm.bundle.min.mjs package/dist/ort-wasm-simd-threaded.wasm && rm -f onnxruntime-web-*.tgz && touch ort.wasm.bundle.min.mjs

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output
