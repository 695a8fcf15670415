/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the measuring threads stayed on their core while they were timed. */
#ifndef RTGAUGE_MODES_H
#define RTGAUGE_MODES_H

struct run;

#define MODES_RULE "stays out-of-band"
#define MODES_MEANING                                                            \
	"a task of a real-time core does not switch to Linux and takes no page " \
	"fault while it is timed"

/* The table `modes` and the test, if the threads are tasks of a core other than Linux. The test is
 * skipped if that core has refused them. */
void modes_put(struct run *run);

#endif
