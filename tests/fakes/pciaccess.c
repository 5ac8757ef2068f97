/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/pciaccess.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define COMMAND 4u

struct fake_pci fake_pci;

static const char *failing;
static unsigned failing_at, next;
static int failing_with;

void fake_pci_fails(const char *call, unsigned nth, int with)
{
	failing = call;
	failing_at = nth;
	failing_with = with;
}

void fake_pci_start(void)
{
	memset(&fake_pci, 0, sizeof fake_pci);
	fake_pci_fails(NULL, 0, 0);
}

uint16_t fake_pci_command(void)
{
	uint16_t value;

	memcpy(&value, fake_pci.config + COMMAND, sizeof value);
	return value;
}

void fake_pci_set_command(uint16_t value)
{
	memcpy(fake_pci.config + COMMAND, &value, sizeof value);
}

/* 0, or the number with which this call fails. */
static int result(const char *call)
{
	return failing && strcmp(call, failing) == 0 && --failing_at == 0 ? failing_with : 0;
}

/* ---- the library */

int pci_system_init(void)
{
	const int err = result("init");

	fake_pci.users += !err;
	return err;
}

void pci_system_cleanup(void)
{
	fake_pci.users--;
}

struct pci_device *pci_device_find_by_slot(uint32_t domain, uint32_t bus, uint32_t dev, uint32_t fn)
{
	return result("find") ? NULL : fake_pci.device;
}

int pci_device_probe(struct pci_device *dev)
{
	return result("probe");
}

/* Registers of the first device, in words of 2 and 4 bytes. */
static int get(const char *call, struct pci_device *dev, void *to, pciaddr_t offset, size_t size)
{
	const int err = result(call);

	cr_assert_eq(dev, fake_pci.device);
	cr_assert(offset % size == 0 && offset + size <= sizeof fake_pci.config);
	if (err > 0)
		return err;
	memcpy(to, fake_pci.config + offset, size);
	if (err)
		memset(to, 0xff, size);
	return 0;
}

static int set(const char *call, struct pci_device *dev, uint32_t data, pciaddr_t offset,
	       size_t size)
{
	const int err = result(call);

	cr_assert_eq(dev, fake_pci.device);
	cr_assert(offset % size == 0 && offset + size <= sizeof fake_pci.config);
	data &= ~fake_pci.stuck;
	if (!err)
		memcpy(fake_pci.config + offset, &data, size);
	return err;
}

int pci_device_cfg_read_u16(struct pci_device *dev, uint16_t *data, pciaddr_t offset)
{
	return get("read", dev, data, offset, sizeof *data);
}

int pci_device_cfg_read_u32(struct pci_device *dev, uint32_t *data, pciaddr_t offset)
{
	return get("read32", dev, data, offset, sizeof *data);
}

int pci_device_cfg_write_u16(struct pci_device *dev, uint16_t data, pciaddr_t offset)
{
	return set("write", dev, data, offset, sizeof data);
}

int pci_device_cfg_write_u32(struct pci_device *dev, uint32_t data, pciaddr_t offset)
{
	return set("write32", dev, data, offset, sizeof data);
}

int pci_device_cfg_read(struct pci_device *dev, void *to, pciaddr_t offset, pciaddr_t size,
			pciaddr_t *got)
{
	const uint32_t shown = fake_pci.bytes[dev - fake_pci.device];
	const pciaddr_t n = offset >= shown ? 0 : shown - offset < size ? shown - offset : size;

	memcpy(to, fake_pci.config + offset, n);
	if (n || shown)
		*got = n;
	return n == size ? 0 : EIO;
}

int pci_device_map_range(struct pci_device *dev, pciaddr_t base, pciaddr_t size, unsigned flags,
			 void **to)
{
	const int err = result("map");

	cr_assert_eq(dev, fake_pci.device);
	cr_assert_eq(flags, PCI_DEV_MAP_FLAG_WRITABLE);
	if (!err) {
		*to = dev;
		fake_pci.mapped = base;
	}
	return err;
}

int pci_device_unmap_range(struct pci_device *dev, void *at, pciaddr_t size)
{
	cr_assert_eq(dev, fake_pci.device);
	cr_assert_eq(at, (void *)dev);
	cr_assert_neq(fake_pci.mapped, 0u);
	fake_pci.mapped = 0;
	return 0;
}

const char *pci_device_get_vendor_name(const struct pci_device *dev)
{
	return fake_pci.vendor[dev - fake_pci.device];
}

const char *pci_device_get_device_name(const struct pci_device *dev)
{
	return fake_pci.name[dev - fake_pci.device];
}

struct pci_device_iterator *pci_slot_match_iterator_create(const struct pci_slot_match *match)
{
	cr_assert_null(match);
	next = 0;
	return result("all") ? NULL : (struct pci_device_iterator *)(void *)&next;
}

struct pci_device *pci_device_next(struct pci_device_iterator *all)
{
	cr_assert_eq((void *)all, (void *)&next);
	return next < fake_pci.devices ? &fake_pci.device[next++] : NULL;
}

void pci_iterator_destroy(struct pci_device_iterator *all)
{
}
