// SPDX-License-Identifier: Apache-2.0
/* Tests of tick.c: ticks made up with jitter, other disturbances, stolen time and missing ticks are
 * found, and counted as brute force counts them. Prints TAP. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "judged.h"
#include "tap.h"

#define step_verdict test_verdict
#define step_table_begin test_table
#define step_table_end test_table_end
#include "measurements/tick_period.c"

#define EVENTS 100000
#define SPANS 200

struct world {
	uint64_t random;
	int64_t start_ns;
	int64_t phase_ns; /* after start_ns */
	int64_t stolen_ns;
	struct tick_event events[EVENTS];
	struct tick_span spans[SPANS];
	struct tick_view view;
	uint32_t bins[TICK_BINS];
};

/* Marsaglia's xorshift (2003): every run is the same. */
static int64_t draw(struct world *w, int64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (int64_t)(w->random % (uint64_t)below);
}

static struct world *world_new(uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));

	w->random = seed * 2654435761u + 88172645463325252ULL;
	for (int i = 0; i < 20; i++)
		draw(w, 2);
	w->start_ns = 12510199575931 + draw(w, NSEC_PER_SEC);
	w->view.events = w->events;
	w->view.spans = w->spans;
	return w;
}

/* Spans of 40 ms with a rest of 2 ms between them. */
static void world_spans(struct world *w, int count)
{
	for (int i = 0; i < count; i++) {
		w->spans[i].from_ns = w->start_ns + i * 42 * NSEC_PER_MSEC;
		w->spans[i].to_ns = w->spans[i].from_ns + 40 * NSEC_PER_MSEC;
	}
	w->view.span_count = count;
}

static bool world_observes(const struct world *w, int64_t time_ns)
{
	for (int i = 0; i < w->view.span_count; i++)
		if (time_ns >= w->spans[i].from_ns && time_ns < w->spans[i].to_ns)
			return true;
	return false;
}

/* A disturbance; @window_ns: it is only known to have begun in a loop of that length. */
static void world_add(struct world *w, int64_t at_ns, int64_t window_ns, int64_t away_ns, int tag)
{
	int64_t before_ns = window_ns ? draw(w, window_ns) : 0;

	if (!world_observes(w, at_ns) || w->view.event_count == EVENTS)
		return;
	w->events[w->view.event_count++] = (struct tick_event){
		.from_ns = at_ns - before_ns,
		.window_ns = (int32_t)window_ns,
		.away_ns = away_ns,
		.tag = tag,
	};
}

static void world_ticks(struct world *w, int64_t period_ns, int64_t jitter_ns, int64_t window_ns,
			int missing_percent, int tag)
{
	int64_t end_ns = w->spans[w->view.span_count - 1].to_ns;

	w->phase_ns = draw(w, period_ns);
	for (int64_t at_ns = w->start_ns + w->phase_ns; at_ns < end_ns; at_ns += period_ns)
		if (draw(w, 100) >= missing_percent)
			world_add(w, at_ns + (jitter_ns ? draw(w, jitter_ns) - jitter_ns / 2 : 0),
				  window_ns, 20000 + draw(w, 40000), tag);
}

/* Disturbances at chance, @rate in a second, most of them short. */
static void world_noise(struct world *w, int64_t rate, int64_t window_ns)
{
	int64_t end_ns = w->spans[w->view.span_count - 1].to_ns;
	int64_t count = (end_ns - w->start_ns) * rate / NSEC_PER_SEC;

	for (int64_t i = 0; i < count; i++)
		world_add(w, w->start_ns + draw(w, end_ns - w->start_ns), window_ns,
			  draw(w, 20) ? 600 + draw(w, 4000) : 5000 + draw(w, 100000), 0);
}

