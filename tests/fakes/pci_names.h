/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/pci_names.h - PCI functions without names, in place of libpciaccess's search in the
 * machine's list (pci.ids, 1.4 MB), which takes seconds with the address sanitizer. A test that
 * includes this header is linked with it.
 */
#ifndef TESTS_FAKES_PCI_NAMES_H
#define TESTS_FAKES_PCI_NAMES_H

#include <pciaccess.h>

#endif
