// SPDX-License-Identifier: Apache-2.0
/*
 * Background activity during a measurement. Files stay open and are read into small buffers; nothing
 * is allocated once memory is locked.
 *
 * Three readings would interrupt a measured CPU, so they are not made there:
 * - A model-specific register of another CPU. The SMI count is that of the CPU that reads it, which
 *   serves as well because an SMI stops all CPUs.
 * - The frequency on x86 before Linux 5.19, where the kernel asks the CPU in question.
 * - The temperature on x86: a register of another CPU, or of the firmware, which may cause an SMI.
 *   It is read before and after the measurement only.
 */
#include "system/background.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cbor.h"
#include "base/clock.h"
#include "base/cpulist.h"

#define BACKGROUND_BUFFER 4096
#define BACKGROUND_MSR_SMI_COUNT 0x34
/* Columns behind the CPU's name in /proc/stat (proc(5)). In the second, an idle CPU waited for a
 * device. In the third, the hypervisor ran something else. */
#define BACKGROUND_IDLE 4
#define BACKGROUND_IOWAIT 5
#define BACKGROUND_STEAL 8
#define BACKGROUND_WRAP (1ULL << 32)
/* More than a CPU has between two readings. */
#define BACKGROUND_INTERRUPTS_MAX 50000000

static bool background_is_x86(const struct utsname *name)
{
	return !strcmp(name->machine, "x86_64") ||
	       (name->machine[0] == 'i' && !strcmp(name->machine + 2, "86"));
}

/* Whether the kernel is of that version or a newer one. */
static bool background_kernel_has(const struct utsname *name, long major, long minor)
{
	char *rest;
	long found = strtol(name->release, &rest, 10);

	if (found != major || *rest != '.')
		return found > major;
	return strtol(rest + 1, NULL, 10) >= minor;
}

static int background_open_file(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The number in a file of one line. */
static bool background_number(int fd, int64_t *number)
{
	char text[32], *end;
	ssize_t size = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	if (size <= 0)
		return false;
	text[size] = '\0';
	*number = strtoll(text, &end, 10);
	return end != text;
}

static void background_open_zones(struct background *background)
{
	for (int i = 0; background->zone_count < BACKGROUND_ZONES && i < 4 * BACKGROUND_ZONES;
	     i++) {
		struct background_zone *zone = &background->zones[background->zone_count];
		char path[64], type[24] = "";
		ssize_t size;
		int fd;

		snprintf(path, sizeof(path), "/sys/class/thermal/thermal_zone%d/type", i);
		fd = background_open_file(path);
		if (fd < 0)
			continue;
		size = read(fd, type, sizeof(type) - 1);
		close(fd);
		type[size > 0 ? strcspn(type, "\n") : 0] = '\0';
		for (char *at = type; *at; at++)
			if (*at < ' ' || *at > '~')
				*at = '?';
		snprintf(zone->name, sizeof(zone->name), "%d %s", i, type);
		snprintf(path, sizeof(path), "/sys/class/thermal/thermal_zone%d/temp", i);
		zone->fd = background_open_file(path);
		if (zone->fd >= 0)
			background->zone_count++;
	}
}

int background_open(struct background *background)
{
	struct cpulist online;
	struct utsname name;
	int columns = 0;

	*background = (struct background){ .stat_fd = -1, .interrupts_fd = -1 };
	if (uname(&name) || cpulist_online(&online))
		return 0;
	background->count = cpulist_count(&online);
	background->cpus = calloc((size_t)background->count + 1, sizeof(*background->cpus));
	for (int cpu = cpulist_next(&online, 0); cpu >= 0; cpu = cpulist_next(&online, cpu + 1))
		columns = cpu + 1;
	background->columns = calloc((size_t)columns + 1, sizeof(*background->columns));
	if (!background->cpus || !background->columns) {
		free(background->cpus);
		free(background->columns);
		*background = (struct background){ .stat_fd = -1, .interrupts_fd = -1 };
		return -ENOMEM;
	}
	background->column_room = columns;
	columns = 0;
	for (int cpu = cpulist_next(&online, 0); cpu >= 0; cpu = cpulist_next(&online, cpu + 1)) {
		struct background_cpu *one = &background->cpus[columns++];
		char path[80];

		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu);
		one->cpu = cpu;
		one->frequency_fd = -1;
		if (!background_is_x86(&name) || background_kernel_has(&name, 5, 19))
			one->frequency_fd = background_open_file(path);
	}
	background_open_zones(background);
	background->zones_quiet = !background_is_x86(&name);
	background->stat_fd = background_open_file("/proc/stat");
	background->interrupts_fd = background_open_file("/proc/interrupts");
	background->tick_ns = NSEC_PER_SEC / sysconf(_SC_CLK_TCK);
	return 0;
}

