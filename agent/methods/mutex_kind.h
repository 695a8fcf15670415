/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of mutexes, and the option `protocol` of measurements that compare them. */
#ifndef RTGAUGE_MUTEX_KIND_H
#define RTGAUGE_MUTEX_KIND_H

#include <pthread.h>

#include "run/step.h"

enum mutex_protocol { MUTEX_NONE, MUTEX_INHERIT, MUTEX_PROTECT, MUTEX_PROTOCOLS };

struct mutex_kind {
	int type; /* PTHREAD_MUTEX_... */
	enum mutex_protocol protocol;
	int robust;
};

/* As the option's values and the series' labels have them. */
extern const char *const mutex_protocol_names[MUTEX_PROTOCOLS];
#define MUTEX_PROTOCOL_VALUES "none inherit protect"

/* 0, or the error number with which the C library refuses it. */
int mutex_kind_init(pthread_mutex_t *mutex, const struct mutex_kind *kind, int ceiling);
/* Values of the option `protocol`, in order. Returns their number. */
int mutex_kind_protocols(const struct step *step, enum mutex_protocol *protocols);
/* In finish(): the verdict that a kind is not available. */
void mutex_kind_skipped(struct step *step, const char *rule, const char *name, int err);

#endif
