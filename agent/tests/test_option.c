// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of option.c. Durations are compared with 128-bit rational arithmetic, the nearest name
 * with the recursive definition of the edit distance. Prints TAP.
 */
#include "base/option.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 wide;
#endif

/* A generator of our own (Knuth's MMIX), so that every run tests the same numbers. */
static uint64_t random_bits(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 11;
}

static const struct {
	const char *suffix;
	int64_t ns;
} units[] = {
	{ "ns", 1 },	      { "us", 1000 },	      { "ms", 1000000 },       { "s", 1000000000 },
	{ "m", 60000000000 }, { "h", 3600000000000 }, { "d", 86400000000000 },
};

/* ---- notations ---- */

static const struct notation {
	const char *text;
	int result;
	int64_t value;
} duration_cases[] = {
	{ "0", 0, 0 },
	{ "00", 0, 0 },
	{ "0s", 0, 0 },
	{ "0.0s", 0, 0 },
	{ "250us", 0, 250000 },
	{ "1.5ms", 0, 1500000 },
	{ "10s", 0, 10000000000 },
	{ "2m", 0, 120000000000 },
	{ "54h", 0, 194400000000000 },
	{ "3d", 0, 259200000000000 },
	{ "20ns", 0, 20 },
	{ "1.000000001s", 0, 1000000001 },
	{ "1.00000000100000000000000000s", 0, 1000000001 },
	{ "0.00000000005m", 0, 3 },
	{ "0.5us", 0, 500 },
	{ "9223372036854775807ns", 0, INT64_MAX },
	{ "9223372036854775808ns", -ERANGE, 0 },
	{ "9223372036.854775807s", 0, INT64_MAX },
	{ "9223372036.854775808s", -ERANGE, 0 },
	{ "106751d", 0, 106751 * 86400000000000 },
	{ "106752d", -ERANGE, 0 },
	{ "99999999999999999999999999d", -ERANGE, 0 },
	{ "99999999999999999999999999", -EINVAL, 0 },
	{ "99999999999999999999999999x", -EINVAL, 0 },
	{ "0.1ns", -EINVAL, 0 },
	{ "1.0000000001s", -EINVAL, 0 },
	{ "0.00000000002m", -EINVAL, 0 },
	{ "1.0000000000000000000000000000001d", -EINVAL, 0 },
	{ "", -EINVAL, 0 },
	{ "1", -EINVAL, 0 },
	{ "0.0", -EINVAL, 0 },
	{ "s", -EINVAL, 0 },
	{ ".5s", -EINVAL, 0 },
	{ "5.s", -EINVAL, 0 },
	{ "1..5s", -EINVAL, 0 },
	{ "1.5.5s", -EINVAL, 0 },
	{ "-1s", -EINVAL, 0 },
	{ "+1s", -EINVAL, 0 },
	{ " 1s", -EINVAL, 0 },
	{ "1 s", -EINVAL, 0 },
	{ "1s ", -EINVAL, 0 },
	{ "1S", -EINVAL, 0 },
	{ "1sec", -EINVAL, 0 },
	{ "1e3s", -EINVAL, 0 },
	{ "0x10s", -EINVAL, 0 },
};

static const struct notation integer_cases[] = {
	{ "0", 0, 0 },
	{ "-0", 0, 0 },
	{ "007", 0, 7 },
	{ "-12", 0, -12 },
	{ "9223372036854775807", 0, INT64_MAX },
	{ "-9223372036854775807", 0, -INT64_MAX },
	{ "9223372036854775808", -ERANGE, 0 },
	{ "18446744073709551616", -ERANGE, 0 },
	{ "99999999999999999999999", -ERANGE, 0 },
	{ "", -EINVAL, 0 },
	{ "-", -EINVAL, 0 },
	{ "--1", -EINVAL, 0 },
	{ "+1", -EINVAL, 0 },
	{ "1.0", -EINVAL, 0 },
	{ "1k", -EINVAL, 0 },
	{ " 1", -EINVAL, 0 },
};

