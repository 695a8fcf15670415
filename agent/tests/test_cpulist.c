// SPDX-License-Identifier: Apache-2.0
/* Tests of cpulist.c: notation, its errors, and the sets of this machine. Prints TAP. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cpulist.h"
#include "tap.h"

static const struct {
	const char *text;
	int result;
	int count;
	const char *formatted; /* NULL: as text */
} notations[] = {
	{ "0", 0, 1, NULL },
	{ "0-3,8", 0, 5, NULL },
	{ "0,1", 0, 2, "0-1" },
	{ "8,0-3", 0, 5, "0-3,8" },
	{ "0-3,2-5", 0, 6, "0-5" },
	{ "7,7", 0, 1, "7" },
	{ "007", 0, 1, "7" },
	{ "31-32,63-64", 0, 4, NULL },
	{ "0-4095", 0, 4096, NULL },
	{ "4095", 0, 1, NULL },
	{ "4096", -ERANGE, 0, NULL },
	{ "0-4096", -ERANGE, 0, NULL },
	{ "99999999999999999999", -ERANGE, 0, NULL },
	{ "", -EINVAL, 0, NULL },
	{ "-1", -EINVAL, 0, NULL },
	{ "3-1", -EINVAL, 0, NULL },
	{ "1-", -EINVAL, 0, NULL },
	{ "1,", -EINVAL, 0, NULL },
	{ ",1", -EINVAL, 0, NULL },
	{ "1 ", -EINVAL, 0, NULL },
	{ " 1", -EINVAL, 0, NULL },
	{ "1,,2", -EINVAL, 0, NULL },
	{ "0x1", -EINVAL, 0, NULL },
	{ "0-7:1/2", -EINVAL, 0, NULL },
	{ "allx", -EINVAL, 0, NULL },
	{ "none", -EINVAL, 0, NULL },
};

static void test_notation(void)
{
	for (size_t i = 0; i < sizeof(notations) / sizeof(notations[0]); i++) {
		struct cpulist list = { 0 };
		char what[64], text[64];
		const char *expected = notations[i].formatted;
		int result;

		cpulist_add(&list, 100);
		result = cpulist_parse(&list, notations[i].text);
		snprintf(what, sizeof(what), "parse '%s'", notations[i].text);
		tap_check(result == notations[i].result, "%s", what);
		if (result) {
			tap_check(cpulist_count(&list) == 1 && cpulist_has(&list, 100),
				  "an error leaves the list as it was");
			continue;
		}
		tap_check(cpulist_count(&list) == notations[i].count, "count");
		cpulist_format(&list, text, sizeof(text));
		tap_check(!strcmp(text, expected ? expected : notations[i].text), "format");
	}
}

/* Every list of a small universe, placed at a word's edge, comes back from its notation. */
static void test_round_trip(void)
{
	int bad = 0;

	for (unsigned int set = 1; set < 1U << 10; set++) {
		struct cpulist list = { 0 }, again;
		char text[128];

		for (int bit = 0; bit < 10; bit++) {
			if (set >> bit & 1)
				cpulist_add(&list, 58 + bit);
		}
		if (cpulist_parse(&again, cpulist_format(&list, text, sizeof(text))) ||
		    memcmp(&list, &again, sizeof(list)) ||
		    cpulist_count(&again) != __builtin_popcount(set) ||
		    cpulist_next(&again, 0) != 58 + __builtin_ctz(set))
			bad++;
	}
	tap_check(bad == 0, "1023 lists come back from their notation");
}

static void test_members(void)
{
	struct cpulist list = { 0 };
	char text[32];

	tap_check(!strcmp(cpulist_format(&list, text, sizeof(text)), ""),
		  "an empty list has no text");
	tap_check(cpulist_next(&list, 0) == -1, "an empty list has no first CPU");
	cpulist_add(&list, -1);
	cpulist_add(&list, CPULIST_MAX);
	tap_check(cpulist_count(&list) == 0, "impossible CPUs are not added");
	cpulist_remove(&list, -1);
	cpulist_remove(&list, CPULIST_MAX);
	tap_check(!cpulist_has(&list, -1) && !cpulist_has(&list, CPULIST_MAX),
		  "impossible CPUs are in no list");
	cpulist_add(&list, 3);
	cpulist_add(&list, CPULIST_MAX - 1);
	tap_check(cpulist_next(&list, -5) == 3, "next from before the start");
	tap_check(cpulist_next(&list, 4) == CPULIST_MAX - 1, "next over a long gap");
	tap_check(cpulist_next(&list, CPULIST_MAX) == -1, "next from beyond the end");
	cpulist_remove(&list, 3);
	tap_check(cpulist_count(&list) == 1 && !cpulist_has(&list, 3), "remove");
}

static void test_small_buffer(void)
{
	struct cpulist list;
	char text[32];
	int bad = 0;

	cpulist_parse(&list, "10,20,30-33,40");
	for (size_t size = 1; size < sizeof(text); size++) {
		size_t length;

		memset(text, 'x', sizeof(text));
		cpulist_format(&list, text, size);
		length = strnlen(text, sizeof(text));
		if (length >= size || text[size] != 'x')
			bad++;
		if (size >= 4 && strcmp(text, "10,20,30-33,40") && strcmp(text + length - 3, "..."))
			bad++;
	}
	tap_check(bad == 0,
		  "a list that does not fit is cut after a whole item, inside the buffer");
	tap_check(!strcmp(cpulist_format(&list, text, 11), "10,20,..."), "a cut list ends in ...");
	tap_check(!strcmp(cpulist_format(&list, text, 15), "10,20,30-33,40"),
		  "a list that just fits");
	tap_check(!strcmp(cpulist_format(&list, NULL, 0), ""), "no buffer at all");
}

static void test_this_machine(void)
{
	struct cpulist allowed, online, all, one = { 0 }, now;
	int cpu;

	tap_check(cpulist_allowed(&allowed) == 0 && cpulist_count(&allowed) >= 1, "allowed CPUs");
	tap_check(cpulist_online(&online) == 0 &&
			  cpulist_count(&online) == (int)sysconf(_SC_NPROCESSORS_ONLN),
		  "online CPUs");
	tap_check(cpulist_parse(&all, "all") == 0 && !memcmp(&all, &allowed, sizeof(all)),
		  "'all' is those allowed");
	cpu = cpulist_next(&allowed, 0);
	cpulist_add(&one, cpu);
	tap_check(cpulist_apply(&one, 0) == 0 && cpulist_allowed(&now) == 0 &&
			  !memcmp(&one, &now, sizeof(now)),
		  "bound to one CPU");
	tap_check(cpulist_apply(&allowed, getpid()) == 0 && cpulist_allowed(&now) == 0 &&
			  !memcmp(&allowed, &now, sizeof(now)),
		  "and back to all");
	cpulist_remove(&one, cpu);
	tap_check(cpulist_apply(&one, 0) == -EINVAL, "no CPU at all is an error");
	tap_check(cpulist_apply(&allowed, 0x7ffffff0) == -ESRCH, "no such thread is an error");
}

int main(void)
{
	test_notation();
	test_round_trip();
	test_members();
	test_small_buffer();
	test_this_machine();
	return tap_end();
}
