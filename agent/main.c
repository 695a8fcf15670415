// SPDX-License-Identifier: Apache-2.0
/* The agent's commands. Only this file exits. */
#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/json.h"
#include "base/version.h"
#include "catalogue.h"
#include "lines/line.h"
#include "loads/load.h"
#include "run/run.h"
#include "stream/spool.h"
#include "system/disturb.h"
#include "system/irq_priority.h"

static const char usage[] =
	"usage: rtgauge-agent run MEASUREMENT [--option value]...\n"
	"       rtgauge-agent attach SOCKET --from BYTE\n"
	"                                   read the stream of an agent started with --spool\n"
	"       rtgauge-agent list          measurements and loads\n"
	"       rtgauge-agent help NAME     options of a measurement or load\n"
	"       rtgauge-agent describe      measurements, loads and options as JSON\n"
	"       rtgauge-agent environment   facts of this system, as a stream\n"
	"       rtgauge-agent line [--asks] TEXT\n"
	"                                   why --line TEXT is wrong, as JSON\n"
	"       rtgauge-agent restore       restore settings that a killed agent left changed\n"
	"       rtgauge-agent version\n"
	"options of every run:\n";

static int main_error(const struct message *msg)
{
	fprintf(stderr, "rtgauge-agent: %s\n", msg->text);
	if (msg->remedy[0])
		fprintf(stderr, "  %s\n", msg->remedy);
	return EXITCODE_USAGE;
}

static int main_usage_error(const char *text, const char *detail)
{
	fprintf(stderr, "rtgauge-agent: %s%s\n  see rtgauge-agent --help\n", text, detail);
	return EXITCODE_USAGE;
}

/* Store a value of the option @o, read as @text and @number. */
static void main_store(struct run_request *request, const struct catalogue_run_option *o,
		       const char *text, int64_t number)
{
	char *place = (char *)request + o->place;

	switch (o->info.type) {
	case OPTION_FLAG:
		*(bool *)place = number;
		break;
	case OPTION_TEXT:
	case OPTION_CPUS:
	case OPTION_ENUMS:
		*(const char **)place = text;
		break;
	default:
		*(int64_t *)place = number;
	}
}

/* An empty default leaves the option at NULL. */
static void main_store_defaults(struct run_request *request)
{
	struct message msg;
	int64_t number;

	for (const struct catalogue_run_option *o = catalogue_run_options; o->info.name; o++)
		if (o->info.def[0] && !option_read(&o->info, o->info.def, &number, &msg))
			main_store(request, o, o->info.def, number);
}

/* "did you mean ...?" for an option that neither the run nor the measurement has, or NULL. */
static const char *main_near_option(const char *name, char *remedy, size_t size)
{
	char names[512], near[64];
	size_t used = 0;

	for (const struct catalogue_run_option *o = catalogue_run_options;
	     o->info.name && used < sizeof(names); o++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
					 used ? " " : "", o->info.name);
	if (!option_nearest(name, names, near, sizeof(near)))
		return NULL;
	snprintf(remedy, size, "did you mean '%s'?", near);
	return remedy;
}

/* The option --@name, with @value the word behind it or NULL. The number of words used, or -errno. */
static int main_parse_option(struct run_request *request, struct option_set *options,
			     const char *name, const char *value, struct message *msg)
{
	const struct catalogue_run_option *o = catalogue_run_option(name);
	char remedy[96];
	int64_t number;
	int err;

	if (!strcmp(name, "help"))
		return message_set(msg, -EINVAL, "'rtgauge-agent help NAME' shows the options",
				   "--help is not an option of run");
	if (!o && !option_known(options, name) && main_near_option(name, remedy, sizeof(remedy)))
		return message_set(msg, -EINVAL, remedy, "unknown option '%.60s'", name);
	if (o && o->info.type == OPTION_FLAG) {
		main_store(request, o, NULL, true);
		return 1;
	}
	if (!value && (o || option_known(options, name)))
		return message_set(msg, -EINVAL, "options are given as --name value",
				   "--%s has no value", name);
	if (o) {
		err = option_read(&o->info, value, &number, msg);
		if (!err)
			main_store(request, o, value, number);
	} else {
		err = option_set_parse(options, name, value ? value : "", msg);
	}
	return err ? err : 2;
}

