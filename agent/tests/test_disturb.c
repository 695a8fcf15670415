// SPDX-License-Identifier: Apache-2.0
/* Reading disturbances. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "system/disturb.h"
#include "tap.h"

static bool refused(const char *text, const char *why, const char *remedy)
{
	struct disturb disturb;
	struct message msg = { 0 };

	if (disturb_parse(&disturb, text, &msg) && strstr(msg.text, why) &&
	    strstr(msg.remedy, remedy))
		return true;
	printf("# '%s': %s (%s)\n", text, msg.text, msg.remedy);
	return false;
}

static void test_kinds(void)
{
	static const char *const kinds[] = {
		"spin_lock",	  "spin_lock_bh",	  "tasklet", "kthread", "preempt_disable",
		"local_irq_save", "raw_spin_lock_irqsave"
	};
	struct disturb disturb;
	struct message msg = { 0 };
	char text[64];
	bool held = true;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		snprintf(text, sizeof(text), "%s:200us:7.301ms", kinds[i]);
		held &= !disturb_parse(&disturb, text, &msg) && !strcmp(disturb.kind, kinds[i]) &&
			disturb.length_ns == 200000 && disturb.period_ns == 7301000;
	}
	tap_check(held, "every kind is known, its length and period read");
}

int main(void)
{
	test_kinds();
	tap_check(refused("kthread:1ms", "KIND:LENGTH:PERIOD", "preempt_disable"),
		  "two parts are refused");
	tap_check(refused("kthread:1ms:9ms:1", "KIND:LENGTH:PERIOD", ""), "so are four");
	tap_check(refused("spin_lok:1ms:9ms", "'spin_lok'", "'spin_lock'"),
		  "the nearest kind is named");
	tap_check(refused("wobble:1ms:9ms", "'wobble'", "preempt_disable"), "or all of them");
	tap_check(refused(":1ms:9ms", "''", "kthread"), "an empty kind is refused");
	tap_check(refused("kthread::9ms", "''", "100ms"), "an empty length is refused");
	tap_check(refused("kthread:999ns:9ms", "'999ns'", "1us"), "a length has a lower limit");
	tap_check(refused("kthread:101ms:1s", "'101ms'", "100ms"), "and an upper one");
	tap_check(refused("kthread:1us:9us", "'9us'", "10us"), "a period too");
	tap_check(refused("kthread:1us:5s", "'5s'", "4s"), "in both directions");
	tap_check(refused("kthread:1us:", "''", "4s"), "and it is not left out");
	tap_check(refused("kthread:5ms:9ms", "too short", "twice"),
		  "the machine keeps half of its time");
	return tap_end();
}