void background_close(struct background *background)
{
	for (int i = 0; i < background->count; i++)
		if (background->cpus[i].frequency_fd >= 0)
			close(background->cpus[i].frequency_fd);
	for (int i = 0; i < background->zone_count; i++)
		close(background->zones[i].fd);
	if (background->stat_fd >= 0)
		close(background->stat_fd);
	if (background->interrupts_fd >= 0)
		close(background->interrupts_fd);
	free(background->cpus);
	free(background->columns);
	*background = (struct background){ .stat_fd = -1, .interrupts_fd = -1 };
}

static int background_find(const struct background *background, long cpu)
{
	for (int i = 0; i < background->count; i++)
		if (background->cpus[i].cpu == cpu)
			return i;
	return -1;
}

/* Words of a file, one after the other, whatever its length. */
struct background_words {
	int fd;
	size_t at;
	size_t size;
	bool line_ended; /* behind the word that was given last */
	bool failed;	 /* the file cannot be read to its end */
	char buffer[BACKGROUND_BUFFER];
};

static int background_next_byte(struct background_words *words)
{
	if (words->at == words->size) {
		ssize_t size = read(words->fd, words->buffer, sizeof(words->buffer));

		if (size <= 0) {
			words->failed |= size < 0;
			return -1;
		}
		words->at = 0;
		words->size = (size_t)size;
	}
	return (unsigned char)words->buffer[words->at++];
}

/* The next word, cut to fit @word; false at the end. At the end of a line that is empty or has
 * trailing blanks, a word without characters. */
static bool background_word(struct background_words *words, char *word, size_t room)
{
	size_t used = 0;
	int byte;

	words->line_ended = false;
	while ((byte = background_next_byte(words)) >= 0) {
		if (byte == '\n') {
			words->line_ended = true;
			break;
		}
		if (byte != ' ' && byte != '\t') {
			if (used + 1 < room)
				word[used++] = (char)byte;
		} else if (used) {
			break;
		}
	}
	word[used] = '\0';
	return byte >= 0 || used;
}

static void background_skip_line(struct background_words *words)
{
	char word[2];

	while (!words->line_ended && background_word(words, word, sizeof(word)))
		;
}

/* "cpu3 user nice system idle iowait irq softirq steal guest guest_nice" */
static void background_read_times(struct background *background)
{
	struct background_words words = { .fd = background->stat_fd };
	char word[24];

	background->times_known = false;
	for (int i = 0; i < background->count; i++)
		background->cpus[i].idle_known = false;
	if (words.fd < 0 || lseek(words.fd, 0, SEEK_SET))
		return;
	while (background_word(&words, word, sizeof(word)) && !strncmp(word, "cpu", 3)) {
		int place = word[3] ? background_find(background, strtol(word + 3, NULL, 10)) : -1;
		uint64_t idle = 0;

		for (int i = 1; i <= BACKGROUND_STEAL && !words.line_ended; i++) {
			background_word(&words, word, sizeof(word));
			if (i == BACKGROUND_IDLE || i == BACKGROUND_IOWAIT)
				idle += strtoull(word, NULL, 10);
		}
		if (place >= 0) {
			background->cpus[place].idle_ticks = idle;
			background->cpus[place].idle_known = true;
			background->cpus[place].steal_ticks = strtoull(word, NULL, 10);
			background->times_known = true;
		}
		background_skip_line(&words);
	}
	background->times_known = background->times_known && !words.failed;
}

