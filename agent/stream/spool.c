// SPDX-License-Identifier: Apache-2.0
/*
 * Step 5 of the path of a sample, on a board over ssh: between the agent and its host.
 *
 * The spool, its clients, and their messages: a client sends the byte at which to begin, with its
 * three standard files, and gets the exit code in the end. Orders of the host arrive on the first of
 * these files, a line each:
 *
 *	got N	all bytes of the stream before number N have arrived
 *	stop	end in order
 *	kill	end at once
 *	end	the announcement of the end has arrived
 *
 * The end is announced on the third, "rtgauge-agent: ended CODE" (below 0: by that signal), once all
 * of the stream was confirmed.
 */
#include "stream/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/exitcode.h"
#include "base/shared.h"
#include "stream/backlog.h"

#define SPOOL_MAX (64 << 20)
#define SPOOL_MIN (1 << 20)
/* The spool takes at most this part of the available memory. */
#define SPOOL_MEMORY_PART 8
/* Without a host somebody looks once a second whether it is to come back. */
#define SPOOL_TICK_MS 1000
/* An agent that was ordered to end, and has no host, is killed after this time. */
#define SPOOL_END_NS (30 * NSEC_PER_SEC)
/* The host keeps 64 KiB of messages, the announcement of the end among them. */
#define SPOOL_MESSAGES 61440
#define SPOOL_LINE 64
#define SPOOL_FILES 3
/* Exit code of a client's ssh for an end without the agent's exit code. */
#define SPOOL_DETACHED 255

struct spool {
	const char *path;
	int64_t hold_ns;
	struct spool_state *state;
	struct backlog backlog;
	int64_t sent; /* the next byte for the client */

	/* of the agent; -1: closed */
	pid_t pid;
	int control;
	int stream;
	int errors;
	int signals;
	bool ended;
	int status; /* exit code, or negative the signal */

	char messages[SPOOL_MESSAGES];
	size_t message_size;
	size_t said; /* of them, to the client */
	char end[40];
	size_t end_said;

	int listener;
	int client; /* -1: there is none */
	int files[SPOOL_FILES];
	char line[SPOOL_LINE];
	size_t line_size;
	int64_t away_ns;    /* when the last client went */
	int64_t leaving_ns; /* when the agent learned that no host will return; 0: not */
	bool over;	    /* the host knows how it ended, or will not ask */
};

struct spool_hello {
	int64_t from;
};

/* --- the client ---------------------------------------------------------------------------- */

/*
 * The address of @path. One that is too long for an address goes by way of its folder's descriptor,
 * @folder, to be closed after use; else that is -1. 0 or -errno.
 */
static int spool_address(struct sockaddr_un *address, const char *path, int *folder)
{
	const char *name = strrchr(path, '/');
	char parent[PATH_MAX];
	int size;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	*folder = -1;
	if (strlen(path) < sizeof(address->sun_path)) {
		strcpy(address->sun_path, path);
		return 0;
	}
	size = snprintf(parent, sizeof(parent), "%.*s/", name ? (int)(name - path) : 0, path);
	if (!name || size >= (int)sizeof(parent))
		return -ENAMETOOLONG;
	*folder = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*folder < 0)
		return -errno;
	size = snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d%s", *folder,
			name);
	return size < (int)sizeof(address->sun_path) ? 0 : -ENAMETOOLONG;
}

