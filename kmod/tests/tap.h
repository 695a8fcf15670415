/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs of this folder share: their results as TAP, and the calls of a session. */
#ifndef RTGAUGE_TESTS_TAP_H
#define RTGAUGE_TESTS_TAP_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../rtgauge.h"

#define BOTH (RTGAUGE_SETUP_RISING | RTGAUGE_SETUP_FALLING)
#define US 1000ULL
#define MS 1000000ULL

static int tests, failures;

static inline void check(bool held, const char *what, int line)
{
	int err = errno;

	tests++;
	failures += !held;
	if (held)
		printf("ok %d - %s\n", tests, what);
	else
		printf("not ok %d - %s (line %d, errno %d %s)\n", tests, what, line, err,
		       strerror(err));
	fflush(stdout);
}

#define CHECK(condition, what) check(condition, what, __LINE__)

static inline bool fails(long returned, int error)
{
	return returned == -1 && errno == error;
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline int session(void)
{
	int fd = open(RTGAUGE_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		perror(RTGAUGE_DEVICE);
		exit(1);
	}
	return fd;
}

static inline bool set_online(unsigned int cpu, bool online)
{
	char path[64];
	int fd;
	bool done;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	done = fd >= 0 && write(fd, online ? "1" : "0", 1) == 1;
	close(fd);
	return done;
}

#endif