static int by_time(const void *a, const void *b)
{
	const struct tick_event *x = a, *y = b;

	return (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

static void world_sort(struct world *w)
{
	qsort(w->events, (size_t)w->view.event_count, sizeof(w->events[0]), by_time);
}

/* Whether the grid's point at @at_ns could be seen. */
static bool brute_counts(const struct world *w, const struct tick_grid *grid, int64_t at_ns)
{
	bool seen = false;

	for (int i = 0; i < w->view.span_count; i++)
		seen |= at_ns > w->spans[i].from_ns + grid->tolerance_ns &&
			at_ns <= w->spans[i].to_ns - grid->tolerance_ns;
	for (int i = 0; i < w->view.event_count; i++) {
		const struct tick_event *e = &w->events[i];

		seen &= at_ns <= e->from_ns + e->window_ns + grid->tolerance_ns ||
			at_ns > e->from_ns + e->away_ns;
	}
	return seen;
}

/* Points as their definition says, one after the other. */
static int brute_points(const struct world *w, const struct tick_grid *grid)
{
	int64_t end_ns = w->spans[w->view.span_count - 1].to_ns;
	int points = 0;

	for (int64_t at_ns = grid->phase_ns; at_ns <= end_ns; at_ns += grid->period_ns)
		points += brute_counts(w, grid, at_ns);
	return points;
}

/* Whether @event is the longest at a point near it, no other event is, and the CPU was not away at
 * that point. */
static bool brute_is_tick(const struct world *w, const struct tick_grid *grid, int event)
{
	const struct tick_event *e = &w->events[event];
	int64_t end_ns = e->from_ns + e->window_ns + grid->tolerance_ns;
	int64_t at_ns = grid->phase_ns;

	while (at_ns + grid->period_ns <= end_ns)
		at_ns += grid->period_ns;
	if (at_ns > end_ns || at_ns < e->from_ns - grid->tolerance_ns)
		return false;
	for (int i = 0; i < w->view.event_count; i++) {
		const struct tick_event *o = &w->events[i];

		if (at_ns > o->from_ns + o->window_ns + grid->tolerance_ns &&
		    at_ns <= o->from_ns + o->away_ns)
			return false;
		if (i != event && at_ns <= o->from_ns + o->window_ns + grid->tolerance_ns &&
		    at_ns >= o->from_ns - grid->tolerance_ns &&
		    (o->away_ns > e->away_ns || (o->away_ns == e->away_ns && i < event)))
			return false;
	}
	return true;
}

static int64_t distance_ns(int64_t a_ns, int64_t b_ns, int64_t period_ns)
{
	int64_t apart_ns = (a_ns - b_ns) % period_ns;

	if (apart_ns < 0)
		apart_ns += period_ns;
	return apart_ns > period_ns / 2 ? period_ns - apart_ns : apart_ns;
}

static void no_rest(void *arg)
{
}

static void test_median(void)
{
	struct world *w = world_new(1);
	int wrong = 0;

	for (int round = 0; round < 2000; round++) {
		int count = 1 + (int)draw(w, 140), below = 0, above = 0;
		int32_t values[140], spread, median;

		for (int i = 0; i < count; i++)
			values[i] = (int32_t)draw(w, 1 + round) - 500;
		median = tick_median(values, count, &spread);
		for (int i = 0; i < count; i++) {
			below += values[i] < median;
			above += values[i] > median;
			wrong += i && values[i - 1] > values[i];
		}
		wrong += below > count / 2 || above > count / 2 || spread < 0;
	}
	tap_check(!wrong, "the median of 2000 lists");
	free(w);
}

/* Laid on what is known to be there: the phase is found, and everything is counted right. */
static void test_lay(int hz, int64_t window_ns, int64_t rate, int missing)
{
	int phases = 0, points = 0, hits = 0, ticks = 0, truly = 0, lost = 0;

	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct world *w = world_new(seed * 31 + (uint64_t)hz);
		struct tick_grid grid;
		int marked = 0;

		world_spans(w, 25);
		world_ticks(w, tick_period_ns(hz), 4000, window_ns, missing, 1);
		world_noise(w, rate, window_ns);
		world_sort(w);
		tick_lay(&grid, tick_period_ns(hz), &w->view, w->bins);
		phases += distance_ns(grid.phase_ns, w->start_ns + w->phase_ns, grid.period_ns) >
			  grid.tolerance_ns;
		points += grid.points != brute_points(w, &grid);
		for (int i = 0; i < w->view.event_count; i++) {
			const struct tick_event *event = &w->events[i];

			ticks += (event->point >= 0) != brute_is_tick(w, &grid, i);
			marked += event->point >= 0 &&
				  brute_counts(w, &grid,
					       grid.phase_ns + event->point * grid.period_ns);
			truly += event->tag;
			lost += event->tag && event->point < 0;
		}
		hits += grid.hits != marked;
		free(w);
	}
	tap_check(!phases && !points && !hits && !ticks,
		  "%d Hz, %lld ns wide, %lld/s others, %d %% missing: laid and counted "
		  "(%d %d %d %d)",
		  hz, (long long)window_ns, (long long)rate, missing, phases, points, hits, ticks);
	/* a longer disturbance at the same point hides a tick: seldom */
	tap_check(lost * 25 <= truly, "of %d ticks %d are not taken as such", truly, lost);
}

static void test_find(int hz, int64_t rate, int missing)
{
	int wrong = 0, others = 0;

	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct world *w = world_new(seed * 77 + (uint64_t)hz);
		struct tick_grid grids[3];
		int count;

		world_spans(w, hz < 50 ? 60 : 25);
		world_ticks(w, tick_period_ns(hz), 2000, 0, missing, 1);
		world_noise(w, rate, 0);
		world_sort(w);
		count = tick_find(grids, 3, &w->view, hz, w->bins, no_rest, NULL);
		wrong += !count || grids[0].hz != hz;
		others += count > 1;
		free(w);
	}
	tap_check(!wrong && !others,
		  "%d Hz is found, nothing else, with %lld/s others and %d %% missing (%d %d)", hz,
		  (long long)rate, missing, wrong, others);
}

