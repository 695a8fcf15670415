// SPDX-License-Identifier: Apache-2.0
/* The clock tick: grids in time, and the disturbances of a busy loop that lie on one. */
#include "methods/tick.h"

#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpulist.h"
#include "base/value.h"

/* A tick begins this far from its point at most: the interrupt may have been held up. */
#define TICK_TOLERANCE_NS (25 * NSEC_PER_USEC)
/* Points with a hit in 1000 points of a grid, net of chance. Twice the frequency has half of them. */
#define TICK_SHARE 750
/* With more of them, a grid is not ruled out: ticks may be late, for example on a hypervisor. */
#define TICK_SHARE_UNCERTAIN 600
/* With more hits by chance, a grid cannot be distinguished from it. */
#define TICK_CHANCE_MAX 150
/* With more, a grid is not ruled out, even if another one was found among longer events. */
#define TICK_CHANCE_UNCERTAIN 500
/* From here on the search among the longest events goes down by halves. */
#define TICK_LONGEST_NS (1 << 17)

int tick_configured_hz(void)
{
	struct timespec resolution;
	int64_t ns;

	if (clock_getres(CLOCK_MONOTONIC_COARSE, &resolution))
		return 0;
	ns = clock_to_ns(&resolution);
	/* a kernel whose coarse clock is as fine as the other ones does not say */
	return ns < NSEC_PER_SEC / (2 * TICK_HZ_MAX) ? 0 : (int)((NSEC_PER_SEC + ns / 2) / ns);
}

int64_t tick_period_ns(int hz)
{
	return (NSEC_PER_SEC + hz / 2) / hz;
}

bool tick_stops(int cpu)
{
	char value[VALUE_MAX];
	struct cpulist list;

	return !value_get("/sys/devices/system/cpu/nohz_full", value, NULL) &&
	       !cpulist_parse(&list, value) && cpulist_has(&list, cpu);
}

/* The time of all spans. */
static int64_t tick_observed_ns(const struct tick_view *view)
{
	int64_t sum_ns = 0;

	for (int i = 0; i < view->span_count; i++)
		sum_ns += view->spans[i].to_ns - view->spans[i].from_ns;
	return sum_ns;
}

static bool tick_left_out(const struct tick_view *view, const struct tick_event *event)
{
	return event->taken || event->away_ns < view->least_ns;
}

/* Times relative to the first span are below 2^32 ns for seconds on end: 32-bit division is what
 * small cores are quick at. */
static inline uint32_t tick_modulo(int64_t ns, int64_t period_ns)
{
	if ((uint64_t)ns <= UINT32_MAX)
		return (uint32_t)ns % (uint32_t)period_ns;
	return (uint32_t)((uint64_t)ns % (uint64_t)period_ns);
}

static int tick_left(const struct tick_view *view)
{
	int left = 0;

	for (int i = 0; i < view->event_count; i++)
		left += !tick_left_out(view, &view->events[i]);
	return left;
}

static int64_t tick_origin_ns(const struct tick_view *view)
{
	return view->spans[0].from_ns;
}

/* The middle, in halves of a bin, of the bins around @best that have about as much: others than
 * ticks make the very best one a matter of chance. */
static int64_t tick_middle(const uint32_t *bins, int count, int best)
{
	uint32_t enough = bins[best] - bins[best] / 16;
	int first = 0, last = 0;

	while (first > 1 - count && bins[(best + first - 1 + count) % count] >= enough)
		first--;
	while (last < count - 1 && bins[(best + last + 1) % count] >= enough)
		last++;
	return 2 * (best + count) + first + last + 1;
}

/* Where in a period most events may have begun, the middle of that place, found in steps of
 * @wide_ns or more; @most: how many. */
