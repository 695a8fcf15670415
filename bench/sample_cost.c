// SPDX-License-Identifier: Apache-2.0
/*
 * What a program costs on one CPU while it measures, for bench/sample_cost.py.
 *
 *     sample_cost SETTLE_MS WINDOW_MS BUSY_MS [PROGRAM ARGUMENT...]
 *         starts the program, lets it come to rest, and looks at it for two windows; then ends it by
 *         SIGINT and prints one JSON document:
 *         threads: of each thread of the program, in the first window: name, ns on a CPU, turns there
 *         rounds: of a loop that has the CPU when no other task wants it, in the second window
 *         turns: those of the thread with the most of them, in the second window
 *
 * Without a program the rounds are those of the machine alone. The first window is a sleep, so that
 * the CPU idles between the samples as it would in use.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 16
#define ROUNDS_PER_READING 1000
#define NSEC_PER_MSEC 1000000LL
#define NSEC_PER_SEC 1000000000LL

struct thread {
	int id;
	char name[32];
	uint64_t run_ns;
	uint64_t turns;
};

struct threads {
	int count;
	struct thread of[THREADS_MAX];
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

static void sleep_until(int64_t time_ns)
{
	struct timespec until = { time_ns / NSEC_PER_SEC, time_ns % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
		;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* The first line of a file of a thread. */
static void line_of(pid_t pid, const char *thread, const char *name, char *line, int size)
{
	char path[300];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/%s", (int)pid, thread, name);
	file = fopen(path, "r");
	if (!file || !fgets(line, size, file))
		fail(path);
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
}

static void look(pid_t pid, struct threads *found)
{
	char path[64], line[128];
	struct dirent *entry;
	DIR *folder;

	found->count = 0;
	if (!pid)
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	if (!folder)
		fail(path);
	while ((entry = readdir(folder))) {
		struct thread *thread = &found->of[found->count];

		if (entry->d_name[0] == '.')
			continue;
		if (found->count++ == THREADS_MAX)
			exit(1);
		thread->id = atoi(entry->d_name);
		line_of(pid, entry->d_name, "comm", thread->name, sizeof(thread->name));
		line_of(pid, entry->d_name, "schedstat", line, sizeof(line));
		if (sscanf(line, "%" SCNu64 " %*u %" SCNu64, &thread->run_ns, &thread->turns) != 2)
			exit(1);
	}
	closedir(folder);
}

/* What came in between; the threads have to be the same. */
static void subtract(struct threads *after, const struct threads *before)
{
	if (after->count != before->count) {
		fprintf(stderr, "threads came or went: %d, %d\n", before->count, after->count);
		exit(1);
	}
	for (int i = 0; i < after->count; i++) {
		if (after->of[i].id != before->of[i].id) {
			fprintf(stderr, "threads came and went\n");
			exit(1);
		}
		after->of[i].run_ns -= before->of[i].run_ns;
		after->of[i].turns -= before->of[i].turns;
	}
}

static pid_t start(char **words)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid) {
		int nowhere = open("/dev/null", O_RDWR);

		dup2(nowhere, 0);
		dup2(nowhere, 1);
		execv(words[0], words);
		fail(words[0]);
	}
	return pid;
}

/* A loop that runs when no other task wants to: SCHED_IDLE. */
static uint64_t rounds_until(int64_t time_ns)
{
	uint64_t rounds = 0;

	do {
		for (int i = 0; i < ROUNDS_PER_READING; i++)
			__asm__ volatile("" ::: "memory");
		rounds += ROUNDS_PER_READING;
	} while (now_ns() < time_ns);
	return rounds;
}

int main(int argc, char **argv)
{
	const struct sched_param none = { 0 };
	struct threads before, after;
	int64_t time_ns;
	uint64_t rounds, turns = 0;
	pid_t pid = 0;
	int status;

	if (argc < 4)
		return 2;
	if (argc > 4)
		pid = start(argv + 4);
	time_ns = now_ns() + atoll(argv[1]) * NSEC_PER_MSEC;
	sleep_until(time_ns);
	if (pid && waitpid(pid, &status, WNOHANG)) {
		fprintf(stderr, "%s ended at once\n", argv[4]);
		return 1;
	}
	look(pid, &before);
	time_ns = now_ns() + atoll(argv[2]) * NSEC_PER_MSEC;
	sleep_until(time_ns);
	look(pid, &after);
	subtract(&after, &before);
	printf("{\"threads\": [");
	for (int i = 0; i < after.count; i++)
		printf("%s[\"%s\", %" PRIu64 ", %" PRIu64 "]", i ? ", " : "", after.of[i].name,
		       after.of[i].run_ns, after.of[i].turns);

	if (sched_setscheduler(0, SCHED_IDLE, &none))
		fail("SCHED_IDLE");
	look(pid, &before);
	rounds = rounds_until(now_ns() + atoll(argv[3]) * NSEC_PER_MSEC);
	look(pid, &after);
	subtract(&after, &before);
	for (int i = 0; i < after.count; i++)
		if (after.of[i].turns > turns)
			turns = after.of[i].turns;
	printf("], \"rounds\": %" PRIu64 ", \"turns\": %" PRIu64 "}\n", rounds, turns);
	if (pid) {
		kill(pid, SIGINT);
		waitpid(pid, &status, 0);
	}
	return 0;
}
