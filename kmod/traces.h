/* SPDX-License-Identifier: GPL-2.0-only */
/* The device of trace.h, for main.c. */
#ifndef RTGAUGE_TRACES_H
#define RTGAUGE_TRACES_H

#include <linux/kconfig.h>

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
