/* SPDX-License-Identifier: Apache-2.0 */
/* The Test Anything Protocol for the C tests: tap_check() for each, tap_end() as the result of
 * main(). */
#ifndef RTGAUGE_TAP_H
#define RTGAUGE_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static struct {
	int tests;
	int failures;
} tap;

__attribute__((format(printf, 2, 3))) static inline bool tap_check(bool good, const char *format,
								   ...)
{
	va_list ap;

	tap.tests++;
	tap.failures += !good;
	printf("%sok %d - ", good ? "" : "not ", tap.tests);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	return good;
}

/* A test that cannot be made here, and why. */
__attribute__((format(printf, 2, 3))) static inline void tap_skip(const char *reason,
								  const char *format, ...)
{
	va_list ap;

	printf("ok %d - ", ++tap.tests);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf(" # SKIP %s\n", reason);
	fflush(stdout);
}

static inline int tap_end(void)
{
	printf("1..%d\n", tap.tests);
	return tap.failures || !tap.tests;
}

#endif
