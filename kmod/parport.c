// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtgauge_parport.ko: the parallel ports of this kernel for the source parallel of rtgauge.ko.
 */
#include <linux/module.h>
#include <linux/parport.h>

#include "compat.h"
#include "parallel.h"

static const struct parallel_functions parallel_functions = {
	.owner = THIS_MODULE,
	.register_device = parport_register_dev_model,
	.unregister_device = parport_unregister_device,
	.claim = parport_claim,
	.release = parport_release,
};

static void parallel_attach(struct parport *port)
{
	if (rtgauge_parallel_add(port, &parallel_functions))
		pr_warn("rtgauge_parport: no memory for %s\n", port->name);
}

static struct parport_driver parallel_driver = {
	.name = "rtgauge",
	.match_port = parallel_attach,
	.detach = rtgauge_parallel_remove,
};

static int __init parallel_init(void)
{
	compat_parport_driver(&parallel_driver);
	return parport_register_driver(&parallel_driver);
}

static void __exit parallel_exit(void)
{
	parport_unregister_driver(&parallel_driver);
}

module_init(parallel_init);
module_exit(parallel_exit);

MODULE_DESCRIPTION("Parallel ports for rtgauge");
MODULE_AUTHOR("rtgauge");
MODULE_LICENSE("GPL");