static void test_nothing(int64_t rate)
{
	int found = 0;

	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct world *w = world_new(seed * 13);
		struct tick_grid grids[3];

		world_spans(w, 25);
		world_noise(w, rate, 0);
		world_sort(w);
		found += tick_find(grids, 3, &w->view, 250, w->bins, no_rest, NULL);
		free(w);
	}
	tap_check(!found, "no grid among %lld/s at chance (%d)", (long long)rate, found);
}

static void test_two_grids(void)
{
	struct world *w = world_new(5);
	struct tick_grid grids[3];
	int count;

	world_spans(w, 25);
	world_ticks(w, tick_period_ns(250), 2000, 0, 0, 1);
	world_ticks(w, tick_period_ns(100), 2000, 0, 0, 2);
	world_noise(w, 500, 0);
	world_sort(w);
	count = tick_find(grids, 3, &w->view, 250, w->bins, no_rest, NULL);
	tap_check(count == 2 && grids[0].hz == 250 && grids[1].hz == 100,
		  "a timer next to the tick is also found (%d grids)", count);
	free(w);
}

/* Time that was taken away hides the points in it; they are not missing ticks. */
static void test_stolen(void)
{
	struct world *w = world_new(6);
	int64_t period_ns = tick_period_ns(250);
	struct tick_grid grid;
	int kept = 0;

	world_spans(w, 25);
	world_ticks(w, period_ns, 2000, 0, 0, 1);
	world_sort(w);
	for (int i = 0; i < w->view.event_count; i++) {
		int64_t from_ns = w->events[i].from_ns;

		/* every tenth tick is followed by 10 ms without the CPU, as far as the span goes */
		if (i % 10 == 0 && world_observes(w, from_ns + 11 * NSEC_PER_MSEC)) {
			w->events[kept] = w->events[i];
			w->events[kept++].away_ns = 10 * NSEC_PER_MSEC;
			i += 2;
		} else {
			w->events[kept++] = w->events[i];
		}
	}
	tap_check(kept < w->view.event_count - 20, "time is stolen");
	w->view.event_count = kept;
	tick_lay(&grid, period_ns, &w->view, w->bins);
	tap_check(abs(grid.points - grid.hits) <= 2 && grid.points == brute_points(w, &grid),
		  "points in stolen time do not count: %d of %d", grid.hits, grid.points);
	free(w);
}

/* Another thread has the CPU until just after a point. A disturbance right after that is not the tick
 * of that point, which came while the other thread ran. */