/* A spool needs a host, and an absolute path: its processes change their directory. */
static int main_check_spool(const struct run_request *request, struct message *msg)
{
	if (!request->spool)
		return 0;
	if (request->spool[0] != '/')
		return message_set(msg, -EINVAL, "give an absolute path",
				   "the socket '%s' is not an absolute path", request->spool);
	if (!request->control || !request->output || strcmp(request->output, "-"))
		return message_set(msg, -EINVAL, "add --control --output -",
				   "--spool needs a host that reads the stream");
	return 0;
}

/* Whether the option @o, which is not set by default, is set. */
static bool main_is_set(const struct run_request *request, const struct catalogue_run_option *o)
{
	const char *place = (const char *)request + o->place;

	switch (o->info.type) {
	case OPTION_FLAG:
		return *(const bool *)place;
	case OPTION_TEXT:
	case OPTION_CPUS:
	case OPTION_ENUMS:
		return *(const char *const *)place;
	default:
		return *(const int64_t *)place;
	}
}

/* Options that change something are refused with --keep-settings. */
static int main_check_settings(const struct run_request *request, struct message *msg)
{
	for (const struct catalogue_run_option *o = catalogue_run_options;
	     request->keep_settings && o->info.name; o++)
		if (o->changes && main_is_set(request, o))
			return message_set(msg, -EINVAL, "omit one of them",
					   "--%s changes %s, which --keep-settings forbids",
					   o->info.name, o->changes);
	return 0;
}

/* A disturbance needs consent, or the module that the lab provides. */
static int main_check_disturb(const struct run_request *request, struct message *msg)
{
	struct disturb disturb;

	if (!request->disturb)
		return request->disturb_module || request->allow_disturb ?
			       message_set(msg, -EINVAL, "give --disturb KIND:LENGTH:PERIOD",
					   "--disturb-module and --allow-disturb need --disturb") :
			       0;
	if (!request->disturb_module && !request->allow_disturb)
		return message_set(msg, -EINVAL,
				   "measure in the lab, or consent with --allow-disturb",
				   "--disturb disturbs this machine, which needs your consent");
	return disturb_parse(&disturb, request->disturb, msg);
}

static int main_parse_run(int argc, char **argv, struct run_request *request,
			  struct option_set *options, struct message *msg)
{
	int err, used;

	for (int i = 0; i < argc; i += used) {
		if (strncmp(argv[i], "--", 2))
			return message_set(msg, -EINVAL, "options are given as --name value",
					   "'%s' is not an option", argv[i]);
		used = main_parse_option(request, options, argv[i] + 2,
					 i + 1 < argc ? argv[i + 1] : NULL, msg);
		if (used < 0)
			return used;
	}
	err = main_check_settings(request, msg);
	if (!err && request->irq_priority)
		err = irq_priority_check(request->irq_priority, msg);
	if (!err)
		err = main_check_spool(request, msg);
	return err ? err : main_check_disturb(request, msg);
}

/* Carry the request out, with a spool between agent and host where one was asked for. */
static int main_execute(struct run_request *request, struct option_set *options)
{
	struct spool_state *spooled = NULL;
	char why[96], note[160];
	int code = SPOOL_MEASURE;

	if (request->spool) {
		code = spool_start(request->spool, request->spool_size, request->hold_ns, &spooled,
				   why, sizeof(why));
		if (code == SPOOL_MEASURE && !spooled) {
			snprintf(note, sizeof(note),
				 "without a spool, a lost connection also loses data: %s", why);
			request->note = note;
		}
		request->spooled = spooled;
	}
	return code == SPOOL_MEASURE ? run_execute(request, options) : code;
}

