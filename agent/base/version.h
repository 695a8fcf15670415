/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The version of this agent, and what it was built with, because that is part of what is evaluated.
 */
#ifndef RTGAUGE_VERSION_H
#define RTGAUGE_VERSION_H

#ifndef RTGAUGE_VERSION
#define RTGAUGE_VERSION "0.1.0"
#endif

/* The C library the agent runs on, such as "glibc 2.36" or "musl". */
const char *version_libc(void);
/* The compiler that built it, such as "gcc 12.2.0", with the options of `rtgauge agent --cflags`. */
const char *version_compiler(void);

#endif
