// SPDX-License-Identifier: Apache-2.0
/*
 * A line of an emulated board, driven and observed from outside QEMU by its device
 * ivshmem-doorbell: shared memory (kmod/doorbell.h), and an event descriptor with which each side
 * rings the other. A socket of the device's server delivers memory and descriptors in messages of
 * eight bytes (QEMU's docs/specs/ivshmem-spec). The connection stays open, and ends when the board
 * ends. Rings can merge, so the memory counts the changes of each line. If input and output have
 * the same number, a driven change rings this end directly, which measures the error of this end
 * alone.
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "doorbell.h"
#include "lines/virtual.h"

#define DOORBELL_PROTOCOL 0
#define DOORBELL_SHARED (-1)

struct doorbell {
	struct sockaddr_un socket;
	int in, out; /* the board's: driven here, and seen here */
	int server;
	int ring; /* rings the board */
	int bell; /* is rung by it */
	struct doorbell_memory *memory;
	uint32_t seen;	 /* changes of the output */
	uint32_t driven; /* changes of the input; of a wire alone, and as in the memory */
	uint32_t merged; /* at the start */
};

static int doorbell_read_text(const struct line *line, struct doorbell *d, struct message *why)
{
	const char *text = line->text + strlen(VIRTUAL_DOORBELL);

	if (!line_word(&text, d->socket.sun_path, sizeof(d->socket.sun_path)) ||
	    line_number(&text, DOORBELL_LINES, &d->in) ||
	    line_number(&text, DOORBELL_LINES, &d->out) || *text)
		return message_set(why, -EINVAL,
				   "give the doorbell's socket, the board's input and its output: "
				   "virtual:doorbell:SOCKET:IN:OUT",
				   "'virtual:%.160s' is not a line", line->text);
	d->socket.sun_family = AF_UNIX;
	return 0;
}

static int doorbell_parse(struct line *line, struct message *why)
{
	struct doorbell d = { .server = -1 };

	return doorbell_read_text(line, &d, why);
}

/* --- what the server gives --- */

/* The first descriptor of a message; there is room for more than one, and none may stay open. */
static void doorbell_keep_one(const struct cmsghdr *head, int *fd)
{
	size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int one;

	for (size_t i = 0; i < count; i++) {
		memcpy(&one, CMSG_DATA(head) + i * sizeof(one), sizeof(one));
		if (*fd < 0)
			*fd = one;
		else
			close(one);
	}
}

/* A message, and the descriptor that comes with it, else -1, also on an error. 0 or -errno; -EPIPE: there
 * is no more. */
