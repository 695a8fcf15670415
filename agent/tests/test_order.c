// SPDX-License-Identifier: Apache-2.0
/* Tests of order.c: marks in the order of their times, whichever thread makes them, and the
 * messages about them. Prints TAP. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "base/atomic.h"
#include "judged.h"

#define step_verdict test_verdict
#include "methods/order.c"
#undef step_verdict

#include "tap.h"

static void test_marks(void)
{
	struct order order = { .rule = "a rule" };

	tap_check(order_count(&order) == 0, "no mark to begin with");
	tap_check(order_find(&order, "low", NULL) == -1, "nothing is found among none");
	order_mark(&order, "low", "runs");
	order_mark(&order, "high", "runs");
	order_mark(&order, "low", "ends");
	tap_check(order_count(&order) == 3, "each mark counts");
	tap_check(order_find(&order, "low", NULL) == 0, "the first of a thread");
	tap_check(order_find(&order, "low", "ends") == 2, "the first of a thread's event");
	tap_check(order_find(&order, "high", "ends") == -1, "of another thread is not it");
	tap_check(order_find(&order, "middle", NULL) == -1, "a thread without marks");
	tap_check(order.marks[0].time_ns <= order.marks[1].time_ns &&
			  order.marks[1].time_ns <= order.marks[2].time_ns,
		  "times never go back");
}

static void test_comparison(void)
{
	static const char *const is[] = { "a", "b", "a", NULL };
	static const char *const shorter[] = { "a", "b", NULL };
	static const char *const longer[] = { "a", "b", "a", "b", NULL };
	static const char *const other[] = { "a", "a", "b", NULL };
	static const char *const none[] = { NULL };
	struct order order = { .rule = "a rule" };

	tap_check(order_is(&order, none), "no marks as expected");
	tap_check(!order_is(&order, is), "no marks where one is expected");
	order_mark(&order, "a", "x");
	order_mark(&order, "b", "y");
	order_mark(&order, "a", "z");
	tap_check(order_is(&order, is), "these threads in turn");
	tap_check(!order_is(&order, shorter), "one mark more than expected");
	tap_check(!order_is(&order, longer), "one less");
	tap_check(!order_is(&order, other), "another order");
	tap_check(!order_is(&order, none), "some are not none");
}

static void test_text(void)
{
	struct order order = {
		.rule = "a rule",
		.count = 3,
		.marks = { { 5000000000, "low", "has the mutex" },
			   { 5000000099, "high", "waits" },
			   { 5001234567, "low", "ends" } },
	};
	static const char *const text =
		"low has the mutex at 0.0 µs, high waits at 0.0 µs, low ends at 1234.5 µs";
	char buf[128], guarded[34];
	bool good = true;

	tap_check(!strcmp(order_text(&order, buf, sizeof(buf)), text),
		  "times in µs since the first mark: %s", buf);
	tap_check(!strcmp(order_text(&order, buf, strlen(text) + 1), text),
		  "what just fits is whole");
	tap_check(order_text(&order, buf, strlen(text)) && strlen(buf) == strlen(text) - 1 &&
			  !strcmp(buf + strlen(buf) - 3, "..."),
		  "what does not ends with dots: %s", buf);
	/* no size writes beyond itself, or leaves the end out */
	for (size_t size = 1; size <= 32; size++) {
		memset(guarded, '#', sizeof(guarded));
		order_text(&order, guarded, size);
		good = good && guarded[size] == '#' && memchr(guarded, '\0', size);
	}
	tap_check(good, "stays within 1 to 32 bytes");
	order.count = 0;
	tap_check(!strcmp(order_text(&order, buf, sizeof(buf)), ""), "no mark, no text");
}

/* Readers refuse half a letter. Whatever comes before the marks, the evidence ends with their text. */
static void test_evidence(void)
{
	struct order_rounds rounds = { .judged = 3 };
	char why[401] = "", text[640];
	bool good = true;

	for (int i = 0; i < ORDER_MARKS_MAX; i++)
		order_mark(&rounds.order, "waiter 60", "waits");
	order_text(&rounds.order, text, sizeof(text));
	for (size_t size = 0; size < sizeof(why) - 1; size++) {
		why[size] = '1';
		order_rounds_verdict(NULL, &rounds, why, "");
		good = good && !strcmp(said + strlen(said) - 3, "...") && strstr(said, text);
	}
	tap_check(good, "the evidence is whole: %s", said);
}

