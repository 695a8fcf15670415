// SPDX-License-Identifier: Apache-2.0
/* Mutexes of each kind that POSIX has; the caller reports what a C library lacks. */
#include "methods/mutex_kind.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifdef ON_COBALT
#define MUTEX_KIND_REMEDY "give --core linux: the core does not support this kind of mutex"
#else
#define MUTEX_KIND_REMEDY "use a C library and a kernel that support it, and real-time priority"
#endif

const char *const mutex_protocol_names[MUTEX_PROTOCOLS] = { "none", "inherit", "protect" };

static int mutex_kind_protect(pthread_mutexattr_t *attr, int ceiling)
{
#if defined(__GLIBC__) || defined(ON_COBALT)
	int err = pthread_mutexattr_setprotocol(attr, PTHREAD_PRIO_PROTECT);

	return err ?: pthread_mutexattr_setprioceiling(attr, ceiling);
#else
	/* musl declares the ceiling's function, and does not have it */
	(void)ceiling;
	return pthread_mutexattr_setprotocol(attr, PTHREAD_PRIO_PROTECT);
#endif
}

int mutex_kind_init(pthread_mutex_t *mutex, const struct mutex_kind *kind, int ceiling)
{
	pthread_mutexattr_t attr;
	int err;

	pthread_mutexattr_init(&attr);
	err = pthread_mutexattr_settype(&attr, kind->type);
	if (!err && kind->protocol == MUTEX_PROTECT)
		err = mutex_kind_protect(&attr, ceiling);
	else if (!err && kind->protocol == MUTEX_INHERIT)
		err = pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	if (!err && kind->robust)
		err = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	err = err ?: pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return err;
}

int mutex_kind_protocols(const struct step *step, enum mutex_protocol *protocols)
{
	const char *text = option_text(&step->options, "protocol");
	int count = (int)option_number(&step->options, "protocol");

	for (int i = 0; i < count; i++) {
		size_t size = strcspn(text, ",");

		protocols[i] =
			(enum mutex_protocol)option_value_number(MUTEX_PROTOCOL_VALUES, text, size);
		text += size + (text[size] != '\0');
	}
	return count;
}

void mutex_kind_skipped(struct step *step, const char *rule, const char *name, int err)
{
	char evidence[160];

	snprintf(evidence, sizeof(evidence), "a mutex of the kind %s cannot be used: %s", name,
		 strerror(err));
	step_verdict(step, rule, "skipped", evidence, MUTEX_KIND_REMEDY);
}
