// SPDX-License-Identifier: Apache-2.0
/* Tests of timerlat.c: lines of real kernels, lines that only look like them, and the grid that
 * their events are put on; of timer_tracer.c: the end of a step. Prints TAP. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "measurements/timer/timer_tracer.c"
#include "run/run.h"
#include "drained.h"
#include "tap.h"

struct golden {
	const char *line;
	struct timerlat_event event;
};

/* Debian's 6.1.0-56-rt-amd64 and 6.12.117+deb12-rt-amd64, as they wrote them. */
static const struct golden golden[] = {
	{ "           <...>-104     [000] d..h...     1.978749: #5     context    irq timer_latency       600 ns",
	  { TIMERLAT_IRQ, 0, 1978749000, 5, 600 } },
	{ "           <...>-101     [000] .......     1.978752: #5     context thread timer_latency      4298 ns",
	  { TIMERLAT_THREAD, 0, 1978752000, 5, 4298 } },
	{ "          <idle>-0       [000] d..h1..     1.980749: #7     context    irq timer_latency       728 ns",
	  { TIMERLAT_IRQ, 0, 1980749000, 7, 728 } },
	{ "           <...>-148     [000] d.h.3     2.136431: #12    context    irq timer_latency       578 ns",
	  { TIMERLAT_IRQ, 0, 2136431000, 12, 578 } },
	{ "           <...>-146     [000] ....1     2.136436: #12    context thread timer_latency      5765 ns",
	  { TIMERLAT_THREAD, 0, 2136436000, 12, 5765 } },
	/* as the kernel's sources have them */
	{ "       timerlat/1-1057  [1011] ..... 123456.000007: #100000 context user-ret timer_latency     11 ns",
	  { TIMERLAT_USER, 1011, 123456000007000, 100000, 11 } },
	{ "CPU:3 [LOST 1234 EVENTS]", { TIMERLAT_LOST, 3, 0, 1234, 0 } },
	{ "CPU:0 [LOST EVENTS]", { TIMERLAT_LOST, 0, 0, 0, 0 } },
	/* a task may be called anything */
	{ "  x: #1 context irq timer_latency 1 ns-7     [002] d..h1..     1.980749: #7     context    irq timer_latency       728 ns",
	  { TIMERLAT_IRQ, 2, 1980749000, 7, 728 } },
};

static const char *const wrong[] = {
	"",
	" ",
	"]",
	"ns",
	"# tracer: timerlat",
	"#           TASK-PID      CPU# |||||||   TIMESTAMP    ID            CONTEXT                LATENCY",
	"  <idle>-0 [000] d..h1.. 1.980749: #7 context irq timer_latency ns",
	"  <idle>-0 [000] d..h1.. 1.980749: #7 context irq timer_latency -5 ns",
	"  <idle>-0 [000] d..h1.. 1.980749: #7 context irq timer_latency 5 us",
	"  <idle>-0 [000] d..h1.. 1.980749: #7 context soft timer_latency 5 ns",
	"  <idle>-0 [000] d..h1.. 1.980749: 7 context irq timer_latency 5 ns",
	"  <idle>-0 [000] d..h1.. 1.98074: #7 context irq timer_latency 5 ns",
	"  <idle>-0 [000] d..h1.. 1980749: #7 context irq timer_latency 5 ns",
	"  <idle>-0 [000] d..h1.. 1.980749 #7 context irq timer_latency 5 ns",
	"  <idle>-0 [0x0] d..h1.. 1.980749: #7 context irq timer_latency 5 ns",
	"  <idle>-0 [] d..h1.. 1.980749: #7 context irq timer_latency 5 ns",
	"[000] d..h1.. 1.980749: #7 context irq timer_latency 5 ns",
	"  <idle>-0 [000] d..h1.. 1.980749: #7 context irq timer_latency 99999999999999999999 ns",
	"CPU: [LOST 5 EVENTS]",
	"CPU:0 [LOST x EVENTS]",
	"y CPU:0 [LOST 5 EVENTS]",
	"  bash-5 [000] ..... 1.980749: bprint: context irq timer_latency 5 ns",
};