static void test_back(void)
{
	struct world *w = world_new(7);
	int64_t period_ns = tick_period_ns(250);
	struct tick_grid grid, grids[3];
	int kept = 0, others = 0, wrong = 0, count;

	world_spans(w, 25);
	world_ticks(w, period_ns, 2000, 0, 0, 1);
	world_sort(w);
	for (int i = 0; i < w->view.event_count; i++) {
		int64_t from_ns = w->events[i].from_ns, back_ns;

		w->events[kept++] = w->events[i];
		back_ns = from_ns + period_ns + 13 * NSEC_PER_USEC;
		if (i % 5 || !world_observes(w, back_ns + 2 * NSEC_PER_MSEC))
			continue;
		w->events[kept - 1].away_ns = back_ns - from_ns - 100;
		/* in the place of the next tick */
		i++;
		w->events[kept++] =
			(struct tick_event){ .from_ns = back_ns, .away_ns = 500, .tag = 2 };
		others++;
	}
	w->view.event_count = kept;
	tick_lay(&grid, period_ns, &w->view, w->bins);
	for (int i = 0; i < kept; i++)
		wrong += w->events[i].tag == 2 && w->events[i].point >= 0;
	tap_check(others > 20 && !wrong && grid.points == brute_points(w, &grid),
		  "%d of %d disturbances after another thread are taken as a tick", wrong, others);
	count = tick_find(grids, 3, &w->view, 250, w->bins, no_rest, NULL);
	wrong = 0;
	for (int i = 0; i < kept; i++)
		wrong += w->events[i].tag == 2 && w->events[i].taken;
	tap_check(count == 1 && grids[0].hz == 250 && !wrong,
		  "%d of them are on one of the %d grids found", wrong, count);
	free(w);
}

/* In the last span the machine stands still for more than 2^31 ns, until just after a point. */
static void test_standstill(void)
{
	struct world *w = world_new(9);
	int64_t period_ns = tick_period_ns(250), from_ns, first_ns, until_ns;
	struct tick_grid grid;

	world_spans(w, 25);
	world_ticks(w, period_ns, 2000, 0, 0, 1);
	world_sort(w);
	from_ns = w->spans[24].from_ns + 10 * NSEC_PER_MSEC;
	while (w->events[w->view.event_count - 1].from_ns >= from_ns)
		w->view.event_count--;
	first_ns = w->start_ns + w->phase_ns;
	until_ns = from_ns + 3 * NSEC_PER_SEC;
	until_ns += 10 * NSEC_PER_USEC - (until_ns - first_ns) % period_ns;
	w->events[w->view.event_count++] =
		(struct tick_event){ .from_ns = from_ns, .away_ns = until_ns - from_ns };
	w->spans[24].to_ns = until_ns;
	tick_lay(&grid, period_ns, &w->view, w->bins);
	tap_check(tick_is_grid(&grid) && grid.points <= 250 &&
			  grid.points == brute_points(w, &grid),
		  "points in a standstill of 3 s do not count: %d of %d", grid.hits, grid.points);
	free(w);
}

/* A timer that is off by 57 ppm, as the PC's old one is at 250 Hz. */
static void test_drift(int ppm)
{
	struct world *w = world_new(8);
	int64_t period_ns = tick_period_ns(250);
	struct tick_grid exact, near, grids[3];
	int count;

	world_spans(w, 50);
	world_ticks(w, period_ns + period_ns * ppm / 1000000, 2000, 0, 0, 1);
	world_noise(w, 500, 0);
	world_sort(w);
	tick_lay(&exact, period_ns, &w->view, w->bins);
	tick_lay_near(&near, period_ns, &w->view, w->bins);
	count = tick_find(grids, 3, &w->view, 250, w->bins, no_rest, NULL);
	tap_check(!tick_is_grid(&exact) && tick_is_grid(&near) && near.hits > 480 &&
			  near.points - near.hits < 15 && count == 1 && grids[0].hz == 250,
		  "a tick that is off by %d ppm is found: %d of %d points, %d on the exact grid",
		  ppm, near.hits, near.points, exact.hits);
	free(w);
}

