// SPDX-License-Identifier: Apache-2.0
/* Tests of interrupt.c: the CPUs of a source, and the threads that interrupts interrupt. Prints TAP. */
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "run/step.h"

static int test_cpus(struct step *step, struct cpulist *cpus);
static int test_effective(struct option_set *options, const char *name, const char *text);

#define step_cpus test_cpus
#define option_effective test_effective
#include "methods/interrupt.c"
#undef step_cpus
#undef option_effective

#include "tap.h"

#define SESSIONS 9

static char effective[16];

static int test_cpus(struct step *step, struct cpulist *cpus)
{
	return cpulist_parse(cpus, "2-5");
}

static int test_effective(struct option_set *options, const char *name, const char *text)
{
	snprintf(effective, sizeof(effective), "%s", text);
	return 0;
}

static void test_loop(struct worker *worker)
{
}

/* Each filler ends with its worker, also where the table of workers has grown since. */
static void test_fillers(void)
{
	static struct step step;
	int worker[SESSIONS];

	for (int i = 0; i < SESSIONS; i++) {
		worker[i] = step_add_worker(&step, test_loop, NULL, i, 0);
		if (interrupt_add_filler(&step, i, worker[i]))
			return (void)tap_check(false, "a filler");
	}
	for (int i = 0; i < SESSIONS; i++) {
		struct worker *filler = &step.workers[worker[i] + 1];

		atomic_store_release(&step.workers[worker[i]].done, 1);
		filler->loop(filler);
	}
	tap_check(step.worker_count == 2 * SESSIONS, "%d fillers end with their workers", SESSIONS);
}

/* One device, and one pair of lines, raise interrupts on one CPU. */
static void test_one_cpu(void)
{
	const uint32_t flags[] = { 0, RTGAUGE_SOURCE_EXCLUSIVE, RTGAUGE_SOURCE_LINES };
	static struct step step;

	for (int i = 0; i < 3; i++) {
		struct interrupt interrupt = { .source.flags = flags[i] };
		int err = interrupt_choose_cpus(&step, &interrupt), count;

		count = cpulist_count(&interrupt.cpus);
		tap_check(!err && count == (i ? 1 : 4), "a source with flags %u: %d CPUs", flags[i],
			  count);
	}
	tap_check(!strcmp(effective, "2"), "the first one");
}

int main(void)
{
	test_fillers();
	test_one_cpu();
	return tap_end();
}
