/* SPDX-License-Identifier: Apache-2.0 */
/* The exit codes of the agent: the same as the host's (docs/formats/catalogue.md). */
#ifndef RTGAUGE_EXITCODE_H
#define RTGAUGE_EXITCODE_H

enum exitcode {
	EXITCODE_DONE = 0,
	EXITCODE_FAILED = 1,
	EXITCODE_USAGE = 2,
	EXITCODE_VERDICT = 3,
	EXITCODE_INTERRUPTED = 4,
	EXITCODE_SKIPPED = 77,
};

#endif
