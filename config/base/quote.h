/*
 * config/base/quote.h - texts of disks and files: in commands that a message suggests, and as one line.
 *
 * A user may paste such a command into a shell. A serial number, a device or a name of an object can
 * have any characters, and must not end the word that it is.
 */
#ifndef CONFIG_BASE_QUOTE_H
#define CONFIG_BASE_QUOTE_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