static int64_t tick_phase_ns(const struct tick_view *view, const struct tick_grid *grid,
			     int64_t wide_ns, uint32_t *bins, uint32_t *most)
{
	int64_t period_ns = grid->period_ns, tolerance_ns = grid->tolerance_ns;
	int64_t origin_ns = tick_origin_ns(view) - period_ns;
	int count, best = 0;
	uint32_t in = 0;

	if (wide_ns <= period_ns / TICK_BINS)
		wide_ns = period_ns / TICK_BINS + 1;
	count = (int)((period_ns + wide_ns - 1) / wide_ns);
	memset(bins, 0, (size_t)count * sizeof(*bins));
	/* +1 where the place of an event begins, -1 where it has ended, around the circle */
	for (int i = 0; i < view->event_count; i++) {
		const struct tick_event *event = &view->events[i];
		int64_t range_ns = event->window_ns + 2 * tolerance_ns, last_ns;
		uint32_t first_ns;

		if (range_ns >= period_ns || tick_left_out(view, event))
			continue;
		first_ns = tick_modulo(event->from_ns - tolerance_ns - origin_ns, period_ns);
		last_ns = first_ns + range_ns;
		in += last_ns >= period_ns;
		last_ns -= last_ns >= period_ns ? period_ns : 0;
		bins[first_ns / (uint32_t)wide_ns]++;
		if ((int)((uint32_t)last_ns / (uint32_t)wide_ns) + 1 < count)
			bins[(uint32_t)last_ns / (uint32_t)wide_ns + 1]--;
	}
	*most = 0;
	for (int i = 0; i < count; i++) {
		bins[i] = in += bins[i];
		if (in > *most) {
			*most = in;
			best = i;
		}
	}
	return tick_origin_ns(view) + tick_middle(bins, count, best) * wide_ns / 2 % period_ns;
}

/* The point whose tick @event may be: its number, or -1. */
static int tick_point(const struct tick_grid *grid, const struct tick_event *event)
{
	int64_t range_ns = event->window_ns + 2 * grid->tolerance_ns;
	int64_t last_ns = event->from_ns - grid->tolerance_ns + range_ns - grid->phase_ns;

	if (last_ns < 0 || tick_modulo(last_ns, grid->period_ns) > range_ns)
		return -1;
	return (int)(last_ns / grid->period_ns);
}

/* How many points there are from the grid's beginning until @time_ns. */
static int64_t tick_points_until(const struct tick_grid *grid, int64_t time_ns)
{
	return time_ns < grid->phase_ns ? 0 : (time_ns - grid->phase_ns) / grid->period_ns + 1;
}

static int tick_points_between(const struct tick_grid *grid, int64_t from_ns, int64_t to_ns)
{
	int64_t points;

	if (to_ns <= from_ns)
		return 0;
	points = tick_points_until(grid, to_ns) - tick_points_until(grid, from_ns);
	return (int)points;
}

/* Points near the ends of a span do not count, and none that came while the CPU was away: a tick
 * that is due then cannot be distinguished from what took the CPU. */
static int tick_points(const struct tick_grid *grid, const struct tick_view *view)
{
	int points = 0, span = 0;

	for (int i = 0; i < view->span_count; i++)
		points += tick_points_between(grid, view->spans[i].from_ns + grid->tolerance_ns,
					      view->spans[i].to_ns - grid->tolerance_ns);
	for (int i = 0; i < view->event_count; i++) {
		const struct tick_event *event = &view->events[i];
		int64_t until_ns = event->from_ns + event->away_ns, end_ns;

		while (span < view->span_count - 1 && event->from_ns >= view->spans[span].to_ns)
			span++;
		/* those after it are not among the span's */
		end_ns = view->spans[span].to_ns - grid->tolerance_ns;
		points -= tick_points_between(
			grid, event->from_ns + event->window_ns + grid->tolerance_ns,
			until_ns < end_ns ? until_ns : end_ns);
	}
	return points;
}

static void tick_match(const struct tick_grid *grid, const struct tick_view *view)
{
	int best = -1;

	for (int i = 0; i < view->event_count; i++) {
		struct tick_event *event = &view->events[i];
		int point = tick_left_out(view, event) ? -1 : tick_point(grid, event);

		event->point = -1;
		if (point < 0)
			continue;
		if (best >= 0 && view->events[best].point == point) {
			if (view->events[best].away_ns >= event->away_ns)
				continue;
			view->events[best].point = -1;
		}
		event->point = point;
		best = i;
	}
}

/* Whether the CPU had been away for more than the tolerance at a point near event @last. */
static bool tick_hidden(const struct tick_grid *grid, const struct tick_view *view, int last,
			int64_t at_ns, int64_t longest_ns)
{
	for (int i = last; i >= 0; i--) {
		const struct tick_event *event = &view->events[i];

		if (event->from_ns + longest_ns < at_ns)
			return false;
		if (at_ns > event->from_ns + event->window_ns + grid->tolerance_ns &&
		    at_ns <= event->from_ns + event->away_ns)
			return true;
	}
	return false;
}

