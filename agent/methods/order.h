/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ran when: the evidence of a verdict on behaviour. Threads mark what they do. The marks, in
 * their order, are compared with what a rule demands. The report shows them as the verdict's
 * evidence and as the table `order`.
 */
#ifndef RTGAUGE_ORDER_H
#define RTGAUGE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct step;

#define ORDER_MARKS_MAX 128

struct order_mark {
	int64_t time_ns;    /* CLOCK_MONOTONIC */
	const char *thread; /* its name in the report */
	const char *what;   /* what it did: "runs", "has the mutex" */
};

struct order {
	const char *rule; /* the verdict's */
	uint32_t count;	  /* may be more than were kept */
	struct order_mark marks[ORDER_MARKS_MAX];
};

/* Any thread. A thread that is overtaken between clock and place reads the clock again: both have
 * one order. */
void order_mark(struct order *order, const char *thread, const char *what);
/* The marks kept: at most ORDER_MARKS_MAX. */
int order_count(const struct order *order);
/* Where @thread did @what (NULL: anything) for the first time; -1: it did not. */
int order_find(const struct order *order, const char *thread, const char *what);
/* Whether the marks are just these threads in turn; @threads ends with NULL. */
bool order_is(const struct order *order, const char *const *threads);
/* "main creates at 0.0 µs, low runs at 12.3 µs", times since the first mark. */
const char *order_text(const struct order *order, char *buf, size_t size);

/* In finish(): the verdict pass or fail with the order as its evidence, after @why, if not "". */
void order_verdict(struct step *step, const struct order *order, bool held, const char *why,
		   const char *remedy);
/*
 * Rounds of one rule. A single round may hold by chance, and a kernel with a race keeps the order most
 * times. A disturbance can only break an order, so a disturbed round that does not hold is repeated.
 */
#define ORDER_ROUNDS 10

struct order_rounds {
	struct order order; /* of the first round that did not hold, else of the last */
	int judged;
	bool held; /* in all judged rounds */
	int repeated;
	const char *disturbed; /* why, for the last repeated round */
};

/* Record a round. Returns whether another one follows. @disturbed: what disturbed it, or NULL. */
bool order_round(struct order_rounds *rounds, const struct order *now, bool held,
		 const char *disturbed);
/* Whether the rule holds or not: there were enough rounds. A failed step says nothing about others. */
bool order_decided(const struct order_rounds *rounds);
/* In finish(): the verdict. Its evidence is @why, the number of rounds and the order; of an
 * undecided one only the number. */
void order_rounds_verdict(struct step *step, const struct order_rounds *rounds, const char *why,
			  const char *remedy);
/* In finish(): @rule was not tried, as the step ended before; never silently. */
void order_not_tried(struct step *step, const char *rule);
/* In finish(): the table `order` (rule, time, thread, event) of several verdicts. */
void order_table(struct step *step, const struct order *const *orders, int count);
#define ORDER_TABLE "order"
#define ORDER_MEANING "what each thread did and when: the evidence of the tests"

#endif
