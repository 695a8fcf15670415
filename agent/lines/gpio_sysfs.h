/* SPDX-License-Identifier: Apache-2.0 */
/* The old interface to GPIO lines, with another folder for tests. */
#ifndef RTGAUGE_LINES_GPIO_SYSFS_H
#define RTGAUGE_LINES_GPIO_SYSFS_H

#include "lines/line.h"

#define GPIO_SYSFS "/sys/class/gpio"

/* Read line->text for the old interface, whose files are below @root. 0, or -ENOENT without a message
 * if it has no such chip or lines, or several chips of this label. */
int gpio_sysfs_parse(struct line *line, const char *root);

/* Whether the kernel has the new interface (gpio.c), also where it may not be used. */
bool gpio_has_version_2(void);

#endif
