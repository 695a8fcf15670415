/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Between rtgauge.ko, which has the source parallel, and rtgauge_parport.ko, which depends on the
 * kernel's module parport and lends its functions. So rtgauge.ko can be loaded without parport,
 * whose functions are not exported to symbol_get().
 */
#ifndef RTGAUGE_PARALLEL_H
#define RTGAUGE_PARALLEL_H

struct module;
struct pardev_cb;
struct pardevice;
struct parport;

struct parallel_functions {
	struct module *owner; /* stays while a session has a port */
	struct pardevice *(*register_device)(struct parport *port, const char *name,
					     const struct pardev_cb *wanted, int id);
	void (*unregister_device)(struct pardevice *device);
	int (*claim)(struct pardevice *device);
	void (*release)(struct pardevice *device);
};

/* Adds a port of the kernel. 0 or -errno. */
int rtgauge_parallel_add(struct parport *port, const struct parallel_functions *functions);

/* The port is removed: a session that uses it fails (SOURCE). */
void rtgauge_parallel_remove(struct parport *port);

#endif
