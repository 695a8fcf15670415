// SPDX-License-Identifier: Apache-2.0
/* The agent's commands. Everything that exits does so here. */
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
#include "base/version.h"
#include "catalogue.h"
#include "loads/load.h"
#include "run/run.h"
#include "stream/spool.h"
#include "system/disturb.h"

static const char usage[] =
	"usage: rtgauge-agent run MEASUREMENT [--option value]... [--load LOADS]\n"
	"                     [--load-cmd COMMAND [--load-cmd-root]] [--load-cpu LIST]\n"
	"                     [--output FILE]\n"
	"                     [--mark gpio:CHIP:LINE]\n"
	"                     [--keep-settings | --prepare] [--histogram-only]\n"
	"                     [--disturb KIND:LENGTH:PERIOD]\n"
	"                     [--disturb-module FILE | --allow-disturb]\n"
	"                     [--run ID] [--step N] [--control]\n"
	"                     [--spool SOCKET] [--spool-size SIZE] [--hold TIME]\n"
	"       rtgauge-agent attach SOCKET --from BYTE\n"
	"                                   take up the stream of one that was started with --spool\n"
	"       rtgauge-agent list          measurements and loads\n"
	"       rtgauge-agent help NAME     options of a measurement or load\n"
	"       rtgauge-agent describe      all of them as JSON\n"
	"       rtgauge-agent environment   facts of this system, as a stream\n"
	"       rtgauge-agent restore       put back what a killed agent left changed\n"
	"       rtgauge-agent version\n";

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

/* So long an agent with a spool goes on without a host. */
#define MAIN_HOLD_NS (600 * NSEC_PER_SEC)

/* Options of the run itself. */
#define MAIN_FLAGS "allow-disturb control histogram-only keep-settings load-cmd-root prepare"
#define MAIN_VALUES                                                                            \
	"disturb disturb-module hold output run load load-cmd load-cpu mark spool spool-size " \
	"step"

static bool main_is_flag(struct run_request *request, const char *name)
{
	if (!strcmp(name, "allow-disturb"))
		request->allow_disturb = true;
	else if (!strcmp(name, "control"))
		request->control = true;
	else if (!strcmp(name, "histogram-only"))
		request->histogram_only = true;
	else if (!strcmp(name, "keep-settings"))
		request->keep_settings = true;
	else if (!strcmp(name, "load-cmd-root"))
		request->load_command_root = true;
	else if (!strcmp(name, "prepare"))
		request->prepare = true;
	else
		return false;
	return true;
}

/* Options of the run that are no texts. */
struct main_numbers {
	const char *step;
	const char *hold;
	const char *spool_size;
};

/* Where the value of an option of the run goes, or NULL. */
static const char **main_run_value(struct run_request *request, struct main_numbers *numbers,
				   const char *name)
{
	if (!strcmp(name, "output"))
		return &request->output;
	if (!strcmp(name, "run"))
		return &request->run_id;
	if (!strcmp(name, "load"))
		return &request->loads;
	if (!strcmp(name, "load-cmd"))
		return &request->load_command;
	if (!strcmp(name, "load-cpu"))
		return &request->load_cpus;
	if (!strcmp(name, "mark"))
		return &request->mark;
	if (!strcmp(name, "disturb"))
		return &request->disturb;
	if (!strcmp(name, "disturb-module"))
		return &request->disturb_module;
	if (!strcmp(name, "spool"))
		return &request->spool;
	if (!strcmp(name, "hold"))
		return &numbers->hold;
	if (!strcmp(name, "spool-size"))
		return &numbers->spool_size;
	return strcmp(name, "step") ? NULL : &numbers->step;
}

static int main_parse_option(struct run_request *request, struct option_set *options,
			     const char *name, const char *value, struct message *msg)
{
	struct main_numbers numbers = { 0 };
	const char **place = main_run_value(request, &numbers, name);
	char near[64], remedy[96];
	int64_t number;

	if (!place && !option_known(options, name) &&
	    option_nearest(name, MAIN_FLAGS " " MAIN_VALUES, near, sizeof(near))) {
		snprintf(remedy, sizeof(remedy), "did you mean '%s'?", near);
		return message_set(msg, -EINVAL, remedy, "unknown option '%.60s'", name);
	}
	if (!value && (place || option_known(options, name)))
		return message_set(msg, -EINVAL, "options are given as --name value",
				   "--%s has no value", name);
	if (!place)
		return option_set_parse(options, name, value ? value : "", msg);
	*place = value;
	if (numbers.hold &&
	    (option_parse_duration(value, &request->hold_ns) || request->hold_ns < 0))
		return message_set(msg, -EINVAL, "give a time such as 10m",
				   "'%s' is no time to wait for a host", value);
	if (numbers.spool_size && option_parse_size(value, &request->spool_size))
		return message_set(msg, -EINVAL, "give a size such as 4MiB",
				   "'%s' is no size of a spool", value);
	if (!numbers.step)
		return 0;
	if (option_parse_integer(value, &number) || number < 0 || number > 1000000)
		return message_set(msg, -EINVAL, "give a number from 0 on",
				   "'%s' is no number of a step", value);
	request->step = (int)number;
	return 0;
}