/* The first line names the CPUs; in each other, behind its name, stands one number for each, but
 * for lines that have one for all ("ERR: 0"). */
static void background_read_interrupts(struct background *background)
{
	struct background_words words = { .fd = background->interrupts_fd };
	char word[24];
	int columns = 0;

	/* containers may have an empty file there */
	background->interrupts_known = false;
	if (words.fd < 0 || lseek(words.fd, 0, SEEK_SET))
		return;
	do {
		if (!background_word(&words, word, sizeof(word)))
			return;
		if (!strncmp(word, "CPU", 3) && columns < background->column_room)
			background->columns[columns++] =
				background_find(background, strtol(word + 3, NULL, 10));
	} while (!words.line_ended);
	/* a CPU that is offline has no column, and keeps its number */
	for (int i = 0; i < columns; i++)
		if (background->columns[i] >= 0)
			background->cpus[background->columns[i]].interrupts = 0;
	while (background_word(&words, word, sizeof(word))) {
		bool each = strcasecmp(word, "ERR:") && strcmp(word, "MIS:");

		for (int i = 0; i < columns && each && !words.line_ended; i++) {
			char *end;
			uint64_t number;

			if (!background_word(&words, word, sizeof(word)))
				break;
			number = strtoull(word, &end, 10);
			if (end == word || *end)
				break;
			if (background->columns[i] >= 0)
				background->cpus[background->columns[i]].interrupts += number;
		}
		background_skip_line(&words);
	}
	background->interrupts_known = columns > 0 && !words.failed;
}

/* The count of SMIs that the CPU has seen, of 32 bits. */
static bool background_msr(int cpu, uint32_t *smi)
{
	char path[40];
	uint64_t count;
	bool known;
	int fd;

	snprintf(path, sizeof(path), "/dev/cpu/%d/msr", cpu);
	fd = background_open_file(path);
	if (fd < 0)
		return false;
	known = pread(fd, &count, sizeof(count), BACKGROUND_MSR_SMI_COUNT) == sizeof(count);
	close(fd);
	*smi = (uint32_t)count;
	return known;
}

void background_smi(struct background *background, const struct background_cpu *cpu, uint32_t count)
{
	int32_t more = (int32_t)(count - cpu->smi_start - background->smi_seen);

	/* one that has not reached this CPU's count yet is not a loss */
	if (more < 0)
		more = 0;
	background->smi = more;
	background->smi_seen += (uint32_t)more;
}

/* The counters of this CPU. All are read once, before anything is measured: CPUs that came up
 * later have counted less. */
static void background_read_smi(struct background *background, bool first)
{
	int place = background_find(background, sched_getcpu());
	uint32_t count;

	for (int i = 0; first && i < background->count; i++) {
		struct background_cpu *cpu = &background->cpus[i];

		cpu->smi_known = background_msr(cpu->cpu, &cpu->smi_start);
	}
	background->smi = BACKGROUND_UNKNOWN;
	if (!first && place >= 0 && background->cpus[place].smi_known &&
	    background_msr(background->cpus[place].cpu, &count))
		background_smi(background, &background->cpus[place], count);
}

void background_read(struct background *background, bool still)
{
	bool first = !background->readings++;
	bool interrupts_known = first || background->interrupts_known;
	bool times_known = first || background->times_known;

	for (int i = 0; i < background->count; i++) {
		struct background_cpu *cpu = &background->cpus[i];

		cpu->interrupts_before = cpu->interrupts;
		cpu->idle_before = cpu->idle_ticks;
		cpu->idle_counted = first || cpu->idle_known;
		cpu->steal_before = cpu->steal_ticks;
		if (!background_number(cpu->frequency_fd, &cpu->frequency_khz))
			cpu->frequency_khz = BACKGROUND_UNKNOWN;
	}
	for (int i = 0; i < background->zone_count; i++) {
		struct background_zone *zone = &background->zones[i];

		zone->known = (still || background->zones_quiet) &&
			      background_number(zone->fd, &zone->temperature_mc);
	}
	background_read_times(background);
	background_read_interrupts(background);
	background->interrupts_counted = interrupts_known && background->interrupts_known;
	background->times_counted = times_known && background->times_known;
	for (int i = 0; i < background->count; i++)
		background->cpus[i].idle_counted = background->cpus[i].idle_counted &&
						   background->cpus[i].idle_known &&
						   background->times_counted;
	background_read_smi(background, first);
	for (int i = 0; first && i < background->count; i++) {
		background->cpus[i].interrupts_before = background->cpus[i].interrupts;
		background->cpus[i].idle_before = background->cpus[i].idle_ticks;
		background->cpus[i].steal_before = background->cpus[i].steal_ticks;
	}
}

