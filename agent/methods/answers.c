// SPDX-License-Identifier: Apache-2.0
/* Matches answers to events, before step 2 of the path of a sample. */
#include "methods/answers.h"

#include "base/clock.h"

#define ANSWERS_TIMEOUT_INTERVALS 10
#define ANSWERS_TIMEOUT_MIN_NS (100 * NSEC_PER_MSEC)
#define ANSWERS_TIMEOUT_MAX_NS NSEC_PER_SEC
/* With a constant delay, two answers are as far apart as their events: a timeout and less than an
 * interval. The other intervals allow for delays that vary. */
#define ANSWERS_QUIET_INTERVALS 4
/* The wait for a quiet line ends after this multiple of that time. */
#define ANSWERS_QUIET_MAX 10
/* Number of events that show whether a responder mirrors the line. */
#define ANSWERS_LEARNT 4
/* Number of events without any edge after which the wait for an answer is cut to one interval. */
#define ANSWERS_SILENT 8

void answers_begin(struct answers *a, int64_t interval_ns, int64_t timeout_ns, bool levels)
{
	int64_t chosen_ns = interval_ns > ANSWERS_TIMEOUT_MAX_NS / ANSWERS_TIMEOUT_INTERVALS ?
				    ANSWERS_TIMEOUT_MAX_NS :
				    interval_ns * ANSWERS_TIMEOUT_INTERVALS;

	if (chosen_ns < ANSWERS_TIMEOUT_MIN_NS)
		chosen_ns = ANSWERS_TIMEOUT_MIN_NS;
	if (chosen_ns < interval_ns)
		chosen_ns = interval_ns;
	*a = (struct answers){
		.interval_ns = interval_ns,
		.timeout_ns = timeout_ns ? timeout_ns : chosen_ns,
		.levels = levels,
	};
	a->quiet_ns = a->timeout_ns + ANSWERS_QUIET_INTERVALS * interval_ns;
}

void answers_raise(struct answers *a, int64_t at_ns, int level)
{
	a->raised++;
	a->raised_ns = at_ns;
	a->answer_ns = a->back_ns = a->edge_ns = 0;
	a->level = level;
	a->doubtful = false;
}

void answers_put_back(struct answers *a, int64_t at_ns)
{
	a->back_ns = at_ns;
}

/* A responder that mirrors the line follows it back to rest: that edge is not a second answer. */
static bool answers_mirrored(const struct answers *a, int64_t at_ns, int level)
{
	return a->back_ns && a->answer_ns <= a->back_ns && at_ns >= a->back_ns &&
	       a->answer_level == a->level && level != a->level;
}

void answers_edge(struct answers *a, int64_t at_ns, int level)
{
	bool fits = at_ns >= a->raised_ns && (!a->levels || level == a->level);

	a->edge_ns = at_ns;
	if (fits && !a->answer_ns) {
		a->answer_ns = at_ns;
		a->answer_level = level;
		return;
	}
	if (!fits && a->owed) {
		a->owed--;
		a->late++;
		return;
	}
	a->doubled++;
	if (answers_mirrored(a, at_ns, level))
		a->mirrored = true;
	else if (fits)
		a->doubtful = true;
}

/* The line rests before the next event. A responder that mirrors it answers the return to rest, too,
 * after about the delay of its answer. */
static int64_t answers_rested_ns(const struct answers *a)
{
	int64_t rest_ns = a->interval_ns / 4;

	if (a->answer_ns && (a->mirrored || a->raised <= ANSWERS_LEARNT) &&
	    rest_ns < 2 * (a->answer_ns - a->raised_ns))
		rest_ns = 2 * (a->answer_ns - a->raised_ns);
	return a->back_ns + rest_ns;
}

int64_t answers_until_ns(const struct answers *a, int64_t next_ns)
{
	bool silent = !a->answered && !a->edge_ns && a->unanswered >= ANSWERS_SILENT &&
		      !a->ambiguous && !a->late && !a->doubled;
	int64_t until_ns = next_ns;

	if (!a->answer_ns && !silent) {
		until_ns = a->raised_ns + a->timeout_ns;
	} else if (a->answer_ns && a->owed) {
		int64_t most_ns = a->raised_ns + ANSWERS_QUIET_MAX * a->quiet_ns;

		until_ns = a->edge_ns + a->quiet_ns;
		if (until_ns > most_ns)
			until_ns = most_ns;
	}
	if (a->back_ns && until_ns < answers_rested_ns(a))
		until_ns = answers_rested_ns(a);
	return until_ns > next_ns ? until_ns : next_ns;
}

enum answers_fate answers_close(struct answers *a, int64_t most_ns)
{
	int64_t delay_ns = a->answer_ns - a->raised_ns;

	if (!a->answer_ns) {
		a->unanswered++;
		a->owed++;
		return ANSWERS_UNANSWERED;
	}
	/* the line was quiet: no earlier answer is outstanding */
	a->owed = 0;
	if (a->doubtful) {
		a->ambiguous++;
		return ANSWERS_AMBIGUOUS;
	}
	a->answered++;
	if (delay_ns > most_ns || delay_ns > a->timeout_ns) {
		a->late++;
		a->answered_late++;
		if (delay_ns > a->late_max_ns)
			a->late_max_ns = delay_ns;
	}
	return ANSWERS_ANSWERED;
}
