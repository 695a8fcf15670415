// SPDX-License-Identifier: Apache-2.0
/*
 * Core switches: whether threads keep the registers of their floating-point and vector units when
 * they are switched, within a core and between a core and Linux. docs/measurements/core-switches.md
 * says which switches there are.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "methods/registers.h"
#include "run/modes.h"
#include "run/step.h"

#define SWITCHES_RULE "threads keep their registers across switches"
#define SWITCHES_REMEDY                                                                       \
	"report it to the authors of the kernel: a thread got the registers of another one. " \
	"The memory or the processor may be faulty"

/* A sleep, which is the switch: 30 to 161 us, so that the threads' orders vary. */
#define SWITCHES_SLEEP_NS (30 * NSEC_PER_USEC)
#define SWITCHES_SLEEP_BITS 17
/* Rounds of computing before and after it. */
#define SWITCHES_SHORT 500U
#define SWITCHES_LONG 20000U
/* Checks of a thread of both cores before it changes to the other one. */
#define SWITCHES_TURN 8

static const struct option_info switches_options[] = {
	{ "for", OPTION_DURATION, "30s", NSEC_PER_MSEC, 24 * 3600 * NSEC_PER_SEC, NULL,
	  "duration" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, "CPUs to measure on, each with its own threads" },
	{ "priority", OPTION_INTEGER, "80", 2, 99, NULL,
	  "SCHED_FIFO priority of the core's threads (of the other real-time thread: one less)" },
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* A kind of thread on each CPU. */
struct switches_kind {
	const char *name;
	bool plain; /* a Linux thread at first */
	bool both;  /* it goes back and forth between the core and Linux */
	int below;  /* the priority; -1: SCHED_OTHER */
	uint64_t spins;
};

static const struct switches_kind switches_kinds[] = {
	{ "real-time, of the core", .spins = SWITCHES_SHORT },
	{ "real-time, of both cores", .plain = true, .both = true, .spins = SWITCHES_SHORT },
	{ "real-time, of Linux", .plain = true, .below = 1, .spins = SWITCHES_SHORT },
	{ "ordinary, of Linux", .plain = true, .below = -1, .spins = SWITCHES_LONG },
};

#define SWITCHES_KINDS (int)(sizeof(switches_kinds) / sizeof(switches_kinds[0]))

struct switches_thread {
	struct registers pattern, found;
	const struct switches_kind *kind;
	int64_t checks;
	int64_t changed;
	long err;  /* of the call that was to switch, or 0 */
	int bytes; /* of the first change */
	size_t place;
};

/* A thread of both cores becomes a task of the core here, and sleeps there and under Linux in
 * turn. */
static int switches_prepare(struct worker *worker)
{
	const struct switches_thread *t = worker->state;

	return t->kind->both ? worker->step->core->enter(worker->cpu, worker->priority) : 0;
}

static int switches_refused(struct step *step, const struct worker *worker)
{
	return message_set(&step->msg, worker->refused, "see the kernel's messages (dmesg)",
			   "the %s core refuses a thread: %s", step->core->title,
			   strerror(-worker->refused));
}

static void switches_loop(struct worker *worker)
{
	struct step *step = worker->step;
	struct switches_thread *t = worker->state;
	int64_t end_ns = clock_now_ns(CLOCK_MONOTONIC) + option_number(&step->options, "for");
	uint32_t random = (uint32_t)worker->number + 1;

	do {
		bool on_linux = t->kind->both ? t->checks / SWITCHES_TURN % 2 : t->kind->plain;
		struct timespec sleep = { 0, 0 };
		const long args[] = { CLOCK_MONOTONIC, 0, (long)&sleep, 0 };
		int bytes;
		long err;

		random = random * 1664525U + 1013904223U;
		sleep.tv_nsec = SWITCHES_SLEEP_NS + (random >> (32 - SWITCHES_SLEEP_BITS));
		err = registers_across(&t->pattern, &t->found, t->kind->spins,
				       on_linux ? core_linux.sleep_call : step->core->sleep_call,
				       args);
		/* without a switch it is not a check, and a loop without one would take the CPU */
		if (err && err != -EINTR && !step_stopped(step)) {
			t->err = err;
			break;
		}
		if (err)
			continue;
		bytes = registers_differ(&t->pattern, &t->found, t->changed ? NULL : &t->place);
		t->checks++;
		if (bytes && !t->changed++)
			t->bytes = bytes;
	} while (!step_stopped(step) && clock_now_ns(CLOCK_MONOTONIC) < end_ns);
}

static int switches_add(struct step *step, struct switches_thread *t, int cpu)
{
	int priority = (int)option_number(&step->options, "priority") - t->kind->below;
	int worker =
		step_add_worker(step, switches_loop, t, cpu, t->kind->below < 0 ? 0 : priority);

	if (worker < 0)
		return worker;
	step->workers[worker].plain = t->kind->plain;
	step->workers[worker].prepare = switches_prepare;
	registers_fill(&t->pattern, (uint32_t)worker + 1);
	return 0;
}

static int switches_setup(struct step *step)
{
	struct switches_thread *threads;
	struct cpulist cpus;
	int err = step_cpus(step, &cpus);

	if (err)
		return err;
	if (!registers_units() || !step->core->sleep_call)
		return step_skip(step, "the agent does not know the registers of this architecture",
				 "measure on x86-64 or arm64");
	threads = step_alloc(step, (size_t)cpulist_count(&cpus) * SWITCHES_KINDS, sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	for (int cpu = cpulist_next(&cpus, 0); cpu >= 0; cpu = cpulist_next(&cpus, cpu + 1))
		for (int i = 0; i < SWITCHES_KINDS && !err; i++) {
			/* on Linux there is nothing to go back and forth to */
			if (switches_kinds[i].both && step->core == &core_linux)
				continue;
			threads->kind = &switches_kinds[i];
			err = switches_add(step, threads++, cpu);
		}
	return err;
}

static const struct step_column switches_columns[] = {
	{ "cpu", "" },
	{ "thread", "" },
	{ "checks", "count" },
	{ "changed", "count" },
};

#define SWITCHES_COLUMNS (int)(sizeof(switches_columns) / sizeof(switches_columns[0]))

static int switches_finish(struct step *step)
{
	const struct switches_thread *bad = NULL, *idle = NULL;
	struct cbor *c = step_table_begin(step, "switches", switches_columns, SWITCHES_COLUMNS,
					  step->worker_count);
	int64_t checks = 0, changed = 0;
	char evidence[256];
	int used;

	for (int i = 0; i < step->worker_count; i++) {
		const struct switches_thread *t = step->workers[i].state;

		cbor_array(c, (size_t)SWITCHES_COLUMNS);
		cbor_int(c, step->workers[i].cpu);
		cbor_text(c, t->kind->name);
		cbor_int(c, t->checks);
		cbor_int(c, t->changed);
		checks += t->checks;
		changed += t->changed;
		if (t->changed && !bad)
			bad = t;
		if ((t->err || !t->checks) && !idle)
			idle = t;
	}
	step_table_end(step);
	used = snprintf(evidence, sizeof(evidence),
			"%lld of %lld checks of %d threads found registers changed (%s)",
			(long long)changed, (long long)checks, step->worker_count,
			registers_units());
	if (bad)
		snprintf(evidence + used, sizeof(evidence) - (size_t)used,
			 "; the first: thread %s, %d bytes from byte %zu of the saved state",
			 bad->kind->name, bad->bytes, bad->place);
	else if (idle)
		snprintf(evidence + used, sizeof(evidence) - (size_t)used,
			 "; the thread %s did not switch: %s", idle->kind->name,
			 idle->err ? strerror((int)-idle->err) : "the step was too short");
	if (!bad && idle)
		step_verdict(step, SWITCHES_RULE, "inconclusive", evidence,
			     idle->err ? "see the kernel's messages (dmesg)" :
					 "measure longer (--for)");
	else
		step_verdict(step, SWITCHES_RULE, bad ? "fail" : "pass", evidence, SWITCHES_REMEDY);
	return 0;
}

static bool switches_on_cobalt(const struct step *step)
{
	(void)step;
	return true;
}

const struct measurement core_switches_measurement = {
	.name = "core-switches",
	.summary = "whether threads keep their floating-point and vector registers across switches",
	.chapter = CHAPTER_THREADS,
	.options = switches_options,
	.tables = {
		{ "switches",
		  "checks of the registers of each thread after switches, and the number of "
		  "checks that found a changed register" },
	},
	.verdicts = {
		{ SWITCHES_RULE, "after each switch all registers are as they were before it" },
		{ MODES_RULE, MODES_MEANING },
	},
	.setup = switches_setup,
	.on_cobalt = switches_on_cobalt,
	.refused = switches_refused,
	.finish = switches_finish,
};