static int main_attach(int argc, char **argv)
{
	int64_t from;

	if (argc != 3 || strcmp(argv[1], "--from"))
		return main_usage_error("attach needs SOCKET --from BYTE", "");
	if (option_parse_integer(argv[2], &from) || from < 0)
		return main_usage_error("--from needs the number of a byte, not ", argv[2]);
	return spool_attach(argv[0], from);
}

static int main_run(int argc, char **argv)
{
	struct run_request request = { .load_table = catalogue_loads, .run_id = "" };
	struct option_set options = { 0 };
	struct message msg = { 0 };
	char names[1024], near[64], remedy[96];
	int err, code;

	if (argc < 1)
		return main_usage_error("run needs the name of a measurement", "");
	request.measurement = catalogue_find(argv[0]);
	if (!request.measurement) {
		const char *close = option_nearest(argv[0], catalogue_names(names, sizeof(names)),
						   near, sizeof(near));

		snprintf(remedy, sizeof(remedy),
			 close ? "did you mean '%s'?" : "'rtgauge-agent list' shows all%s",
			 close ? close : "");
		message_set(&msg, -EINVAL, remedy, "there is no measurement '%s'", argv[0]);
		return main_error(&msg);
	}
	request.on_cobalt = catalogue_on_cobalt(request.measurement);
	if (option_set_init(&options, request.measurement->options)) {
		message_set(&msg, -ENOMEM, "free some memory", "out of memory");
		main_error(&msg);
		return EXITCODE_FAILED;
	}
	main_store_defaults(&request);
	err = main_parse_run(argc - 1, argv + 1, &request, &options, &msg);
	if (err) {
		option_set_free(&options);
		return main_error(&msg);
	}
	if (request.run_id[0])
		setenv(LOAD_RUN_VARIABLE, request.run_id, 1);
	code = main_execute(&request, &options);
	option_set_free(&options);
	return code;
}

static int main_restore(int argc, char **argv)
{
	bool json = argc && !strcmp(argv[0], "--json");
	const char *run_id = argc == 3 && json && !strcmp(argv[1], "--run") ? argv[2] : "";
	struct message msg = { 0 };
	int undone, killed;

	if (argc && !(json && (argc == 1 || run_id[0])))
		return main_usage_error("restore takes --json [--run ID]", "");
	killed = load_sweep(run_id);
	undone = settings_undo(&msg);
	if (undone < 0) {
		main_error(&msg);
		return EXITCODE_FAILED;
	}
	if (msg.text[0])
		main_error(&msg);
	if (json)
		printf("{\"put_back\": %d, \"killed\": %d}\n", undone, killed);
	else
		printf("%d setting%s restored\n", undone, undone == 1 ? "" : "s");
	return EXITCODE_DONE;
}

/* Whether a step that answers, or with --asks a log host, can read its --line. Opens no line. */
static int main_line(int argc, char **argv)
{
	const struct line_how how = { .asks = argc == 2 && !strcmp(argv[0], "--asks") };
	struct json json = { .out = stdout };
	struct message why = { 0 };
	struct line line;

	if (argc != 1 + how.asks)
		return main_usage_error("line takes [--asks] TEXT", "");
	json_open(&json, NULL, '{');
	if (line_parse(&line, argv[argc - 1], how, &why) == -EINVAL) {
		json_text(&json, "reason", why.text);
		json_text(&json, "remedy", why.remedy);
	}
	json_close(&json, '}');
	putchar('\n');
	return EXITCODE_DONE;
}

static void main_print_usage(FILE *out)
{
	static const char notations[][6] = {
		[OPTION_DURATION] = " TIME", [OPTION_INTEGER] = " N", [OPTION_SIZE] = " SIZE",
		[OPTION_CPUS] = " LIST",     [OPTION_FLAG] = "",
	};

	fputs(usage, out);
	for (const struct catalogue_run_option *o = catalogue_run_options; o->info.name; o++)
		fprintf(out, "  --%s%s%s\n      %s\n", o->info.name, o->info.values ? " " : "",
			o->info.values ? o->info.values : notations[o->info.type], o->info.help);
}

