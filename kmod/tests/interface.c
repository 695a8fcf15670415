// SPDX-License-Identifier: GPL-2.0-only
/*
 * The interface of rtgauge.ko, tried from outside: run as root in a guest, with the module's file.
 *
 *	interface calls			every request, with what is valid and what is not
 *	interface fuzz SEED COUNT	so many requests at random, the same for the same seed
 *	interface killed COUNT		processes that are killed amid everything they can do
 *	interface reload FILE COUNT	the module loaded and removed while sessions run
 *	interface offline CPU		a CPU goes offline under a session
 *
 * Writes TAP to stdout. Exit status 0: all held.
 */
#define _GNU_SOURCE
#include <linux/ppdev.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "tap.h"

/* A signal's handler: calls end with EINTR. */
static void nothing(int signal)
{
	(void)signal;
}

#define THREADS (RTGAUGE_CONTEXT_KERNEL | RTGAUGE_CONTEXT_THREADED)
#define DEFERS (THREADS | RTGAUGE_CONTEXT_SOFTIRQ | RTGAUGE_CONTEXT_WORKQUEUE)

static struct rtgauge_setup timer_setup(unsigned int contexts, uint64_t events)
{
	return (struct rtgauge_setup){
		.kind = RTGAUGE_KIND_TIMER,
		.contexts = contexts,
		.room = 1000,
		.interval_ns = MS,
		.events = events,
	};
}

/* --- calls --- */

static void calls_info(void)
{
	struct rtgauge_info info;
	struct rtgauge_source source = { .number = RTGAUGE_SOURCE_HRTIMER };
	struct rtgauge_status status;
	int fd = session();

	CHECK(!ioctl(fd, RTGAUGE_INFO, &info) &&
		      info.interface_version == RTGAUGE_INTERFACE_VERSION &&
		      info.sources == RTGAUGE_SOURCE_PARALLEL &&
		      info.room_max == RTGAUGE_ROOM_MAX && info.contexts == 0x3f &&
		      info.module_version[0] && info.kernel[0],
	      "INFO tells the version");
	CHECK(fails(ioctl(fd, RTGAUGE_INFO, NULL), EFAULT), "INFO to nowhere: EFAULT");
	CHECK(!ioctl(fd, RTGAUGE_SOURCE, &source) && !strcmp(source.name, "hrtimer") &&
		      source.flags & RTGAUGE_SOURCE_AVAILABLE &&
		      source.flags & RTGAUGE_SOURCE_FALLBACK,
	      "SOURCE: the hrtimer is there, a fallback");
	CHECK(fails(ioctl(fd, RTGAUGE_SOURCE, &source), EINVAL), "SOURCE not cleared: EINVAL");
	source = (struct rtgauge_source){ .number = 0 };
	CHECK(fails(ioctl(fd, RTGAUGE_SOURCE, &source), EINVAL), "SOURCE 0: EINVAL");
	source.number = RTGAUGE_SOURCE_PARALLEL + 1;
	CHECK(fails(ioctl(fd, RTGAUGE_SOURCE, &source), EINVAL), "SOURCE past the last: EINVAL");
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && status.state == RTGAUGE_STATE_OPEN &&
		      !status.events,
	      "STATUS of a new file: open");
	CHECK(fails(ioctl(fd, _IO(RTGAUGE_IOCTL, 0x20)), ENOTTY), "unknown request: ENOTTY");
	CHECK(fails(ioctl(fd, _IOR(RTGAUGE_IOCTL, 0x00, char[8]), &info), ENOTTY),
	      "request of another size: ENOTTY");
	close(fd);
	CHECK(!setuid(65534), "as nobody");
	CHECK(fails(open(RTGAUGE_DEVICE, O_RDWR), EACCES), "open without privilege: refused");
}

