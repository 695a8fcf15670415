// SPDX-License-Identifier: Apache-2.0
/* A set of loads from its text: names, options, profiles. */
#include "loads/set.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEDULE_MAX_NS (366 * 86400 * NSEC_PER_SEC)

const struct option_info load_options[] = {
	{ "restart", OPTION_DURATION, "0", 0, SCHEDULE_MAX_NS, NULL,
	  "interval at which the load is killed and restarted; 0: never" },
	{ "cycle", OPTION_DURATION, "0", 0, SCHEDULE_MAX_NS, NULL,
	  "length of a cycle, for 'from' and 'until'; 0: no cycle" },
	{ "from", OPTION_DURATION, "0", 0, SCHEDULE_MAX_NS, NULL, "start time in each cycle" },
	{ "until", OPTION_DURATION, "0", 0, SCHEDULE_MAX_NS, NULL,
	  "end time in each cycle; 0: end of the cycle" },
	{ "count", OPTION_INTEGER, "0", 0, UINT32_MAX, NULL,
	  "work in each turn: loads with a count take turns in the given order; 0: no turns" },
	{ "rest", OPTION_DURATION, "0", 0, SCHEDULE_MAX_NS, NULL, "pause after each turn" },
	{ 0 },
};

static int refuse_unknown(const char *name, const struct load *const *loads, struct message *msg)
{
	char names[200] = "idle";
	char near[64];
	char remedy[sizeof(msg->remedy)];
	size_t used = strlen(names);

	for (; *loads && used < sizeof(names); loads++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, " %s", (*loads)->name);
	if (option_nearest(name, names, near, sizeof(near)))
		snprintf(remedy, sizeof(remedy), "did you mean '%s'?", near);
	else
		snprintf(remedy, sizeof(remedy), "choose from: %s", names);
	return message_set(msg, -EINVAL, remedy, "unknown load '%.40s'", name);
}

/* Read "option=value" and what follows it, separated by colons. Writes into @text. */
static int parse_options(struct load_worker *worker, char *text, struct message *msg)
{
	char *rest = text;

	while (rest) {
		char *name = strsep(&rest, ":");
		char *value = strchr(name, '=');
		struct message inner = { 0 };
		int err;

		if (!value)
			return message_set(msg, -EINVAL, "write NAME:option=value",
					   "load %s: '%.40s' is not option=value",
					   worker->load->name, name);
		*value++ = '\0';
		err = option_set_parse(&worker->options, name, value, &inner);
		if (err)
			return message_set(msg, err, inner.remedy, "load %s: %s",
					   worker->load->name, inner.text);
	}
	return 0;
}

static int refuse_schedule(const struct load_worker *worker, const char *remedy,
			   struct message *msg)
{
	return message_set(msg, -EINVAL, remedy, "load %s: cannot work from %s until %s",
			   worker->load->name, option_text(&worker->options, "from"),
			   option_text(&worker->options, "until"));
}

static int check_schedule(const struct load_worker *worker, struct message *msg)
{
	int64_t cycle_ns = option_number(&worker->options, "cycle");
	int64_t from_ns = option_number(&worker->options, "from");
	int64_t until_ns = option_number(&worker->options, "until");

	if (option_number(&worker->options, "count") &&
	    (cycle_ns || option_number(&worker->options, "restart")))
		return message_set(msg, -EINVAL, "omit 'count', or 'restart' and 'cycle'",
				   "load %s: 'count' cannot be combined with 'restart' or 'cycle'",
				   worker->load->name);
	if (!cycle_ns && (from_ns || until_ns))
		return refuse_schedule(worker, "also give 'cycle'", msg);
	if (cycle_ns && (until_ns > cycle_ns || from_ns >= (until_ns ? until_ns : cycle_ns)))
		return refuse_schedule(
			worker, "give times within the cycle, 'until' later than 'from'", msg);
	return 0;
}

/* One more load in the set, all its options at their defaults; NULL without memory. */
static struct load_worker *add_worker(struct load_set *set, const struct load *load,
				      const char *text)
{
	struct load_worker *grown = realloc(set->workers, (set->count + 1) * sizeof(*grown));
	struct load_worker *worker;
	size_t own = 0;
	size_t common = 0;

	if (!grown)
		return NULL;
	set->workers = grown;
	worker = &grown[set->count];
	memset(worker, 0, sizeof(*worker));
	worker->load = load;
	while (load->options[own].name)
		own++;
	while (load_options[common].name)
		common++;
	worker->table = calloc(own + common + 1, sizeof(*worker->table));
	if (!worker->table)
		return NULL;
	memcpy(worker->table, load->options, own * sizeof(*worker->table));
	memcpy(worker->table + own, load_options, common * sizeof(*worker->table));
	worker->label = strdup(text);
	if (!worker->label || option_set_init(&worker->options, worker->table)) {
		free(worker->label);
		free(worker->table);
		return NULL;
	}
	set->count++;
	return worker;
}

