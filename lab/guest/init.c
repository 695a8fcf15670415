// SPDX-License-Identifier: Apache-2.0
/*
 * The only program that an emulated board of the lab starts: process 1. It mounts, loads the
 * module, and then carries out the host's orders: run a program, hand out what it wrote, take a
 * file, end. In counted mode nothing is copied out while a program runs; in plain mode its output
 * is handed over as it comes, and a signal is sent to it when the host asks for that.
 *
 * In counted mode the machine stands still between two orders: the guest writes to a device of
 * which QEMU blocks the processor until the host has read (docs/reference/lab.md, "How time stands
 * still"). So host time, and whatever the host does, is invisible here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <sys/io.h>
#endif

#include "exchange.h"

#define INIT_STDOUT "/run/rtgauge.stdout"
#define INIT_STDERR "/run/rtgauge.stderr"
#define INIT_MODULE "/modules/rtgauge.ko"
#define INIT_KERNEL_MODULES "/modules/kernel"
#define INIT_WORDS_MAX 1024
/* A kernel does deferred work of its boot in its first seconds, which must not be measured. */
#define INIT_SETTLED_NS 5000000000LL
#define INIT_LINGER_NS 2000000000LL
#define INIT_DEBUG_PORT 0xe9
#define INIT_PAUSE_TTY "/dev/ttyAMA0"
#define INIT_LOOK_NS 5000000LL

struct init {
	struct exchange *exchange;
	size_t size;
	int pause_fd; /* of a pause device that is a terminal */
};

static const char *const init_environment[] = {
	"PATH=/sbin:/bin:/usr/sbin:/usr/bin",
	"HOME=/root",
	"TERM=dumb",
	"LANG=C",
	"TMPDIR=/tmp",
	NULL,
};

static void init_end(void)
{
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void init_fail(const char *what)
{
	printf("rtgauge-guest: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	init_end();
}

static int64_t init_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void init_sleep_ns(int64_t ns)
{
	struct timespec left = { ns / 1000000000LL, ns % 1000000000LL };

	nanosleep(&left, NULL);
}

/* --- the system --- */

static void init_mount(void)
{
	static const struct {
		const char *type, *path, *options;
	} mounts[] = {
		{ "proc", "/proc", "" },
		{ "sysfs", "/sys", "" },
		{ "devtmpfs", "/dev", "" },
		{ "tmpfs", "/dev/shm", "mode=1777" },
		{ "devpts", "/dev/pts", "" },
		{ "tmpfs", "/tmp", "mode=1777" },
		{ "tmpfs", "/run", "mode=755" },
		{ "debugfs", "/sys/kernel/debug", "" },
		{ "tracefs", "/sys/kernel/tracing", "" },
	};

	/* some are there already, and a kernel may lack others: a program that needs one says so */
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		mkdir(mounts[i].path, 0755);
		mount(mounts[i].type, mounts[i].path, mounts[i].type, 0, mounts[i].options);
	}
	mkdir("/root", 0700);
	mkdir("/var", 0755);
	mkdir("/var/tmp", 01777);
	mkdir("/run/lock", 0755);
}

static void init_console(void)
{
	int fd = open("/dev/console", O_RDWR | O_NOCTTY);

	if (fd < 0)
		fd = open("/dev/null", O_RDWR);
	for (int i = 0; fd >= 0 && i <= STDERR_FILENO; i++)
		dup2(fd, i);
	if (fd > STDERR_FILENO)
		close(fd);
}

static void init_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
}

static int init_insert(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return errno;
	if (syscall(SYS_finit_module, fd, "", 0))
		err = errno;
	close(fd);
	return err;
}

/* The kernel's own modules that something here needs, in the order of their names. */
static void init_kernel_modules(void)
{
	char path[PATH_MAX];
	struct dirent **entries;
	int count = scandir(INIT_KERNEL_MODULES, &entries, NULL, alphasort), err;

	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), INIT_KERNEL_MODULES "/%s", entries[i]->d_name);
		err = entries[i]->d_name[0] == '.' ? 0 : init_insert(path);
		if (err)
			printf("rtgauge-guest: %s: %s\n", path, strerror(err));
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	fflush(stdout);
}

