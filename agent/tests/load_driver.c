// SPDX-License-Identifier: Apache-2.0
/*
 * load_driver LOADS SECONDS [CPUS]: runs loads as the agent does and prints, as one JSON line each,
 * the work they did between the end of a warm-up (a fifth of the time) and the end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "catalogue.h"
#include "clock.h"
#include "load.h"

static void print_work(void *arg, const char *load, const char *unit, uint64_t count,
		       int64_t from_ns, int64_t to_ns)
{
	(void)arg;
	printf("{\"load\": \"%s\", \"unit\": \"%s\", \"count\": %llu, \"from_ns\": %lld, "
	       "\"to_ns\": %lld}\n",
	       load, unit, (unsigned long long)count, (long long)from_ns, (long long)to_ns);
}

static int sleep_and_check(struct load_set *set, int64_t ns, bool print, struct message *msg)
{
	struct timespec ts = clock_from_ns(ns);

	nanosleep(&ts, NULL);
	return load_set_check(set, clock_now_ns(CLOCK_MONOTONIC), print ? print_work : NULL, NULL,
			      msg);
}

int main(int argc, char **argv)
{
	struct cpulist cpus;
	struct message msg = { 0 };
	struct load_set *set = NULL;
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
		err = sleep_and_check(set, ns / 5, false, &msg);
	if (!err)
		err = sleep_and_check(set, ns, true, &msg);
	load_set_free(set);
	if (err)
		fprintf(stderr, "%s\n%s\n", msg.text, msg.remedy);
	return err ? 1 : 0;
}
