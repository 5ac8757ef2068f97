#include "config/file/number.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOUBLE_EXACT 9007199254740992.0 /* 2^53: a double holds every whole number up to it */
#define QUOTED 60			/* digits of a number that a message shows */

static size_t decimals(const char *text)
{
	size_t n = 0;

	while (isdigit((unsigned char)text[n]))
		n++;
	return n;
}

static size_t suffix(const char *text)
{
	return text[0] != 'L' ? 0 : text[1] == 'L' ? 2 : 1;
}

static size_t exponent(const char *text)
{
	const size_t sign = text[0] && (text[1] == '+' || text[1] == '-') ? 2 : 1;
	size_t n;

	if (text[0] != 'e' && text[0] != 'E')
		return 0;
	n = decimals(text + sign);
	return n ? sign + n : 0;
}

static size_t hexadecimals(const char *text)
{
	size_t n = 2;

	if (text[0] != '0' || (text[1] != 'x' && text[1] != 'X'))
		return 0;
	while (isxdigit((unsigned char)text[n]))
		n++;
	return n > 2 ? n : 0;
}

struct hr_number hr_number_find(const char *text)
{
	const size_t hex = hexadecimals(text), sign = *text == '+' || *text == '-';
	const size_t whole = sign + decimals(text + sign);
	struct hr_number number = { .integer = true };
	size_t end = whole;

	if (hex || (whole > sign && text[whole] != '.' && !exponent(text + whole))) {
		end = hex ? hex : whole;
		number.length = end + suffix(text + end);
		number.suffix = number.length > end;
		return number;
	}
	number.integer = false;
	if (text[end] == '.')
		end += 1 + decimals(text + end + 1);
	end += end > sign ? exponent(text + end) : 0;
	number.length = end > sign ? end : 0;
	return number;
}

static void check_integer(struct hr_mistakes *m, unsigned line, const char *text, size_t length)
{
	const bool minus = *text == '-', hex = hexadecimals(text) != 0;
	const uint64_t limit = (uint64_t)INT64_MAX + minus;
	size_t at = *text == '-' || *text == '+' ? 1 : hex ? 2 : 0;
	uint64_t sum = 0;

	for (; at < length && text[at] != 'L'; at++) {
		const char c = (char)tolower((unsigned char)text[at]);
		const uint64_t digit = (uint64_t)(c >= 'a' ? c - 'a' + 10 : c - '0');

		if (!__builtin_mul_overflow(sum, hex ? 16 : 10, &sum) &&
		    !__builtin_add_overflow(sum, digit, &sum) && sum <= limit)
			continue;
		hr_mistake(m, line, "the number %.*s%s does not fit: expected %lld to %lld",
			   (int)(length < QUOTED ? length : QUOTED), text,
			   length > QUOTED ? "..." : "", (long long)INT64_MIN,
			   (long long)INT64_MAX);
		return;
	}
}

/*
 * Compare two numbers without sign, leading zeros and zero fraction, which do not change the value.
 */
static bool same_digits(const char *text, size_t length, const char *exact)
{
	const size_t start = *text == '+' || *text == '-';
	const size_t zeros = start + strspn(text + start, "0");
	const size_t digits = decimals(text + zeros);

	for (size_t at = zeros + digits + 1; at < length; at++)
		if (text[at] != '0')
			return false;
	return strlen(exact) == digits && memcmp(text + zeros, exact, digits) == 0;
}

static const char *wrong_size(double value, bool zero)
{
	if (isinf(value))
		return "is too large: expected at most 1.8e308";
	if (!zero && fabs(value) < DBL_MIN)
		return "is too small: expected 0, or at least 2.2e-308";
	return NULL;
}

/* The part of a number before its exponent. */
struct mantissa {
	size_t length;
	bool digits, zero;
};

static struct mantissa look_at_mantissa(const char *text, size_t length)
{
	struct mantissa m = { .zero = true };

	for (; m.length < length && text[m.length] != 'e' && text[m.length] != 'E'; m.length++) {
		const bool digit = isdigit((unsigned char)text[m.length]) != 0;

		m.digits |= digit;
		m.zero &= !digit || text[m.length] == '0';
	}
	return m;
}

static void check_real(struct hr_mistakes *m, unsigned line, const char *text, size_t length)
{
	const int shown = (int)(length < QUOTED ? length : QUOTED);
	const char *dots = length > QUOTED ? "..." : "";
	const struct mantissa mantissa = look_at_mantissa(text, length);
	const double value = strtod(text, NULL);
	const char *wrong = wrong_size(value, mantissa.zero);
	char exact[DBL_MAX_10_EXP + 3];

	if (!mantissa.digits) {
		hr_mistake(m, line, "'%.*s%s' is not a number: expected digits", shown, text, dots);
		return;
	}
	if (wrong) {
		hr_mistake(m, line, "the number %.*s%s %s", shown, text, dots, wrong);
		return;
	}
	snprintf(exact, sizeof exact, "%.0f", fabs(value));
	if (fabs(value) < DOUBLE_EXACT || mantissa.length < length ||
	    same_digits(text, length, exact))
		return;
	hr_mistake(m, line, "the number %.*s%s is not exact: it would become %s%.60s", shown, text,
		   dots, value < 0 ? "-" : "", exact);
}

void hr_number_check(struct hr_mistakes *m, unsigned line, const char *text,
		     const struct hr_number *number)
{
	if (number->integer)
		check_integer(m, line, text, number->length);
	else
		check_real(m, line, text, number->length);
}
