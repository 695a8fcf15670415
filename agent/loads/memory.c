// SPDX-License-Identifier: Apache-2.0
/*
 * The load `memory`: allocates memory, touches it page by page, and frees it, on each CPU of the
 * load. This causes page faults, cleared pages, and contention for the page allocator's locks
 * (docs/reference/loads.md).
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loads/start.h"

static const struct option_info memory_options[] = {
	{ "size", OPTION_SIZE, "16MiB", 64 << 10, 1LL << 40, NULL, "maximum size per process" },
	START_PER_CPU("1"),
	{ 0 },
};

static int touch(volatile unsigned long *pages, const void *options)
{
	size_t size = option_size(options, "size");
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (;;) {
		volatile char *block = mmap(NULL, size, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (block == MAP_FAILED)
			return errno;
		for (size_t at = 0; at < size; at += page) {
			block[at] = 1;
			++*pages;
		}
		munmap((void *)block, size);
	}
}

static int memory_run(struct load_worker *worker, const struct option_set *options,
		      struct message *msg)
{
	return start_on_each(worker, option_number(options, "per-cpu"), touch, options, msg);
}

const struct load load_memory = {
	.name = "memory",
	.summary = "memory allocated, touched and freed",
	.unit = "pages",
	.options = memory_options,
	.run = memory_run,
};
