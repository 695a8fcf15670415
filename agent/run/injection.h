/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disturbance of a step that is injected on purpose (--disturb). Without the option these
 * functions do nothing.
 */
#ifndef RTGAUGE_INJECTION_H
#define RTGAUGE_INJECTION_H

#include "run/run.h"

/* Read the option, and check that it is permitted. 0, -errno or STEP_SKIPPED with a message. */
int injection_check(struct run *run);
/* Load the module. Returns as injection_check(). */
int injection_start(struct run *run);
/* Report what it did, and unload it. A disturbance that never happened ends the step as failed. */
void injection_stop(struct run *run);

#endif
