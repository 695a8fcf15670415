// SPDX-License-Identifier: Apache-2.0
/* Tests of round_robin.c: of its verdict on turns that are made up here, and of the turns that a thread
 * finds by a clock that is made up, too. Prints TAP. */
#define judged verdict_result
#include "judged.h"
#undef judged

#include "methods/ensemble.h"

static int64_t test_now_ns(clockid_t id);
static uint32_t test_slept(uint32_t *preempted);

#define clock_now_ns test_now_ns
#define ensemble_slept test_slept
#define step_verdict test_verdict
#define step_table_begin test_table
#define step_table_end test_table_end
#include "measurements/round_robin.c"
#undef clock_now_ns
#undef ensemble_slept

#include "tap.h"

#define THREADS 3
#define ROUNDS 3
#define SLICE_NS (100 * NSEC_PER_MSEC)
#define HIGHER_NS (50 * NSEC_PER_MSEC)
#define SWITCH_NS (2 * NSEC_PER_USEC)

static struct robin_state state;

/* The made-up clock, if it is not 0. */
static struct {
	int64_t now_ns;
	int reads;
	int stall_at; /* the reading before which a hypervisor has the CPU */
	int64_t stall_ns;
	int last; /* reading, after which the test ends */
	int calls;
	uint32_t switches;
	int others_in; /* the call in which the other threads have their turns */
	int higher_in; /* the call in which a thread of higher priority runs for HIGHER_NS */
	bool before;   /* either comes before the kernel reads its count, else after it */
} fake;

static int64_t test_now_ns(clockid_t id)
{
	if (!fake.now_ns)
		return clock_now_ns(id);
	fake.now_ns += 100;
	if (++fake.reads == fake.stall_at)
		fake.now_ns += fake.stall_ns;
	if (fake.reads == fake.last)
		state.stop = 1;
	return fake.now_ns;
}

static uint32_t test_slept(uint32_t *preempted)
{
	uint32_t switches = 0;

	if (!fake.now_ns)
		return ensemble_slept(preempted);
	if (++fake.calls == fake.others_in) {
		fake.now_ns += (THREADS - 1) * SLICE_NS;
		state.turns += THREADS - 1;
		switches++;
	}
	if (fake.calls == fake.higher_in) {
		fake.now_ns += HIGHER_NS;
		switches++;
	}
	if (preempted)
		*preempted = fake.switches + (fake.before ? switches : 0);
	fake.switches += switches;
	return 0;
}

/* Turns of a thread by that clock. */
static void taken(void)
{
	memset(&state, 0, sizeof(state));
	state.threads = THREADS;
	state.rounds = ROUNDS;
	fake.now_ns = NSEC_PER_SEC;
	fake.last = 60;
	robin_take_turns(&state, 0);
	fake.now_ns = 0;
}

/* Fair turns of 100 ms, with a tick of 4 ms. */
static void turns(void)
{
	int64_t now_ns = 7 * NSEC_PER_SEC;

	memset(&state, 0, sizeof(state));
	state.threads = THREADS;
	state.rounds = ROUNDS;
	state.complete = THREADS * ROUNDS;
	state.tick_ns = 4 * NSEC_PER_MSEC;
	for (int i = 0; i < state.complete; i++) {
		state.turn[i] = (struct robin_turn){
			.thread = i % THREADS,
			.start_ns = now_ns,
			.end_ns = now_ns + SLICE_NS,
		};
		now_ns += SLICE_NS + SWITCH_NS;
	}
	state.stop_ns = now_ns;
}

/* Turn @i takes @more_ms longer, and whatever follows comes so much later. */
static void longer(int i, int64_t more_ms)
{
	state.turn[i].end_ns += more_ms * NSEC_PER_MSEC;
	for (int k = i + 1; k < state.complete; k++) {
		state.turn[k].start_ns += more_ms * NSEC_PER_MSEC;
		state.turn[k].end_ns += more_ms * NSEC_PER_MSEC;
	}
	state.stop_ns += more_ms * NSEC_PER_MSEC;
}

