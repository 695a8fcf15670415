// SPDX-License-Identifier: Apache-2.0
/*
 * Interrupt dispatch: from the last stamp of a handler that wakes no thread to the next stamp of
 * the interrupted thread, which only reads the same clock. docs/measurements/irq-dispatch.md says
 * what exactly is timed.
 */
#include <errno.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "methods/interrupt.h"

/* The thread is awake so long before an interrupt is due, half of a shorter interval. */
#define IRQ_DISPATCH_LEAD_NS (100 * NSEC_PER_USEC)
/* And waits so long for it: it must not spin for ever. */
#define IRQ_DISPATCH_PATIENCE_NS (20 * NSEC_PER_MSEC)

static const struct option_info irq_dispatch_options[] = {
	{ "for", OPTION_DURATION, "10s", 0, 0, NULL,
	  "duration; 0: until all samples are taken, or until stopped" },
	{ "samples", OPTION_INTEGER, "0", 0, INT64_MAX, NULL, "samples per CPU; 0: no limit" },
	{ "interval", OPTION_DURATION, "1ms", 100000, 3600000000000, NULL,
	  "time from one interrupt to the next" },
	{ "cpu", OPTION_CPUS, "all", 0, 0, NULL, INTERRUPT_CPU_HELP },
	{ "priority", OPTION_INTEGER, "80", 0, 99, NULL,
	  "SCHED_FIFO priority of the thread; 0: SCHED_OTHER" },
	INTERRUPT_OPTIONS,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

struct irq_dispatch_cpu {
	struct events_session session; /* the first: interrupt.h */
	const struct rtgauge_page *page;
	const struct interrupt *interrupt;
	struct grid dispatch;
	int64_t loop_ns; /* the quickest turn */
};

/*
 * Read the clock until the page tells of another event than @seen: the clock's next reading after
 * the handler, into @now_ns. 0: none came by @until_ns. The clock is read before the page: an
 * interrupt between the two is known by a stamp later than that reading.
 */
static uint32_t irq_dispatch_poll(struct irq_dispatch_cpu *c, uint32_t seen, int64_t until_ns,
				  int64_t *now_ns)
{
	int64_t before_ns = clock_now_ns(CLOCK_MONOTONIC);
	uint32_t sequence;

	for (;;) {
		*now_ns = clock_now_ns(CLOCK_MONOTONIC);
		sequence = atomic_load_acquire(&c->page->sequence);
		if (sequence != seen && !(sequence & 1))
			break;
		if (*now_ns > until_ns)
			return 0;
		if (*now_ns - before_ns < c->loop_ns)
			c->loop_ns = *now_ns - before_ns;
		before_ns = *now_ns;
	}
	if (*now_ns < (int64_t)c->page->stamp_ns)
		*now_ns = clock_now_ns(CLOCK_MONOTONIC);
	return sequence;
}

/* Until shortly before @due_ns. */
static void irq_dispatch_sleep(const struct step *step, int64_t due_ns, int64_t interval_ns)
{
	int64_t lead_ns = interval_ns / 2 < IRQ_DISPATCH_LEAD_NS ? interval_ns / 2 :
								   IRQ_DISPATCH_LEAD_NS;
	const struct timespec until = clock_from_ns(due_ns - lead_ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) && !step_stopped(step))
		;
}

static void irq_dispatch_loop(struct worker *worker)
{
	struct irq_dispatch_cpu *c = worker->state;
	struct step *step = worker->step;
	int64_t interval_ns = c->interrupt->interval_ns;
	int64_t first_ns = step->start_ns + c->dispatch.start_ns;
	int64_t samples = c->interrupt->samples;

	for (int64_t index = 0; index < c->interrupt->periods && samples > 0; index++) {
		int64_t due_ns = first_ns + index * interval_ns, now_ns, event, stamp_ns;
		uint32_t seen, sequence;
		bool late;

		irq_dispatch_sleep(step, due_ns, interval_ns);
		if (step_stopped(step))
			break;
		/* what came while it slept interrupted somebody else */
		seen = atomic_load_acquire(&c->page->sequence);
		if (seen && (int64_t)c->page->index >= index) {
			index = (int64_t)c->page->index;
			continue;
		}
		sequence = irq_dispatch_poll(c, seen, due_ns + IRQ_DISPATCH_PATIENCE_NS, &now_ns);
		if (!sequence)
			continue;
		event = (int64_t)c->page->index;
		stamp_ns = (int64_t)c->page->stamp_ns;
		/* of one event, or another interrupt came between the two: on this CPU, in this
		 * order; the one passed over is counted as missed by the next sample */
		__atomic_signal_fence(__ATOMIC_ACQ_REL);
		if (atomic_load_acquire(&c->page->sequence) != sequence || now_ns < stamp_ns)
			continue;
		index = event;
		late = event > c->dispatch.next;
		grid_put(step, &c->dispatch, index, 0, now_ns - stamp_ns);
		samples--;
		if (late && step_starved(step, now_ns))
			break;
	}
	if (samples > 0)
		grid_end(step, &c->dispatch, events_passed(step, &c->session), 0);
}

