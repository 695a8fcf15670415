/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the interrupt measurements: the source of their interrupts, their CPUs and their grid.
 * docs/measurements/irq.md describes the sources.
 */
#ifndef RTGAUGE_INTERRUPT_H
#define RTGAUGE_INTERRUPT_H

#include "methods/events.h"

#define INTERRUPT_CPU_HELP                                               \
	"CPUs that take the interrupts (with a single source, only the " \
	"first of them)"

/* Two rows of an option table. */
#define INTERRUPT_OPTIONS                                                                  \
	{ "source",                                                                        \
	  OPTION_ENUM,                                                                     \
	  "auto",                                                                          \
	  0,                                                                               \
	  0,                                                                               \
	  "auto hpet gpio pci hrtimer",                                                    \
	  "what raises the interrupts (hrtimer, a kernel timer, is a fallback)" },         \
	{                                                                                  \
		"gpio", OPTION_TEXT, "", 0, 0, NULL,                                       \
			"lines of the source gpio: CHIP:OUTPUT:INPUT, wired to each other" \
	}

struct interrupt {
	struct rtgauge_source source;
	struct cpulist cpus;
	char chip[32];
	uint32_t output;
	uint32_t input;
	int64_t interval_ns; /* 0: the measurement has no such option */
	int64_t periods;     /* INT64_MAX: no end */
	int64_t samples;
	char *states; /* of each CPU, in order; each begins with its struct events_session */
	size_t size;  /* of one */
	int count;
};

/* In setup(), from the options. 0, STEP_SKIPPED, or -errno with the step's message. */
int interrupt_choose(struct step *step, struct interrupt *interrupt);
/* In setup(): the choice above, and for each CPU a state of @size bytes, which @add fills. 0,
 * STEP_SKIPPED, or -errno with the step's message. */
int interrupt_setup_cpus(struct step *step, struct interrupt *interrupt, size_t size,
			 int (*add)(struct step *step, void *state, int cpu));
/* In start(): every session, the CPUs one after the other within a period. @due, if any, gets each
 * one's first due time. 0 or -errno with the step's message. */
int interrupt_start(struct step *step, const struct interrupt *interrupt,
		    void (*due)(void *state, int64_t first_ns));
/* That of a CPU by its place, from 0. */
struct events_session *interrupt_session(const struct interrupt *interrupt, int number);
/* In finish(), where no records are read: what became of the sessions. 0. */
int interrupt_finish(struct step *step, const struct interrupt *interrupt);
void interrupt_cleanup(struct step *step);
/* A session's set-up on @cpu, without a ring for records. */
struct rtgauge_setup interrupt_setup(const struct interrupt *interrupt, uint32_t kind,
				     uint32_t contexts, int cpu);
/* A series on the grid, with the label source: 0 or -errno. */
int interrupt_add_series(struct step *step, const struct interrupt *interrupt, const char *name,
			 const char *context, int cpu, int thread, struct grid *grid);
/* In start(), once (interrupt_start() does it): to the stream that the source is but a fallback, if
 * it is. */
void interrupt_remark(struct step *step, const struct interrupt *interrupt);
/* A thread on @cpu that the interrupts interrupt: it uses the CPU, as SCHED_OTHER, until the worker
 * with the number @until, which was added before, has ended. 0 or -errno with the step's message. */
int interrupt_add_filler(struct step *step, int cpu, int until);

#endif
