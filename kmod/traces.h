/* SPDX-License-Identifier: GPL-2.0-only */
/* The device of trace.h, for main.c, and its observing part. */
#ifndef RTGAUGE_TRACES_H
#define RTGAUGE_TRACES_H

#include <linux/kconfig.h>
#include <linux/types.h>

struct rtgauge_trace_observe;
struct rtgauge_observed;

/* Prepare to observe a process, until observe_stop(). Both may wait. 0 or -errno. */
int observe_start(const struct rtgauge_trace_observe *observe);
/* Record its events from here on, or no more. */
void observe_record(bool on);
/* Take at most @room records. Returns their number. */
size_t observe_take(struct rtgauge_observed *records, size_t room);
void observe_stop(void);

#if IS_ENABLED(CONFIG_TRACEPOINTS)
/* Make the device. 0 or -errno. */
int traces_init(void);
void traces_exit(void);
#else
static inline int traces_init(void)
{
	return 0;
}

static inline void traces_exit(void)
{
}
#endif

#endif
