// SPDX-License-Identifier: Apache-2.0
/*
 * What the tests of `explain` put on an emulated board, as a load:
 *   fifo LENGTH_US PERIOD_US  a task of SCHED_FIFO 99 that computes once in each period
 *   storm TASKS PERIOD_US     tasks of SCHED_FIFO 1 whose timers expire at the same instants, so
 *                             that one interrupt wakes all of them
 *   stat [NAME]               a task that reads the state of all processes, or of those of a name,
 *                             as `top` does, which holds a lock of each
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void sleep_until(int64_t when_ns)
{
	struct timespec time = { when_ns / 1000000000, when_ns % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static void periodic(int priority, int64_t length_ns, int64_t period_ns)
{
	struct sched_param param = { .sched_priority = priority };

	/* the function of musl refuses */
	if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &param))
		exit(1);
	for (int64_t due = now_ns() / period_ns * period_ns;;) {
		due += period_ns;
		sleep_until(due);
		for (int64_t until = now_ns() + length_ns; now_ns() < until;)
			;
	}
}

static void read_states(const char *name)
{
	char path[300], text[1024], begin[40];

	snprintf(begin, sizeof(begin), "(%s", name);

	for (;;) {
		DIR *folder = opendir("/proc");
		struct dirent *entry;

		while (folder && (entry = readdir(folder))) {
			int file;

			snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
			file = entry->d_name[0] > '9' ? -1 : open(path, O_RDONLY);
			if (file < 0)
				continue;
			for (int again = 0; again < 100; again++) {
				ssize_t length = pread(file, text, sizeof(text) - 1, 0);

				text[length > 0 ? length : 0] = '\0';
				if (length <= 0 || !strstr(text, begin))
					break;
			}
			close(file);
		}
		closedir(folder);
	}
}

int main(int argc, char **argv)
{
	char name[16];

	prctl(PR_SET_PDEATHSIG, 9);
	if (argc < 2)
		return 2;
	snprintf(name, sizeof(name), "test-%s", argv[1]);
	prctl(PR_SET_NAME, name);
	if (!strcmp(argv[1], "fifo") && argc == 4)
		periodic(99, atoi(argv[2]) * 1000, atoi(argv[3]) * 1000);
	if (!strcmp(argv[1], "storm") && argc == 4) {
		for (int task = 1; task < atoi(argv[2]) && fork(); task++)
			;
		periodic(1, 0, atoi(argv[3]) * 1000);
	}
	if (!strcmp(argv[1], "stat"))
		read_states(argc > 2 ? argv[2] : "");
	return 2;
}
