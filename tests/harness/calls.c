/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/calls.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char text[2][8192]; /* the present one; the one taken last */
static size_t used;

void calls_note(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	used += (size_t)vsnprintf(text[0] + used, sizeof text[0] - used, format, list);
	va_end(list);
	cr_assert_lt(used, sizeof text[0]);
}

const char *calls_text(void)
{
	return text[0];
}

const char *calls_take(void)
{
	memcpy(text[1], text[0], used + 1);
	text[0][0] = '\0';
	used = 0;
	return text[1];
}
