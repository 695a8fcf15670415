// SPDX-License-Identifier: Apache-2.0
/* Which C library and compiler. */
#include "base/version.h"

#include <limits.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif
#include <stdio.h>

const char *version_libc(void)
{
#ifdef __GLIBC__
	static char text[32];

	snprintf(text, sizeof(text), "glibc %s", gnu_get_libc_version());
	return text;
#else
	/* musl, the other one in use, gives no version to programs */
	return "musl";
#endif
}

const char *version_compiler(void)
{
#ifdef __clang__
	return "clang " __clang_version__;
#else
	return "gcc " __VERSION__;
#endif
}