/* One socket sends its @files, the other has them. */
static int spool_lend(int socket, struct spool_hello hello, const int *files)
{
	char room[CMSG_SPACE(SPOOL_FILES * sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec data = { .iov_base = &hello, .iov_len = sizeof(hello) };
	struct msghdr msg = { .msg_iov = &data, .msg_iovlen = 1 };
	struct cmsghdr *control;

	msg.msg_control = room;
	msg.msg_controllen = sizeof(room);
	control = CMSG_FIRSTHDR(&msg);
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(SPOOL_FILES * sizeof(int));
	memcpy(CMSG_DATA(control), files, SPOOL_FILES * sizeof(int));
	return sendmsg(socket, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof(hello) ? 0 : -errno;
}

int spool_attach(const char *path, int64_t from)
{
	static const int files[SPOOL_FILES] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO };
	const struct spool_hello hello = { .from = from };
	struct sockaddr_un address;
	int folder = -1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int err = fd < 0 ? -errno : spool_address(&address, path, &folder);
	int32_t code;
	ssize_t got;

	if (!err && connect(fd, (struct sockaddr *)&address, sizeof(address)))
		err = -errno;
	if (folder >= 0)
		close(folder);
	if (!err)
		err = spool_lend(fd, hello, files);
	if (err) {
		fprintf(stderr, "rtgauge-agent: there is no agent to attach to at %s: %s\n", path,
			strerror(-err));
		if (fd >= 0)
			close(fd);
		return EXITCODE_FAILED;
	}
	do {
		got = recv(fd, &code, sizeof(code), 0);
	} while (got < 0 && errno == EINTR);
	close(fd);
	return got == (ssize_t)sizeof(code) ? code : SPOOL_DETACHED;
}

/* --- the host, as far as the spool sees it --------------------------------------------------- */

static void spool_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Let the client go. @code, if any, reports to it how the agent ended. */
static void spool_detach(struct spool *spool, const int32_t *code)
{
	/* the files first: a reader that sees their end is to find the client gone */
	for (int i = 0; i < SPOOL_FILES; i++)
		spool_close(&spool->files[i]);
	if (code && send(spool->client, code, sizeof(*code), MSG_NOSIGNAL) < 0) {
		/* then it is gone itself */
	}
	spool_close(&spool->client);
	spool->line_size = 0;
	spool->away_ns = clock_now_ns(CLOCK_MONOTONIC);
}

/* Close all descriptors that arrived with a message: the kernel has opened them here. The buffer holds
 * a single header. */
static void spool_close_taken(struct msghdr *msg)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(msg);
	size_t count = control ? (control->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
	int fd;

	if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
		return;
	for (size_t i = 0; i < count; i++) {
		memcpy(&fd, CMSG_DATA(control) + i * sizeof(fd), sizeof(fd));
		close(fd);
	}
}

static int spool_take_files(int socket, struct spool_hello *hello, int *files)
{
	char room[CMSG_SPACE(SPOOL_FILES * sizeof(int))] __attribute__((aligned(8)));
	struct iovec data = { .iov_base = hello, .iov_len = sizeof(*hello) };
	struct msghdr msg = { .msg_iov = &data, .msg_iovlen = 1 };
	const struct timeval patience = { .tv_sec = 2 };
	struct cmsghdr *control;
	ssize_t got;

	msg.msg_control = room;
	msg.msg_controllen = sizeof(room);
	setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
	control = got > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (got == (ssize_t)sizeof(*hello) && control && control->cmsg_type == SCM_RIGHTS &&
	    control->cmsg_len == CMSG_LEN(SPOOL_FILES * sizeof(int))) {
		memcpy(files, CMSG_DATA(control), SPOOL_FILES * sizeof(int));
		return 0;
	}
	if (got >= 0)
		spool_close_taken(&msg);
	return -EINVAL;
}

/* Only this user may connect: the socket is in a folder of its own. */
static void spool_accept(struct spool *spool)
{
	int fd = accept4(spool->listener, NULL, NULL, SOCK_CLOEXEC);
	int files[SPOOL_FILES];
	struct spool_hello hello;

	if (fd < 0)
		return;
	if (spool_take_files(fd, &hello, files)) {
		close(fd);
		return;
	}
	spool_detach(spool, NULL);
	spool->client = fd;
	memcpy(spool->files, files, sizeof(files));
	for (int i = 0; i < SPOOL_FILES; i++)
		fcntl(files[i], F_SETFL, fcntl(files[i], F_GETFL) | O_NONBLOCK);
	if (!backlog_confirm(&spool->backlog, hello.from)) {
		const int32_t failed = EXITCODE_FAILED;

		dprintf(files[STDERR_FILENO],
			"rtgauge-agent: byte %lld is not in the spool, only %lld to %lld\n",
			(long long)hello.from, (long long)spool->backlog.begin,
			(long long)spool->backlog.end);
		spool_detach(spool, &failed);
		return;
	}
	spool->sent = hello.from;
	spool->said = 0;
	spool->end_said = 0;
}

static void spool_tell_agent(struct spool *spool, const char *order)
{
	if (spool->control >= 0 && write(spool->control, order, strlen(order)) < 0) {
		/* it has ended, or has the order */
	}
}

static void spool_order(struct spool *spool, const char *line)
{
	if (!strncmp(line, "got ", 4)) {
		int64_t until = strtoll(line + 4, NULL, 10);

		if (until <= spool->sent)
			backlog_confirm(&spool->backlog, until);
	} else if (!strcmp(line, "stop")) {
		spool_tell_agent(spool, "stop\n");
	} else if (!strcmp(line, "kill")) {
		if (!spool->ended)
			kill(spool->pid, SIGKILL);
	} else if (!strcmp(line, "end") && spool->end[0]) {
		spool->over = true;
	}
}

/* Orders, as many as have come; the end of them is that of the connection. */
static void spool_listen(struct spool *spool)
{
	char data[256];
	ssize_t got = read(spool->files[STDIN_FILENO], data, sizeof(data));

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		spool_detach(spool, NULL);
		return;
	}
	for (ssize_t i = 0; i < got; i++) {
		if (data[i] != '\n') {
			/* what is too long is not an order */
			if (spool->line_size < sizeof(spool->line) - 1)
				spool->line[spool->line_size++] = data[i];
			continue;
		}
		spool->line[spool->line_size] = '\0';
		spool->line_size = 0;
		spool_order(spool, spool->line);
	}
}

/* Bytes written; 0 without room or without a host. */
static size_t spool_write(struct spool *spool, int file, const void *data, size_t size)
{
	ssize_t wrote = write(spool->files[file], data, size);

	if (wrote >= 0)
		return (size_t)wrote;
	if (errno != EAGAIN && errno != EINTR)
		spool_detach(spool, NULL);
	return 0;
}

static void spool_send(struct spool *spool)
{
	size_t size;
	const uint8_t *data = backlog_at(&spool->backlog, spool->sent, &size);

	if (data)
		spool->sent += (int64_t)spool_write(spool, STDOUT_FILENO, data, size);
}

static void spool_say(struct spool *spool)
{
	if (spool->said < spool->message_size)
		spool->said += spool_write(spool, STDERR_FILENO, spool->messages + spool->said,
					   spool->message_size - spool->said);
	else if (spool->end[spool->end_said])
		spool->end_said += spool_write(spool, STDERR_FILENO, spool->end + spool->end_said,
					       strlen(spool->end + spool->end_said));
}

static bool spool_has_to_say(const struct spool *spool)
{
	return spool->said < spool->message_size || spool->end[spool->end_said];
}

/* --- the agent, as far as the spool sees it --------------------------------------------------- */

/* Between the two marks all stays as it is. */
static void spool_watch_room(struct spool *spool)
{
	int64_t held = spool->backlog.end - spool->backlog.begin;
	int64_t limit = spool->backlog.limit;

	if (held > limit / 4 * 3)
		atomic_store_release(&spool->state->withhold, 1);
	else if (held < limit / 4)
		atomic_store_release(&spool->state->withhold, 0);
}

/* Take what there is of the stream; false: that is nothing. */
static bool spool_take(struct spool *spool)
{
	size_t size;
	uint8_t *room = spool->stream < 0 ? NULL : backlog_room(&spool->backlog, &size);
	ssize_t got;

	if (!room)
		return false;
	got = read(spool->stream, room, size);
	if (got > 0) {
		backlog_added(&spool->backlog, (size_t)got);
		return true;
	}
	if (!got || (errno != EAGAIN && errno != EINTR))
		spool_close(&spool->stream);
	return false;
}

/* The first messages are what matters; what finds no room is dropped. */
static bool spool_take_messages(struct spool *spool)
{
	char rest[256];
	bool full = spool->message_size == sizeof(spool->messages);
	ssize_t got;

	if (spool->errors < 0)
		return false;
	got = read(spool->errors, full ? rest : spool->messages + spool->message_size,
		   full ? sizeof(rest) : sizeof(spool->messages) - spool->message_size);
	if (got > 0) {
		spool->message_size += full ? 0 : (size_t)got;
		return true;
	}
	if (!got || (errno != EAGAIN && errno != EINTR))
		spool_close(&spool->errors);
	return false;
}

static void spool_reap(struct spool *spool)
{
	struct signalfd_siginfo info;
	int status;

	if (read(spool->signals, &info, sizeof(info)) < 0) {
		/* the child is asked after in any case */
	}
	if (spool->ended || waitpid(spool->pid, &status, WNOHANG) != spool->pid)
		return;
	spool->ended = true;
	spool->status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
	spool_close(&spool->control);
}

/* Announce the end when everything was sent. What others that have the agent's files still write,
 * as a load might, does not count. */
static void spool_finish(struct spool *spool)
{
	bool newline;
	size_t size;

	if (!spool->ended || spool->end[0])
		return;
	while (spool_take_messages(spool)) {
	}
	do {
		if (spool->stream >= 0 && !backlog_room(&spool->backlog, &size))
			return; /* the rest has to wait */
	} while (spool_take(spool));
	spool_close(&spool->stream);
	spool_close(&spool->errors);
	if (spool->backlog.begin < spool->backlog.end)
		return;
	/* on a line of its own, whatever came before it */
	newline = spool->message_size && spool->messages[spool->message_size - 1] != '\n';
	snprintf(spool->end, sizeof(spool->end), "%srtgauge-agent: ended %d\n", newline ? "\n" : "",
		 spool->status);
}

/* Without a host: whether it has left for good, which removes the folder here, or stays away. */
static void spool_wait_for_host(struct spool *spool)
{
	int64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct stat st;

	if (spool->leaving_ns) {
		if (!spool->ended && now_ns - spool->leaving_ns > SPOOL_END_NS)
			kill(spool->pid, SIGKILL);
		spool->over = spool->ended;
		return;
	}
	if (!stat(spool->path, &st) && now_ns - spool->away_ns < spool->hold_ns)
		return;
	spool->leaving_ns = now_ns;
	spool_close(&spool->control);
	backlog_confirm(&spool->backlog, spool->backlog.end);
	spool->over = spool->ended;
}

/* --- the spool ---------------------------------------------------------------------------------- */

enum spool_place {
	SPOOL_LISTENER,
	SPOOL_SIGNALS,
	SPOOL_STREAM,
	SPOOL_ERRORS,
	SPOOL_ORDERS,
	SPOOL_OUT,
	SPOOL_SAY,
	SPOOL_CLIENT,
	SPOOL_PLACES,
};

static void spool_turn(struct spool *spool)
{
	size_t size;
	bool room = backlog_room(&spool->backlog, &size);
	struct pollfd wait[SPOOL_PLACES] = {
		[SPOOL_LISTENER] = { .fd = spool->leaving_ns ? -1 : spool->listener,
				     .events = POLLIN },
		[SPOOL_SIGNALS] = { .fd = spool->signals, .events = POLLIN },
		[SPOOL_STREAM] = { .fd = room ? spool->stream : -1, .events = POLLIN },
		[SPOOL_ERRORS] = { .fd = spool->errors, .events = POLLIN },
		[SPOOL_ORDERS] = { .fd = spool->files[STDIN_FILENO], .events = POLLIN },
		[SPOOL_OUT] = { .fd = spool->files[STDOUT_FILENO],
				.events = spool->sent < spool->backlog.end ? POLLOUT : 0 },
		[SPOOL_SAY] = { .fd = spool->files[STDERR_FILENO],
				.events = spool_has_to_say(spool) ? POLLOUT : 0 },
		[SPOOL_CLIENT] = { .fd = spool->client, .events = POLLIN },
	};
	bool alone = spool->client < 0;

	if (poll(wait, SPOOL_PLACES, alone ? SPOOL_TICK_MS : -1) < 0)
		return;
	if (wait[SPOOL_STREAM].revents) {
		spool_take(spool);
		/* data that no host will read does not delay the agent */
		if (spool->leaving_ns)
			backlog_confirm(&spool->backlog, spool->backlog.end);
	}
	if (wait[SPOOL_ERRORS].revents)
		spool_take_messages(spool);
	if (wait[SPOOL_SIGNALS].revents)
		spool_reap(spool);
	if (wait[SPOOL_OUT].revents & POLLOUT)
		spool_send(spool);
	if (wait[SPOOL_SAY].revents & POLLOUT)
		spool_say(spool);
	if (spool->client >= 0 && wait[SPOOL_ORDERS].revents)
		spool_listen(spool);
	if (spool->client >= 0 && (wait[SPOOL_CLIENT].revents ||
				   (wait[SPOOL_OUT].revents | wait[SPOOL_SAY].revents) & POLLERR))
		spool_detach(spool, NULL);
	if (wait[SPOOL_LISTENER].revents)
		spool_accept(spool);
	spool_finish(spool);
	spool_watch_room(spool);
	if (spool->client < 0)
		spool_wait_for_host(spool);
}

static __attribute__((noreturn)) void spool_run(struct spool *spool)
{
	int32_t code;

	while (!spool->over)
		spool_turn(spool);
	/* before the client ends: an observer of its end may look for what is left */
	unlink(spool->path);
	code = spool->status < 0 ? 128 - spool->status : spool->status;
	spool_detach(spool, &code);
	_exit(0);
}

/* --- its beginning -------------------------------------------------------------------------------- */

static int64_t spool_limit(void)
{
	unsigned long long available_kb = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");
	int64_t limit;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu kB", &available_kb) == 1)
			break;
	if (file)
		fclose(file);
	limit = available_kb / SPOOL_MEMORY_PART > SPOOL_MAX / 1024 ?
			SPOOL_MAX :
			(int64_t)(available_kb / SPOOL_MEMORY_PART * 1024);
	return limit < SPOOL_MIN ? SPOOL_MIN : limit;
}

static int spool_socket(const char *path)
{
	struct sockaddr_un address;
	int folder;
	int err = spool_address(&address, path, &folder);
	int fd = err ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t before = umask(077);

	if (!err &&
	    (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 4)))
		err = -errno;
	umask(before);
	if (folder >= 0)
		close(folder);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

/* The ends of three pipes: for the agent, and for the spool. */
static int spool_pipes(int *agent, int *own)
{
	for (int i = 0; i < SPOOL_FILES; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC))
			return -errno;
		agent[i] = ends[i != STDIN_FILENO];
		own[i] = ends[i == STDIN_FILENO];
		if (fcntl(own[i], F_SETFL, O_NONBLOCK))
			return -errno;
	}
	return 0;
}

