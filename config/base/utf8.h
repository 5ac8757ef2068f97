/*
 * config/base/utf8.h - UTF-8 (RFC 3629).
 */
#ifndef CONFIG_BASE_UTF8_H
#define CONFIG_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the UTF-8 sequence at s, which ends with a NUL at the latest; 0: it is not valid. */
static inline size_t hr_utf8_bytes(const unsigned char *s)
{
	const size_t n = s[0] < 0x80			? 1
			 : s[0] >= 0xc2 && s[0] <= 0xdf ? 2
			 : s[0] >= 0xe0 && s[0] <= 0xef ? 3
			 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
							: 0;
	/* Limits of the second byte exclude overlong forms, surrogates and codes above U+10FFFF. */
	const unsigned char least = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
	const unsigned char most = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;

	for (size_t i = 1; i < n; i++)
		if (s[i] < (i == 1 ? least : 0x80) || s[i] > (i == 1 ? most : 0xbf))
			return 0;
	return n;
}

#endif