/* Load our module; what came of it, for the host. */
static void init_module(char *said, size_t size)
{
	int err = init_insert(INIT_MODULE);

	if (err == ENOENT)
		snprintf(said, size, "module=none\n");
	else if (err)
		snprintf(said, size, "module=refused: %s\n", strerror(err));
	else
		snprintf(said, size, "module=loaded\n");
}

/* --- the exchange --- */

static unsigned long init_read_number(const char *folder, const char *name)
{
	char path[PATH_MAX], text[32];
	ssize_t got = -1;
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[got > 0 ? got : 0] = 0;
	return strtoul(text, NULL, 0);
}

static int init_open_resource(const char *folder)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/enable", folder);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		(void)!write(fd, "1", 1); /* enabled already: said by the mapping */
		close(fd);
	}
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource2_wc", folder);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource2", folder);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* The same device with interrupts, whose table is its resource 1, is a doorbell. */
static bool init_is_doorbell(const char *folder)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource1", folder);
	return !access(path, F_OK);
}

/* Map the exchange, QEMU's ivshmem device. False if the machine lacks it. */
static bool init_find_exchange(struct init *init)
{
	DIR *devices = opendir("/sys/bus/pci/devices");
	struct dirent *entry;
	bool found = false;
	struct stat status;
	int fd;

	while (devices && !found && (entry = readdir(devices))) {
		if (init_read_number(entry->d_name, "vendor") != 0x1af4 ||
		    init_read_number(entry->d_name, "device") != 0x1110 ||
		    init_is_doorbell(entry->d_name))
			continue;
		fd = init_open_resource(entry->d_name);
		if (fd < 0 || fstat(fd, &status))
			init_fail("the exchange cannot be opened");
		init->size = status.st_size;
		init->exchange = mmap(NULL, init->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		if (init->exchange == MAP_FAILED)
			init_fail("the exchange cannot be mapped");
		found = true;
	}
	if (devices)
		closedir(devices);
	return found;
}

static void init_check_exchange(const struct init *init)
{
	const struct exchange *exchange = init->exchange;

	errno = EPROTO;
	if (exchange->magic != EXCHANGE_MAGIC || exchange->version != EXCHANGE_VERSION ||
	    exchange->size != init->size || init->size <= EXCHANGE_DATA_AT)
		init_fail("the exchange is not of this program's version");
}

static void init_open_pause(struct init *init)
{
#if defined(__x86_64__)
	init->pause_fd = -1;
	if (ioperm(INIT_DEBUG_PORT, 1, 1))
		init_fail("the pause device is not available");
#else
	struct termios raw;

	init->pause_fd = open(INIT_PAUSE_TTY, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	if (init->pause_fd < 0 || tcgetattr(init->pause_fd, &raw))
		init_fail("the pause device is not available");
	cfmakeraw(&raw);
	tcsetattr(init->pause_fd, TCSANOW, &raw);
#endif
}

static void init_put_byte(const struct init *init)
{
#if defined(__x86_64__)
	(void)init;
	outb('.', INIT_DEBUG_PORT);
#else
	while (write(init->pause_fd, ".", 1) != 1)
		;
#endif
}

/* For programs. A kernel with Dovetail switches to a task of its core while a thread with rights to
 * ports ends, and crashes. */
static void init_drop_pause(void)
{
#if defined(__x86_64__)
	ioperm(INIT_DEBUG_PORT, 1, 0);
#endif
}

/* Hand over to the host; comes back when the next order is there. */
static void init_pause(const struct init *init)
{
	volatile struct exchange *exchange = init->exchange;
	uint32_t done = exchange->done;

	__sync_synchronize();
	for (uint32_t i = 0; i <= exchange->fill; i++)
		init_put_byte(init);
	if (init->pause_fd >= 0)
		tcdrain(init->pause_fd);
	while (exchange->turn == done) /* not in counted mode: the order was there before */
		init_sleep_ns(INIT_LOOK_NS);
	__sync_synchronize();
}

/* --- orders --- */

/* Bytes of a file into the exchange; how many. */
static size_t init_give(const struct init *init, const char *path, uint64_t offset, uint32_t at,
			size_t room, uint64_t *total)
{
	char *place = (char *)init->exchange + at;
	struct stat status;
	size_t given = 0;
	ssize_t got = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (total)
		*total = 0;
	if (fd < 0)
		return 0;
	if (total && !fstat(fd, &status))
		*total = status.st_size;
	do {
		given += got;
		got = pread(fd, place + given, room - given, offset + given);
	} while (got > 0);
	close(fd);
	return given;
}

static void init_give_output(const struct init *init, uint64_t offset)
{
	struct exchange *exchange = init->exchange;
	uint64_t total;

	exchange->given = init_give(init, INIT_STDOUT, offset, EXCHANGE_DATA_AT,
				    init->size - EXCHANGE_DATA_AT, &total);
	exchange->total = total;
}

static void __attribute__((noreturn)) init_child(char **words)
{
	int in = open("/dev/null", O_RDONLY);
	int out = open(INIT_STDOUT, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int err = open(INIT_STDERR, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0600);

	setsid();
	init_drop_pause();
	if (in < 0 || out < 0 || err < 0)
		_exit(126);
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	if (in > STDERR_FILENO)
		close(in);
	execve(words[0], words, (char **)init_environment);
	dprintf(STDERR_FILENO, "%s cannot be started: %s\n", words[0], strerror(errno));
	_exit(127);
}

/* End what a program has left behind, once its guardian had time to restore settings. */
static void init_reap_rest(void)
{
	int64_t limit_ns = init_now_ns() + INIT_LINGER_NS;
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0) {
		if (pid > 0)
			continue;
		if (init_now_ns() > limit_ns)
			kill(-1, SIGKILL);
		init_sleep_ns(1000000);
	}
}

/* The words of an order, in a copy; NULL with errno set if they are invalid. */
static char **init_words(const struct init *init, char **copy)
{
	static char *words[INIT_WORDS_MAX + 1];
	size_t length = init->exchange->length;
	int count = 0;

	errno = EINVAL;
	if (!length || length > init->size - EXCHANGE_DATA_AT)
		return NULL;
	*copy = malloc(length);
	if (!*copy)
		return NULL;
	memcpy(*copy, (char *)init->exchange + EXCHANGE_DATA_AT, length);
	if ((*copy)[length - 1])
		return NULL;
	for (char *word = *copy; word < *copy + length; word += strlen(word) + 1) {
		if (count == INIT_WORDS_MAX) {
			errno = E2BIG;
			return NULL;
		}
		words[count++] = word;
	}
	words[count] = NULL;
	return words;
}

/* The next bytes of the program's output, once the host has taken those before. */
static void init_show(const struct init *init)
{
	volatile struct exchange *exchange = init->exchange;
	uint64_t shown = exchange->shown;
	size_t given;

	if (exchange->taken != shown)
		return;
	__sync_synchronize();
	given = init_give(init, INIT_STDOUT, shown, EXCHANGE_DATA_AT, init->size - EXCHANGE_DATA_AT,
			  NULL);
	__sync_synchronize();
	exchange->shown = shown + given;
}

/* Wait for a program's end. In plain mode the host reads its output during that time, and may signal it. */
static int init_await(const struct init *init, pid_t pid)
{
	volatile struct exchange *exchange = init->exchange;
	bool plain = !exchange->fill;
	uint32_t sent = 0;
	int status = 0;
	pid_t ended;

	while ((ended = waitpid(plain ? pid : -1, &status, plain ? WNOHANG : 0)) != pid) {
		if (ended < 0 && errno != EINTR)
			break;
		if (!plain)
			continue;
		if (exchange->send != sent) {
			sent = exchange->send;
			kill(pid, sent);
		}
		init_show(init);
		init_sleep_ns(INIT_LOOK_NS);
	}
	if (plain) {
		exchange->shown = EXCHANGE_OVER;
		__sync_synchronize();
	}
	return status;
}

static void init_run(const struct init *init)
{
	struct exchange *exchange = init->exchange;
	char *copy = NULL, **words = init_words(init, &copy);
	int status = 0;
	pid_t pid;

	exchange->error = words ? 0 : errno;
	exchange->said = 0;
	exchange->shown = 0;
	unlink(INIT_STDOUT); /* nothing of it may be taken for this program's */
	unlink(INIT_STDERR);
	if (words) {
		exchange->began_ns = init_now_ns();
		pid = fork();
		if (!pid)
			init_child(words);
		if (pid < 0)
			exchange->error = errno;
		else
			status = init_await(init, pid);
		exchange->ended_ns = init_now_ns();
		exchange->code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
		init_reap_rest();
		exchange->said =
			init_give(init, INIT_STDERR, 0, EXCHANGE_SAID_AT, EXCHANGE_SAID_MAX, NULL);
	}
	free(copy);
	init_give_output(init, 0);
}

static int init_write(const char *path, uint64_t offset, const char *bytes, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (offset ? 0 : O_TRUNC), 0755);
	ssize_t done;
	int err = 0;

	if (fd < 0)
		return errno;
	while (length && !err) {
		done = pwrite(fd, bytes, length, offset);
		if (done < 0) {
			err = errno;
			break;
		}
		bytes += done;
		offset += done;
		length -= done;
	}
	if (close(fd) && !err)
		err = errno;
	return err;
}

static void init_put(const struct init *init)
{
	struct exchange *exchange = init->exchange;
	const char *data = (char *)exchange + EXCHANGE_DATA_AT;
	size_t length = exchange->length, path_length;
	char path[PATH_MAX];

	exchange->error = EINVAL;
	if (!length || length > init->size - EXCHANGE_DATA_AT)
		return;
	path_length = strnlen(data, length < PATH_MAX ? length : PATH_MAX);
	if (path_length == length || path_length == PATH_MAX)
		return;
	memcpy(path, data, path_length + 1);
	exchange->error = init_write(path, exchange->offset, data + path_length + 1,
				     length - path_length - 1);
}

static void init_carry_out(const struct init *init)
{
	struct exchange *exchange = init->exchange;

	exchange->error = 0;
	exchange->given = 0;
	switch (exchange->order) {
	case EXCHANGE_RUN:
		init_run(init);
		break;
	case EXCHANGE_READ:
		init_give_output(init, exchange->offset);
		break;
	case EXCHANGE_PUT:
		init_put(init);
		break;
	case EXCHANGE_OFF:
		init_end();
		break;
	default:
		exchange->error = ENOSYS;
	}
}

/* Without an exchange someone sits at the console: a shell, until it is left. */
static void init_shell(void)
{
	char *words[] = { "/bin/sh", "-l", NULL };
	pid_t pid, ended;

	printf("rtgauge-guest: a shell; 'exit' ends the machine\n");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		setsid();
		ioctl(STDIN_FILENO, TIOCSCTTY, 1);
		execve(words[0], words, (char **)init_environment);
		_exit(127);
	}
	do {
		ended = wait(NULL);
	} while (ended != pid && (ended >= 0 || errno == EINTR));
	init_end();
}

int main(void)
{
	struct init init = { .pause_fd = -1 };
	char module[128];

	init_mount();
	init_console();
	(void)!chdir("/root");
	sethostname("lab", 3);
	init_loopback();
	init_kernel_modules();
	init_module(module, sizeof(module));
	if (!init_find_exchange(&init))
		init_shell();
	init_check_exchange(&init);
	init_open_pause(&init);
	init.exchange->guest_magic = EXCHANGE_GUEST_MAGIC;
	init.exchange->guest_version = EXCHANGE_VERSION;
	init.exchange->said = strlen(module);
	memcpy((char *)init.exchange + EXCHANGE_SAID_AT, module, strlen(module));
	init.exchange->done = 0;
	if (init.exchange->fill &&
	    init_now_ns() < INIT_SETTLED_NS) /* idle time costs nothing there */
		init_sleep_ns(INIT_SETTLED_NS - init_now_ns());
	for (;;) {
		init_pause(&init);
		init_carry_out(&init);
		init.exchange->done = init.exchange->turn;
	}
}
