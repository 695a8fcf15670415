// SPDX-License-Identifier: Apache-2.0
/*
 * CPU power [CAL-P-CPU]: the effect of the caches on this CPU. The same work is timed with its code
 * or data in the first-level cache, in no cache, and in pages that were never touched.
 * docs/measurements/cpu-power.md says what exactly is timed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/value.h"
#include "methods/ensemble.h"

/* Where the kernel does not tell the sizes. */
#define POWER_LEVEL1 (32 * 1024)
#define POWER_LAST_LEVEL (4 * 1024 * 1024)
/* The walk that evicts: not longer, whatever the last level is, or it would take most of the time. */
#define POWER_WALK_MAX (128LL * 1024 * 1024)
#define POWER_WALK_MIN (1024 * 1024)
#define POWER_LINE 32 /* no cache has shorter ones */
/* The loop that fits runs so often that it has the instructions of the block that does not. */
#define POWER_TURNS 8
#define POWER_ALL_CODE "code is measured"
#define POWER_EVICTED "the walk evicts all caches"

/*
 * Code generated here: it sets the result register to 0. Each step adds 1 to it and sets three others
 * to constants. So a step takes the time to fetch its instructions, not a cycle
 * for each instruction of a chain. In units of the machine's instruction stream, if that has the byte
 * order of data; otherwise code is not measured.
 */
#if defined(__x86_64__) || defined(__i386__)
typedef uint8_t power_unit;
#define POWER_ZERO 0x31, 0xc0 /* xor %eax, %eax */
#define POWER_STEP                                   \
	0x05, 1, 0, 0, 0,	  /* add $1, %eax */ \
		0xb9, 1, 0, 0, 0, /* mov $1, %ecx */ \
		0xba, 1, 0, 0, 0, /* mov $1, %edx */ \
		0xb9, 2, 0, 0, 0  /* mov $2, %ecx */
#define POWER_RETURN 0xc3
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
typedef uint32_t power_unit;
#define POWER_ZERO 0x52800000 /* mov w0, #0 */
/* add w0, w0, #1 | mov w1, #1 | mov w2, #1 | mov w3, #1 */
#define POWER_STEP 0x11000400, 0x52800021, 0x52800022, 0x52800023
#define POWER_RETURN 0xd65f03c0
#elif defined(__arm__) && !defined(__ARMEB__)
typedef uint32_t power_unit;
#define POWER_ZERO 0xe3a00000 /* mov r0, #0 */
/* add r0, r0, #1 | mov r1, #1 | mov r2, #1 | mov r3, #1 */
#define POWER_STEP 0xe2800001, 0xe3a01001, 0xe3a02001, 0xe3a03001
#define POWER_RETURN 0xe12fff1e /* bx lr */
#elif defined(__riscv)
typedef uint32_t power_unit;
#define POWER_ZERO 0x00000513 /* li a0, 0 */
/* addi a0, a0, 1 | li a1, 1 | li a2, 1 | li a3, 1 */
#define POWER_STEP 0x00150513, 0x00100593, 0x00100613, 0x00100693
#define POWER_RETURN 0x00008067
#elif defined(__powerpc__) && (!defined(__powerpc64__) || _CALL_ELF == 2)
typedef uint32_t power_unit;
#define POWER_ZERO 0x38600000 /* li r3, 0 */
/* addi r3, r3, 1 | li r4, 1 | li r5, 1 | li r6, 1 */
#define POWER_STEP 0x38630001, 0x38800001, 0x38a00001, 0x38c00001
#define POWER_RETURN 0x4e800020
#elif defined(__mips__) && !defined(__mips16) && !defined(__mips_micromips)
typedef uint32_t power_unit;
#define POWER_ZERO 0x00001021 /* addu $v0, $0, $0 */
/* addiu $v0, $v0, 1; addiu $v1, $0, 1; addiu $a0, $0, 1; addiu $a1, $0, 1 */
#define POWER_STEP 0x24420001, 0x24030001, 0x24040001, 0x24050001
#define POWER_RETURN 0x03e00009, 0 /* jalr $0, $ra; nop */
#else
#define POWER_NO_CODE
typedef uint8_t power_unit;
#define POWER_ZERO 0
#define POWER_STEP 0
#define POWER_RETURN 0
#endif

