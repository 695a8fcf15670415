// SPDX-License-Identifier: Apache-2.0
/* Tests of sustain.c and irq_sustained.c: the search over machines made up, whose limit is known, and a
 * try that a signal ends; and of the notation of two lines of a GPIO chip. Prints TAP. */
#include <errno.h>
#include <string.h>

#include "methods/events.h"
#include "methods/sustain.h"

static int test_ioctl(int fd, unsigned long request, void *arg);

#define ioctl test_ioctl
#include "measurements/irq_sustained.c"
#undef ioctl

#include "tap.h"

#define SHORTEST 2000
#define LONGEST 100000000

struct machine {
	int64_t limit_ns;  /* loses below it … */
	int64_t rare_ns;   /* … and of a million below that */
	int64_t silent_ns; /* … and is not heard below that */
	int64_t grain_ns;  /* of its source */
	int ends_after;	   /* tries; 0: never */
	int tries;
};

static bool attempt(void *arg, struct sustain_try *try)
{
	struct machine *m = arg;

	if (m->ends_after && m->tries++ == m->ends_after)
		return false;
	try->period_ns = (try->period_ns + m->grain_ns - 1) / m->grain_ns * m->grain_ns;
	if (try->period_ns < m->silent_ns) {
		try->silent = true;
		return true;
	}
	try->generated = try->count;
	try->lost = try->period_ns < m->limit_ns ||
				    (try->count > 1000 && try->period_ns < m->rare_ns) ?
			    3 :
			    0;
	return true;
}

static struct sustain search_of(struct machine *m)
{
	return (struct sustain){ .attempt = attempt,
				 .arg = m,
				 .from_ns = 100000,
				 .shortest_ns = SHORTEST,
				 .longest_ns = LONGEST,
				 .step_ns = 100 };
}

/* The period found held; one step below it did not, or the source has no shorter one. */
static bool found_limit(const struct machine *m, int64_t period_ns)
{
	int64_t fine_ns = period_ns / 32 > 100 ? period_ns / 32 : 100;

	return period_ns >= m->limit_ns && (period_ns - fine_ns - m->grain_ns < m->limit_ns ||
					    period_ns < SHORTEST + m->grain_ns);
}

static void test_silence(void)
{
	struct machine m = { .limit_ns = 5000, .silent_ns = 40000, .grain_ns = 10 };
	struct sustain search = search_of(&m);
	int64_t period_ns = sustain_search(&search, 1000);
	int silent = 0;

	for (int i = 0; i < search.count; i++)
		silent += search.tries[i].silent && !search.tries[i].generated &&
			  !search.tries[i].lost;
	tap_check(period_ns >= 40000 && period_ns < 45000 && silent,
		  "a period without interrupts is not a result, and nothing of it is counted");
}

static void test_search(void)
{
	static const int64_t grains[] = { 1, 10, 70, 1000 };
	bool good = true, same = true;
	int most = 0;

	for (int64_t limit_ns = 1; limit_ns < 90000000; limit_ns += 1 + limit_ns / 7) {
		for (int i = 0; i < 4; i++) {
			struct machine m = { .limit_ns = limit_ns, .grain_ns = grains[i] };
			struct sustain first = search_of(&m), second = search_of(&m);
			int64_t period_ns = sustain_search(&first, 1000);

			good = good && found_limit(&m, period_ns);
			same = same && sustain_search(&second, 1000) == period_ns &&
			       first.count == second.count &&
			       !memcmp(first.tries, second.tries, sizeof(first.tries));
			most = first.count > most ? first.count : most;
		}
	}
	tap_check(good, "the limit of a machine is found, to the step");
	tap_check(same, "twice the same tries");
	tap_check(most <= 40, "in %d tries at most", most);
}

static void test_ends(void)
{
	struct machine never = { .limit_ns = INT64_MAX, .grain_ns = 1 };
	struct machine stopped = { .limit_ns = 30000, .grain_ns = 1, .ends_after = 5 };
	struct machine rare = { .limit_ns = 30000, .rare_ns = 47000, .grain_ns = 1 };
	struct sustain search = search_of(&never);
	int64_t period_ns;

	tap_check(!sustain_search(&search, 1000) && search.count < 20,
		  "a machine that always loses gets no period");
	search.count = 0;
	tap_check(!sustain_confirm(&search, 1000000, 50000000), "nor in the next phase");
	search = search_of(&stopped);
	tap_check(!sustain_search(&search, 1000) && search.count == 5, "stopped, it ends");
	search = search_of(&rare);
	period_ns = sustain_search(&search, 1000);
	tap_check(found_limit(&rare, period_ns), "phase 1 does not see what is rare");
	period_ns = sustain_confirm(&search, 1000000, period_ns);
	tap_check(period_ns >= 47000 && period_ns <= 47000 + 47000 / 32 + 100,
		  "phase 2 does, and goes no further than it must");
	tap_check(search.tries[search.count - 1].lost == 0 &&
			  search.tries[search.count - 2].lost > 0,
		  "its last try but one was lost, its last was not");
}

