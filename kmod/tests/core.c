// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sessions on the Cobalt core, tried in a guest with the chip of wired.c: this program drives line
 * 0, the module hears 1 and drives 2. Run as root, on a kernel with that core.
 *
 * Writes TAP to stdout. Exit status 0: all held.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "lines.h"

#define CHIP "rtgauge-wired"
#define PRIORITY 80
#define EDGES 100

/* The core's calls, and what its bind() takes. */
#define CORE(number) (0x10000000L | (number))
#define CORE_BIND CORE(0)
#define CORE_THREAD_CREATE CORE(1)
#define CORE_OPEN CORE(77)
#define CORE_CLOSE CORE(79)
#define CORE_IOCTL CORE(80)
#define CORE_SMP 0x80000000U
#define CORE_REVISION_AT 20

/* --- the core --- */

/* The process, and then each of its threads that is to be a task. */
static bool bind_process(void)
{
	unsigned char words[512] = { 0 };
	const uint32_t smp = CORE_SMP;

	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return false;
	/* a first call finds out which revision to ask for */
	memcpy(words, &smp, sizeof(smp));
	syscall(CORE_BIND, words);
	memmove(words + sizeof(smp), words + CORE_REVISION_AT, sizeof(uint32_t));
	memcpy(words, &smp, sizeof(smp));
	return !syscall(CORE_BIND, words);
}

static bool become_task(void)
{
	int32_t parameters[14] = { PRIORITY };
	uint32_t window;

	return !syscall(CORE_THREAD_CREATE, syscall(SYS_gettid), SCHED_FIFO, parameters, 0,
			&window);
}

static int task_device(void)
{
	return (int)syscall(CORE_OPEN, RTGAUGE_TASK_DEVICE, O_RDWR);
}

static long attach(int task, int fd)
{
	return syscall(CORE_IOCTL, task, RTGAUGE_ATTACH, &fd);
}

static long take(int task, struct rtgauge_edge *edge)
{
	return syscall(CORE_IOCTL, task, RTGAUGE_TAKE, edge);
}

/* --- the module --- */

static struct rtgauge_setup on_core(unsigned int context)
{
	return (struct rtgauge_setup){
		.kind = RTGAUGE_KIND_RESPONSE,
		.contexts = context,
		.flags = BOTH | RTGAUGE_SETUP_COBALT,
		.thread = context == RTGAUGE_CONTEXT_KERNEL ? PRIORITY : 0,
		.gpio_chip = CHIP,
		.gpio_output = 2,
		.gpio_input = 1,
	};
}

static int failed_on_core(unsigned int context)
{
	struct rtgauge_setup setup = on_core(context);
	int fd = session();

	strcpy(setup.gpio_chip, "no chip");
	CHECK(fails(ioctl(fd, RTGAUGE_SETUP, &setup), ENODEV), "SETUP on the core fails");
	return fd;
}

/* --- after a set-up that failed --- */

static void after_failure(void)
{
	static const unsigned int contexts[] = { RTGAUGE_CONTEXT_IRQ, RTGAUGE_CONTEXT_KERNEL,
						 RTGAUGE_CONTEXT_USER };

	for (int i = 0; i < 3; i++) {
		struct rtgauge_setup timer = { .kind = RTGAUGE_KIND_TIMER,
					       .contexts = RTGAUGE_CONTEXT_IRQ,
					       .interval_ns = MS };
		struct rtgauge_sustain sustain = { .source = RTGAUGE_SOURCE_HRTIMER,
						   .period_ns = MS,
						   .count = 10 };
		struct rtgauge_setup again = on_core(contexts[i]);
		struct rtgauge_start start = { 0 };
		int fd = failed_on_core(contexts[i]);

		CHECK(!ioctl(fd, RTGAUGE_SETUP, &timer) && !ioctl(fd, RTGAUGE_START, &start),
		      "then a timer of Linux");
		CHECK(!close(fd), "and close");
		fd = failed_on_core(contexts[i]);
		CHECK(!ioctl(fd, RTGAUGE_SUSTAIN, &sustain) && !close(fd), "then SUSTAIN");
		fd = failed_on_core(contexts[i]);
		CHECK(!ioctl(fd, RTGAUGE_SETUP, &again) && !ioctl(fd, RTGAUGE_STOP) && !close(fd),
		      "then SETUP on the core");
		CHECK(!close(failed_on_core(contexts[i])), "then nothing");
	}
}

