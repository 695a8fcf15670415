/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user on whose behalf a raised agent runs.
 */
#ifndef RTGAUGE_CALLER_H
#define RTGAUGE_CALLER_H

#include <sys/types.h>

/* The user and group that foreign programs run as: those of the user who called sudo, else the
 * agent's own. -EINVAL if the variables of sudo are not numbers. */
int caller_ids(uid_t *uid, gid_t *gid);

#endif