static void calls_setup(void)
{
	static const struct {
		const char *what;
		int error;
		struct rtgauge_setup setup;
	} wrong[] = {
#define TIMER .kind = RTGAUGE_KIND_TIMER, .contexts = 1, .interval_ns = MS
		{ "no kind", EINVAL, { .contexts = 1, .interval_ns = MS } },
		{ "kind 6", EINVAL, { .kind = 6, .contexts = 1, .interval_ns = MS } },
		{ "source 9", EINVAL, { TIMER, .source = 9 } },
		{ "a priority without a core", EINVAL, { TIMER, .thread = 80 } },
		{ "the core's timer without it", EINVAL, { TIMER, .source = 6 } },
		{ "a core with another timer", EOPNOTSUPP, { TIMER, .source = 1, .flags = 0x400 } },
		{ "a core's thread without a priority",
		  EINVAL,
		  { .kind = 1, .contexts = 2, .flags = 0x400, .interval_ns = MS } },
		{ "two contexts on a core",
		  EOPNOTSUPP,
		  { .kind = 1, .contexts = 3, .flags = 0x400, .thread = 80, .interval_ns = MS } },
		{ "no context", EINVAL, { .kind = 1, .interval_ns = MS } },
		{ "context 64", EINVAL, { .kind = 1, .contexts = 64, .interval_ns = MS } },
		{ "two deferred contexts",
		  EINVAL,
		  { .kind = 4, .contexts = 0x18, .interval_ns = MS } },
		{ "a threaded handler without an interrupt",
		  EOPNOTSUPP,
		  { .kind = 4, .source = 1, .contexts = 0x20, .interval_ns = MS } },
		{ "flag 2", EINVAL, { TIMER, .flags = 2 } },
		{ "too much room", EINVAL, { TIMER, .room = RTGAUGE_ROOM_MAX + 1 } },
		{ "interval 0", EINVAL, { .kind = 1, .contexts = 1 } },
		{ "interval too short", EINVAL, { .kind = 1, .contexts = 1, .interval_ns = 9999 } },
		{ "interval too long",
		  EINVAL,
		  { .kind = 1, .contexts = 1, .interval_ns = RTGAUGE_INTERVAL_MAX_NS + 1 } },
		{ "thread given", EINVAL, { TIMER, .thread = 1 } },
		{ "raise_cpu given", EINVAL, { TIMER, .raise_cpu = 1 } },
		{ "a timer's debounce", EINVAL, { TIMER, .debounce_us = 1 } },
		{ "a timer's delay", EINVAL, { TIMER, .delay_ns = 1, .delay_every = 1 } },
		{ "a timer's storm", EINVAL, { TIMER, .storm_edges = 1 } },
		{ "CPU 4096", ENXIO, { TIMER, .cpu = 4096 } },
		{ "CPU -1", ENXIO, { TIMER, .cpu = -1u } },
		{ "a chip for the hrtimer", EINVAL, { TIMER, .source = 1, .gpio_chip = "chip" } },
		{ "a line without a chip", EINVAL, { TIMER, .gpio_output = 1 } },
		{ "an endless chip's name",
		  EINVAL,
		  { TIMER, .gpio_chip = "0123456789012345678901234567890"
					"1" } },
		{ "the GPIO without a chip", EINVAL, { TIMER, .source = 3 } },
		{ "one line wired to itself",
		  EINVAL,
		  { TIMER, .source = 3, .gpio_chip = "chip", .gpio_output = 3, .gpio_input = 3 } },
		{ "a chip that is not there",
		  ENODEV,
		  { TIMER, .source = 3, .gpio_chip = "no chip", .gpio_output = 3 } },
		{ "irq-latency with a thread",
		  EINVAL,
		  { .kind = 2, .contexts = 2, .interval_ns = MS } },
		{ "irq-dispatch with a thread",
		  EINVAL,
		  { .kind = 3, .contexts = 4, .interval_ns = MS } },
		{ "irq-to-thread without one",
		  EINVAL,
		  { .kind = 4, .contexts = 1, .interval_ns = MS } },
#undef TIMER
	};
	struct rtgauge_setup setup;
	struct rtgauge_start start = {};
	struct rtgauge_wait wait = {};
	struct rtgauge_record record;
	struct pollfd ready;
	int fd = session();
	char name[80];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setup = wrong[i].setup;
		snprintf(name, sizeof(name), "SETUP with %s: %s", wrong[i].what,
			 strerror(wrong[i].error));
		CHECK(fails(ioctl(fd, RTGAUGE_SETUP, &setup), wrong[i].error), name);
	}
	CHECK(fails(ioctl(fd, RTGAUGE_SETUP, (void *)8), EFAULT), "SETUP from nowhere: EFAULT");
	CHECK(fails(ioctl(fd, RTGAUGE_START, &start), EBUSY), "START before SETUP: EBUSY");
	CHECK(fails(ioctl(fd, RTGAUGE_STOP), EBUSY), "STOP before SETUP: EBUSY");
	CHECK(fails(ioctl(fd, RTGAUGE_WAIT, &wait), EBUSY), "WAIT before SETUP: EBUSY");
	CHECK(fails((int)read(fd, &record, sizeof(record)), EBUSY), "read before SETUP: EBUSY");
	setup = timer_setup(RTGAUGE_CONTEXT_IRQ, 0);
	setup.room = 0;
	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup) && setup.source == RTGAUGE_SOURCE_HRTIMER &&
		      !setup.thread && !setup.room,
	      "SETUP of a timer takes the hrtimer");
	setup = timer_setup(RTGAUGE_CONTEXT_IRQ, 0);
	CHECK(fails(ioctl(fd, RTGAUGE_SETUP, &setup), EBUSY), "SETUP twice: EBUSY");
	CHECK(fails((int)read(fd, &record, sizeof(record)), ENODATA), "read without room: ENODATA");
	CHECK(fails(ioctl(fd, RTGAUGE_WAIT, &wait), EINVAL), "WAIT without that context: EINVAL");
	start.reserved = 1;
	CHECK(fails(ioctl(fd, RTGAUGE_START, &start), EINVAL), "START reserved: EINVAL");
	start = (struct rtgauge_start){ .first_due_ns = UINT64_MAX };
	CHECK(fails(ioctl(fd, RTGAUGE_START, &start), EINVAL), "START in centuries: EINVAL");
	start.first_due_ns = 0;
	CHECK(!ioctl(fd, RTGAUGE_START, &start) && start.first_due_ns, "START");
	CHECK(fails(ioctl(fd, RTGAUGE_START, &start), EBUSY), "START twice: EBUSY");
	CHECK(!ioctl(fd, RTGAUGE_STOP), "STOP");
	CHECK(!ioctl(fd, RTGAUGE_STOP), "STOP twice");
	ready = (struct pollfd){ .fd = fd, .events = POLLIN };
	CHECK(poll(&ready, 1, 0) == 1 && ready.revents & POLLHUP, "poll after STOP: POLLHUP");
	close(fd);
}