/* A hypervisor's tick: as frequent, shorter, and with enough other events near it to have more. */
static void test_longest(void)
{
	int weaker = 0, right = 0, hits = 0;

	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct world *w = world_new(seed * 101);
		int64_t period_ns = tick_period_ns(250), theirs_ns, ours_ns;
		struct tick_grid grid;

		world_spans(w, 25);
		world_ticks(w, period_ns, 2000, 0, 5, 1);
		ours_ns = w->start_ns + w->phase_ns;
		theirs_ns = ours_ns + 300000 + draw(w, period_ns - 600000);
		for (int i = 0; i < 260; i++)
			for (int k = 0; k < 2; k++)
				world_add(w, theirs_ns + i * period_ns + draw(w, 4000), 0,
					  900 + draw(w, 300), 0);
		world_noise(w, 500, 0);
		world_sort(w);
		tick_lay(&grid, period_ns, &w->view, w->bins);
		weaker += distance_ns(grid.phase_ns, theirs_ns, period_ns) < 10000;
		right += tick_lay_longest(&grid, period_ns, &w->view, w->bins) &&
			 distance_ns(grid.phase_ns, ours_ns, period_ns) < 5000;
		hits += grid.hits;
		free(w);
	}
	tap_check(weaker == 5 && right == 5 && hits > 5 * 220,
		  "the kernel's tick is found next to a hypervisor's (%d %d %d)", weaker, right,
		  hits);
}

/* A tick at the very end of a span is at a point that does not count: no more hits than points. */
static void test_edges(void)
{
	const int64_t period_ns = 4 * NSEC_PER_MSEC;
	struct world *w = world_new(5);
	struct tick_grid grid;
	int hits = 0;

	w->start_ns = 0;
	world_spans(w, 25);
	for (int i = 0; i < w->view.span_count; i++)
		w->spans[i].to_ns = w->spans[i].from_ns + 36 * NSEC_PER_MSEC + 10000;
	for (int64_t at_ns = 0; at_ns < w->spans[24].to_ns; at_ns += period_ns)
		world_add(w, at_ns, 0, 5000, 1);
	tick_lay(&grid, period_ns, &w->view, w->bins);
	for (int i = 0; i < w->view.event_count; i++)
		hits += w->events[i].point >= 0;
	tap_check(hits > grid.points, "%d ticks, %d at points that count", hits, grid.points);
	tap_check(grid.hits == grid.points && grid.points == brute_points(w, &grid),
		  "%d hits at %d points", grid.hits, grid.points);
	free(w);
}

static void test_empty(void)
{
	struct world *w = world_new(7);
	struct tick_grid grid;

	tick_lay(&grid, tick_period_ns(250), &w->view, w->bins);
	tap_check(!grid.points && !tick_is_grid(&grid) &&
			  !tick_find(&grid, 1, &w->view, 250, w->bins, no_rest, NULL),
		  "nothing is found in nothing");
	world_spans(w, 25);
	tick_lay(&grid, tick_period_ns(250), &w->view, w->bins);
	tap_check(grid.points > 200 && !grid.hits && !tick_is_grid(&grid),
		  "without events there are points, and no hits");
	free(w);
}

/* A kernel that does not say how often it ticks. */
static void test_unreported(void)
{
	static struct tick_period_state state;
	struct step step = { .state = &state };

	if (option_set_init(&step.options, tick_period_options))
		return (void)tap_check(false, "options");
	tick_period_finish(&step);
	option_set_free(&step.options);
	tap_check(!strcmp(judged, "skipped") && !strstr(said, "0 Hz"), "%s: %s, %s", judged, said,
		  advised);
}

/* The verdict on @w, in which a tick of 100 Hz is looked for. */
static void check_verdict(struct world *w, const char *result, const char *what)
{
	static struct tick_period_state state;
	struct step step = { .state = &state };
	struct message msg;

	if (option_set_init(&step.options, tick_period_options) ||
	    option_set_parse(&step.options, "expect", "100", &msg))
		return (void)tap_check(false, "options");
	world_sort(w);
	memset(&state, 0, sizeof(state));
	state.view = w->view;
	state.expected = 100;
	state.grid_count = tick_find(state.grids, TICK_PERIOD_GRIDS, &state.view, 100, state.bins,
				     no_rest, NULL);
	tick_period_finish(&step);
	option_set_free(&step.options);
	tap_check(!strcmp(judged, result), "%s: %s, %s", what, judged, said);
	free(w);
}

