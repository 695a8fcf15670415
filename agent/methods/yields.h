/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which yields of a test loop slept for a tick of Linux: on Cobalt one that an interrupt cuts short
 * does. docs/reference/cores.md, "Yields that sleep for a tick", explains it. A length of 0 stands for
 * a yield that did not take place.
 */
#ifndef RTGAUGE_YIELDS_H
#define RTGAUGE_YIELDS_H

#include <stdint.h>

/* The time of a round: the median of the @count lengths. @sorted_ns has room for as many. Without
 * any, 0. */
int64_t yields_round(const int64_t *lengths_ns, int count, int64_t *sorted_ns);

/* How many yields of a thread slept. It got the CPU @more times than it yielded, and one that was
 * preempted did so, too. */
int64_t yields_waited(const int64_t *lengths_ns, int count, uint32_t more, int64_t round_ns,
		      int64_t tick_ns);

#endif