/* The arithmetic of dither.h, written independently. */
static uint64_t dither(uint64_t index, uint64_t interval)
{
	uint32_t phase = (uint32_t)index * 0x04f1bbcdU;
	uint32_t sweep = phase < 1U << 31 ? 2 * phase : 2 * (UINT32_MAX - phase);
	uint32_t chance = (uint32_t)index;
	uint64_t part;

	chance = (chance ^ chance >> 16) * 0x85ebca6b;
	chance = (chance ^ chance >> 13) * 0xc2b2ae35;
	chance ^= chance >> 16;
	part = (uint64_t)sweep - (sweep >> 6) + (chance >> 6);
	return ((interval >> 16) * part >> 16) + ((interval & 0xffff) * part >> 32);
}

/* A whole session; the records that it gives are in order, and tell all. */
static void calls_stream(unsigned int source, unsigned int kind, unsigned int contexts,
			 unsigned int flags)
{
	struct rtgauge_setup setup = timer_setup(contexts, 200);
	struct rtgauge_start start = {};
	struct rtgauge_status status;
	static struct rtgauge_record records[256];
	struct sched_param high = { .sched_priority = 95 };
	uint64_t next = 0, missed = 0;
	bool grid = true, order = true, stamps = true;
	size_t count = 0;
	ssize_t size;
	char name[80];
	int fd = session();

	setup.source = source;
	setup.kind = kind;
	setup.flags = flags;
	if (ioctl(fd, RTGAUGE_SETUP, &setup) && (errno == ENODEV || errno == EOPNOTSUPP)) {
		printf("ok %d # SKIP source %u is not here, or has no interrupt\n", ++tests,
		       source);
		close(fd);
		return;
	}
	snprintf(name, sizeof(name), "source %u kind %u contexts %u flags %u", source, kind,
		 contexts, flags);
	CHECK(!!setup.thread == !!(contexts & THREADS) &&
		      (!setup.thread ||
		       !syscall(SYS_sched_setscheduler, (pid_t)setup.thread, SCHED_FIFO, &high)),
	      "the kernel thread's priority is set by its id");
	CHECK(!ioctl(fd, RTGAUGE_START, &start), name);
	while (contexts & RTGAUGE_CONTEXT_USER) {
		static struct rtgauge_wait wait;

		if (ioctl(fd, RTGAUGE_WAIT, &wait)) {
			CHECK(errno == ENODATA, "WAIT ends with ENODATA");
			memset(&wait, 0, sizeof(wait));
			break;
		}
		wait.seen_ns = now_ns();
		stamps &= wait.seen_ns > wait.wake_ns && wait.wake_ns >= wait.entry_ns;
	}
	do {
		size = read(fd, records + count, (256 - count) * sizeof(*records));
		if (size > 0)
			count += (size_t)size / sizeof(*records);
	} while (size > 0);
	CHECK(!size && count == 200, "200 records, then the end");
	for (size_t i = 0; i < count; i++) {
		const struct rtgauge_record *r = &records[i];
		uint64_t offset = flags & RTGAUGE_SETUP_DITHER ? dither(r->index, MS) : 0;

		order &= r->index == next + r->missed;
		next = r->index + 1;
		missed += r->missed;
		grid &= r->due_ns == start.first_due_ns + r->index * MS + offset;
		stamps &= r->raised_ns <= r->entry_ns && r->raised_ns + MS > r->due_ns &&
			  !(r->flags & ~RTGAUGE_RECORD_THREAD_MISSED);
		stamps &= !!r->end_ns ==
			  (kind == RTGAUGE_KIND_IRQ_LATENCY || kind == RTGAUGE_KIND_IRQ_DISPATCH);
		stamps &= !!r->wake_ns == !!(contexts & ~RTGAUGE_CONTEXT_IRQ);
		stamps &= !r->end_ns || r->end_ns >= r->entry_ns;
		stamps &= !r->wake_ns || r->wake_ns >= r->entry_ns;
		stamps &= !r->thread_ns ==
			  (!(contexts & DEFERS) || r->flags & RTGAUGE_RECORD_THREAD_MISSED);
		stamps &= !r->thread_ns || r->thread_ns > r->wake_ns;
	}
	CHECK(order, "indices without a gap but those missed");
	CHECK(grid, "due times on the grid");
	CHECK(stamps, "stamps in order");
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && status.state == RTGAUGE_STATE_FINISHED &&
		      status.events == 200 && status.missed == missed && !status.lost &&
		      !status.other_cpu,
	      "STATUS agrees");
	close(fd);
}

/* A thread that looks far ahead is passed by what comes until then, and takes no room for it. */
static void calls_ahead(void)
{
	struct rtgauge_setup setup = timer_setup(RTGAUGE_CONTEXT_USER, 6000);
	struct rtgauge_start start = {};
	struct rtgauge_wait wait = {};
	struct rtgauge_status status;
	int fd = session();

	setup.room = 0;
	setup.interval_ns = 20000;
	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup) && !ioctl(fd, RTGAUGE_START, &start),
	      "more events than there is room");
	wait.seen_ns = start.first_due_ns + 5500 * setup.interval_ns;
	CHECK(!ioctl(fd, RTGAUGE_WAIT, &wait) && wait.due_ns > wait.seen_ns, "WAIT far ahead");
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && !status.lost, "and none lost on the way");
	close(fd);
}