/* A step of 0.3 s that a hypervisor disturbed. */
static void test_disturbed(void)
{
	struct world *w = world_new(11);
	int kept = 0;

	world_spans(w, 7);
	world_ticks(w, tick_period_ns(100), 2000, 0, 0, 1);
	for (int i = 0; i < w->view.event_count; i++)
		if (i % 3)
			w->events[kept++] = w->events[i];
	w->view.event_count = kept;
	check_verdict(w, "inconclusive", "every third tick is late");

	w = world_new(12);
	world_spans(w, 7);
	world_ticks(w, tick_period_ns(100), 2000, 0, 0, 1);
	for (int i = 0; i < 2400; i++)
		world_add(w, w->start_ns + draw(w, 290 * NSEC_PER_MSEC), 0, 20000 + draw(w, 60000),
			  0);
	check_verdict(w, "inconclusive", "many gaps as long as ticks");

	w = world_new(16);
	world_spans(w, 25);
	world_ticks(w, tick_period_ns(250), 2000, 0, 0, 1);
	world_ticks(w, tick_period_ns(100), 2000, 0, 33, 1);
	world_noise(w, 1000, 0);
	check_verdict(w, "inconclusive", "late ticks, half of which are a grid of 50 Hz");
	tap_check(!strstr(said, ", 0 % by chance"), "the gaps by chance are given");
}

/* No tick of 100 Hz, but another one, or none (0 Hz), among gaps at random. */
static void test_another_tick(void)
{
	static const struct {
		int seed, spans, hz, gaps;
		const char *result, *what;
	} cases[] = {
		{ 13, 7, 0, 300, "fail", "no tick" },
		{ 14, 7, 250, 4000, "fail", "a tick of 250 Hz" },
		{ 15, 7, 50, 300, "fail", "a tick of 50 Hz" },
		{ 17, 25, 50, 4000, "fail", "a tick of 50 Hz that is found" },
		{ 18, 25, 250, 20000, "inconclusive", "a tick of 250 Hz, and many gaps" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world *w = world_new(cases[i].seed);

		world_spans(w, cases[i].spans);
		if (cases[i].hz)
			world_ticks(w, tick_period_ns(cases[i].hz), 2000, 0, 0, 1);
		world_noise(w, cases[i].gaps, 0);
		check_verdict(w, cases[i].result, cases[i].what);
	}
}

int main(void)
{
	static const int found[] = { 24, 100, 128, 250, 256, 300, 512, 1000, 1024, 1200 };
	int hz = tick_configured_hz();

	tap_check(hz >= TICK_HZ_MIN && hz <= TICK_HZ_MAX, "the kernel ticks at %d Hz", hz);
	tap_check(tick_period_ns(300) == 3333333 && tick_period_ns(1000) == 1000000,
		  "periods are the kernel's");
	test_unreported();
	test_disturbed();
	test_another_tick();
	test_median();
	test_edges();
	test_empty();
	test_stolen();
	test_back();
	test_standstill();
	test_two_grids();
	test_longest();
	test_drift(57);
	test_drift(-150);
	for (int i = 0; i < (int)(sizeof(found) / sizeof(found[0])); i++)
		test_find(found[i], 300, 3);
	test_find(250, 4000, 5);
	test_find(1000, 4000, 5);
	test_find(250, 15000, 5);
	test_nothing(100);
	test_nothing(1000);
	test_nothing(10000);
	for (int i = 0; i < 2; i++) {
		test_lay(100, i * 10000, 300, 0);
		test_lay(250, i * 10000, 1000, 5);
		test_lay(250, i * 50000, 300, 30);
		test_lay(1000, i * 10000, 1000, 5);
	}
	return tap_end();
}
