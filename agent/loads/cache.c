// SPDX-License-Identifier: Apache-2.0
/*
 * The load `cache`: accesses to more memory than the caches hold, on each CPU of the load, so
 * that a task that runs in between finds none of its data in them. It can also read like the
 * program calibrator, where each word contains the next address (docs/reference/loads.md).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "base/value.h"
#include "loads/start.h"

#define LINE_SIZE 64
#define STRIDE 65 /* lines: into another page each time, so that nothing is fetched ahead */
#define BATCH 1024
#define SIZE_MIN (32 << 20)
#define RANGE_MIN (32 << 10) /* bytes, and the strides too; of the pattern chase */
#define STRIDE_MIN 64
#define STRIDE_MAX 1024
#define READS (1 << 20) /* in each range at each stride */
#define CACHES_MAX 8	/* levels, data and instructions apart */

static const struct option_info cache_options[] = {
	{ "size", OPTION_SIZE, "0", 0, 1LL << 40, NULL,
	  "size of the memory; 0: four times the largest cache, at least 32MiB, at most half of the free memory" },
	{ "pattern", OPTION_ENUM, "stride", 0, 0, "stride chase",
	  "stride: writes to all lines, each 65 lines after the one before; chase: dependent reads over ranges that grow to the size, at strides of 64 to 1024 bytes" },
	START_PER_CPU("1"),
	{ 0 },
};

struct line {
	volatile uint32_t value;
} __attribute__((aligned(LINE_SIZE)));

/* The memory that all processes share, so that it is bounded on many CPUs too. */
struct cache {
	struct line *lines;
	size_t count;
};

static int __attribute__((noreturn)) stride(volatile unsigned long *done, const void *arg)
{
	const struct cache *cache = arg;
	size_t first = 0;
	size_t at = 0;

	for (;;) {
		for (int i = 0; i < BATCH; i++) {
			cache->lines[at].value++;
			at += STRIDE;
			if (at >= cache->count) {
				first = (first + 1) % STRIDE;
				at = first;
			}
		}
		*done += BATCH;
	}
}

/* Each word points to the one @stride bytes before it, the first to the last. */
static void link_words(char *memory, size_t range, size_t stride)
{
	for (size_t at = 0; at < range; at += stride)
		*(char **)(memory + at) = memory + (at ? at : range) - stride;
}

/* Reads of which each needs the one before, backwards, at each stride through ranges that double
 * up to the whole memory. */
static int __attribute__((noreturn)) chase(volatile unsigned long *done, const void *arg)
{
	const struct cache *cache = arg;
	char *memory = (char *)cache->lines;

	for (;;)
		for (size_t range = RANGE_MIN; range <= cache->count * LINE_SIZE; range *= 2)
			for (size_t stride = STRIDE_MIN; stride <= STRIDE_MAX; stride *= 2) {
				char *volatile *word = (char *volatile *)memory;

				link_words(memory, range, stride);
				for (int i = 0; i < READS / BATCH; i++) {
					for (int j = 0; j < BATCH; j++)
						word = (char *volatile *)*word;
					*done += BATCH;
				}
			}
}

/* Four times the largest cache of @cpu, as far as the kernel says ("32768K"), but no more than half
 * of the memory that is free: a load must not drive the system out of memory. */
static size_t choose_size(int cpu)
{
	size_t size = SIZE_MIN;
	struct sysinfo info;

	for (int i = 0; i < CACHES_MAX; i++) {
		char path[64];
		char value[VALUE_MAX];

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cache/index%d/size",
			 cpu, i);
		if (!value_get(path, value, NULL) && strtoul(value, NULL, 10) * 4096 > size)
			size = strtoul(value, NULL, 10) * 4096;
	}
	if (!sysinfo(&info)) {
		uint64_t half = ((uint64_t)info.freeram + info.bufferram) * info.mem_unit / 2;

		if (size > half)
			size = (size_t)half;
	}
	return size;
}

static int cache_run(struct load_worker *worker, const struct option_set *options,
		     struct message *msg)
{
	size_t size = option_size(options, "size");
	bool chases = option_number(options, "pattern");
	struct cache cache;

	if (!size)
		size = choose_size(cpulist_next(load_cpus(worker), 0));
	cache.count = size / LINE_SIZE;
	/* words that point are each process's own: copied when it links them */
	cache.lines = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   (chases ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS, -1, 0);
	if (cache.lines == MAP_FAILED || cache.count <= STRIDE || (chases && size < RANGE_MIN))
		return message_set(msg, -ENOMEM, "give another size",
				   "%zu bytes of memory are too few, or cannot be allocated", size);
	return start_on_each(worker, option_number(options, "per-cpu"), chases ? chase : stride,
			     &cache, msg);
}

const struct load load_cache = {
	.name = "cache",
	.summary = "accesses to more memory than the caches hold",
	.unit = "lines",
	.options = cache_options,
	.run = cache_run,
};
