// SPDX-License-Identifier: Apache-2.0
/*
 * Timer latency in interrupt and kernel context with the kernel's own tracer, timerlat: a timer and
 * a thread on each CPU, which write their latency to the trace. The agent uses a trace instance of
 * its own. Steps 1 and 2 of the path of a sample are in the kernel (kernel/trace/trace_osnoise.c).
 * timerlat.c reads its lines.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/value.h"
#include "measurements/timer/timer_method.h"
#include "methods/timerlat.h"

#define TRACER_NAME "timerlat"
#define TRACER_MIN_NS (100 * NSEC_PER_USEC)
/* Maximum bytes of one read of trace_pipe, and of a line. */
#define TRACER_TEXT (64 * 1024)
/* Room for so many seconds, at so many bytes for the two events of a period. */
#define TRACER_SECONDS 6
#define TRACER_BYTES 112
/* After the last period was due, how long its thread is waited for. */
#define TRACER_LATE_NS NSEC_PER_SEC
/* Gives the tracer its threads back. */
#define TRACER_WORKLOAD "echo OSNOISE_WORKLOAD > /sys/kernel/tracing/osnoise/options"

struct tracer_cpu {
	int cpu;
	int worker;
	struct timerlat_grid clock;
	struct grid irq;
	struct grid kernel;
};

struct tracer {
	char instance[96];
	int pipe;
	int count;
	struct tracer_cpu *cpus;
	int64_t periods;
	int64_t samples;
	int64_t end_ns; /* CLOCK_MONOTONIC; what is not there by then will not come */
	bool off;
	size_t used; /* of the text: the beginning of a line */
	char text[TRACER_TEXT];
};

static const char *const tracer_folders[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing",
					      NULL };

static const char *tracer_folder(void)
{
	char path[64];

	for (int i = 0; tracer_folders[i]; i++) {
		snprintf(path, sizeof(path), "%s/available_tracers", tracer_folders[i]);
		if (!access(path, R_OK))
			return tracer_folders[i];
	}
	return NULL;
}

/* Whether a list of words contains a word. */
static bool tracer_has_word(const char *list, const char *word)
{
	size_t size = strlen(word);

	for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
		if ((at == list || at[-1] == ' ') && (!at[size] || at[size] == ' '))
			return true;
	return false;
}