static int64_t background_grown(uint64_t now, uint64_t before)
{
	return now > before ? (int64_t)(now - before) : 0;
}

/* An array with a number of each CPU; what is not known (BACKGROUND_UNKNOWN) becomes null. Null
 * in its place if nothing is @known. */
static void background_put_each(const struct background *background, struct cbor *c,
				const char *key, bool known,
				int64_t (*number)(const struct background *,
						  const struct background_cpu *))
{
	cbor_text(c, key);
	if (!known) {
		cbor_null(c);
		return;
	}
	cbor_array(c, (size_t)background->count);
	for (int i = 0; i < background->count; i++) {
		int64_t value = number(background, &background->cpus[i]);

		if (value == BACKGROUND_UNKNOWN)
			cbor_null(c);
		else
			cbor_int(c, value);
	}
}

static int64_t background_cpu(const struct background *background, const struct background_cpu *cpu)
{
	(void)background;
	return cpu->cpu;
}

static int64_t background_frequency(const struct background *background,
				    const struct background_cpu *cpu)
{
	(void)background;
	return cpu->frequency_khz;
}

/*
 * The kernel's numbers have 32 bits, so the sum falls by 2^32 where one wraps. Where a line has
 * gone, it falls by the number of that line.
 */
static int64_t background_interrupts(const struct background *background,
				     const struct background_cpu *cpu)
{
	uint64_t fallen = cpu->interrupts_before - cpu->interrupts;

	(void)background;
	if (cpu->interrupts < cpu->interrupts_before && fallen <= BACKGROUND_WRAP &&
	    BACKGROUND_WRAP - fallen < BACKGROUND_INTERRUPTS_MAX)
		return (int64_t)(BACKGROUND_WRAP - fallen);
	return background_grown(cpu->interrupts, cpu->interrupts_before);
}

static int64_t background_idle(const struct background *background,
			       const struct background_cpu *cpu)
{
	if (!cpu->idle_counted)
		return BACKGROUND_UNKNOWN;
	return background_grown(cpu->idle_ticks, cpu->idle_before) * background->tick_ns;
}

static int64_t background_steal(const struct background *background,
				const struct background_cpu *cpu)
{
	return background_grown(cpu->steal_ticks, cpu->steal_before) * background->tick_ns;
}

void background_put(const struct background *background, int64_t time_ns, struct cbor *c)
{
	size_t known = 0;

	cbor_map(c, 8);
	cbor_put_int(c, "time_ns", time_ns);
	background_put_each(background, c, "cpus", true, background_cpu);
	background_put_each(background, c, "frequency_khz", true, background_frequency);
	background_put_each(background, c, "interrupts", background->interrupts_counted,
			    background_interrupts);
	background_put_each(background, c, "idle_ns", true, background_idle);
	background_put_each(background, c, "steal_ns", background->times_counted, background_steal);
	cbor_text(c, "smi");
	if (background->smi == BACKGROUND_UNKNOWN)
		cbor_null(c);
	else
		cbor_int(c, background->smi);
	cbor_text(c, "temperature_mc");
	for (int i = 0; i < background->zone_count; i++)
		known += background->zones[i].known;
	cbor_map(c, known);
	for (int i = 0; i < background->zone_count; i++)
		if (background->zones[i].known)
			cbor_put_int(c, background->zones[i].name,
				     background->zones[i].temperature_mc);
}
