// SPDX-License-Identifier: Apache-2.0
/* Tests of background.c with files like those of the kernel, and with the real ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static ssize_t test_read(int fd, void *text, size_t room);

#define read test_read
#include "system/background.c"
#undef read

#include "tap.h"

/* The file of which one read fails after 12 bytes, or -1. */
static int breaks = -1;

static ssize_t test_read(int fd, void *text, size_t room)
{
	if (fd != breaks)
		return read(fd, text, room);
	if (lseek(fd, 0, SEEK_CUR) < 12)
		return read(fd, text, room > 12 ? 12 : room);
	breaks = -1;
	return -1;
}

static int file_of(const char *text)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	return fd;
}

static void rewrite(int fd, const char *text)
{
	if (ftruncate(fd, 0) || pwrite(fd, text, strlen(text), 0) != (ssize_t)strlen(text))
		abort();
}

/* CPUs 0, 2 and 5; of the files, CPU 4 is not wanted, and CPU 5 has gone. */
static void make(struct background *background, const char *stat, const char *interrupts)
{
	static const int numbers[] = { 0, 2, 5 };

	*background = (struct background){ .count = 3, .column_room = 6, .tick_ns = 10000000 };
	background->cpus = calloc(4, sizeof(*background->cpus));
	background->columns = calloc(7, sizeof(*background->columns));
	if (!background->cpus || !background->columns)
		abort();
	for (int i = 0; i < 3; i++) {
		background->cpus[i].cpu = numbers[i];
		background->cpus[i].frequency_fd = -1;
	}
	background->stat_fd = file_of(stat);
	background->interrupts_fd = file_of(interrupts);
}

/* The interrupts of CPU 0 that a record has after @before and @after. */
static int64_t counted(struct background *background, const char *before, const char *after)
{
	rewrite(background->interrupts_fd, before);
	background_read(background, true);
	rewrite(background->interrupts_fd, after);
	background_read(background, true);
	return background_interrupts(background, &background->cpus[0]);
}

/* The kernel's numbers have 32 bits. */
static void test_counts(struct background *background)
{
	tap_check(counted(background, "CPU0\n0: 5\n1: 4294967290\n", "CPU0\n0: 6\n1: 4\n") == 11,
		  "a number that has wrapped");
	tap_check(counted(background, "CPU0\n0: 5\n1: 4000000000\n", "CPU0\n0: 6\n") == 0 &&
			  counted(background, "CPU0\n0: 5\n1: 300\n", "CPU0\n0: 6\n") == 0,
		  "a line that has gone is not a burst of interrupts");
}

/* Whether @key is null in the body of a record of the last reading. */
static bool is_null(const struct background *background, const char *key)
{
	struct cbor c = { 0 };
	const uint8_t *found;
	bool null;

	background_put(background, 0, &c);
	found = memmem(c.data, c.size, key, strlen(key));
	null = found && found[strlen(key)] == 0xf6;
	cbor_free(&c);
	return null;
}

/* The times of a record that could not be read are null, as its interrupts are. */
static void test_no_times(struct background *background)
{
	rewrite(background->stat_fd, "");
	background_read(background, true);
	tap_check(!background->times_known && is_null(background, "steal_ns") &&
			  background_idle(background, &background->cpus[0]) == BACKGROUND_UNKNOWN,
		  "an empty file has no times: null");
}

/* What was counted since a reading that failed is not known. */
static void test_gap(void)
{
	static const char stat[] = "cpu 1\ncpu0 1 2 3 4 5 6 7 8\n";
	static const char interrupts[] = "CPU0\n0: 5000\nErr: 9\n";
	struct background background;

	make(&background, "", "");
	background_read(&background, true);
	rewrite(background.stat_fd, stat);
	rewrite(background.interrupts_fd, interrupts);
	background_read(&background, true);
	tap_check(is_null(&background, "interrupts") && is_null(&background, "steal_ns"),
		  "no counts since a first reading that failed");
	tap_check(background.cpus[0].interrupts == 5000, "the line Err has one for all CPUs");
	background_read(&background, true);
	tap_check(!is_null(&background, "interrupts") && !is_null(&background, "steal_ns"),
		  "counts since the one after it");
	breaks = background.interrupts_fd;
	background_read(&background, true);
	tap_check(is_null(&background, "interrupts"), "none of a file that is read in part");
	background_read(&background, true);
	tap_check(is_null(&background, "interrupts"), "nor of the reading after it");
	breaks = background.stat_fd;
	background_read(&background, true);
	tap_check(is_null(&background, "steal_ns"), "no stolen time of such a file");
	background_close(&background);
}