static void judged(const char *expected, const char *what)
{
	robin_judge(&state);
	tap_check(!strcmp(expected, state.unfair[0] ? "fail" :
				    state.judged    ? "pass" :
						      "inconclusive"),
		  "%s: %s %s%s", what, expected, state.unfair, state.disturbed);
}

static void test_undisturbed(void)
{
	turns();
	judged("pass", "equal slices");
	turns();
	longer(4, 20);
	judged("pass", "a slice a fifth longer");
	turns();
	longer(0, 883);
	judged("fail", "a first slice of 983 ms");
	tap_check(!!strstr(state.unfair, "983.00 ms, the median is 100.00"),
		  "and its length is named");
	turns();
	for (int i = 0; i < THREADS; i++)
		longer(i, 883);
	judged("fail", "a first round of 983 ms, compared with the later ones");
	tap_check(!strncmp(state.unfair, "round 1: ", 9), "and named as the first");
	turns();
	longer(4, -60);
	judged("fail", "a slice of 40 ms");
	turns();
	state.turn[5].thread = 0;
	state.turn[3].thread = 2;
	judged("fail", "another order in the second round");
}

/* The kernel counts on by ticks while a hypervisor has the CPU, or makes up for it: both are right. */
static void test_stolen(void)
{
	turns();
	state.turn[4].stolen_ns = 40 * NSEC_PER_MSEC;
	judged("inconclusive", "40 ms stolen within a slice of 100 ms");
	tap_check(!!strstr(state.disturbed, "round 2: ") && !!strstr(state.disturbed, "40.00"),
		  "and what was stolen is named");
	turns();
	state.turn[4].stolen_ns = 19 * NSEC_PER_MSEC;
	judged("pass", "19 ms stolen within a slice of 100 ms");
	turns();
	longer(4, 50);
	state.turn[4].stolen_ns = 50 * NSEC_PER_MSEC;
	judged("inconclusive", "50 ms stolen, and the slice so much longer");
	turns();
	longer(4, 120);
	state.turn[4].stolen_ns = 50 * NSEC_PER_MSEC;
	judged("fail", "50 ms stolen, and the slice 120 ms longer");
	turns();
	longer(4, 60);
	state.turn[4].end_ns -= 100 * NSEC_PER_MSEC;
	judged("inconclusive", "100 ms stolen between two threads, the slice 40 ms shorter");
	turns();
	state.stop_ns += 60 * NSEC_PER_MSEC;
	state.turn[8].end_ns -= 40 * NSEC_PER_MSEC;
	judged("inconclusive", "60 ms stolen after the last turn, which is 40 ms shorter");
	turns();
	for (int i = 1; i < state.complete; i++) {
		longer(i, 60);
		state.turn[i].stolen_ns = 60 * NSEC_PER_MSEC;
	}
	judged("inconclusive", "60 ms stolen from all slices but the first");
}

/* The kernel counts nothing of it. */
static void test_others(void)
{
	turns();
	longer(4, 50);
	state.turn[4].others_ns = 50 * NSEC_PER_MSEC;
	judged("pass", "another thread had 50 ms in between");
	turns();
	state.turn[4].others_ns = 50 * NSEC_PER_MSEC;
	judged("fail", "another thread had 50 ms of a slice's 100 ms");
}

static void test_not_judged(void)
{
	turns();
	longer(4, 300);
	state.slept = 1;
	judged("inconclusive", "a thread slept");
	turns();
	state.gave_up = 2;
	state.complete = 0;
	judged("fail", "a thread gave up");
	turns();
	state.gave_up = 2;
	state.complete = 0;
	state.slept = 1;
	judged("inconclusive", "a thread gave up while another one slept");
	state.tests = 1;
	robin_finish(&(struct step){ .state = &state });
	tap_check(!!strstr(said, "1 of 1 tests not judged: " ENSEMBLE_DISTURBED),
		  "and the evidence says so: %s", said);
}

