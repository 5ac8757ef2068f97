/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/text.h - texts of numbers, durations and sizes; nearest words; quotes for shells;
 * UTF-8.
 */
#ifndef CONFIG_BASE_TEXT_H
#define CONFIG_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- durations and sizes as the configuration spells them: "500ms", "5s", "2m", "1h",
 * "7d"; "64M"; and durations as reports print them.
 */

/* 0, or -EINVAL: not a duration, -ERANGE: over 2^63 ns. */
int hr_duration_parse(const char *text, uint64_t *ns);

/* "64M" -> 67108864. 0, or -EINVAL: not a size, -ERANGE: over 2^63. */
int hr_size_parse(const char *text, uint64_t *bytes);

/* "3 d 4 h", "20 h 29 min", "4 min 10 s", "12.5 s", "517 ms", without rounding up. Returns text. */
const char *hr_span_format(char *text, size_t bytes, uint64_t ns);

/* ---- "did you mean": the known word closest to a mistyped one */

/*
 * The word of known[0..count) within two edits (insert, delete, replace, swap of neighbours) of
 * `word`, or a known word that begins with `word`; NULL when there is none. Never allocates.
 */
const char *hr_nearest(const char *word, const char *const *known, size_t count);

/* ---- parses numbers in files of a machine without loss, and builds texts */

/*
 * Parse the number at the start of text in that base (as for strtoull()); no blank or sign may
 * precede it. *end: the text after the number. False: no number, or a number above max; *value and
 * *end do not change.
 */
bool hr_number_parse(const char *text, int base, uint64_t max, const char **end, uint64_t *value);

/* The same for a text that is one number of at most 32 bits and nothing else. */
bool hr_number_parse_u32(const char *text, int base, uint32_t *value);

/* Append to text[capacity] (printf-like); the part that does not fit is left out. */
void hr_text_append(char *text, size_t capacity, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- texts of disks and files: in commands that a message suggests, and as one line.
 *
 * A user may paste such a command into a shell. A serial number, a device or a name of an object can
 * have any characters, and must not end the word that it is.
 */

#define HR_QUOTE_BYTES 1024u /* for hr_quote() of a text of up to 250 characters */

/*
 * The text as one word of a POSIX shell: unchanged when no character has a meaning there, else in
 * single quotes, with '\'' for each single quote. Writes to `to`, and returns `to`. A text for which
 * there is no room is cut, and stays one word.
 */
const char *hr_quote(const char *text, char to[HR_QUOTE_BYTES]);

/* The same as a string of a configuration, in double quotes, with \" and \\. */
const char *hr_quote_config(const char *text, char to[HR_QUOTE_BYTES]);

/* True for one line: text has its NUL in `bytes`, and no control characters (they change terminals). */
bool hr_is_line(const char *text, size_t bytes);

/* ---- UTF-8 (RFC 3629) */

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