/* Number of events at points that tick_points() counts. If the CPU was away at a point, its event is
 * not the tick. */
static int tick_hits(const struct tick_grid *grid, const struct tick_view *view)
{
	int64_t longest_ns = 0, end_ns = INT64_MIN;
	int hits = 0, span = 0;

	for (int i = 0; i < view->event_count; i++) {
		struct tick_event *event = &view->events[i];
		int64_t at_ns = grid->phase_ns + event->point * grid->period_ns;

		if (event->away_ns > longest_ns)
			longest_ns = event->away_ns;
		if (event->from_ns + event->away_ns > end_ns)
			end_ns = event->from_ns + event->away_ns;
		if (event->point < 0)
			continue;
		if (end_ns >= at_ns && tick_hidden(grid, view, i, at_ns, longest_ns)) {
			event->point = -1;
			continue;
		}
		while (span < view->span_count &&
		       at_ns > view->spans[span].to_ns - grid->tolerance_ns)
			span++;
		hits += span < view->span_count &&
			at_ns > view->spans[span].from_ns + grid->tolerance_ns;
	}
	return hits;
}

static int tick_chance(const struct tick_grid *grid, const struct tick_view *view)
{
	int64_t observed_ns = tick_observed_ns(view), range_ns = 0;

	for (int i = 0; i < view->event_count; i++)
		if (!tick_left_out(view, &view->events[i]))
			range_ns += view->events[i].window_ns + 2 * grid->tolerance_ns;
	if (!observed_ns || range_ns >= observed_ns)
		return 1000;
	return (int)(range_ns * 1000 / observed_ns);
}

static void tick_count(struct tick_grid *grid, const struct tick_view *view)
{
	grid->points = tick_points(grid, view);
	tick_match(grid, view);
	grid->hits = tick_hits(grid, view);
	grid->chance = tick_chance(grid, view);
}

static void tick_begin(struct tick_grid *grid, int64_t period_ns)
{
	memset(grid, 0, sizeof(*grid));
	grid->period_ns = period_ns;
	grid->tolerance_ns = TICK_TOLERANCE_NS;
}

void tick_lay(struct tick_grid *grid, int64_t period_ns, const struct tick_view *view,
	      uint32_t *bins)
{
	uint32_t most;

	tick_begin(grid, period_ns);
	if (!view->span_count)
		return;
	grid->phase_ns = tick_phase_ns(view, grid, grid->tolerance_ns / 8, bins, &most);
	tick_count(grid, view);
}

/* @share: of 1000 points, net of chance. */
static bool tick_has_share(const struct tick_grid *grid, int64_t share)
{
	return (int64_t)grid->hits * 1000 >=
	       (int64_t)grid->points * (grid->chance + share * (1000 - grid->chance) / 1000);
}

bool tick_is_grid(const struct tick_grid *grid)
{
	return grid->points >= TICK_POINTS_MIN && grid->chance <= TICK_CHANCE_MAX &&
	       tick_has_share(grid, TICK_SHARE);
}

bool tick_is_uncertain(const struct tick_grid *grid, bool other)
{
	return grid->points < TICK_POINTS_MIN ||
	       grid->chance > (other ? TICK_CHANCE_UNCERTAIN : TICK_CHANCE_MAX) ||
	       tick_has_share(grid, TICK_SHARE_UNCERTAIN);
}

void tick_lay_near(struct tick_grid *grid, int64_t period_ns, const struct tick_view *view,
		   uint32_t *bins)
{
	int64_t lasted_ns = view->span_count ?
				    view->spans[view->span_count - 1].to_ns - tick_origin_ns(view) :
				    0;
	/* in steps that make a difference of the tolerance from the first to the last span */
	int64_t step_ns = lasted_ns ? period_ns * TICK_TOLERANCE_NS / lasted_ns : 0;
	int64_t best_ns = period_ns;
	int most;

	tick_lay(grid, period_ns, view, bins);
	if (tick_is_grid(grid) || tick_left(view) < TICK_POINTS_MIN / 2)
		return;
	most = grid->hits;
	step_ns += !step_ns;
	for (int64_t off_ns = -period_ns / 5000; off_ns <= period_ns / 5000; off_ns += step_ns) {
		tick_lay(grid, period_ns + off_ns, view, bins);
		if (grid->hits > most) {
			most = grid->hits;
			best_ns = period_ns + off_ns;
		}
	}
	tick_lay(grid, best_ns, view, bins);
}