static const power_unit power_zero[] = { POWER_ZERO };
static const power_unit power_step[] = { POWER_STEP };
static const power_unit power_return[] = { POWER_RETURN };

enum power_what { POWER_CODE, POWER_READ, POWER_WRITE, POWER_WHATS };
enum power_state { POWER_CACHED, POWER_OUTER, POWER_UNCACHED, POWER_FIRST, POWER_STATES };

static const char *const power_whats[] = { "code", "read", "write" };
static const char *const power_states[] = { "cached", "outer", "uncached", "first" };

/* The object that is timed: a block of code, or an array. */
struct power_area {
	void *at; /* MAP_FAILED: not available */
	size_t bytes;
};

struct cpu_power_state {
	struct ensemble ensemble;
	int64_t samples;
	int64_t level1_code, level1_data, last_level;
	bool code_assumed, data_assumed, last_assumed; /* the kernel does not tell the size */
	const char *refused;			       /* why no code is measured */
	int error;				       /* or its errno */
	uint32_t steps;				       /* of the block that is too large */
	struct power_area code, loop, read, write;
	struct power_area first[POWER_WHATS]; /* their like, never touched before */
	struct power_area walk;
	int series[POWER_WHATS][POWER_STATES]; /* -1: none */
	volatile uint32_t sink;
};

static const struct option_info cpu_power_options[] = {
	ENSEMBLE_FOR,
	{ "samples", OPTION_INTEGER, "50", 1, 100000, NULL, "passes of each kind" },
	ENSEMBLE_CPU,
	ENSEMBLE_PRIORITY,
	{ NULL, 0, NULL, 0, 0, NULL, NULL },
};

/* --- the passes --- */

static __attribute__((noinline)) uint32_t power_read(const volatile uint32_t *words, size_t count)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += words[i];
	return sum;
}

static __attribute__((noinline)) void power_write(volatile uint32_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		words[i] = (uint32_t)i;
}

/* Clang's sanitizer looks for its own data in front of functions that are called by pointer. */
#if defined(__clang__)
__attribute__((no_sanitize("undefined")))
#endif
static uint32_t
power_call(const struct power_area *code)
{
	uint32_t (*function)(void);

	memcpy(&function, &code->at, sizeof(function));
	return function();
}

static void power_pass(struct cpu_power_state *state, enum power_what what,
		       const struct power_area *area)
{
	if (what == POWER_READ)
		state->sink = power_read(area->at, area->bytes / 4);
	else if (what == POWER_WRITE)
		power_write(area->at, area->bytes / 4);
	else
		state->sink = power_call(area);
}

static void power_time(struct cpu_power_state *state, enum power_what what, enum power_state where,
		       const struct power_area *area)
{
	struct ensemble *e = &state->ensemble;
	int turns = area == &state->loop ? POWER_TURNS : 1;
	int64_t from_ns, took_ns;

	if (state->series[what][where] < 0)
		return;
	clock_now_ns(CLOCK_MONOTONIC); /* its own code and data come in before */
	from_ns = clock_now_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < turns; i++)
		power_pass(state, what, area);
	took_ns = clock_now_ns(CLOCK_MONOTONIC) - from_ns;
	ensemble_loop(e, state->series[what][where]);
	series_put(&e->step->series[state->series[what][where]], ensemble_net(e, took_ns));
}

static void power_evict(struct cpu_power_state *state)
{
	const volatile uint8_t *bytes = state->walk.at;
	uint32_t sum = 0;

	for (size_t i = 0; i < state->walk.bytes; i += POWER_LINE)
		sum += bytes[i];
	state->sink = sum;
}

