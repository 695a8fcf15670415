/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the processes of a load: functions that several loads share. */
#ifndef RTGAUGE_START_H
#define RTGAUGE_START_H

#include "loads/load.h"

/* For the table of a load that calls start_on_each(). */
#define START_PER_CPU(count)                                                   \
	{                                                                      \
		"per-cpu", OPTION_INTEGER, count, 0, 64, NULL,                 \
			"processes on each CPU; 0: one process on any of them" \
	}

/* load_fork() that says in @msg what is wrong; then it returns -errno. */
pid_t start_process(struct message *msg);

/*
 * The whole life of a load: @per_cpu processes bound to each CPU, or with 0 one process that the
 * scheduler moves, each calling @work with a counter of its own. @work never returns, or with what _exit() is to be given. Returns as load->run does.
 */
int start_on_each(struct load_worker *worker, int64_t per_cpu,
		  int (*work)(volatile unsigned long *done, const void *arg), const void *arg,
		  struct message *msg);

#endif
