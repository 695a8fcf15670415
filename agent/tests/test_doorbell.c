// SPDX-License-Identifier: Apache-2.0
/* Tests of lines/virtual_doorbell.c against a server that is a process of its own, and a board that
 * is the test itself. Prints TAP. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "doorbell.h"
#include "lines/line.h"
#include "tap.h"

#define AMPLE_NS (10 * NSEC_PER_SEC)
#define IN 2
#define OUT 1
#define SERVER_OTHER 0
#define SERVER_OWN 1
#define SERVER_MEMORY (-1)

/* What is wrong with a server. */
enum fault { NONE, PROTOCOL, BUSY, SMALL };

struct board {
	char folder[40], path[64], text[96];
	int listener, memory_fd, ring, bell;
	struct doorbell_memory *memory;
	pid_t server;
};

static void send_message(int to, int64_t value, int fd)
{
	int64_t word = (int64_t)htole64((uint64_t)value);
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec piece = { &word, sizeof(word) };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
	}
	if (sendmsg(to, &message, MSG_NOSIGNAL) < 0)
		perror("sendmsg");
}

/* Serves one client after the other until killed. Also sends messages of other peers. */
static void serve(const struct board *b, enum fault fault)
{
	char byte;

	for (;;) {
		int to = accept(b->listener, NULL, NULL);

		if (fault != BUSY) {
			send_message(to, fault == PROTOCOL ? 1 : 0, -1);
			send_message(to, SERVER_OWN, -1);
			send_message(to, SERVER_MEMORY, b->memory_fd);
			send_message(to, SERVER_OTHER, b->ring);
			send_message(to, SERVER_OTHER, b->bell); /* a second vector */
			send_message(to, 7, -1);		 /* a peer that went */
			send_message(to, SERVER_OWN, b->bell);
			/* and an answer without a waiter */
			send_message(to, SERVER_OWN, b->bell);
			send_message(to, 8, b->ring);
			send_message(to, 8, -1);
			while (read(to, &byte, 1) > 0)
				;
		}
		close(to);
	}
}

static bool open_board(struct board *b, enum fault fault)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	FILE *memory = tmpfile();

	memset(b, 0, sizeof(*b));
	snprintf(b->folder, sizeof(b->folder), "/tmp/rtgauge-test-XXXXXX");
	if (!mkdtemp(b->folder) || !memory)
		return false;
	snprintf(b->path, sizeof(b->path), "%s/lines", b->folder);
	snprintf(b->text, sizeof(b->text), "virtual:doorbell:%s:%d:%d", b->path, IN, OUT);
	b->memory_fd = dup(fileno(memory));
	fclose(memory);
	b->ring = eventfd(0, EFD_NONBLOCK);
	b->bell = eventfd(0, EFD_NONBLOCK);
	if (ftruncate(b->memory_fd, fault == SMALL ? 64 : 4096))
		return false;
	b->memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, b->memory_fd, 0);
	if (fault != SMALL)
		*b->memory = (struct doorbell_memory){
			.magic = htole32(DOORBELL_MAGIC),
			.version = htole32(DOORBELL_VERSION),
			.lines = htole32(DOORBELL_LINES),
			.board = htole32(1),
		};
	b->listener = socket(AF_UNIX, SOCK_STREAM, 0);
	memcpy(at.sun_path, b->path, strlen(b->path));
	if (bind(b->listener, (struct sockaddr *)&at, sizeof(at)) || listen(b->listener, 4))
		return false;
	b->server = fork();
	if (!b->server) {
		serve(b, fault);
		_exit(0);
	}
	return b->server > 0;
}

static void end_server(struct board *b)
{
	kill(b->server, SIGKILL);
	waitpid(b->server, NULL, 0);
	b->server = 0;
}

static void close_board(struct board *b)
{
	if (b->server)
		end_server(b);
	munmap(b->memory, 4096);
	close(b->listener);
	close(b->memory_fd);
	close(b->ring);
	close(b->bell);
	unlink(b->path);
	rmdir(b->folder);
}

static int open_line(struct line *line, const char *text, struct line_how how, struct message *why)
{
	int err;

	how.asks = true;
	memset(why, 0, sizeof(*why));
	err = line_parse(line, text, how, why);
	return err ? err : line_open(line, why);
}

