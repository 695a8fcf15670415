// SPDX-License-Identifier: Apache-2.0
/*
 * The tables of measurements, loads and options of the run, and the document that describes them
 * (docs/formats/catalogue.md). A new one is named only here.
 */
#include "catalogue.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/version.h"
#include "loads/load.h"
#include "run/mark.h"
#include "run/measurement.h"
#include "run/run.h"
#include "system/prepare.h"

/* One row for each measurement: the file that defines NAME_measurement. BOTH: also compiled for the
 * Cobalt core (meson.build). */
/* clang-format off */
#define MEASUREMENTS(ROW, BOTH) \
	ROW(timer) \
	ROW(clock_cost) \
	ROW(cpu_power) \
	ROW(noise) \
	ROW(tick_period) \
	ROW(tick_cost) \
	ROW(clock_warps) \
	ROW(thread_rules) \
	BOTH(round_robin) \
	BOTH(thread_switch) \
	ROW(thread_lifecycle) \
	ROW(core_switches) \
	BOTH(sem_lock) \
	BOTH(sem_order) \
	BOTH(sem_lifecycle) \
	BOTH(sem_uncontended) \
	BOTH(sem_contended) \
	BOTH(mutex_inversion) \
	BOTH(mutex_contended) \
	BOTH(mutex_uncontended) \
	BOTH(mutex_chain) \
	ROW(irq_latency) \
	ROW(irq_dispatch) \
	ROW(irq_to_thread) \
	ROW(irq_sustained) \
	ROW(response) \
	ROW(log_host) \
	BOTH(condvar) \
	ROW(futex) \
	BOTH(mq_posix) \
	ROW(mq_sysv) \
	ROW(sem_sysv) \
	ROW(pipe) \
	ROW(eventfd) \
	BOTH(signal) \
	BOTH(mutex_handover) \
	ROW(process_create) \
	ROW(page_fault) \
	ROW(cpu_wakeup) \
	ROW(cpu_migration) \
	ROW(idle_exit) \
	ROW(observe) \
	ROW(smokey)
/* clang-format on */
#define DECLARATION(name) extern const struct measurement name##_measurement;
#define ADDRESS(name) &name##_measurement,
#define NOTHING(name)

MEASUREMENTS(DECLARATION, DECLARATION)

const struct measurement *const catalogue_measurements[] = { MEASUREMENTS(ADDRESS, ADDRESS) NULL };

#if defined(__x86_64__) || defined(__aarch64__)
#define DECLARATION_ON_COBALT(name) extern const struct measurement name##_cobalt;
#define PAIR_ON_COBALT(name) { &name##_measurement, &name##_cobalt },

MEASUREMENTS(NOTHING, DECLARATION_ON_COBALT)
#else
#define PAIR_ON_COBALT(name) { &name##_measurement, NULL },
#endif

const struct measurement *catalogue_on_cobalt(const struct measurement *measurement)
{
	static const struct {
		const struct measurement *on_linux, *on_cobalt;
	} pairs[] = { MEASUREMENTS(NOTHING, PAIR_ON_COBALT) };

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (pairs[i].on_linux == measurement)
			return pairs[i].on_cobalt;
	return NULL;
}

extern const struct load load_sched;
extern const struct load load_cpu;
extern const struct load load_net;
extern const struct load load_copy;
extern const struct load load_walk;
extern const struct load load_list;
extern const struct load load_cache;
extern const struct load load_memory;
extern const struct load load_fork_exit;
extern const struct load load_disk;
extern const struct load load_timer;
extern const struct load load_irq;

/* Loads of published studies and projects (docs/reference/loads.md, "Profiles"). */
static const struct load doload = {
	.name = "doload",
	.summary = "hackbench 1, network bursts, dd and ls -lR /, as in the published timer study",
	.mix = "sched:groups=1:restart=5s:cycle=65s,net:cycle=65s,"
	       "copy:size=512:per-cpu=0:cycle=65s,walk:cross=yes:cycle=65s",
};

