// SPDX-License-Identifier: Apache-2.0
/*
 * Tasks of Xenomai's Cobalt core. A task is a pinned Linux thread with a priority there, too.
 * The core schedules it until its next Linux system call, which switches it to Linux (a mode
 * switch).
 */
#include "core/core.h"

#if defined(__x86_64__) || defined(__aarch64__)
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/atomic.h"

#include "base/clock.h"
#include "core/cobalt.h"

#define COBALT_FOLDER "/proc/xenomai"
/* Xenomai 3.2 has the same revision on the I-pipe and on Dovetail. */
#define COBALT_IPIPE "/proc/ipipe"
/* Exists with CONFIG_XENO_OPT_STATS. Without it each counter of the core reads 0. */
#define COBALT_COUNTERS COBALT_FOLDER "/sched/stat"
/* A SIGXCPU of the core, whose value is the reason plus the marker. */
#define COBALT_MARKER 0xfccf0000U
#define COBALT_MARKER_MASK 0xffff0000U
#define COBALT_USE_LINUX "or give --core linux"

/* The binding is one of the whole process. Set before there are tasks. */
static int bound_revision;
static bool bound_counts;
static struct sigaction xcpu_before;
struct cobalt_heaps cobalt_heaps;
__thread struct cobalt_self cobalt_self;
/* Reasons for which the calling thread has left the core. */
static __thread volatile int64_t cobalt_reasons[CORE_REASONS];

int cobalt_revision(void)
{
	return bound_revision;
}

/* SIGXCPU is also what Linux sends to a thread that has used up its time. */
static void cobalt_signalled(int signal, siginfo_t *info, void *context)
{
	uint32_t value = (uint32_t)info->si_value.sival_int;
	uint32_t reason = value & ~COBALT_MARKER_MASK;

	(void)context;
	if (info->si_code != SI_QUEUE || (value & COBALT_MARKER_MASK) != COBALT_MARKER)
		xcpu_before.sa_handler(signal);
	else
		cobalt_reasons[reason < CORE_REASONS ? reason : CORE_OTHER]++;
}

/* Xenomai 3.2 and newer. */
static bool cobalt_knows(uint32_t revision)
{
#if defined(__x86_64__)
	return revision == 18 || revision == 19;
#else
	return revision == 2 || revision == 20;
#endif
}

static int cobalt_refused(const struct cobalt_bind *bind, int err, struct message *why)
{
	switch (err) {
	case ENOEXEC:
		return message_set(why, -err,
				   "use Xenomai 3.2 or 3.3, or a newer rtgauge, " COBALT_USE_LINUX,
				   "this agent does not know revision %u of the Cobalt interface",
				   bind->found_revision);
	case EINVAL:
		return message_set(
			why, -err, "build the kernel with these features, " COBALT_USE_LINUX,
			"the Cobalt core lacks features: %.*s", COBALT_NAME, bind->missing_names);
	case EAGAIN:
		return message_set(why, -err, "start it (corectl --start), " COBALT_USE_LINUX,
				   "the Cobalt core is stopped");
	case ENOSYS:
		return message_set(
			why, -err,
			"boot a kernel with CONFIG_XENOMAI, without xenomai.state=disabled, " COBALT_USE_LINUX,
			"this kernel has no Cobalt core");
	case EPERM:
		return message_set(
			why, -err,
			"run as root, or join the group of xenomai.allowed_group, " COBALT_USE_LINUX,
			"the Cobalt core requires CAP_SYS_NICE");
	}
	return message_set(why, -err, "check the kernel's messages, " COBALT_USE_LINUX,
			   "the Cobalt core refuses this process: %s", strerror(err));
}

struct cobalt_memory {
	uint32_t size;
	uint32_t left;
};

#define COBALT_MEMORY_STAT _IOR(10, 0, struct cobalt_memory)
#define COBALT_PAGE 4096U

/* Map a heap of the core, and have all of its pages. 0 or -errno. */
static int cobalt_map(const char *path, char **heap)
{
	struct {
		uint64_t offset;
		size_t size;
		int access, flags;
	} wanted = { .access = PROT_READ | PROT_WRITE, .flags = MAP_SHARED };
	struct cobalt_memory memory;
	int fd = (int)syscall(COBALT_OPEN, path, O_RDWR), err = 0;
	void *at = NULL;

	if (fd < 0)
		return -errno;
	if (syscall(COBALT_IOCTL, fd, COBALT_MEMORY_STAT, &memory)) {
		err = -errno;
	} else {
		wanted.size = memory.size;
		err = syscall(COBALT_MMAP, fd, &wanted, &at) ? -errno : 0;
	}
	if (err == -ENOSYS) {
		at = mmap(NULL, wanted.size, wanted.access, wanted.flags, fd, 0);
		err = at == MAP_FAILED ? -errno : 0;
	}
	if (syscall(COBALT_CLOSE, fd))
		close(fd);
	if (err)
		return err;
	*heap = at;
	for (uint32_t place = 0; place < memory.size; place += COBALT_PAGE)
		atomic_fetch_add((uint32_t *)(void *)(*heap + place), 0);
	return 0;
}

/* The core tells its revision when it refuses another one. A kernel without a core may take the
 * number of the call for another one, so it is not asked. */