static void *calls_reader(void *data)
{
	static _Thread_local struct rtgauge_record records[64];
	intptr_t count = 0;
	ssize_t size;

	while ((size = read(*(int *)data, records, sizeof(records))) > 0)
		count += size / (ssize_t)sizeof(records[0]);
	return (void *)(size ? -1 : count);
}

/* What one reader has taken leaves the other asleep. */
static void calls_readers(void)
{
	struct rtgauge_setup setup = timer_setup(RTGAUGE_CONTEXT_IRQ, 300);
	struct rtgauge_start start = {};
	void *first = NULL, *second = NULL;
	pthread_t reader;
	int fd = session();

	if (ioctl(fd, RTGAUGE_SETUP, &setup) || ioctl(fd, RTGAUGE_START, &start) ||
	    pthread_create(&reader, NULL, calls_reader, &fd)) {
		CHECK(false, "two readers");
		return;
	}
	second = calls_reader(&fd);
	pthread_join(reader, &first);
	CHECK((intptr_t)first >= 0 && (intptr_t)second >= 0 &&
		      (intptr_t)first + (intptr_t)second == 300,
	      "two readers share the records");
	close(fd);
}

static void calls_ends(void)
{
	struct rtgauge_setup setup = timer_setup(RTGAUGE_CONTEXT_USER, 0);
	struct rtgauge_start start = {};
	struct rtgauge_wait wait = {};
	struct rtgauge_status status;
	struct itimerval soon = { { .tv_usec = 50000 }, { .tv_usec = 50000 } }, never = {};
	struct sigaction action = { .sa_handler = nothing };
	struct rtgauge_record records[8];
	int fd = session();

	/* periods, all of them past when it starts */
	setup.periods = 10;
	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup), "SETUP with 10 periods");
	start.first_due_ns = now_ns() - 100 * MS;
	CHECK(!ioctl(fd, RTGAUGE_START, &start) && !ioctl(fd, RTGAUGE_STATUS, &status) &&
		      status.state == RTGAUGE_STATE_FINISHED && status.missed == 10,
	      "all past: finished, all missed");
	CHECK(fails(ioctl(fd, RTGAUGE_WAIT, &wait), ENODATA), "WAIT at the end: ENODATA");
	CHECK(!read(fd, records, sizeof(records)), "read at the end: 0");
	close(fd);

	/* a full ring */
	fd = session();
	setup = timer_setup(RTGAUGE_CONTEXT_IRQ, 5000);
	setup.interval_ns = 20000;
	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup) && setup.room == 4096, "the room is rounded up");
	start.first_due_ns = 0;
	ioctl(fd, RTGAUGE_START, &start);
	do {
		usleep(20000);
		ioctl(fd, RTGAUGE_STATUS, &status);
	} while (status.state == RTGAUGE_STATE_RUNNING);
	CHECK(status.events == 5000 && status.lost == 5000 - 4096, "a full ring: lost, counted");
	CHECK(fails((int)read(fd, records, 63), EINVAL), "read of less than a record: EINVAL");
	CHECK(read(fd, records, 130) == 128, "read gives whole records");
	CHECK(fails((int)syscall(SYS_read, fd, 8L, 64L), EFAULT), "read to nowhere: EFAULT");
	close(fd);

	/* a signal */
	fd = session();
	setup = timer_setup(RTGAUGE_CONTEXT_USER, 0);
	ioctl(fd, RTGAUGE_SETUP, &setup);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK(fails(ioctl(fd, RTGAUGE_WAIT, &wait), EINTR), "WAIT and a signal: EINTR");
	wait = (struct rtgauge_wait){ .flags = 1 };
	CHECK(fails(ioctl(fd, RTGAUGE_WAIT, &wait), EINVAL), "WAIT with flags: EINVAL");
	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK(fails((int)read(fd, records, sizeof(records)), EINTR), "read and a signal: EINTR");
	fcntl(fd, F_SETFL, O_NONBLOCK);
	CHECK(fails((int)read(fd, records, sizeof(records)), EAGAIN), "O_NONBLOCK: EAGAIN");
	setitimer(ITIMER_REAL, &never, NULL);
	close(fd);
}

static void calls_page(void)
{
	struct rtgauge_setup setup = timer_setup(RTGAUGE_CONTEXT_IRQ, 20);
	struct rtgauge_start start = {};
	const volatile struct rtgauge_page *page;
	struct rtgauge_record records[20];
	int fd = session();

	CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED,
	      "mmap to write: refused");
	CHECK(mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED, "mmap of two: refused");
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096) == MAP_FAILED,
	      "mmap of the next: refused");
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(page != MAP_FAILED, "mmap");
	if (page == MAP_FAILED)
		return;
	CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE), "mprotect to write: refused");
	setup.kind = RTGAUGE_KIND_IRQ_DISPATCH;
	CHECK(!ioctl(fd, RTGAUGE_SETUP, &setup) && !ioctl(fd, RTGAUGE_START, &start),
	      "irq-dispatch with whatever source");
	while (page->sequence < 40)
		;
	CHECK(read(fd, records, sizeof(records)) == sizeof(records) &&
		      records[19].end_ns == page->stamp_ns && records[19].index == page->index &&
		      records[19].entry_ns == page->entry_ns,
	      "the page has the last stamp");
	close(fd);
	CHECK(page->sequence == 40, "the page stays while it is mapped");
	munmap((void *)page, 4096);
}

