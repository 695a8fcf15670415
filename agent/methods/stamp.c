// SPDX-License-Identifier: Apache-2.0
/* The cost of a time stamp, and batches of short operations. */
#include "methods/stamp.h"

#include "run/step.h"

#define STAMP_BATCHES 20
#define STAMP_BATCH 500

int64_t stamp_cost_ps(void)
{
	int64_t least_ps = INT64_MAX;

	for (int i = 0; i < STAMP_BATCHES; i++) {
		int64_t first_ns = clock_now_ns(CLOCK_MONOTONIC), last_ns = first_ns;
		int64_t mean_ps;

		for (int k = 0; k < STAMP_BATCH; k++)
			last_ns = clock_now_ns(CLOCK_MONOTONIC);
		mean_ps = (last_ns - first_ns) * 1000 / STAMP_BATCH;
		if (mean_ps < least_ps)
			least_ps = mean_ps;
	}
	return least_ps;
}

void batch_add(struct batch *batch, int count, int64_t took_ns, int64_t stamp_ps)
{
	int64_t took_ps = took_ns * 1000 - stamp_ps;

	if (!batch->batches++ || took_ps / count < batch->least_ps)
		batch->least_ps = took_ps / count;
	batch->operations += count;
	batch->sum_ps += took_ps;
}

void batch_table(struct step *step, const struct batch *batches, int count)
{
	static const struct step_column columns[] = {
		{ "operation", "" },
		{ "mean", "ps" },
		{ "least batch", "ps" }, /* language-ok: name in streams */
		{ "operations", "count" },
	};
	struct cbor *c;
	int rows = 0;

	for (int i = 0; i < count; i++)
		rows += batches[i].batches > 0;
	c = step_table_begin(step, BATCH_TABLE, columns, 4, rows);
	for (int i = 0; i < count; i++) {
		const struct batch *batch = &batches[i];

		if (!batch->batches)
			continue;
		cbor_array(c, 4);
		cbor_text(c, batch->operation);
		cbor_int(c, batch->sum_ps / batch->operations);
		cbor_int(c, batch->least_ps);
		cbor_int(c, batch->operations);
	}
	step_table_end(step);
}
