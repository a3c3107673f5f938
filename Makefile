# Each target does all of its own set-up; a second run does none.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
FLEET := $(VENV)/.installed-fleet
BROWSER := $(VENV)/.installed-browser
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
PINNED := $(PIP) --require-hashes --requirement
PYTEST := $(BIN)/python -m pytest -q
SPREAD := -n 4 --dist worksteal
PYTHONS ?= 3.11 3.12 3.13

# Without bytecode every process compiles all it imports: half of the suite's time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo docs site test test-more test-all test-long test-real test-browser test-fleet test-pythons coverage fuzz soak lint audit lock bench bench-baseline bench-check bench-peers bench-quick bench-fleet demo-fleet image clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml requirements.txt
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(PINNED) requirements.txt
	@$(PIP) --no-build-isolation --editable .
	@touch $(STAMP)

$(FLEET): $(STAMP) tests/engine/fleet/requirements.txt
	@$(PINNED) tests/engine/fleet/requirements.txt
	@touch $(FLEET)

$(BROWSER): $(STAMP) tests/browser/requirements.txt
	@$(PINNED) tests/browser/requirements.txt
	@touch $(BROWSER)

image: $(STAMP)  ## build the guest image, if it is not there
	@$(BIN)/go-ent image build >/dev/null

demo: image  ## a composed example in the sandbox: result, usage, and a refused escape
	@$(BIN)/python -m examples.demo

demo-fleet: image $(FLEET)  ## Postgres and three workers on this machine: a graph of 60 tasks, and a worker killed
	@$(BIN)/python -m examples.fleet_demo

bench-fleet: image $(FLEET)  ## what a fleet costs: ledger, wake-ups, writes, an idle worker; see docs/benchmarks/fleet.md
	$(BIN)/python -m benchmarks.fleet_bench

test: image $(FLEET)  ## the everyday suite, in four processes
	$(PYTEST) $(SPREAD) --in-memory -m "not long and not real and not more"

test-more: image $(FLEET)  ## repeats in a dearer way: the older protocol, crash points, the guides; guests compared after each run, guests made anew
	$(PYTEST) $(SPREAD) -m "more and not long and not real"
	$(PYTEST) $(SPREAD) -m "not long and not real and not more" --compare-memory tests/sandbox tests/security
	$(PYTEST) $(SPREAD) -m "not long and not real and not more" --remake-guests tests/sandbox --ignore tests/sandbox/test_reset.py

test-long: image  ## the long tests: soak, clean installs, package images
	$(BIN)/python -m pytest -q -m long --timeout 1200

test-fleet: image $(FLEET)  ## all tests of the fleet: contracts, kills, a stopped worker, interrupts from elsewhere
	$(PYTEST) --timeout 600 tests/engine/fleet tests/engine/storage/test_contract.py tests/engine/budget/test_ledger.py

test-browser: image $(BROWSER)  ## the console in a real Chromium, which apt-get install chromium brings; SCREENSHOTS=DIR keeps pictures
	$(BIN)/python -m pytest -q -m real --timeout 300 tests/browser

test-real: image  ## with the real Claude Code, opencode, inspector and conformance suite (npm), and a stand-in model on loopback
	$(BIN)/python -m pytest -q -m real --timeout 600 tests/e2e

fuzz: image  ## every parser of bytes from outside, under atheris for a minute each; FUZZ="NAME ..." for some
	@$(PINNED) tests/fuzz/requirements.txt
	$(BIN)/python -m tests.fuzz.drive $(FUZZ)

test-pythons:  ## the everyday suite on those of Python 3.11, 3.12 and 3.13 that are there; PYTHONS="3.13" for some
	@.ci/pythons $(PYTHONS)

coverage: image $(FLEET)  ## branches that `make test` and `make test-more` take, by package: docs/coverage.md
	@rm -rf .coverage-data
	$(BIN)/python -m coverage run -m pytest -q $(SPREAD) -m "not long and not real"
	@$(BIN)/python .ci/covered.py

test-all: test test-more test-long test-real  ## all four

soak: image  ## 20,000 runs by 8 clients in one server, a part of them bad in every way; half an hour; RUNS=400 for fewer
	$(BIN)/python -m benchmarks.soak --runs $(or $(RUNS),20000) --clients $(or $(CLIENTS),8) $(if $(RUNS),,--save)

lint: $(FLEET)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd sandbox && ../$(BIN)/mypy --config-file ../pyproject.toml --python-version 3.14 --exclude "^$$" -p guest

bench: image $(BROWSER)  ## all figures, with pages, plots and JSON; saved in docs/benchmarks/
	@$(PINNED) benchmarks/requirements.txt
	$(BIN)/python -m benchmarks.sandbox_bench --save
	$(BIN)/python -m benchmarks.hardening_bench --save
	$(BIN)/python -m benchmarks.javascript_bench --save
	$(BIN)/python -m benchmarks.composer_bench --save
	$(BIN)/python -m benchmarks.engine_bench --save
	$(BIN)/python -m benchmarks.executions_bench --save
	$(BIN)/python -m benchmarks.context_bench --save
	$(BIN)/python -m benchmarks.codemode_bench --save
	$(BIN)/python -m benchmarks.end_to_end_bench --save
	$(BIN)/python -m benchmarks.console_bench --save
	$(BIN)/python -m benchmarks.peers_bench --save
	$(BIN)/python -m benchmarks.index

bench-check: image  ## whether a ratio is more than 25 % worse than in docs/benchmarks/baseline.json; BENCH="sandbox ..." for some
	@$(PINNED) benchmarks/requirements.txt
	$(BIN)/python -m benchmarks.check $(BENCH)

bench-baseline: image  ## take the ratios of now for those that bench-check compares with; best on a quiet machine
	@$(PINNED) benchmarks/requirements.txt
	$(BIN)/python -m benchmarks.check --write $(BENCH)

bench-peers: image  ## the sandbox beside what people would pick instead; saved in docs/benchmarks/peers.md
	@$(PINNED) benchmarks/requirements.txt
	$(BIN)/python -m benchmarks.peers_bench --save

bench-quick: image  ## a quick look at the figures; nothing is saved
	@$(PINNED) benchmarks/requirements.txt
	$(BIN)/python -m benchmarks.sandbox_bench --quick
	$(BIN)/python -m benchmarks.hardening_bench --quick
	$(BIN)/python -m benchmarks.composer_bench --quick
	$(BIN)/python -m benchmarks.engine_bench --quick
	$(BIN)/python -m benchmarks.executions_bench --quick
	$(BIN)/python -m benchmarks.context_bench --quick
	$(BIN)/python -m benchmarks.codemode_bench --quick
	$(BIN)/python -m benchmarks.end_to_end_bench --quick
	$(BIN)/python -m benchmarks.console_bench --quick

audit: $(STAMP)  ## whether an advisory names a package that we pin; needs an index that has advisories
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --strict --disable-pip --require-hashes --requirement requirements.txt

lock: $(STAMP)  ## pin what set-up installs, with digests; LOCK=--upgrade for newer versions
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python .ci/lock.py $(LOCK)

docs: $(STAMP)  ## the reference, made from the code
	@$(BIN)/python docs/reference/generate.py
	@$(BIN)/python -m tests.security.corpus

site: $(STAMP)  ## the documentation as a site, in site/; a dead link fails
	@$(PINNED) docs/requirements.txt
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "open site/index.html"

clean:  ## remove what set-up and builds have made here
	rm -rf $(VENV) $(VENV)-3.* .coverage-data build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
