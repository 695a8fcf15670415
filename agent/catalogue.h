/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of measurements, and that of loads (catalogue.c). Only main.c uses it. */
#ifndef RTGAUGE_CATALOGUE_H
#define RTGAUGE_CATALOGUE_H

#include <stddef.h>

struct load;
struct measurement;

/* NULL at their ends. */
extern const struct measurement *const catalogue_measurements[];
extern const struct load *const catalogue_loads[]; /* and profiles */

const struct measurement *catalogue_find(const char *name);
/* All names, separated by single spaces, into @buf. */
const char *catalogue_names(char *buf, size_t size);
/* The JSON document of docs/catalogue.md to stdout. */
void catalogue_describe(void);

#endif
