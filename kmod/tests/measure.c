// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures with the module alone: one session, its records as medians and maxima on one line. For
 * trials in a guest without the agent.
 *
 *	measure KIND SOURCE CONTEXTS INTERVAL_NS EVENTS [RECORDS_FILE]
 *	measure sustain SOURCE PERIOD_NS COUNT LOST_MAX
 *	measure gaps SECONDS CONTEXTS	  what a loop loses to 1000 events a second; 0: to others
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../rtgauge.h"

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void print(const char *name, int64_t *values, size_t count)
{
	if (!count)
		return;
	qsort(values, count, sizeof(*values), compare);
	printf(" %s[%zu] %lld/%lld/%lld", name, count, (long long)values[0],
	       (long long)values[count / 2], (long long)values[count - 1]);
}

static int fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	return 1;
}

static int measure_sustain(int fd, char **argv)
{
	struct rtgauge_sustain asked = {
		.source = (unsigned int)atoi(argv[2]),
		.period_ns = strtoull(argv[3], NULL, 0),
		.count = (unsigned int)atoi(argv[4]),
		.lost_max = (unsigned int)atoi(argv[5]),
	};

	if (ioctl(fd, RTGAUGE_SUSTAIN, &asked))
		return fail("sustain");
	printf("sustain source %u period %llu ns: generated %llu handled %llu lost %llu in %llu ns%s\n",
	       asked.source, (unsigned long long)asked.period_ns,
	       (unsigned long long)asked.generated, (unsigned long long)asked.handled,
	       (unsigned long long)asked.lost, (unsigned long long)asked.elapsed_ns,
	       asked.flags & RTGAUGE_SUSTAIN_EARLY ? " early" : "");
	return 0;
}

/*
 * A loop that reads the clock loses time to whatever runs instead of it: the sum of the steps that
 * are longer than the loop's own. What the events add to it is what each costs, its interrupt's
 * entry and exit included.
 */
static int measure_gaps(int fd, uint64_t seconds, unsigned int contexts)
{
	struct rtgauge_setup setup = {
		.kind = RTGAUGE_KIND_TIMER,
		.contexts = contexts,
		.interval_ns = 1000000,
	};
	struct rtgauge_start start = {};
	struct rtgauge_status status = {};
	struct sched_param high = { .sched_priority = 95 };
	uint64_t first, last, lost = 0, steps = 0, loop = UINT64_MAX;

	last = now_ns();
	for (int i = 0; i < 1000; i++) {
		uint64_t now = now_ns();

		loop = now - last < loop ? now - last : loop;
		last = now;
	}
	if (contexts && ioctl(fd, RTGAUGE_SETUP, &setup))
		return fail("setup");
	/* not by the C library: musl refuses it, as POSIX means the process */
	if (setup.thread && syscall(SYS_sched_setscheduler, (pid_t)setup.thread, SCHED_FIFO, &high))
		return fail("sched_setscheduler of the kernel thread");
	if (contexts && ioctl(fd, RTGAUGE_START, &start))
		return fail("start");
	first = last = now_ns();
	while (last - first < seconds * 1000000000u) {
		uint64_t now = now_ns();

		if (now - last > 2 * loop) {
			lost += now - last - loop;
			steps++;
		}
		last = now;
	}
	ioctl(fd, RTGAUGE_STATUS, &status);
	printf("{\"loop_ns\": %llu, \"gaps\": %llu, \"lost_ns\": %llu, \"events\": %llu}\n",
	       (unsigned long long)loop, (unsigned long long)steps, (unsigned long long)lost,
	       (unsigned long long)status.events);
	return 0;
}