static void calls_exclusive(unsigned int number)
{
	struct rtgauge_setup setup = timer_setup(RTGAUGE_CONTEXT_IRQ, 0);
	struct rtgauge_source source = { .number = number };
	int first = session(), second = session(), err;

	ioctl(first, RTGAUGE_SOURCE, &source);
	if (!(source.flags & RTGAUGE_SOURCE_AVAILABLE)) {
		printf("ok %d # SKIP no %s: %s\n", ++tests, source.name, source.reason);
		return;
	}
	setup.source = number;
	CHECK(!ioctl(first, RTGAUGE_SETUP, &setup), "the device taken");
	setup = timer_setup(RTGAUGE_CONTEXT_IRQ, 0);
	setup.source = number;
	CHECK(fails(ioctl(second, RTGAUGE_SETUP, &setup), EBUSY), "taken twice: EBUSY");
	close(first);
	setup = timer_setup(RTGAUGE_CONTEXT_IRQ, 0);
	setup.source = number;
	err = ioctl(second, RTGAUGE_SETUP, &setup);
	CHECK(!err, "free again after close");
	close(second);
}

/* Somebody takes it and gives it back all the time: it is there, and always says the same. */
static void calls_describe(void)
{
	struct rtgauge_source first = { .number = RTGAUGE_SOURCE_HPET }, again;
	int fd = session(), status, wrong = 0;
	pid_t pid;

	ioctl(fd, RTGAUGE_SOURCE, &first);
	if (!(first.flags & RTGAUGE_SOURCE_AVAILABLE)) {
		printf("ok %d # SKIP no HPET: %s\n", ++tests, first.reason);
		close(fd);
		return;
	}
	/* the resolution is that of a tick, rounded up */
	CHECK(first.interval_max_ns >> 30 >= first.resolution_ns - 1ULL &&
		      first.interval_max_ns >> 30 <= first.resolution_ns,
	      "SOURCE: the longest interval of the HPET is 2^30 ticks");
	fflush(stdout);
	pid = fork();
	for (int i = 0; !pid && i < 200; i++) {
		struct rtgauge_setup setup = timer_setup(RTGAUGE_CONTEXT_IRQ, 0);
		int taken = session();

		setup.source = RTGAUGE_SOURCE_HPET;
		if (ioctl(taken, RTGAUGE_SETUP, &setup))
			_exit(1);
		close(taken);
	}
	if (!pid)
		_exit(0);
	do {
		again = (struct rtgauge_source){ .number = RTGAUGE_SOURCE_HPET };
		ioctl(fd, RTGAUGE_SOURCE, &again);
		again.irq = first.irq;
		wrong += memcmp(&again, &first, sizeof(again)) != 0;
	} while (!waitpid(pid, &status, WNOHANG));
	CHECK(!wrong && !status, "SOURCE says the same while the HPET is taken and given back");
	close(fd);
}

/* A session after SUSTAIN: the thread that raises its interrupts has to wait for START. */
static void calls_sustained(int fd)
{
	struct rtgauge_setup setup = timer_setup(RTGAUGE_CONTEXT_IRQ, 10);
	struct rtgauge_status status;

	setup.source = RTGAUGE_SOURCE_PCI;
	if (ioctl(fd, RTGAUGE_SETUP, &setup)) {
		if (errno == EBUSY)
			CHECK(0, "SETUP after SUSTAIN: the file is free");
		else
			printf("ok %d # SKIP no PCI device: %s\n", ++tests, strerror(errno));
		return;
	}
	usleep(20000);
	CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && status.state == RTGAUGE_STATE_READY &&
		      !status.events,
	      "SETUP after SUSTAIN: no event before START");
}

static void calls_sustain(unsigned int source)
{
	struct rtgauge_sustain ask = { .source = source, .period_ns = MS, .count = 100 }, asked;
	struct itimerval soon = { { .tv_usec = 50000 }, { .tv_usec = 50000 } }, never = {};
	struct sigaction action = { .sa_handler = nothing };
	int fd = session();

	sigaction(SIGALRM, &action, NULL);
	asked = ask;
	if (ioctl(fd, RTGAUGE_SUSTAIN, &asked) && errno == ENODEV) {
		printf("ok %d # SKIP source %u is not here\n", ++tests, source);
		close(fd);
		return;
	}
	CHECK(asked.source == source && asked.generated >= 100 && asked.handled &&
		      asked.lost == asked.generated - asked.handled &&
		      asked.elapsed_ns >= 100 * MS && asked.period_fs == 1000000 * MS,
	      "SUSTAIN counts");
	asked = ask;
	asked.count = 0;
	CHECK(fails(ioctl(fd, RTGAUGE_SUSTAIN, &asked), EINVAL), "SUSTAIN of none: EINVAL");
	asked = ask;
	asked.period_ns = 100;
	CHECK(fails(ioctl(fd, RTGAUGE_SUSTAIN, &asked), EINVAL), "SUSTAIN too fast: EINVAL");
	asked = ask;
	asked.period_ns = 1000 * MS;
	asked.count = 86402;
	CHECK(fails(ioctl(fd, RTGAUGE_SUSTAIN, &asked), EINVAL), "SUSTAIN for days: EINVAL");
	/* so many hours that their nanoseconds wrap around to less than one */
	asked = ask;
	asked.period_ns = RTGAUGE_INTERVAL_MAX_NS;
	asked.count = 5124096;
	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK(fails(ioctl(fd, RTGAUGE_SUSTAIN, &asked), EINVAL), "SUSTAIN for ages: EINVAL");
	setitimer(ITIMER_REAL, &never, NULL);
	asked = ask;
	asked.reserved[2] = 1;
	CHECK(fails(ioctl(fd, RTGAUGE_SUSTAIN, &asked), EINVAL), "SUSTAIN reserved: EINVAL");
	asked = ask;
	asked.cpu = 5000;
	CHECK(fails(ioctl(fd, RTGAUGE_SUSTAIN, &asked), ENXIO), "SUSTAIN on no CPU: ENXIO");
	asked = ask;
	asked.count = 100000;
	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK(fails(ioctl(fd, RTGAUGE_SUSTAIN, &asked), EINTR), "SUSTAIN and a signal: EINTR");
	setitimer(ITIMER_REAL, &never, NULL);
	asked = ask;
	CHECK(!ioctl(fd, RTGAUGE_SUSTAIN, &asked), "SUSTAIN again on the same file");
	calls_sustained(fd);
	close(fd);
}

