// SPDX-License-Identifier: Apache-2.0
/* Tests of ambience.c: what it reads from files like those of the kernel, and from the kernel's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cbor.h"
#include "system/background.h"
#include "tap.h"

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
static void make(struct ambience *ambience, const char *stat, const char *interrupts)
{
	static const int numbers[] = { 0, 2, 5 };

	*ambience = (struct ambience){ .count = 3, .column_room = 6, .tick_ns = 10000000 };
	ambience->cpus = calloc(4, sizeof(*ambience->cpus));
	ambience->columns = calloc(7, sizeof(*ambience->columns));
	if (!ambience->cpus || !ambience->columns)
		abort();
	for (int i = 0; i < 3; i++) {
		ambience->cpus[i].cpu = numbers[i];
		ambience->cpus[i].frequency_fd = -1;
	}
	ambience->stat_fd = file_of(stat);
	ambience->interrupts_fd = file_of(interrupts);
}

static void test_files(struct tap *tap)
{
	struct ambience ambience;
	const struct ambience_cpu *cpus;

	make(&ambience,
	     "cpu  1 2 3 4 5 6 7 18 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
	     "cpu2 1 2 3 4 5 6 7 10 9 10\ncpu4 1 2 3 4 5 6 7 99 9 10\nintr 55 44\n",
	     "           CPU0       CPU2       CPU4       \n"
	     "  0:         45          2       1000   IO-APIC   2-edge      timer 77\n"
	     "NMI:          1          0          3   Non-maskable interrupts\n"
	     "ERR:          9\nMIS:          8\nPIN:   4   3   2  \n"
	     "IPI0:   1   1   1\n");
	ambience.cpus[1].frequency_fd = file_of("2400000\n");
	ambience_read(&ambience, true);
	cpus = ambience.cpus;
	tap_check(tap,
		  cpus[0].interrupts == 51 && cpus[1].interrupts == 6 && cpus[2].interrupts == 0,
		  "interrupts of all lines, by the CPU of their column");
	tap_check(tap, cpus[0].steal_ticks == 8 && cpus[1].steal_ticks == 10,
		  "steal time of each CPU");
	tap_check(tap,
		  cpus[0].frequency_khz == AMBIENCE_UNKNOWN && cpus[1].frequency_khz == 2400000,
		  "a frequency, where there is one");
	tap_check(tap,
		  cpus[0].interrupts_before == cpus[0].interrupts &&
			  cpus[1].steal_before == cpus[1].steal_ticks,
		  "the first reading is the reference");
	rewrite(ambience.interrupts_fd, "  CPU0 CPU2\n 0: 46 5\n");
	rewrite(ambience.stat_fd, "cpu 1\ncpu0 1 2 3 4 5 6 7 11\ncpu2 1 2 3\nintr 5\n");
	ambience_read(&ambience, true);
	tap_check(tap, cpus[0].interrupts == 46 && cpus[0].interrupts_before == 51,
		  "a second reading remembers the first");
	tap_check(tap, cpus[0].steal_ticks == 11, "a line that ends with the steal time");
	ambience_close(&ambience);
}

/* Longer than the buffer, words across its end: compared with sums made while writing. */
static void test_long_file(struct tap *tap)
{
	size_t room = 1 << 20, used = 0;
	char *text = malloc(room);
	struct ambience ambience;
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
	make(&ambience, "", text);
	ambience_read(&ambience, true);
	tap_check(tap,
		  ambience.cpus[0].interrupts == sums[0] &&
			  ambience.cpus[1].interrupts == sums[1] &&
			  ambience.cpus[2].interrupts == sums[2],
		  "a file of %zu bytes adds up", used);
	ambience_close(&ambience);
	free(text);
}

static void test_hostile_files(struct tap *tap)
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
	struct ambience ambience;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		struct cbor c = { 0 };

		make(&ambience, files[i], files[i]);
		ambience_read(&ambience, false);
		ambience_read(&ambience, true);
		ambience_put(&ambience, 1, &c);
		tap_check(tap, !c.failed && c.size > 20, "file %zu is no danger", i);
		cbor_free(&c);
		ambience_close(&ambience);
	}
}

/* Each reading comes from the CPU that it is made on, and they do not count from the same number. */
static void test_smi(struct tap *tap)
{
	struct ambience ambience = { 0 };
	const struct ambience_cpu early = { .smi_start = 12 };
	const struct ambience_cpu late = { .cpu = 1, .smi_start = UINT32_MAX };

	ambience_smi(&ambience, &early, 12);
	tap_check(tap, ambience.smi == 0, "none yet");
	ambience_smi(&ambience, &late, 1);
	tap_check(tap, ambience.smi == 2, "two, by a count that has wrapped");
	ambience_smi(&ambience, &early, 14);
	tap_check(tap, ambience.smi == 0, "none since, on another CPU");
	ambience_smi(&ambience, &early, 17);
	tap_check(tap, ambience.smi == 3, "three more");
}

static void test_this_machine(struct tap *tap)
{
	struct ambience ambience;
	uint64_t before;

	tap_check(tap, !ambience_open(&ambience) && ambience.count > 0, "opened here");
	ambience_read(&ambience, true);
	before = ambience.cpus[0].interrupts;
	usleep(200000);
	ambience_read(&ambience, false);
	tap_check(tap, before > 0 && ambience.cpus[0].interrupts >= before,
		  "interrupts are counted");
	ambience_close(&ambience);
}

int main(void)
{
	struct tap tap = { 0 };

	test_files(&tap);
	test_long_file(&tap);
	test_hostile_files(&tap);
	test_smi(&tap);
	test_this_machine(&tap);
	return tap_end(&tap);
}
