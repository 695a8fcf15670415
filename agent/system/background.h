/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Background activity during a measurement: CPU frequency, temperature, interrupts, idle and steal
 * time, SMIs. The draining thread reads them. No reading interrupts another CPU.
 * docs/formats/environment.md describes each. The stream's record is called `ambience`.
 */
#ifndef RTGAUGE_BACKGROUND_H
#define RTGAUGE_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

#define BACKGROUND_ZONES 8
#define BACKGROUND_UNKNOWN (-1)

struct background_cpu {
	int cpu;
	int frequency_fd; /* -1: not available */
	int64_t frequency_khz;
	uint64_t interrupts; /* since boot */
	uint64_t idle_ticks;
	uint64_t steal_ticks;
	uint64_t interrupts_before;
	uint64_t idle_before;
	bool idle_known; /* a CPU that is offline has no line in /proc/stat */
	bool idle_counted;
	uint64_t steal_before;
	uint32_t smi_start; /* SMI count at the first reading */
	bool smi_known;
};

struct background_zone {
	char name[32];
	int fd;
	bool known;
	int64_t temperature_mc;
};

struct background {
	struct background_cpu *cpus;
	int count;
	int *columns; /* of /proc/interrupts: places in cpus, -1 for another CPU */
	int column_room;
	struct background_zone zones[BACKGROUND_ZONES];
	int zone_count;
	bool zones_quiet; /* cheap to read: also read while measuring */
	int stat_fd;
	int interrupts_fd;
	bool interrupts_known;
	bool times_known;
	bool interrupts_counted; /* known now, and at the reading before */
	bool times_counted;
	int64_t tick_ns;
	int readings;
	int64_t smi;	   /* since the reading before, BACKGROUND_UNKNOWN */
	uint32_t smi_seen; /* since the first reading */
};

struct cbor;

/* Open the sources that exist, for all CPUs online. Nothing is allocated afterwards. 0 or -ENOMEM;
 * after -ENOMEM there is nothing to read or to close. */
int background_open(struct background *background);
/* Take a reading. @still: nothing is being measured, so that every source may be read. */
void background_read(struct background *background, bool still);
/* The body of a record `background` (docs/formats/stream.md): the last reading, and what was
 * counted since the one before it; nothing in the first. */
void background_put(const struct background *background, int64_t time_ns, struct cbor *c);
/* Take over the SMI count of a CPU into smi. Any CPU serves: an SMI stops all of them. */
void background_smi(struct background *background, const struct background_cpu *cpu,
		    uint32_t count);
void background_close(struct background *background);

#endif
