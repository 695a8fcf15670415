// SPDX-License-Identifier: Apache-2.0
/*
 * The user on whose behalf a raised agent runs: sudo names it in the environment.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/caller.h"
#include "base/option.h"

/* An id from a variable of sudo: decimal, without a sign. */
static int caller_read_id(const char *name, unsigned int *id)
{
	const char *text = getenv(name);
	int64_t value;

	if (!text || option_parse_integer(text, &value) || value < 0 || value >= UINT32_MAX)
		return -EINVAL;
	*id = (unsigned int)value;
	return 0;
}

int caller_ids(uid_t *uid, gid_t *gid)
{
	*uid = geteuid();
	*gid = getegid();
	if (*uid || !getenv("SUDO_UID"))
		return 0;
	return caller_read_id("SUDO_UID", uid) || caller_read_id("SUDO_GID", gid) ? -EINVAL : 0;
}