static void test_phases(void)
{
	static const int64_t asked[] = { 1000, 1001, 9999, 10000, 30000, 10000000, 1000000000 };
	int64_t counts[SUSTAIN_PHASES_MAX], shortest_ns[SUSTAIN_PHASES_MAX], period_ns = 40000;
	struct machine never = { .limit_ns = INT64_MAX, .grain_ns = 1 };
	struct machine rare = { .limit_ns = 30000, .rare_ns = 47000, .grain_ns = 10 };
	struct sustain search;
	bool good = true;

	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		int64_t count = 100;
		int phases;

		search = search_of(&rare);
		phases = sustain_phases(&search, asked[i], counts, shortest_ns);
		good = good && phases <= SUSTAIN_PHASES_MAX && counts[phases - 1] == asked[i] &&
		       shortest_ns[0] < 47000;
		for (int k = 0; k < phases; k++) {
			count *= 10;
			good = good && (k == phases - 1 ? counts[k] > count / 10 : true) &&
			       counts[k] == (count < asked[i] ? count : asked[i]) &&
			       (!k || shortest_ns[k] >= 47000);
		}
		good = good && search.tries[search.count - 1].generated == asked[i];
	}
	tap_check(good, "phases of 1000 and ten times as many, up to exactly those asked for");
	search = search_of(&never);
	tap_check(sustain_phases(&search, 10000000, counts, shortest_ns) == 1 && !shortest_ns[0],
		  "after a phase without a result there is no other");
	search = search_of(&rare);
	tap_check(!sustain_try(&search, 123456, &period_ns) && search.count == 1 &&
			  search.tries[0].generated == 123456 && search.tries[0].lost,
		  "one try is of exactly those asked for");
}

static void test_gpio(void)
{
	static const char *const wrong[] = {
		"",	     "chip",	      "chip:1",
		"chip:1:",   "chip:1:1",      ":1:2",
		"chip:1:2:", "chip:a:2",      "chip:1:-2",
		"chip:1:2 ", "chip:100000:2", "a-name-that-is-longer-than-31-letters:1:2"
	};
	uint32_t output = 0, input = 0;
	char chip[32];
	bool refused = true;

	tap_check(!events_parse_gpio("9030000.pl061:4:17", chip, &output, &input) &&
			  !strcmp(chip, "9030000.pl061") && output == 4 && input == 17,
		  "two lines of a chip");
	tap_check(!events_parse_gpio("INTC1057:00:4:17", chip, &output, &input) &&
			  !strcmp(chip, "INTC1057:00") && output == 4 && input == 17,
		  "whose label has a colon");
	tap_check(
		!events_parse_gpio("just-31-letters-is-what-fits-in:1:2", chip, &output, &input) &&
			strlen(chip) == 31,
		"or is as long as may be");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		refused = refused && events_parse_gpio(wrong[i], chip, &output, &input);
	tap_check(refused, "what is not two lines of a chip is refused");
}

static int interrupted; /* so many calls are ended by a signal */
static int stop_in;	/* the call during which the step is stopped; 0: none */
static int calls;
static struct step step;

static int test_ioctl(int fd, unsigned long request, void *arg)
{
	struct rtgauge_sustain *sustain = arg;

	if (++calls == stop_in)
		step.stop = STEP_STOP;
	if (calls <= interrupted) {
		errno = EINTR;
		return -1;
	}
	sustain->generated = sustain->count;
	return 0;
}

/* SIGCONT ends the call, too. */
static void test_standstill(void)
{
	struct irq_sustained state = { .step = &step };
	struct sustain_try try = { .count = 1000, .period_ns = SHORTEST };

	interrupted = 2;
	tap_check(irq_sustained_attempt(&state, &try) && !state.error && calls == 3 &&
			  try.generated == 1000,
		  "a try that a standstill ended is repeated");
	calls = 0;
	stop_in = 1;
	tap_check(!irq_sustained_attempt(&state, &try) && calls == 1,
		  "one that a stop ended is not");
}

/* The module refuses a trial of more than 24 hours. */
static void test_too_long(void)
{
	struct irq_sustained state = { .step = &step };
	struct sustain_try try = { .count = 1000000000, .period_ns = 86400 };

	step.stop = STEP_GOES_ON;
	calls = interrupted = stop_in = 0;
	tap_check(irq_sustained_attempt(&state, &try) && calls == 1 && !state.too_long,
		  "a trial of 24 hours");
	try.period_ns = 86401;
	tap_check(!irq_sustained_attempt(&state, &try) && calls == 1 && state.too_long,
		  "a longer one is not tried");
}

int main(void)
{
	test_search();
	test_silence();
	test_ends();
	test_phases();
	test_gpio();
	test_standstill();
	test_too_long();
	return tap_end();
}
