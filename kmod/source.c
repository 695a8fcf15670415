// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of event sources.
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "source.h"

struct device *source_device;

static const struct source *const source_table[] = {
	[RTGAUGE_SOURCE_HRTIMER] = &source_hrtimer, [RTGAUGE_SOURCE_HPET] = &source_hpet,
	[RTGAUGE_SOURCE_GPIO] = &source_gpio,	    [RTGAUGE_SOURCE_EXTERNAL] = &source_external,
	[RTGAUGE_SOURCE_PCI] = &source_pci,	    [RTGAUGE_SOURCE_COBALT] = &source_cobalt,
	[RTGAUGE_SOURCE_SERIAL] = &source_serial,   [RTGAUGE_SOURCE_PARALLEL] = &source_parallel,
};

const struct source *source_get(u32 number)
{
	return number < ARRAY_SIZE(source_table) ? source_table[number] : NULL;
}

int source_describe(struct rtgauge_source *info)
{
	const struct source *source = source_get(info->number);

	if (!source)
		return -EINVAL;
	strscpy(info->name, source->name, sizeof(info->name));
	info->flags = source->flags;
	info->interval_min_ns = RTGAUGE_INTERVAL_MIN_NS;
	info->interval_max_ns = RTGAUGE_INTERVAL_MAX_NS;
	if (!source->find(info))
		info->flags |= RTGAUGE_SOURCE_AVAILABLE;
	return 0;
}

u32 source_choose(u32 kind, u32 flags, bool lines)
{
	struct rtgauge_source info = {};

	if (kind == RTGAUGE_KIND_RESPONSE)
		return RTGAUGE_SOURCE_EXTERNAL;
	if (lines)
		return RTGAUGE_SOURCE_GPIO;
	if (flags & RTGAUGE_SETUP_COBALT)
		return RTGAUGE_SOURCE_COBALT;
	if (kind == RTGAUGE_KIND_TIMER || source_hpet.find(&info))
		return RTGAUGE_SOURCE_HRTIMER;
	return RTGAUGE_SOURCE_HPET;
}
