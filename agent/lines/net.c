// SPDX-License-Identifier: Apache-2.0
/*
 * A line over UDP: every edge is a datagram with the level and a random number of the asking side's
 * run. The answer has the same format and number, so any service that echoes datagrams can answer.
 * The answering side listens to the first peer, and to another one once the first has ended
 * (NET_END), or has been silent for NET_SILENT_NS.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "lines/line.h"

#define NET_LEVEL 5
#define NET_END 2 /* in the place of the level */
#define NET_RUN 8
#define NET_RUN_SIZE 8
#define NET_SIZE (NET_RUN + NET_RUN_SIZE)
#define NET_SILENT_NS (10 * NSEC_PER_SEC)

/* A mark, the format's version, the level, two zero bytes, the number of the run. */
static const uint8_t net_datagram[NET_SIZE] = { 'R', 'T', 'G', 'L', 2, 0, 0, 0 };

union net_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* A control message with the local address of a datagram. */
union net_local {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

struct net {
	int fd;
	union net_address here; /* to be bound to, or to ask */
	socklen_t here_size;
	union net_address peer; /* sender of the last request */
	socklen_t peer_size;	/* 0: no request yet, or connected */
	uint8_t run[NET_RUN_SIZE];
	int64_t heard_ns; /* time of the peer's last datagram */
	bool connected;
	size_t local_size;     /* 0: the socket has one address, or connected */
	union net_local local; /* where the last request arrived, for the answer */
};

static int net_wrong(const struct line *line, struct message *why)
{
	return message_set(
		why, -EINVAL,
		line->how.asks ?
			"give a numeric address and a port: net:192.168.7.2:7007" :
			"give the port to listen on: net:7007 for this machine alone, "
			"net:192.168.7.2:7007 for one local address, net:0.0.0.0:7007 for all",
		"'net:%.80s' does not name an address and a port", line->text);
}

/* PORT, ADDRESS:PORT or [ADDRESS]:PORT, addresses in numbers. */
static int net_parse_address(const struct line *line, struct net *net)
{
	const char *colon = strrchr(line->text, ':');
	const char *digits = colon ? colon + 1 : line->text;
	char address[INET6_ADDRSTRLEN + 2] = "127.0.0.1", *start = address;
	size_t size = colon ? (size_t)(colon - line->text) : 0;
	int64_t port;

	if (option_parse_integer(digits, &port) || port < 1 || port > 65535 ||
	    size >= sizeof(address) || (!size && (colon || line->how.asks)))
		return -EINVAL;
	if (size) {
		memcpy(address, line->text, size);
		address[size] = '\0';
	}
	if (address[0] == '[' && size > 2 && address[size - 1] == ']') {
		address[size - 1] = '\0';
		start++;
		net->here.v6.sin6_family = AF_INET6;
		net->here.v6.sin6_port = htons((uint16_t)port);
		net->here_size = sizeof(net->here.v6);
		return inet_pton(AF_INET6, start, &net->here.v6.sin6_addr) == 1 ? 0 : -EINVAL;
	}
	net->here.v4.sin_family = AF_INET;
	net->here.v4.sin_port = htons((uint16_t)port);
	net->here_size = sizeof(net->here.v4);
	return inet_pton(AF_INET, start, &net->here.v4.sin_addr) == 1 ? 0 : -EINVAL;
}

static int net_parse(struct line *line, struct message *why)
{
	struct net net = { .fd = -1 };

	return net_parse_address(line, &net) ? net_wrong(line, why) : 0;
}

/* A line on all addresses of the machine answers from the one that was asked: the kernel would choose
 * that of the route, and the asking side would not take the answer for its own. */
static int net_ask_for_local(const struct net *net)
{
	const int on = 1;

	if (net->here.any.sa_family == AF_INET)
		return net->here.v4.sin_addr.s_addr == htonl(INADDR_ANY) ?
			       setsockopt(net->fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) :
			       0;
	return IN6_IS_ADDR_UNSPECIFIED(&net->here.v6.sin6_addr) ?
		       setsockopt(net->fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)) :
		       0;
}