/* The pages leave the process; what was in them stays with the file that code comes from. */
static void power_forget(const struct cpu_power_state *state)
{
	for (int i = 0; i < POWER_WHATS; i++)
		if (state->first[i].at != MAP_FAILED)
			madvise(state->first[i].at, state->first[i].bytes, MADV_DONTNEED);
}

static void power_sample(struct cpu_power_state *state)
{
	const struct power_area *const areas[] = { &state->code, &state->read, &state->write };
	const struct power_area *const fitting[] = { &state->loop, &state->read, &state->write };
	bool code = !state->refused && !state->error;

	power_forget(state);
	power_evict(state);
	for (int i = 0; i < POWER_WHATS; i++)
		power_time(state, i, POWER_UNCACHED, areas[i]);
	for (int i = 0; i < POWER_WHATS; i++)
		power_time(state, i, POWER_FIRST, &state->first[i]);
	power_time(state, POWER_CODE, POWER_OUTER, &state->code);
	for (int i = code ? POWER_CODE : POWER_READ; i < POWER_WHATS; i++) {
		power_pass(state, i, fitting[i]);
		power_time(state, i, POWER_CACHED, fitting[i]);
	}
}

static struct power_area power_map(size_t bytes)
{
	struct power_area area = {
		.at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		.bytes = bytes,
	};

	return area;
}

/* Twice the last level, at least POWER_WALK_MIN, as far as there is memory, and, where the run's memory
 * is locked, leave to lock it; each page has memory of its own. */
static bool power_map_walk(struct cpu_power_state *state)
{
	int64_t bytes = 2 * state->last_level, most = value_memory_available() / 4;

	if (bytes < POWER_WALK_MIN)
		bytes = POWER_WALK_MIN;
	if (most && bytes > most)
		bytes = most;
	if (bytes > POWER_WALK_MAX)
		bytes = POWER_WALK_MAX;
	for (; bytes >= POWER_WALK_MIN / 2; bytes /= 2) {
		state->walk = power_map((size_t)bytes);
		if (state->walk.at == MAP_FAILED)
			continue;
		for (int64_t i = 0; i < bytes; i += 4096)
			((volatile uint8_t *)state->walk.at)[i] = 1;
		return true;
	}
	return ensemble_fail(&state->ensemble, -ENOMEM, "out of memory for a walk");
}

static void cpu_power_loop(struct worker *worker)
{
	struct cpu_power_state *state = worker->state;

	if (!power_map_walk(state))
		return;
	/* locked pages would not go */
	for (int i = 0; i < POWER_WHATS; i++)
		if (state->first[i].at != MAP_FAILED)
			munlock(state->first[i].at, state->first[i].bytes);
	for (int64_t i = 0; i < state->samples && ensemble_goes_on(&state->ensemble); i++)
		power_sample(state);
}

/* --- sizes --- */

/* "32K", as the kernel writes it: bytes, 0 if that cannot be read. */
static int64_t power_size(int cpu, int index, const char *name, char *value)
{
	char path[96], *end;
	int64_t size;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index,
		 name);
	if (value_get(path, value, NULL))
		return 0;
	size = strtoll(value, &end, 10);
	return *end == 'K' ? size * 1024 : *end == 'M' ? size * 1024 * 1024 : size;
}

static void power_caches(struct cpu_power_state *state)
{
	char value[VALUE_MAX];

	for (int i = 0; i < 16; i++) {
		int64_t size = power_size(state->ensemble.cpu, i, "size", value);
		int64_t level = power_size(state->ensemble.cpu, i, "level", value);

		if (!size)
			continue;
		power_size(state->ensemble.cpu, i, "type", value);
		if (level == 1 && value[0] != 'D')
			state->level1_code = size;
		if (level == 1 && value[0] != 'I')
			state->level1_data = size;
		if (size > state->last_level && value[0] != 'I')
			state->last_level = size;
	}
	state->code_assumed = !state->level1_code;
	state->data_assumed = !state->level1_data;
	if (state->code_assumed)
		state->level1_code = POWER_LEVEL1;
	if (state->data_assumed)
		state->level1_data = POWER_LEVEL1;
	/* a kernel that leaves out a first level may leave out the last one, too */
	state->last_assumed = (state->code_assumed || state->data_assumed) &&
			      state->last_level <= state->level1_data;
	if (state->last_assumed)
		state->last_level = POWER_LAST_LEVEL;
}

