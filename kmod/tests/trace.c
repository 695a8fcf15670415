// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/rtgauge_trace, tried from outside: every request with what is valid and what is not, then
 * requests and reads at random. Runs as root in a guest. Writes TAP to stdout. Exit status 0: all
 * held.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../trace.h"
#include "tap.h"

#define TRIALS 20000

static char page[RTGAUGE_TRACE_PAGE + 1];

static int device(void)
{
	return open(RTGAUGE_TRACE_DEVICE, O_RDONLY | O_CLOEXEC);
}

static bool start_fails(int fd, uint32_t cpu, uint32_t room, int error)
{
	struct rtgauge_trace_start start = { .cpu = cpu, .room = room };

	return fails(ioctl(fd, RTGAUGE_TRACE_START, &start), error);
}

/* The names of the stack of an event. -1: it is not whole, or not within the event. */
static int names_of(const char *data, size_t size)
{
	uint32_t where;
	uint16_t number;
	int names = 0;

	if (size < 104)
		return -1;
	memcpy(&number, data, sizeof(number));
	memcpy(&where, data + 48, sizeof(where)); /* __data_loc */
	if (number < 3)
		return number ? 0 : -1; /* a switch or a waking */
	if (!where)
		return 0;
	if ((where & 0xffff) + (where >> 16) > size || data[where & 0xffff] != '<')
		return -1;
	for (size_t i = where & 0xffff; i < (where & 0xffff) + (where >> 16); i++) {
		if ((unsigned char)data[i] < ' ')
			return -1;
		names += data[i] == '<';
	}
	return names;
}

static uint64_t busy_until; /* stacks begin after this: they take a ninth of the time at most */
static unsigned int early;  /* stacks that began before */
static uint64_t entered_ns; /* the last entry of a handler with a stack, 0: none yet */
static uint32_t stack_ns;

/* One event of a CPU: from the entry of a handler with a stack to its exit, which the stack is before. */
static void rate_of(const char *data, uint64_t time_ns)
{
	static uint16_t left;
	uint32_t where;
	uint16_t number;

	memcpy(&number, data, sizeof(number));
	memcpy(&where, data + 48, sizeof(where));
	if ((number == 3 || (number >= 9 && number % 2)) && where) {
		entered_ns = time_ns;
		stack_ns = 0;
		memcpy(&stack_ns, data + 52, 4);
		left = number + 1;
	} else if (number == left && entered_ns) {
		early += time_ns - stack_ns < busy_until;
		busy_until = entered_ns + 9ULL * stack_ns;
		entered_ns = 0;
	}
}

/* Whether an event has an address of the kernel, whose place is a secret. */
static bool has_address(const char *data, size_t size)
{
	uint64_t word;

	for (size_t at = 8; at + 8 <= size && at < 56; at += 8) {
		memcpy(&word, data + at, sizeof(word));
		/* a priority of -1 is before a process ID */
		if (word >> 48 == 0xffff && (word >> 32 != 0xffffffff || word & 1U << 31))
			return true;
	}
	return false;
}

/* Times of a page ascend, its entries fill what it says, their stacks are within them, and they have no
 * address. */
static bool page_holds(size_t *events, int *deepest)
{
	uint64_t commit, time_ns;
	uint32_t word;
	size_t at = 16, size;
	int names;

	memcpy(&time_ns, page, sizeof(time_ns));
	memcpy(&commit, page + 8, sizeof(commit));
	commit = (commit & ((1 << 20) - 1)) + 16;
	while (at + 4 <= commit) {
		memcpy(&word, page + at, sizeof(word));
		time_ns += word >> 5;
		at += 4;
		size = 4 * (word & 31);
		if (!size) {
			memcpy(&word, page + at, sizeof(word));
			at += 4;
			size = word - 4;
		}
		if (at + size > commit)
			return false;
		names = names_of(page + at, size);
		if (names < 0 || names > 18 || has_address(page + at, size))
			return false;
		rate_of(page + at, time_ns);
		*deepest = names > *deepest ? names : *deepest;
		at += size;
		++*events;
	}
	return at == commit && commit <= RTGAUGE_TRACE_PAGE;
}

