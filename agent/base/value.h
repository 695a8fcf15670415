/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of a setting: the content of a file below /proc or /sys, one line. If the kernel shows
 * a choice ("always [madvise] never"), the value is the word in brackets, which can also be
 * written. A path can also name a thread, whose value is its policy and priority (schedule.h).
 */
#ifndef RTGAUGE_VALUE_H
#define RTGAUGE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VALUE_MAX 1024 /* room for a value and its end */

/* Read the value of an open file into @value[VALUE_MAX]. 0 or -errno (-EFBIG: too long). */
int value_read(int fd, char *value);

/* The same for a path; the file, if it is one, stays open for value_read() when @keep is not NULL. */
int value_get(const char *path, char *value, int *keep);

/* ID of this boot; "unknown" if the kernel does not have one. */
void value_read_boot_id(char *value);

/* Write @value to the file @path. 0 or -errno. */
int value_put(const char *path, const char *value);

/* Whether @path can be written, or errno says why not. */
bool value_may_put(const char *path);

/* Whether two values of the file @path are the same: a list or a mask of CPUs can be written in
 * several ways. */
bool value_same(const char *path, const char *a, const char *b);

/* Bytes of memory available without swapping; 0 where the kernel does not say. */
int64_t value_memory_available(void);

/* Why a value could not be read or written, for people. */
const char *value_reason(int err);

#endif
