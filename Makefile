# SPDX-License-Identifier: Apache-2.0
# Every target installs what it needs (tools/setup.sh) without a question.

PYTHON_HERE = .venv/bin/python

# Programs of `make bench`, in this order; each writes to bench/results/.
BENCHES = bench/instructions.py bench/sample_cost.py bench/timer.py bench/uncontended.py \
          bench/thread_switch.py bench/handover.py bench/load_sched.py bench/loads.py \
          bench/report_scale.py bench/capture_import.py bench/kmod_irq_path.py \
          bench/response_contexts.py bench/delays.py \
          bench/long_run.py bench/verdicts.py bench/claims.py bench/claims_bounds.py \
          bench/attribution.py \
          bench/effects.py \
          bench/compare_lab.py \
          bench/kills.py bench/soak.py

RUN_STAGES = $(PYTHON_HERE) tools/run_stages.py $(STAGES_OPTIONS)

.PHONY: help setup build quick test check nightly lint format docs bench fuzz mutants repeat wheel deb try lock clean

help: # List the targets
	@sed -n 's/^\([a-z][a-z]*\):.*# \(.*\)/\1: \2/p' Makefile | column -t -s: -l 2

# The same step as the first ./rtgauge.
setup: # Install Debian packages and .venv, build the agent
	@tools/setup.sh

build: setup # The same

# Options for the next three: STAGES_OPTIONS="--fail-fast", "--all" (unchanged stages too).
quick: # Lint, types, and the tests that need no agent, network or emulation (2 minutes)
	@tools/setup.sh --quick
	@$(RUN_STAGES) quick

test: # quick, and the tests that start agents, sshd and two emulated boards (10 minutes)
	@tools/setup.sh --test
	@$(RUN_STAGES) test

check: # What CI runs: test, every build, every architecture, every emulated board
	@tools/setup.sh --dev
	@$(RUN_STAGES) check

# Fuzzers, mutants and kills take their seeds from the date.
nightly: # Mutants, fuzzers, a kernel, kills and soak (hours, on a quiet machine, as root)
	@tools/setup.sh --nightly
	@$(RUN_STAGES) nightly

lint: # The stages of quick that only read the sources
	@tools/setup.sh --quick
	@$(RUN_STAGES) tree language ruff mypy clang-format oxlint shellcheck

format: # Format Python and C in place
	@tools/setup.sh --quick
	@.venv/bin/ruff check --quiet --fix .
	@.venv/bin/ruff format --quiet src tests tools bench
	@git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i

docs: # Build the documentation as a site in build/site
	@tools/setup.sh --quick
	@$(PYTHON_HERE) tools/requirements.py lab test dev site > build/requirements-site.txt
	@$(PYTHON_HERE) -m pip install --quiet --disable-pip-version-check --no-input \
		--require-hashes --requirement build/requirements-site.txt
	@$(PYTHON_HERE) tools/site_pages.py

bench: # Measure against cyclictest, jitterdebugger, hackbench (hours, on a quiet machine)
	@tools/setup.sh --dev
	@set -e; for program in $(BENCHES); do $(PYTHON_HERE) $$program; done
	@$(PYTHON_HERE) bench/table.py

# Damaged and hostile input by the million; FUZZ_OPTIONS="--seed 2 --from 5000000" for other parts.
FUZZ_EXECUTIONS = 10000000
fuzz: # Damaged and hostile input
	@tools/setup.sh --test
	@set -e; for program in tests/support/fuzz_bundle.py tests/support/fuzz_stream.py \
		tests/support/fuzz_extremes.py tests/support/fuzz_capture.py \
		tests/support/fuzz_printed.py \
		tests/support/fuzz_plan.py tests/support/fuzz_index.py; do \
		PYTHONPATH=src $(PYTHON_HERE) $$program --executions $(FUZZ_EXECUTIONS) --jobs 2 \
			$(FUZZ_OPTIONS); done

# Mutation testing: are there tests that notice when a line is wrong? A sample takes a few minutes,
# all mutants a few hours: MUTANTS_OPTIONS="". The result is build/mutants.json.
MUTANTS_OPTIONS = --sample 400 --seed $(shell date +%Y%m%d)
mutants: # Mutation tests of statistics and stream reader
	@tools/setup.sh --test
	@$(PYTHON_HERE) tools/mutants.py $(MUTANTS_OPTIONS)

# Flaky tests are corrected, never retried: what fails once in 20 repetitions has a cause.
REPEAT_OPTIONS = machine agent
repeat: # Repeat tests next to busy loops, in random order, to find flaky ones
	@tools/setup.sh --test
	@$(PYTHON_HERE) tools/repeat.py $(REPEAT_OPTIONS)

wheel: # Build the wheel, with the agents for all architectures, into dist/
	@tools/setup.sh --lab all
	@rm -f dist/*.whl
	@$(PYTHON_HERE) tools/wheel.py dist

deb: wheel # Build Debian packages for bookworm (Python 3.11) and trixie (3.13) into dist/
	@rm -f dist/*.deb
	@$(PYTHON_HERE) tools/deb.py 3.11 3.13

# As root, needs debootstrap.
try: deb # From the packages to the report, in a fresh bookworm and a fresh trixie
	@tools/try_packages.sh bookworm dist/*.whl build/try/bookworm-wheel
	@tools/try_packages.sh trixie dist/*.whl build/try/trixie-wheel
	@tools/try_packages.sh bookworm dist/*python3.11*.deb build/try/bookworm-deb
	@tools/try_packages.sh trixie dist/*python3.13*.deb build/try/trixie-deb

lock: # Update tools/requirements.lock
	@tools/setup.sh
	@$(PYTHON_HERE) tools/lock.py

clean: # Remove what was built, but not .venv
	rm -rf build dist src/rtgauge/agents .hypothesis .venv/rtgauge-stamp