/* --- setup --- */

static void power_unmap(struct power_area *area)
{
	if (area->at && area->at != MAP_FAILED)
		munmap(area->at, area->bytes);
}

static size_t power_put(power_unit *to, size_t at, const power_unit *what, size_t size)
{
	memcpy((char *)to + at, what, size);
	return at + size;
}

/* A block that counts to @steps. Its size. */
static size_t power_make_block(power_unit *to, size_t at, uint32_t steps)
{
	at = power_put(to, at, power_zero, sizeof(power_zero));
	while (steps--)
		at = power_put(to, at, power_step, sizeof(power_step));
	return power_put(to, at, power_return, sizeof(power_return));
}

/* Let the processor fetch what was written. */
static void power_clear_cache(char *from, char *to)
{
#ifdef __powerpc__		/* not every compiler brings a function for it */
	const size_t line = 16; /* the shortest there is */

	for (char *at = from; at < to; at += line)
		__asm__ volatile("dcbst 0, %0" : : "r"(at) : "memory");
	__asm__ volatile("sync" : : : "memory");
	for (char *at = from; at < to; at += line)
		__asm__ volatile("icbi 0, %0" : : "r"(at) : "memory");
	__asm__ volatile("sync; isync" : : : "memory");
#else
	__builtin___clear_cache(from, to);
#endif
}

/* Map the code of a file: never writable where it is executable. */
static int power_map_code(struct power_area *area, const void *code, size_t bytes)
{
	int fd = (int)syscall(SYS_memfd_create, "rtgauge-code", 1 /* MFD_CLOEXEC */), err = 0;
	ssize_t written;

	if (fd < 0)
		return -errno;
	written = write(fd, code, bytes);
	if (written != (ssize_t)bytes)
		err = written < 0 ? -errno : -ENOSPC;
	area->bytes = bytes;
	area->at = err ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (!err && area->at == MAP_FAILED)
		err = -errno;
	close(fd);
	if (!err)
		power_clear_cache(area->at, (char *)area->at + bytes);
	return err;
}

static int power_make_code(struct cpu_power_state *state)
{
	uint32_t few =
		(uint32_t)(2 * state->level1_code / POWER_TURNS / (int64_t)sizeof(power_step));
	size_t block, loop, room;
	power_unit *code;
	int err;

	state->steps = few * POWER_TURNS;
	room = (state->steps + few) * sizeof(power_step) + 256;
	code = calloc(1, room);
	if (!code)
		return -ENOMEM;
	block = power_make_block(code, 0, state->steps);
	loop = (block + 63) / 64 * 64;
	err = power_map_code(&state->code, code, power_make_block(code, loop, few));
	err = err ?: power_map_code(&state->first[POWER_CODE], code, block);
	free(code);
	if (err)
		return err;
	state->loop.at = (char *)state->code.at + loop;
	if (power_call(&state->code) != state->steps || power_call(&state->loop) != few ||
	    power_call(&state->first[POWER_CODE]) != state->steps)
		state->refused = "the generated code returns a wrong count";
	return 0;
}

static int power_add_series(struct cpu_power_state *state, enum power_what what,
			    enum power_state where)
{
	int number = ensemble_series(&state->ensemble, power_states[where], "what",
				     power_whats[what], ensemble_room(state->samples, 1), true);

	state->series[what][where] = number;
	return number < 0 ? number : 0;
}

