/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of Xenomai's Cobalt core, Xenomai 3.2 and newer: their numbers and arguments
 * (include/cobalt/uapi of Xenomai). The agent calls syscall() for them, so a board needs no
 * library.
 */
#ifndef RTGAUGE_COBALT_H
#define RTGAUGE_COBALT_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COBALT_CALL(number) (0x10000000L | (number))
#define COBALT_BIND COBALT_CALL(0)
#define COBALT_THREAD_CREATE COBALT_CALL(1)
#define COBALT_THREAD_SETMODE COBALT_CALL(3)
#define COBALT_THREAD_KILL COBALT_CALL(6)
#define COBALT_THREAD_GETSCHEDPARAM COBALT_CALL(8)
#define COBALT_THREAD_GETSTAT COBALT_CALL(9)
#define COBALT_SEM_INIT COBALT_CALL(10)
#define COBALT_SEM_DESTROY COBALT_CALL(11)
#define COBALT_SEM_POST COBALT_CALL(12)
#define COBALT_SEM_WAIT COBALT_CALL(13)
#define COBALT_SEM_TIMEDWAIT COBALT_CALL(19)
#define COBALT_CLOCK_GETTIME COBALT_CALL(23)
#define COBALT_CLOCK_NANOSLEEP COBALT_CALL(25)
#define COBALT_MUTEX_INIT COBALT_CALL(26)
#define COBALT_MUTEX_DESTROY COBALT_CALL(28)
#define COBALT_MUTEX_LOCK COBALT_CALL(29)
#define COBALT_MUTEX_UNLOCK COBALT_CALL(32)
#define COBALT_COND_INIT COBALT_CALL(33)
#define COBALT_COND_DESTROY COBALT_CALL(34)
#define COBALT_COND_WAIT_PROLOGUE COBALT_CALL(35)
#define COBALT_COND_WAIT_EPILOGUE COBALT_CALL(36)
#define COBALT_MQ_OPEN COBALT_CALL(37)
#define COBALT_MQ_CLOSE COBALT_CALL(38)
#define COBALT_MQ_UNLINK COBALT_CALL(39)
#define COBALT_MQ_TIMEDSEND COBALT_CALL(41)
#define COBALT_MQ_TIMEDRECEIVE COBALT_CALL(42)
#define COBALT_SCHED_YIELD COBALT_CALL(47)
#define COBALT_TIMER_CREATE COBALT_CALL(52)
#define COBALT_TIMER_DELETE COBALT_CALL(53)
#define COBALT_TIMER_SETTIME COBALT_CALL(54)
#define COBALT_TIMERFD_CREATE COBALT_CALL(57)
#define COBALT_TIMERFD_SETTIME COBALT_CALL(58)
#define COBALT_SIGWAITINFO COBALT_CALL(61)
#define COBALT_SIGTIMEDWAIT COBALT_CALL(62)
#define COBALT_SIGQUEUE COBALT_CALL(65)
#define COBALT_OPEN COBALT_CALL(77)
#define COBALT_CLOSE COBALT_CALL(79)
#define COBALT_IOCTL COBALT_CALL(80)
#define COBALT_READ COBALT_CALL(81)
#define COBALT_MMAP COBALT_CALL(85)
#define COBALT_GET_CURRENT COBALT_CALL(92)
/* with 64-bit time on every architecture: Xenomai 3.3 */
#define COBALT_TIMER_SETTIME64 COBALT_CALL(116)
#define COBALT_TIMERFD_SETTIME64 COBALT_CALL(118)

#define COBALT_FEATURE_SMP 0x80000000U
#define COBALT_WARN 0x4000 /* mode of a thread: a signal says why it left the core */

#define COBALT_NAME 64

struct cobalt_bind {
	uint32_t wanted;
	uint32_t revision;
	uint64_t reserved;
	uint32_t reserved_too;
	uint32_t found_revision;
	uint32_t features, mandatory, requested, missing;
	char feature_names[3][COBALT_NAME];
	char missing_names[COBALT_NAME];
};

_Static_assert(sizeof(struct cobalt_bind) == 296, "as the core has it");

struct cobalt_priority {
	int32_t priority;
	int32_t reserved[13];
};

_Static_assert(sizeof(struct cobalt_priority) == 56, "as the core has it");

struct cobalt_stat {
	uint64_t time_ns, timeout_ns;
	uint64_t mode_switches, context_switches, calls;
	uint32_t state, faults;
	int32_t cpu, priority;
	char names[2][32];
};

_Static_assert(sizeof(struct cobalt_stat) == 120, "as the core has it");

/* State of a task: bits of struct cobalt_stat and of its window. */
#define COBALT_PENDING 0x2U
#define COBALT_DELAYED 0x4U
#define COBALT_RELAXED 0x80U
#define COBALT_WEAK 0x20000U
#define COBALT_DEBUGGED 0x200000U

/* State of a task that the core shares with it. */
struct cobalt_window {
	uint32_t state;
	uint32_t info;
	uint32_t granted;
	uint32_t
		ceiling; /* handle of the mutex whose ceiling the task takes when it is preempted */
};

/* The calling task: what its fast paths need. */
struct cobalt_self {
	uint32_t handle;
	struct cobalt_window *window;
};
extern __thread struct cobalt_self cobalt_self;

/* Where the objects of tasks have their state: of this process, and of all processes. */
struct cobalt_heaps {
	char *own;
	char *shared;
};
extern struct cobalt_heaps cobalt_heaps;

/* Revision of the interface that this process is bound to. */
int cobalt_revision(void);
/* Make the calling thread a task. 0 or -errno. */
int cobalt_become_task(int policy, int priority);

/* Memory for the words of ensembles on the core (cobalt_posix.h). 0 or -ENOMEM. */
int cobalt_words_prepare(void);

#endif
