/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy and priority of a thread as the value of a setting, such as "fifo 50". The thread has a
 * name like a path, `thread:TID:START:NAME`, so that it is saved, journalled and restored as files
 * are. START, the start time (field 22 of /proc/TID/stat), tells it from later users of its number.
 */
#ifndef RTGAUGE_SCHEDULE_H
#define RTGAUGE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SCHEDULE_THREAD "thread:"

/* Whether @path names a thread, not a file. */
bool schedule_named(const char *path);

/* The name of a thread into @path. */
void schedule_name(pid_t tid, uint64_t started, const char *name, char *path, size_t room);

/* Policy and priority of the thread @path into @value. 0; -ENOENT: the thread has ended;
 * -EOPNOTSUPP: SCHED_DEADLINE, which is more than a priority; or -errno. */
int schedule_get(const char *path, char *value, size_t room);

/* Set them. Returns as schedule_get(), -EINVAL for another value. */
int schedule_put(const char *path, const char *value);

#endif
