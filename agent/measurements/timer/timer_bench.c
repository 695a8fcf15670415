// SPDX-License-Identifier: Apache-2.0
/*
 * Timer latency in interrupt and kernel context on the Cobalt core without rtgauge's module: by
 * Xenomai's own driver timerbench, which keeps a histogram in the kernel and returns it at the end.
 * So these series have no order, no due times and no dither. Its calls are those of
 * include/rtdm/uapi/testing.h of Xenomai.
 */
#include "measurements/timer/timer_method.h"

#if defined(__x86_64__) || defined(__aarch64__)
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "core/cobalt.h"
#include "methods/events.h"

#define BENCH_DEVICE "/dev/rtdm/timerbench"
#define BENCH_TYPE 6
#define BENCH_TASK 0
#define BENCH_HANDLER 1
/* The driver's first due time comes this long after its start. */
#define BENCH_DELAY_NS NSEC_PER_MSEC
/* What the driver sums up at once, and the number of them that it does not count at first. */
#define BENCH_BATCH_NS NSEC_PER_SEC
#define BENCH_WARM_UP 1
/* The histogram: its last cell also has what is beyond it. */
#define BENCH_CELL_NS 10
#define BENCH_CELLS 20000
/* Samples that are put into a ring before it is drained. */
#define BENCH_PUT 256
/* The driver's timers are on the first CPU. */
#define BENCH_CPU 0

struct bench_order {
	int32_t mode;
	int32_t priority;
	uint64_t interval_ns;
	int32_t warm_up;
	int32_t cells;
	int32_t cell_ns;
	int32_t freeze; /* the kernel's tracer at a new maximum */
};

_Static_assert(sizeof(struct bench_order) == 32, "as the driver has it");

/* Covers whole batches. The histograms also have what came after the last one. */
struct bench_result {
	int32_t mean, min, max;
	int32_t overruns;
	int32_t batches;
};

struct bench_end {
	struct bench_result result;
	int32_t *all, *minima, *maxima;
};

_Static_assert(sizeof(struct bench_end) == 48, "as the driver has it");

#define BENCH_START _IOW(BENCH_TYPE, 0x10, struct bench_order)
#define BENCH_STOP _IOWR(BENCH_TYPE, 0x11, struct bench_end)

struct bench_one {
	int fd;
	int mode;
	int worker;
	int series;
	bool running;
	int64_t end_ns; /* CLOCK_MONOTONIC */
};

struct bench {
	struct bench_one ones[2];
	int count;
	int32_t *cells; /* room for three histograms */
};

static int bench_look(const struct timer_thread *common, bool dithered, struct message *why)
{
	if (access(BENCH_DEVICE, F_OK))
		return message_set(why, -ENODEV,
				   "build the kernel with CONFIG_XENO_DRIVERS_TIMERBENCH",
				   "the kernel has no driver timerbench (no " BENCH_DEVICE ")");
	if (dithered)
		return message_set(why, -EINVAL, "omit --dither",
				   "Xenomai's timerbench cannot dither its due times");
	if (common->aligned)
		return message_set(why, -EINVAL, "omit --align",
				   "Xenomai's timerbench cannot align its due times");
	if (common->limit_ns != INT64_MAX)
		return message_set(why, -EINVAL, "omit --stop-above",
				   "Xenomai's timerbench returns its samples only at the end");
	/* it divides by the number of periods in a second */
	if (common->interval_ns > BENCH_BATCH_NS)
		return message_set(why, -ERANGE, "give an interval of 1s or less",
				   "the longest interval of Xenomai's timerbench is 1 s");
	return 0;
}

/* --- setting up --- */

