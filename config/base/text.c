/* SPDX-License-Identifier: Apache-2.0 */
#include "config/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"

#define MINUTE_S 60u
#define HOUR_S 3600u
#define DAY_S 86400u

/* Read digits at *text and advance *text past them. 0, -EINVAL: no digit, -ERANGE: over 2^63. */
static int parse_digits(const char **text, uint64_t *value)
{
	uint64_t sum = 0;

	if (!isdigit((unsigned char)**text))
		return -EINVAL;
	for (; isdigit((unsigned char)**text); ++*text) {
		if (__builtin_mul_overflow(sum, 10, &sum) ||
		    __builtin_add_overflow(sum, (uint64_t)(**text - '0'), &sum) || sum > INT64_MAX)
			return -ERANGE;
	}
	*value = sum;
	return 0;
}

int hr_size_parse(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMGT";
	uint64_t value;
	unsigned shift = 0;
	int err = parse_digits(&text, &value);

	if (err)
		return err;
	if (*text) {
		const char *unit = strchr(units, toupper((unsigned char)*text));

		if (!unit)
			return -EINVAL;
		shift = 10 * (unsigned)(unit - units + 1);
		text++;
	}
	if (*text)
		return -EINVAL;
	if (value > (uint64_t)INT64_MAX >> shift)
		return -ERANGE;
	*bytes = value << shift;
	return 0;
}

int hr_duration_parse(const char *text, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} unit[] = {
		{ "ms", 1000000 },	{ "s", 1000000000 },	 { "m", 60000000000 },
		{ "h", 3600000000000 }, { "d", 86400000000000 },
	};
	uint64_t value;
	int err = parse_digits(&text, &value);

	if (err)
		return err;
	for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) {
		if (strcmp(text, unit[i].name) != 0)
			continue;
		if (__builtin_mul_overflow(value, unit[i].ns, &value) || value > INT64_MAX)
			return -ERANGE;
		*ns = value;
		return 0;
	}
	return -EINVAL;
}

const char *hr_span_format(char *text, size_t bytes, uint64_t ns)
{
	const unsigned long long s = ns / HR_NS_PER_S;

	if (s >= DAY_S)
		snprintf(text, bytes, "%llu d %llu h", s / DAY_S, s % DAY_S / HOUR_S);
	else if (s >= HOUR_S)
		snprintf(text, bytes, "%llu h %llu min", s / HOUR_S, s % HOUR_S / MINUTE_S);
	else if (s >= MINUTE_S)
		snprintf(text, bytes, "%llu min %llu s", s / MINUTE_S, s % MINUTE_S);
	else if (s)
		snprintf(text, bytes, "%llu.%llu s", s, ns % HR_NS_PER_S / (HR_NS_PER_S / 10));
	else
		snprintf(text, bytes, "%llu ms", (unsigned long long)(ns / HR_NS_PER_MS));
	return text;
}

/* ---- the nearest word */

#define WORD_MAX 32u
#define EDITS_MAX 2u

static unsigned min_of_three(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Optimal string alignment distance, computed with three rows of the table. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned row[3][WORD_MAX + 1];
	unsigned *before = row[0], *last = row[1], *now = row[2];

	for (size_t j = 0; j <= nb; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned *spare = before;

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned same = a[i - 1] == b[j - 1] ? 0 : 1;

			now[j] = min_of_three(last[j] + 1, now[j - 1] + 1, last[j - 1] + same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
		before = last;
		last = now;
		now = spare;
	}
	return last[nb];
}

const char *hr_nearest(const char *word, const char *const *known, size_t count)
{
	size_t length = strlen(word);
	const char *best = NULL;
	unsigned best_edits = EDITS_MAX + 1;

	if (length == 0 || length > WORD_MAX)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		size_t known_length = strlen(known[i]);
		unsigned edits;

		if (known_length > WORD_MAX)
			continue;
		edits = distance(word, length, known[i], known_length);
		/*
		 * Two edits turn any word of two letters into any other, so short words get no
		 * suggestion.
		 */
		if (edits < best_edits && edits < known_length && edits < length) {
			best_edits = edits;
			best = known[i];
		}
	}
	for (size_t i = 0; !best && i < count; i++)
		if (length >= 2 && strncmp(word, known[i], length) == 0)
			best = known[i];
	return best;
}

/* ---- numbers in files of a machine */

bool hr_number_parse(const char *text, int base, uint64_t max, const char **end, uint64_t *value)
{
	unsigned long long number;
	char *behind;

	if (!isxdigit((unsigned char)*text))
		return false;
	errno = 0;
	number = strtoull(text, &behind, base);
	if (behind == text || errno || number > max)
		return false;
	*end = behind;
	*value = number;
	return true;
}

bool hr_number_parse_u32(const char *text, int base, uint32_t *value)
{
	const char *end;
	uint64_t number;

	if (!hr_number_parse(text, base, UINT32_MAX, &end, &number) || *end)
		return false;
	*value = (uint32_t)number;
	return true;
}

void hr_text_append(char *text, size_t capacity, const char *format, ...)
{
	const size_t used = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + used, capacity - used, format, args);
	va_end(args);
}

/* ---- quotes */

static bool is_plain(const char *text)
{
	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_./:,=+@%-", *c))
			return false;
	return *text;
}

/* `special` characters become `in_place` and the character. */
static const char *quote_text(const char *text, char *to, char quote, const char *special,
			      const char *in_place, const char *behind)
{
	const size_t most = strlen(in_place) + 1 + strlen(behind);
	char *at = to;

	*at++ = quote;
	for (; *text && at + most + 2 <= to + HR_QUOTE_BYTES; text++) {
		const bool is_special = strchr(special, *text);

		if (is_special)
			at = stpcpy(at, in_place);
		*at++ = *text;
		if (is_special)
			at = stpcpy(at, behind);
	}
	*at++ = quote;
	*at = '\0';
	return to;
}

const char *hr_quote(const char *text, char to[HR_QUOTE_BYTES])
{
	const size_t bytes = strlen(text) + 1;

	if (is_plain(text) && bytes <= HR_QUOTE_BYTES)
		return memcpy(to, text, bytes);
	return quote_text(text, to, '\'', "'", "'\\", "'");
}

const char *hr_quote_config(const char *text, char to[HR_QUOTE_BYTES])
{
	return quote_text(text, to, '"', "\"\\", "\\", "");
}

bool hr_is_line(const char *text, size_t bytes)
{
	const size_t length = strnlen(text, bytes);

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return length < bytes;
}