/* How often it was rung since this was asked last. Where the other byte order is emulated, QEMU turns
 * the bytes of descriptors that it saw being made, not of those that were received: rings are counted
 * in the highest byte there. */
static int rings(int fd)
{
	uint64_t count = 0;

	if (read(fd, &count, sizeof(count)) < 0)
		return 0;
	return (int)(count >> 56 ? count >> 56 : count);
}

static uint32_t driven(const struct board *b)
{
	return le32toh(b->memory->in[IN]);
}

/* The board changes its output so many times, and rings once. */
static void answer(struct board *b, uint32_t changes)
{
	const uint64_t one = 1;

	b->memory->out[OUT] = htole32(le32toh(b->memory->out[OUT]) + changes);
	if (write(b->bell, &one, sizeof(one)) < 0)
		perror("bell");
}

static int64_t soon(void)
{
	return clock_now_ns(CLOCK_MONOTONIC) + AMPLE_NS;
}

static void test_notations(void)
{
	static const char *const wrong[] = {
		"virtual:doorbell:",	     "virtual:doorbell:/s",	  "virtual:doorbell:/s:1",
		"virtual:doorbell:/s:1:8",   "virtual:doorbell:/s:-1:1",  "virtual:doorbell::1:2",
		"virtual:doorbell:/s:1:2:3", "virtual:doorbell:/s:1:two",
	};
	struct line_how how = { .asks = true };
	struct message why;
	struct line line;
	bool good = true;

	memset(&why, 0, sizeof(why));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		good &= line_parse(&line, wrong[i], how, &why) == -EINVAL &&
			strstr(why.remedy, "doorbell:SOCKET:IN:OUT");
	tap_check(good, "what names no line of a doorbell is refused, with a remedy");
	good = !line_parse(&line, "virtual:doorbell:/s:7:0", how, &why);
	tap_check(good && !strcmp(line.kind->name, "virtual"), "a line's two numbers");
	how.asks = false;
	memset(&why, 0, sizeof(why));
	tap_check(line_parse(&line, "virtual:doorbell:/s:1:2", how, &why) == -EINVAL &&
			  strstr(why.remedy, "log-host"),
		  "the board itself has no such line: %s", why.text);
}

static void test_refused(void)
{
	static const struct {
		enum fault fault;
		int err;
		const char *remedy, *what;
	} cases[] = {
		{ PROTOCOL, -EPROTO, "lines=outside", "another protocol" },
		{ BUSY, -EBUSY, "end the other", "a server that has somebody already" },
		{ SMALL, -EPROTO, "lines=outside", "memory that is too small" },
	};
	struct line_how how = { 0 };
	struct message why;
	struct board b;
	struct line line;
	bool good;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		good = open_board(&b, cases[i].fault);
		good &= open_line(&line, b.text, how, &why) == cases[i].err;
		tap_check(good && strstr(why.remedy, cases[i].remedy), "%s is refused: %s",
			  cases[i].what, why.text);
		line_close(&line);
		close_board(&b);
	}
	good = open_board(&b, NONE);
	b.memory->magic = 0;
	b.memory->in[IN] = htole32(7);
	tap_check(good && open_line(&line, b.text, how, &why) == -EPROTO,
		  "memory of somebody else is refused: %s", why.text);
	line_close(&line);
	tap_check(driven(&b) == 7 && !rings(b.ring), "and left as it was");
	b.memory->in[IN] = 0;
	b.memory->magic = htole32(DOORBELL_MAGIC);
	b.memory->board = 0;
	tap_check(open_line(&line, b.text, how, &why) == -ENXIO && why.remedy[0],
		  "a board that does not hear is refused: %s", why.text);
	line_close(&line);
	tap_check(!driven(&b) && !rings(b.ring), "and nothing was driven");
	end_server(&b);
	close(b.listener);
	b.listener = -1;
	tap_check(open_line(&line, b.text, how, &why) == -ECONNREFUSED && why.remedy[0],
		  "without a server: %s", why.text);
	line_close(&line);
	close_board(&b);
}