/* `why` speaks of the last round, which may be a disturbed one. */
static void test_undecided(void)
{
	struct order_rounds rounds = {
		.judged = 2, .held = true, .repeated = 1, .disturbed = "a page moved"
	};

	order_rounds_verdict(NULL, &rounds, "released 60 80", "");
	tap_check(!strcmp(judged, "inconclusive") &&
			  !strcmp(said, "the order held in 2 rounds (10 are needed), and 1 was "
					"disturbed (a page moved)"),
		  "undecided: %s", said);
	rounds.judged = 0;
	order_rounds_verdict(NULL, &rounds, "released 60 80", "");
	tap_check(!strcmp(judged, "inconclusive") &&
			  !strcmp(said, "no round was judged: 1 was disturbed (a page moved)"),
		  "not judged: %s", said);
}

static void test_many(void)
{
	static struct order order = { .rule = "a rule" };

	for (int i = 0; i < ORDER_MARKS_MAX + 5; i++)
		order_mark(&order, i < ORDER_MARKS_MAX ? "kept" : "not kept", "runs");
	tap_check(order_count(&order) == ORDER_MARKS_MAX, "so many are kept");
	tap_check(order.count == ORDER_MARKS_MAX + 5, "all are counted");
	tap_check(order_find(&order, "not kept", NULL) == -1, "and no more");
}

#define TEST_SIGNALS 1000

static struct order overtaken;
static volatile sig_atomic_t signals;

static void mark_in_between(int number)
{
	order_mark(&overtaken, "overtakes", "runs");
	signals++;
}

/* Marks of a thread overtaken after it has read the clock: places and times keep one order. */
static void test_overtaken(void)
{
	const struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
	const struct sigaction action = { .sa_handler = mark_in_between, .sa_flags = SA_RESTART };
	int back = 0;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (signals < TEST_SIGNALS) {
		atomic_store_release(&overtaken.count, 0);
		while (atomic_load_acquire(&overtaken.count) < ORDER_MARKS_MAX)
			order_mark(&overtaken, "is overtaken", "runs");
		for (int i = 1; i < ORDER_MARKS_MAX; i++)
			back += overtaken.marks[i].time_ns < overtaken.marks[i - 1].time_ns;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	tap_check(!back, "%d times went back", back);
}

/* One rule is judged as often as it is to be, and not by what the machine broke. */
static void test_rounds(void)
{
	struct order_rounds rounds = { .order = { .rule = "a rule" } };
	struct order now = { .rule = NULL };
	int more = 0;

	order_mark(&now, "low", "runs");
	while (order_round(&rounds, &now, true, "a disturbance"))
		more++;
	tap_check(more == ORDER_ROUNDS - 1 && rounds.judged == ORDER_ROUNDS && rounds.held,
		  "%d rounds that hold", rounds.judged);
	tap_check(!rounds.repeated, "what holds is not disturbed");
	tap_check(!strcmp(rounds.order.rule, "a rule") && order_count(&rounds.order) == 1,
		  "the last one is kept, with the rule");

	memset(&rounds, 0, sizeof(rounds));
	order_round(&rounds, &now, true, NULL);
	order_mark(&now, "high", "runs");
	tap_check(order_round(&rounds, &now, false, "a disturbance"), "the rounds continue");
	tap_check(rounds.judged == 1 && rounds.held && rounds.repeated == 1,
		  "a disturbed round that does not hold is not judged");
	tap_check(order_count(&rounds.order) == 1, "nor kept");
	tap_check(!order_round(&rounds, &now, false, NULL), "ends");
	tap_check(rounds.judged == 2 && !rounds.held && order_count(&rounds.order) == 2,
		  "one that does not hold is kept");

	memset(&rounds, 0, sizeof(rounds));
	for (more = 1; order_round(&rounds, &now, false, "a disturbance"); more++)
		;
	tap_check(more == ORDER_ROUNDS && !rounds.judged && !rounds.held,
		  "%d disturbed rounds are enough", more);
}

int main(void)
{
	test_marks();
	test_rounds();
	test_comparison();
	test_text();
	test_evidence();
	test_undecided();
	test_many();
	test_overtaken();
	return tap_end();
}
