/*
 * pci/function.h - one function of this machine: what the kernel says of it, and taking it over.
 *
 * Looking needs no rights. Opening is for root: it locks the function against other processes of
 * this kind, and everything that is changed afterwards (decoding, bus mastering, the kernel's count
 * of who has it enabled) is put back by hr_function_close(). When this process dies with the function
 * open, bus mastering is turned off before its memory belongs to others (pci/custodian.h).
 *
 * message is HR_LOG_LINE_MAX bytes and says what is wrong and what to do; nothing is logged here.
 */
#ifndef PCI_FUNCTION_H
#define PCI_FUNCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pci/topo/fields.h"
#include "pci/topo/model.h"

#define HR_CLASS_NVME 0x010802u /* mass storage, non-volatile memory, NVM Express I/O controller */
#define HR_NO_GROUP (-1)

/* What sysfs says. */
struct hr_function_state {
	char bdf[HR_BDF_MAX]; /* with its domain */
	uint32_t class;	      /* 24 bits */
	char driver[64];      /* "" when none is bound */
	int group;	      /* IOMMU group, or HR_NO_GROUP */
	char group_type[16];  /* "identity", "DMA", "DMA-FQ", ...; "" when it cannot be read */
};

/* 0; -EINVAL: not an address; -ENOENT: there is no such function. */
int hr_function_look(const char *address, struct hr_function_state *state, char *message);

/* True when the function may master the bus, as its command register says. False also for a function
 * that is not there, does not answer, or whose register cannot be read. Changes nothing. */
bool hr_function_masters_bus(const char *address);

/*
 * True when what the function puts on the bus is translated before it reaches memory, so that
 * physical addresses mean nothing: a group exists and its domain is not the identity.
 */
bool hr_function_translated(const struct hr_function_state *state);

struct pci_device;

struct hr_function {
	char bdf[HR_BDF_MAX];
	struct pci_device *dev;
	int lock;	  /* descriptor that carries it */
	bool virtual;	  /* an SR-IOV virtual function: no BARs and no memory enable of its own */
	uint16_t command; /* register as it was found */
	bool changed;	  /* the register may differ from that */
	bool counted;	  /* we are in the kernel's count */
	int custody[2];	  /* what undoes it when this process dies */
};

/*
 * Lock the function at bdf, as hr_function_open() does, and nothing else; *fd is closed to let it go.
 * Waits a second for the custodian of a process that has died. 0; -EACCES: not root; -EBUSY: another
 * process has it; -ENOENT: gone; -errno of open(2).
 */
int hr_function_lock(const char *bdf, int *fd, char *message);

/*
 * Take the function at bdf, from hr_function_look().
 * 0; -EACCES: not root; -EBUSY: another process has it; -ENODEV: gone, or no PCI access.
 */
int hr_function_open(struct hr_function *f, const char *bdf, char *message);

/* Put everything back. Mappings must be gone. Does nothing to a struct that is all zero. */
void hr_function_close(struct hr_function *f);

/*
 * Power the function up and set bits of its command register (HR_COMMAND_MSE, HR_COMMAND_BME; the
 * former is hardwired to 0 in virtual functions, where the physical function's VF MSE decides);
 * INTx is turned off with bus mastering. 0; -EBUSY: a kernel driver is bound; -EIO: the bits do not
 * stay; -ENODEV.
 */
int hr_function_enable(struct hr_function *f, uint16_t bits, char *message);

/* Clear bus mastering, now and for good: hr_function_close() does not set it again. */
void hr_function_silence(struct hr_function *f);

/* The largest memory BAR, a prefetchable one before others: where a device shows its memory. 0 when
 * there is none. */
unsigned hr_function_peer_bar(const struct hr_function *f);

/* A memory BAR as this process sees it. */
struct hr_bar_map {
	void *cpu;
	uint64_t bus; /* address on the bus, as the register has it */
	size_t bytes;
};

/*
 * Map memory BAR `bar` (0..5), uncached; the function has HR_COMMAND_MSE.
 * 0; -ENXIO: no such BAR, an I/O BAR, or not assigned; -EBUSY: a kernel driver owns it; -ENOMEM.
 */
int hr_function_map(struct hr_function *f, unsigned bar, struct hr_bar_map *map, char *message);
void hr_function_unmap(struct hr_function *f, struct hr_bar_map *map);

#endif