static int parse_list(struct load_set *set, const char *text, const struct load *const *loads,
		      struct message *msg);

/* Whether a load has the option @name and its text does not give it a value. */
static bool leaves_open(const struct load_worker *worker, const char *name)
{
	const struct option_info *o = worker->table;
	char given[64];

	while (o->name && strcmp(o->name, name) != 0)
		o++;
	snprintf(given, sizeof(given), ":%s=", name);
	return o->name && !strstr(worker->label, given);
}

/* The loads of a profile. Each option in @rest goes to those that leave it open. */
static int parse_profile(struct load_set *set, const struct load *profile, char *rest,
			 const struct load *const *loads, struct message *msg)
{
	size_t first = set->count;
	int err = parse_list(set, profile->mix, loads, msg);

	while (rest && !err) {
		char *option = strsep(&rest, ":");
		size_t name = strcspn(option, "=");
		bool taken = false;

		for (size_t i = first; i < set->count && !err; i++) {
			char *copy = strdup(option);

			if (!copy)
				return load_out_of_memory(msg);
			copy[name] = '\0';
			if (leaves_open(&set->workers[i], copy)) {
				strcpy(copy, option);
				err = parse_options(&set->workers[i], copy, msg);
				taken = true;
			}
			free(copy);
		}
		if (!taken) {
			char remedy[sizeof(msg->remedy)];

			snprintf(remedy, sizeof(remedy),
				 "give the loads of the profile instead: %s", profile->mix);
			return message_set(
				msg, -EINVAL, remedy,
				"no load of %s has the option '%.*s', or %s already sets it",
				profile->name, name < 40 ? (int)name : 40, option, profile->name);
		}
	}
	for (size_t i = first; i < set->count && !err; i++)
		err = check_schedule(&set->workers[i], msg);
	return err;
}

static int parse_load(struct load_set *set, char *text, const struct load *const *loads,
		      struct message *msg)
{
	const struct load *const *found = loads;
	struct load_worker *worker;
	char *rest = text;
	char *name = strsep(&rest, ":");
	int err;

	while (*found && strcmp((*found)->name, name))
		found++;
	if (!strcmp(name, "idle"))
		return message_set(msg, -EINVAL, "omit it", "idle is not a load: it cannot %s",
				   rest ? "have options" : "run with others");
	if (!*found)
		return refuse_unknown(name, loads, msg);
	if ((*found)->mix)
		return parse_profile(set, *found, rest, loads, msg);
	if (rest)
		rest[-1] = ':';
	worker = add_worker(set, *found, text);
	if (!worker)
		return load_out_of_memory(msg);
	err = rest ? parse_options(worker, rest, msg) : 0;
	return err ? err : check_schedule(worker, msg);
}

static int parse_list(struct load_set *set, const char *text, const struct load *const *loads,
		      struct message *msg)
{
	char *copy = strdup(text);
	char *rest = copy;
	int err = copy ? 0 : load_out_of_memory(msg);

	while (rest && !err)
		err = parse_load(set, strsep(&rest, ","), loads, msg);
	free(copy);
	return err;
}

/* A load goes by its name; where several have that, by the text as asked. */
static void choose_labels(struct load_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		size_t same = 0;

		for (size_t j = 0; j < set->count; j++)
			same += set->workers[j].load == set->workers[i].load;
		if (same == 1)
			set->workers[i].label[strlen(set->workers[i].load->name)] = '\0';
	}
}

int load_set_parse(struct load_set **result, const char *text, const struct load *const *loads,
		   struct message *msg)
{
	struct load_set *set = calloc(1, sizeof(*set));
	int err = set ? 0 : load_out_of_memory(msg);

	*result = NULL;
	if (!err && *text && strcmp(text, "idle") != 0)
		err = parse_list(set, text, loads, msg);
	if (err) {
		load_set_free(set);
		return err;
	}
	choose_labels(set);
	set->ready_ns = LOAD_READY_NS;
	*result = set;
	return 0;
}

int load_set_add_command(struct load_set *set, const struct load *command, const char *text,
			 bool as_root, struct message *msg)
{
	struct load_worker *worker = add_worker(set, command, command->name);
	int err;

	if (!worker)
		return load_out_of_memory(msg);
	err = option_set_parse(&worker->options, "text", text, msg);
	if (!err && as_root)
		err = option_set_parse(&worker->options, "user", "root", msg);
	return err;
}