/* A spool needs a host, and the place of its socket wherever its processes are. */
static int main_check_spool(const struct run_request *request, struct message *msg)
{
	if (!request->spool)
		return 0;
	if (request->spool[0] != '/')
		return message_set(msg, -EINVAL, "begin it with /",
				   "'%s' is no whole path of a socket", request->spool);
	if (!request->control || !request->output || strcmp(request->output, "-"))
		return message_set(msg, -EINVAL, "add --control --output -",
				   "--spool is for a host that reads the stream");
	return 0;
}

/* Nobody's machine is disturbed by an oversight. */
static int main_check_disturb(const struct run_request *request, struct message *msg)
{
	struct disturb disturb;

	if (!request->disturb)
		return request->disturb_module || request->allow_disturb ?
			       message_set(msg, -EINVAL, "give --disturb KIND:LENGTH:PERIOD",
					   "there is no disturbance to be allowed") :
			       0;
	if (!request->disturb_module && !request->allow_disturb)
		return message_set(msg, -EINVAL,
				   "measure in the lab, or say --allow-disturb if it may be",
				   "this machine is not to be disturbed without consent");
	if (request->keep_settings)
		return message_set(msg, -EINVAL, "leave out one of them",
				   "--disturb changes the system, --keep-settings nothing");
	return disturb_parse(&disturb, request->disturb, msg);
}

static int main_parse_run(int argc, char **argv, struct run_request *request,
			  struct option_set *options, struct message *msg)
{
	int err = 0;

	for (int i = 0; i < argc && !err; i++) {
		if (strncmp(argv[i], "--", 2))
			return message_set(msg, -EINVAL, "options are given as --name value",
					   "'%s' is not an option", argv[i]);
		if (main_is_flag(request, argv[i] + 2))
			continue;
		err = main_parse_option(request, options, argv[i] + 2,
					i + 1 < argc ? argv[i + 1] : NULL, msg);
		i++;
	}
	if (!err && request->prepare && request->keep_settings)
		return message_set(msg, -EINVAL, "leave out one of them",
				   "--prepare changes settings, --keep-settings none");
	if (!err)
		err = main_check_spool(request, msg);
	return err ? err : main_check_disturb(request, msg);
}

/* Carry it out, where it is asked for with a spool between it and the host. */
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
				 "no spool: what is measured after a broken connection is lost: %s",
				 why);
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
		return main_usage_error("attach to what? give SOCKET --from BYTE", "");
	if (option_parse_integer(argv[2], &from) || from < 0)
		return main_usage_error("no number of a byte: ", argv[2]);
	return spool_attach(argv[0], from);
}

static int main_run(int argc, char **argv)
{
	struct run_request request = { .load_table = catalogue_loads,
				       .loads = "idle",
				       .run_id = "",
				       .hold_ns = MAIN_HOLD_NS };
	struct option_set options = { 0 };
	struct message msg = { { 0 }, { 0 } };
	char names[1024], near[64], remedy[96];
	int err, code;

	if (argc < 1)
		return main_usage_error("run what? name a measurement", "");
	request.measurement = catalogue_find(argv[0]);
	if (!request.measurement) {
		const char *close = option_nearest(argv[0], catalogue_names(names, sizeof(names)),
						   near, sizeof(near));

		snprintf(remedy, sizeof(remedy),
			 close ? "did you mean '%s'?" : "rtgauge-agent list shows all%s",
			 close ? close : "");
		message_set(&msg, -EINVAL, remedy, "there is no measurement '%s'", argv[0]);
		return main_error(&msg);
	}
	if (option_set_init(&options, request.measurement->options)) {
		message_set(&msg, -ENOMEM, "free some memory", "out of memory");
		main_error(&msg);
		return EXITCODE_FAILED;
	}
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
	struct message msg = { { 0 }, { 0 } };
	int undone;

	if (argc && !(json && (argc == 1 || run_id[0])))
		return main_usage_error("restore takes --json [--run ID]", "");
	undone = settings_undo(&msg);
	if (undone < 0) {
		main_error(&msg);
		return EXITCODE_FAILED;
	}
	if (msg.text[0])
		main_error(&msg);
	if (json)
		printf("{\"put_back\": %d, \"killed\": %d}\n", undone, load_sweep(run_id));
	else
		printf("%d settings put back\n", undone);
	return EXITCODE_DONE;
}

static void main_print_options(const struct option_info *table)
{
	for (const struct option_info *o = table; o && o->name; o++) {
		printf("  --%-12s %s (default %s", o->name, o->help, o->def);
		if (o->values)
			printf("; of: %s", o->values);
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
		fputs(usage, stdout);
		return EXITCODE_DONE;
	}
	if (command[0])
		return main_usage_error("there is no command ", command);
	fputs(usage, stderr);
	return EXITCODE_USAGE;
}

/* For process-create: when this process began to run, to the pipe @fd. */
static void __attribute__((noreturn)) main_stamp(const char *fd)
{
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	_exit(write(atoi(fd), &now_ns, sizeof(now_ns)) != (ssize_t)sizeof(now_ns));
}

/* A stream, a journal or a pipe must not become the output that messages go to. */
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
	signal(SIGCHLD, SIG_DFL); /* ignored it would hide how children ended */
	code = main_command(argc, argv);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "rtgauge-agent: the output could not be written: %s\n",
			strerror(errno));
		return code == EXITCODE_DONE ? EXITCODE_FAILED : code;
	}
	return code;
}
