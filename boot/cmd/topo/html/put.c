/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the page: characters of HTML, and colours of verdicts. */
#include "boot/cmd/topo/html/html.h"

#include <stdarg.h>
#include <string.h>

/* Length of the character at c; 0: not UTF-8, or not allowed in a page. */
static size_t character(const unsigned char *c)
{
	const size_t n = c[0] < 0x80 ? 1 : c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
	uint32_t code = n == 1 ? c[0] : c[0] & (0x3fu >> (n - 1));

	if (n == 1)
		return c[0] == '\t' || c[0] == '\n' || (c[0] >= ' ' && c[0] != 0x7f);
	if (c[0] < 0xc2 || c[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (c[i] & 0x3f);
	}
	/* Refuse overlong forms, surrogates, C1 controls and codes beyond Unicode. */
	if ((n == 3 && code < 0x800) || (n == 4 && code < 0x10000) || code > 0x10ffff ||
	    (code >= 0xd800 && code < 0xe000) || code < 0xa0)
		return 0;
	return n;
}

void hr_html_text(FILE *out, const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c;) {
		const size_t n = character(c);

		if (n == 0)
			fputs("&#xfffd;", out);
		else if (*c == '<')
			fputs("&lt;", out);
		else if (*c == '>')
			fputs("&gt;", out);
		else if (*c == '&')
			fputs("&amp;", out);
		else if (*c == '"')
			fputs("&quot;", out);
		else if (*c == '\'')
			fputs("&#39;", out);
		else
			fwrite(c, 1, n, out);
		c += n ? n : 1;
	}
}

void hr_html_put(FILE *out, const char *markup, ...)
{
	va_list args;

	va_start(args, markup);
	for (; *markup; markup++)
		if (*markup == '~')
			hr_html_text(out, va_arg(args, const char *));
		else
			fputc(*markup, out);
	va_end(args);
}

const char *hr_html_colour(enum hr_verdict verdict)
{
	static const char *const name[] = {
		[HR_DIRECT] = "good",		[HR_RC_LISTED] = "root",
		[HR_REDIR_LISTED] = "detour",	[HR_RC_UNLISTED] = "root",
		[HR_REDIR_UNLISTED] = "detour", [HR_WRITES_ONLY] = "detour",
		[HR_UNKNOWN] = "unknown",	[HR_VFIO_CONFLICT] = "bad",
		[HR_BLOCKED] = "bad",		[HR_SILENT_LOSS] = "loss"
	};

	return name[verdict];
}