/* Interrupts that find the kernel at work, and after which another task has to run. */
static void busy_calls(int count, int pause_us)
{
	struct sched_param priority = { .sched_priority = 50 };
	pid_t sleeper = fork();

	if (!sleeper) {
		sched_setscheduler(0, SCHED_FIFO, &priority);
		for (int i = 0; i < count; i++)
			usleep(pause_us);
		_exit(0);
	}
	while (!waitpid(sleeper, NULL, WNOHANG))
		sched_yield();
}

static void test_pages(int fd)
{
	uint64_t before = 0, begin;
	bool held = true;
	size_t events = 0;
	long got, number = 0;
	int deepest = 0;

	while ((got = pread(fd, page, RTGAUGE_TRACE_PAGE, number * RTGAUGE_TRACE_PAGE)) > 0) {
		memcpy(&begin, page, sizeof(begin));
		held = held && got == RTGAUGE_TRACE_PAGE && begin >= before &&
		       page_holds(&events, &deepest);
		before = begin;
		number++;
	}
	CHECK(!got && number && held && events > 20, "pages are in order, and whole");
	CHECK(deepest >= 3, "stacks of what interrupts found");
	CHECK(fails(pread(fd, page, RTGAUGE_TRACE_PAGE, (number + 2) * RTGAUGE_TRACE_PAGE), EINVAL),
	      "a page out of order");
}

/* A page that could not be copied can be read again. */
static void test_again(int fd)
{
	static char first[RTGAUGE_TRACE_PAGE];
	void *volatile nowhere = NULL;
	bool same;

	same = pread(fd, page, RTGAUGE_TRACE_PAGE, 0) > 0 &&
	       pread(fd, first, sizeof(first), RTGAUGE_TRACE_PAGE) > 0 &&
	       pread(fd, page, RTGAUGE_TRACE_PAGE, 0) > 0 &&
	       fails(pread(fd, nowhere, RTGAUGE_TRACE_PAGE, RTGAUGE_TRACE_PAGE), EFAULT) &&
	       pread(fd, page, RTGAUGE_TRACE_PAGE, RTGAUGE_TRACE_PAGE) > 0;
	CHECK(same && !memcmp(page, first, sizeof(first)), "after a fault, the page again");
}

/* Whether the trace taken of a CPU contains a stack. */
static bool has_stack(int fd, long long cpu)
{
	size_t events = 0;
	long number = 0;
	int deepest = 0;

	while (!deepest && pread(fd, page, RTGAUGE_TRACE_PAGE,
				 cpu * RTGAUGE_TRACE_CPU + number++ * RTGAUGE_TRACE_PAGE) > 0)
		page_holds(&events, &deepest);
	return deepest > 0;
}

/* The interrupts come faster than stacks can be saved. */
static void test_rate(int fd)
{
	size_t events = 0;
	long number = 0;
	int deepest = 0;

	while (pread(fd, page, RTGAUGE_TRACE_PAGE, number++ * RTGAUGE_TRACE_PAGE) > 0)
		page_holds(&events, &deepest);
	CHECK(events && !early, "stacks leave most of the time");
}

/* The rings are exchanged while the other CPU is in a handler, and its stacks are saved as before. */
static void test_other_cpu(void)
{
	struct rtgauge_trace_start start = { .cpu = 1, .room = 65536 };
	int fd = device(), status;
	int most = 0, without = 0;
	cpu_set_t second;
	pid_t busy;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		close(fd);
		return;
	}
	busy = fork();
	if (!busy) {
		close(fd);
		CPU_ZERO(&second);
		CPU_SET(1, &second);
		sched_setaffinity(0, sizeof(second), &second);
		for (;;)
			busy_calls(2000, 97);
	}
	CHECK(!ioctl(fd, RTGAUGE_TRACE_START, &start), "it traces the other CPU");
	for (int i = 0; i < 100; i++) {
		usleep(50000);
		ioctl(fd, RTGAUGE_TRACE_TAKE);
		without = has_stack(fd, 1) ? 0 : without + 1;
		most = without > most ? without : most;
	}
	printf("# at most %d times in a row without a stack\n", most);
	CHECK(most < 30, "stacks after an exchange in a handler");
	kill(busy, SIGKILL);
	waitpid(busy, &status, 0);
	close(fd);
}

