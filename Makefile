# SPDX-License-Identifier: Apache-2.0
# Every target sets up what it needs by itself (tools/setup.sh) and asks for nothing.

PYTHON_HERE = .venv/bin/python

# Programs of `make bench`, in this order; each writes to bench/results/.
BENCHES = bench/instructions.py bench/sample_cost.py bench/timer.py bench/uncontended.py \
          bench/thread_switch.py bench/handover.py bench/load_sched.py bench/loads.py \
          bench/report_scale.py bench/capture_import.py bench/kmod_irq_path.py \
          bench/response_contexts.py bench/delays.py \
          bench/long_run.py bench/verdicts.py \
          bench/kills.py bench/soak.py

.PHONY: setup build test check bench fuzz mutants lock clean

# What running needs: Debian's packages, .venv, the agent. The same step as the first ./rtgauge.
setup build:
	@tools/setup.sh

# Every test, of the agent (C) and of the host (Python).
test:
	@tools/setup.sh --test
	@$(PYTHON_HERE) tools/check.py $(TEST_OPTIONS) test

# What CI runs: lint, types, all builds, sanitizers, sizes, the wheel, and `make test`.
check:
	@tools/setup.sh --dev
	@$(PYTHON_HERE) tools/check.py check

# Against the peers; takes long, and wants the machine for itself.
bench:
	@tools/setup.sh --dev
	@set -e; for program in $(BENCHES); do $(PYTHON_HERE) $$program; done

# Damaged and hostile input by the million; FUZZ_OPTIONS="--seed 2 --from 5000000" for other parts.
FUZZ_EXECUTIONS = 10000000
fuzz:
	@tools/setup.sh --test
	@set -e; for program in tests/support/fuzz_bundle.py tests/support/fuzz_stream.py \
		tests/support/fuzz_extremes.py tests/support/fuzz_capture.py \
		tests/support/fuzz_plan.py tests/support/fuzz_index.py; do \
		PYTHONPATH=src $(PYTHON_HERE) $$program --executions $(FUZZ_EXECUTIONS) --jobs 2 \
			$(FUZZ_OPTIONS); done

# Mutation testing: are there tests that notice when a line is wrong? A sample takes some minutes,
# all mutants some hours: MUTANTS_OPTIONS="". The result is build/mutants.json.
MUTANTS_OPTIONS = --sample 400 --seed $(shell date +%Y%m%d)
mutants:
	@tools/setup.sh --test
	@$(PYTHON_HERE) tools/mutants.py $(MUTANTS_OPTIONS)

# The newest Python packages that pyproject.toml allows, with their hashes.
lock:
	@tools/setup.sh
	@$(PYTHON_HERE) tools/lock.py

clean:
	rm -rf build dist src/rtgauge/agents .hypothesis .venv/rtgauge-stamp
