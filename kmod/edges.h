/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Edges from outside and the answers to them, whatever lines bring them: levels, answers that are
 * delayed on purpose, and the end of a session. For the sources external, serial and parallel. They
 * pass functions of their own, which drive the output and turn the input off. Compiled into each
 * handler.
 */
#ifndef RTGAUGE_EDGES_H
#define RTGAUGE_EDGES_H

#include "core.h"
#include "session.h"

#define EDGES_BUSY_NS (RTGAUGE_STORM_WINDOW_NS / 2)

struct edges {
	u32 flags; /* RTGAUGE_SETUP_* */
	bool both; /* edges; else the level follows from the edge */
	bool flip; /* the answer's level to the line's */

	/* The handler's: */
	u32 level; /* of the event before: RTGAUGE_RECORD_LEVEL or 0 */
	u32 edges, edges_max;
	u64 window_ns, busy_ns; /* when the window began; in the handler since then */

	/* The answering context's: */
	u32 delay_ns, delay_every, delay_left;
	bool high;
};

/* As the set-up wants them. */
void edges_init(struct edges *e, const struct rtgauge_setup *setup);

/* At the start, with the input's level. Whether the output is high. */
bool edges_begin(struct edges *e, u32 level);

/* Hold up an answer, with the CPU or, in a thread, without it. */
void edges_spin(const struct session *s, const struct edges *e);
void edges_sleep(const struct session *s, const struct edges *e);

/* RTGAUGE_RECORD_LEVEL or 0 for a line that is @high. */
static inline u32 edges_logical(const struct edges *e, bool high)
{
	return high != !!(e->flags & RTGAUGE_SETUP_ACTIVE_LOW) ? RTGAUGE_RECORD_LEVEL : 0;
}

/* The level that the edge has brought, @now, if edges are both, and whether it is new: flags of the
 * record.
 */
static inline u32 edges_level(struct edges *e, u32 now)
{
	u32 before = e->level;

	if (!e->both)
		return e->level;
	e->level = now;
	return e->level | (e->level == before ? RTGAUGE_RECORD_REPEATED : 0);
}

/* Whether this answer is one of those to be held up. */
static inline bool edges_is_delayed(struct edges *e)
{
	if (likely(!e->delay_every) || --e->delay_left)
		return false;
	e->delay_left = e->delay_every;
	return true;
}

/* The answer to an event with this level: whether the output is high. */
static inline bool edges_next(struct edges *e, u32 level)
{
	if (e->flags & RTGAUGE_SETUP_TOGGLE)
		e->high = !e->high;
	else
		e->high = !!level != e->flip;
	return e->high;
}

/* The end of the handler: whether it was the last event, or one too many. */
static __always_inline void edges_watch(struct session *s, struct edges *e, u64 entry_ns,
					u64 end_ns, void (*deafen)(struct session *s))
{
	if (unlikely(s->events >= s->events_max)) {
		deafen(s);
		session_exhausted(s);
		return;
	}
	if (entry_ns - e->window_ns > RTGAUGE_STORM_WINDOW_NS) {
		e->window_ns = entry_ns;
		e->busy_ns = 0;
		e->edges = 0;
	}
	/* what is longer than any delay was taken from the CPU, by a hypervisor or the firmware */
	e->busy_ns += min_t(u64, end_ns - entry_ns, RTGAUGE_DELAY_BUSY_MAX_NS);
	if (unlikely(++e->edges > e->edges_max || e->busy_ns > EDGES_BUSY_NS)) {
		deafen(s);
		session_broken(s, RTGAUGE_FAILURE_STORM);
	}
}

/* The handler that answers, with the flags of the record. */
static __always_inline void edges_reply(struct session *s, struct edges *e, u64 entry_ns, u32 flags,
					void (*drive)(struct session *s, bool high),
					void (*deafen)(struct session *s))
{
	struct rtgauge_record *record;
	u64 end_ns;

	if (unlikely(edges_is_delayed(e))) {
		flags |= RTGAUGE_RECORD_DELAYED;
		edges_spin(s, e);
	}
	drive(s, edges_next(e, flags & RTGAUGE_RECORD_LEVEL));
	end_ns = session_now(s);
	record = session_edge(s, entry_ns, flags);
	if (likely(record)) {
		record->end_ns = end_ns;
		session_keep(s);
	}
	edges_watch(s, e, entry_ns, end_ns, deafen);
}

/* The handler that defers the answer. */
static __always_inline void edges_defer(struct session *s, struct edges *e, u64 entry_ns, u32 flags,
					void (*deafen)(struct session *s))
{
	u32 *answered = s->contexts & RTGAUGE_CONTEXT_USER ? &s->user_position :
							     &s->thread_position;
	struct rtgauge_record *record;
	u64 end_ns = entry_ns;

	if (unlikely(s->head != shared_get(answered)))
		flags |= RTGAUGE_RECORD_WAITED;
	record = session_edge(s, entry_ns, flags);
	if (likely(record)) {
		end_ns = session_now(s);
		record->wake_ns = end_ns;
		session_keep(s);
	}
	edges_watch(s, e, entry_ns, end_ns, deafen);
}

/* What it is deferred to. */
static __always_inline void edges_answer(struct session *s, struct edges *e,
					 struct rtgauge_record *record,
					 void (*drive)(struct session *s, bool high))
{
	if (unlikely(edges_is_delayed(e))) {
		record->flags |= RTGAUGE_RECORD_DELAYED;
		if (e->flags & RTGAUGE_SETUP_DELAY_SLEEP)
			edges_sleep(s, e);
		else
			edges_spin(s, e);
	}
	drive(s, edges_next(e, record->flags & RTGAUGE_RECORD_LEVEL));
	record->end_ns = session_now(s);
}

#endif
