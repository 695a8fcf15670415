/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which answer belongs to which event. One event is open at a time: while it has no answer, the next
 * one is held back, up to a timeout, so an answer that comes late is that of the open event. What may
 * still come after a timeout is told apart by its level, or by a line that stays quiet after the next
 * answer. Pure: whoever raises events tells what happened and when. docs/measurements/log-host.md
 * ("Late answers") has the rules.
 */
#ifndef RTGAUGE_ANSWERS_H
#define RTGAUGE_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

enum answers_fate {
	ANSWERS_ANSWERED,
	ANSWERS_UNANSWERED, /* within the timeout */
	ANSWERS_AMBIGUOUS,  /* several edges may be its answer */
};

struct answers {
	int64_t interval_ns;
	int64_t timeout_ns;
	int64_t quiet_ns; /* silence after which no answer to an earlier event is to be expected */
	bool levels;	  /* an answer has the level of its event; else any edge is one */

	/* of the event that is open */
	int64_t raised_ns;
	int64_t answer_ns; /* 0: not yet */
	int64_t back_ns;   /* when the line was put back; 0: it was not */
	int64_t edge_ns;   /* the last edge */
	int level;
	int answer_level;
	bool doubtful;
	bool mirrored; /* the responder follows the line back to rest */

	/* unanswered events whose answers may still come */
	int64_t owed;

	/* raised = answered + unanswered + ambiguous, once the open event is closed */
	int64_t raised;
	int64_t answered;
	int64_t unanswered;
	int64_t ambiguous;
	int64_t late;	     /* answers after the next event was due, or after the timeout */
	int64_t late_max_ns; /* the longest of the late ones that have a sample */
	int64_t doubled;     /* edges that answer nothing */
};

/* @timeout_ns 0: ten intervals, at least 100 ms, at most 1 s, and never less than an interval. */
void answers_begin(struct answers *a, int64_t interval_ns, int64_t timeout_ns, bool levels);
/* The open event; @level: that of its answer, or of the event where any edge is an answer. */
void answers_raise(struct answers *a, int64_t at_ns, int level);
/* The line goes back to rest, which is no event, but may be mirrored. */
void answers_put_back(struct answers *a, int64_t at_ns);
/* An edge came, after the first event was raised. */
void answers_edge(struct answers *a, int64_t at_ns, int level);
/* Until when edges have to be taken before the open event is closed; the next is due at @next_ns. */
int64_t answers_until_ns(const struct answers *a, int64_t next_ns);
/* Count the open event. ANSWERS_ANSWERED: answer_ns is the time of its answer. */
enum answers_fate answers_close(struct answers *a, int64_t next_ns);

#endif