static const struct load gpioirqbench = {
	.name = "gpioirqbench",
	.summary =
		"programs started repeatedly, while hackbench 10, calibrator and a pause take turns",
	.mix = "list,sched:count=400000,"
	       "cache:pattern=chase:size=32MiB:per-cpu=0:count=57671680:rest=30s",
};

static const struct load find = {
	.name = "find",
	.summary = "a walk from / over all file systems, like find /",
	.mix = "walk:cross=yes:stat=no",
};

static const struct load xeno_test = {
	.name = "xeno-test",
	.summary = "the load of Xenomai's script dohell",
	.mix = "net:burst=250ms:pause=15s,disk:needed=no,sched:groups=1:restart=1s,"
	       "copy:path=/proc/interrupts:per-cpu=0,walk:path=/proc,"
	       "copy:size=512:per-cpu=0,walk:cross=yes",
};

static const struct load churn = {
	.name = "churn",
	.summary = "loads that are killed and restarted every 5 s",
	.mix = "sched:restart=5s,memory:restart=5s,fork:restart=5s,list:restart=5s",
};

const struct load *const catalogue_loads[] = {
	&load_sched, &load_cpu,	    &load_net,	     &load_copy, &load_walk,  &load_list,
	&load_cache, &load_memory,  &load_fork_exit, &load_disk, &load_timer, &load_irq,
	&doload,     &gpioirqbench, &find,	     &xeno_test, &churn,      NULL,
};

#define PLACE(field) offsetof(struct run_request, field)

/* The parser of the command line (main.c), the usage text, `describe`, and through that the host's
 * command line and plans follow from these rows. */
