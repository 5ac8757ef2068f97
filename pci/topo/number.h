/*
 * pci/topo/number.h - numbers in files of a machine: exact, or none.
 */
#ifndef PCI_TOPO_NUMBER_H
#define PCI_TOPO_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Read the number at the start of text, without a blank or a sign before it, in that base (as
 * strtoull() has it). *end: the text behind the number. False: text begins with no number, or the
 * number is above max; *value and *end stay as they were.
 */
bool hr_number_parse(const char *text, int base, uint64_t max, const char **end, uint64_t *value);

/* The same for a text that is one number of at most 32 bits and nothing else. */
bool hr_number_parse_u32(const char *text, int base, uint32_t *value);

#endif
