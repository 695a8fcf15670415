// SPDX-License-Identifier: Apache-2.0
/* The C library and the compiler of this agent. */
#include "base/version.h"

#include <limits.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif
#include <stdio.h>

/* Options of `rtgauge agent --cflags`, after a space. */
#ifndef RTGAUGE_CFLAGS
#define RTGAUGE_CFLAGS ""
#endif

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
	return "clang " __clang_version__ RTGAUGE_CFLAGS;
#else
	return "gcc " __VERSION__ RTGAUGE_CFLAGS;
#endif
}
