/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs of this folder share: their results as TAP, and the calls of a session. */
#ifndef RTGAUGE_TESTS_TAP_H
#define RTGAUGE_TESTS_TAP_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

static inline bool remove_module(const char *module)
{
	return !syscall(SYS_delete_module, module, O_NONBLOCK);
}

static inline bool unload_refused(const char *module)
{
	return !remove_module(module) && (errno == EWOULDBLOCK || errno == EBUSY);
}

/*
 * The module loaded and removed while a process that does what it can runs: busy(). It runs for a
 * time from shortest_us on. Each round whose number, counted from 1, divides by every tries to
 * remove the module before the process is killed.
 */
static inline int reload(const char *file, unsigned int count, void (*busy)(unsigned int number),
			 unsigned int shortest_us, unsigned int every)
{
	int wrong = 0, refused = 0;

	for (unsigned int i = 0; i < count && !wrong; i++) {
		int fd = open(file, O_RDONLY | O_CLOEXEC), status;
		pid_t pid;

		wrong += syscall(SYS_finit_module, fd, "", 0) != 0;
		close(fd);
		pid = fork();
		if (!pid)
			busy(i);
		usleep(shortest_us + i % 5 * 2000);
		/* while it runs it cannot go; while the killed one's file is closed it may */
		if ((i + 1) % every == 0)
			refused += !remove_module("rtgauge");
		kill(pid, SIGKILL);
		while (!remove_module("rtgauge")) {
			if (errno == ENOENT)
				break;
			wrong += errno != EAGAIN && errno != EBUSY;
		}
		waitpid(pid, &status, 0);
	}
	CHECK(!wrong, "loaded and removed");
	printf("# %d removals refused in mid-run\n", refused);
	return failures;
}

#endif
