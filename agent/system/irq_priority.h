/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priorities of the threads in which interrupts are handled, for one run (`--irq-priority`): on
 * PREEMPT_RT nearly all of them, with the argument threadirqs too, on other kernels few. They are
 * settings like any other, restored as all are. docs/reference/settings.md has the notation.
 */
#ifndef RTGAUGE_IRQ_PRIORITY_H
#define RTGAUGE_IRQ_PRIORITY_H

#include "base/message.h"
#include "system/settings.h"

/* Whether @list can be read. 0, or -EINVAL with a message. */
int irq_priority_check(const char *list, struct message *msg);

/* Set the priorities of @list. A part of it that fits no thread, or only threads that an earlier
 * part fits, is a setting that failed, but for the first part for all others. 0 or -errno, as
 * settings_set_all(). */
int irq_priority_apply(struct settings *settings, const char *list, struct message *msg);

#endif
