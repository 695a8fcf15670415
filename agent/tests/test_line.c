// SPDX-License-Identifier: Apache-2.0
/* Tests of line.c and lines/: notations, both ends of a net line on loopback. Prints TAP. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "line.h"
#include "tap.h"

#define AMPLE_NS (10 * NSEC_PER_SEC)

static int parse(const char *text, bool asks, struct message *why)
{
	struct line_how how = { .asks = asks };
	struct line line;

	memset(why, 0, sizeof(*why));
	return line_parse(&line, text, how, why);
}

static void test_notations(struct tap *tap)
{
	static const char *const wrong[] = {
		"7",	     "net",	    "nett:1",	       "net:",	     "net:0",
		"net:65536", "net:1.2.3:7", "net:::1:7",       "net:host:7", "net:[::1:7",
		"net::7",    "net:7x",	    "net:[1.2.3.4]:7", "net:-1",     "NET:7"
	};
	struct message why;
	bool good = true;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		good &= parse(wrong[i], false, &why) == -EINVAL && why.text[0] && why.remedy[0];
	tap_check(tap, good, "what names no line is refused, with a remedy");
	tap_check(tap,
		  !parse("net:7007", false, &why) && !parse("net:127.0.0.1:7", false, &why) &&
			  !parse("net:[::1]:7", true, &why) &&
			  !parse("net:127.0.0.1:7", true, &why),
		  "net: a port, an address and a port");
	tap_check(tap, parse("net:7007", true, &why) == -EINVAL && strstr(why.remedy, "address"),
		  "net: who asks has to name an address");
	tap_check(tap, parse("", false, &why) == -ENODEV && why.remedy[0],
		  "where no line is named there is nothing to be measured");
	tap_check(tap, parse("ned:7", true, &why) == -EINVAL && strstr(why.remedy, "net"),
		  "an unknown kind is told the kinds there are");
}

/* A port that nobody has, at the moment. */
static int free_port(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(any);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	bind(fd, (struct sockaddr *)&any, size);
	getsockname(fd, (struct sockaddr *)&any, &size);
	close(fd);
	return ntohs(any.sin_port);
}

struct pair {
	char text[64];
	struct line board, host;
	struct message why;
};

static bool open_pair(struct pair *pair, enum line_edge edge)
{
	struct line_how how = { .edge = edge };

	memset(pair, 0, sizeof(*pair));
	snprintf(pair->text, sizeof(pair->text), "net:127.0.0.1:%d", free_port());
	if (line_parse(&pair->board, pair->text, how, &pair->why) ||
	    line_open(&pair->board, &pair->why))
		return false;
	how.asks = true;
	how.edge = LINE_BOTH;
	return !line_parse(&pair->host, pair->text, how, &pair->why) &&
	       !line_open(&pair->host, &pair->why);
}

static void close_pair(struct pair *pair)
{
	line_close(&pair->host);
	line_close(&pair->board);
}

static int64_t soon(void)
{
	return clock_now_ns(CLOCK_MONOTONIC) + AMPLE_NS;
}

static void test_net(struct tap *tap)
{
	struct line_event event = { 0 };
	struct pair pair;
	bool good = open_pair(&pair, LINE_BOTH);

	tap_check(tap, good, "net: both ends open: %s", pair.why.text);
	tap_check(tap, line_drive(&pair.board, 1) == -ENOTCONN,
		  "nobody is answered before somebody has asked");
	for (int level = 1; level >= 0 && good; level--) {
		int64_t before_ns = clock_now_ns(CLOCK_MONOTONIC);

		good &= !line_drive(&pair.host, level);
		good &= line_wait(&pair.board, level ? LINE_FOREVER : soon(), &event) == 1;
		good &= event.level == level && !event.stamp_ns && event.seen_ns >= before_ns;
		good &= !line_drive(&pair.board, level);
		good &= line_wait(&pair.host, soon(), &event) == 1 && event.level == level;
	}
	tap_check(tap, good, "what one end drives the other sees, there and back");
	tap_check(tap, line_wait(&pair.host, 0, &event) == 0, "and nothing else");
	line_drive(&pair.host, 1);
	tap_check(tap, line_wait(&pair.board, soon(), &event) == 1 && event.level == 1,
		  "an edge comes to whoever waits");
	line_drive(&pair.host, 0);
	while (line_poll(-1, 0, clock_now_ns(CLOCK_MONOTONIC) + NSEC_PER_MSEC) > 0)
		;
	tap_check(tap, line_wait(&pair.board, 0, &event) == 1 && !event.level,
		  "what is there is given also when the time is up");
	close_pair(&pair);
}

static void test_net_edges(struct tap *tap)
{
	struct line_event event = { 0 };
	struct pair pair;
	bool good = open_pair(&pair, LINE_RISING);

	line_drive(&pair.host, 0);
	tap_check(tap, good && line_wait(&pair.board, soon(), &event) == 0,
		  "an edge that is not wanted is no event");
	line_drive(&pair.host, 1);
	tap_check(tap, line_wait(&pair.board, soon(), &event) == 1 && event.level == 1,
		  "one that is wanted is");
	close_pair(&pair);
}

static void test_net_foreign(struct tap *tap)
{
	static const char *const wrong[] = { "7", "RTGL", "RTGL\1\2\0", "RTGL\1\1\0\0\0",
					     "other...." };
	static const size_t sizes[] = { 0, 4, 8, 9, 8 };
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
	struct line_event event = { 0 };
	struct pair pair;
	bool good = open_pair(&pair, LINE_BOTH);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	int port = 0;

	sscanf(pair.text, "net:127.0.0.1:%d", &port);
	to.sin_port = htons((uint16_t)port);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		good &= sendto(fd, wrong[i], sizes[i], 0, (struct sockaddr *)&to, sizeof(to)) >= 0;
		good &= line_wait(&pair.board, soon(), &event) == 0;
	}
	tap_check(tap, good && pair.board.foreign == 5,
		  "foreign datagrams are counted, and no more");
	tap_check(tap, line_drive(&pair.board, 1) == -ENOTCONN, "nor are they answered");
	close(fd);
	close_pair(&pair);
}

static void test_net_faults(struct tap *tap)
{
	struct line_how how = { 0 };
	struct line_event event = { 0 };
	struct line second;
	struct pair pair;
	bool good = open_pair(&pair, LINE_BOTH);

	memset(&pair.why, 0, sizeof(pair.why));
	good &= !line_parse(&second, pair.text, how, &pair.why);
	tap_check(tap, good && line_open(&second, &pair.why) == -EADDRINUSE && pair.why.remedy[0],
		  "a port that is taken is refused: %s", pair.why.text);
	line_close(&second);
	line_close(&pair.board);
	good = true;
	for (int i = 0; i < 4; i++) {
		good &= !line_drive(&pair.host, i & 1);
		good &= line_wait(&pair.host, clock_now_ns(CLOCK_MONOTONIC) + NSEC_PER_MSEC,
				  &event) == 0;
	}
	tap_check(tap, good && pair.host.foreign,
		  "where nobody listens nothing comes, without an error");
	close_pair(&pair);
}

int main(void)
{
	struct tap tap = { 0 };

	test_notations(&tap);
	test_net(&tap);
	test_net_edges(&tap);
	test_net_foreign(&tap);
	test_net_faults(&tap);
	return tap_end(&tap);
}
