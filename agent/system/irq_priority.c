// SPDX-License-Identifier: Apache-2.0
/* Priorities of the threads of interrupts, for one run. */
#include "system/irq_priority.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "base/procstat.h"
#include "base/schedule.h"
#include "base/value.h"

#define KTHREADD 2 /* the parent of all kernel threads */
#define PRIORITY_MAX 99
#define RULES_MAX 64
#define NAME_ROOM 64
#define PATH_ROOM (NAME_ROOM + 64)

/* NUMBER=PRIORITY, NAME=PRIORITY, or PRIORITY for all others. */
struct rule {
	char which[NAME_ROOM]; /* empty: all */
	int priority;
	bool fitted;  /* there is a thread that it fits */
	bool decided; /* and no rule before it does */
};

struct wishes {
	struct setting_wish *wish;
	size_t count;
	bool failed; /* out of memory */
};

static int read_rule(const char *text, size_t size, struct rule *rule)
{
	char word[NAME_ROOM + 8];
	int64_t priority;
	char *equals;

	if (size >= sizeof(word))
		return -EINVAL;
	memcpy(word, text, size);
	word[size] = '\0';
	equals = strrchr(word, '=');
	if (equals == word || (equals && equals - word >= NAME_ROOM))
		return -EINVAL;
	if (option_parse_integer(equals ? equals + 1 : word, &priority) || priority < 1 ||
	    priority > PRIORITY_MAX)
		return -EINVAL;
	if (equals)
		*equals = '\0';
	*rule = (struct rule){ .priority = (int)priority };
	if (equals)
		strcpy(rule->which, word);
	return 0;
}

/* The number of rules or -EINVAL. */
static int read_rules(const char *list, struct rule rules[RULES_MAX], struct message *msg)
{
	const char *at = list;
	int count = 0;
	size_t size;

	for (;; at += size + 1) {
		size = strcspn(at, ",");
		if (count == RULES_MAX || read_rule(at, size, &rules[count]))
			return message_set(msg, -EINVAL,
					   "give a priority from 1 to 99 for all, or a list by the "
					   "interrupt's number or name, such as 24=90,eth*=80,50",
					   "'%.*s' is not a priority of interrupts",
					   (int)(size < 60 ? size : 60), at);
		count++;
		if (!at[size])
			return count;
	}
}

int irq_priority_check(const char *list, struct message *msg)
{
	struct rule rules[RULES_MAX];
	int count = read_rules(list, rules, msg);

	return count < 0 ? count : 0;
}

/* Whether @name is as @pattern, in which `*` and `?` stand for any letters and for one. */
static bool is_like(const char *pattern, const char *name)
{
	const char *star = NULL, *from = NULL;

	while (*name) {
		if (*pattern == '*') {
			star = ++pattern;
			from = name;
		} else if (*pattern == '?' || *pattern == *name) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star;
			name = ++from;
		} else {
			return false;
		}
	}
	return pattern[strspn(pattern, "*")] == '\0';
}

/*
 * kernel/irq/manage.c names them irq/NUMBER-NAME, or irq/NUMBER-s-NAME where the handler itself is
 * a thread and has another one for the rest.
 */
static bool fits(const struct rule *rule, const char *thread)
{
	const char *at = thread + strlen("irq/");
	size_t digits = strspn(at, "0123456789");
	const char *name = at + digits + 1;

	if (!rule->which[0])
		return true;
	if (strspn(rule->which, "0123456789") == strlen(rule->which))
		return strlen(rule->which) == digits && !strncmp(rule->which, at, digits);
	return is_like(rule->which, name) ||
	       (!strncmp(name, "s-", 2) && is_like(rule->which, name + 2));
}

static bool of_interrupt(const char *thread)
{
	size_t digits;

	if (strncmp(thread, "irq/", 4))
		return false;
	digits = strspn(thread + 4, "0123456789");
	return digits && thread[4 + digits] == '-';
}

static void add(struct wishes *wishes, const char *path, int priority)
{
	struct setting_wish *grown;
	char value[16];

	grown = realloc(wishes->wish, (wishes->count + 1) * sizeof(*grown));
	if (!grown) {
		wishes->failed = true;
		return;
	}
	wishes->wish = grown;
	grown += wishes->count++;
	snprintf(value, sizeof(value), "fifo %d", priority);
	grown->path = strdup(path);
	grown->value = strdup(value);
	wishes->failed |= !grown->path || !grown->value;
}

/* What the rules, of which the first that fits decides, ask of each thread. Number of threads. */
static int find(struct wishes *wishes, struct rule *rules, int count)
{
	char path[PATH_ROOM], text[VALUE_MAX], name[NAME_ROOM];
	struct procstat stat;
	int found = 0;
	pid_t tid;
	DIR *dir;

	dir = opendir("/proc");
	while (dir && (tid = procstat_next(dir, &stat))) {
		if (stat.parent != KTHREADD)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)tid);
		if (value_get(path, text, NULL) || !of_interrupt(text))
			continue;
		text[sizeof(name) - 1] = '\0';
		strcpy(name, text);
		found++;
		schedule_name(tid, stat.started, name, path, sizeof(path));
		for (int i = 0, decided = 0; i < count; i++) {
			if (!fits(&rules[i], name))
				continue;
			rules[i].fitted = true;
			if (decided++)
				continue;
			rules[i].decided = true;
			add(wishes, path, rules[i].priority);
		}
	}
	if (dir)
		closedir(dir);
	return found;
}

static int refuse(struct settings *settings, const struct rule *rule, bool threads,
		  struct message *msg)
{
	const char *why = "no thread of an interrupt has this name or number";
	char name[NAME_ROOM + 8], asked[16], comm[VALUE_MAX];

	snprintf(name, sizeof(name), "irq/%.63s", rule->which[0] ? rule->which : "*");
	snprintf(asked, sizeof(asked), "fifo %d", rule->priority);
	if (rule->fitted)
		why = "earlier parts match all of its threads";
	else if (!threads && (value_get("/proc/2/comm", comm, NULL) || strcmp(comm, "kthreadd")))
		why = "a container does not show kernel threads: start it with --pid=host";
	else if (!threads)
		why = "no interrupt has a thread: boot with threadirqs, or a PREEMPT_RT kernel";
	return settings_refuse(settings, name, asked, why, msg);
}

int irq_priority_apply(struct settings *settings, const char *list, struct message *msg)
{
	struct rule rules[RULES_MAX];
	struct wishes wishes = { 0 };
	int count, threads, err = 0;
	bool all = false;

	count = read_rules(list, rules, msg);
	if (count < 0)
		return count;
	threads = find(&wishes, rules, count);
	for (int i = 0; !err && i < count; i++) {
		/* the first rule for all others has done its part even if none is left */
		bool done = rules[i].decided || (threads > 0 && !all && !rules[i].which[0]);

		all |= !rules[i].which[0];
		if (!done)
			err = refuse(settings, &rules[i], threads > 0, msg);
	}
	if (wishes.failed)
		err = message_set(msg, -ENOMEM, "", "out of memory");
	if (!err)
		err = settings_set_all(settings, wishes.wish, wishes.count, msg);
	while (wishes.count-- > 0) {
		free((char *)wishes.wish[wishes.count].path);
		free((char *)wishes.wish[wishes.count].value);
	}
	free(wishes.wish);
	return err;
}