static int irq_dispatch_add(struct step *step, void *state, int cpu)
{
	const struct interrupt *interrupt = step->state;
	struct irq_dispatch_cpu *c = state;
	int worker, err;

	c->interrupt = interrupt;
	c->loop_ns = INT64_MAX;
	c->session.setup =
		interrupt_setup(interrupt, RTGAUGE_KIND_IRQ_DISPATCH, RTGAUGE_CONTEXT_IRQ, cpu);
	/* the thread says when there are enough */
	c->session.setup.events = 0;
	err = events_make(step, &c->session);
	if (err)
		return err;
	c->page =
		mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, c->session.fd, 0);
	if (c->page == MAP_FAILED) {
		c->page = NULL;
		return message_set(&step->msg, -errno, "free some memory",
				   "the kernel module's page cannot be mapped");
	}
	worker = step_add_worker(step, irq_dispatch_loop, c, cpu,
				 (int)option_number(&step->options, "priority"));
	if (worker < 0)
		return worker;
	err = interrupt_add_series(step, interrupt, "dispatch", "irq", cpu, worker, &c->dispatch);
	c->dispatch.own = true;
	return err;
}

static int irq_dispatch_setup(struct step *step)
{
	return interrupt_setup_cpus(step, step->state, sizeof(struct irq_dispatch_cpu),
				    irq_dispatch_add);
}

static void irq_dispatch_due(void *state, int64_t first_ns)
{
	struct irq_dispatch_cpu *c = state;

	c->dispatch.start_ns = first_ns;
}

static int irq_dispatch_start(struct step *step)
{
	return interrupt_start(step, step->state, irq_dispatch_due);
}

/* The thread of a session's CPU reads the stamps of other CPUs, too, but they do not interrupt it. */
static int irq_dispatch_account(struct step *step, const struct interrupt *interrupt)
{
	int err = 0;

	for (int i = 0; i < interrupt->count; i++) {
		const struct events_session *s = interrupt_session(interrupt, i);
		struct rtgauge_status status = events_account(step, s);

		if (!err && status.other_cpu)
			err = message_set(
				&step->msg, -EIO,
				"stop irqbalance, or choose the CPU that handles the interrupt (--cpu)",
				"another CPU handled %llu of the interrupts of CPU %u, so they did not interrupt the thread there",
				(unsigned long long)status.other_cpu, s->setup.cpu);
	}
	return err;
}

static int irq_dispatch_finish(struct step *step)
{
	static const struct step_column columns[] = { { "cpu", "" }, { "loop", "ns" } };
	const struct interrupt *interrupt = step->state;
	const struct irq_dispatch_cpu *cpus = (const void *)interrupt->states;
	struct cbor *c = step_table_begin(step, "resolution", columns, 2, interrupt->count);

	for (int i = 0; i < interrupt->count; i++) {
		cbor_array(c, 2);
		cbor_int(c, cpus[i].session.setup.cpu);
		cbor_int(c, cpus[i].loop_ns == INT64_MAX ? 0 : cpus[i].loop_ns);
	}
	step_table_end(step);
	return irq_dispatch_account(step, interrupt);
}

static void irq_dispatch_cleanup(struct step *step)
{
	struct interrupt *interrupt = step->state;
	struct irq_dispatch_cpu *cpus = (void *)interrupt->states;

	/* what is mapped keeps the session, and with it the source */
	for (int i = 0; cpus && i < interrupt->count; i++)
		if (cpus[i].page)
			munmap((void *)cpus[i].page, (size_t)sysconf(_SC_PAGESIZE));
	interrupt_cleanup(step);
}

const struct measurement irq_dispatch_measurement = {
	.name = "irq-dispatch",
	.code = "IRQ-P-DLT",
	.summary = "time from the end of a handler until the interrupted thread continues",
	.needs = NEEDS_MODULE,
	.chapter = CHAPTER_INTERRUPTS,
	.contexts = "irq",
	.options = irq_dispatch_options,
	.series = {
		{ "dispatch", "ns",
		  "time from the end of a handler until the interrupted thread continues",
		  "last clock reading in the handler", "the thread reads the clock again",
		  "return from the interrupt" },
	},
	.tables = {
		{ "resolution",
		  "shortest turn of the thread's loop, which is the resolution of the samples" },
	},
	.evaluate = { { "idle", "for=5s", "for=2m" } },
	.mark = &mark_samples,
	.not_on_cobalt = "its interrupts and threads are those of Linux",
	.state_size = sizeof(struct interrupt),
	.setup = irq_dispatch_setup,
	.start = irq_dispatch_start,
	.finish = irq_dispatch_finish,
	.cleanup = irq_dispatch_cleanup,
};