static int bench_add(struct step *step, struct timer_kernel *kernel, unsigned int context)
{
	struct bench *bench = kernel->state;
	struct bench_one *one = &bench->ones[bench->count++];
	struct timer_thread common = *kernel->common;
	bool task = context == TIMER_KERNEL;
	int priority = task ? (int)option_number(&step->options, "priority") : 0;
	int dither, err;

	common.dither = -1;
	one->mode = task ? BENCH_TASK : BENCH_HANDLER;
	one->worker = step_add_foreign(step, 0, task ? -1 : BENCH_CPU, priority);
	if (one->worker < 0)
		return one->worker;
	/* the driver does not count its switches */
	step->workers[one->worker].plain = true;
	step->workers[one->worker].start.policy = task ? "fifo" : "";
	step->workers[one->worker].start.priority = priority;
	err = timer_add_series(step, task ? "kernel" : "irq", timer_bench.name,
			       task ? -1 : BENCH_CPU, task ? one->worker : -1, &common, 0,
			       &one->series, &dither);
	if (!err)
		step->series[one->series].info.unordered = true;
	one->fd = (int)syscall(COBALT_OPEN, BENCH_DEVICE, O_RDWR | O_CLOEXEC);
	if (!err && one->fd < 0)
		err = message_set(&step->msg, -errno, "run as root",
				  BENCH_DEVICE " cannot be opened: %s", strerror(errno));
	return err;
}

static int bench_setup(struct step *step, struct timer_kernel *kernel)
{
	struct bench *bench = step_alloc(step, 1, sizeof(*bench));
	int err = 0;

	kernel->state = bench;
	if (!bench)
		return -ENOMEM;
	bench->ones[0].fd = bench->ones[1].fd = -1;
	bench->cells = step_alloc(step, 3 * (size_t)BENCH_CELLS, sizeof(*bench->cells));
	if (!bench->cells)
		return -ENOMEM;
	if (!cpulist_has(kernel->cpus, BENCH_CPU)) {
		err = step_skip(step, "Xenomai's timerbench measures only on CPU 0",
				"measure on that CPU, or " EVENTS_REMEDY);
		return message_command(&step->msg, err, EVENTS_LOAD);
	}
	for (unsigned int context = TIMER_IRQ; context <= TIMER_KERNEL && !err; context <<= 1)
		if (kernel->contexts & context)
			err = bench_add(step, kernel, context);
	return err;
}

/* --- running --- */

/* Start at the due time of its slot, so that handler and tasks do not run at the same time. */
static void bench_begin(struct step *step, struct timer_kernel *kernel, struct bench_one *one,
			int slot)
{
	int64_t interval_ns = kernel->common->interval_ns, due_ns;
	const struct bench_order order = {
		.mode = one->mode,
		.priority = step->workers[one->worker].priority,
		.interval_ns = (uint64_t)interval_ns,
		.warm_up = BENCH_WARM_UP,
		.cells = BENCH_CELLS,
		.cell_ns = BENCH_CELL_NS,
	};
	int64_t periods = kernel->common->periods;
	char text[96];

	due_ns = step->start_ns + step_first_due_ns(step) + interval_ns / kernel->slots * slot;
	while (due_ns < clock_now_ns(CLOCK_MONOTONIC) + BENCH_DELAY_NS)
		due_ns += interval_ns;
	if (!step_sleep_until(step, due_ns - BENCH_DELAY_NS))
		return;
	if (syscall(COBALT_IOCTL, one->fd, BENCH_START, &order)) {
		snprintf(text, sizeof(text), "Xenomai's timerbench cannot be started: %s",
			 strerror(errno));
		step_fail(step, text, "check the kernel's messages, and free some memory");
		return;
	}
	one->running = true;
	due_ns += BENCH_BATCH_NS / interval_ns * interval_ns;
	step->series[one->series].info.first_due_ns = due_ns - step->start_ns;
	if (periods > kernel->common->samples)
		periods = kernel->common->samples;
	one->end_ns = periods == INT64_MAX ? INT64_MAX : due_ns + periods * interval_ns;
}

