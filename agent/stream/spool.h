/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool: an agent whose host may lose the connection. It measures in a process without a
 * session. A second process, the spool, takes its stream and keeps it until the host has confirmed
 * it. A third, the client, was started over the connection and lends the spool its standard files.
 * When the connection breaks, another client (rtgauge-agent attach) lends those of a new one, from
 * any byte that the host asks for (docs/reference/targets.md).
 */
#ifndef RTGAUGE_SPOOL_H
#define RTGAUGE_SPOOL_H

#include <stdint.h>

/* Return value of spool_start() in the measuring process. */
#define SPOOL_MEASURE (-1)

/* Shared with the agent. */
struct spool_state {
	uint32_t withhold; /* there is little room left: histograms only */
};

/*
 * Make the socket @path, and the three processes. In the one that is to measure: SPOOL_MEASURE; its
 * standard files are the spool's, and @state is set. In the client, when all is over: the agent's exit
 * code. Where no spool can be made, SPOOL_MEASURE with @state NULL and @why filled: the agent
 * measures as it was started.
 * @size: bytes that are kept at most; 0: as many as this machine can well spare.
 * @hold_ns: time that an agent without a host continues.
 */
int spool_start(const char *path, int64_t size, int64_t hold_ns, struct spool_state **state,
		char *why, unsigned int why_size);

/* Be a client of the spool @path: its stream comes from byte @from on. The agent's exit code, or
 * EXITCODE_FAILED with a message where there is none. */
int spool_attach(const char *path, int64_t from);

#endif