static int cobalt_bind(int *revision, struct message *why)
{
	struct cobalt_bind bind = { .wanted = COBALT_FEATURE_SMP };
	struct sigaction action = { .sa_sigaction = cobalt_signalled,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	int err;

	if (access(COBALT_FOLDER, F_OK))
		return cobalt_refused(&bind, ENOSYS, why);
	if (syscall(COBALT_BIND, &bind) && errno != ENOEXEC)
		return cobalt_refused(&bind, errno, why);
	if (!cobalt_knows(bind.found_revision))
		return cobalt_refused(&bind, ENOEXEC, why);
	if (!access(COBALT_IPIPE, F_OK))
		return message_set(
			why, -ENOEXEC, "import the output of Xenomai's latency, " COBALT_USE_LINUX,
			"rtgauge does not support Cobalt on the I-pipe, which has its own clock");
	bind.revision = bind.found_revision;
	if (syscall(COBALT_BIND, &bind))
		return cobalt_refused(&bind, errno, why);
	err = cobalt_map("/dev/rtdm/memdev-private", &cobalt_heaps.own) ?:
		      cobalt_map("/dev/rtdm/memdev-shared", &cobalt_heaps.shared);
	if (err)
		return message_set(why, err,
				   "mount devtmpfs at /dev (CONFIG_DEVTMPFS), " COBALT_USE_LINUX,
				   "cannot map the memory of the Cobalt core: %s", strerror(-err));
	err = cobalt_words_prepare();
	if (err)
		return message_set(why, err, "free memory on the target, " COBALT_USE_LINUX,
				   "not enough memory for the Cobalt core");
	sigaction(SIGXCPU, &action, &xcpu_before);
	bound_revision = (int)bind.revision;
	bound_counts = !access(COBALT_COUNTERS, F_OK);
	*revision = bound_revision;
	return 0;
}

int cobalt_become_task(int policy, int priority)
{
	const struct cobalt_priority param = { .priority = priority };
	uint32_t window;

	if (syscall(COBALT_THREAD_CREATE, syscall(SYS_gettid), policy, &param, 0, &window) ||
	    syscall(COBALT_GET_CURRENT, &cobalt_self.handle))
		return -errno;
	cobalt_self.window = (struct cobalt_window *)(void *)(cobalt_heaps.shared + window);
	return 0;
}

static int cobalt_enter(int cpu, int priority)
{
	core_linux.enter(cpu, priority);
	return cobalt_become_task(SCHED_FIFO, priority);
}

static void cobalt_count(struct core_modes *modes, int sign)
{
	struct cobalt_stat stat = { 0 };

	syscall(COBALT_THREAD_GETSTAT, 0, &stat);
	modes->switches += sign * (int64_t)stat.mode_switches;
	modes->faults += sign * (int64_t)stat.faults;
	for (int i = 0; i < CORE_REASONS; i++)
		modes->reasons[i] += sign * cobalt_reasons[i];
}

/* setmode() also takes the thread back to the core. */
static void cobalt_begin(struct core_modes *modes)
{
	syscall(COBALT_THREAD_SETMODE, 0, COBALT_WARN, NULL);
	cobalt_count(modes, -1);
}

/* The signal of a stop makes a task that waits leave the core for a reason, and one that runs
 * without any (a mayday trap). */
static void cobalt_excuse(struct core_modes *modes)
{
	int64_t reported = 0;

	for (int i = 0; i < CORE_REASONS; i++)
		reported += modes->reasons[i];
	if (!modes->reasons[CORE_SIGNAL]) {
		modes->switches -= modes->switches > reported;
		return;
	}
	modes->reasons[CORE_SIGNAL]--;
	modes->switches -= modes->switches > 0;
}

static void cobalt_end(struct core_modes *modes, bool stopped)
{
	cobalt_count(modes, 1);
	if (stopped)
		cobalt_excuse(modes);
	syscall(COBALT_THREAD_SETMODE, COBALT_WARN, 0, NULL);
}

static bool cobalt_counts(void)
{
	return bound_counts;
}

static bool cobalt_look(pid_t tid, struct core_task *task)
{
	struct cobalt_priority param;
	int policy;

	if (!core_linux.look(tid, task))
		return false;
	if (syscall(COBALT_THREAD_GETSCHEDPARAM, tid, &policy, &param))
		return true; /* not a task of the core */
	task->policy = policy == SCHED_FIFO ? "fifo" : policy == SCHED_RR ? "rr" : "other";
	task->priority = param.priority;
	return true;
}

/* Kernel threads are always scheduled by Linux. */
static void cobalt_place(pid_t tid, int priority)
{
	core_linux.place(tid, priority);
}

static bool cobalt_may_have(int priority)
{
	return core_linux.may_have(priority);
}

static int64_t cobalt_now(void)
{
	struct timespec now = { 0, 0 };

	syscall(COBALT_CLOCK_GETTIME, CLOCK_MONOTONIC, &now);
	return clock_to_ns(&now);
}

static void cobalt_rest(int64_t ns)
{
	const struct timespec rest = clock_from_ns(ns);

	syscall(COBALT_CLOCK_NANOSLEEP, CLOCK_MONOTONIC, 0, &rest, NULL);
}

const struct core core_cobalt = {
	.name = "cobalt",
	.title = "Cobalt",
	.bind = cobalt_bind,
	.enter = cobalt_enter,
	.begin = cobalt_begin,
	.end = cobalt_end,
	.counts = cobalt_counts,
	.place = cobalt_place,
	.look = cobalt_look,
	.may_have = cobalt_may_have,
	.now = cobalt_now,
	.rest = cobalt_rest,
	.sleep_call = COBALT_CLOCK_NANOSLEEP,
	.gravity = COBALT_FOLDER "/clock/coreclk",
	.no_gravity = "0i 0k 0u",
};
#endif