/* Each sample as the upper end of its cell. */
static void bench_put(struct step *step, const struct bench_one *one, const struct bench *bench,
		      const struct bench_result *result)
{
	struct series *series = &step->series[one->series];
	int64_t beyond = bench->cells[BENCH_CELLS - 1];
	char text[160];

	for (int cell = 0; cell < BENCH_CELLS; cell++) {
		int64_t value = ((int64_t)cell + 1) * BENCH_CELL_NS - 1;

		if (cell == BENCH_CELLS - 1 && result->max > value)
			value = result->max;
		for (int32_t i = 0; i < bench->cells[cell]; i++) {
			series_put(series, value);
			if (i % BENCH_PUT == BENCH_PUT - 1)
				step_drain(step);
		}
		if (bench->cells[cell])
			step_drain(step);
	}
	if (result->overruns > 0)
		series_missed(series, result->overruns);
	snprintf(text, sizeof(text),
		 "%s by timerbench: samples may be up to %d ns too high, and early ones count as "
		 "late ones",
		 series->info.context, BENCH_CELL_NS - 1);
	step_message(step, clock_now_ns(CLOCK_MONOTONIC) - step->start_ns, text);
	if (!beyond)
		return;
	snprintf(text, sizeof(text),
		 "%s: %lld sample%s beyond the histogram, from %d ns on, counted as the maximum",
		 series->info.context, (long long)beyond, beyond == 1 ? "" : "s",
		 (BENCH_CELLS - 1) * BENCH_CELL_NS);
	step_message(step, clock_now_ns(CLOCK_MONOTONIC) - step->start_ns, text);
}

static void bench_finish(struct step *step, const struct bench *bench, struct bench_one *one)
{
	struct bench_end end = {
		.all = bench->cells,
		.minima = bench->cells + BENCH_CELLS,
		.maxima = bench->cells + 2 * BENCH_CELLS,
	};
	char text[96];

	if (one->running && syscall(COBALT_IOCTL, one->fd, BENCH_STOP, &end)) {
		snprintf(text, sizeof(text), "Xenomai's timerbench cannot be read: %s",
			 strerror(errno));
		step_fail(step, text, "check the kernel's messages");
	} else if (one->running) {
		bench_put(step, one, bench, &end.result);
	}
	one->running = false;
	step_foreign_done(step, one->worker);
}

static int bench_start(struct step *step, struct timer_kernel *kernel)
{
	(void)step;
	(void)kernel;
	return 0;
}

/* In the draining thread, as the gate is open and a start has to wait for its time. */
static void bench_collect(struct step *step, struct timer_kernel *kernel)
{
	struct bench *bench = kernel->state;

	for (int i = 0; i < bench->count; i++) {
		struct bench_one *one = &bench->ones[i];

		if (atomic_load_acquire(&step->workers[one->worker].done))
			continue;
		if (!one->running && !step_stopped(step))
			bench_begin(step, kernel, one, kernel->slots - bench->count + i);
		if (step_stopped(step) || clock_now_ns(CLOCK_MONOTONIC) >= one->end_ns)
			bench_finish(step, bench, one);
	}
}

static void bench_cleanup(struct timer_kernel *kernel)
{
	struct bench *bench = kernel->state;

	if (!bench)
		return;
	for (int i = 0; i < bench->count; i++)
		if (bench->ones[i].fd >= 0)
			syscall(COBALT_CLOSE, bench->ones[i].fd);
}

const struct timer_backend timer_bench = {
	.name = "timerbench",
	.apart = true,
	.look = bench_look,
	.setup = bench_setup,
	.start = bench_start,
	.collect = bench_collect,
	.cleanup = bench_cleanup,
};

#else
#include <errno.h>

/* There is no such core. */
static int bench_look(const struct timer_thread *common, bool dithered, struct message *why)
{
	(void)common;
	(void)dithered;
	(void)why;
	return -ENODEV;
}

const struct timer_backend timer_bench = { .name = "timerbench", .look = bench_look };

#endif