/* --- tasks of user space --- */

static uint64_t missed(int fd)
{
	struct rtgauge_status status = { .thread_missed = UINT64_MAX };

	ioctl(fd, RTGAUGE_STATUS, &status);
	return status.thread_missed;
}

struct taker {
	int task;
	long result;
	struct rtgauge_edge edge;
};

static void *taker(void *data)
{
	struct taker *own = data;

	own->result = become_task() ? take(own->task, &own->edge) : -2;
	return NULL;
}

static void two_takers(int task, int line)
{
	struct taker first = { .task = task, .result = -2 };
	struct rtgauge_edge edge;
	pthread_t thread;

	if (pthread_create(&thread, NULL, taker, &first)) {
		CHECK(false, "a thread");
		return;
	}
	usleep(200000);
	CHECK(fails(take(task, &edge), EBUSY), "TAKE by a second task: EBUSY");
	drive(line, true);
	pthread_join(thread, NULL);
	CHECK(!first.result && first.edge.index == EDGES + 2, "the first has its edge");
	drive(line, false);
	CHECK(!take(task, &edge) && edge.index == EDGES + 3, "then the second has its own");
}

static void answered(int fd, int task, int line)
{
	struct rtgauge_edge edge = { 0 };
	uint32_t level;
	bool good = true;

	for (unsigned int i = 0; i < EDGES; i++) {
		level = !(i & 1);
		drive(line, level);
		good &= !take(task, &edge) && edge.index == i && !edge.lost &&
			(edge.flags & ~RTGAUGE_RECORD_OTHER_CPU) ==
				(level ? RTGAUGE_RECORD_LEVEL : 0) &&
			!syscall(CORE_IOCTL, task, RTGAUGE_DRIVE, &level);
	}
	CHECK(good, "each edge is taken before the next one comes");
	CHECK(!missed(fd), "thread_missed is 0");
	drive(line, true);
	drive(line, false);
	good = !take(task, &edge) && !(edge.flags & RTGAUGE_RECORD_WAITED);
	good &= !take(task, &edge) && edge.flags & RTGAUGE_RECORD_WAITED;
	CHECK(good && missed(fd) == 1,
	      "an edge that comes before the previous one was taken is counted");
}

static void tasks(void)
{
	struct rtgauge_setup setup = on_core(RTGAUGE_CONTEXT_USER), more = setup;
	int line, task, other, fd = session(), second = session();
	struct rtgauge_start start = { 0 };
	struct rtgauge_wait wait = { 0 };
	struct rtgauge_edge edge;

	more.gpio_output = 0;
	more.gpio_input = 3;
	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup) && !ioctl(second, RTGAUGE_SETUP, &more),
	      "two sessions");
	CHECK(fails(ioctl(fd, RTGAUGE_WAIT, &wait), EINVAL), "WAIT for edges: EINVAL");
	task = task_device();
	other = task_device();
	CHECK(task >= 0 && other >= 0 && fails(take(task, &edge), EBADF), "TAKE before ATTACH");
	CHECK(!attach(task, fd), "ATTACH");
	CHECK(fails(attach(other, fd), EBUSY), "ATTACH of the session to another device: EBUSY");
	CHECK(fails(attach(task, second), EBUSY), "ATTACH of another session: EBUSY");
	CHECK(!attach(other, second), "ATTACH of that session to another device");
	CHECK(!syscall(CORE_CLOSE, other) && !close(second), "close");
	line = output_line(0);
	drive(line, false);
	CHECK(!ioctl(fd, RTGAUGE_START, &start), "START");
	answered(fd, task, line);
	two_takers(task, line);
	CHECK(!ioctl(fd, RTGAUGE_STOP) && fails(take(task, &edge), ENODATA), "TAKE at the end");
	CHECK(!syscall(CORE_CLOSE, task) && !close(fd) && !close(line), "close");
}

int main(void)
{
	CHECK(bind_process() && become_task(), "a task of the core");
	after_failure();
	tasks();
	printf("1..%d\n", tests);
	return failures != 0;
}
