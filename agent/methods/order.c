// SPDX-License-Identifier: Apache-2.0
/* Order of the actions of threads: marks, comparison, evidence. */
#include "methods/order.h"

#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "run/step.h"

/* Room for what comes before the marks in the evidence, and for their text. */
#define ORDER_TEXT 640
#define ORDER_AGAIN "re-run on an idle machine, with more time (--for)"

void order_mark(struct order *order, const char *thread, const char *what)
{
	uint32_t place;
	int64_t now_ns;

	do {
		place = atomic_load_acquire(&order->count);
		now_ns = clock_now_ns(CLOCK_MONOTONIC);
	} while (!atomic_compare_exchange(&order->count, place, place + 1));
	if (place < ORDER_MARKS_MAX)
		order->marks[place] = (struct order_mark){ now_ns, thread, what };
}

int order_count(const struct order *order)
{
	uint32_t count = atomic_load_acquire(&order->count);

	return count < ORDER_MARKS_MAX ? (int)count : ORDER_MARKS_MAX;
}

int order_find(const struct order *order, const char *thread, const char *what)
{
	for (int i = 0; i < order_count(order); i++)
		if (!strcmp(order->marks[i].thread, thread) &&
		    (!what || !strcmp(order->marks[i].what, what)))
			return i;
	return -1;
}

bool order_is(const struct order *order, const char *const *threads)
{
	int count = order_count(order);
	int i = 0;

	for (; threads[i]; i++)
		if (i >= count || strcmp(order->marks[i].thread, threads[i]))
			return false;
	return i == count;
}

const char *order_text(const struct order *order, char *buf, size_t size)
{
	int count = order_count(order);
	size_t used = 0;

	buf[0] = '\0';
	for (int i = 0; i < count && used < size; i++) {
		const struct order_mark *mark = &order->marks[i];
		int64_t tenths = (mark->time_ns - order->marks[0].time_ns) / 100;

		used += (size_t)snprintf(buf + used, size - used, "%s%s %s at %lld.%lld µs",
					 i ? ", " : "", mark->thread, mark->what,
					 (long long)(tenths / 10), (long long)(tenths % 10));
	}
	/* what does not fit is in the table; of a letter of two bytes none stays alone */
	if (used >= size && size > 4) {
		memcpy(buf + size - 4, "...", 4);
		if (size > 5 && buf[size - 5] == "µ"[0])
			buf[size - 5] = '.';
	}
	return buf;
}

void order_verdict(struct step *step, const struct order *order, bool held, const char *why,
		   const char *remedy)
{
	char text[ORDER_TEXT], evidence[2 * ORDER_TEXT + 2]; /* room for both, whole */

	snprintf(evidence, sizeof(evidence), "%s%s%s", why, why[0] ? ": " : "",
		 order_text(order, text, sizeof(text)));
	step_verdict(step, order->rule, held ? "pass" : "fail", evidence, remedy);
}

bool order_round(struct order_rounds *rounds, const struct order *now, bool held,
		 const char *disturbed)
{
	const char *rule = rounds->order.rule;

	if (!held && disturbed) {
		rounds->disturbed = disturbed;
		return ++rounds->repeated < ORDER_ROUNDS;
	}
	rounds->order = *now;
	rounds->order.rule = rule;
	rounds->held = held;
	rounds->judged++;
	return held && rounds->judged < ORDER_ROUNDS;
}

bool order_decided(const struct order_rounds *rounds)
{
	return rounds->judged == ORDER_ROUNDS || (rounds->judged && !rounds->held);
}

void order_rounds_verdict(struct step *step, const struct order_rounds *rounds, const char *why,
			  const char *remedy)
{
	char text[ORDER_TEXT]; /* more than the longest text */
	int used;

	if (!rounds->judged && !rounds->repeated) {
		order_not_tried(step, rounds->order.rule);
		return;
	}
	if (!rounds->judged) {
		snprintf(text, sizeof(text), "no round was judged: %d %s disturbed (%s)",
			 rounds->repeated, rounds->repeated == 1 ? "was" : "were",
			 rounds->disturbed);
		step_verdict(step, rounds->order.rule, "inconclusive", text, ORDER_AGAIN);
		return;
	}
	if (!order_decided(rounds)) { /* `why` may be about a disturbed round */
		used = snprintf(text, sizeof(text), "the order held in %d round%s (%d are needed)",
				rounds->judged, rounds->judged == 1 ? "" : "s", ORDER_ROUNDS);
		if (rounds->repeated)
			snprintf(text + used, sizeof(text) - (size_t)used,
				 ", and %d %s disturbed (%s)", rounds->repeated,
				 rounds->repeated == 1 ? "was" : "were", rounds->disturbed);
		step_verdict(step, rounds->order.rule, "inconclusive", text, ORDER_AGAIN);
		return;
	}
	used = snprintf(text, sizeof(text), "%s%s", why, why[0] ? " " : "");
	if (rounds->repeated)
		used += snprintf(text + used, sizeof(text) - (size_t)used,
				 "(%d disturbed and repeated: %s) ", rounds->repeated,
				 rounds->disturbed);
	if (rounds->held)
		snprintf(text + used, sizeof(text) - (size_t)used, "in %d rounds, the last",
			 rounds->judged);
	else
		snprintf(text + used, sizeof(text) - (size_t)used, "in round %d", rounds->judged);
	order_verdict(step, &rounds->order, rounds->held, text, remedy);
}

void order_not_tried(struct step *step, const char *rule)
{
	step_verdict(step, rule, "inconclusive", "not tried: the step ended first",
		     "give the step more time (--for)");
}

void order_table(struct step *step, const struct order *const *orders, int count)
{
	static const struct step_column columns[] = {
		{ "rule", "" },
		{ "time", "ns" },
		{ "thread", "" },
		{ "event", "" },
	};
	struct cbor *c;
	int rows = 0;

	for (int i = 0; i < count; i++)
		rows += order_count(orders[i]);
	c = step_table_begin(step, ORDER_TABLE, columns, 4, rows);
	for (int i = 0; i < count; i++)
		for (int k = 0; k < order_count(orders[i]); k++) {
			const struct order_mark *mark = &orders[i]->marks[k];

			cbor_array(c, 4);
			cbor_text(c, orders[i]->rule);
			cbor_int(c, mark->time_ns - orders[i]->marks[0].time_ns);
			cbor_text(c, mark->thread);
			cbor_text(c, mark->what);
		}
	step_table_end(step);
}