static void test_files(void)
{
	struct background background;
	const struct background_cpu *cpus;

	make(&background,
	     "cpu  1 2 3 4 5 6 7 18 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
	     "cpu2 1 2 3 4 5 6 7 10 9 10\ncpu4 1 2 3 4 5 6 7 99 9 10\nintr 55 44\n",
	     "           CPU0       CPU2       CPU4       \n"
	     "  0:         45          2       1000   IO-APIC   2-edge      timer 77\n"
	     "NMI:          1          0          3   Non-maskable interrupts\n"
	     "ERR:          9\nMIS:          8\nPIN:   4   3   2  \n"
	     "IPI0:   1   1   1\n");
	background.cpus[1].frequency_fd = file_of("2400000\n");
	background_read(&background, true);
	cpus = background.cpus;
	tap_check(cpus[0].interrupts == 51 && cpus[1].interrupts == 6 && cpus[2].interrupts == 0,
		  "interrupts of all lines, by the CPU of their column");
	tap_check(cpus[0].steal_ticks == 8 && cpus[1].steal_ticks == 10, "steal time of each CPU");
	tap_check(cpus[0].idle_ticks == 9 && cpus[1].idle_ticks == 9,
		  "a CPU that waits for a device is idle");
	tap_check(cpus[0].frequency_khz == BACKGROUND_UNKNOWN && cpus[1].frequency_khz == 2400000,
		  "a frequency, where there is one");
	tap_check(cpus[0].interrupts_before == cpus[0].interrupts &&
			  cpus[1].idle_before == cpus[1].idle_ticks &&
			  cpus[1].steal_before == cpus[1].steal_ticks,
		  "the first reading is the reference");
	rewrite(background.interrupts_fd, "  CPU0 CPU2\n 0: 46 5\n");
	rewrite(background.stat_fd, "cpu 1\ncpu0 1 2 3 7 8 6 7 11\ncpu2 1 2 3\nintr 5\n");
	background_read(&background, true);
	tap_check(background_idle(&background, &cpus[2]) == BACKGROUND_UNKNOWN,
		  "no idle time of a CPU that is offline");
	tap_check(cpus[0].interrupts == 46 && cpus[0].interrupts_before == 51,
		  "a second reading remembers the first");
	tap_check(cpus[0].steal_ticks == 11, "a line that ends with the steal time");
	tap_check(background_idle(&background, &cpus[0]) == 60000000,
		  "6 steps of 10 ms more in which the CPU was idle");
	rewrite(background.interrupts_fd, "  CPU0\n 0: 50\n");
	background_read(&background, true);
	rewrite(background.interrupts_fd, "  CPU0 CPU2\n 0: 60 9\n");
	background_read(&background, true);
	tap_check(cpus[1].interrupts - cpus[1].interrupts_before == 4,
		  "a CPU that was offline has no burst of interrupts");
	test_counts(&background);
	rewrite(background.interrupts_fd, "");
	background_read(&background, true);
	tap_check(!background.interrupts_known, "an empty file has no numbers");
	tap_check(background.times_known, "the times of the other file are known");
	test_no_times(&background);
	background_close(&background);
}