static int net_open(struct line *line, struct message *why)
{
	struct net *net = calloc(1, sizeof(*net));
	int err;

	if (!net)
		return message_set(why, -ENOMEM, "free some memory", "out of memory");
	line->state = net;
	net->fd = -1;
	if (net_parse_address(line, net))
		return net_wrong(line, why);
	net->fd = socket(net->here.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (net->fd < 0)
		return message_set(why, errno == EAFNOSUPPORT ? -ENODEV : -errno,
				   "choose another kind of line", "cannot create a UDP socket: %s",
				   strerror(errno));
	if (line->how.asks)
		err = connect(net->fd, &net->here.any, net->here_size);
	else
		err = net_ask_for_local(net) || bind(net->fd, &net->here.any, net->here_size);
	if (err)
		return message_set(
			why, -errno,
			line->how.asks ? "check that there is a route to it: ip route" :
					 "choose a free port, and an address of this machine",
			"cannot %s net:%s: %s", line->how.asks ? "connect to" : "listen on",
			line->text, strerror(errno));
	net->connected = line->how.asks;
	if (line->how.asks && getrandom(net->run, sizeof(net->run), 0) != sizeof(net->run))
		return message_set(why, -EIO, "choose another kind of line",
				   "cannot draw a random number for the run: %s", strerror(errno));
	return 0;
}

static bool net_is_of_run(const struct net *net, const uint8_t *datagram)
{
	return !memcmp(net->run, datagram + NET_RUN, NET_RUN_SIZE) &&
	       (net->connected || net->peer_size);
}

/* Whether the datagram belongs to this run, or to a new one that the answering side accepts. */
static bool net_is_own(struct net *net, const uint8_t *datagram, int64_t now_ns)
{
	if (net_is_of_run(net, datagram))
		return true;
	if (net->connected || (net->peer_size && now_ns - net->heard_ns < NET_SILENT_NS))
		return false;
	memcpy(net->run, datagram + NET_RUN, NET_RUN_SIZE);
	return true;
}

/* Into @event, or it is foreign. */
static int net_take(struct line *line, const uint8_t *datagram, ssize_t got,
		    struct line_event *event)
{
	struct net *net = line->state;
	int level = datagram[NET_LEVEL];
	bool formed = got == (ssize_t)sizeof(net_datagram) &&
		      !memcmp(datagram, net_datagram, NET_LEVEL);

	if (formed && level == NET_END && !net->connected && net_is_of_run(net, datagram)) {
		net->peer_size = 0;
		return 0;
	}
	if (!formed || level > 1 || !net_is_own(net, datagram, event->seen_ns)) {
		line->foreign++;
		return 0;
	}
	*event = (struct line_event){ .seen_ns = event->seen_ns, .level = level };
	return line_wants(line, level);
}

/* The interface is left to the route, as without this address. */
static void net_keep_local(struct net *net, struct msghdr *received)
{
	const struct cmsghdr *found = CMSG_FIRSTHDR(received);
	struct in6_pktinfo v6 = { 0 };
	struct in_pktinfo v4 = { 0 }, got;

	net->local_size = 0;
	if (!found || received->msg_flags & MSG_CTRUNC)
		return;
	if (found->cmsg_level == IPPROTO_IP && found->cmsg_type == IP_PKTINFO) {
		memcpy(&got, CMSG_DATA(found), sizeof(got));
		v4.ipi_spec_dst = got.ipi_spec_dst;
		net->local.header = *found;
		memcpy(CMSG_DATA(&net->local.header), &v4, sizeof(v4));
		net->local_size = CMSG_SPACE(sizeof(v4));
	} else if (found->cmsg_level == IPPROTO_IPV6 && found->cmsg_type == IPV6_PKTINFO) {
		memcpy(&v6, CMSG_DATA(found), sizeof(v6));
		v6.ipi6_ifindex = 0;
		net->local.header = *found;
		memcpy(CMSG_DATA(&net->local.header), &v6, sizeof(v6));
		/* no source of a datagram */
		net->local_size = IN6_IS_ADDR_MULTICAST(&v6.ipi6_addr) ? 0 : CMSG_SPACE(sizeof(v6));
	}
}

static int net_wait(struct line *line, int64_t until_ns, struct line_event *event)
{
	struct net *net = line->state;
	uint8_t datagram[sizeof(net_datagram) + 1];
	union net_address from;
	union net_local local;
	struct iovec piece = { datagram, sizeof(datagram) };
	struct msghdr message = {
		.msg_name = &from.any,
		.msg_namelen = sizeof(from),
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &local,
		.msg_controllen = sizeof(local),
	};
	int flags = 0;
	ssize_t got;

	if (until_ns != LINE_FOREVER) {
		int ready = line_poll(net->fd, POLLIN, until_ns);

		if (ready <= 0)
			return ready;
		flags = MSG_DONTWAIT;
	}
	got = recvmsg(net->fd, &message, flags);
	event->seen_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (got < 0) {
		/* no program listens there yet: the request stays unanswered */
		if (errno == ECONNREFUSED || errno == EHOSTUNREACH || errno == ENETUNREACH)
			line->foreign++;
		else if (errno != EAGAIN && errno != EWOULDBLOCK)
			return -errno;
		return 0;
	}
	got = net_take(line, datagram, got, event);
	if (!net->connected && got) {
		memcpy(&net->peer, &from, message.msg_namelen);
		net->peer_size = message.msg_namelen;
		net_keep_local(net, &message);
		net->heard_ns = event->seen_ns;
	}
	return (int)got;
}

static int net_send(struct line *line, uint8_t level)
{
	struct net *net = line->state;
	uint8_t datagram[sizeof(net_datagram)];
	struct iovec piece = { datagram, sizeof(datagram) };
	struct msghdr message = {
		.msg_name = net->connected ? NULL : &net->peer.any,
		.msg_namelen = net->connected ? 0 : net->peer_size,
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = net->local_size ? &net->local : NULL,
		.msg_controllen = net->local_size,
	};
	ssize_t sent;

	memcpy(datagram, net_datagram, sizeof(datagram));
	datagram[NET_LEVEL] = level;
	memcpy(datagram + NET_RUN, net->run, NET_RUN_SIZE);
	if (!net->connected && !net->peer_size)
		return -ENOTCONN;
	do
		sent = sendmsg(net->fd, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	/* an error of an earlier datagram; this one is sent anyway */
	if (sent < 0 && errno == ECONNREFUSED) {
		line->foreign++;
		sent = sendmsg(net->fd, &message, MSG_NOSIGNAL);
	}
	return sent < 0 && errno != ECONNREFUSED ? -errno : 0;
}

static int net_drive(struct line *line, int level)
{
	return net_send(line, level != 0);
}

static void net_close(struct line *line)
{
	struct net *net = line->state;

	if (net->connected)
		net_send(line, NET_END);
	if (net->fd >= 0)
		close(net->fd);
	free(net);
}

const struct line_kind line_net = {
	.name = "net",
	.notation = "[ADDRESS:]PORT to answer, ADDRESS:PORT to ask",
	.messages = true,
	.parse = net_parse,
	.open = net_open,
	.wait = net_wait,
	.drive = net_drive,
	.close = net_close,
};
