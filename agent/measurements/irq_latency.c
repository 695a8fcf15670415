// SPDX-License-Identifier: Apache-2.0
/*
 * Interrupt latency: from the raised line to the handler's first stamp, and until the handler has
 * acknowledged the device. docs/measurements/irq-latency.md says what exactly is timed.
 */
#include <errno.h>

#include "methods/interrupt.h"

#define IRQ_GRID_HANDLER 0
#define IRQ_GRID_ACKNOWLEDGED 1

static const struct option_info irq_latency_options[] = {
	{ "for", OPTION_DURATION, "10s", 0, 0, NULL,
	  "duration; 0: until all samples are taken, or until stopped" },
	{ "samples", OPTION_INTEGER, "0", 0, INT64_MAX, NULL, "interrupts per CPU; 0: no limit" },
	{ "interval", OPTION_DURATION, "1ms", 20000, 3600000000000, NULL,
	  "time from one interrupt to the next" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, INTERRUPT_CPU_HELP },
	{ "thread", OPTION_ENUM, "none", 0, 0, "none running",
	  "running: a SCHED_OTHER thread keeps the CPU busy, so each interrupt interrupts it" },
	INTERRUPT_OPTIONS,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

static int64_t irq_latency_handler(const struct rtgauge_record *record)
{
	return (int64_t)(record->entry_ns - record->raised_ns);
}

static int64_t irq_latency_acknowledged(const struct rtgauge_record *record)
{
	return record->end_ns ? (int64_t)(record->end_ns - record->raised_ns) : INT64_MIN;
}

static int irq_latency_add(struct step *step, void *state, int cpu)
{
	struct interrupt *interrupt = step->state;
	bool running = option_number(&step->options, "thread");
	struct events_session *s = state;
	int err;

	s->setup = interrupt_setup(interrupt, RTGAUGE_KIND_IRQ_LATENCY, RTGAUGE_CONTEXT_IRQ, cpu);
	s->setup.room = events_room(interrupt->interval_ns);
	s->value[IRQ_GRID_HANDLER] = irq_latency_handler;
	s->value[IRQ_GRID_ACKNOWLEDGED] = irq_latency_acknowledged;
	err = events_add(step, s, 0);
	if (!err)
		err = interrupt_add_series(step, interrupt, "handler", "irq", cpu, -1,
					   &s->grid[IRQ_GRID_HANDLER]);
	if (!err)
		err = interrupt_add_series(step, interrupt, "acknowledged", "irq", cpu, -1,
					   &s->grid[IRQ_GRID_ACKNOWLEDGED]);
	if (err || !running)
		return err;
	for (int i = 0; i < EVENTS_GRIDS; i++)
		step->series[s->grid[i].series].info.labels[1] =
			(struct series_label){ "thread", "running" };
	return interrupt_add_filler(step, cpu, s->worker);
}

static int irq_latency_setup(struct step *step)
{
	return interrupt_setup_cpus(step, step->state, sizeof(struct events_session),
				    irq_latency_add);
}

static int irq_latency_start(struct step *step)
{
	return interrupt_start(step, step->state, NULL);
}

static void irq_latency_collect(struct step *step)
{
	const struct interrupt *interrupt = step->state;

	events_collect(step, (struct events_session *)(void *)interrupt->states, interrupt->count);
}

const struct measurement irq_latency_measurement = {
	.name = "irq-latency",
	.code = "IRQ-P-LAT",
	.summary = "time from the interrupt request until its handler runs",
	.needs = NEEDS_MODULE,
	.chapter = CHAPTER_INTERRUPTS,
	.contexts = "irq",
	.options = irq_latency_options,
	.series = {
		{ "handler", "ns", "time from the interrupt request until the handler runs",
		  "the source raises the interrupt line", "first clock reading in the handler",
		  "interrupt,handler" },
		{ "acknowledged", "ns", "time until the handler has acknowledged the device",
		  "the source raises the interrupt line", "last clock reading in the handler",
		  "interrupt,handler" },
	},
	.evaluate = {
		{ "idle", "for=5s", "for=2m" },
		{ "idle", "for=5s thread=running", "for=2m" },
		{ "sched:groups=4,cpu", "for=5s", "for=2m" },
	},
	.not_on_cobalt = "its interrupts and threads are those of Linux",
	.state_size = sizeof(struct interrupt),
	.setup = irq_latency_setup,
	.start = irq_latency_start,
	.collect = irq_latency_collect,
	.cleanup = interrupt_cleanup,
};