static void test_calls(void)
{
	struct rtgauge_trace_start start = { .cpu = 0, .room = 5000 };
	int fd = device(), texts = 0;
	void *volatile nowhere = NULL;

	CHECK(fd >= 0, "the device");
	CHECK(fails(device(), EBUSY), "one file at a time");
	CHECK(fails(ioctl(fd, RTGAUGE_TRACE_TAKE), EBUSY), "nothing is traced yet");
	CHECK(fails(pread(fd, page, RTGAUGE_TRACE_PAGE, 0), EINVAL), "no page yet");
	CHECK(pread(fd, page, 100, RTGAUGE_TRACE_FORMAT) == 0, "no format yet");
	CHECK(fails(ioctl(fd, _IO(0xD7, 0x30)), ENOTTY), "an unknown request");
	CHECK(fails(ioctl(fd, RTGAUGE_TRACE_START, NULL), EFAULT), "no structure");
	CHECK(start_fails(fd, 1 << 20, 5000, EINVAL), "a CPU that cannot be");
	CHECK(start_fails(fd, UINT32_MAX, 5000, EINVAL), "no CPU");
	CHECK(start_fails(fd, 0, RTGAUGE_TRACE_ROOM_MIN - 1, EINVAL), "too little room");
	CHECK(start_fails(fd, 0, RTGAUGE_TRACE_ROOM_MAX + 1, EINVAL), "too much room");
	CHECK(!ioctl(fd, RTGAUGE_TRACE_START, &start), "it starts");
	CHECK(start_fails(fd, 0, 5000, EBUSY), "a CPU twice");
	CHECK(fails(syscall(SYS_delete_module, "rtgauge", O_NONBLOCK), EAGAIN),
	      "the module stays while it traces");
	for (int i = 0; i < 40; i++)
		texts += pread(fd, page, 4096, RTGAUGE_TRACE_FORMAT + i * 16384LL) > 100;
	CHECK(texts >= 8 && texts <= 20, "formats of the events");
	busy_calls(2000, 97);
	CHECK(!ioctl(fd, RTGAUGE_TRACE_TAKE), "it takes");
	test_pages(fd);
	busy_calls(400, 5);
	ioctl(fd, RTGAUGE_TRACE_TAKE);
	test_rate(fd);
	CHECK(fails(pread(fd, page, 100, 0), EINVAL), "less than a page");
	CHECK(fails(pread(fd, page, RTGAUGE_TRACE_PAGE, 3), EINVAL), "between two pages");
	CHECK(fails(pread(fd, page, RTGAUGE_TRACE_PAGE, 100000 * RTGAUGE_TRACE_CPU), EINVAL),
	      "a page of a CPU that cannot be");
	CHECK(fails(pread(fd, nowhere, RTGAUGE_TRACE_PAGE, 0), EFAULT), "a page to nowhere");
	test_again(fd);
	close(fd);
	fd = device();
	CHECK(fd >= 0 && fails(ioctl(fd, RTGAUGE_TRACE_TAKE), EBUSY), "closed, and open again");
	close(fd);
}

static bool observe_fails(int fd, uint32_t pid, uint32_t room, int error)
{
	struct rtgauge_trace_observe observe = { .pid = pid, .room = room };

	return fails(ioctl(fd, RTGAUGE_TRACE_OBSERVE, &observe), error);
}

/* What read() gives in one call, whole records of known kinds. -1: they are not. */
static int observed(int fd, size_t size, struct rtgauge_observed *records)
{
	long got = read(fd, records, size);
	int count = (int)(got / (long)sizeof(*records));

	if (got < 0 || got % (long)sizeof(*records))
		return -1;
	for (int i = 0; i < count; i++)
		if (records[i].kind > RTGAUGE_OBSERVED_LOSS ||
		    (records[i].prev && records[i].prev != getpid()) ||
		    (records[i].next && records[i].next != getpid()))
			return -1;
	return count;
}

static uint32_t lost_of(const struct rtgauge_observed *records, int count)
{
	uint32_t lost = 0;

	for (int i = 0; i < count; i++)
		lost += records[i].lost;
	return lost;
}

/* Each sleep of this program is a switch away, a waking, and a switch back. On several CPUs the waking
 * may be in another ring than the switches. */
