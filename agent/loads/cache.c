// SPDX-License-Identifier: Apache-2.0
/*
 * The load `cache`: strides through more memory than the caches hold, on each CPU of the load, so
 * that whoever runs in between finds none of its own in them (docs/loads.md).
 */
#include <errno.h>
#include <stdlib.h>

#include "loads/start.h"

#define LINE_SIZE 64
#define STRIDE 65 /* lines: into another page each time, so that nothing is fetched ahead */
#define BATCH 1024

static const struct option_info cache_options[] = {
	{ "size", OPTION_SIZE, "32MiB", 64 << 10, 1LL << 32, NULL,
	  "of each process; above the last cache's" },
	START_PER_CPU("1"),
	{ 0 },
};

struct line {
	volatile uint32_t value;
} __attribute__((aligned(LINE_SIZE)));

static int stride(volatile uint32_t *done, const void *options)
{
	size_t count = (size_t)option_number(options, "size") / LINE_SIZE;
	size_t first = 0;
	size_t at = 0;
	struct line *lines;

	if (posix_memalign((void **)&lines, LINE_SIZE, count * LINE_SIZE))
		return ENOMEM;
	for (;;) {
		for (int i = 0; i < BATCH; i++) {
			lines[at].value++;
			at += STRIDE;
			if (at >= count) {
				first = (first + 1) % STRIDE;
				at = first;
			}
		}
		*done += BATCH;
	}
}

static int cache_run(struct load_worker *worker, const struct option_set *options,
		     struct message *msg)
{
	return start_on_each(worker, option_number(options, "per-cpu"), stride, options, msg);
}

const struct load load_cache = {
	.name = "cache",
	.summary = "strides through more memory than the caches hold",
	.unit = "lines",
	.options = cache_options,
	.run = cache_run,
};