static bool tracer_value_has(const char *folder, const char *file, const char *word)
{
	char path[128], value[VALUE_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	return !value_get(path, value, NULL) && tracer_has_word(value, word);
}

/* The kernel's thread of that name, or 0. */
static pid_t tracer_thread(const char *name)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	char path[64], comm[VALUE_MAX];
	pid_t found = 0;

	while (dir && !found && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/comm", entry->d_name);
		if (!value_get(path, comm, NULL) && !strcmp(comm, name))
			found = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	if (dir)
		closedir(dir);
	return found;
}

static int tracer_look(const struct timer_thread *common, bool dithered, struct message *why)
{
	const char *folder = tracer_folder();

	if (dithered)
		return message_set(why, -EINVAL, "omit --dither",
				   "the timerlat tracer's due times cannot be moved by dither");
	if (common->aligned)
		return message_set(why, -EINVAL, "omit --align",
				   "the timerlat tracer's due times cannot be aligned");
	if (!folder)
		return message_set(why, -ENODEV, "run as root, and mount tracefs",
				   "the kernel's tracers cannot be reached");
	if (!tracer_value_has(folder, "available_tracers", TRACER_NAME))
		return message_set(why, -ENODEV, "use a kernel with CONFIG_TIMERLAT_TRACER",
				   "the kernel has no timerlat tracer");
	if (common->interval_ns < TRACER_MIN_NS)
		return message_set(why, -ERANGE, "give an interval of 100us or more",
				   "the timerlat tracer's shortest interval is 100 µs");
	if (common->interval_ns % NSEC_PER_USEC || common->interval_ns > NSEC_PER_SEC)
		return message_set(why, -ERANGE, "give whole microseconds, at most 1s",
				   "the timerlat tracer takes whole microseconds up to a second");
	return 0;
}

/* --- setting up --- */

static int tracer_add_cpu(struct step *step, struct timer_kernel *kernel, int number, int cpu)
{
	struct tracer *tracer = kernel->state;
	struct tracer_cpu *c = &tracer->cpus[number];
	struct timer_thread common = *kernel->common;
	int err = 0;

	common.dither = -1;

	c->cpu = cpu;
	c->clock.interval_ns = common.interval_ns;
	c->irq = timer_grid_of(&common);
	c->kernel = timer_grid_of(&common);
	/* its thread is known when the tracer runs */
	c->worker = step_add_foreign(step, 0, cpu, (int)option_number(&step->options, "priority"));
	if (c->worker < 0)
		return c->worker;
	if (kernel->contexts & TIMER_IRQ)
		err = timer_add_series(step, "irq", TRACER_NAME, cpu, -1, &common, 0,
				       &c->irq.series, &c->irq.dither);
	if (!err && (kernel->contexts & TIMER_KERNEL))
		err = timer_add_series(step, "kernel", TRACER_NAME, cpu, c->worker, &common, 0,
				       &c->kernel.series, &c->kernel.dither);
	return err;
}

static int tracer_setup(struct step *step, struct timer_kernel *kernel)
{
	struct tracer *tracer = step_alloc(step, 1, sizeof(*tracer));
	int number = 0, err = 0;

	kernel->state = tracer;
	if (!tracer)
		return -ENOMEM;
	tracer->pipe = -1;
	tracer->periods = kernel->common->periods;
	tracer->samples = kernel->common->samples;
	tracer->count = cpulist_count(kernel->cpus);
	tracer->cpus = step_alloc(step, (size_t)tracer->count, sizeof(*tracer->cpus));
	if (!tracer->cpus)
		return -ENOMEM;
	for (int cpu = cpulist_next(kernel->cpus, 0); cpu >= 0 && !err;
	     cpu = cpulist_next(kernel->cpus, cpu + 1))
		err = tracer_add_cpu(step, kernel, number++, cpu);
	return err;
}

/* A setting of the tracer that all instances share: it is as asked, or the tracer is of no use. */
static int tracer_set(struct step *step, const char *folder, const char *name, const char *value)
{
	char path[128], found[VALUE_MAX], reason[VALUE_MAX + 160];
	int err;

	snprintf(path, sizeof(path), "%s/osnoise/%s", folder, name);
	err = settings_set(step->settings, path, value, &step->msg);
	if (err)
		return err;
	err = value_get(path, found, NULL);
	if (!err && !strcmp(found, value))
		return 0;
	snprintf(reason, sizeof(reason), "%s cannot be set to %s: %s", path, value,
		 err ? value_reason(err) : found);
	return step_skip(step, reason, "run as root, while no other program uses the tracer");
}

static int tracer_set_all(struct step *step, const char *folder, const struct tracer *tracer)
{
	struct cpulist cpus = { { 0 } };
	char list[VALUE_MAX], period[32];
	int err;

	for (int i = 0; i < tracer->count; i++)
		cpulist_add(&cpus, tracer->cpus[i].cpu);
	snprintf(period, sizeof(period), "%lld",
		 (long long)(tracer->cpus[0].clock.interval_ns / NSEC_PER_USEC));
	err = tracer_set(step, folder, "cpus", cpulist_format(&cpus, list, sizeof(list)));
	if (!err)
		err = tracer_set(step, folder, "timerlat_period_us", period);
	if (!err)
		err = tracer_set(step, folder, "stop_tracing_us", "0");
	if (!err)
		err = tracer_set(step, folder, "stop_tracing_total_us", "0");
	if (!err)
		err = tracer_set(step, folder, "print_stack", "0");
	return err;
}

static int tracer_put(const struct tracer *tracer, const char *file, const char *value)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", tracer->instance, file);
	return value_put(path, value);
}