int main(int argc, char **argv)
{
	struct rtgauge_setup setup = {};
	struct rtgauge_start start = {};
	struct rtgauge_status status;
	struct rtgauge_record *records;
	struct sched_param high = { .sched_priority = 95 }, user = { .sched_priority = 90 };
	int64_t *values[5];
	size_t counts[5] = {}, events, got = 0;
	int fd = open(RTGAUGE_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return fail(RTGAUGE_DEVICE);
	if (argc == 6 && !strcmp(argv[1], "sustain"))
		return measure_sustain(fd, argv);
	if (argc == 4 && !strcmp(argv[1], "gaps"))
		return measure_gaps(fd, strtoull(argv[2], NULL, 0), (unsigned int)atoi(argv[3]));
	if (argc < 6)
		return 2;
	setup.kind = (unsigned int)atoi(argv[1]);
	setup.source = (unsigned int)atoi(argv[2]);
	setup.contexts = (unsigned int)atoi(argv[3]);
	setup.interval_ns = strtoull(argv[4], NULL, 0);
	setup.events = events = strtoull(argv[5], NULL, 0);
	setup.room = RTGAUGE_ROOM_MAX;
	records = calloc(events, sizeof(*records));
	for (int i = 0; i < 5; i++)
		values[i] = calloc(events, sizeof(int64_t));
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return fail("mlockall");
	if (ioctl(fd, RTGAUGE_SETUP, &setup))
		return fail("setup");
	if (setup.thread && syscall(SYS_sched_setscheduler, (pid_t)setup.thread, SCHED_FIFO, &high))
		return fail("sched_setscheduler of the kernel thread");
	syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &user);
	if (ioctl(fd, RTGAUGE_START, &start))
		return fail("start");
	if (setup.contexts & RTGAUGE_CONTEXT_USER) {
		struct rtgauge_wait wait = {};

		while (!ioctl(fd, RTGAUGE_WAIT, &wait)) {
			wait.seen_ns = now_ns();
			values[4][counts[4]++] = (int64_t)(wait.seen_ns - wait.raised_ns);
		}
	} else if (setup.kind == RTGAUGE_KIND_IRQ_DISPATCH) {
		const volatile struct rtgauge_page *page =
			mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		unsigned int seen = 0;

		if (page == MAP_FAILED)
			return fail("mmap");
		while (counts[4] < events) {
			uint64_t now = now_ns();

			if (page->sequence == seen)
				continue;
			seen = page->sequence;
			/* the clock was read before: only if the handler came before that */
			if (now > page->stamp_ns)
				values[4][counts[4]++] = (int64_t)(now - page->stamp_ns);
			else
				values[4][counts[4]++] = (int64_t)(now_ns() - page->stamp_ns);
		}
	}
	while (got < events) {
		ssize_t size = read(fd, records + got, (events - got) * sizeof(*records));

		if (size <= 0)
			break;
		got += (size_t)size / sizeof(*records);
	}
	for (size_t i = 0; i < got; i++) {
		const struct rtgauge_record *r = &records[i];

		values[0][counts[0]++] = (int64_t)(r->entry_ns - r->raised_ns);
		if (r->end_ns)
			values[1][counts[1]++] = (int64_t)(r->end_ns - r->raised_ns);
		if (r->wake_ns)
			values[2][counts[2]++] = (int64_t)(r->wake_ns - r->raised_ns);
		if (r->thread_ns)
			values[3][counts[3]++] = (int64_t)(r->thread_ns - r->raised_ns);
	}
	ioctl(fd, RTGAUGE_STATUS, &status);
	printf("kind %u source %u: min/median/max", setup.kind, setup.source);
	print("entry", values[0], counts[0]);
	print("end", values[1], counts[1]);
	print("wake", values[2], counts[2]);
	print("thread", values[3], counts[3]);
	print(setup.kind == RTGAUGE_KIND_IRQ_DISPATCH ? "dispatch" : "user", values[4], counts[4]);
	printf(" state %u missed %llu lost %llu thread_missed %llu user_missed %llu stray %llu\n",
	       status.state, (unsigned long long)status.missed, (unsigned long long)status.lost,
	       (unsigned long long)status.thread_missed, (unsigned long long)status.user_missed,
	       (unsigned long long)status.stray);
	if (argc > 6) {
		FILE *file = fopen(argv[6], "w");

		if (!file || fwrite(records, sizeof(*records), got, file) != got || fclose(file))
			return fail(argv[6]);
	}
	return 0;
}
