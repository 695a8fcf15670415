// SPDX-License-Identifier: Apache-2.0
/* Tests of parse.c: texts that name loads, and the messages on others. Prints TAP. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "loads/load.h"
#include "tap.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

extern const struct load load_sched;
extern const struct load load_cpu;

static const struct option_info no_options[] = { { 0 } };
static const struct load counting = { .name = "counting", .summary = "", .options = no_options };
static const struct load mixed = {
	.name = "mixed",
	.mix = "sched:groups=1:fds=1,counting",
};
static const struct load *const loads[] = { &load_sched, &load_cpu, &counting, &mixed, NULL };

static void check_message(const struct message *msg, const char *text)
{
	tap_check(!strcmp(msg->text, text), "%s", text);
	if (strcmp(msg->text, text))
		printf("# said: %s\n", msg->text);
}

static const struct {
	const char *text;
	const char *message;
	const char *remedy;
} refused[] = {
	{ "shed", "unknown load 'shed'", "did you mean 'sched'?" },
	{ "cup", "unknown load 'cup'", "did you mean 'cpu'?" },
	{ "sched,", "unknown load ''", NULL },
	{ ",sched", "unknown load ''", NULL },
	{ "sched,,cpu", "unknown load ''", NULL },
	{ "idel", "unknown load 'idel'", "did you mean 'idle'?" },
	{ "idle,cpu", "idle is not a load: it cannot run with others", "omit it" },
	{ "cpu,idle", "idle is not a load: it cannot run with others", "omit it" },
	{ "idle:groups=1", "idle is not a load: it cannot have options", "omit it" },
	{ "sched:", "load sched: '' is not option=value", "write NAME:option=value" },
	{ "sched:groups", "load sched: 'groups' is not option=value", NULL },
	{ "sched:gruops=1", "load sched: unknown option 'gruops'", "did you mean 'groups'?" },
	{ "sched:groups=0", "load sched: groups 0 is below its minimum 1", NULL },
	{ "sched:transport=tcp", "load sched: transport cannot be 'tcp'",
	  "choose from: socket pipe" },
	{ "cpu:per-cpu=x", "load cpu: per-cpu 'x' is not a whole number", NULL },
	{ "mixxed", "unknown load 'mixxed'", "did you mean 'mixed'?" },
	{ "mixed:groups=1", "no load of mixed has the option 'groups', or mixed already sets it",
	  "give the loads of the profile instead: sched:groups=1:fds=1,counting" },
	{ "mixed:", "no load of mixed has the option '', or mixed already sets it", NULL },
	{ "mixed:size", "load sched: 'size' is not option=value", "write NAME:option=value" },
	{ "mixed:size=0", "load sched: size 0 is below its minimum 1", NULL },
	{ "mixed:from=1s", "load sched: cannot work from 1s until 0", NULL },
	{ "cpu:count=9:restart=1s",
	  "load cpu: 'count' cannot be combined with 'restart' or 'cycle'",
	  "omit 'count', or 'restart' and 'cycle'" },
	{ "cpu:restrat=5s", "load cpu: unknown option 'restrat'", "did you mean 'restart'?" },
	{ "cpu:restart=5", "load cpu: restart '5' is not a duration", NULL },
	{ "cpu:from=1s", "load cpu: cannot work from 1s until 0", "also give 'cycle'" },
	{ "cpu:cycle=9s:from=9s", "load cpu: cannot work from 9s until 0", NULL },
	{ "cpu:cycle=9s:until=10s", "load cpu: cannot work from 0 until 10s", NULL },
	{ "cpu:cycle=9s:from=2s:until=2s", "load cpu: cannot work from 2s until 2s", NULL },
	{ "counting:a=1", "load counting: unknown option 'a'",
	  "choose from: restart cycle from until count rest" },
};

static void test_parse(void)
{
	static const char *const accepted[] = {
		"",
		"idle",
		"sched",
		"sched:groups=4:size=100,cpu",
		"cpu,cpu:per-cpu=2",
		"mixed",
		"mixed:size=512:restart=5s",
		"cpu,mixed",
		"mixed,mixed,cpu",
		"cpu:cycle=9s:from=1s:until=9s:restart=1s",
	};

	for (size_t i = 0; i < COUNT(accepted); i++) {
		struct load_set *set;
		struct message msg = { 0 };

		tap_check(!load_set_parse(&set, accepted[i], loads, &msg) && set && !msg.text[0],
			  "%s", accepted[i]);
		load_set_free(set);
	}
	for (size_t i = 0; i < COUNT(refused); i++) {
		struct load_set *set;
		struct message msg = { 0 };

		tap_check(load_set_parse(&set, refused[i].text, loads, &msg) == -EINVAL && !set,
			  "%s", refused[i].text);
		check_message(&msg, refused[i].message);
		tap_check(refused[i].remedy ? !strcmp(msg.remedy, refused[i].remedy) :
					      msg.remedy[0],
			  "%s", msg.remedy);
	}
	load_set_free(NULL);
}

int main(void)
{
	test_parse();
	return tap_end();
}
