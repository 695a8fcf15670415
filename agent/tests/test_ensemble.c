// SPDX-License-Identifier: Apache-2.0
/* Tests of ensemble.c: durations without the cost of a stamp, and sleeps as long as requested; of
 * cpu_power.c: the walk, and sizes of caches that the kernel does not tell. Prints TAP. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/value.h"
#include "methods/ensemble.h"

static int test_value_get(const char *path, char *value, int *keep);
static struct cbor *test_table(struct step *step, const char *name,
			       const struct step_column *columns, int column_count, int rows);
static void test_table_end(struct step *step);

#define value_get test_value_get
#define step_table_begin test_table
#define step_table_end test_table_end
#include "measurements/cpu_power.c"
#include "tap.h"

#define SLEEP_NS (20 * NSEC_PER_MSEC)

/* study(65) */
static void test_net(void)
{
	struct ensemble e = { .stamp_ns = 27 };

	tap_check(ensemble_net(&e, 1000) == 973, "a duration without the cost of a stamp");
	tap_check(ensemble_net(&e, 20) == -7, "a duration may be shorter than a stamp");
}

/* On 32-bit machines the kernel's first futex call has another struct of time than the C library:
 * it would come back at once, and a thread of real-time priority would keep the CPU. */
static void test_sleeps(void)
{
	int64_t from_ns = clock_now_ns(CLOCK_MONOTONIC);
	uint32_t word = 7;

	ensemble_sleep_on(&word, 7, SLEEP_NS);
	tap_check(clock_now_ns(CLOCK_MONOTONIC) - from_ns >= SLEEP_NS, "for its time");
	ensemble_sleep_on(&word, 8, 0);
	tap_check(true, "not at all while the word is another");
}

/* A walk that is longer than necessary evicts a small cache as well. */
static void test_walk(void)
{
	static struct step step;
	static struct cpu_power_state state = { .ensemble.step = &step, .last_level = 32 * 1024 };

	tap_check(power_map_walk(&state) && state.walk.bytes >= POWER_WALK_MIN / 2,
		  "a walk for a last level of 32 KiB: %lld bytes", (long long)state.walk.bytes);
	power_unmap(&state.walk);
}

static const char *absent; /* files of the kernel that do not exist begin so */

/* First levels of 64 KiB of data and 48 KiB of code, and a second one of 1 MiB. */
static int test_value_get(const char *path, char *value, int *keep)
{
	static const char *const files[][2] = {
		{ "index0/level", "1" }, { "index0/type", "Data" },	   { "index0/size", "64K" },
		{ "index1/level", "1" }, { "index1/type", "Instruction" }, { "index1/size", "48K" },
		{ "index2/level", "2" }, { "index2/type", "Unified" },	   { "index2/size", "1M" },
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const char *file = strstr(path, files[i][0]);

		if (!file || !strncmp(file, absent, strlen(absent)))
			continue;
		snprintf(value, VALUE_MAX, "%s", files[i][1]);
		return 0;
	}
	return -ENOENT;
}

static struct cbor table;
static char origins[8]; /* of the sizes in the table: k(ernel) or a(ssumed) */

static struct cbor *test_table(struct step *step, const char *name,
			       const struct step_column *columns, int column_count, int rows)
{
	return &table;
}

static void test_table_end(struct step *step)
{
	size_t count = 0;

	for (size_t i = 0; i + 7 <= table.size && count < sizeof(origins) - 1; i++)
		if (!memcmp(table.data + i, "kernel", 6) || !memcmp(table.data + i, "assumed", 7))
			origins[count++] = (char)table.data[i];
	origins[count] = '\0';
	cbor_free(&table);
}

/* @expected: the origins of the sizes of code, data and last level. */
static void check_caches(const char *without, const char *expected, int64_t last_level)
{
	struct cpu_power_state state = { .samples = 0 };

	absent = without;
	power_caches(&state);
	cpu_power_caches(NULL, &state);
	tap_check(!strcmp(origins, expected) && state.last_level == last_level,
		  "without %s: %s, %lld bytes", without, origins, (long long)state.last_level);
}

static void test_caches(void)
{
	check_caches("none", "kkk", 1024 * 1024);
	check_caches("index0/size", "kak", 1024 * 1024);
	check_caches("index1/size", "akk", 1024 * 1024);
	check_caches("index2", "kkk", 64 * 1024);
	check_caches("index", "aaa", POWER_LAST_LEVEL);
}

/* Each test loop puts a time. */
static void test_room(void)
{
	tap_check(ensemble_room(800, 4) == 1600, "room for times of short test loops");
	tap_check(ensemble_room(1000000, 4) == 1004000, "the drain takes out the others");
}

int main(void)
{
	test_net();
	test_sleeps();
	test_walk();
	test_caches();
	test_room();
	return tap_end();
}
