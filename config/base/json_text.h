/*
 * config/base/json_text.h - checks a JSON value that another program, or a disk, has delivered as text.
 */
#ifndef CONFIG_BASE_JSON_TEXT_H
#define CONFIG_BASE_JSON_TEXT_H

#include <stdbool.h>

#define HR_JSON_TEXT_DEPTH 16u /* objects and arrays inside one another */

/*
 * True when the text is one object (RFC 8259) in one line, nested at most HR_JSON_TEXT_DEPTH deep.
 * Bytes that are not UTF-8 (RFC 3629), and characters below 0x20, are refused. Keys may be double.
 */
bool hr_json_text_is_object(const char *text);

#endif
