// SPDX-License-Identifier: Apache-2.0
/*
 * What goes on beside a measurement. Files stay open and are read into small buffers; nothing is
 * allocated once memory is locked.
 *
 * Three readings would interrupt a CPU that is measured, and are not made there:
 * - a model-specific register of another CPU: the count of SMIs is that of the CPU that reads it,
 *   which is as good: an SMI stops all of them;
 * - the frequency, on x86 before Linux 5.19, where the kernel asks the CPU in question;
 * - the temperature on x86, a register of another CPU or the firmware's (which may take an SMI): it
 *   is read before and after the measurement only.
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

#define AMBIENCE_BUFFER 4096
#define AMBIENCE_MSR_SMI_COUNT 0x34
/* The column of steal time behind the CPU's name in /proc/stat (proc(5)). */
#define AMBIENCE_STEAL 8

static bool ambience_is_x86(const struct utsname *name)
{
	return !strcmp(name->machine, "x86_64") ||
	       (name->machine[0] == 'i' && !strcmp(name->machine + 2, "86"));
}

/* Whether the kernel is of that version or a newer one. */
static bool ambience_kernel_has(const struct utsname *name, long major, long minor)
{
	char *rest;
	long found = strtol(name->release, &rest, 10);

	if (found != major || *rest != '.')
		return found > major;
	return strtol(rest + 1, NULL, 10) >= minor;
}

static int ambience_open_file(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The number in a file of one line. */
static bool ambience_number(int fd, int64_t *number)
{
	char text[32], *end;
	ssize_t size = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	if (size <= 0)
		return false;
	text[size] = '\0';
	*number = strtoll(text, &end, 10);
	return end != text;
}

static void ambience_open_zones(struct ambience *ambience)
{
	for (int i = 0; ambience->zone_count < AMBIENCE_ZONES && i < 4 * AMBIENCE_ZONES; i++) {
		struct ambience_zone *zone = &ambience->zones[ambience->zone_count];
		char path[64], type[24] = "";
		ssize_t size;
		int fd;

		snprintf(path, sizeof(path), "/sys/class/thermal/thermal_zone%d/type", i);
		fd = ambience_open_file(path);
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
		zone->fd = ambience_open_file(path);
		if (zone->fd >= 0)
			ambience->zone_count++;
	}
}

int ambience_open(struct ambience *ambience)
{
	struct cpulist online;
	struct utsname name;
	int columns = 0;

	*ambience = (struct ambience){ .stat_fd = -1, .interrupts_fd = -1 };
	if (uname(&name) || cpulist_online(&online))
		return 0;
	ambience->count = cpulist_count(&online);
	ambience->cpus = calloc((size_t)ambience->count + 1, sizeof(*ambience->cpus));
	for (int cpu = cpulist_next(&online, 0); cpu >= 0; cpu = cpulist_next(&online, cpu + 1))
		columns = cpu + 1;
	ambience->columns = calloc((size_t)columns + 1, sizeof(*ambience->columns));
	if (!ambience->cpus || !ambience->columns) {
		free(ambience->cpus);
		free(ambience->columns);
		*ambience = (struct ambience){ .stat_fd = -1, .interrupts_fd = -1 };
		return -ENOMEM;
	}
	ambience->column_room = columns;
	columns = 0;
	for (int cpu = cpulist_next(&online, 0); cpu >= 0; cpu = cpulist_next(&online, cpu + 1)) {
		struct ambience_cpu *one = &ambience->cpus[columns++];
		char path[80];

		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu);
		one->cpu = cpu;
		one->frequency_fd = -1;
		if (!ambience_is_x86(&name) || ambience_kernel_has(&name, 5, 19))
			one->frequency_fd = ambience_open_file(path);
	}
	ambience_open_zones(ambience);
	ambience->zones_quiet = !ambience_is_x86(&name);
	ambience->stat_fd = ambience_open_file("/proc/stat");
	ambience->interrupts_fd = ambience_open_file("/proc/interrupts");
	ambience->tick_ns = NSEC_PER_SEC / sysconf(_SC_CLK_TCK);
	return 0;
}

void ambience_close(struct ambience *ambience)
{
	for (int i = 0; i < ambience->count; i++)
		if (ambience->cpus[i].frequency_fd >= 0)
			close(ambience->cpus[i].frequency_fd);
	for (int i = 0; i < ambience->zone_count; i++)
		close(ambience->zones[i].fd);
	if (ambience->stat_fd >= 0)
		close(ambience->stat_fd);
	if (ambience->interrupts_fd >= 0)
		close(ambience->interrupts_fd);
	free(ambience->cpus);
	free(ambience->columns);
	*ambience = (struct ambience){ .stat_fd = -1, .interrupts_fd = -1 };
}

