// SPDX-License-Identifier: Apache-2.0
/* Tests of the tables in catalogue.c: names and places are unique, defaults are readable. Prints
 * TAP. */
#include "catalogue.h"

#include <string.h>

#include "core/core.h"
#include "run/measurement.h"
#include "run/run.h"
#include "tap.h"

static size_t size_of(enum option_type type)
{
	if (type == OPTION_FLAG)
		return sizeof(bool);
	if (type == OPTION_TEXT || type == OPTION_CPUS || type == OPTION_ENUMS)
		return sizeof(char *);
	return sizeof(int64_t);
}

static void test_run_option(const struct catalogue_run_option *o)
{
	struct message msg = { 0 };
	int64_t number;
	bool alone = true;

	for (const struct catalogue_run_option *other = catalogue_run_options; other != o; other++)
		alone &= strcmp(other->info.name, o->info.name) &&
			 (other->place >= o->place + size_of(o->info.type) ||
			  o->place >= other->place + size_of(other->info.type));
	tap_check(alone, "run option %s has a name and a place of its own", o->info.name);
	tap_check(catalogue_run_option(o->info.name) == o, "run option %s is found", o->info.name);
	tap_check(!o->info.def[0] || !option_read(&o->info, o->info.def, &number, &msg),
		  "default '%s' of run option %s %s", o->info.def, o->info.name, msg.text);
	tap_check(!strcmp(o->applies, APPLIES_STEP) || !strcmp(o->applies, APPLIES_COMMAND) ||
			  !strcmp(o->applies, APPLIES_HOST),
		  "run option %s applies to %s", o->info.name, o->applies);
	tap_check(!strcmp(o->applies, APPLIES_HOST) || o->group,
		  "run option %s has a group in the help", o->info.name);
	tap_check(!o->changes || !o->info.def[0] || !strcmp(o->info.def, "no"),
		  "run option %s changes nothing by default", o->info.name);
}

#define LAST(table) ((table)[sizeof(table) / sizeof((table)[0]) - 1])

/* The agent's parser reads an option of the run first: the measurement would never get its own. */
static void test_measurement(const struct measurement *m)
{
	const struct measurement *timed = m->times ? catalogue_find(m->times) : NULL;
	const struct core *cobalt = CORE_COBALT;
	const char *taken = NULL;
	bool unseen = false;

	for (const struct option_info *o = m->options; o && o->name; o++)
		if (catalogue_run_option(o->name))
			taken = o->name;
	for (const struct measurement_entry *e = m->known_limitations; e && e->name; e++) {
		const struct measurement_entry *rule = m->verdicts;

		while (rule->name && strcmp(rule->name, e->name))
			rule++;
		tap_check(rule->name, "%s tests '%s'", m->name, e->name);
	}
	tap_check(!LAST(m->series).name && !LAST(m->tables).name && !LAST(m->verdicts).name &&
			  !LAST(m->evaluate).load,
		  "the tables of %s end", m->name);
	tap_check(!taken, "no option of %s is also one of the run %s", m->name, taken ? taken : "");
	tap_check(!m->times || (timed && timed->answers), "%s times a measurement that answers",
		  m->name);
	tap_check(!cobalt || !m->not_on_cobalt == (m->on_cobalt || catalogue_on_cobalt(m)),
		  "%s is measured on the Cobalt core, or has the reason why it is not", m->name);
	for (const struct measurement_series *s = m->series; s->name; s++)
		unseen |= m->unseen_gaps && !strcmp(s->name, m->unseen_gaps);
	tap_check(unseen == !!m->unseen_gaps, "%s has its series of gaps", m->name);
}

/* Can fail on machines with 32-bit addresses only. */
static void test_sizes(void)
{
	static const struct option_info table[] = {
		{ "memory", OPTION_SIZE, "0", 0, 1LL << 40, NULL, "" },
		{ NULL, 0, NULL, 0, 0, NULL, NULL },
	};
	static const char *const texts[] = { "4GiB", "5GiB" };
	struct option_set set;
	struct message msg = { 0 };

	tap_check(!option_set_init(&set, table) && !option_size(&set, "memory"), "no memory");
	for (int i = 0; i < 2; i++) {
		uint64_t size = (uint64_t)(4 + i) << 30;

		if (size > SIZE_MAX)
			size = SIZE_MAX;
		tap_check(!option_set_parse(&set, "memory", texts[i], &msg) &&
				  option_size(&set, "memory") == size,
			  "%s of memory, or the most", texts[i]);
	}
	option_set_free(&set);
}

int main(void)
{
	for (int i = 0; catalogue_run_options[i].info.name; i++)
		test_run_option(&catalogue_run_options[i]);
	for (int i = 0; catalogue_measurements[i]; i++)
		test_measurement(catalogue_measurements[i]);
	tap_check(!catalogue_run_option("nothing"), "an unknown run option is not found");
	test_sizes();
	return tap_end();
}