/* The instance is removed as a whole, so its settings are not restored. */
static int tracer_make(struct step *step, const char *folder, struct tracer *tracer)
{
	int64_t bytes =
		TRACER_SECONDS * NSEC_PER_SEC / tracer->cpus[0].clock.interval_ns * TRACER_BYTES;
	char size[32], reason[200];
	int err;

	snprintf(tracer->instance, sizeof(tracer->instance), "%s/instances/rtgauge-%d", folder,
		 (int)getpid());
	snprintf(size, sizeof(size), "%lld", (long long)(bytes / 1024 + 256));
	err = settings_make_instance(step->settings, tracer->instance);
	if (!err)
		err = tracer_put(tracer, "tracing_on", "0");
	if (!err)
		err = tracer_put(tracer, "trace_clock", "mono");
	if (!err)
		err = tracer_put(tracer, "buffer_size_kb", size);
	if (!err)
		err = tracer_put(tracer, "current_tracer", TRACER_NAME);
	if (!err)
		return 0;
	snprintf(reason, sizeof(reason), "cannot make a trace instance with timerlat in %s: %s",
		 folder, value_reason(err));
	return step_skip(step, reason, "use a kernel of version 5.17 or newer, as root");
}

static int tracer_configure(struct step *step, struct timer_kernel *kernel)
{
	const char *folder = tracer_folder();
	struct tracer *tracer = kernel->state;
	char name[32], reason[80];
	int err;

	if (!step->settings)
		return step_skip(step, "starting the timerlat tracer changes a setting",
				 "omit --keep-settings");
	snprintf(name, sizeof(name), TRACER_NAME "/%d", tracer->cpus[0].cpu);
	if (tracer_thread(name))
		return step_skip(step, "another program is using the timerlat tracer",
				 "end it, and measure again");
	if (tracer_value_has(folder, "osnoise/options", "NO_OSNOISE_WORKLOAD")) {
		err = step_skip(step, "the timerlat tracer is set to have no threads of its own",
				TRACER_WORKLOAD);
		return message_command(&step->msg, err, TRACER_WORKLOAD);
	}
	err = tracer_set_all(step, folder, tracer);
	if (!err)
		err = tracer_make(step, folder, tracer);
	for (int i = 0; i < tracer->count && !err; i++) {
		struct worker *worker = &step->workers[tracer->cpus[i].worker];

		snprintf(name, sizeof(name), TRACER_NAME "/%d", tracer->cpus[i].cpu);
		worker->tid = tracer_thread(name);
		snprintf(reason, sizeof(reason), "the timerlat tracer has no thread on CPU %d",
			 tracer->cpus[i].cpu);
		if (!worker->tid)
			err = step_skip(step, reason, "keep the CPUs online, and run again");
	}
	return err;
}

static int tracer_start(struct step *step, struct timer_kernel *kernel)
{
	struct tracer *tracer = kernel->state;
	char path[160];
	int err;

	snprintf(path, sizeof(path), "%s/trace_pipe", tracer->instance);
	tracer->pipe = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	err = tracer->pipe < 0 ? -errno : tracer_put(tracer, "tracing_on", "1");
	if (err)
		return message_set(&step->msg, -EIO, "run again", "%s cannot be read: %s", path,
				   strerror(-err));
	if (kernel->common->for_ns)
		tracer->end_ns = clock_now_ns(CLOCK_MONOTONIC) + kernel->common->for_ns +
				 kernel->common->interval_ns + TRACER_LATE_NS;
	return 0;
}

/* --- events --- */

static struct tracer_cpu *tracer_find(const struct tracer *tracer, int cpu)
{
	for (int i = 0; i < tracer->count; i++)
		if (tracer->cpus[i].cpu == cpu)
			return &tracer->cpus[i];
	return NULL;
}

/* The periods and samples asked for are there. */
static bool tracer_complete(const struct tracer *tracer, const struct tracer_cpu *c)
{
	const struct grid *grid = c->kernel.series >= 0 ? &c->kernel : &c->irq;

	return grid->begun && (grid->next >= tracer->periods || grid->count >= tracer->samples);
}