static bool same(const struct timerlat_event *a, const struct timerlat_event *b)
{
	return a->context == b->context && a->cpu == b->cpu && a->time_ns == b->time_ns &&
	       a->number == b->number && a->latency_ns == b->latency_ns;
}

static void test_lines(void)
{
	struct timerlat_event event;

	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++)
		tap_check(!timerlat_parse(golden[i].line, strlen(golden[i].line), &event) &&
				  same(&event, &golden[i].event),
			  "read: %s", golden[i].line);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		tap_check(timerlat_parse(wrong[i], strlen(wrong[i]), &event) != 0, "refused: %s",
			  wrong[i]);
}

/* Every beginning, every end and 300000 corrupted copies, each in memory of exactly its size, so that
 * the sanitizers see a step beyond it. What is taken has a number within its digits. */
static void test_fuzz(void)
{
	uint32_t random = 2463534242;
	struct timerlat_event event;
	bool sound = true;
	int taken = 0;

	for (int round = 0; round < 300000; round++) {
		const char *line = golden[round % 9].line;
		size_t size = strlen(line), from = 0;
		char *copy;

		random ^= random << 13;
		random ^= random >> 17;
		random ^= random << 5;
		if (round % 3 == 1)
			size = random % (size + 1);
		if (round % 3 == 2)
			from = random % (size + 1);
		copy = malloc(size - from + (size == from));
		memcpy(copy, line + from, size - from);
		for (uint32_t bits = random; round % 3 == 0 && bits; bits >>= 11)
			copy[bits % size] = (char)(bits >> 3);
		if (!timerlat_parse(copy, size - from, &event)) {
			taken++;
			sound = sound && event.latency_ns >= 0 && event.number >= 0 &&
				event.cpu >= 0 && event.time_ns >= 0;
		}
		free(copy);
	}
	tap_check(sound, "whatever the line, what is read is sound");
	tap_check(taken > 1000 && taken < 250000, "some are read, others refused");
}

static int64_t put(struct timerlat_grid *grid, enum timerlat_context context, int64_t number,
		   int64_t due_us, int64_t latency_ns)
{
	struct timerlat_event event = { .context = context,
					.number = number,
					.latency_ns = latency_ns };

	/* as the text has it: recorded a little later, cut to the microsecond */
	event.time_ns = (due_us * NSEC_PER_USEC + latency_ns + 300) / NSEC_PER_USEC * NSEC_PER_USEC;
	return timerlat_index(grid, &event);
}

static void test_grid(void)
{
	struct timerlat_grid grid = { .interval_ns = 100 * NSEC_PER_USEC };
	bool good = true;

	tap_check(put(&grid, TIMERLAT_THREAD, 3, 900, 2000) == -1,
		  "a thread without its handler has no grid point");
	tap_check(put(&grid, TIMERLAT_IRQ, 4, 1000, 600) == 0, "the first handler begins it");
	tap_check(put(&grid, TIMERLAT_THREAD, 4, 1000, 51000) == 0, "its thread has the same");
	for (int i = 1; i < 100; i++)
		good = good &&
		       put(&grid, TIMERLAT_IRQ, 4 + i, 1000 + i * 100, 600 + i * 397) == i &&
		       put(&grid, TIMERLAT_THREAD, 4 + i, 1000 + i * 100, 900 + i * 397) == i;
	tap_check(good && grid.lost == 0, "a hundred in turn, whatever their latency");
	tap_check(put(&grid, TIMERLAT_IRQ, 104, 1000 + 105 * 100, 600) == 105 && !grid.lost,
		  "skipped periods are not activations: missed, not lost");
	tap_check(put(&grid, TIMERLAT_IRQ, 107, 1000 + 108 * 100, 600) == 108 && grid.lost == 2,
		  "activations without an event are lost");
	tap_check(put(&grid, TIMERLAT_THREAD, 106, 1000 + 107 * 100, 600) == -1,
		  "a thread of a lost one has no grid point");
	tap_check(put(&grid, TIMERLAT_IRQ, 107, 1000 + 109 * 100, 600) == -1,
		  "an activation comes once");
	tap_check(put(&grid, TIMERLAT_IRQ, 108, 1000 + 108 * 100, 600) == 109,
		  "two activations never share a grid point");
}

