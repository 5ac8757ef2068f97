#include "config/base/json_text.h"

#include <string.h>

#include "config/base/utf8.h"

/* Each function returns the text behind what it has read; NULL: it is not there, or not valid. */
static const char *value(const char *at, unsigned depth);

static const char *blanks(const char *at)
{
	return at + strspn(at, " ");
}

/* Behind the backslash. */
static const char *escape(const char *at)
{
	if (*at == 'u')
		return strspn(at + 1, "0123456789abcdefABCDEF") >= 4 ? at + 5 : NULL;
	return *at && strchr("\"\\/bfnrt", *at) ? at + 1 : NULL;
}

static const char *string(const char *at)
{
	if (*at++ != '"')
		return NULL;
	while (at && *at != '"') {
		const size_t n = hr_utf8_bytes((const unsigned char *)at);

		if (n == 0 || (unsigned char)*at < ' ')
			return NULL;
		at = *at == '\\' ? escape(at + 1) : at + n;
	}
	return at ? at + 1 : NULL;
}

static const char *digits(const char *at)
{
	const size_t n = strspn(at, "0123456789");

	return n ? at + n : NULL;
}

static const char *number(const char *at)
{
	at += *at == '-';
	if (*at == '0')
		at++;
	else
		at = digits(at);
	if (at && *at == '.')
		at = digits(at + 1);
	if (at && (*at == 'e' || *at == 'E')) {
		at++;
		at = digits(at + (*at == '+' || *at == '-'));
	}
	return at;
}

static const char *word(const char *at)
{
	static const char *const words[] = { "true", "false", "null" };

	for (unsigned i = 0; i < 3; i++)
		if (strncmp(at, words[i], strlen(words[i])) == 0)
			return at + strlen(words[i]);
	return NULL;
}

static const char *member(const char *at, bool named, unsigned depth)
{
	if (named) {
		at = string(at);
		at = at ? blanks(at) : NULL;
		at = at && *at == ':' ? blanks(at + 1) : NULL;
	}
	return at ? value(at, depth) : NULL;
}

/* An object or an array, behind its first character. */
static const char *nest(const char *at, char end, unsigned depth)
{
	if (depth == 0)
		return NULL;
	at = blanks(at);
	if (*at == end)
		return at + 1;
	for (;;) {
		at = member(blanks(at), end == '}', depth - 1);
		at = at ? blanks(at) : NULL;
		if (!at || *at != ',')
			break;
		at++;
	}
	return at && *at == end ? at + 1 : NULL;
}

static const char *value(const char *at, unsigned depth)
{
	switch (*at) {
	case '{':
		return nest(at + 1, '}', depth);
	case '[':
		return nest(at + 1, ']', depth);
	case '"':
		return string(at);
	case 't':
	case 'f':
	case 'n':
		return word(at);
	default:
		return number(at);
	}
}

bool hr_json_text_is_object(const char *text)
{
	const char *end = *text == '{' ? value(text, HR_JSON_TEXT_DEPTH) : NULL;

	return end && *end == '\0';
}