/* Which of both it was, the thread itself finds by its count of switches. */
static void test_account(void)
{
	struct robin_turn turn = { .thread = 0 };

	robin_account(&turn, ROBIN_GAP_NS + 1, false);
	tap_check(turn.stolen_ns == ROBIN_GAP_NS + 1 && !turn.others_ns,
		  "a gap without a switch does not count as another thread's");
	turn.stolen_ns = 0;
	robin_account(&turn, ROBIN_GAP_NS + 1, true);
	tap_check(turn.others_ns == ROBIN_GAP_NS + 1 && !turn.stolen_ns,
		  "a gap with a switch is another thread's");
	robin_account(&turn, ROBIN_GAP_NS, true);
	tap_check(turn.others_ns == ROBIN_GAP_NS + 1, "a short one is the slice's");
}

/* A thread is preempted while it asks for its switches: after its first reading of the clock in a turn
 * (the first call), or after a gap (the second one). */
static void test_preempted_in_a_call(void)
{
	for (int call = 1; call <= 2; call++) {
		const struct robin_turn *first = &state.turn[0], *second = &state.turn[THREADS];

		memset(&fake, 0, sizeof(fake));
		fake.stall_at = 20;
		fake.stall_ns = NSEC_PER_MSEC;
		fake.others_in = call;
		fake.before = true;
		taken();
		tap_check(robin_length(first) < 2 * NSEC_PER_MSEC &&
				  second->start_ns - first->end_ns >= (THREADS - 1) * SLICE_NS,
			  "a slice ends before the others' turns in call %d", call);
		tap_check(state.turns == THREADS + 1 && robin_length(second) > 0,
			  "and a further turn begins after them");
	}
}

/* A thread of higher priority takes the CPU in such a call. Its time counts as another thread's or
 * as stolen, not as part of the slice. */
static void test_higher_in_a_call(void)
{
	for (int i = 0; i < 4; i++) {
		const struct robin_turn *turn = &state.turn[0];

		memset(&fake, 0, sizeof(fake));
		fake.stall_at = 20;
		fake.stall_ns = NSEC_PER_MSEC;
		fake.higher_in = 1 + i / 2;
		fake.before = i % 2;
		taken();
		tap_check(state.turns == 1 && turn->others_ns + turn->stolen_ns >= HIGHER_NS &&
				  robin_length(turn) - turn->stolen_ns < NSEC_PER_MSEC,
			  "a higher thread in call %d, %s the count: others %lld, stolen %lld ns",
			  fake.higher_in, fake.before ? "before" : "after",
			  (long long)turn->others_ns, (long long)turn->stolen_ns);
	}
}

/* The tick after a hypervisor had the CPU ends the slice. That switch does not make the stolen time
 * another thread's. */
static void test_stolen_before_the_end(void)
{
	for (int before = 0; before <= 1; before++) {
		memset(&fake, 0, sizeof(fake));
		fake.stall_at = 20;
		fake.stall_ns = 40 * NSEC_PER_MSEC;
		fake.others_in = 2;
		fake.before = before;
		taken();
		tap_check(
			!state.turn[0].others_ns && state.turn[0].stolen_ns >= 40 * NSEC_PER_MSEC,
			"stolen at the end of a slice, the count read %s the switch: others %lld, "
			"stolen %lld ns",
			before ? "after" : "before", (long long)state.turn[0].others_ns,
			(long long)state.turn[0].stolen_ns);
	}
}

int main(void)
{
	test_undisturbed();
	test_stolen();
	test_others();
	test_not_judged();
	test_account();
	test_preempted_in_a_call();
	test_higher_in_a_call();
	test_stolen_before_the_end();
	return tap_end();
}
