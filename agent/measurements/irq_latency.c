// SPDX-License-Identifier: Apache-2.0
/*
 * Interrupt latency: from the line raised until the handler's first stamp, and until the device has
 * been acknowledged. docs/measurements/irq-latency.md says what exactly is timed.
 */
#include <errno.h>
#include <stdlib.h>

#include "interrupt.h"

#define IRQ_GRID_HANDLER 0
#define IRQ_GRID_ACKNOWLEDGED 1

static const char *const irq_latency_contexts[] = { "irq", NULL };
static const char *const irq_latency_stages[] = { "interrupt", "handler", NULL };

static const struct option_info irq_latency_options[] = {
	{ "for", OPTION_DURATION, "10s", 0, 0, NULL,
	  "how long; 0: until the samples are there, or it is stopped" },
	{ "samples", OPTION_INTEGER, "0", 0, INT64_MAX, NULL,
	  "interrupts of each CPU; 0: until the time is up" },
	{ "interval", OPTION_DURATION, "1ms", 20000, 3600000000000, NULL,
	  "time from one interrupt to the next" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, INTERRUPT_CPU_HELP },
	INTERRUPT_OPTIONS,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static const struct catalogue_series irq_latency_series[] = {
	{ "handler", "ns", "from the interrupt line raised until the handler runs",
	  "the source raises the line", "the handler reads the clock, first thing",
	  irq_latency_stages },
	{ "acknowledged", "ns", "until the handler has acknowledged the device",
	  "the source raises the line", "the handler reads the clock, last thing",
	  irq_latency_stages },
	{ NULL, NULL, NULL, NULL, NULL, NULL },
};

static const struct catalogue_evaluate irq_latency_evaluate[] = {
	{ "idle", "for=5s", "for=2m" },
	{ "sched:groups=4,cpu", "for=5s", "for=2m" },
	{ NULL, NULL, NULL },
};

struct irq_latency {
	struct interrupt interrupt;
	struct events_session *sessions;
	int count;
};

static int64_t irq_latency_handler(const struct rtgauge_record *record)
{
	return (int64_t)(record->entry_ns - record->raised_ns);
}

static int64_t irq_latency_acknowledged(const struct rtgauge_record *record)
{
	return record->end_ns ? (int64_t)(record->end_ns - record->raised_ns) : INT64_MIN;
}

static int irq_latency_add(struct run *run, struct irq_latency *state, int number, int cpu)
{
	struct events_session *s = &state->sessions[number];
	int err;

	s->setup = interrupt_setup(&state->interrupt, RTGAUGE_KIND_IRQ_LATENCY, RTGAUGE_CONTEXT_IRQ,
				   cpu);
	s->setup.room = events_room(state->interrupt.interval_ns);
	s->value[IRQ_GRID_HANDLER] = irq_latency_handler;
	s->value[IRQ_GRID_ACKNOWLEDGED] = irq_latency_acknowledged;
	err = events_add(run, s, 0);
	if (!err)
		err = interrupt_add_series(run, &state->interrupt, "handler", "irq", cpu, -1,
					   &s->grid[IRQ_GRID_HANDLER]);
	if (!err)
		err = interrupt_add_series(run, &state->interrupt, "acknowledged", "irq", cpu, -1,
					   &s->grid[IRQ_GRID_ACKNOWLEDGED]);
	return err;
}

static int irq_latency_setup(struct run *run)
{
	struct irq_latency *state = calloc(1, sizeof(*state));
	const struct cpulist *cpus;
	int number = 0, err;

	run->state = state;
	if (!state)
		return -ENOMEM;
	cpus = &state->interrupt.cpus;
	err = interrupt_choose(run, &state->interrupt);
	if (err)
		return err;
	state->sessions = calloc((size_t)cpulist_count(cpus), sizeof(*state->sessions));
	if (!state->sessions)
		return -ENOMEM;
	state->count = cpulist_count(cpus);
	for (int i = 0; i < state->count; i++)
		state->sessions[i].fd = -1;
	for (int cpu = cpulist_next(cpus, 0); cpu >= 0 && !err; cpu = cpulist_next(cpus, cpu + 1))
		err = irq_latency_add(run, state, number++, cpu);
	return err;
}

static int irq_latency_start(struct run *run)
{
	struct irq_latency *state = run->state;
	int err = 0;

	interrupt_remark(run, &state->interrupt);
	for (int i = 0; i < state->count && !err; i++)
		err = events_start(run, &state->sessions[i],
				   run_first_due_ns(run) +
					   state->interrupt.interval_ns / state->count * i);
	return err;
}

static void irq_latency_collect(struct run *run)
{
	struct irq_latency *state = run->state;

	events_collect(run, state->sessions, state->count);
}

static void irq_latency_cleanup(struct run *run)
{
	struct irq_latency *state = run->state;

	for (int i = 0; state && i < state->count; i++)
		events_close(&state->sessions[i]);
	if (state)
		free(state->sessions);
	free(state);
}

const struct measurement irq_latency_measurement = {
	.name = "irq-latency",
	.code = "IRQ-P-LAT",
	.summary = "from an interrupt line raised until its handler runs",
	.role = "measurement",
	.chapter = CHAPTER_INTERRUPTS,
	.contexts = irq_latency_contexts,
	.options = irq_latency_options,
	.series = irq_latency_series,
	.evaluate = irq_latency_evaluate,
	.setup = irq_latency_setup,
	.start = irq_latency_start,
	.collect = irq_latency_collect,
	.cleanup = irq_latency_cleanup,
};