static void test_observing(int fd)
{
	static struct rtgauge_observed records[2 * RTGAUGE_TRACE_ROOM_MIN + 2];
	bool one_cpu = sysconf(_SC_NPROCESSORS_ONLN) == 1;
	int count, seen[3] = { 0 };

	CHECK(!ioctl(fd, RTGAUGE_TRACE_RECORD, 1), "it records");
	for (int i = 0; i < 10; i++)
		usleep(1000);
	CHECK(!ioctl(fd, RTGAUGE_TRACE_RECORD, 0), "it stops recording");
	usleep(1000);
	count = observed(fd, sizeof(records), records);
	for (int i = 0; i < count; i++)
		seen[records[i].kind]++;
	CHECK(count >= 30 && seen[RTGAUGE_OBSERVED_WAKING] >= 10 &&
		      seen[RTGAUGE_OBSERVED_SWITCH] >= 20,
	      "switches and wakings of ten sleeps");
	for (int i = 1; i < count; i++)
		if (one_cpu && records[i].time_ns < records[i - 1].time_ns)
			count = 0;
	CHECK(count && !lost_of(records, count), "in order, without a loss");
	CHECK(!observed(fd, sizeof(records), records), "and no more");
	ioctl(fd, RTGAUGE_TRACE_RECORD, 1);
	for (int i = 0; i < RTGAUGE_TRACE_ROOM_MIN; i++)
		usleep(100);
	ioctl(fd, RTGAUGE_TRACE_RECORD, 0);
	count = observed(fd, 30 * sizeof(records[0]), records);
	CHECK(count == 30 && !lost_of(records, count), "no more than there is room for");
	count = observed(fd, sizeof(records), records);
	CHECK(30 + count - one_cpu >= RTGAUGE_TRACE_ROOM_MIN &&
		      30 + count - 1 + (int)lost_of(records, count) >= 3 * RTGAUGE_TRACE_ROOM_MIN &&
		      (!one_cpu || records[count - 1].kind == RTGAUGE_OBSERVED_LOSS),
	      "a full ring, and what it lost");
	ioctl(fd, RTGAUGE_TRACE_RECORD, 1);
	usleep(1000);
	ioctl(fd, RTGAUGE_TRACE_RECORD, 0);
	count = observed(fd, sizeof(records), records);
	CHECK(count >= 3 && !lost_of(records, count), "the loss is reported once");
}

