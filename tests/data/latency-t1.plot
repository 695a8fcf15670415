# SPDX-License-Identifier: Apache-2.0
# Recorded in counted mode on an emulated board: Linux 6.6.0-rc4 with Dovetail, Xenomai 3.3.1.
# latency -t1 -h -T 4 -p 1000 -P 98 -g FILE
# 00:00:04 (in-kernel periodic task, 1000 us period, priority 98)
# ----lat min|----lat avg|----lat max|-overrun|---msw|
#      -0.519|     -0.504|     -0.497|       0|     0|
# Xenomai version: 3.3.1
# Linux lab 6.6.0-rc4 #1 SMP PREEMPT IRQ_PIPELINE Mon Nov 23 09:52:14 UTC 2026 x86_64 GNU/Linux
# Kernel parameters: console=ttyS0 quiet panic=-1 cryptomgr.notests mitigations=off tsc=reliable no_timer_check initcall_blacklist=jent_mod_init tsc=reliable
# Cobalt core 3.3.1 detected
# Compiler: gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)
# Build args: --with-core=cobalt --enable-smp --disable-demo --disable-clock-monotonic-raw
0 1
0.5 4000
1 1
