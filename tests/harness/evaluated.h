/*
 * tests/harness/evaluated.h - everything that an evaluation derives from the machine of
 * tests/harness/evaluate.h, as one line of text for the machine, a function or a pair, so that a
 * test compares whole records.
 *
 * Values are hexadecimal but for payloads, verdicts and distances; flags are words; rules are named by
 * their identifiers. What is 0, false or not known is left out. Each text is valid until the next
 * call of any of them.
 */
#ifndef TESTS_HARNESS_EVALUATED_H
#define TESTS_HARNESS_EVALUATED_H

#include "pci/topo/verdict.h"

/* Derived facts, step and VFIO blocker of a function. */
const char *fake_evaluated_function(int32_t fn);

/* Modes, root buses, endpoints and rules of the machine. */
const char *fake_evaluated_machine(void);

/* All fields of a pair. */
const char *fake_evaluated_pair(const struct hr_pair *p);

#endif
