// SPDX-License-Identifier: Apache-2.0
/* Tests of cpu_wakeup.c: which returns of the sleeper's call are samples, with a made-up clock and
 * made-up calls; and of cpupair.c: the verdict on pairs without one. Prints TAP. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "methods/cpupair.h"
#include "drained.h"
#include "judged.h"
#include "tap.h"

static int64_t test_now_ns(clockid_t id);
static long test_syscall(long number, ...);
static int test_nanosleep(const struct timespec *time, struct timespec *left);

#define step_verdict test_verdict
#include "methods/cpupair.c"
#undef step_verdict
#define clock_now_ns test_now_ns
#define syscall test_syscall
#define nanosleep test_nanosleep
#include "measurements/cpu_wakeup.c"
#undef clock_now_ns
#undef syscall
#undef nanosleep

static struct series series;
static struct step step = { .series = &series };
static struct cpupair pair;
static struct wakeup_bell bell;
static struct wakeup_state state = { .step = &step,
				     .all = { .pairs = &pair, .count = 1 },
				     .bells = &bell };
static int64_t now_ns;
static int waits;
static int ring_in;	 /* the wait during which the bell is rung */
static int ring_after;	 /* or the wait after whose return it is rung, once there is a stamp */
static bool too_early;	 /* each ring comes before the wait */
static int64_t apart_ns; /* or each wait, after so long; 0: not */
static int announced;	 /* sleeps announced while the call of an early ring had not returned */

static void ring(void)
{
	bell.rung_ns = now_ns += 50000;
	bell.rung++;
}

static int64_t test_now_ns(clockid_t id)
{
	int64_t stamp_ns = now_ns += 100;

	if (waits && waits == ring_after) {
		ring_after = 0;
		ring();
	}
	return stamp_ns;
}

/* The wait returns, with a ring or without one. */
static long test_syscall(long number, ...)
{
	if (too_early) {
		ring();
		waits++;
		errno = EAGAIN;
		return -1;
	}
	if (++waits == ring_in || apart_ns) {
		now_ns += apart_ns;
		ring();
	}
	if (waits > 9)
		step.stop = STEP_STOP;
	return 0;
}

static bool rings; /* the ringer is tested: nothing runs for a while in the first of its pauses */
static int pauses;

static void pause_of_ringer(void)
{
	now_ns += state.pause_ns;
	if (!pauses++)
		now_ns += 10 * NSEC_PER_SEC;
	else if (!bell.rung)
		bell.ready = 1;
	else
		bell.loops = 1;
}

/* The ringer's call returns in that time. */
static int test_nanosleep(const struct timespec *time, struct timespec *left)
{
	if (rings) {
		pause_of_ringer();
		return 0;
	}
	announced += bell.ready > bell.rung;
	bell.returned = bell.rung;
	return 0;
}

/* What is wrong with the pairs, in one verdict. */
static void judge(void)
{
	verdicts = 0;
	judged[0] = said[0] = advised[0] = '\0';
	cpupairs_verdict(&step, &state.all, wakeup_remedy(&step, &state));
}

static void test_verdicts(void)
{
	state.all.possible = 2;
	series.histogram.count = 0;
	bell.dropped = 1;
	judge();
	tap_check(verdicts == 1 && !strcmp(judged, "inconclusive") &&
			  !strcmp(said, "1 of 1 pairs has no sample, 2 are possible"),
		  "a pair without a sample, and one that is left out: %s", said);
	tap_check(strstr(advised, "--pause") != NULL, "all calls were early: %s", advised);
	bell.dropped = 0;
	judge();
	tap_check(strstr(advised, "--for") != NULL, "the step ended before: %s", advised);
	series.histogram.count = 1;
	judge();
	tap_check(verdicts == 1 && !strcmp(judged, "skipped"), "one is left out: %s", said);
	state.all.possible = 1;
	judge();
	tap_check(!verdicts, "all are measured");
}

/* After a standstill, the sleeper is waited for: it has been woken and is on its way back. */
static void test_standstill(void)
{
	memset(&bell, 0, sizeof(bell));
	state.pause_ns = NSEC_PER_MSEC;
	rings = true;
	too_early = false;
	waits = 0;
	wakeup_ring(&state, 0, 0);
	rings = false;
	tap_check(!state.lost && bell.rung == 1, "a standstill before a ring");
}

static void test_loops(void)
{
	tap_check(wakeup_loop_samples(100 * NSEC_PER_USEC) == WAKEUP_LOOP, "a short pause");
	tap_check(wakeup_loop_samples(NSEC_PER_SEC) == 1, "a long pause");
	tap_check(wakeup_loop_samples(300 * NSEC_PER_MSEC) == 3, "a second of pauses");
}

static void sleeps(int in, int after)
{
	memset(&bell, 0, sizeof(bell));
	waits = 0;
	ring_in = in;
	ring_after = after;
	wakeup_sleep(&state, 0, 1);
}

/* The samples of a test loop, with such a pause before each. */
static struct drained drained_loop(int64_t pause_ns)
{
	memset(&bell, 0, sizeof(bell));
	waits = ring_in = ring_after = 0;
	apart_ns = pause_ns;
	drained_from(&series);
	wakeup_sleep(&state, 0, 4);
	apart_ns = 0;
	return drained_from(&series);
}

/* A long pause would leave the samples at the beginning of their test loop. */
static void test_times(void)
{
	struct drained d;

	tap_check(drained_loop(100 * NSEC_PER_USEC).blocks == 1, "a short test loop has one time");
	d = drained_loop(50 * NSEC_PER_MSEC);
	tap_check(d.blocks == 4 && d.due_ns[3] - d.due_ns[0] >= 150 * NSEC_PER_MSEC,
		  "in a long one each sample has its own: %d blocks", d.blocks);
}

int main(void)
{
	const struct series_info info = { .interval_ns = 0 };

	series_init(&series, 0, &info, 64);
	sleeps(1, 0);
	tap_check(bell.samples == 1 && !bell.early, "a wake-up");
	sleeps(3, 0);
	tap_check(bell.samples == 1 && !bell.early && waits == 3,
		  "a wake-up after two returns without a ring");
	/* the wake-up of an earlier ring comes late, then the next ring before the word is read */
	sleeps(3, 1);
	tap_check(bell.samples == 1 && bell.early == 1,
		  "a ring after the stamp is early: %lld samples, %lld early",
		  (long long)bell.samples, (long long)bell.early);
	too_early = true;
	sleeps(0, 0);
	tap_check(!bell.samples && bell.early == waits && bell.dropped == 1,
		  "a sample that is given up is counted: %lld after %d rings",
		  (long long)bell.dropped, waits);
	tap_check(bell.returned == bell.rung && !announced,
		  "no sleep is announced before the call of an early ring has returned");
	too_early = false;
	test_times();
	test_standstill();
	test_loops();
	test_verdicts();
	series_free(&series);
	return tap_end();
}
