/* SPDX-License-Identifier: Apache-2.0 */
/* What the two interfaces to GPIO lines share. */
#ifndef RTGAUGE_LINES_GPIO_H
#define RTGAUGE_LINES_GPIO_H

#include "lines/line.h"

#define GPIO_SYSFS "/sys/class/gpio"

/* CHIP and @words lines behind it, separated by colons; a chip's name may have some, too. 0 or -EINVAL. */
int gpio_split(const char *text, int words, char chip[64], char lines[3][40]);

/*
 * The old interface below @root, for kernels without the new one: line->kind becomes that of sysfs,
 * whose name tells so. 0; -ENOENT: there is no such chip; -EINVAL with a message is not given.
 */
int gpio_sysfs_parse(struct line *line, const char *root);

#endif