static void test_levels(void)
{
	struct line_event event = { 0 };
	struct line_how how = { 0 };
	struct message why;
	struct board b;
	struct line line;
	int64_t before_ns;
	bool good = open_board(&b, NONE);

	b.memory->in[IN] = htole32(7); /* as somebody left it who was killed */
	answer(&b, 3);
	good &= !open_line(&line, b.text, how, &why);
	tap_check(good && driven(&b) == 8 && rings(b.ring) == 1,
		  "opened, the line goes to rest: %s", why.text);
	tap_check(line_wait(&line, 0, &event) == 0, "a change before opening is not an event");
	good = !line_drive(&line, 1) && driven(&b) == 9 && rings(b.ring) == 1;
	good &= !line_drive(&line, 1) && driven(&b) == 9 && rings(b.ring) == 0;
	good &= !line_drive(&line, 0) && driven(&b) == 10 && rings(b.ring) == 1;
	tap_check(good, "each change is counted and rings once, the same level does not");
	before_ns = clock_now_ns(CLOCK_MONOTONIC);
	answer(&b, 1);
	good = line_wait(&line, soon(), &event) == 1 && event.level == 0 && !event.lost;
	good &= event.seen_ns >= before_ns && !event.stamp_ns && !event.mark;
	answer(&b, 1);
	good &= line_wait(&line, LINE_FOREVER, &event) == 1 && event.level == 1;
	tap_check(good, "the board's edges come, with their levels");
	tap_check(line_wait(&line, 0, &event) == 0, "and nothing else");
	answer(&b, 0);
	tap_check(line_wait(&line, soon(), &event) == 0, "a ring without a change is not an event");
	answer(&b, 1);
	answer(&b, 1);
	answer(&b, 1);
	good = line_wait(&line, soon(), &event) == 1 && event.level == 0 && event.lost == 2;
	good &= line_wait(&line, 0, &event) == 0;
	tap_check(good, "rings that came together: one event, two lost");
	answer(&b, 2);
	good = line_wait(&line, soon(), &event) == 1 && event.level == 0 && event.lost == 1;
	tap_check(good, "a pulse that is over: one event, one lost");
	b.memory->merged = htole32(3);
	answer(&b, 1);
	good = line_wait(&line, soon(), &event) == 1 && line.merged == 3;
	tap_check(good, "what the board saw together it says");
	line_drive(&line, 1);
	line_close(&line);
	tap_check(driven(&b) == 12, "closed, the line is at rest");
	good = !open_line(&line, b.text, how, &why) && !line.merged;
	tap_check(good, "and can be opened again: %s", why.text);
	end_server(&b);
	tap_check(line_wait(&line, LINE_FOREVER, &event) == -EPIPE,
		  "a board that is gone is an error, no silence");
	line_close(&line);
	close_board(&b);
}

static void test_edges(void)
{
	struct line_event event = { 0 };
	struct line_how how = { .edge = LINE_RISING, .active_low = true };
	struct message why;
	struct board b;
	struct line line;
	bool good = open_board(&b, NONE);

	good &= !open_line(&line, b.text, how, &why) && driven(&b) == 1;
	tap_check(good, "active-low: rest is the high level: %s", why.text);
	answer(&b, 1);
	good = line_wait(&line, soon(), &event) == 0;
	answer(&b, 1);
	good &= line_wait(&line, soon(), &event) == 1 && event.level == 1 && !event.lost;
	tap_check(good, "an edge that is not wanted is not an event");
	answer(&b, 4);
	good = line_wait(&line, soon(), &event) == 1 && event.level == 1 && event.lost == 1;
	tap_check(good, "only the wanted edges of several are counted");
	line_close(&line);
	close_board(&b);
}

static void test_wire(void)
{
	struct line_event event = { 0 };
	struct line_how how = { 0 };
	struct message why;
	struct board b;
	struct line line;
	char text[96];
	bool good = open_board(&b, NONE);

	b.memory->board = 0;
	snprintf(text, sizeof(text), "virtual:doorbell:%s:3:3", b.path);
	good &= !open_line(&line, text, how, &why);
	for (int level = 1; level >= 0; level--) {
		good &= !line_drive(&line, level);
		good &= line_wait(&line, soon(), &event) == 1 && event.level == level;
	}
	good &= line_wait(&line, 0, &event) == 0;
	tap_check(good && !rings(b.ring) && !b.memory->in[3] && !b.memory->out[3],
		  "a wire comes back, and the board knows nothing of it: %s", why.text);
	line_close(&line);
	close_board(&b);
}

int main(void)
{
	test_notations();
	test_refused();
	test_levels();
	test_edges();
	test_wire();
	return tap_end();
}
