// SPDX-License-Identifier: Apache-2.0
/*
 * The load `net`: TCP in bursts with pauses, so that interrupts come in trains. The peer is another
 * machine, or loopback, where the kernel's network code runs without device interrupts
 * (docs/reference/loads.md).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "loads/start.h"

#define BLOCK_SIZE (64 * 1024)
#define ALIGNMENT 4096 /* as a page: the kernel copies faster */
#define ANSWER_S 8     /* for a peer to answer, within the time for a load to be ready */
#define SIGN_NS (2 * NSEC_PER_SEC)
#define SIGN_SIZE 1024

static const struct option_info net_options[] = {
	{ "burst", OPTION_DURATION, "3s", NSEC_PER_MSEC, 3600 * NSEC_PER_SEC, NULL,
	  "time of sending" },
	{ "pause", OPTION_DURATION, "7s", 0, 3600 * NSEC_PER_SEC, NULL,
	  "pause between two bursts" },
	{ "peer", OPTION_TEXT, "", 0, 0, "SINK",
	  "ADDRESS/PORT (IPv4) of a service that discards everything, or host for a service that rtgauge provides; empty: loopback" },
	{ 0 },
};

struct net {
	volatile unsigned long *sent; /* KiB */
	size_t rest;		      /* bytes sent that are no KiB yet */
	int fd;
	char block[BLOCK_SIZE] __attribute__((aligned(ALIGNMENT)));
};

static int net_send(struct net *net, size_t size)
{
	ssize_t sent = send(net->fd, net->block, size, MSG_NOSIGNAL);

	if (sent < 0)
		return -errno;
	net->rest += (size_t)sent;
	*net->sent += net->rest / 1024;
	net->rest %= 1024;
	return 0;
}

static int net_burst(struct net *net, int64_t ns)
{
	int64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ns;
	int err;

	do
		err = net_send(net, BLOCK_SIZE);
	while (!err && clock_now_ns(CLOCK_MONOTONIC) < until_ns);
	return err;
}

/* A sign of life now and then tells a pause from a load that has stalled. */
static int net_pause(struct net *net, int64_t ns)
{
	int err = 0;

	for (; ns > 0 && !err; ns -= SIGN_NS) {
		struct timespec ts = clock_from_ns(ns < SIGN_NS ? ns : SIGN_NS);

		nanosleep(&ts, NULL);
		if (ns > SIGN_NS)
			err = net_send(net, SIGN_SIZE);
	}
	return err;
}

static void __attribute__((noreturn)) net_discard(int fd)
{
	char block[BLOCK_SIZE] __attribute__((aligned(ALIGNMENT)));

	while (recv(fd, block, sizeof(block), 0) > 0)
		;
	_exit(EPIPE);
}

/* "ADDRESS/PORT". */
static int net_parse(const char *text, struct sockaddr_in *address)
{
	const char *slash = strchr(text, '/');
	char host[INET_ADDRSTRLEN];
	int64_t port;

	if (!slash || slash - text >= (int)sizeof(host) || option_parse_integer(slash + 1, &port) ||
	    port < 1 || port > 65535)
		return -EINVAL;
	memcpy(host, text, (size_t)(slash - text));
	host[slash - text] = '\0';
	address->sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, host, &address->sin_addr) == 1 ? 0 : -EINVAL;
}

/* A socket that listens on an address and a port that are free, written into @address. */
static int net_listen(struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t size = sizeof(*address);

	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)address, size) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)address, &size))
		return -errno;
	return fd;
}

static int net_connect(const struct sockaddr_in *address)
{
	const struct timeval limit = { .tv_sec = ANSWER_S };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)))
		return errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	return fd;
}

/* Connected to a process of its own that discards. */
static int net_loop(struct message *msg)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int listening = net_listen(&address);
	int fd = listening < 0 ? listening : net_connect(&address);
	int sink = fd < 0 ? fd : accept(listening, NULL, NULL);
	pid_t pid;

	if (sink < 0) {
		sink = fd < 0 ? fd : -errno;
		return message_set(msg, sink, "bring up the network device lo",
				   "cannot connect over loopback: %s", strerror(-sink));
	}
	close(listening);
	pid = start_process(msg);
	if (!pid) {
		close(fd);
		net_discard(sink);
	}
	close(sink);
	return pid < 0 ? pid : fd;
}

static int net_reach(const char *peer, struct message *msg)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd;

	if (net_parse(peer, &address))
		return message_set(msg, -EINVAL, "write ADDRESS/PORT, as in 192.168.0.10/9",
				   "'%.60s' is not the address of a peer", peer);
	fd = net_connect(&address);
	if (fd >= 0)
		return fd;
	return message_set(msg, fd, "start a server there that discards what it receives",
			   "cannot connect to %.60s: %s", peer, strerror(-fd));
}

static int net_run(struct load_worker *worker, const struct option_set *options,
		   struct message *msg)
{
	const char *peer = option_text(options, "peer");
	struct net net = { .sent = load_counter(worker, 0) };
	int err = 0;

	net.fd = *peer ? net_reach(peer, msg) : net_loop(msg);
	if (net.fd < 0)
		return net.fd;
	load_ready(worker);
	while (!err) {
		err = net_burst(&net, option_number(options, "burst"));
		if (!err)
			err = net_pause(&net, option_number(options, "pause"));
	}
	return message_set(msg, err, "check the peer", "the connection ended: %s", strerror(-err));
}

const struct load load_net = {
	.name = "net",
	.summary = "TCP in bursts to a peer (over loopback without device interrupts)",
	.unit = "KiB",
	.options = net_options,
	.run = net_run,
	.stalled = "check the connection to its peer, or give it a CPU with free time (--load-cpu)",
};