static const struct notation size_cases[] = {
	{ "0", 0, 0 },
	{ "100", 0, 100 },
	{ "32KiB", 0, 32768 },
	{ "32MiB", 0, 33554432 },
	{ "2GiB", 0, 2147483648 },
	{ "8589934591GiB", 0, 8589934591 * (1LL << 30) },
	{ "8589934592GiB", -ERANGE, 0 },
	{ "99999999999999999999KiB", -ERANGE, 0 },
	{ "1KB", -EINVAL, 0 },
	{ "1kib", -EINVAL, 0 },
	{ "1.5KiB", -EINVAL, 0 },
	{ "-1", -EINVAL, 0 },
	{ "KiB", -EINVAL, 0 },
	{ "", -EINVAL, 0 },
};

static void check_notations(int (*parse)(const char *text, int64_t *value), const char *what,
			    const struct notation *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int64_t found = 0;
		int err = parse(cases[i].text, &found);

		tap_check(err == cases[i].result && found == cases[i].value, "%s '%.40s'", what,
			  cases[i].text);
	}
}

static void test_notations(void)
{
	check_notations(option_parse_duration, "duration", duration_cases, COUNT(duration_cases));
	check_notations(option_parse_integer, "integer", integer_cases, COUNT(integer_cases));
	check_notations(option_parse_size, "size", size_cases, COUNT(size_cases));
}

/* ---- durations against rational arithmetic ---- */

#ifdef __SIZEOF_INT128__
/* whole.digits (of @count digits) times @unit: what option_parse_duration must find. */
static int expect_duration(uint64_t whole, uint64_t digits, int count, int64_t unit, int64_t *value)
{
	wide power = 1;
	wide sum;

	for (int i = 0; i < count; i++)
		power *= 10;
	sum = ((wide)whole * power + digits) * unit; /* below 2^127: see the callers */
	if (sum % power)
		return -EINVAL;
	if (sum / power > INT64_MAX)
		return -ERANGE;
	*value = (int64_t)(sum / power);
	return 0;
}

static void test_durations_at_random(void)
{
	uint64_t state = 1;
	int wrong = 0;
	int good = 0;

	for (int i = 0; i < 300000; i++) {
		int count = 1 + (int)(random_bits(&state) % 12);
		uint64_t limit = 1;
		uint64_t digits;
		uint64_t whole = random_bits(&state) >> (random_bits(&state) % 53);
		size_t unit = random_bits(&state) % COUNT(units);
		int64_t expected = 0;
		int64_t found = 0;
		char text[80];
		int result;

		for (int k = 0; k < count; k++)
			limit *= 10;
		/* half of them with many zeros at the end, else hardly one would be exact */
		digits = random_bits(&state) % limit;
		if (random_bits(&state) % 2)
			digits -= digits % (limit / 10);
		if (whole > 1U << 20 && unit > 3)
			whole >>= 30;
		result = expect_duration(whole, digits, count, units[unit].ns, &expected);
		snprintf(text, sizeof(text), "%llu.%0*llu%s", (unsigned long long)whole, count,
			 (unsigned long long)digits, units[unit].suffix);
		if (option_parse_duration(text, &found) != result || found != expected)
			wrong++;
		good += !result;
	}
	tap_check(wrong == 0, "300000 random durations as rational arithmetic has them");
	tap_check(good > 50000, "a good part of them were exact");
}
#else
static void test_durations_at_random(void)
{
	tap_skip("no numbers of 128 bits here", "random durations");
}
#endif

/* The length of the shortest notation of @ns: all units, all numbers of decimals, tried out. */
static size_t shortest(int64_t ns)
{
	size_t best = 99;

	for (size_t unit = 0; unit < COUNT(units); unit++) {
		int64_t rest;

		if (ns < units[unit].ns)
			continue;
		rest = ns % units[unit].ns;
		for (int count = 0; count <= 18; count++, rest = rest * 10 % units[unit].ns) {
			char text[96];
			size_t size;

			if (rest)
				continue;
			snprintf(text, sizeof(text), "%lld", (long long)(ns / units[unit].ns));
			size = strlen(text) + (size_t)(count ? count + 1 : 0) +
			       strlen(units[unit].suffix);
			if (size < best)
				best = size;
			break;
		}
	}
	return best;
}

