// SPDX-License-Identifier: Apache-2.0
/*
 * The load `irq`: interrupts that a program may raise without privileges, from one CPU to the
 * others. membarrier(2) makes a memory barrier on each CPU that runs a registered process. There is
 * one process on each CPU: one sends, the others run (docs/reference/loads.md).
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "loads/start.h"

#define BATCH 1000 /* barriers, then another process may send */

static const struct option_info irq_options[] = { { 0 } };

/* Shared state of the processes, each part in its own cache line. */
struct shared {
	uint32_t sending __attribute__((aligned(64))); /* is one of them? */
	uint32_t running __attribute__((aligned(64))); /* changed by those that do not send */
};

/* One barrier for each sign that another process runs: without one, no CPU would be interrupted. */
static void send(struct shared *shared, volatile unsigned long *barriers)
{
	uint32_t seen = atomic_load_relaxed(&shared->running);

	for (int i = 0; i < BATCH; i++) {
		while (atomic_load_relaxed(&shared->running) == seen)
			;
		seen = atomic_load_relaxed(&shared->running);
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0);
		++*barriers;
	}
	atomic_store_release(&shared->sending, 0);
	while (!atomic_load_relaxed(&shared->sending))
		; /* another one's turn */
}

static int interrupt(volatile unsigned long *barriers, const void *arg)
{
	struct shared *shared = *(struct shared *const *)arg;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0))
		return errno;
	for (;;) {
		if (!atomic_load_relaxed(&shared->sending) && !atomic_exchange(&shared->sending, 1))
			send(shared, barriers);
		else
			atomic_add_release(&shared->running, 1);
	}
}

static int irq_run(struct load_worker *worker, const struct option_set *options,
		   struct message *msg)
{
	struct shared *shared;

	(void)options;
	if (cpulist_count(load_cpus(worker)) < 2)
		return message_set(msg, -EINVAL, "give it two CPUs or more with --load-cpu",
				   "interrupts between CPUs need at least two CPUs");
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0)) {
		int err = -errno;

		return message_set(msg, err, "use Linux 4.16 or newer, with CONFIG_MEMBARRIER",
				   "the kernel does not support membarrier(): %s", strerror(-err));
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return message_set(msg, -ENOMEM, "free some memory", "out of memory");
	return start_on_each(worker, 1, interrupt, &shared, msg);
}

const struct load load_irq = {
	.name = "irq",
	.summary = "interrupts that CPUs send to each other",
	.unit = "barriers",
	.options = irq_options,
	.run = irq_run,
};