/* clang-format off */
const struct catalogue_run_option catalogue_run_options[] = {
	{ { "load", OPTION_TEXT, "idle", 0, 0, "LOADS",
	    "NAME[:option=value...][,NAME...]: loads or profiles that run on the target" },
	  APPLIES_STEP, PLACE(loads), GROUP_TARGET, false, NULL },
	{ { "load-cpu", OPTION_CPUS, "", 0, 0, NULL, "CPUs of the load" },
	  APPLIES_STEP, PLACE(load_cpus), GROUP_TARGET, true, NULL },
	{ { "load-cmd", OPTION_TEXT, "", 0, 0, "COMMAND",
	    "shell command that runs on the target as a load, such as 'stress-ng --vm 2'" },
	  APPLIES_STEP, PLACE(load_command), GROUP_TARGET, true, NULL },
	{ { "load-cmd-root", OPTION_FLAG, "no", 0, 0, NULL,
	    "run the load command with the agent's rights instead of the rights of the user who called sudo" },
	  APPLIES_COMMAND, PLACE(load_command_root), GROUP_TARGET, true, NULL },
	{ { "core", OPTION_ENUM, "auto", 0, 0, RUN_CORES,
	    "real-time core that the measuring threads run on; auto: Cobalt if the kernel and the step support it" },
	  APPLIES_STEP, PLACE(core), GROUP_TARGET, true, NULL },
	{ { "mark", OPTION_TEXT, "", 0, 0, "gpio:CHIP:LINE",
	    "output line of the target that is high while a sample is taken, for a logic analyser" },
	  APPLIES_STEP, PLACE(mark), GROUP_LINES, true, NULL },
	{ { "disturb", OPTION_TEXT, "", 0, 0, "KIND:LENGTH:PERIOD",
	    "disturb the target on purpose, such as preempt_disable:200us:7.301ms" },
	  APPLIES_STEP, PLACE(disturb), GROUP_TARGET, true, CHANGES_SYSTEM },
	{ { "allow-disturb", OPTION_FLAG, "no", 0, 0, NULL,
	    "consent to --disturb on a target outside the lab" },
	  APPLIES_COMMAND, PLACE(allow_disturb), GROUP_TARGET, true, NULL },
	{ { "explain", OPTION_FLAG, "no", 0, 0, NULL,
	    "keep the kernel's trace around each new maximum, for 'rtgauge explain'" },
	  APPLIES_STEP, PLACE(explain), GROUP_RESULTS, true, CHANGES_TRACING },
	{ { "explain-above", OPTION_DURATION, "", 1, 3600 * NSEC_PER_SEC, NULL,
	    "like --explain, and also keep the trace around the samples above this time" },
	  APPLIES_STEP, PLACE(explain_above_ns), GROUP_RESULTS, true, CHANGES_TRACING },
	{ { "histogram-only", OPTION_FLAG, "no", 0, 0, NULL, "keep histograms instead of every sample" },
	  APPLIES_STEP, PLACE(histogram_only), GROUP_RESULTS, true, NULL },
	{ { "keep-settings", OPTION_FLAG, "no", 0, 0, NULL, "change no settings of the target" },
	  APPLIES_STEP, PLACE(keep_settings), GROUP_TARGET, true, NULL },
	{ { "prepare", OPTION_FLAG, "no", 0, 0, NULL,
	    "apply further real-time settings during the run and restore them afterwards" },
	  APPLIES_STEP, PLACE(prepare), GROUP_TARGET, false, CHANGES_SETTINGS },
	{ { "prepare-only", OPTION_ENUMS, "", 0, 0, PREPARE_ITEMS,
	    "apply only these settings of --prepare" },
	  APPLIES_STEP, PLACE(prepare_only), GROUP_TARGET, true, CHANGES_SETTINGS },
	{ { "irq-priority", OPTION_TEXT, "", 0, 0, "PRIORITY",
	    "SCHED_FIFO priority of interrupt threads: one for all, or a list such as 24=90,eth*=80,50" },
	  APPLIES_STEP, PLACE(irq_priority), GROUP_TARGET, true, CHANGES_SETTINGS },
	{ { "disturb-module", OPTION_TEXT, "", 0, 0, "FILE", "kernel module for --disturb" },
	  APPLIES_HOST, PLACE(disturb_module), NULL, false, NULL },
	{ { "output", OPTION_TEXT, "", 0, 0, "FILE",
	    "write the stream to FILE, or to stdout if it is -" },
	  APPLIES_HOST, PLACE(output), NULL, false, NULL },
	{ { "run", OPTION_TEXT, "", 0, 0, "ID", "ID of the run, for the header" },
	  APPLIES_HOST, PLACE(run_id), NULL, false, NULL },
	{ { "step", OPTION_INTEGER, "0", 0, 1000000, NULL, "number of the step, for the header" },
	  APPLIES_HOST, PLACE(step), NULL, false, NULL },
	{ { "control", OPTION_FLAG, "no", 0, 0, NULL,
	    "stop when stdin delivers the line 'stop', or ends" },
	  APPLIES_HOST, PLACE(control), NULL, false, NULL },
	{ { "spool", OPTION_TEXT, "", 0, 0, "SOCKET",
	    "keep measuring while the host is disconnected. The host attaches through SOCKET" },
	  APPLIES_HOST, PLACE(spool), NULL, false, NULL },
	{ { "spool-size", OPTION_SIZE, "0", 0, 0, NULL,
	    "memory for data while no host is attached; 0: a share of the free memory" },
	  APPLIES_HOST, PLACE(spool_size), NULL, false, NULL },
	{ { "hold", OPTION_DURATION, "10m", 0, 0, NULL,
	    "how long to measure without a host before giving up" },
	  APPLIES_HOST, PLACE(hold_ns), NULL, false, NULL },
	{ { NULL, OPTION_TEXT, NULL, 0, 0, NULL, NULL }, NULL, 0, NULL, false, NULL },
};
/* clang-format on */

