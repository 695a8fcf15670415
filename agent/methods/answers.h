/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches answers to events. One event is open at a time: while it has no answer, the next one is held
 * back, up to a timeout, so a late answer belongs to the open event. An answer after the timeout is
 * recognised by its level, or because the line does not stay quiet after the next answer. Pure: the
 * caller passes events, edges and times. docs/measurements/log-host.md ("Late answers") has the rules.
 */
#ifndef RTGAUGE_ANSWERS_H
#define RTGAUGE_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

enum answers_fate {
	ANSWERS_ANSWERED,
	ANSWERS_UNANSWERED, /* within the timeout */
	ANSWERS_AMBIGUOUS,  /* several edges can be its answer */
};

struct answers {
	int64_t interval_ns;
	int64_t timeout_ns;
	int64_t quiet_ns; /* silence after which no answer to an earlier event is expected */
	bool levels; /* an answer has the level of its event; otherwise any edge is an answer */

	/* of the open event */
	int64_t raised_ns;
	int64_t answer_ns; /* 0: not yet */
	int64_t back_ns;   /* when the line returned to rest; 0: it has not */
	int64_t edge_ns;   /* the last edge */
	int level;
	int answer_level;
	bool doubtful;
	bool mirrored; /* the responder follows the line back to rest */

	/* number of unanswered events whose answers may still come */
	int64_t owed;

	/* raised = answered + unanswered + ambiguous, once the open event is closed */
	int64_t raised;
	int64_t answered;
	int64_t unanswered;
	int64_t ambiguous;
	int64_t late;	       /* answers that took too long, or came after the timeout */
	int64_t answered_late; /* of those answered: those that were late */
	int64_t late_max_ns;   /* longest late answer that has a sample */
	int64_t doubled;       /* edges that answer nothing */
};

/* @timeout_ns: 0 chooses ten intervals, at least 100 ms, at most 1 s, never less than an interval. */
void answers_begin(struct answers *a, int64_t interval_ns, int64_t timeout_ns, bool levels);
/* Open an event. @level: of its answer, or of the event if any edge is an answer. */
void answers_raise(struct answers *a, int64_t at_ns, int level);
/* The line returns to rest: not an event, but a responder may mirror it. */
void answers_put_back(struct answers *a, int64_t at_ns);
/* An edge came, after the first event was raised. */
void answers_edge(struct answers *a, int64_t at_ns, int level);
/* Time until which to take edges before the open event is closed. The next one is due at @next_ns. */
int64_t answers_until_ns(const struct answers *a, int64_t next_ns);
/* Close and count the open event. ANSWERS_ANSWERED: answer_ns is the time of its answer, which is late
 * if it took longer than @most_ns. */
enum answers_fate answers_close(struct answers *a, int64_t most_ns);

#endif