bool tick_lay_longest(struct tick_grid *grid, int64_t period_ns, struct tick_view *view,
		      uint32_t *bins)
{
	bool found = false;

	for (int near = 0; near < 2 && !found; near++)
		for (int32_t least_ns = TICK_LONGEST_NS; !found && least_ns; least_ns /= 2) {
			view->least_ns = least_ns;
			(near ? tick_lay_near : tick_lay)(grid, period_ns, view, bins);
			found = tick_is_grid(grid);
		}
	view->least_ns = 0;
	if (found)
		tick_count(grid, view);
	return found;
}

/* The shortest time in which points could be seen. */
static int64_t tick_clear_ns(const struct tick_view *view)
{
	int64_t clear_ns = tick_observed_ns(view);

	for (int i = 0; i < view->event_count; i++)
		clear_ns -= view->events[i].away_ns;
	return clear_ns;
}

static void tick_take(struct tick_view *view, const struct tick_grid *grid, int number)
{
	int64_t longest_ns = 0;

	for (int i = 0; i < view->event_count; i++) {
		struct tick_event *event = &view->events[i];
		int64_t point = tick_point(grid, event);

		if (event->away_ns > longest_ns)
			longest_ns = event->away_ns;
		if (!event->taken && point >= 0 &&
		    !tick_hidden(grid, view, i, grid->phase_ns + point * grid->period_ns,
				 longest_ns))
			event->taken = number;
	}
}

/* From the finest grid on: what keeps to one also keeps to coarser ones. */
static int tick_find_among(struct tick_grid *grids, int from, int max, struct tick_view *view,
			   uint32_t *bins, void (*rest)(void *arg), void *arg)
{
	int64_t clear_ns = tick_clear_ns(view);
	int count = from;

	for (int hz = TICK_HZ_MAX; hz >= TICK_HZ_MIN && count < max; hz--) {
		struct tick_grid *grid = &grids[count];
		int64_t period_ns = tick_period_ns(hz);
		uint32_t most;

		rest(arg);
		tick_begin(grid, period_ns);
		if (clear_ns < period_ns * TICK_POINTS_MIN || tick_left(view) < TICK_POINTS_MIN / 2)
			break;
		/* too few for a grid, whatever else there is to count */
		tick_phase_ns(view, grid, grid->tolerance_ns / 2, bins, &most);
		if ((int64_t)most * 1000 * period_ns < (TICK_SHARE - 50) * clear_ns)
			continue;
		tick_lay(grid, period_ns, view, bins);
		if (!tick_is_grid(grid))
			continue;
		grid->hz = hz;
		tick_take(view, grid, ++count);
		hz++; /* there may be another one of this period */
	}
	return count;
}

int tick_find(struct tick_grid *grids, int max, struct tick_view *view, int wanted_hz,
	      uint32_t *bins, void (*rest)(void *arg), void *arg)
{
	bool found = false;
	int count = 0;

	for (view->least_ns = 0; !found && count < max && tick_left(view) >= TICK_POINTS_MIN / 2;
	     view->least_ns = view->least_ns ? 4 * view->least_ns : 2000) {
		int before = count;

		tick_begin(&grids[count], tick_period_ns(TICK_HZ_MAX));
		if (tick_chance(&grids[count], view) <= TICK_CHANCE_MAX)
			count = tick_find_among(grids, count, max, view, bins, rest, arg);
		for (int i = before; i < count; i++)
			found |= grids[i].hz == wanted_hz;
	}
	view->least_ns = 0;
	if (found || !wanted_hz || count == max || !view->span_count)
		return count;
	tick_lay_near(&grids[count], tick_period_ns(wanted_hz), view, bins);
	if (!tick_is_grid(&grids[count]))
		return count;
	grids[count].hz = wanted_hz;
	tick_take(view, &grids[count], count + 1);
	return count + 1;
}

/* Shell's sort: no memory, and little code. */
int32_t tick_median(int32_t *values, int count, int32_t *spread)
{
	for (int gap = count / 2; gap > 0; gap /= 2)
		for (int i = gap; i < count; i++) {
			int32_t value = values[i];
			int at = i;

			for (; at >= gap && values[at - gap] > value; at -= gap)
				values[at] = values[at - gap];
			values[at] = value;
		}
	*spread = values[count - 1 - count / 4] - values[count / 4];
	return values[count / 2];
}
