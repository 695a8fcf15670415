// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/rtgauge_trace, tried from outside: every request with what is valid and what is not, then
 * requests and reads at random. Runs as root in a guest. Writes TAP to stdout. Exit status 0: all
 * held.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../trace.h"

#define TRIALS 20000

static int tests, failures;
static char page[RTGAUGE_TRACE_PAGE + 1];

static void check(bool held, const char *what)
{
	printf("%sok %d - %s\n", held ? "" : "not ", ++tests, what);
	failures += !held;
}

static int device(void)
{
	return open(RTGAUGE_TRACE_DEVICE, O_RDONLY | O_CLOEXEC);
}

static bool fails(long result, int error)
{
	return result == -1 && errno == error;
}

static bool start_fails(int fd, uint32_t cpu, uint32_t room, int error)
{
	struct rtgauge_trace_start start = { .cpu = cpu, .room = room };

	return fails(ioctl(fd, RTGAUGE_TRACE_START, &start), error);
}

/* Times of a page ascend, and its entries fill what it says. */
static bool page_holds(size_t *events)
{
	uint64_t commit;
	uint32_t word;
	size_t at = 16;

	memcpy(&commit, page + 8, sizeof(commit));
	commit = (commit & ((1 << 20) - 1)) + 16;
	while (at + 4 <= commit) {
		memcpy(&word, page + at, sizeof(word));
		at += 4 + 4 * (word & 31);
		++*events;
	}
	return at == commit && commit <= RTGAUGE_TRACE_PAGE;
}

static void test_pages(int fd)
{
	uint64_t before = 0, begin;
	bool held = true;
	size_t events = 0;
	long got, number = 0;

	while ((got = pread(fd, page, RTGAUGE_TRACE_PAGE, number * RTGAUGE_TRACE_PAGE)) > 0) {
		memcpy(&begin, page, sizeof(begin));
		held = held && got == RTGAUGE_TRACE_PAGE && begin >= before && page_holds(&events);
		before = begin;
		number++;
	}
	check(!got && number && held && events > 20, "pages are in order, and whole");
	check(fails(pread(fd, page, RTGAUGE_TRACE_PAGE, 5 * RTGAUGE_TRACE_PAGE), EINVAL) ||
		      number >= 5,
	      "a page out of order");
}

static void test_calls(void)
{
	struct rtgauge_trace_start start = { .cpu = 0, .room = 5000 };
	int fd = device(), texts = 0;
	void *volatile nowhere = NULL;

	check(fd >= 0, "the device");
	check(fails(device(), EBUSY), "one file at a time");
	check(fails(ioctl(fd, RTGAUGE_TRACE_TAKE), EBUSY), "nothing is traced yet");
	check(fails(pread(fd, page, RTGAUGE_TRACE_PAGE, 0), EINVAL), "no page yet");
	check(pread(fd, page, 100, RTGAUGE_TRACE_FORMAT) == 0, "no format yet");
	check(fails(ioctl(fd, _IO(0xD7, 0x30)), ENOTTY), "an unknown request");
	check(fails(ioctl(fd, RTGAUGE_TRACE_START, NULL), EFAULT), "no structure");
	check(start_fails(fd, 1 << 20, 5000, EINVAL), "a CPU that cannot be");
	check(start_fails(fd, UINT32_MAX, 5000, EINVAL), "no CPU");
	check(start_fails(fd, 0, RTGAUGE_TRACE_ROOM_MIN - 1, EINVAL), "too little room");
	check(start_fails(fd, 0, RTGAUGE_TRACE_ROOM_MAX + 1, EINVAL), "too much room");
	check(!ioctl(fd, RTGAUGE_TRACE_START, &start), "it starts");
	check(start_fails(fd, 0, 5000, EBUSY), "a CPU twice");
	for (int i = 0; i < 40; i++)
		texts += pread(fd, page, 4096, RTGAUGE_TRACE_FORMAT + i * 16384LL) > 100;
	check(texts >= 8 && texts <= 20, "formats of the events");
	usleep(50000);
	check(!ioctl(fd, RTGAUGE_TRACE_TAKE), "it takes");
	test_pages(fd);
	check(fails(pread(fd, page, 100, 0), EINVAL), "less than a page");
	check(fails(pread(fd, page, RTGAUGE_TRACE_PAGE, 3), EINVAL), "between two pages");
	check(fails(pread(fd, page, RTGAUGE_TRACE_PAGE, 100000 * RTGAUGE_TRACE_CPU), EINVAL),
	      "a page of a CPU that cannot be");
	check(fails(pread(fd, nowhere, RTGAUGE_TRACE_PAGE, 0), EFAULT), "a page to nowhere");
	close(fd);
	fd = device();
	check(fd >= 0 && fails(ioctl(fd, RTGAUGE_TRACE_TAKE), EBUSY), "closed, and open again");
	close(fd);
}

static void test_random(void)
{
	struct rtgauge_trace_start start;
	int fd = device();
	bool held = fd >= 0;
	long got;

	srandom(7);
	for (int i = 0; i < TRIALS && held; i++) {
		uint64_t bits = (uint64_t)random() << 33 ^ (uint64_t)random() << 8 ^ random();

		switch (random() % 8) {
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
			held = got <= 0 || got == RTGAUGE_TRACE_PAGE;
			break;
		case 5:
			held = pread(fd, page, random() % 4096,
				     RTGAUGE_TRACE_FORMAT + random() % (1 << 20)) <= 4096;
			break;
		case 6:
			lseek(fd, bits & INT64_MAX, SEEK_SET);
			held = read(fd, page, RTGAUGE_TRACE_PAGE) <= RTGAUGE_TRACE_PAGE;
			break;
		default:
			if (random() % 64)
				break;
			close(fd);
			fd = device();
			held = fd >= 0;
		}
	}
	check(held, "requests at random");
	close(fd);
}

int main(void)
{
	test_calls();
	test_random();
	printf("1..%d\n", tests);
	return failures || !tests;
}