/* Sleeps that left the CPU: a host that stalls it may end one before. */
static long slept(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

/* A thread that moves from the last CPU to the first: its records are in two rings. They have room for
 * each sleep, also on a machine that is stalled: a record of a loss has no time. */
static void test_moving(int fd)
{
	static struct rtgauge_observed records[1024];
	struct rtgauge_trace_observe observe = { .pid = (uint32_t)getpid(), .room = 1024 };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), expected = 0;
	int count, got, unordered = 0;
	char text[100];

	ioctl(fd, RTGAUGE_TRACE_OBSERVE, &observe);
	ioctl(fd, RTGAUGE_TRACE_RECORD, 1);
	for (long cpu = cpus - 1; cpu >= 0; cpu -= cpus > 1 ? cpus - 1 : 1) {
		cpu_set_t one;
		long before;

		CPU_ZERO(&one);
		CPU_SET((size_t)cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		before = slept();
		for (int i = 0; i < 50 && slept() < before + 5; i++)
			usleep(1000);
		expected += 3 * 5; /* the switches from and to the task, and the waking between */
	}
	ioctl(fd, RTGAUGE_TRACE_RECORD, 0);
	/* a call gives at most one page */
	for (count = 0; (got = observed(fd, sizeof(records[0]) * (size_t)(1024 - count),
					records + count)) > 0;)
		count += got;
	for (int i = 1; i < count; i++)
		unordered += records[i].time_ns < records[i - 1].time_ns;
	snprintf(text, sizeof(text),
		 "%d records of two CPUs, at least %ld, %d out of order, %u lost", count, expected,
		 unordered, lost_of(records, count));
	CHECK(!got && count >= expected && !unordered && !lost_of(records, count), text);
}

static void test_observe(void)
{
	struct rtgauge_trace_observe observe = { .pid = (uint32_t)getpid(),
						 .room = RTGAUGE_TRACE_ROOM_MIN };
	struct rtgauge_trace_start start = { .cpu = 0, .room = 5000 };
	void *volatile nowhere = NULL;
	int fd = device(), status = 1;

	CHECK(fails(ioctl(fd, RTGAUGE_TRACE_RECORD, 1), EBUSY), "nothing is observed yet");
	CHECK(fails(ioctl(fd, RTGAUGE_TRACE_OBSERVE, NULL), EFAULT), "no structure to observe");
	CHECK(observe_fails(fd, 0x3fffffff, 64, ESRCH), "a process that is not there");
	CHECK(observe_fails(fd, 0, 64, ESRCH), "no process");
	CHECK(observe_fails(fd, observe.pid, RTGAUGE_TRACE_ROOM_MIN - 1, EINVAL),
	      "too little room to observe");
	CHECK(observe_fails(fd, observe.pid, RTGAUGE_TRACE_ROOM_MAX + 1, EINVAL),
	      "too much room to observe");
	if (!unshare(CLONE_NEWPID) && !fork()) {
		observe.pid = 1;
		_exit(!fails(ioctl(fd, RTGAUGE_TRACE_OBSERVE, &observe), EOPNOTSUPP));
	}
	CHECK(wait(&status) > 0 && !status, "a process of another namespace");
	CHECK(!ioctl(fd, RTGAUGE_TRACE_OBSERVE, &observe), "it observes");
	CHECK(observe_fails(fd, observe.pid, 64, EBUSY), "it observes already");
	CHECK(start_fails(fd, 0, start.room, EBUSY), "it does not trace then");
	CHECK(fails(ioctl(fd, RTGAUGE_TRACE_TAKE), EBUSY), "nor take");
	CHECK(!read(fd, page, sizeof(page)), "nothing is recorded yet");
	test_observing(fd);
	close(fd);
	fd = device();
	test_moving(fd);
	ioctl(fd, RTGAUGE_TRACE_RECORD, 1);
	usleep(1000);
	CHECK(fails(read(fd, nowhere, RTGAUGE_TRACE_PAGE), EFAULT), "records to nowhere");
	close(fd);
	fd = device();
	CHECK(!ioctl(fd, RTGAUGE_TRACE_START, &start) && observe_fails(fd, observe.pid, 64, EBUSY),
	      "closed, and tracing does not observe");
	close(fd);
}

static void test_random(void)
{
	struct rtgauge_trace_observe observe;
	struct rtgauge_trace_start start;
	int fd = device();
	bool held = fd >= 0;
	long got;

	srandom(7);
	for (int i = 0; i < TRIALS && held; i++) {
		uint64_t bits = (uint64_t)random() << 33 ^ (uint64_t)random() << 8 ^ random();

		switch (random() % 10) {
		case 0:
			start.cpu = random() % 3;
			start.room = random() % 70000;
			ioctl(fd, RTGAUGE_TRACE_START, &start);
			break;
		case 1:
			/* it waits for a grace period */
			if (!(random() % 16))
				ioctl(fd, RTGAUGE_TRACE_TAKE);
			break;
		case 2:
			ioctl(fd, (unsigned int)bits, &start);
			break;
		case 3:
			got = pread(fd, page, random() % 5000, bits & INT64_MAX);
			held = got <= RTGAUGE_TRACE_PAGE;
			break;
		case 4:
			got = pread(fd, page, RTGAUGE_TRACE_PAGE,
				    random() % 4 * RTGAUGE_TRACE_PAGE);
			/* less if it observes */
			held = got <= RTGAUGE_TRACE_PAGE;
			break;
		case 5:
			held = pread(fd, page, random() % 4096,
				     RTGAUGE_TRACE_FORMAT + random() % (1 << 20)) <= 4096;
			break;
		case 6:
			lseek(fd, bits & INT64_MAX, SEEK_SET);
			held = read(fd, page, RTGAUGE_TRACE_PAGE) <= RTGAUGE_TRACE_PAGE;
			break;
		case 7:
			observe.pid = random() % 2 ? (uint32_t)getpid() : (uint32_t)bits;
			observe.room = random() % 70000;
			ioctl(fd, RTGAUGE_TRACE_OBSERVE, &observe);
			break;
		case 8:
			ioctl(fd, RTGAUGE_TRACE_RECORD, bits & 1);
			break;
		default:
			if (random() % 64)
				break;
			close(fd);
			fd = device();
			held = fd >= 0;
		}
	}
	CHECK(held, "requests at random");
	close(fd);
}

int main(void)
{
	cpu_set_t first;

	/* the CPU that is traced */
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	setvbuf(stdout, NULL, _IOLBF, 0);
	test_calls();
	test_other_cpu();
	test_observe();
	test_random();
	printf("1..%d\n", tests);
	return failures || !tests;
}