static const struct {
	int64_t ns;
	const char *text;
} format_cases[] = {
	{ 0, "0" },
	{ 1, "1ns" },
	{ 250000, "250us" },
	{ 500000, "500us" },
	{ 1500000, "1.5ms" },
	{ 100000000, "100ms" },
	{ 60000000000, "1m" },
	{ 90000000000, "90s" },
	{ 194400000000000, "54h" },
	{ 259200000000000, "3d" },
	{ -1500000, "-1.5ms" },
	{ INT64_MAX, "9223372036854775807ns" },
	{ INT64_MIN, "-9223372036854775808ns" },
};

static void test_duration_formats(void)
{
	char buf[32];
	uint64_t state = 2;
	int inexact = 0;
	int longer = 0;

	for (size_t i = 0; i < COUNT(format_cases); i++) {
		option_format_duration(format_cases[i].ns, buf, sizeof(buf));
		tap_check(!strcmp(buf, format_cases[i].text), "%s", format_cases[i].text);
	}
	for (int i = 0; i < 200000; i++) {
		int64_t ns = (int64_t)(random_bits(&state) >> (random_bits(&state) % 53)) + 1;
		int64_t back;

		if (i % 2)
			ns = (ns >> 20) % 1000 * units[i % COUNT(units)].ns / 4 + 1;
		option_format_duration(ns, buf, sizeof(buf));
		if (option_parse_duration(buf, &back) || back != ns)
			inexact++;
		if (strlen(buf) != shortest(ns))
			longer++;
	}
	tap_check(inexact == 0, "what is written is read back, to the nanosecond");
	tap_check(longer == 0, "no notation is shorter");
}

static void test_microseconds_for_people(void)
{
	static const struct {
		int64_t ns;
		const char *text;
	} cases[] = {
		{ 999, "0.999|µs" },
		{ 9999, "10.00|µs" },
		{ 86040, "86.0|µs" },
		{ 150400, "150|µs" },
		{ 6377350, "6|377|µs" },
		{ 1128752000, "1|128|752|µs" },
		{ 100000000000, "100|000|000|µs" },
	};
	char expected[48];
	char buf[48];

	for (size_t i = 0; i < COUNT(cases); i++) {
		size_t used = 0;

		for (const char *at = cases[i].text; *at; at++)
			used += (size_t)snprintf(expected + used, sizeof(expected) - used, "%.*s",
						 *at == '|' ? 3 : 1,
						 *at == '|' ? "\xe2\x80\xaf" : at);
		option_format_us(cases[i].ns, buf, sizeof(buf));
		tap_check(!strcmp(buf, expected), "%s is %s", buf, expected);
	}
}

/* ---- the nearest name ---- */

/* The edit distance by its definition. */
static int distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
	int best;
	int other;

	if (!a_size || !b_size)
		return (int)(a_size + b_size);
	best = distance(a, a_size - 1, b, b_size - 1) + (a[a_size - 1] != b[b_size - 1]);
	other = distance(a, a_size - 1, b, b_size) + 1;
	best = other < best ? other : best;
	other = distance(a, a_size, b, b_size - 1) + 1;
	best = other < best ? other : best;
	if (a_size > 1 && b_size > 1 && a[a_size - 1] == b[b_size - 2] &&
	    a[a_size - 2] == b[b_size - 1]) {
		other = distance(a, a_size - 2, b, b_size - 2) + 1;
		best = other < best ? other : best;
	}
	return best;
}

/* Whether @found is the nearest of three names to @name. The rule: the first at the minimum
 * distance, which is at most 1 + a quarter of the letters and less than all of them. The beginning
 * of a name counts as 1. */
