/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `--prepare` changes in addition to the usual settings, as settings like any other: governor,
 * interrupts and work queues off the measured CPUs, and what the kernel does from time to time.
 * docs/reference/settings.md says why each. Before the first sample.
 */
#ifndef RTGAUGE_PREPARE_H
#define RTGAUGE_PREPARE_H

#include "base/cpulist.h"
#include "base/message.h"
#include "system/settings.h"

#define PREPARE_ITEMS                                                                      \
	"governor interrupts workqueue soft_watchdog nmi_watchdog numa_balancing "         \
	"timer_migration stat_interval compaction_proactiveness transparent_hugepage ksm " \
	"rcu_normal"

/* Apply what can be applied here for measuring on @measured, of it only @items (separated by
 * commas) if that is not NULL. 0 or -errno, as settings_set_all(). */
int prepare_apply(struct settings *settings, const struct cpulist *measured, const char *items,
		  struct message *msg);

#endif