static void tracer_event(struct step *step, struct tracer *tracer,
			 const struct timerlat_event *event)
{
	struct tracer_cpu *c = tracer_find(tracer, event->cpu);
	struct grid *grid = event->context == TIMERLAT_IRQ ? &c->irq : &c->kernel;
	int64_t index;

	if (!c || event->context > TIMERLAT_THREAD)
		return;
	index = timerlat_index(&c->clock, event);
	/* a period that is not to be measured any more */
	if (index < 0 || grid->series < 0 || index >= tracer->periods ||
	    grid->count >= tracer->samples || (grid->begun && index < grid->next))
		return;
	if (!grid->begun)
		grid->start_ns = c->clock.first_due_ns - step->start_ns;
	grid_put(step, grid, index, c->clock.lost, event->latency_ns);
}

static void tracer_lines(struct step *step, struct tracer *tracer)
{
	struct timerlat_event event;
	char *line = tracer->text, *end;

	while ((end = memchr(line, '\n', tracer->used - (size_t)(line - tracer->text)))) {
		if (!timerlat_parse(line, (size_t)(end - line), &event))
			tracer_event(step, tracer, &event);
		line = end + 1;
	}
	tracer->used -= (size_t)(line - tracer->text);
	memmove(tracer->text, line, tracer->used);
	/* no line is as long as that */
	if (tracer->used == sizeof(tracer->text))
		tracer->used = 0;
}

static void tracer_read(struct step *step, struct tracer *tracer)
{
	for (;;) {
		ssize_t size = read(tracer->pipe, tracer->text + tracer->used,
				    sizeof(tracer->text) - tracer->used);

		if (size < 0 && errno == EINTR)
			continue;
		if (size <= 0)
			return;
		tracer->used += (size_t)size;
		tracer_lines(step, tracer);
		step_drain(step);
	}
}

/* At the end: the periods due until @now_ns, but for the last one, have no further event. The thread
 * that sets the timer again may have been kept from the CPU. */
static void tracer_end(struct step *step, const struct tracer *tracer, struct tracer_cpu *c,
		       int64_t now_ns)
{
	struct grid *const grids[] = { &c->irq, &c->kernel };
	int64_t next = (now_ns - c->clock.first_due_ns) / c->clock.interval_ns;

	if (!c->clock.number)
		return;
	for (int i = 0; i < 2; i++)
		if (grids[i]->count < tracer->samples)
			grid_end(step, grids[i], next < tracer->periods ? next : tracer->periods,
				 c->clock.lost);
}

static void tracer_collect(struct step *step, struct timer_kernel *kernel)
{
	struct tracer *tracer = kernel->state;
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	bool over = tracer->end_ns && now_ns > tracer->end_ns;
	int left = 0;

	if (tracer->pipe < 0)
		return;
	tracer_read(step, tracer);
	for (int i = 0; i < tracer->count; i++) {
		struct tracer_cpu *c = &tracer->cpus[i];

		if (atomic_load_acquire(&step->workers[c->worker].done))
			continue;
		if (tracer_complete(tracer, c)) {
			step_foreign_done(step, c->worker);
		} else if (step_stopped(step) || over) {
			tracer_end(step, tracer, c, now_ns);
			step_foreign_done(step, c->worker);
		} else {
			left++;
		}
	}
	if (!left && !tracer->off) {
		tracer->off = true;
		tracer_put(tracer, "tracing_on", "0");
	}
}

static void tracer_stop(struct timer_kernel *kernel)
{
	struct tracer *tracer = kernel->state;

	if (tracer->pipe >= 0)
		close(tracer->pipe);
	tracer->pipe = -1;
}

static void tracer_cleanup(struct timer_kernel *kernel)
{
	struct tracer *tracer = kernel->state;

	if (!tracer)
		return;
	tracer_stop(kernel);
}

const struct timer_backend timer_tracer = {
	.name = TRACER_NAME,
	.look = tracer_look,
	.setup = tracer_setup,
	.configure = tracer_configure,
	.start = tracer_start,
	.collect = tracer_collect,
	.stop = tracer_stop,
	.cleanup = tracer_cleanup,
};
