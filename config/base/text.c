#include "config/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"

#define MINUTE_S 60u
#define HOUR_S 3600u
#define DAY_S 86400u

/* Read digits at *text and advance *text past them. 0, -EINVAL: no digit, -ERANGE: over 2^63. */
static int digits(const char **text, uint64_t *value)
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
	int err = digits(&text, &value);

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
	int err = digits(&text, &value);

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