static bool nearest_by_rule(const char *name, char names[3][8], const char *found)
{
	int best = 1 + (int)strlen(name) / 4;
	const char *expected = NULL;

	for (int i = 0; i < 3; i++) {
		int cost = distance(name, strlen(name), names[i], strlen(names[i]));

		if (strlen(names[i]) > strlen(name) && !strncmp(names[i], name, strlen(name)))
			cost = 1;
		if (cost < (int)strlen(names[i]) && (cost < best || (cost == best && !expected))) {
			best = cost;
			expected = names[i];
		}
	}
	return expected ? found && !strcmp(found, expected) : !found;
}

static void test_nearest_at_random(void)
{
	uint64_t state = 3;
	int wrong = 0;
	int near = 0;

	for (int i = 0; i < 4000; i++) {
		char words[4][8];
		char joined[32];
		char buf[8];
		const char *found;

		for (int w = 0; w < 4; w++) {
			size_t size = 2 + random_bits(&state) % 5;

			for (size_t k = 0; k < size; k++)
				words[w][k] = (char)('a' + random_bits(&state) % 3);
			words[w][size] = '\0';
		}
		snprintf(joined, sizeof(joined), "%s %s %s", words[1], words[2], words[3]);
		found = option_nearest(words[0], joined, buf, sizeof(buf));
		wrong += !nearest_by_rule(words[0], words + 1, found);
		near += found != NULL;
	}
	tap_check(wrong == 0, "the nearest of 4000 random names, as the definition has it");
	tap_check(near > 400 && near < 3600, "some were near, some were not");
}

static void test_nearest(void)
{
	static const char names[] = "interval cpu priority for samples load";
	static const struct {
		const char *name;
		const char *nearest;
	} cases[] = {
		{ "intervall", "interval" },
		{ "intreval", "interval" },
		{ "int", "interval" },
		{ "cup", "cpu" },
		{ "prioritys", "priority" },
		{ "sample", "samples" },
		{ "xyz", NULL },
		{ "c", NULL },
		{ "", NULL },
	};
	char buf[64];
	char tiny[4];

	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *found = option_nearest(cases[i].name, names, buf, sizeof(buf));

		tap_check(cases[i].nearest ? found && !strcmp(found, cases[i].nearest) : !found,
			  "%s", cases[i].name);
	}
	tap_check(!option_nearest("cup", "", buf, sizeof(buf)), "no names, no nearest one");
	tap_check(!option_nearest("intervall", names, tiny, sizeof(tiny)),
		  "a name that does not fit");
	memset(buf, 'a', sizeof(buf) - 1);
	buf[sizeof(buf) - 1] = '\0';
	tap_check(!option_nearest(buf, names, tiny, sizeof(tiny)), "a very long name");
}

/* ---- sets ---- */

static const struct option_info table[] = {
	{ "interval", OPTION_DURATION, "1000us", 20000, 3600000000000, NULL, "period" },
	{ "groups", OPTION_INTEGER, "10", 1, 100, NULL, "groups" },
	{ "offset", OPTION_INTEGER, "-3", 0, 0, NULL, "no limits" },
	{ "for", OPTION_DURATION, "0", 0, 0, NULL, "no limits" },
	{ "below", OPTION_INTEGER, "-5", -10, -1, NULL, "limits below zero" },
	{ "size", OPTION_SIZE, "100", 1, 1 << 20, NULL, "bytes" },
	{ "transport", OPTION_ENUM, "socket", 0, 0, "socket pipe", "what carries them" },
	{ "method", OPTION_ENUMS, "nap", 0, 0, "nap doze nap-long", "one or more" },
	{ "dither", OPTION_FLAG, "no", 0, 0, NULL, "flag" },
	{ "label", OPTION_TEXT, "", 0, 0, NULL, "text" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, "CPUs" },
	{ 0 },
};

