// SPDX-License-Identifier: Apache-2.0
/*
 * load_driver LOADS DURATION [CPUS]: runs loads as the agent does and prints, as one JSON line each,
 * the work they did between the end of a warm-up (a fifth of the time) and the end, the work
 * including the warm-up's, and the CPU time that all of them took for the latter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "catalogue.h"
#include "loads/load.h"

#define LOADS_MAX 8

struct record {
	char load[128]; /* a copy: the set is freed before the text is printed */
	const char *unit;
	uint64_t count;
	uint64_t all;
	int64_t from_ns;
	int64_t to_ns;
};

struct records {
	struct record record[LOADS_MAX];
	size_t count; /* of this check */
};

static void see_work(void *arg, const char *load, const char *unit, uint64_t count, int64_t from_ns,
		     int64_t to_ns)
{
	struct records *records = arg;
	struct record *record = &records->record[records->count];
	struct record now = { "", unit, count, record->all + count, from_ns, to_ns };

	if (records->count == LOADS_MAX)
		abort();
	*record = now;
	snprintf(record->load, sizeof(record->load), "%s", load);
	records->count++;
}

static int sleep_and_check(struct load_set *set, int64_t ns, struct records *records,
			   struct message *msg)
{
	struct timespec ts = clock_from_ns(ns);

	nanosleep(&ts, NULL);
	records->count = 0;
	return load_set_check(set, clock_now_ns(CLOCK_MONOTONIC), see_work, records, msg);
}

/* CPU time of the loads, which have ended. */
static int64_t cpu_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_CHILDREN, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NSEC_PER_SEC +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * NSEC_PER_USEC;
}

static void print_work(const struct record *record)
{
	printf("{\"load\": \"%s\", \"unit\": \"%s\", \"count\": %llu, \"from_ns\": %lld, "
	       "\"to_ns\": %lld, \"all\": %llu, \"cpu_ns\": %lld}\n",
	       record->load, record->unit, (unsigned long long)record->count,
	       (long long)record->from_ns, (long long)record->to_ns,
	       (unsigned long long)record->all, (long long)cpu_ns());
}

int main(int argc, char **argv)
{
	struct cpulist cpus;
	struct message msg = { 0 };
	struct load_set *set = NULL;
	struct records records = { 0 };
	int64_t ns;
	int err;

	if (argc < 3 || option_parse_duration(argv[2], &ns) ||
	    (argc > 3 && cpulist_parse(&cpus, argv[3]))) {
		fprintf(stderr, "usage: load_driver LOADS DURATION [CPUS]\n");
		return 2;
	}
	err = load_set_parse(&set, argv[1], catalogue_loads, &msg);
	if (!err)
		err = load_set_start(set, argc > 3 ? &cpus : NULL, NULL, NULL, NULL, &msg);
	if (!err)
		err = sleep_and_check(set, ns / 5, &records, &msg);
	if (!err)
		err = sleep_and_check(set, ns, &records, &msg);
	load_set_free(set);
	for (size_t i = 0; i < records.count && !err; i++)
		print_work(&records.record[i]);
	if (err)
		fprintf(stderr, "%s\n%s\n", msg.text, msg.remedy);
	return err ? 1 : 0;
}