const struct catalogue_run_option *catalogue_run_option(const char *name)
{
	for (const struct catalogue_run_option *o = catalogue_run_options; o->info.name; o++)
		if (!strcmp(o->info.name, name))
			return o;
	return NULL;
}

const struct measurement *catalogue_find(const char *name)
{
	for (int i = 0; catalogue_measurements[i]; i++)
		if (!strcmp(catalogue_measurements[i]->name, name))
			return catalogue_measurements[i];
	return NULL;
}

const char *catalogue_names(char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (int i = 0; catalogue_measurements[i] && used < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? " " : "",
					 catalogue_measurements[i]->name);
	return buf;
}

static const char type_names[][9] = {
	[OPTION_DURATION] = "duration", [OPTION_INTEGER] = "integer", [OPTION_SIZE] = "size",
	[OPTION_CPUS] = "cpus",		[OPTION_ENUM] = "enum",	      [OPTION_ENUMS] = "enums",
	[OPTION_FLAG] = "flag",		[OPTION_TEXT] = "text",
};

static void describe_limit(struct json *json, const char *key, const struct option_info *o,
			   int64_t limit)
{
	char buf[32];

	if (!o->min && !o->max)
		return;
	if (o->type == OPTION_DURATION)
		option_format_duration(limit, buf, sizeof(buf));
	else
		snprintf(buf, sizeof(buf), "%lld", (long long)limit);
	json_text(json, key, buf);
}

/* "key=value key=value" as an object. */
static void describe_pairs(struct json *json, const char *key, const char *pairs)
{
	char text[256], *at = text, *pair;

	snprintf(text, sizeof(text), "%s", pairs);
	json_open(json, key, '{');
	while ((pair = strsep(&at, " "))) {
		char *equals = strchr(pair, '=');

		if (!equals)
			continue;
		*equals = '\0';
		json_text(json, pair, equals + 1);
	}
	json_close(json, '}');
}

static void describe_list(struct json *json, const char *key, const char *list,
			  const char *separator)
{
	char text[512], *at = list ? text : NULL, *value;

	snprintf(text, sizeof(text), "%s", list ? list : "");
	json_open(json, key, '[');
	while ((value = strsep(&at, separator)))
		json_text(json, NULL, value);
	json_close(json, ']');
}

static void describe_option(struct json *json, const struct option_info *o)
{
	json_open(json, NULL, '{');
	json_text(json, "name", o->name);
	json_text(json, "type", type_names[o->type]);
	json_text(json, "default", o->def);
	describe_limit(json, "min", o, o->min);
	describe_limit(json, "max", o, o->max);
	describe_list(json, "values", o->values, " ");
	json_text(json, "help", o->help);
}