static const struct {
	const char *name;
	const char *text;
	int64_t number;
	const char *effective;
} accepted[] = {
	{ "interval", "20us", 20000, "20us" },
	{ "interval", "60m", 3600000000000, "1h" },
	{ "interval", "0.25ms", 250000, "250us" },
	{ "groups", "1", 1, "1" },
	{ "groups", "0100", 100, "100" },
	{ "offset", "-9999", -9999, "-9999" },
	{ "for", "4611686018427387903ns", INT64_MAX / 2, "4611686018427387903ns" },
	{ "below", "-10", -10, "-10" },
	{ "size", "1024", 1024, "1KiB" },
	{ "size", "1025", 1025, "1025" },
	{ "size", "1024KiB", 1048576, "1MiB" },
	{ "transport", "pipe", 1, "pipe" },
	{ "transport", "socket", 0, "socket" },
	{ "method", "doze", 1, "doze" },
	{ "method", "nap-long,nap", 2, "nap-long,nap" },
	{ "method", "doze,nap,nap-long", 3, "doze,nap,nap-long" },
	{ "dither", "yes", 1, "yes" },
	{ "dither", "no", 0, "no" },
	{ "label", "a b=c:d", 0, "a b=c:d" },
	{ "cpu", "0-2,5", 4, "0-2,5" },
};

static const struct {
	const char *name;
	const char *text;
	const char *message;
	const char *remedy;
} refused[] = {
	{ "interval", "5us", "interval 5us is below its minimum 20us",
	  "give a value from 20us to 1h" },
	{ "interval", "61m", "interval 61m is above its maximum 1h",
	  "give a value from 20us to 1h" },
	{ "interval", "999999999d", "interval 999999999d is too large",
	  "give a value from 20us to 1h" },
	{ "interval", "fast", "interval 'fast' is not a duration",
	  "give a number and a unit: 250us, 1.5ms, 10s, 2m, 54h, 3d" },
	{ "interval", "1\n2\x7f", "interval '1?2?' is not a duration", NULL },
	{ "groups", "0", "groups 0 is below its minimum 1", "give a value from 1 to 100" },
	{ "groups", "101", "groups 101 is above its maximum 100", NULL },
	{ "groups", "ten", "groups 'ten' is not a whole number", NULL },
	{ "below", "0", "below 0 is above its maximum -1", "give a value from -10 to -1" },
	{ "below", "-99999999999999999999", "below -99999999999999999999 is too small", NULL },
	{ "offset", "99999999999999999999", "offset 99999999999999999999 is too large",
	  "give a smaller value" },
	{ "offset", "-99999999999999999999", "offset -99999999999999999999 is too small",
	  "give a larger value" },
	{ "for", "4611686018427387904ns", "for 4611686018427387904ns is too large",
	  "give a smaller value" },
	{ "for", "106751d", "for 106751d is too large", "give a smaller value" },
	{ "size", "2MiB", "size 2MiB is above its maximum 1MiB", "give a value from 1 to 1MiB" },
	{ "size", "2MB", "size '2MB' is not a size", NULL },
	{ "transport", "pipes", "transport cannot be 'pipes'", "did you mean 'pipe'?" },
	{ "transport", "pigeon", "transport cannot be 'pigeon'", "choose from: socket pipe" },
	{ "transport", "", "transport cannot be ''", "choose from: socket pipe" },
	{ "transport", "socket pipe", "transport cannot be 'socket pipe'", NULL },
	{ "method", "doze,napp", "method cannot be 'napp'", "did you mean 'nap'?" },
	{ "method", "nap,doze,nap", "method has nap twice", "give it once" },
	{ "method", "", "method cannot be ''", "choose from: nap doze nap-long" },
	{ "method", "nap,", "method cannot be ''", NULL },
	{ "method", ",nap", "method cannot be ''", NULL },
	{ "method", "nap,,doze", "method cannot be ''", NULL },
	{ "method", "nap doze", "method cannot be 'nap doze'", NULL },
	{ "dither", "true", "dither 'true' is not yes or no", "give yes or no" },
	{ "cpu", "1-", "cpu '1-' is not a list of CPUs", "give CPUs as in 0-3,8 or all" },
	{ "cpu", "99999", "cpu 99999 is too large", NULL },
	{ "gruops", "1", "unknown option 'gruops'", "did you mean 'groups'?" },
	{ "zz", "1", "unknown option 'zz'",
	  "choose from: interval groups offset for below size transport method dither label cpu" },
};

