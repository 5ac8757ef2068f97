/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/described.h - everything that a model knows about a function, or about the machine,
 * as one line of text, so that a test compares whole records.
 */
#ifndef TESTS_HARNESS_DESCRIBED_H
#define TESTS_HARNESS_DESCRIBED_H

#include "pci/topo/model.h"

/*
 * Known facts as "name=hex/source" in the order of HR_FACTS, BARs as "bar2=base+size f<flags>
 * <source>,<source of the size>", bridge windows, links, words and flags; values are
 * separated by spaces. What is unknown is left out. Sources are 1
 * inferred, 2 XML, 3 text, 4 sysfs, 5 configuration space, 6 user, 7 kernel log. The text is valid
 * until the next call.
 */
const char *fake_described(const struct hr_fn *f);

/* The same for the machine: "amd=1/4 kernel='6.1'". */
const char *fake_described_system(const struct hr_system *sys);

#endif