/* Longer than the buffer, words across its end: compared with sums made while writing. */
static void test_long_file(void)
{
	size_t room = 1 << 20, used = 0;
	char *text = malloc(room);
	struct background background;
	uint64_t sums[3] = { 0 };

	if (!text)
		abort();
	used += (size_t)snprintf(text, room, "      CPU0 CPU2 CPU5\n");
	for (unsigned int line = 0; line < 9000; line++) {
		unsigned int n = line * 2654435761U;

		used += (size_t)snprintf(text + used, room - used,
					 "%*u: %u %u %u  PCI-MSI %u-edge a,b\n",
					 (int)(1 + line % 7), line, n >> 20, n >> 8, n >> 28, n);
		sums[0] += n >> 20;
		sums[1] += n >> 8;
		sums[2] += n >> 28;
	}
	make(&background, "", text);
	background_read(&background, true);
	tap_check(background.cpus[0].interrupts == sums[0] &&
			  background.cpus[1].interrupts == sums[1] &&
			  background.cpus[2].interrupts == sums[2],
		  "a file of %zu bytes adds up", used);
	background_close(&background);
	free(text);
}

/* A CPU that came back has been idle for an unknown time, as it was offline for a part of it. */
static void test_offline(void)
{
	static const char both[] = "cpu0 1 2 3 4 5 6 7 8\ncpu2 1 2 3 9 5 6 7 8\n";
	struct background background;
	const struct background_cpu *late;

	make(&background, both, "");
	late = &background.cpus[1];
	background_read(&background, true);
	tap_check(background_idle(&background, late) == 0, "nothing yet in the first reading");
	rewrite(background.stat_fd, "cpu0 1 2 3 4 5 6 7 8\n");
	background_read(&background, true);
	tap_check(background_idle(&background, late) == BACKGROUND_UNKNOWN, "offline");
	rewrite(background.stat_fd, both);
	background_read(&background, true);
	tap_check(background_idle(&background, late) == BACKGROUND_UNKNOWN, "back");
	background_read(&background, true);
	tap_check(background_idle(&background, late) == 0, "busy since");
	background_close(&background);
}

static void test_hostile_files(void)
{
	static const char *const files[] = {
		"",
		"\n",
		"CPU0",
		"CPU0 CPU1 CPU2 CPU3 CPU4 CPU5 CPU6 CPU7 CPU8 CPU9\n0: 1 2 3 4 5\n",
		"CPU-1 CPU99999999999999999999\n0: 5 5\n",
		"CPU0\n\n\n0:\n0: x\n1: 99999999999999999999",
		"cpu",
		"cpu0",
		"cpu0 1 2 3\ncpu",
		"cpuX 1 2 3 4 5 6 7 8 9\n",
	};
	struct background background;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		struct cbor c = { 0 };

		make(&background, files[i], files[i]);
		background_read(&background, false);
		background_read(&background, true);
		background_put(&background, 1, &c);
		tap_check(!c.failed && c.size > 20, "file %zu does no harm", i);
		cbor_free(&c);
		background_close(&background);
	}
}

/* Each reading comes from the CPU that it is made on, and they do not count from the same number. */
static void test_smi(void)
{
	struct background background = { 0 };
	const struct background_cpu early = { .smi_start = 12 };
	const struct background_cpu late = { .cpu = 1, .smi_start = UINT32_MAX };

	background_smi(&background, &early, 12);
	tap_check(background.smi == 0, "none yet");
	background_smi(&background, &late, 1);
	tap_check(background.smi == 2, "two, by a count that has wrapped");
	background_smi(&background, &early, 14);
	tap_check(background.smi == 0, "none since, on another CPU");
	background_smi(&background, &early, 17);
	tap_check(background.smi == 3, "three more");
}

static void test_this_machine(void)
{
	struct background background;
	uint64_t before;

	tap_check(!background_open(&background) && background.count > 0, "opened here");
	background_read(&background, true);
	before = background.cpus[0].interrupts;
	usleep(200000);
	background_read(&background, false);
	tap_check(before > 0 && background.cpus[0].interrupts >= before, "interrupts are counted");
	background_close(&background);
}

int main(void)
{
	test_files();
	test_gap();
	test_long_file();
	test_offline();
	test_hostile_files();
	test_smi();
	test_this_machine();
	return tap_end();
}
