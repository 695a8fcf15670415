// SPDX-License-Identifier: Apache-2.0
/*
 * Options of measurements and loads: reads, checks and stores values (docs/formats/catalogue.md).
 */
#include "base/option.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpulist.h"

#define NAME_ROOM 64		     /* longer names are not compared, because no name is as long */
#define DURATION_MAX (INT64_MAX / 2) /* 146 years: a time plus a duration fits into 64 bits */
#define FRACTION_DIGITS 18 /* maximum number of digits in 64 bits. More are not exact in any unit */

static const struct {
	const char *suffix;
	int64_t ns;
} durations[] = {
	{ "ns", 1 },	      { "us", 1000 },	      { "ms", 1000000 },       { "s", 1000000000 },
	{ "m", 60000000000 }, { "h", 3600000000000 }, { "d", 86400000000000 },
};

static const struct {
	const char *suffix;
	int64_t bytes;
} sizes[] = {
	{ "", 1 },
	{ "KiB", 1 << 10 },
	{ "MiB", 1 << 20 },
	{ "GiB", 1 << 30 },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Digits at *text, one at least, into @number; *text is moved behind them. */
static int parse_digits(const char **text, int64_t *number)
{
	const char *at = *text;
	int64_t sum = 0;
	bool over = false;

	if (*at < '0' || *at > '9')
		return -EINVAL;
	for (; *at >= '0' && *at <= '9'; at++) {
		over |= __builtin_mul_overflow(sum, 10, &sum);
		over |= __builtin_add_overflow(sum, *at - '0', &sum);
	}
	*text = at;
	*number = sum;
	return over ? -ERANGE : 0;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* @digits (a number of @count digits behind the point) times @unit; -EINVAL for a
 * result that is not an integer. */
static int parse_fraction(int64_t digits, int count, int64_t unit, int64_t *result)
{
	int64_t power = 1;
	int64_t common;

	while (count--)
		power *= 10;
	common = greatest_common_divisor(power, unit);
	if (digits % (power / common))
		return -EINVAL;
	*result = digits / (power / common) * (unit / common);
	return 0;
}

int option_parse_duration(const char *text, int64_t *ns)
{
	int64_t whole;
	int64_t digits = 0;
	int64_t fraction;
	int count = 0;
	int range = parse_digits(&text, &whole);

	if (range == -EINVAL)
		return range;
	if (*text == '.') {
		const char *end;
		const char *last;

		text++;
		end = text + strspn(text, "0123456789");
		last = end;
		if (end == text)
			return -EINVAL;
		while (last > text && last[-1] == '0')
			last--;
		if (last - text > FRACTION_DIGITS)
			return -EINVAL;
		for (; text < last; text++, count++)
			digits = digits * 10 + *text - '0';
		text = end;
	} else if (!*text && !whole && !range) {
		*ns = 0;
		return 0;
	}
	for (size_t i = 0; i < COUNT(durations); i++) {
		int64_t result;

		if (strcmp(text, durations[i].suffix))
			continue;
		if (parse_fraction(digits, count, durations[i].ns, &fraction))
			return -EINVAL;
		if (range || __builtin_mul_overflow(whole, durations[i].ns, &result) ||
		    __builtin_add_overflow(result, fraction, &result))
			return -ERANGE;
		*ns = result;
		return 0;
	}
	return -EINVAL;
}

int option_parse_integer(const char *text, int64_t *number)
{
	bool negative = *text == '-';
	int64_t value;
	int err;

	text += negative;
	err = parse_digits(&text, &value);
	if (err == -EINVAL || *text)
		return -EINVAL;
	if (err)
		return err;
	*number = negative ? -value : value;
	return 0;
}

int option_parse_size(const char *text, int64_t *bytes)
{
	int64_t number;
	int range = parse_digits(&text, &number);

	if (range == -EINVAL)
		return range;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		int64_t result;

		if (strcmp(text, sizes[i].suffix))
			continue;
		if (range || __builtin_mul_overflow(number, sizes[i].bytes, &result))
			return -ERANGE;
		*bytes = result;
		return 0;
	}
	return -EINVAL;
}

/* @ns in @unit with all its decimals; false if there is no end of them, or it is below 1. */
static bool format_in(int64_t ns, int64_t unit, const char *suffix, char *buf, size_t size)
{
	uint64_t value = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	uint64_t rest = value % (uint64_t)unit;
	char decimals[FRACTION_DIGITS + 1];
	int count = 0;

	if (value < (uint64_t)unit)
		return false;
	while (rest && count < FRACTION_DIGITS) {
		rest *= 10;
		decimals[count++] = (char)('0' + rest / (uint64_t)unit);
		rest %= (uint64_t)unit;
	}
	if (rest)
		return false;
	decimals[count] = '\0';
	snprintf(buf, size, "%s%llu%s%s%s", ns < 0 ? "-" : "",
		 (unsigned long long)(value / (uint64_t)unit), count ? "." : "", decimals, suffix);
	return true;
}

const char *option_format_duration(int64_t ns, char *buf, size_t size)
{
	char other[48];
	char best[48] = "0";

	for (size_t i = 0; i < COUNT(durations); i++) {
		if (!format_in(ns, durations[i].ns, durations[i].suffix, other, sizeof(other)))
			continue;
		if (i == 0 || strlen(other) < strlen(best))
			memcpy(best, other, sizeof(best));
	}
	snprintf(buf, size, "%s", best);
	return buf;
}

/* The narrow no-break space between thousands, and before a unit. */
#define GAP "\xe2\x80\xaf"

const char *option_format_us(int64_t ns, char *buf, size_t size)
{
	int decimals = ns >= 100000 ? 0 : ns >= 10000 ? 1 : ns >= 1000 ? 2 : 3;
	char digits[32];
	size_t used = 0;
	int whole;

	snprintf(digits, sizeof(digits), "%.*f", decimals, (double)ns / 1000);
	whole = (int)strcspn(digits, ".");
	for (int i = 0; i < whole; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%c",
					 i && (whole - i) % 3 == 0 ? GAP : "", digits[i]);
	snprintf(buf + used, size - used, "%s" GAP "µs", digits + whole);
	return buf;
}

static const char *format_size(int64_t bytes, char *buf, size_t size)
{
	size_t i = COUNT(sizes) - 1;

	while (i && (!bytes || bytes % sizes[i].bytes))
		i--;
	snprintf(buf, size, "%lld%s", (long long)(bytes / sizes[i].bytes), sizes[i].suffix);
	return buf;
}

static const char *format_number(enum option_type type, int64_t number, char *buf, size_t size)
{
	if (type == OPTION_DURATION)
		return option_format_duration(number, buf, size);
	if (type == OPTION_SIZE)
		return format_size(number, buf, size);
	snprintf(buf, size, "%lld", (long long)number);
	return buf;
}

static unsigned int min2(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/*
 * How many letters must be put in, left out, replaced, or swapped with their neighbour to make
 * @b of @a (optimal string alignment, the method of Damerau without repeated edits).
 */
static unsigned int edits(const char *a, size_t a_size, const char *b, size_t b_size)
{
	unsigned char rows[3][NAME_ROOM + 1];
	unsigned char *before = rows[0];
	unsigned char *above = rows[1];
	unsigned char *row = rows[2];

	for (size_t j = 0; j <= b_size; j++)
		above[j] = (unsigned char)j;
	for (size_t i = 1; i <= a_size; i++) {
		unsigned char *last = before;

		row[0] = (unsigned char)i;
		for (size_t j = 1; j <= b_size; j++) {
			unsigned int cost = above[j - 1] + (a[i - 1] != b[j - 1]);

			cost = min2(cost, min2(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				cost = min2(cost, before[j - 2] + 1U);
			row[j] = (unsigned char)cost;
		}
		before = above;
		above = row;
		row = last;
	}
	return above[b_size];
}

const char *option_nearest(const char *name, const char *names, char *buf, size_t size)
{
	size_t name_size = strlen(name);
	unsigned int best = 1 + (unsigned int)name_size / 4;
	const char *found = NULL;
	size_t found_size = 0;

	if (name_size < 2 || name_size > NAME_ROOM)
		return NULL;
	while (*names) {
		size_t other_size = strcspn(names, " ");
		unsigned int cost = NAME_ROOM;

		if (other_size > name_size && !memcmp(names, name, name_size))
			cost = 1; /* a prefix of a name counts as near */
		else if (other_size && other_size <= NAME_ROOM)
			cost = edits(name, name_size, names, other_size);
		if (cost < other_size && (cost < best || (cost == best && !found))) {
			best = cost;
			found = names;
			found_size = other_size;
		}
		names += other_size;
		names += *names == ' ';
	}
	if (!found || found_size >= size)
		return NULL;
	memcpy(buf, found, found_size);
	buf[found_size] = '\0';
	return buf;
}

/* The names of a table, separated by spaces; what does not fit is left out. */
static const char *table_names(const struct option_set *set, char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < set->count && used < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? " " : "",
					 set->values[i].info->name);
	return buf;
}

/* The user's input, made fit for a message of one line. */
static const char *shown(const char *text, char *buf, size_t size)
{
	size_t i;

	for (i = 0; text[i] && i < size - 1; i++)
		buf[i] = (unsigned char)text[i] < ' ' || text[i] == 127 ? '?' : text[i];
	buf[i] = '\0';
	return buf;
}

static int refuse_unknown(const struct option_set *set, const char *name, struct message *msg)
{
	char names[sizeof(msg->remedy) - 16]; /* room for the words before them */
	char near[NAME_ROOM + 1];
	char remedy[sizeof(msg->remedy)];
	char typed[64];

	table_names(set, names, sizeof(names));
	if (option_nearest(name, names, near, sizeof(near)))
		snprintf(remedy, sizeof(remedy), "did you mean '%s'?", near);
	else if (set->count)
		snprintf(remedy, sizeof(remedy), "choose from: %s", names);
	else
		snprintf(remedy, sizeof(remedy), "omit it: there are no options here");
	return message_set(msg, -EINVAL, remedy, "unknown option '%s'",
			   shown(name, typed, sizeof(typed)));
}

static bool limited(const struct option_info *info)
{
	return info->min || info->max;
}

static int refuse_number(const struct option_info *info, const char *text, const char *wrong,
			 struct message *msg)
{
	char remedy[sizeof(msg->remedy)];
	char min[32];
	char max[32];
	char typed[64];

	snprintf(remedy, sizeof(remedy), "give a value from %s to %s",
		 format_number(info->type, info->min, min, sizeof(min)),
		 format_number(info->type, info->max, max, sizeof(max)));
	return message_set(msg, -EINVAL,
			   limited(info)  ? remedy :
			   text[0] == '-' ? "give a larger value" :
					    "give a smaller value",
			   "%s %s is %s", info->name, shown(text, typed, sizeof(typed)), wrong);
}

static int refuse_notation(const struct option_info *info, const char *text, struct message *msg)
{
	static const struct {
		const char *what;
		const char *remedy;
	} notations[] = {
		[OPTION_DURATION] = { "a duration",
				      "give a number and a unit: 250us, 1.5ms, 10s, 2m, 54h, 3d" },
		[OPTION_INTEGER] = { "a whole number", "give decimal digits, as in 10" },
		[OPTION_SIZE] = { "a size", "give bytes, or KiB, MiB, GiB, as in 32MiB" },
		[OPTION_CPUS] = { "a list of CPUs", "give CPUs as in 0-3,8 or all" },
		[OPTION_FLAG] = { "yes or no", "give yes or no" },
	};
	char typed[64];

	return message_set(msg, -EINVAL, notations[info->type].remedy, "%s '%s' is not %s",
			   info->name, shown(text, typed, sizeof(typed)),
			   notations[info->type].what);
}

/* Values are refused one by one: @text is one of those given, of @size letters. */
static int refuse_value(const struct option_info *info, const char *text, size_t size,
			struct message *msg)
{
	char near[NAME_ROOM + 1];
	char remedy[sizeof(msg->remedy)];
	char typed[64];
	char one[64];

	snprintf(one, sizeof(one), "%.*s", (int)size, text);
	if (option_value_number(info->values, text, size) >= 0)
		return message_set(msg, -EINVAL, "give it once", "%s has %s twice", info->name,
				   one);
	if (option_nearest(one, info->values, near, sizeof(near)))
		snprintf(remedy, sizeof(remedy), "did you mean '%s'?", near);
	else
		snprintf(remedy, sizeof(remedy), "choose from: %s", info->values);
	return message_set(msg, -EINVAL, remedy, "%s cannot be '%s'", info->name,
			   shown(one, typed, sizeof(typed)));
}

int64_t option_value_number(const char *values, const char *text, size_t size)
{
	int64_t number = 0;

	while (*values) {
		size_t other = strcspn(values, " ");

		if (other == size && !memcmp(values, text, size))
			return number;
		values += other;
		values += *values == ' ';
		number++;
	}
	return -1;
}

/* Read values separated by commas: how many, or -1 with *@text at the one that is wrong. */
static int64_t read_values(const char *values, const char **text)
{
	uint64_t seen = 0;
	int64_t count = 0;

	for (;;) {
		size_t size = strcspn(*text, ",");
		int64_t number = option_value_number(values, *text, size);

		if (number < 0 || seen >> number & 1)
			return -1;
		seen |= 1ULL << number;
		count++;
		if (!(*text)[size])
			return count;
		*text += size + 1;
	}
}

/* Read @text into @number by the type alone; the limits are not looked at. */
static int read_value(const struct option_info *info, const char *text, int64_t *number)
{
	struct cpulist cpus;
	int err;

	switch (info->type) {
	case OPTION_DURATION:
		return option_parse_duration(text, number);
	case OPTION_INTEGER:
		return option_parse_integer(text, number);
	case OPTION_SIZE:
		return option_parse_size(text, number);
	case OPTION_CPUS:
		err = cpulist_parse(&cpus, text);
		*number = err ? 0 : cpulist_count(&cpus);
		return err;
	case OPTION_FLAG:
		*number = option_value_number("no yes", text, strlen(text));
		return *number < 0 ? -EINVAL : 0;
	case OPTION_ENUM:
		*number = option_value_number(info->values, text, strlen(text));
		return *number < 0 ? -EINVAL : 0;
	case OPTION_ENUMS:
		*number = read_values(info->values, &text);
		return *number < 0 ? -EINVAL : 0;
	case OPTION_TEXT:
		*number = 0;
		return 0;
	}
	return -EINVAL;
}

static bool is_number(enum option_type type)
{
	return type == OPTION_DURATION || type == OPTION_INTEGER || type == OPTION_SIZE;
}

/* The text in effect: numbers in their one shortest notation, all else as it was given. */
static char *effective_text(const struct option_info *info, const char *text, int64_t number)
{
	char buf[48];

	if (is_number(info->type))
		text = format_number(info->type, number, buf, sizeof(buf));
	return strdup(text);
}

static int refuse(const struct option_info *info, const char *text, int err, struct message *msg)
{
	if (info->type == OPTION_ENUM)
		return refuse_value(info, text, strlen(text), msg);
	if (info->type == OPTION_ENUMS) {
		read_values(info->values, &text);
		return refuse_value(info, text, strcspn(text, ","), msg);
	}
	if (err == -ERANGE)
		return refuse_number(info, text, text[0] == '-' ? "too small" : "too large", msg);
	return refuse_notation(info, text, msg);
}

static int check_limits(const struct option_info *info, const char *text, int64_t number,
			struct message *msg)
{
	char wrong[64];
	char limit[32];

	if (info->type == OPTION_DURATION && number > DURATION_MAX)
		return refuse_number(info, text, "too large", msg);
	if (!is_number(info->type) || !limited(info))
		return 0;
	if (number >= info->min && number <= info->max)
		return 0;
	if (number < info->min)
		snprintf(wrong, sizeof(wrong), "below its minimum %s",
			 format_number(info->type, info->min, limit, sizeof(limit)));
	else
		snprintf(wrong, sizeof(wrong), "above its maximum %s",
			 format_number(info->type, info->max, limit, sizeof(limit)));
	return refuse_number(info, text, wrong, msg);
}

int option_read(const struct option_info *info, const char *text, int64_t *number,
		struct message *msg)
{
	int err = read_value(info, text, number);

	return err ? refuse(info, text, err, msg) : check_limits(info, text, *number, msg);
}

int option_set_init(struct option_set *set, const struct option_info *table)
{
	size_t count = 0;

	while (table && table[count].name)
		count++;
	set->count = 0;
	set->values = calloc(count ? count : 1, sizeof(*set->values));
	if (!set->values)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct option_value *value = &set->values[i];

		value->info = &table[i];
		if (read_value(value->info, table[i].def, &value->number) &&
		    table[i].type != OPTION_CPUS)
			abort(); /* the table itself is wrong */
		value->text = effective_text(value->info, table[i].def, value->number);
		if (!value->text) {
			option_set_free(set);
			return -ENOMEM;
		}
		set->count++;
	}
	return 0;
}

void option_set_free(struct option_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		free(set->values[i].asked);
		free(set->values[i].text);
	}
	free(set->values);
	set->values = NULL;
	set->count = 0;
}

static struct option_value *find(const struct option_set *set, const char *name)
{
	for (size_t i = 0; i < set->count; i++)
		if (!strcmp(set->values[i].info->name, name))
			return &set->values[i];
	return NULL;
}

int option_set_parse(struct option_set *set, const char *name, const char *text,
		     struct message *msg)
{
	struct option_value *value = find(set, name);
	int64_t number;
	char *asked;
	char *effective;
	int err;

	if (!value)
		return refuse_unknown(set, name, msg);
	err = option_read(value->info, text, &number, msg);
	if (err)
		return err;
	asked = strdup(text);
	effective = effective_text(value->info, text, number);
	if (!asked || !effective) {
		free(asked);
		free(effective);
		return message_set(msg, -ENOMEM, "free some memory", "out of memory");
	}
	free(value->asked);
	free(value->text);
	value->asked = asked;
	value->text = effective;
	value->number = number;
	value->given = true;
	return 0;
}

const struct option_value *option_get(const struct option_set *set, const char *name)
{
	const struct option_value *value = find(set, name);

	if (!value)
		abort(); /* an unknown name is a bug of the caller */
	return value;
}

bool option_known(const struct option_set *set, const char *name)
{
	return find(set, name);
}

int64_t option_number(const struct option_set *set, const char *name)
{
	return option_get(set, name)->number;
}

const char *option_text(const struct option_set *set, const char *name)
{
	return option_get(set, name)->text;
}

size_t option_size(const struct option_set *set, const char *name)
{
	uint64_t size = (uint64_t)option_number(set, name);

	return size > SIZE_MAX ? SIZE_MAX : (size_t)size;
}

int option_effective(struct option_set *set, const char *name, const char *text)
{
	struct option_value *value = find(set, name);
	char *copy;

	if (!value)
		abort();
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	free(value->text);
	value->text = copy;
	return 0;
}