static int power_add(struct cpu_power_state *state)
{
	bool code = !state->refused && !state->error;
	int err = 0;

	memset(state->series, -1, sizeof(state->series));
	for (int what = 0; what < POWER_WHATS; what++)
		for (int where = 0; where < POWER_STATES && !err; where++)
			if (what == POWER_CODE ? code : where != POWER_OUTER)
				err = power_add_series(state, what, where);
	return err;
}

static int cpu_power_setup(struct step *step)
{
	struct cpu_power_state *state = step->state;
	size_t bytes;
	int err;

	state->samples = option_number(&step->options, "samples");
	err = ensemble_setup(step, &state->ensemble, cpu_power_loop, 0, 0);
	if (err)
		return err;
	power_caches(state);
	bytes = (size_t)state->level1_data / 2;
	state->read = power_map(bytes);
	state->write = power_map(bytes);
	state->first[POWER_CODE].at = MAP_FAILED;
	state->first[POWER_READ] = power_map(bytes);
	state->first[POWER_WRITE] = power_map(bytes);
	if (state->read.at == MAP_FAILED || state->write.at == MAP_FAILED ||
	    state->first[POWER_READ].at == MAP_FAILED || state->first[POWER_WRITE].at == MAP_FAILED)
		return message_set(&step->msg, -ENOMEM, "free some memory", "out of memory");
	power_write(state->read.at, bytes / 4);
#ifdef POWER_NO_CODE
	state->refused = "not supported on this processor";
#else
	state->error = power_make_code(state);
#endif
	return power_add(state);
}

/* --- finish --- */

/* 0: there is none. */
static int64_t power_median_ns(const struct cpu_power_state *state, int what, int where)
{
	int number = state->series[what][where];

	return number < 0 ? 0 : series_percentile(&state->ensemble.step->series[number], 50000);
}

static void cpu_power_passes(struct step *step, const struct cpu_power_state *state)
{
	static const struct step_column columns[] = {
		{ "what", "" },		 { "size", "bytes" },  { "cached", "ns" },
		{ "outer cache", "ns" }, { "uncached", "ns" }, { "first", "ns" },
	};
	/* state->code also has the loop that fits */
	const struct power_area *const areas[] = { &state->first[POWER_CODE], &state->read,
						   &state->write };
	int first = state->series[POWER_CODE][POWER_CACHED] < 0 ? POWER_READ : POWER_CODE;
	struct cbor *c = step_table_begin(step, "passes", columns, 6, POWER_WHATS - first);

	for (int what = first; what < POWER_WHATS; what++) {
		cbor_array(c, 6);
		cbor_text(c, power_whats[what]);
		cbor_int(c, (int64_t)areas[what]->bytes);
		for (int where = 0; where < POWER_STATES; where++)
			cbor_int(c, power_median_ns(state, what, where));
	}
	step_table_end(step);
}

static void cpu_power_effect(struct step *step, const struct cpu_power_state *state)
{
	static const struct step_column columns[] = { { "what", "" },
						      { "uncached / cached", "%" } };
	int64_t effects[POWER_WHATS], sum = 0;
	const char *names[POWER_WHATS];
	struct cbor *c;
	int count = 0;

	for (int what = 0; what < POWER_WHATS; what++) {
		int64_t cached_ns = power_median_ns(state, what, POWER_CACHED);

		if (cached_ns <= 0)
			continue;
		names[count] = power_whats[what];
		effects[count] = power_median_ns(state, what, POWER_UNCACHED) * 100 / cached_ns;
		sum += effects[count++];
	}
	c = step_table_begin(step, "effect", columns, 2, count ? count + 1 : 0);
	for (int i = 0; i < count; i++) {
		cbor_array(c, 2);
		cbor_text(c, names[i]);
		cbor_int(c, effects[i]);
	}
	if (count) {
		cbor_array(c, 2);
		cbor_text(c, "average");
		cbor_int(c, sum / count);
	}
	step_table_end(step);
}

static const char *cpu_power_from(bool assumed)
{
	return assumed ? "assumed" : "kernel";
}

