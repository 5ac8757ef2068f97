#include "config/base/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