static int doorbell_receive(struct doorbell *d, int64_t until_ns, int64_t *value, int *fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	uint64_t word = 0;
	size_t used = 0;

	*fd = -1;
	while (used < sizeof(word)) {
		struct iovec piece = { (char *)&word + used, sizeof(word) - used };
		struct msghdr message = { .msg_iov = &piece,
					  .msg_iovlen = 1,
					  .msg_control = control.bytes,
					  .msg_controllen = sizeof(control.bytes) };
		struct cmsghdr *head;
		int ready = line_poll(d->server, POLLIN, until_ns);
		ssize_t got;

		if (ready <= 0)
			return ready ? ready : -ETIMEDOUT;
		got = recvmsg(d->server, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
		if (got <= 0)
			return got ? -errno : -EPIPE;
		used += (size_t)got;
		head = CMSG_FIRSTHDR(&message);
		if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
			doorbell_keep_one(head, fd);
	}
	*value = (int64_t)le64toh(word);
	return 0;
}

static int doorbell_map(struct doorbell *d, int fd)
{
	struct stat status;
	void *memory;

	if (fstat(fd, &status) || status.st_size < (off_t)sizeof(*d->memory))
		return -EPROTO;
	memory = mmap(NULL, sizeof(*d->memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	d->memory = memory;
	return 0;
}

/* Keep what a message brings; further peers and vectors are nothing to us. */
static int doorbell_take(struct doorbell *d, int64_t own, int64_t value, int fd)
{
	int *kept = value == own ? &d->bell : &d->ring;
	int err = 0;

	if (fd < 0)
		return 0;
	if (value >= 0 && *kept < 0) {
		*kept = fd;
		return 0;
	}
	if (value == DOORBELL_SHARED && !d->memory)
		err = doorbell_map(d, fd);
	close(fd);
	return err;
}

static int doorbell_greet(struct doorbell *d)
{
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + VIRTUAL_ANSWER_NS;
	int64_t value, own;
	int fd, err = doorbell_receive(d, until_ns, &value, &fd);

	/* the server has closed the connection: it has another client */
	if (err == -EPIPE || err == -ECONNRESET)
		return -EBUSY;
	if (!err && (value != DOORBELL_PROTOCOL || fd >= 0))
		err = -EPROTO;
	if (!err)
		err = doorbell_receive(d, until_ns, &own, &fd);
	if (!err && (own < 0 || fd >= 0))
		err = -EPROTO;
	while (!err && (!d->memory || d->ring < 0 || d->bell < 0)) {
		err = doorbell_receive(d, until_ns, &value, &fd);
		if (!err) {
			err = doorbell_take(d, own, value, fd);
			fd = -1;
		}
	}
	if (fd >= 0)
		close(fd);
	return err;
}

/* --- the lines --- */

static uint32_t doorbell_word(const uint32_t *word)
{
	return le32toh(atomic_load_acquire(word));
}

static bool doorbell_wired(const struct doorbell *d)
{
	return d->in == d->out;
}

static uint32_t doorbell_output(const struct doorbell *d)
{
	return doorbell_word(doorbell_wired(d) ? &d->driven : &d->memory->out[d->out]);
}

/* Forget the rings that have come. */
static int doorbell_hush(struct doorbell *d)
{
	uint64_t rings;

	return line_poll(d->bell, POLLIN, 0) > 0 && read(d->bell, &rings, sizeof(rings)) < 0 &&
			       errno != EAGAIN ?
		       -errno :
		       0;
}

/* Changes since the last call: 1 if one of them is an event. */
static int doorbell_look(struct line *line, struct line_event *event)
{
	struct doorbell *d = line->state;
	uint32_t now = doorbell_output(d), edges = now - d->seen;
	int level = (now & 1) != line->how.active_low;

	line->merged = (uint32_t)(doorbell_word(&d->memory->merged) - d->merged);
	d->seen = now;
	if (line->how.edge != LINE_BOTH) {
		/* every second one is of the other direction */
		edges = line_wants(line, level) ? edges - edges / 2 : edges / 2;
		level = line->how.edge == LINE_RISING;
	}
	if (!edges)
		return 0;
	*event =
		(struct line_event){ .seen_ns = event->seen_ns, .level = level, .lost = edges - 1 };
	return 1;
}

static int doorbell_wait(struct line *line, int64_t until_ns, struct line_event *event)
{
	struct doorbell *d = line->state;
	struct pollfd ends[] = { { .fd = d->bell, .events = POLLIN },
				 { .fd = d->server, .events = POLLIN } };
	int64_t value;
	int ready, err, fd;

	for (;;) {
		ready = line_poll_any(ends, 2, until_ns);
		if (ready <= 0)
			return ready;
		event->seen_ns = clock_now_ns(CLOCK_MONOTONIC);
		if (ends[0].revents)
			break;
		/* messages of other peers and vectors are ignored; -EPIPE: its end */
		err = doorbell_receive(d, event->seen_ns + VIRTUAL_ANSWER_NS, &value, &fd);
		if (fd >= 0)
			close(fd);
		if (err)
			return err;
	}
	err = doorbell_hush(d);
	return err ? err : doorbell_look(line, event);
}

static int doorbell_drive(struct line *line, int level)
{
	struct doorbell *d = line->state;
	uint32_t *word = doorbell_wired(d) ? &d->driven : &d->memory->in[d->in];
	uint32_t changes = le32toh(atomic_load_relaxed(word));
	const uint64_t one = 1;

	if ((changes & 1) == ((level != 0) != line->how.active_low))
		return 0;
	atomic_store_release(word, htole32(changes + 1));
	return write(doorbell_wired(d) ? d->bell : d->ring, &one, sizeof(one)) < 0 ? -errno : 0;
}

static int doorbell_connect(struct doorbell *d, struct message *why)
{
	int err;

	d->server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (d->server < 0 ||
	    connect(d->server, (const struct sockaddr *)&d->socket, sizeof(d->socket)))
		return message_set(why, -errno, "start the board with lines=outside",
				   "cannot connect to the doorbell %.100s: %s", d->socket.sun_path,
				   strerror(errno));
	err = doorbell_greet(d);
	if (err == -EBUSY)
		return message_set(why, err,
				   "a board has one log host at a time: end the other one",
				   "the doorbell %.100s is in use", d->socket.sun_path);
	if (!err && (doorbell_word(&d->memory->magic) != DOORBELL_MAGIC ||
		     doorbell_word(&d->memory->version) != DOORBELL_VERSION ||
		     doorbell_word(&d->memory->lines) != DOORBELL_LINES)) {
		/* not owned: close() must not write there */
		munmap(d->memory, sizeof(*d->memory));
		d->memory = NULL;
		err = -EPROTO;
	}
	if (err)
		return message_set(why, err, "name the socket of a board with lines=outside",
				   "the doorbell %.100s does not provide lines: %s",
				   d->socket.sun_path, strerror(-err));
	if (!doorbell_wired(d) && doorbell_word(&d->memory->board) != 1)
		return message_set(why, -ENXIO, "insert rtgauge_doorbell.ko there",
				   "the board does not listen to the doorbell %.100s",
				   d->socket.sun_path);
	return 0;
}

static int doorbell_open(struct line *line, struct message *why)
{
	struct doorbell *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return message_set(why, -ENOMEM, "free some memory", "out of memory");
	line->state = d;
	d->server = d->ring = d->bell = -1;
	err = doorbell_read_text(line, d, why);
	if (!err)
		err = doorbell_connect(d, why);
	if (err)
		return err;
	d->merged = doorbell_word(&d->memory->merged);
	err = line_drive(line, 0);
	if (!err)
		err = doorbell_hush(d);
	d->seen = doorbell_output(d);
	return err ? message_set(why, err, "restart the board", "the doorbell cannot be rung: %s",
				 strerror(-err)) :
		     0;
}

static void doorbell_close(struct line *line)
{
	struct doorbell *d = line->state;

	if (d->memory && d->ring >= 0 && d->bell >= 0)
		(void)doorbell_drive(line, 0);
	if (d->memory)
		munmap(d->memory, sizeof(*d->memory));
	if (d->ring >= 0)
		close(d->ring);
	if (d->bell >= 0)
		close(d->bell);
	if (d->server >= 0)
		close(d->server);
	free(d);
}

const struct line_kind line_virtual_doorbell = {
	.name = "virtual",
	.notation = "doorbell:SOCKET:IN:OUT",
	.parse = doorbell_parse,
	.open = doorbell_open,
	.wait = doorbell_wait,
	.drive = doorbell_drive,
	.close = doorbell_close,
};
