// SPDX-License-Identifier: Apache-2.0
/* Samples by the number of their grid point; step 3 of the path of a sample of the kernel's contexts. */
#include "methods/grid.h"

#include "dither.h"
#include "run/step.h"

/* Number of offsets that are put before the rings are drained. */
#define GRID_DRAIN_EVERY 512

int64_t grid_offset_ns(int64_t index, int64_t interval_ns)
{
	return (int64_t)dither_ns((uint64_t)index, (uint64_t)interval_ns);
}

static void grid_begin(struct step *step, struct grid *grid, int64_t index, int64_t lost)
{
	int64_t first_ns = grid->start_ns + index * grid->interval_ns;

	step->series[grid->series].info.first_due_ns = first_ns;
	if (grid->dither >= 0)
		step->series[grid->dither].info.first_due_ns = first_ns;
	grid->next = index;
	grid->lost = lost;
	grid->begun = true;
}

/* The offsets of all points before @next. */
static void grid_offsets(struct step *step, const struct grid *grid, int64_t next)
{
	for (int64_t i = grid->next; grid->dither >= 0 && i < next; i++) {
		series_put(&step->series[grid->dither], grid_offset_ns(i, grid->interval_ns));
		if (!grid->own && (i - grid->next) % GRID_DRAIN_EVERY == GRID_DRAIN_EVERY - 1)
			step_drain(step);
	}
}

/* The points before @next have no sample. */
static void grid_skip(struct step *step, const struct grid *grid, int64_t next, int64_t lost)
{
	struct series *series = &step->series[grid->series];
	int64_t gap = next - grid->next, gone = lost - grid->lost;

	if (gone > gap)
		gone = gap;
	if (gone > 0)
		series_lost(series, gone);
	if (gap > gone)
		series_missed(series, gap - gone);
}

/* The sample that exceeded the stop threshold is the last of its series. */
static bool grid_is_over(const struct step *step, const struct grid *grid)
{
	return atomic_load_acquire(&step->threshold_hit) && step->threshold_series == grid->series;
}

void grid_put(struct step *step, struct grid *grid, int64_t index, int64_t lost, int64_t value)
{
	struct series *series = &step->series[grid->series];

	if (grid_is_over(step, grid))
		return;
	if (!grid->begun)
		grid_begin(step, grid, index, lost);
	grid_skip(step, grid, index, lost);
	grid_offsets(step, grid, index + 1);
	series_put(series, value);
	grid->next = index + 1;
	grid->lost = lost;
	grid->count++;
	if (__builtin_expect(value > grid->limit_ns, 0))
		step_threshold(step, series, value);
}

void grid_end(struct step *step, struct grid *grid, int64_t next, int64_t lost)
{
	if (grid->series < 0 || grid_is_over(step, grid))
		return;
	if (!grid->begun) {
		if (lost)
			series_lost(&step->series[grid->series], lost);
		return;
	}
	if (next <= grid->next)
		return;
	grid_skip(step, grid, next, lost);
	grid_offsets(step, grid, next);
	grid->next = next;
	grid->lost = lost;
}