static void main_print_options(const struct option_info *table)
{
	for (const struct option_info *o = table; o && o->name; o++) {
		printf("  --%-12s %s (default %s", o->name, o->help, o->def);
		if (o->values)
			printf("; values: %s", o->values);
		printf(")\n");
	}
}

static int main_help(const char *name)
{
	const struct measurement *m = catalogue_find(name);

	if (m) {
		printf("%s: %s\n", m->name, m->summary);
		main_print_options(m->options);
		return EXITCODE_DONE;
	}
	for (int i = 0; catalogue_loads[i]; i++) {
		if (strcmp(catalogue_loads[i]->name, name))
			continue;
		printf("load %s: %s\n", name, catalogue_loads[i]->summary);
		if (catalogue_loads[i]->mix) {
			printf("  %s\n", catalogue_loads[i]->mix);
			return EXITCODE_DONE;
		}
		main_print_options(catalogue_loads[i]->options);
		main_print_options(load_options);
		return EXITCODE_DONE;
	}
	return main_usage_error("there is no measurement or load ", name);
}

static int main_list(void)
{
	printf("measurements:\n");
	for (int i = 0; catalogue_measurements[i]; i++)
		printf("  %-16s %s\n", catalogue_measurements[i]->name,
		       catalogue_measurements[i]->summary);
	printf("loads and profiles of loads:\n");
	for (int i = 0; catalogue_loads[i]; i++)
		printf("  %-16s %s\n", catalogue_loads[i]->name, catalogue_loads[i]->summary);
	return EXITCODE_DONE;
}

static int main_command(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (!strcmp(command, "run"))
		return main_run(argc - 2, argv + 2);
	if (!strcmp(command, "describe")) {
		catalogue_describe();
		return EXITCODE_DONE;
	}
	if (!strcmp(command, "environment"))
		return run_environment(STDOUT_FILENO) ? EXITCODE_FAILED : EXITCODE_DONE;
	if (!strcmp(command, "attach"))
		return main_attach(argc - 2, argv + 2);
	if (!strcmp(command, "restore"))
		return main_restore(argc - 2, argv + 2);
	if (!strcmp(command, "line"))
		return main_line(argc - 2, argv + 2);
	if (!strcmp(command, "list"))
		return main_list();
	if (!strcmp(command, "help") && argc > 2)
		return main_help(argv[2]);
	if (!strcmp(command, "version") || !strcmp(command, "--version")) {
		printf("rtgauge-agent %s (%s, %s)\n", RTGAUGE_VERSION, version_libc(),
		       version_compiler());
		return EXITCODE_DONE;
	}
	if (!strcmp(command, "help") || !strcmp(command, "--help") || !strcmp(command, "-h")) {
		main_print_usage(stdout);
		return EXITCODE_DONE;
	}
	if (command[0])
		return main_usage_error("there is no command ", command);
	main_print_usage(stderr);
	return EXITCODE_USAGE;
}

/* For process-create: write the time at which this process began to run to the pipe @fd. */
static void __attribute__((noreturn)) main_stamp(const char *fd)
{
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	_exit(write(atoi(fd), &now_ns, sizeof(now_ns)) != (ssize_t)sizeof(now_ns));
}

/* Open /dev/null for closed standard files. Otherwise a stream or journal opened later would take
 * the number of stderr and receive the messages. */
static void main_open_standard_files(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	int code;

	if (argc == 3 && !strcmp(argv[1], "stamp"))
		main_stamp(argv[2]);
	main_open_standard_files();
#ifdef __GLIBC__
	mallopt(M_TOP_PAD, 0); /* the heap will be locked: no 128 KiB in reserve */
#endif
	signal(SIGCHLD, SIG_DFL); /* ignoring it would hide the exit codes of children */
	code = main_command(argc, argv);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "rtgauge-agent: cannot write to stdout: %s\n", strerror(errno));
		return code == EXITCODE_DONE ? EXITCODE_FAILED : code;
	}
	return code;
}
