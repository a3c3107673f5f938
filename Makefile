# Each target does all of its own set-up; a second run does none.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo docs test test-all test-long test-real lint bench bench-peers bench-quick image clean

$(STAMP): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $(STAMP)

image: $(STAMP)  ## build the guest image, if it is not there
	@$(BIN)/go-ent image build >/dev/null

demo: image  ## a composed example in the sandbox: result, usage, and a refused escape
	@$(BIN)/python -m examples.demo

test: image  ## the everyday suite; what looks at clocks and limits alone, the rest in three processes
	$(BIN)/python -m pytest -q -m "not long and not real" tests/sandbox tests/security/test_bridge.py
	$(BIN)/python -m pytest -q -n 3 --dist loadfile -m "not long and not real" --ignore tests/sandbox --ignore tests/security/test_bridge.py

test-long: image  ## the long tests: soak, clean installs, package images
	$(BIN)/python -m pytest -q -m long --timeout 1200

test-real: image  ## with the real Claude Code, opencode, inspector and conformance suite (npm), and a stand-in model on loopback
	$(BIN)/python -m pytest -q -m real --timeout 600 tests/e2e

test-all: test test-long test-real

lint: $(STAMP)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd sandbox && ../$(BIN)/mypy --config-file ../pyproject.toml --python-version 3.14 --exclude "^$$" -p guest

bench: image  ## the sandbox's figures as ratios; saved in docs/benchmarks/
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[bench]"
	$(BIN)/python -m benchmarks.sandbox_bench --save
	$(BIN)/python -m benchmarks.composer_bench --save
	$(BIN)/python -m benchmarks.engine_bench --save
	$(BIN)/python -m benchmarks.executions_bench --save
	$(BIN)/python -m benchmarks.context_bench --save
	$(BIN)/python -m benchmarks.peers_bench --save

bench-peers: image  ## the sandbox beside what people would pick instead; saved in docs/benchmarks/peers.md
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[bench]"
	$(BIN)/python -m benchmarks.peers_bench --save

bench-quick: image
	$(BIN)/python -m benchmarks.sandbox_bench --quick
	$(BIN)/python -m benchmarks.composer_bench --quick
	$(BIN)/python -m benchmarks.engine_bench --quick
	$(BIN)/python -m benchmarks.executions_bench --quick
	$(BIN)/python -m benchmarks.context_bench --quick

docs: $(STAMP)  ## the reference, made from the code
	@$(BIN)/python docs/reference/generate.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
