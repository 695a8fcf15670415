// SPDX-License-Identifier: Apache-2.0
/* Tests of registers.c: registers survive a sleep, and a debugger's change of one is found. Prints
 * TAP. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/shared.h"
#include "methods/registers.h"
#include "tap.h"

/* A byte of a register: SSE's are behind those of x87. On both architectures it is at the same place
 * in what a debugger sees, struct user_fpregs_struct and user_fpsimd_state. */
#if defined(__x86_64__)
#define SET_SIZE 512
#define PLACE (160 + 16 * 7 + 3)
#else
#define SET_SIZE 528
#define PLACE (16 * 9 + 3)
#endif

static long across(const struct registers *pattern, struct registers *found, long ns)
{
	struct timespec sleep = { 0, ns };
	const long args[] = { (long)&sleep, 0, 0, 0 };

	return registers_across(pattern, found, 100, SYS_nanosleep, args);
}

static void test_kept(void)
{
	static struct registers pattern, found;
	size_t place = 0;
	int wrong = 0;

	for (uint32_t seed = 1; seed < 200; seed++) {
		registers_fill(&pattern, seed);
		wrong += across(&pattern, &found, 1000) || registers_differ(&pattern, &found, NULL);
	}
	tap_check(!wrong, "all registers are kept, and the call was made");
	tap_check(!memcmp(found.bytes + PLACE, pattern.bytes + PLACE, 1),
		  "what was found is what was loaded");
	found.bytes[PLACE] ^= 1;
	tap_check(registers_differ(&pattern, &found, &place) == 1 && place == PLACE,
		  "one bit is a difference, with its place");
}

static void test_patterns_differ(void)
{
	static struct registers one, other;
	int different;

	registers_fill(&one, 1);
	registers_fill(&other, 2);
	different = registers_differ(&one, &other, NULL);
	tap_check(different > 300, "two threads have different patterns");
}

static void test_arguments(void)
{
	static struct registers pattern, found;
	const long args[] = { 0, 0, 0, 0 }, bad[] = { -1, 0, 0, 0 };

	registers_fill(&pattern, 3);
	tap_check(registers_across(&pattern, &found, 1, SYS_getpid, args) == getpid(),
		  "the result of the call is returned");
	tap_check(registers_across(&pattern, &found, 1, SYS_close, bad) == -EBADF, "its error too");
}

/* Floating-point code works afterwards: the registers of x87 are left empty. */
static void test_usable(void)
{
	volatile long double third = 3.0L;

	tap_check(1.0L / third * third > 0.99L, "floating-point code works afterwards");
}

/* What the child tells its parent. */
struct told {
	int differ;
	size_t place;
};

static void child(struct told *told)
{
	static struct registers pattern, found;

	registers_fill(&pattern, 4);
	/* the change ends the sleep; it is a long one for a parent that is slow */
	across(&pattern, &found, 900000000);
	told->differ = registers_differ(&pattern, &found, &told->place);
	_exit(0);
}

/* Stop the sleeping child, change a byte of its registers, and let it continue. */
static int change(pid_t pid)
{
	unsigned char set[SET_SIZE];
	struct iovec data = { set, sizeof(set) };
	struct timespec moment = { 0, 300000000 };
	int status;

	nanosleep(&moment, NULL);
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) ||
	    waitpid(pid, &status, 0) != pid || ptrace(PTRACE_GETREGSET, pid, NT_PRFPREG, &data))
		return errno;
	set[PLACE] ^= 0x10;
	if (ptrace(PTRACE_SETREGSET, pid, NT_PRFPREG, &data) ||
	    ptrace(PTRACE_DETACH, pid, NULL, NULL))
		return errno;
	return 0;
}

static void test_change_is_found(void)
{
	struct told *told = shared_alloc(sizeof(*told));
	pid_t pid = told ? fork() : -1;
	int err, status;

	if (!pid)
		child(told);
	err = pid > 0 ? change(pid) : ENOMEM;
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (err)
		tap_skip(strerror(err), "a changed register is found");
	else
		tap_check(told->differ == 1 && told->place == PLACE, "a changed register is found");
	if (told)
		shared_free(told, sizeof(*told));
}

int main(void)
{
	if (!registers_units()) {
		tap_skip("they are not known on this architecture", "registers");
		return tap_end();
	}
	test_kept();
	test_patterns_differ();
	test_arguments();
	test_usable();
	test_change_is_found();
	return tap_end();
}
