// SPDX-License-Identifier: Apache-2.0
/* Tests of mutex_inversion.c: which rounds count, by orders that are made up here. Prints TAP. */
#include "measurements/mutex_inversion.c"

#include "tap.h"

static struct inversion inversion;

/* @events: a thread and its act, in turn. */
static void judged(const char *expected, enum inversion_place place, const char *const (*events)[2],
		   const char *what)
{
	const char *disturbed;
	bool held;

	memset(&inversion.now, 0, sizeof(inversion.now));
	inversion.place = place;
	for (int i = 0; events[i][0]; i++)
		order_mark(&inversion.now, events[i][0], events[i][1]);
	held = inversion_judge(&inversion, &disturbed);
	tap_check(!strcmp(expected, held      ? "held" :
				    disturbed ? "disturbed" :
						"broken"),
		  "%s: %s %s", what, expected, disturbed ? disturbed : "");
}

/* clang-format off */
#define LOW_HAS { "low", "has the mutex" }
#define GO { INVERSION_CONDUCTOR, INVERSION_GO }
#define WANTS { "high", INVERSION_WANTS }
#define WAITS WANTS, { INVERSION_CONDUCTOR, INVERSION_WAITS }
#define LOW_RUNS { "low", "runs" }, { "low", "releases it" }
#define HIGH_HAS { "high", "has the mutex" }
#define MIDDLE_RUNS { "middle", "runs" }, { "middle", "ends" }
#define END { NULL, NULL }
/* clang-format on */

static void test_one_cpu(void)
{
	static const char *const avoided[][2] = { LOW_HAS,  GO,		 WANTS, LOW_RUNS,
						  HIGH_HAS, MIDDLE_RUNS, END };
	static const char *const inverted[][2] = { LOW_HAS,  GO,       WANTS, MIDDLE_RUNS,
						   LOW_RUNS, HIGH_HAS, END };
	static const char *const early[][2] = { LOW_HAS,  GO,	    MIDDLE_RUNS, WANTS,
						LOW_RUNS, HIGH_HAS, END };
	static const char *const free_mutex[][2] = { LOW_HAS,  GO,	    LOW_RUNS, WANTS,
						     HIGH_HAS, MIDDLE_RUNS, END };
	static const char *const late_owner[][2] = { GO,      WANTS,	HIGH_HAS, MIDDLE_RUNS,
						     LOW_HAS, LOW_RUNS, END };

	judged("held", INVERSION_ONE_CPU, avoided, "the middle one runs last");
	judged("broken", INVERSION_ONE_CPU, inverted, "the middle one runs in between");
	judged("disturbed", INVERSION_ONE_CPU, early, "the middle one runs before the request");
	judged("disturbed", INVERSION_ONE_CPU, free_mutex, "the mutex is free before the request");
	judged("disturbed", INVERSION_ONE_CPU, late_owner,
	       "the mutex is free, as the low one has yet to run");
}

static void test_two_cpus(void)
{
	static const char *const avoided[][2] = { LOW_HAS,     WAITS,	 GO, LOW_RUNS,
						  MIDDLE_RUNS, HIGH_HAS, END };
	static const char *const inverted[][2] = { LOW_HAS,  WAITS,    GO, MIDDLE_RUNS,
						   LOW_RUNS, HIGH_HAS, END };
	static const char *const free_mutex[][2] = { LOW_HAS,  WANTS,	    GO, LOW_RUNS,
						     HIGH_HAS, MIDDLE_RUNS, END };
	static const char *const late[][2] = { LOW_HAS,	 WAITS,	      LOW_RUNS, GO,
					       HIGH_HAS, MIDDLE_RUNS, END };

	judged("held", INVERSION_TWO_CPUS, avoided, "the middle one runs after the release");
	judged("broken", INVERSION_TWO_CPUS, inverted, "the middle one runs in between");
	judged("disturbed", INVERSION_TWO_CPUS, free_mutex, "the high one was not seen to wait");
	judged("disturbed", INVERSION_TWO_CPUS, late, "the middle one is started too late");
}

int main(void)
{
	test_one_cpu();
	test_two_cpus();
	return tap_end();
}
