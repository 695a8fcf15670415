/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for the shortest period at which no interrupt is lost. It does not depend on
 * interrupts: a function makes each trial. The same results give the same trials, in the same
 * order.
 */
#ifndef RTGAUGE_SUSTAIN_H
#define RTGAUGE_SUSTAIN_H

#include <stdbool.h>
#include <stdint.h>

#define SUSTAIN_TRIES_MAX 200
/* Interrupts of the first phase. Each later one has ten times as many as the one before, up to
 * 10^9. */
#define SUSTAIN_FIRST 1000
#define SUSTAIN_PHASES_MAX 7

struct sustain_try {
	int64_t count;	   /* asked for */
	int64_t period_ns; /* asked for; as the source has it when it was tried */
	int64_t generated;
	int64_t lost;
	bool silent; /* no more interrupts came, and none were counted */
};

struct sustain {
	/* Carry @try out; false: the search is to end (stopped, or it cannot be done). */
	bool (*attempt)(void *arg, struct sustain_try *attempt);
	void *arg;
	int64_t from_ns;     /* where it begins */
	int64_t shortest_ns; /* that the source can have */
	int64_t longest_ns;  /* beyond it nothing is tried */
	int64_t step_ns;     /* it is not searched more finely, nor than 1/32 of the period */

	struct sustain_try tries[SUSTAIN_TRIES_MAX];
	int count;
};

/* One try. 1: none was lost, 0: some were, -1: the search has to end. @period_ns becomes the period
 * as the source has it. */
int sustain_try(struct sustain *search, int64_t interrupts, int64_t *period_ns);
/* The shortest period in ns that loses none of @interrupts. 0: not found, or the search was ended. */
int64_t sustain_search(struct sustain *search, int64_t interrupts);
/* From @period_ns on longer ones until none of @interrupts is lost: that period, or 0. */
int64_t sustain_confirm(struct sustain *search, int64_t interrupts, int64_t period_ns);
/* The search, then confirmations, up to exactly @interrupts (SUSTAIN_FIRST to 10^9). Writes the
 * interrupts and the period of each phase (0: none was found, and the phases end), and returns the
 * number of phases. */
int sustain_phases(struct sustain *search, int64_t interrupts, int64_t *counts,
		   int64_t *shortest_ns);

#endif
