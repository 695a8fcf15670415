/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of `--prepare` in addition to the usual settings: governor, interrupts and work
 * queues off the measured CPUs, and periodic work of the kernel. They are settings like any other.
 * docs/reference/settings.md gives the reason for each. Applied before the first sample.
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
