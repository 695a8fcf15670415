/* SPDX-License-Identifier: GPL-2.0-only */
/* Lines of a GPIO chip by its character device. */
#ifndef RTGAUGE_TESTS_LINES_H
#define RTGAUGE_TESTS_LINES_H

#include <linux/gpio.h>
#include <sys/ioctl.h>

#include "tap.h"

static inline int line_of_chip(unsigned int line, uint64_t flags)
{
	struct gpio_v2_line_request request = { .num_lines = 1 };
	int chip = open("/dev/gpiochip0", O_RDWR | O_CLOEXEC);

	request.offsets[0] = line;
	request.config.flags = flags;
	strcpy(request.consumer, "test");
	if (chip < 0 || ioctl(chip, GPIO_V2_GET_LINE_IOCTL, &request))
		request.fd = -1;
	close(chip);
	return request.fd;
}

static inline int output_line(unsigned int line)
{
	return line_of_chip(line, GPIO_V2_LINE_FLAG_OUTPUT);
}

static inline void drive(int line, bool high)
{
	struct gpio_v2_line_values values = { .bits = high, .mask = 1 };

	if (ioctl(line, GPIO_V2_LINE_SET_VALUES_IOCTL, &values)) {
		perror("GPIO_V2_LINE_SET_VALUES_IOCTL");
		exit(1);
	}
}

#endif
