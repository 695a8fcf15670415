/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes on beside a measurement: frequency, temperature, interrupts, steal time and SMIs, read by
 * the draining thread. No reading interrupts another CPU: what cannot be read without is left out
 * (docs/environment.md, "Ambience").
 */
#ifndef RTGAUGE_AMBIENCE_H
#define RTGAUGE_AMBIENCE_H

#include <stdbool.h>
#include <stdint.h>

#define AMBIENCE_ZONES 8
#define AMBIENCE_UNKNOWN (-1)

struct ambience_cpu {
	int cpu;
	int frequency_fd; /* -1: not to be had */
	int64_t frequency_khz;
	uint64_t interrupts; /* since boot */
	uint64_t steal_ticks;
	uint64_t interrupts_before;
	uint64_t steal_before;
	uint32_t smi_start; /* its count of SMIs at the first reading */
	bool smi_known;
};

struct ambience_zone {
	char name[32];
	int fd;
	bool known;
	int64_t temperature_mc;
};

struct ambience {
	struct ambience_cpu *cpus;
	int count;
	int *columns; /* of /proc/interrupts: places in cpus, -1 for another CPU */
	int column_room;
	struct ambience_zone zones[AMBIENCE_ZONES];
	int zone_count;
	bool zones_quiet; /* reading them disturbs nobody: also while measuring */
	int stat_fd;
	int interrupts_fd;
	int64_t tick_ns;
	int readings;
	int64_t smi;	   /* since the reading before, AMBIENCE_UNKNOWN */
	uint32_t smi_seen; /* since the first reading */
};

struct cbor;

/* Open what there is, for all CPUs online; nothing is allocated afterwards. 0 or -ENOMEM, and then
 * there is nothing to read or to close. */
int ambience_open(struct ambience *ambience);
/* Read all; @still: nothing is being measured, so that everything may be read. */
void ambience_read(struct ambience *ambience, bool still);
/* The body of a record `ambience` (docs/stream.md): the last reading, and what was counted since the
 * one before it; nothing in the first. */
void ambience_put(const struct ambience *ambience, int64_t time_ns, struct cbor *c);
/* The count of SMIs of a CPU, any of them, for they all stop: into smi. */
void ambience_smi(struct ambience *ambience, const struct ambience_cpu *cpu, uint32_t count);
void ambience_close(struct ambience *ambience);

#endif
