#include "config/base/quote.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool is_plain(const char *text)
{
	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_./:,=+@%-", *c))
			return false;
	return *text;
}

/* `special` characters become `in_place` and the character. */
static const char *put(const char *text, char *to, char quote, const char *special,
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
	return put(text, to, '\'', "'", "'\\", "'");
}

const char *hr_quote_config(const char *text, char to[HR_QUOTE_BYTES])
{
	return put(text, to, '"', "\"\\", "\\", "");
}

bool hr_is_line(const char *text, size_t bytes)
{
	const size_t length = strnlen(text, bytes);

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return length < bytes;
}
