// SPDX-License-Identifier: Apache-2.0
/* Tests of syscalls.c: a thread that waits for the CPU before it ends. Prints TAP. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "methods/ensemble.h"
#include "judged.h"
#include "tap.h"

#define step_verdict test_verdict
#define step_table_begin test_table
#define step_table_end test_table_end
#include "methods/syscalls.c"
#undef step_verdict
#undef step_table_begin
#undef step_table_end

#define LATE_NS (50 * NSEC_PER_MSEC)

static pthread_key_t key;

/* After its body the thread makes no system call for a while, as if it waited for the CPU. */
static void be_late(void *value)
{
	ensemble_spin(LATE_NS);
}

static void acquire(void *object)
{
	pthread_setspecific(key, object);
}

static void release(void *object)
{
}

/* The last of its system calls is exit(): where it fails, the thread does not end. */
static void test_late_end(void)
{
	static struct worker worker;
	static struct step step = { .core = &core_linux, .workers = &worker };
	struct ensemble e = { .step = &step };
	struct syscalls_pair pair = { .kind = "none", .acquire = acquire, .release = release };

	pair.object = &pair;
	pthread_key_create(&key, be_late);
	syscalls_put(&e, &pair, 1);
	if (!strcmp(judged, "skipped")) {
		tap_skip(said, "a thread that ends late");
		return;
	}
	tap_check(!strcmp(judged, "pass") && !e.error && !e.stuck,
		  "a thread that ends late ends: %s, %s", judged, step.msg.text);
}

int main(void)
{
	test_late_end();
	cbor_free(&cbor);
	return tap_end();
}
