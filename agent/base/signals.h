/* SPDX-License-Identifier: Apache-2.0 */
/* Signals between the agent's threads and processes. */
#ifndef RTGAUGE_SIGNALS_H
#define RTGAUGE_SIGNALS_H

#include <signal.h>

/* Ends a measuring thread's wait early; its handler does nothing. */
#define SIGNAL_WAKE SIGUSR1

#endif
