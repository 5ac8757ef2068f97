/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/pciaccess.h - libpciaccess as a test describes it: devices in memory, and one call that
 * fails.
 *
 * A test that includes this header is linked with these definitions in place of the library's.
 */
#ifndef TESTS_FAKES_PCIACCESS_H
#define TESTS_FAKES_PCIACCESS_H

#include <pciaccess.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_PCI_DEVICES 4u

struct fake_pci {
	/* The devices of an iterator. A search by slot finds the first one, with any address. */
	struct pci_device device[FAKE_PCI_DEVICES];
	unsigned devices;
	const char *vendor[FAKE_PCI_DEVICES], *name[FAKE_PCI_DEVICES]; /* or NULL */
	uint8_t config[4096];		  /* registers of all devices */
	uint32_t bytes[FAKE_PCI_DEVICES]; /* of them that the device shows; 0: none, an error */
	uint32_t stuck;			  /* bits that a write of a register does not set */
	int users;			  /* pci_system_init() without its cleanup */
	uint64_t mapped;		  /* address of the mapped range; 0: none */
};

extern struct fake_pci fake_pci;

/* Before a test: an empty machine in which no call fails. */
void fake_pci_start(void);

/*
 * The call of that name returns `with` at its nth time: init find probe read read32 write write32 map
 * all. With -1 a read succeeds, and reads all ones. NULL: no call fails.
 */
void fake_pci_fails(const char *call, unsigned nth, int with);

/* The command register. */
uint16_t fake_pci_command(void);
void fake_pci_set_command(uint16_t value);

#endif