static void describe_options(struct json *json, const char *key, const struct option_info *table)
{
	json_open(json, key, '[');
	for (const struct option_info *o = table; o && o->name; o++) {
		describe_option(json, o);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void describe_run_options(struct json *json)
{
	json_open(json, "run_options", '[');
	for (const struct catalogue_run_option *o = catalogue_run_options; o->info.name; o++) {
		describe_option(json, &o->info);
		json_text(json, "applies", o->applies);
		if (o->group)
			json_text(json, "group", o->group);
		if (o->rare)
			json_true(json, "rare");
		if (o->changes)
			json_text(json, "changes", o->changes);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void describe_tables(struct json *json, const struct measurement_entry *entries)
{
	json_open(json, "tables", '[');
	for (; entries->name; entries++) {
		json_open(json, NULL, '{');
		json_text(json, "name", entries->name);
		json_text(json, "meaning", entries->meaning);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void describe_rules(struct json *json, const struct measurement *m)
{
	json_open(json, "verdicts", '[');
	for (const struct measurement_entry *rule = m->verdicts; rule->name; rule++) {
		const char *known = step_known_limitation(m, rule->name);

		json_open(json, NULL, '{');
		json_text(json, "rule", rule->name);
		json_text(json, "meaning", rule->meaning);
		if (known)
			json_text(json, "known_limitation", known);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void describe_ways(struct json *json, const struct measurement *m, const char *series)
{
	json_open(json, "stages_in", '{');
	for (const struct measurement_way *way = m->ways; way && way->series; way++)
		if (!strcmp(way->series, series))
			describe_list(json, way->context, way->stages, ",");
	json_close(json, '}');
}

static void describe_mark(struct json *json, const struct mark_way *mark)
{
	json_open(json, "mark", '{');
	if (mark) {
		json_text(json, "rises", mark->rises);
		json_text(json, "falls", mark->falls);
		json_text(json, "kind", mark->pulse ? "pulse" : "span");
	}
	json_close(json, '}');
}

static void describe_measurement(struct json *json, const struct measurement *m)
{
	json_open(json, NULL, '{');
	json_text(json, "name", m->name);
	json_text(json, "code", m->code ? m->code : "");
	json_text(json, "summary", m->summary);
	json_text(json, "role", m->role ? m->role : "measurement");
	json_text(json, "chapter", m->chapter ? m->chapter : "");
	if (m->needs)
		json_text(json, "needs", m->needs);
	if (m->not_on_cobalt)
		json_text(json, "not_on_cobalt", m->not_on_cobalt);
	if (m->answers)
		json_true(json, "answers");
	if (m->times)
		json_text(json, "times", m->times);
	if (m->unseen_gaps)
		json_text(json, "unseen_gaps", m->unseen_gaps);
	describe_list(json, "contexts", m->contexts ?: "user", " ");
	describe_options(json, "options", m->options);
	json_open(json, "series", '[');
	for (const struct measurement_series *s = m->series; s->name; s++) {
		json_open(json, NULL, '{');
		json_text(json, "name", s->name);
		json_text(json, "unit", s->unit);
		json_text(json, "meaning", s->meaning);
		json_text(json, "from", s->from);
		json_text(json, "to", s->to);
		describe_list(json, "stages", s->stages, ",");
		describe_ways(json, m, s->name);
		json_close(json, '}');
	}
	json_close(json, ']');
	describe_tables(json, m->tables);
	describe_rules(json, m);
	describe_mark(json, m->mark);
	json_open(json, "evaluate", '[');
	for (const struct measurement_evaluate *e = m->evaluate; e->load; e++) {
		json_open(json, NULL, '{');
		describe_pairs(json, "parameters", e->parameters);
		describe_pairs(json, "thorough", e->thorough ? e->thorough : "");
		json_text(json, "load", e->load);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_close(json, '}');
}

static void describe_loads(struct json *json, const char *key, bool profiles)
{
	json_open(json, key, '[');
	for (int i = 0; catalogue_loads[i]; i++) {
		const struct load *load = catalogue_loads[i];

		if (!load->mix == profiles)
			continue;
		json_open(json, NULL, '{');
		json_text(json, "name", load->name);
		json_text(json, "summary", load->summary);
		json_text(json, profiles ? "mix" : "unit", profiles ? load->mix : load->unit);
		if (!profiles)
			describe_options(json, "options", load->options);
		json_close(json, '}');
	}
	json_close(json, ']');
}

void catalogue_describe(void)
{
	struct json json = { .out = stdout };

	json_open(&json, NULL, '{');
	json_text(&json, "format", "rtgauge-catalogue");
	json_integer(&json, "version", 1);
	json_text(&json, "agent", RTGAUGE_VERSION);
	json_text(&json, "libc", version_libc());
	json_open(&json, "measurements", '[');
	for (int i = 0; catalogue_measurements[i]; i++)
		describe_measurement(&json, catalogue_measurements[i]);
	json_close(&json, ']');
	describe_run_options(&json);
	describe_loads(&json, "loads", false);
	describe_options(&json, "load_options", load_options);
	describe_loads(&json, "profiles", true);
	json_close(&json, '}');
	fputc('\n', stdout);
}
