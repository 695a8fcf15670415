/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time: CLOCK_MONOTONIC in ns, and the cycle counter of the CPU. On the path of a sample this is
 * step 2: the task runs, and its first act is to read the clock.
 */
#ifndef RTGAUGE_CLOCK_H
#define RTGAUGE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000LL
#define NSEC_PER_MSEC 1000000LL
#define NSEC_PER_USEC 1000LL

static inline int64_t clock_to_ns(const struct timespec *ts)
{
	return ts->tv_sec * NSEC_PER_SEC + ts->tv_nsec;
}

static inline struct timespec clock_from_ns(int64_t ns)
{
	struct timespec ts = { .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };

	return ts;
}

static inline int64_t clock_now_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return clock_to_ns(&now);
}

/* @later - @earlier in ns; the difference may be negative. */
static inline int64_t clock_difference_ns(const struct timespec *later,
					  const struct timespec *earlier)
{
	return (later->tv_sec - earlier->tv_sec) * NSEC_PER_SEC +
	       (later->tv_nsec - earlier->tv_nsec);
}

/* Move @ts on by @step, both normalised. No division: this runs once per sample. */
static inline void clock_advance(struct timespec *ts, const struct timespec *step)
{
	ts->tv_sec += step->tv_sec;
	ts->tv_nsec += step->tv_nsec;
	if (ts->tv_nsec >= NSEC_PER_SEC) {
		ts->tv_nsec -= NSEC_PER_SEC;
		ts->tv_sec++;
	}
}

/* The CPU's cycle counter, as far as user space may read it; clock_counter_name() is "none"
 * where there is none, and clock_counter() is 0 there. */
static inline uint64_t clock_counter(void)
{
#if defined(__x86_64__) || defined(__i386__)
	uint32_t low, high;

#ifdef __SSE2__
	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
#else /* old processors may not have that instruction */
	__asm__ volatile("lock; addl $0, (%%esp); rdtsc"
			 : "=a"(low), "=d"(high)
			 :
			 : "memory", "cc");
#endif
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t value;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value) : : "memory");
	return value;
#elif defined(__riscv) && __riscv_xlen == 64
	uint64_t value;

	__asm__ volatile("rdtime %0" : "=r"(value) : : "memory");
	return value;
#else
	return 0;
#endif
}

static inline const char *clock_counter_name(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return "tsc";
#elif defined(__aarch64__)
	return "cntvct";
#elif defined(__riscv) && __riscv_xlen == 64
	return "rdtime";
#else
	return "none";
#endif
}

/*
 * Sleep for @ns, more than 0, or longer. If that time is over before the thread sleeps (it was
 * preempted, or the machine is an emulated one), the kernel does not take the CPU from it, and does
 * not reset its time for RLIMIT_RTTIME. Another rest follows, each twice as long as the one before,
 * up to 1 s.
 */
void clock_rest(int64_t ns);

/* Frequency of the counter in Hz, found against CLOCK_MONOTONIC over 20 ms; 0 without one. */
int64_t clock_counter_hz(void);

#endif
