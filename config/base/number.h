/*
 * config/base/number.h - parses numbers in files of a machine without loss, and builds texts.
 */
#ifndef CONFIG_BASE_NUMBER_H
#define CONFIG_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