static int64_t missed[2];

/* Periods of 1 ms from 10 s on: @irqs have an event of the handler, the first @threads of them one of
 * the thread. The step ends at 10 s and @end_us. */
static void end_after(int irqs, int threads, int64_t end_us, int64_t periods, int64_t samples)
{
	static struct run run;
	static struct tracer tracer;
	struct step *step = &run.step;
	struct series two[2];
	const struct series_info info = { .interval_ns = NSEC_PER_MSEC, .companion = -1 };
	const struct grid grid = { .dither = -1,
				   .interval_ns = NSEC_PER_MSEC,
				   .limit_ns = INT64_MAX };
	struct tracer_cpu cpu = { .irq = grid, .kernel = grid };

	cpu.clock.interval_ns = NSEC_PER_MSEC;
	cpu.kernel.series = 1;
	memset(&run, 0, sizeof(run));
	tracer =
		(struct tracer){ .cpus = &cpu, .count = 1, .periods = periods, .samples = samples };
	for (int i = 0; i < 2; i++)
		series_init(&two[i], i, &info, 64);
	step->series = two;
	for (int i = 0; i < irqs; i++) {
		const char *const lines[] = {
			"  <idle>-0  [000] d..h1..  10.%06d: #%d context irq timer_latency 500 ns\n",
			"  x-9  [000] .......  10.%06d: #%d context thread timer_latency 3500 ns\n",
		};

		for (int k = 0; k < (i < threads ? 2 : 1); k++)
			tracer.used += (size_t)snprintf(tracer.text + tracer.used,
							sizeof(tracer.text) - tracer.used, lines[k],
							1000 * i + (k ? 3 : 0), i + 1);
		tracer_lines(step, &tracer);
	}
	tracer_end(step, &tracer, &cpu, 10 * NSEC_PER_SEC + end_us * NSEC_PER_USEC);
	for (int i = 0; i < 2; i++) {
		missed[i] = drained_from(&two[i]).missed;
		series_free(&two[i]);
	}
}

static void test_end(void)
{
	end_after(4, 4, 3500, INT64_MAX, INT64_MAX);
	tap_check(!missed[0] && !missed[1], "stopped within a period: nothing is missed");
	end_after(4, 3, 3500, INT64_MAX, INT64_MAX);
	tap_check(!missed[0] && !missed[1], "the thread may be on its way to the last one");
	end_after(4, 3, 20500, INT64_MAX, INT64_MAX);
	tap_check(missed[0] == 16 && missed[1] == 17,
		  "a thread that did not come any more: %lld and %lld missed", (long long)missed[0],
		  (long long)missed[1]);
	end_after(4, 3, 20500, 10, INT64_MAX);
	tap_check(missed[0] == 6 && missed[1] == 7, "not more than are due: %lld and %lld",
		  (long long)missed[0], (long long)missed[1]);
	end_after(4, 3, 20500, INT64_MAX, 4);
	tap_check(!missed[0] && missed[1] == 17, "one context has all its samples");
	end_after(0, 0, 20500, INT64_MAX, INT64_MAX);
	tap_check(!missed[0] && !missed[1], "no event at all");
}

int main(void)
{
	test_lines();
	test_fuzz();
	test_grid();
	test_end();
	return tap_end();
}
