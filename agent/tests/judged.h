/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts and tables of the code under test. The test defines step_verdict as test_verdict,
 * step_table_begin as test_table and so on in front of the source file. */
#ifndef RTGAUGE_JUDGED_H
#define RTGAUGE_JUDGED_H

#include <stdio.h>
#include <string.h>

#include "run/step.h"

static struct cbor cbor;
static int verdicts;
static char judged[16], said[2048], advised[256];
static char results[1024]; /* rule and result of all verdicts */

static inline void test_verdict(struct step *step, const char *rule, const char *result,
				const char *evidence, const char *remedy)
{
	size_t used = strlen(results);

	verdicts++;
	snprintf(results + used, sizeof(results) - used, "%s: %s. ", rule, result);
	snprintf(judged, sizeof(judged), "%s", result);
	snprintf(said, sizeof(said), "%s", evidence);
	snprintf(advised, sizeof(advised), "%s", remedy);
}

static inline struct cbor *test_table(struct step *step, const char *name,
				      const struct step_column *columns, int column_count, int rows)
{
	return &cbor;
}

static inline void test_table_end(struct step *step)
{
	cbor_reset(&cbor);
}

#endif