static int ambience_find(const struct ambience *ambience, long cpu)
{
	for (int i = 0; i < ambience->count; i++)
		if (ambience->cpus[i].cpu == cpu)
			return i;
	return -1;
}

/* Words of a file, one after the other, whatever its length. */
struct ambience_words {
	int fd;
	size_t at;
	size_t size;
	bool line_ended; /* behind the word that was given last */
	char buffer[AMBIENCE_BUFFER];
};

static int ambience_next_byte(struct ambience_words *words)
{
	if (words->at == words->size) {
		ssize_t size = read(words->fd, words->buffer, sizeof(words->buffer));

		if (size <= 0)
			return -1;
		words->at = 0;
		words->size = (size_t)size;
	}
	return (unsigned char)words->buffer[words->at++];
}

/* The next word, cut to fit @word; false at the end. At the end of a line that is empty or has
 * trailing blanks, a word without characters. */
static bool ambience_word(struct ambience_words *words, char *word, size_t room)
{
	size_t used = 0;
	int byte;

	words->line_ended = false;
	while ((byte = ambience_next_byte(words)) >= 0) {
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

static void ambience_skip_line(struct ambience_words *words)
{
	char word[2];

	while (!words->line_ended && ambience_word(words, word, sizeof(word)))
		;
}

/* "cpu3 user nice system idle iowait irq softirq steal guest guest_nice" */
static void ambience_read_steal(struct ambience *ambience)
{
	struct ambience_words words = { .fd = ambience->stat_fd };
	char word[24];

	if (words.fd < 0 || lseek(words.fd, 0, SEEK_SET))
		return;
	while (ambience_word(&words, word, sizeof(word)) && !strncmp(word, "cpu", 3)) {
		int place = word[3] ? ambience_find(ambience, strtol(word + 3, NULL, 10)) : -1;

		for (int i = 0; i < AMBIENCE_STEAL && !words.line_ended; i++)
			ambience_word(&words, word, sizeof(word));
		if (place >= 0)
			ambience->cpus[place].steal_ticks = strtoull(word, NULL, 10);
		ambience_skip_line(&words);
	}
}

/* The first line names the CPUs; in each other, behind its name, stands one number for each, but
 * for lines that have one for all ("ERR: 0"). */
static void ambience_read_interrupts(struct ambience *ambience)
{
	struct ambience_words words = { .fd = ambience->interrupts_fd };
	char word[24];
	int columns = 0;

	if (words.fd < 0 || lseek(words.fd, 0, SEEK_SET))
		return;
	do {
		if (!ambience_word(&words, word, sizeof(word)))
			return;
		if (!strncmp(word, "CPU", 3) && columns < ambience->column_room)
			ambience->columns[columns++] =
				ambience_find(ambience, strtol(word + 3, NULL, 10));
	} while (!words.line_ended);
	for (int i = 0; i < ambience->count; i++)
		ambience->cpus[i].interrupts = 0;
	while (ambience_word(&words, word, sizeof(word))) {
		bool each = strcmp(word, "ERR:") && strcmp(word, "MIS:");

		for (int i = 0; i < columns && each && !words.line_ended; i++) {
			char *end;
			uint64_t number;

			if (!ambience_word(&words, word, sizeof(word)))
				return;
			number = strtoull(word, &end, 10);
			if (end == word || *end)
				break;
			if (ambience->columns[i] >= 0)
				ambience->cpus[ambience->columns[i]].interrupts += number;
		}
		ambience_skip_line(&words);
	}
}

/* The count of SMIs that the CPU has seen, of 32 bits. */
static bool ambience_msr(int cpu, uint32_t *smi)
{
	char path[40];
	uint64_t count;
	bool known;
	int fd;

	snprintf(path, sizeof(path), "/dev/cpu/%d/msr", cpu);
	fd = ambience_open_file(path);
	if (fd < 0)
		return false;
	known = pread(fd, &count, sizeof(count), AMBIENCE_MSR_SMI_COUNT) == sizeof(count);
	close(fd);
	*smi = (uint32_t)count;
	return known;
}

void ambience_smi(struct ambience *ambience, const struct ambience_cpu *cpu, uint32_t count)
{
	int32_t more = (int32_t)(count - cpu->smi_start - ambience->smi_seen);

	/* one that has not reached this CPU's count yet is no loss */
	if (more < 0)
		more = 0;
	ambience->smi = more;
	ambience->smi_seen += (uint32_t)more;
}

/* Of the CPU that this runs on. All are read once, before anything is measured: those that came up
 * later have counted less. */
static void ambience_read_smi(struct ambience *ambience, bool first)
{
	int place = ambience_find(ambience, sched_getcpu());
	uint32_t count;

	for (int i = 0; first && i < ambience->count; i++) {
		struct ambience_cpu *cpu = &ambience->cpus[i];

		cpu->smi_known = ambience_msr(cpu->cpu, &cpu->smi_start);
	}
	ambience->smi = AMBIENCE_UNKNOWN;
	if (!first && place >= 0 && ambience->cpus[place].smi_known &&
	    ambience_msr(ambience->cpus[place].cpu, &count))
		ambience_smi(ambience, &ambience->cpus[place], count);
}

void ambience_read(struct ambience *ambience, bool still)
{
	bool first = !ambience->readings++;

	for (int i = 0; i < ambience->count; i++) {
		struct ambience_cpu *cpu = &ambience->cpus[i];

		cpu->interrupts_before = cpu->interrupts;
		cpu->steal_before = cpu->steal_ticks;
		if (!ambience_number(cpu->frequency_fd, &cpu->frequency_khz))
			cpu->frequency_khz = AMBIENCE_UNKNOWN;
	}
	for (int i = 0; i < ambience->zone_count; i++) {
		struct ambience_zone *zone = &ambience->zones[i];

		zone->known = (still || ambience->zones_quiet) &&
			      ambience_number(zone->fd, &zone->temperature_mc);
	}
	ambience_read_steal(ambience);
	ambience_read_interrupts(ambience);
	ambience_read_smi(ambience, first);
	for (int i = 0; first && i < ambience->count; i++) {
		ambience->cpus[i].interrupts_before = ambience->cpus[i].interrupts;
		ambience->cpus[i].steal_before = ambience->cpus[i].steal_ticks;
	}
}

static int64_t ambience_grown(uint64_t now, uint64_t before)
{
	return now > before ? (int64_t)(now - before) : 0;
}

/* An array with a number of each CPU; what is not known (AMBIENCE_UNKNOWN) becomes null. */
static void ambience_put_each(const struct ambience *ambience, struct cbor *c, const char *key,
			      int64_t (*number)(const struct ambience *,
						const struct ambience_cpu *))
{
	cbor_text(c, key);
	cbor_array(c, (size_t)ambience->count);
	for (int i = 0; i < ambience->count; i++) {
		int64_t value = number(ambience, &ambience->cpus[i]);

		if (value == AMBIENCE_UNKNOWN)
			cbor_null(c);
		else
			cbor_int(c, value);
	}
}

static int64_t ambience_cpu(const struct ambience *ambience, const struct ambience_cpu *cpu)
{
	(void)ambience;
	return cpu->cpu;
}

static int64_t ambience_frequency(const struct ambience *ambience, const struct ambience_cpu *cpu)
{
	(void)ambience;
	return cpu->frequency_khz;
}

static int64_t ambience_interrupts(const struct ambience *ambience, const struct ambience_cpu *cpu)
{
	(void)ambience;
	return ambience_grown(cpu->interrupts, cpu->interrupts_before);
}

static int64_t ambience_steal(const struct ambience *ambience, const struct ambience_cpu *cpu)
{
	return ambience_grown(cpu->steal_ticks, cpu->steal_before) * ambience->tick_ns;
}

void ambience_put(const struct ambience *ambience, int64_t time_ns, struct cbor *c)
{
	size_t known = 0;

	cbor_map(c, 7);
	cbor_put_int(c, "time_ns", time_ns);
	ambience_put_each(ambience, c, "cpus", ambience_cpu);
	ambience_put_each(ambience, c, "frequency_khz", ambience_frequency);
	ambience_put_each(ambience, c, "interrupts", ambience_interrupts);
	ambience_put_each(ambience, c, "steal_ns", ambience_steal);
	cbor_text(c, "smi");
	if (ambience->smi == AMBIENCE_UNKNOWN)
		cbor_null(c);
	else
		cbor_int(c, ambience->smi);
	cbor_text(c, "temperature_mc");
	for (int i = 0; i < ambience->zone_count; i++)
		known += ambience->zones[i].known;
	cbor_map(c, known);
	for (int i = 0; i < ambience->zone_count; i++)
		if (ambience->zones[i].known)
			cbor_put_int(c, ambience->zones[i].name, ambience->zones[i].temperature_mc);
}
