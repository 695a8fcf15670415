// SPDX-License-Identifier: Apache-2.0
/*
 * What the Cobalt core answers to each call that the agent makes: a line of NAME, RESULT and BYTES
 * for each, RESULT being the value or the name of the error, and BYTES how many bytes at the end of
 * what the call filled were written. On a real kernel it makes the table that the fake core has to
 * equal (tests/data/cobalt_calls.tsv).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define CALL(number) (0x10000000L | (number))
#define ROOM 512
#define REVISION_AT 20

static unsigned char filled[ROOM];

static long call(const char *name, long number, long a, long b, long c, long d, long e)
{
	static const char *const names[] = {
		[EPERM] = "EPERM",   [EINTR] = "EINTR",	       [ENOEXEC] = "ENOEXEC",
		[EBADF] = "EBADF",   [EAGAIN] = "EAGAIN",      [EINVAL] = "EINVAL",
		[EBUSY] = "EBUSY",   [ESRCH] = "ESRCH",	       [ENOSYS] = "ENOSYS",
		[EFAULT] = "EFAULT", [ETIMEDOUT] = "ETIMEDOUT"
	};
	int size = ROOM;
	long result;

	result = syscall(CALL(number), a, b, c, d, e);
	while (size > 0 && filled[size - 1] == 0xa5)
		size--;
	if (result >= 0)
		printf("%s\t%ld\t%d\n", name, result, size);
	else if (errno < (int)(sizeof(names) / sizeof(names[0])) && names[errno])
		printf("%s\t%s\t%d\n", name, names[errno], size);
	else
		printf("%s\t-%d\t%d\n", name, errno, size);
	return result;
}

static long fresh(int value)
{
	memset(filled, value, ROOM);
	return (long)filled;
}

static long bind_as(const char *name, uint32_t revision)
{
	const uint32_t request[2] = { 0x80000000U, revision };

	fresh(0xa5);
	memcpy(filled, request, sizeof(request));
	return call(name, 0, (long)filled, 0, 0, 0, 0);
}

int main(void)
{
	const struct timespec past = { .tv_sec = 1 }, bad = { .tv_nsec = 1000000000 };
	const struct timespec soon = { .tv_nsec = 1000000 };
	const struct itimerspec in_time = { .it_value = { .tv_nsec = 1000000 } };
	const struct itimerspec long_ago = { .it_value = { .tv_sec = 1 } };
	const struct itimerspec never = { { 0 }, { 0 } };
	int32_t param[14] = { 80 };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };
	pid_t tid = (pid_t)syscall(SYS_gettid);
	uint32_t revision;
	sigset_t alarm, blocked;
	long fd;

	event._sigev_un._tid = tid;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	blocked = alarm;
	sigaddset(&blocked, SIGXCPU); /* that it has left the core, to print */
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	mlockall(MCL_CURRENT | MCL_FUTURE);

	call("thread_getstat unbound", 9, 0, fresh(0xa5), 0, 0, 0);
	bind_as("bind revision 0", 0);
	memcpy(&revision, filled + REVISION_AT, sizeof(revision));
	printf("revision\t%u\t%d\n", revision, REVISION_AT);
	bind_as("bind", revision);
	call("thread_getschedparam of no task", 8, tid, fresh(0xa5), fresh(0xa5) + 256, 0, 0);
	call("thread_create", 1, tid, SCHED_FIFO, (long)param, 0, fresh(0xa5));
	call("thread_create twice", 1, tid, SCHED_FIFO, (long)param, 0, fresh(0xa5));
	call("thread_setmode", 3, 0, 0x4000, 0, 0, fresh(0xa5));
	call("thread_setmode of no mode", 3, 0, 1, 0, 0, fresh(0xa5));
	call("thread_getstat", 9, 0, fresh(0xa5), 0, 0, 0);
	call("thread_getschedparam", 8, tid, fresh(0xa5), (long)filled + 256, 0, 0);
	fresh(0xa5);
	call("clock_nanosleep until the past", 25, CLOCK_MONOTONIC, TIMER_ABSTIME, (long)&past, 0,
	     0);
	call("clock_nanosleep for 1 ms", 25, CLOCK_REALTIME, 0, (long)&soon, (long)filled, 0);
	call("clock_nanosleep of a wrong time", 25, CLOCK_MONOTONIC, TIMER_ABSTIME, (long)&bad, 0,
	     0);
	call("timer_create", 52, CLOCK_MONOTONIC, (long)&event, fresh(0xa5), 0, 0);
	fresh(0xa5);
	call("timer_settime for 1 ms", 116, 0, 0, (long)&in_time, 0, 0);
	call("sigwaitinfo", 61, (long)&alarm, fresh(0xa5), 0, 0, 0);
	fresh(0xa5);
	call("timer_settime until the past", 116, 0, TIMER_ABSTIME, (long)&long_ago, 0, 0);
	call("sigwaitinfo of the past", 61, (long)&alarm, fresh(0xa5), 0, 0, 0);
	fresh(0xa5);
	call("timer_delete", 53, 0, 0, 0, 0, 0);
	call("timer_delete twice", 53, 0, 0, 0, 0, 0);
	fd = call("timerfd_create", 57, CLOCK_MONOTONIC, TFD_CLOEXEC, 0, 0, 0);
	call("timerfd_settime for 1 ms", 118, fd, 0, (long)&in_time, 0, 0);
	call("read", 81, fd, fresh(0xa5), 8, 0, 0);
	fresh(0xa5);
	call("timerfd_settime until the past", 118, fd, TFD_TIMER_ABSTIME, (long)&long_ago, 0, 0);
	call("timerfd_settime never", 118, fd, 0, (long)&never, 0, 0);
	call("read of no timer", 81, 1000, fresh(0xa5), 8, 0, 0);
	fresh(0xa5);
	call("no call", 127, 0, 0, 0, 0, 0);
	return 0;
}