static int calls(void)
{
	pid_t pid;
	int status = 1;

	calls_setup();
	for (unsigned int source = 1; source <= 2; source++) {
		calls_stream(source, RTGAUGE_KIND_TIMER, 1, 0);
		calls_stream(source, RTGAUGE_KIND_TIMER, 3, RTGAUGE_SETUP_DITHER);
		calls_stream(source, RTGAUGE_KIND_TIMER, 7, 0);
		calls_stream(source, RTGAUGE_KIND_IRQ_LATENCY, 1, 0);
		calls_stream(source, RTGAUGE_KIND_IRQ_DISPATCH, 1, 0);
		calls_stream(source, RTGAUGE_KIND_IRQ_TO_THREAD, 2, 0);
		calls_stream(source, RTGAUGE_KIND_IRQ_TO_THREAD, 4, RTGAUGE_SETUP_DITHER);
		calls_stream(source, RTGAUGE_KIND_TIMER, RTGAUGE_CONTEXT_SOFTIRQ, 0);
		calls_stream(source, RTGAUGE_KIND_IRQ_TO_THREAD, RTGAUGE_CONTEXT_SOFTIRQ | 4, 0);
		calls_stream(source, RTGAUGE_KIND_IRQ_TO_THREAD, RTGAUGE_CONTEXT_WORKQUEUE, 0);
		calls_stream(source, RTGAUGE_KIND_IRQ_TO_THREAD, RTGAUGE_CONTEXT_THREADED, 0);
		calls_sustain(source);
	}
	calls_ends();
	calls_ahead();
	calls_readers();
	calls_page();
	calls_exclusive(RTGAUGE_SOURCE_HPET);
	calls_exclusive(RTGAUGE_SOURCE_PCI);
	calls_describe();
	/* it gives up its privileges */
	fflush(stdout);
	pid = fork();
	if (!pid) {
		failures = 0;
		calls_info();
		_exit(failures);
	}
	waitpid(pid, &status, 0);
	tests += 11;
	CHECK(!status, "the calls that tell, and those without privilege");
	return failures;
}

/* --- fuzz --- */

static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1dULL;
}

static uint32_t below(uint32_t limit)
{
	return (uint32_t)(random_next() >> 33) % limit;
}

/* Now and then something else in the place of what would do. */
static uint64_t odd(uint64_t value)
{
	static const uint64_t values[] = { 0,	     1,		 2,	     63,	64,
					   1u << 31, UINT32_MAX, 1ULL << 63, UINT64_MAX };

	if (below(12))
		return value;
	return below(2) ? random_next() : values[below(sizeof(values) / sizeof(values[0]))];
}

#define FUZZ_FILES 6

static struct rtgauge_setup fuzz_setup(void)
{
	struct rtgauge_setup setup = {
		.kind = (uint32_t)odd(1 + below(5)),
		.source = (uint32_t)odd(below(6)),
		.cpu = (uint32_t)odd(0),
		.contexts = (uint32_t)odd(below(2) ? 1 + below(7) : 1U << below(6)),
		.flags = (uint32_t)odd(below(2)),
		.room = (uint32_t)odd(below(3) * 100),
		.interval_ns = odd(100000 + below(1000000)),
		.events = odd(below(50)),
		.periods = odd(below(50)),
	};

	if (setup.kind == RTGAUGE_KIND_RESPONSE && below(8)) {
		/* the chip of the lab's arm64 boards */
		strcpy(setup.gpio_chip, "9030000.pl061");
		setup.gpio_input = (uint32_t)odd(below(8));
		switch (below(3)) {
		case 0: /* a port of nullmodem.c, if it is there */
			strcpy(setup.gpio_chip, "ttyNM0");
			setup.source = (uint32_t)odd(RTGAUGE_SOURCE_SERIAL);
			setup.gpio_input = (uint32_t)odd(TIOCM_CAR);
			setup.gpio_output = (uint32_t)odd(below(2) ? TIOCM_RTS : TIOCM_DTR);
			break;
		case 1: /* a port of laplink.c */
			snprintf(setup.gpio_chip, sizeof(setup.gpio_chip), "parport%u",
				 below(4) ? 0 : below(5));
			setup.source = (uint32_t)odd(RTGAUGE_SOURCE_PARALLEL);
			setup.gpio_input = (uint32_t)odd(RTGAUGE_PARALLEL_INPUT);
			setup.gpio_output = (uint32_t)odd(RTGAUGE_PARALLEL_OUTPUT);
			break;
		}
		setup.flags = (uint32_t)odd(below(1 << 9) & ~RTGAUGE_SETUP_DITHER);
		setup.contexts = (uint32_t)odd(1U << below(6));
		setup.interval_ns = setup.periods = 0;
		if (setup.flags & RTGAUGE_SETUP_DELAY_SLEEP || !below(4))
			setup.delay_ns = setup.delay_every = (uint32_t)odd(1 + below(1000));
	} else if (!below(8)) {
		snprintf(setup.gpio_chip, sizeof(setup.gpio_chip), "chip%u", below(3));
	}
	if (!below(8))
		setup.gpio_output = (uint32_t)odd(3);
	if (!below(30))
		setup.storm_edges = (uint32_t)odd(100);
	if (!below(30))
		setup.debounce_us = (uint32_t)odd(100);
	return setup;
}

