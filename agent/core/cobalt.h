/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of Xenomai's Cobalt core, Xenomai 3.2 and newer: their numbers and what they take
 * (include/cobalt/uapi of Xenomai). They are made with syscall(), so a board needs no library.
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
#define COBALT_THREAD_GETSCHEDPARAM COBALT_CALL(8)
#define COBALT_THREAD_GETSTAT COBALT_CALL(9)
#define COBALT_CLOCK_NANOSLEEP COBALT_CALL(25)
#define COBALT_TIMER_CREATE COBALT_CALL(52)
#define COBALT_TIMER_DELETE COBALT_CALL(53)
#define COBALT_TIMER_SETTIME COBALT_CALL(54)
#define COBALT_TIMERFD_CREATE COBALT_CALL(57)
#define COBALT_TIMERFD_SETTIME COBALT_CALL(58)
#define COBALT_SIGWAITINFO COBALT_CALL(61)
#define COBALT_READ COBALT_CALL(81)
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

/* Revision of the interface that this process is bound to. */
int cobalt_revision(void);

#endif
