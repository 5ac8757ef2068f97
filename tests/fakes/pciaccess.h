/*
 * tests/fakes/pciaccess.h - libpciaccess as a test describes it: devices in memory, a text of all
 * calls in their order, and one call that fails.
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
	/*
	 * The call of that name fails at its n-th time with that number: init find probe read
	 * read32 write write32 map, or another name of the test's. With -1 a read succeeds, and reads
	 * all ones.
	 */
	const char *failing;
	unsigned failing_at;
	int failing_with;
};

extern struct fake_pci fake_pci;

/* Before a test: an empty machine; the text is shared with child processes. */
void fake_pci_start(void);

/* The command register. */
uint16_t fake_pci_command(void);
void fake_pci_set_command(uint16_t value);

/* Append to the text of all calls. */
void fake_pci_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* 0, or the number with which this call fails. */
int fake_pci_result(const char *call);

/* Compare the text with the expected one, and empty it. `what` is printed when they differ. */
void fake_pci_expect(const char *want, const char *what);

#endif