/* The port changes hands, and its DCD changes. */
static void fuzz_port(const int *ttys)
{
	const int line = TIOCM_DTR;
	int discipline = below(4) ? RTGAUGE_LINE_DISCIPLINE : N_TTY;

	if (below(2))
		ioctl(ttys[0], TIOCSETD, &discipline);
	else
		ioctl(ttys[1], below(2) ? TIOCMBIS : TIOCMBIC, &line);
}

/* Another driver has the parallel port or not, and pulses come. */
static void fuzz_parallel(const int *ports)
{
	unsigned char data = below(2) ? 0x02 : 0, pulse = data | 0x08;

	switch (below(4)) {
	case 0:
		ioctl(ports[0], below(2) ? PPCLAIM : PPRELEASE);
		break;
	default:
		ioctl(ports[1], PPWDATA, &pulse);
		ioctl(ports[1], PPWDATA, &data);
		break;
	}
}

/* Endless calls end by the alarm, which comes every few ms. */
static void fuzz_one(int *fd, char *bytes)
{
	uint64_t due = now_ns();
	struct rtgauge_start start = { .first_due_ns = odd(due + below(1000000)) };
	struct rtgauge_wait wait = { .seen_ns = odd(due), .flags = (uint32_t)odd(0) };
	struct rtgauge_sustain sustain = {
		.source = (uint32_t)odd(below(3)),
		.period_ns = odd(50000 + below(100000)),
		.count = 1 + below(20),
		.lost_max = (uint32_t)odd(below(10)),
	};
	struct rtgauge_setup setup;
	struct pollfd ready = { .fd = *fd, .events = POLLIN };
	void *memory;

	switch (below(14)) {
	case 0:
		close(*fd);
		*fd = open(RTGAUGE_DEVICE, below(8) ? O_RDWR : O_RDONLY | O_NONBLOCK);
		break;
	case 1:
	case 2:
		setup = fuzz_setup();
		ioctl(*fd, RTGAUGE_SETUP, &setup);
		break;
	case 3:
	case 4:
		ioctl(*fd, RTGAUGE_START, &start);
		break;
	case 5:
		ioctl(*fd, RTGAUGE_STOP);
		break;
	case 6:
		ioctl(*fd, RTGAUGE_WAIT, &wait);
		break;
	case 7:
		ioctl(*fd, RTGAUGE_STATUS, bytes);
		break;
	case 8:
		if (!below(20))
			ioctl(*fd, RTGAUGE_SUSTAIN, &sustain);
		break;
	case 9:
		ready.revents = (short)read(*fd, bytes, below(4096));
		break;
	case 10:
		poll(&ready, 1, (int)below(2));
		break;
	case 11:
		memory = mmap(NULL, odd(4096), (int)below(8), below(2) ? MAP_SHARED : MAP_PRIVATE,
			      *fd, (off_t)odd(0) & ~4095L);
		if (memory != MAP_FAILED)
			munmap(memory, 4096);
		break;
	case 12: /* anything at all, from bytes at random */
		for (int i = 0; i < 144; i++)
			bytes[i] = below(3) ? 0 : (char)random_next();
		ioctl(*fd, _IOC(below(4), RTGAUGE_IOCTL, below(9), below(200)), bytes);
		break;
	default: /* the right number, from bytes at random or from nowhere */
		for (int i = 0; i < 144; i++)
			bytes[i] = below(8) ? 0 : (char)random_next();
		memory = below(4) ? bytes : (void *)(uintptr_t)odd((uintptr_t)bytes);
		switch (below(4)) {
		case 0:
			ioctl(*fd, RTGAUGE_SETUP, memory);
			break;
		case 1:
			ioctl(*fd, RTGAUGE_START, memory);
			break;
		case 2:
			ioctl(*fd, RTGAUGE_SOURCE, memory);
			break;
		default:
			ioctl(*fd, RTGAUGE_INFO, memory);
			break;
		}
	}
}

static int fuzz(uint64_t seed, uint64_t count)
{
	struct itimerval often = { { .tv_usec = 1000 }, { .tv_usec = 1000 } };
	struct sigaction action = { .sa_handler = nothing };
	static char bytes[8192];
	int fds[FUZZ_FILES];
	int ttys[2] = { open("/dev/ttyNM0", O_RDWR | O_NOCTTY | O_NONBLOCK),
			open("/dev/ttyNM1", O_RDWR | O_NOCTTY | O_NONBLOCK) };
	int ports[2] = { open("/dev/parport0", O_RDWR), open("/dev/parport1", O_RDWR) };

	random_state = seed * 2 + 1;
	ioctl(ports[1], PPCLAIM);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < FUZZ_FILES; i++)
		fds[i] = session();
	for (uint64_t i = 0; i < count; i++) {
		if (ttys[0] >= 0 && !below(4))
			fuzz_port(ttys);
		if (ports[1] >= 0 && !below(4))
			fuzz_parallel(ports);
		fuzz_one(&fds[below(FUZZ_FILES)], bytes);
	}
	for (int i = 0; i < 2; i++) {
		close(ttys[i]);
		close(ports[i]);
	}
	for (int i = 0; i < FUZZ_FILES; i++)
		close(fds[i]);
	CHECK(true, "requests at random");
	return failures;
}

