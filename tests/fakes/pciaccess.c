#include "tests/fakes/pciaccess.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define COMMAND 4u

struct fake_pci fake_pci;

static struct {
	size_t used;
	char said[8192];
} * shared;
static unsigned next;

void fake_pci_start(void)
{
	memset(&fake_pci, 0, sizeof fake_pci);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	cr_assert_neq(shared, MAP_FAILED);
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

void fake_pci_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	shared->used += (size_t)vsnprintf(shared->said + shared->used,
					  sizeof shared->said - shared->used, format, args);
	va_end(args);
	cr_assert_lt(shared->used, sizeof shared->said);
}

int fake_pci_result(const char *call)
{
	return fake_pci.failing && strcmp(call, fake_pci.failing) == 0 && --fake_pci.failing_at == 0
		       ? fake_pci.failing_with
		       : 0;
}

void fake_pci_expect(const char *want, const char *what)
{
	cr_expect_str_eq(shared->said, want, "%s:\n%s\n%s", what, shared->said, want);
	memset(shared, 0, sizeof *shared);
}

/* ---- the library */

int pci_system_init(void)
{
	fake_pci_say("init ");
	return fake_pci_result("init");
}

void pci_system_cleanup(void)
{
	fake_pci_say("cleanup ");
}

struct pci_device *pci_device_find_by_slot(uint32_t domain, uint32_t bus, uint32_t dev, uint32_t fn)
{
	fake_pci_say("find %x:%x:%x.%x ", domain, bus, dev, fn);
	return fake_pci_result("find") ? NULL : fake_pci.device;
}

int pci_device_probe(struct pci_device *dev)
{
	fake_pci_say("probe ");
	return fake_pci_result("probe");
}

/* Registers of the first device, in words of 2 and 4 bytes. */
static int get(const char *call, struct pci_device *dev, void *to, pciaddr_t offset, size_t size)
{
	const int err = fake_pci_result(call);

	cr_assert_eq(dev, fake_pci.device);
	cr_assert(offset % size == 0 && offset + size <= sizeof fake_pci.config);
	if (offset == COMMAND && size == 2)
		fake_pci_say("%s ", call);
	else
		fake_pci_say("%s %x ", call, (unsigned)offset);
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
	const int err = fake_pci_result(call);

	cr_assert_eq(dev, fake_pci.device);
	cr_assert(offset % size == 0 && offset + size <= sizeof fake_pci.config);
	if (offset == COMMAND)
		fake_pci_say("%s %04x ", call, data);
	else
		fake_pci_say("%s %x=%04x ", call, (unsigned)offset, data);
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

	fake_pci_say("%x: %x+%x ", dev->bus, (unsigned)offset, (unsigned)size);
	memcpy(to, fake_pci.config + offset, n);
	if (n || shown)
		*got = n;
	return n == size ? 0 : EIO;
}

int pci_device_map_range(struct pci_device *dev, pciaddr_t base, pciaddr_t size, unsigned flags,
			 void **to)
{
	const int err = fake_pci_result("map");

	cr_assert_eq(dev, fake_pci.device);
	fake_pci_say("map %llx+%llx %u ", (unsigned long long)base, (unsigned long long)size,
		     flags);
	if (!err)
		*to = dev;
	return err;
}

int pci_device_unmap_range(struct pci_device *dev, void *at, pciaddr_t size)
{
	cr_assert_eq(dev, fake_pci.device);
	cr_assert_eq(at, (void *)dev);
	fake_pci_say("unmap %llx ", (unsigned long long)size);
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
	return fake_pci_result("all") ? NULL : (struct pci_device_iterator *)(void *)&next;
}

struct pci_device *pci_device_next(struct pci_device_iterator *all)
{
	cr_assert_eq((void *)all, (void *)&next);
	return next < fake_pci.devices ? &fake_pci.device[next++] : NULL;
}

void pci_iterator_destroy(struct pci_device_iterator *all)
{
	fake_pci_say("destroy%s ", all ? "" : " none");
}