static void cpu_power_caches(struct step *step, const struct cpu_power_state *state)
{
	static const struct step_column columns[] = { { "cache", "" },
						      { "size", "bytes" },
						      { "from", "" } };
	const struct {
		const char *name;
		int64_t size;
		const char *from;
	} rows[] = {
		{ "first level, code", state->level1_code, cpu_power_from(state->code_assumed) },
		{ "first level, data", state->level1_data, cpu_power_from(state->data_assumed) },
		{ "last level", state->last_level, cpu_power_from(state->last_assumed) },
		{ "walk", (int64_t)state->walk.bytes, "" },
	};
	struct cbor *c = step_table_begin(step, "caches", columns, 3, 4);

	for (int i = 0; i < 4; i++) {
		cbor_array(c, 3);
		cbor_text(c, rows[i].name);
		cbor_int(c, rows[i].size);
		cbor_text(c, rows[i].from);
	}
	step_table_end(step);
}

static int cpu_power_finish(struct step *step)
{
	struct cpu_power_state *state = step->state;
	char evidence[160];

	cpu_power_passes(step, state);
	cpu_power_effect(step, state);
	cpu_power_caches(step, state);
	if (state->refused || state->error) {
		snprintf(evidence, sizeof(evidence),
			 "the code to measure cannot be put into memory: %s",
			 strerror(-state->error));
		step_verdict(step, POWER_ALL_CODE, "skipped", state->refused ?: evidence,
			     state->refused ? "read the report without this row" :
					      "allow memory to be executable");
	}
	if (state->walk.bytes && (int64_t)state->walk.bytes < 2 * state->last_level) {
		snprintf(evidence, sizeof(evidence),
			 "the walk covers %lld KiB, but the last level has %lld KiB",
			 (long long)state->walk.bytes / 1024, (long long)state->last_level / 1024);
		step_verdict(
			step, POWER_EVICTED, "skipped", evidence,
			"free some memory, or read the uncached figures as figures of the outer cache");
	}
	return state->ensemble.error;
}

static void cpu_power_cleanup(struct step *step)
{
	struct cpu_power_state *state = step->state;

	power_unmap(&state->code);
	power_unmap(&state->read);
	power_unmap(&state->write);
	for (int i = 0; i < POWER_WHATS; i++)
		power_unmap(&state->first[i]);
	power_unmap(&state->walk);
}

const struct measurement cpu_power_measurement = {
	.name = "cpu-power",
	.code = "CAL-P-CPU",
	.summary = "effect of the caches on this CPU",
	.chapter = CHAPTER_CALIBRATION,
	.options = cpu_power_options,
	.series = {
		{ "cached", "ns", "a pass over code or an array in the first-level cache",
		  "before the pass", "after it", NULL },
		{ "outer", "ns", "a second pass over code that is larger than that cache",
		  "before the pass", "after it", NULL },
		{ "uncached", "ns", "a pass after a walk that evicted the caches",
		  "before the pass", "after it", NULL },
		{ "first", "ns", "an uncached pass with page faults, because nothing is mapped yet",
		  "before the pass", "after it", NULL },
	},
	.tables = {
		{ "passes", "median time of a pass, by where its code or data lies" },
		{ "effect", "ratio of an uncached pass to a cached one" },
		{ "caches",
		  "the assumed sizes of the caches, and the size of the walk that evicts them" },
	},
	.verdicts = {
		{ POWER_ALL_CODE, "skipped where code cannot be generated and run" },
		{ POWER_EVICTED,
		  "skipped where the last level is too large for the memory or the time" },
	},
	.evaluate = { { "idle", "samples=50 for=2500ms", "samples=1000 for=2m" } },
	.not_on_cobalt = "it times the caches, which are the same for tasks of every core",
	.state_size = sizeof(struct cpu_power_state),
	.setup = cpu_power_setup,
	.finish = cpu_power_finish,
	.cleanup = cpu_power_cleanup,
};