static void test_accepted(void)
{
	for (size_t i = 0; i < COUNT(accepted); i++) {
		struct option_set set;
		struct message msg = { 0 };
		const struct option_value *value;
		char what[96];
		int err;

		if (option_set_init(&set, table))
			return (void)tap_check(false, "a set is made");
		err = option_set_parse(&set, accepted[i].name, accepted[i].text, &msg);
		value = option_get(&set, accepted[i].name);
		snprintf(what, sizeof(what), "%s=%s is accepted", accepted[i].name,
			 accepted[i].text);
		tap_check(!err && !msg.text[0] && value->given &&
				  value->number == accepted[i].number &&
				  !strcmp(value->text, accepted[i].effective) &&
				  !strcmp(value->asked, accepted[i].text),
			  "%s", what);
		option_set_free(&set);
	}
}

static void test_refused(void)
{
	for (size_t i = 0; i < COUNT(refused); i++) {
		struct option_set set;
		struct message msg = { 0 };
		int err;

		if (option_set_init(&set, table))
			return (void)tap_check(false, "a set is made");
		err = option_set_parse(&set, refused[i].name, refused[i].text, &msg);
		tap_check(err == -EINVAL && !strcmp(msg.text, refused[i].message), "%s",
			  refused[i].message);
		if (refused[i].remedy)
			tap_check(!strcmp(msg.remedy, refused[i].remedy), "%s", refused[i].remedy);
		else
			tap_check(msg.remedy[0], "with a remedy");
		if (option_known(&set, refused[i].name))
			tap_check(!option_get(&set, refused[i].name)->given, "nothing was set");
		option_set_free(&set);
	}
}

static void test_sets(void)
{
	struct option_set set;
	struct message msg = { 0 };
	char longest[1000];

	tap_check(!option_set_init(&set, table), "a set is made");
	tap_check(set.count == COUNT(table) - 1, "one value for each row");
	tap_check(option_number(&set, "interval") == 1000000, "the default is read");
	tap_check(!strcmp(option_text(&set, "interval"), "1ms"), "and has its shortest notation");
	tap_check(!option_get(&set, "interval")->given && !option_get(&set, "interval")->asked,
		  "a default was not given");
	tap_check(option_known(&set, "cpu") && !option_known(&set, "cp"), "which names are known");
	option_set_parse(&set, "interval", "2ms", &msg);
	tap_check(!option_set_parse(&set, "interval", "3ms", &msg) &&
			  option_number(&set, "interval") == 3000000,
		  "the last of two wins");
	tap_check(option_set_parse(&set, "interval", "1us", &msg) == -EINVAL &&
			  option_number(&set, "interval") == 3000000,
		  "what is refused changes nothing");
	tap_check(!option_effective(&set, "interval", "4ms") &&
			  !strcmp(option_text(&set, "interval"), "4ms") &&
			  !strcmp(option_get(&set, "interval")->asked, "3ms") &&
			  option_number(&set, "interval") == 3000000,
		  "both what was asked for and what took effect are kept");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	memset(&msg, 0, sizeof(msg));
	tap_check(option_set_parse(&set, longest, "1", &msg) == -EINVAL && strlen(msg.text) < 100,
		  "a very long name is cut in the message");
	memset(&msg, 0, sizeof(msg));
	tap_check(option_set_parse(&set, "groups", longest, &msg) == -EINVAL &&
			  strlen(msg.text) < 120,
		  "and so is a very long value");
	option_set_free(&set);
	tap_check(!option_set_init(&set, NULL) && !set.count, "no table is an empty set");
	memset(&msg, 0, sizeof(msg));
	tap_check(option_set_parse(&set, "interval", "1ms", &msg) == -EINVAL &&
			  !strcmp(msg.remedy, "omit it: there are no options here"),
		  "which knows no option");
	option_set_free(&set);
}

int main(void)
{
	test_notations();
	test_durations_at_random();
	test_duration_formats();
	test_microseconds_for_people();
	test_nearest();
	test_nearest_at_random();
	test_accepted();
	test_refused();
	test_sets();
	return tap_end();
}