static void spool_close_all(const int *fds)
{
	for (int i = 0; i < SPOOL_FILES; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void spool_null_files(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; i < SPOOL_FILES; i++)
		dup2(fd, i);
	if (fd >= SPOOL_FILES)
		close(fd);
}

/* In a process of its own, whose child measures: SPOOL_MEASURE there, and never here. */
static int spool_split(struct spool *spool, int *agent, const int *own)
{
	sigset_t child, before;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	spool->pid = fork();
	if (!spool->pid) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		for (int i = 0; i < SPOOL_FILES; i++)
			dup2(agent[i], i);
		spool_close_all(agent);
		spool_close_all(own);
		close(spool->listener);
		munmap(spool, sizeof(*spool));
		return SPOOL_MEASURE;
	}
	spool_null_files();
	spool_close_all(agent);
	prctl(PR_SET_NAME, "rtgauge-spool");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	if (chdir("/") < 0) {
		/* then the folder stays in use, no more */
	}
	spool->control = own[STDIN_FILENO];
	spool->stream = own[STDOUT_FILENO];
	spool->errors = own[STDERR_FILENO];
	spool->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (spool->pid < 0) {
		spool->ended = true;
		spool->status = EXITCODE_FAILED;
	}
	spool_run(spool);
}

int spool_start(const char *path, int64_t size, int64_t hold_ns, struct spool_state **state,
		char *why, unsigned int why_size)
{
	int agent[SPOOL_FILES] = { -1, -1, -1 }, own[SPOOL_FILES] = { -1, -1, -1 };
	struct spool *spool = NULL;
	int listener = spool_socket(path);
	int err = listener < 0 ? listener : spool_pipes(agent, own);
	pid_t pid;

	*state = err ? NULL : shared_alloc(sizeof(**state));
	if (*state)
		spool = mmap(NULL, sizeof(*spool), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!err && (!*state || spool == MAP_FAILED))
		err = -ENOMEM;
	if (err)
		goto out;
	spool->path = path;
	spool->hold_ns = hold_ns;
	spool->state = *state;
	spool->listener = listener;
	spool->client = -1;
	spool->away_ns = clock_now_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < SPOOL_FILES; i++)
		spool->files[i] = -1;
	spool->backlog.limit = size > 0 ? size : spool_limit();
	pid = fork();
	if (!pid) {
		setsid();
		pid = fork();
		if (!pid)
			return spool_split(spool, agent, own);
		_exit(pid < 0);
	}
	if (pid < 0) {
		err = -errno;
		goto out_unlink;
	}
	spool_close_all(agent);
	spool_close_all(own);
	close(listener);
	munmap(spool, sizeof(*spool));
	while (waitpid(pid, &err, 0) < 0 && errno == EINTR) {
	}
	if (err)
		unlink(path);
	return spool_attach(path, 0);

out_unlink:
	munmap(spool, sizeof(*spool));
out:
	if (listener >= 0) {
		close(listener);
		unlink(path);
	}
	spool_close_all(agent);
	spool_close_all(own);
	if (*state)
		shared_free(*state, sizeof(**state));
	*state = NULL;
	snprintf(why, why_size, "%s", strerror(-err));
	return SPOOL_MEASURE;
}