/* --- killed --- */

static void *busy_reader(void *data)
{
	static struct rtgauge_record records[64];
	int fd = *(int *)data;

	while (read(fd, records, sizeof(records)) >= 0)
		;
	return NULL;
}

/* One process that does all it can with one session, until it is killed. */
static void busy(unsigned int number)
{
	static const unsigned int contexts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 32, 36 };
	static const unsigned int sources[] = { RTGAUGE_SOURCE_HPET, RTGAUGE_SOURCE_HRTIMER,
						RTGAUGE_SOURCE_PCI };
	struct rtgauge_setup setup =
		timer_setup(contexts[number % (sizeof(contexts) / sizeof(contexts[0]))], 0);
	struct rtgauge_start start = {};
	struct rtgauge_wait wait = {};
	pthread_t reader;
	int fd = session();

	setup.source = sources[number % 3];
	setup.interval_ns = setup.source == RTGAUGE_SOURCE_PCI ? 100000 : 50000;
	if (number % 5 == 4) {
		struct rtgauge_sustain sustain = { .period_ns = 100000, .count = 1000000 };

		ioctl(fd, RTGAUGE_SUSTAIN, &sustain);
	}
	if (!ioctl(fd, RTGAUGE_SETUP, &setup) && !ioctl(fd, RTGAUGE_START, &start)) {
		pthread_create(&reader, NULL, busy_reader, &fd);
		mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		while (!ioctl(fd, RTGAUGE_WAIT, &wait))
			wait.seen_ns = now_ns();
		pthread_join(reader, NULL);
	}
	for (;;)
		pause();
}

static int killed(unsigned int count)
{
	int wrong = 0;

	for (unsigned int i = 0; i < count; i++) {
		pid_t pids[3];
		int status;

		for (unsigned int n = 0; n < 3; n++) {
			pids[n] = fork();
			if (!pids[n])
				busy(i + n);
		}
		usleep(1000 + i % 7 * 3000);
		for (unsigned int n = 0; n < 3; n++) {
			kill(pids[n], SIGKILL);
			waitpid(pids[n], &status, 0);
			wrong += !WIFSIGNALED(status);
		}
	}
	CHECK(!wrong, "killed readers");
	return failures;
}

/* --- offline --- */

static int offline(unsigned int cpu)
{
	struct rtgauge_start start = {};
	struct rtgauge_status status;
	struct rtgauge_wait wait = {};
	static struct rtgauge_record records[4096];

	for (unsigned int source = 1; source <= 2; source++) {
		struct rtgauge_setup setup = timer_setup(7, 0);
		int fd = session(), ready = session();
		ssize_t size;

		setup.cpu = cpu;
		setup.source = source;
		if (ioctl(fd, RTGAUGE_SETUP, &setup) && errno == ENODEV)
			break;
		start.first_due_ns = 0;
		CHECK(!ioctl(fd, RTGAUGE_START, &start) && !ioctl(fd, RTGAUGE_WAIT, &wait),
		      "a session on it");
		setup = timer_setup(7, 0);
		setup.cpu = cpu;
		CHECK(!ioctl(ready, RTGAUGE_SETUP, &setup), "another one ready");
		CHECK(set_online(cpu, false), "the CPU goes offline");
		CHECK(!ioctl(fd, RTGAUGE_STATUS, &status) && status.state == RTGAUGE_STATE_FAILED &&
			      status.failure == RTGAUGE_FAILURE_CPU_OFFLINE,
		      "STATUS says why it ended");
		do {
			wait.seen_ns = now_ns();
		} while (!ioctl(fd, RTGAUGE_WAIT, &wait));
		CHECK(errno == EIO, "WAIT: EIO");
		do {
			size = read(fd, records, sizeof(records));
		} while (size > 0);
		CHECK(fails((int)size, EIO), "read: EIO after the last record");
		CHECK(fails(ioctl(ready, RTGAUGE_START, &start), ENXIO), "START: ENXIO");
		close(ready);
		close(fd);
		CHECK(set_online(cpu, true), "the CPU comes back");
	}
	return failures;
}

int main(int argc, char **argv)
{
	int result = 2;

	if (argc == 2 && !strcmp(argv[1], "calls"))
		result = calls();
	else if (argc == 4 && !strcmp(argv[1], "fuzz"))
		result = fuzz(strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
	else if (argc == 3 && !strcmp(argv[1], "killed"))
		result = killed((unsigned int)strtoul(argv[2], NULL, 0));
	else if (argc == 4 && !strcmp(argv[1], "reload"))
		result = reload(argv[2], (unsigned int)strtoul(argv[3], NULL, 0), busy, 0, 2);
	else if (argc == 3 && !strcmp(argv[1], "offline"))
		result = offline((unsigned int)strtoul(argv[2], NULL, 0));
	if (argc > 1)
		printf("1..%d\n", tests);
	return result != 0;
}
