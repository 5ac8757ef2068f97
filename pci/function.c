/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/function.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pciaccess.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/lock.h"
#include "config/base/log.h"
#include "pci/library.h"
#include "pci/undo.h"
#include "pci/topo/sysfs/files.h"
#include "config/base/text.h"
#include "pci/topo/source/source.h"

#define DEVICES "sys/bus/pci/devices"
#define COMMAND_INTX_OFF 0x0400u
#define BAR_ADDRESS 0xfffffff0u
#define BAR_64 0x4u

/* The undo helper closes a lock only after the steps that follow the death of the lock's owner. */
#define LOCK_TRIES 20u
#define LOCK_PAUSE_NS (50 * HR_NS_PER_MS)

/* ---- facts from sysfs */

/* Read a one-line file below the function's folder; false: not readable. */
static bool read_word(const struct hr_files *files, const char *path, char *to, size_t capacity)
{
	long n = files->read(files, path, to, capacity - 1);

	to[n > 0 ? n : 0] = '\0';
	to[strcspn(to, "\n")] = '\0';
	return n > 0;
}

/* Last part of a link's target; "": no link. */
static void read_name(const struct hr_files *files, const char *path, char *to, size_t capacity)
{
	char target[256];
	const char *last;

	*to = '\0';
	if (files->link(files, path, target, sizeof target))
		return;
	last = strrchr(target, '/');
	snprintf(to, capacity, "%.*s", (int)capacity - 1, last ? last + 1 : target);
}

static void read_group(const struct hr_files *files, struct hr_function_state *state)
{
	char path[96], name[32];
	uint32_t number;

	state->group = HR_NO_GROUP;
	snprintf(path, sizeof path, DEVICES "/%s/iommu_group", state->bdf);
	read_name(files, path, name, sizeof name);
	if (!hr_number_parse_u32(name, 10, &number) || number > INT_MAX)
		return;
	state->group = (int)number;
	snprintf(path, sizeof path, "sys/kernel/iommu_groups/%d/type", state->group);
	read_word(files, path, state->group_type, sizeof state->group_type);
}

static uint16_t read_id(const struct hr_files *files, const char *bdf, const char *name)
{
	char path[96], word[32];

	snprintf(path, sizeof path, DEVICES "/%s/%s", bdf, name);
	return read_word(files, path, word, sizeof word) ? (uint16_t)strtoul(word, NULL, 16) : 0;
}

int hr_function_look(const char *address, struct hr_function_state *state, struct hr_error *e)
{
	uint32_t domain, bus, dev, fn;
	struct hr_files files;
	char path[96], word[32];
	const size_t n = hr_bdf_parse(address, &domain, &bus, &dev, &fn);

	memset(state, 0, sizeof *state);
	if (n == 0 || address[n] != '\0' || dev > 31 || fn > 7)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "'%.100s' is not a PCI function (expected like 0000:41:00.0)",
			       address);
	snprintf(state->bdf, sizeof state->bdf, "%04x:%02x:%02x.%x", domain & 0xfffffu, bus & 0xffu,
		 dev & 0x1fu, fn & 7u);
	hr_files_folder(&files, "/");
	snprintf(path, sizeof path, DEVICES "/%s/class", state->bdf);
	if (!read_word(&files, path, word, sizeof word))
		return hr_fail(
			e, HR_ERROR_MISSING, -ENOENT,
			"%s: there is no such PCI function; 'headrace topo' lists those that are "
			"there",
			state->bdf);
	state->class = (uint32_t)strtoul(word, NULL, 16);
	state->vendor = read_id(&files, state->bdf, "vendor");
	state->device = read_id(&files, state->bdf, "device");
	snprintf(path, sizeof path, DEVICES "/%s/driver", state->bdf);
	read_name(&files, path, state->driver, sizeof state->driver);
	read_group(&files, state);
	return 0;
}

bool hr_function_masters_bus(const char *address)
{
	struct hr_function_state state;
	char path[96];
	uint8_t command[2] = { 0, 0 };
	uint16_t value;
	int fd;

	if (hr_function_look(address, &state, NULL))
		return false;
	snprintf(path, sizeof path, "/" DEVICES "/%s/config", state.bdf);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, command, sizeof command, HR_CFG_COMMAND) != sizeof command)
		command[0] = command[1] = 0;
	if (fd >= 0)
		close(fd);
	value = (uint16_t)(command[0] | command[1] << 8);
	return value != UINT16_MAX && (value & HR_COMMAND_BME);
}

bool hr_function_translated(const struct hr_function_state *state)
{
	return state->group != HR_NO_GROUP && strcmp(state->group_type, "identity") != 0;
}

/* ---- locking and opening */

/* ---- refusals of the kernel */

/* The kernel's mode of lockdown, as "integrity"; "": none, or securityfs is not mounted. */
static void read_lockdown(char *mode, size_t capacity)
{
	char line[64] = "", *begin;
	int fd = open("/sys/kernel/security/lockdown", O_RDONLY | O_CLOEXEC);
	long n = fd < 0 ? 0 : read(fd, line, sizeof line - 1);

	if (fd >= 0)
		close(fd);
	line[n > 0 ? n : 0] = '\0';
	begin = strchr(line, '[');
	snprintf(mode, capacity, "%s", begin ? begin + 1 : "");
	mode[strcspn(mode, "]")] = '\0';
	if (strcmp(mode, "none") == 0)
		mode[0] = '\0';
}

/* The remedy for an access to a function's files that the kernel refuses. */
static const char *sysfs_remedy(int err)
{
	char mode[32];

	if (err == -EROFS)
		return ": mount /sys read-write (a container: --privileged), or use vfio:BDF";
	if (err != -EACCES && err != -EPERM)
		return "";
	read_lockdown(mode, sizeof mode);
	return mode[0] ? ": the kernel is locked down (Secure Boot, lockdown=); use vfio:BDF"
		       : ": run as root, in a container with CAP_SYS_ADMIN; a kernel that is locked "
			 "down permits vfio:BDF only";
}

/* A process without write access to the configuration space cannot drive the function. */
static int check_access(const char *bdf, struct hr_error *e)
{
	char path[96];
	int fd, err;

	snprintf(path, sizeof path, "/" DEVICES "/%s/config", bdf);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		return close(fd), 0;
	err = -errno;
	if (*sysfs_remedy(err))
		return hr_fail(e, HR_ERROR_MISSING, err == -EPERM ? -EACCES : err,
			       "%s: its configuration space is not writable%s", bdf,
			       sysfs_remedy(err));
	return hr_fail(e, HR_ERROR_MISSING, err, "%s: %s: %s", bdf, path, strerror(-err));
}

/* A lock of the file in sysfs would not do: every user may read it, and so lock it. */
int hr_function_lock(const char *bdf, int *fd, struct hr_error *e)
{
	char name[HR_LOCK_NAME];
	int err = check_access(bdf, e);

	*fd = -1;
	if (err)
		return err;
	snprintf(name, sizeof name, "pci-%s", bdf);
	*fd = hr_lock(name, e);
	for (unsigned i = 0; *fd == -EBUSY && i < LOCK_TRIES; i++) {
		hr_wait_ns(LOCK_PAUSE_NS);
		*fd = hr_lock(name, e);
	}
	if (*fd >= 0)
		return 0;
	err = *fd;
	*fd = -1;
	if (err == -EBUSY)
		return hr_fail(e, HR_ERROR_MISSING, err,
			       "%s: another process drives this function; end it first", bdf);
	hr_error_context(e, "%s", bdf);
	return err;
}

static int probe_function(struct hr_function *f, struct hr_error *e)
{
	uint32_t domain, bus, dev, fn;

	hr_bdf_parse(f->bdf, &domain, &bus, &dev, &fn);
	f->dev = pci_device_find_by_slot(domain, bus, dev, fn);
	if (f->dev && pci_device_probe(f->dev) == 0 &&
	    pci_device_cfg_read_u16(f->dev, &f->command, HR_CFG_COMMAND) == 0 &&
	    f->command != UINT16_MAX)
		return 0;
	return hr_fail(e, HR_ERROR_MISSING, -ENODEV,
		       "%s: its configuration space is not readable: the device is gone", f->bdf);
}

/* sysfs links a virtual function to its physical function. */
static bool is_virtual(const char *bdf)
{
	char path[96];

	snprintf(path, sizeof path, "/" DEVICES "/%s/physfn", bdf);
	return access(path, F_OK) == 0;
}

int hr_function_open(struct hr_function *f, const char *bdf, struct hr_error *e)
{
	int err;

	memset(f, 0, sizeof *f);
	f->undo[0] = f->undo[1] = -1;
	snprintf(f->bdf, sizeof f->bdf, "%s", bdf);
	err = hr_function_lock(f->bdf, &f->lock, e);
	if (err)
		goto nothing;
	err = hr_pciaccess_get();
	if (err) {
		hr_fail(e, HR_ERROR_MISSING, err, "%s: this machine has no accessible PCI bus",
			bdf);
		goto locked;
	}
	err = probe_function(f, e);
	if (!err) {
		f->virtual = is_virtual(f->bdf);
		return 0;
	}
	hr_pciaccess_put();
locked:
	close(f->lock);
nothing:
	memset(f, 0, sizeof *f);
	return err;
}

/* The kernel counts enables of a function, and turns bus mastering off when the count becomes 0. */
static int write_enable(const struct hr_function *f, const char *value)
{
	char path[96];
	int fd, err = 0;

	snprintf(path, sizeof path, "/" DEVICES "/%s/enable", f->bdf);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, value, 1) != 1)
		err = -errno;
	close(fd);
	return err;
}

static void drop_undo(struct hr_function *f)
{
	hr_undo_release_fd(f->lock);
	for (unsigned i = 0; i < 2; i++) {
		hr_undo_drop(f->undo[i]);
		f->undo[i] = -1;
	}
}

/* Before the function masters the bus, record how the undo helper stops it. */
static int record_undo(struct hr_function *f, struct hr_error *e)
{
	const uint16_t silent = f->command & (uint16_t)~HR_COMMAND_BME;
	char path[96];
	int err;

	if (f->undo[0] >= 0)
		return 0;
	snprintf(path, sizeof path, "/" DEVICES "/%s/config", f->bdf);
	err = f->undo[0] =
		hr_undo_add(HR_UNDO_BEFORE_CLOSE, path, HR_CFG_COMMAND, &silent, sizeof silent);
	snprintf(path, sizeof path, "/" DEVICES "/%s/enable", f->bdf);
	if (err >= 0)
		err = f->undo[1] = hr_undo_add(HR_UNDO_BEFORE_CLOSE, path, 0, "0", 1);
	if (err >= 0)
		err = hr_undo_keep_fd(f->lock);
	if (err >= 0)
		return 0;
	drop_undo(f);
	return hr_fail(e, HR_ERROR_FAILED, -EIO,
		       "%s: cannot start the undo helper, which stops it if headrace dies: %s",
		       f->bdf, strerror(-err));
}

int hr_function_enable(struct hr_function *f, uint16_t bits, struct hr_error *e)
{
	uint16_t now = 0, wanted;
	int err = f->counted ? 0 : write_enable(f, "1");

	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err == -EBUSY ? err : -ENODEV,
			       "%s: the kernel does not enable it (%s)%s", f->bdf, strerror(-err),
			       err == -EBUSY ? ": a driver is bound" : sysfs_remedy(err));
	f->counted = true;
	if (bits & HR_COMMAND_BME) {
		err = record_undo(f, e);
		if (err)
			return err;
		bits |= COMMAND_INTX_OFF;
	}
	if (pci_device_cfg_read_u16(f->dev, &now, HR_CFG_COMMAND) || now == UINT16_MAX)
		return hr_fail(e, HR_ERROR_MISSING, -ENODEV, "%s: the device is gone", f->bdf);
	if (f->virtual)
		bits &= (uint16_t)~HR_COMMAND_MSE;
	wanted = now | bits;
	f->changed = true;
	err = pci_device_cfg_write_u16(f->dev, wanted, HR_CFG_COMMAND);
	if (err == EPERM)
		return hr_fail(e, HR_ERROR_MISSING, -EPERM,
			       "%s: the kernel refuses to change its command register%s", f->bdf,
			       sysfs_remedy(-err));
	if (err || pci_device_cfg_read_u16(f->dev, &now, HR_CFG_COMMAND) ||
	    (now & bits & ~COMMAND_INTX_OFF) != (bits & ~COMMAND_INTX_OFF))
		return hr_fail(e, HR_ERROR_DEVICE, -EIO,
			       "%s: the command register reads %04x after %04x was written", f->bdf,
			       now, wanted);
	return 0;
}

int hr_function_stop_dma(struct hr_function *f, bool for_good)
{
	uint16_t now;

	if (for_good)
		f->command &= (uint16_t)~HR_COMMAND_BME;
	f->changed = true;
	if (pci_device_cfg_read_u16(f->dev, &now, HR_CFG_COMMAND) || now == UINT16_MAX)
		return -ENODEV;
	pci_device_cfg_write_u16(f->dev, now & (uint16_t)~HR_COMMAND_BME, HR_CFG_COMMAND);
	/* The answer to this read comes behind all that the function has written before. */
	if (pci_device_cfg_read_u16(f->dev, &now, HR_CFG_COMMAND) || now == UINT16_MAX)
		return -ENODEV;
	return now & HR_COMMAND_BME ? -EIO : 0;
}

void hr_function_close(struct hr_function *f)
{
	if (!f->dev)
		return;
	if (f->counted)
		write_enable(f, "0");
	if (f->changed)
		pci_device_cfg_write_u16(f->dev, f->command, HR_CFG_COMMAND);
	drop_undo(f);
	hr_pciaccess_put();
	close(f->lock);
	memset(f, 0, sizeof *f);
}

/* ---- BARs */

/*
 * Bus address of a BAR, as TLPs carry it; sysfs shows the CPU's address. 0: not readable. The BAR
 * registers of a virtual function read 0 (PCIe Base 5.0, 9.3.4.1.11). Its addresses follow from the
 * physical function's VF BARs; the kernel has computed them in `resource`.
 */
static uint64_t bus_address(struct hr_function *f, unsigned bar)
{
	uint32_t low = 0, high = 0;

	if (f->virtual)
		return f->dev->regions[bar].base_addr;
	if (pci_device_cfg_read_u32(f->dev, &low, HR_CFG_BAR0 + 4 * bar))
		return 0;
	if (low & BAR_64 && bar < HR_BARS_MAX - 1 &&
	    pci_device_cfg_read_u32(f->dev, &high, HR_CFG_BAR0 + 4 * (bar + 1)))
		return 0;
	return (uint64_t)high << 32 | (low & BAR_ADDRESS);
}

unsigned hr_function_peer_bar(const struct hr_function *f)
{
	const struct pci_mem_region *best = NULL;
	unsigned bar = 0;

	for (unsigned i = 0; i < HR_BARS_MAX; i++) {
		const struct pci_mem_region *r = &f->dev->regions[i];

		if (r->size == 0 || r->is_IO)
			continue;
		if (!best || r->is_prefetchable > best->is_prefetchable ||
		    (r->is_prefetchable == best->is_prefetchable && r->size > best->size)) {
			best = r;
			bar = i;
		}
	}
	return bar;
}

int hr_function_map(struct hr_function *f, unsigned bar, struct hr_bar_map *map, struct hr_error *e)
{
	const struct pci_mem_region *region = &f->dev->regions[bar < HR_BARS_MAX ? bar : 0];
	int err;

	memset(map, 0, sizeof *map);
	map->bus = bar < HR_BARS_MAX ? bus_address(f, bar) : 0;
	map->bytes = region->size;
	if (bar < HR_BARS_MAX && region->is_IO)
		return hr_fail(e, HR_ERROR_MISSING, -ENXIO, "%s: BAR%u is an I/O BAR, not memory",
			       f->bdf, bar);
	/* The library shows a BAR without an assigned address like a missing BAR. */
	if (map->bus == 0 || map->bytes == 0)
		return hr_fail(
			e, HR_ERROR_MISSING, -ENXIO,
			"%s: BAR%u is missing or has no address; if the device has it, enable "
			"64-bit BARs (above 4G decoding) in the firmware",
			f->bdf, bar);
	err = pci_device_map_range(f->dev, region->base_addr, region->size,
				   PCI_DEV_MAP_FLAG_WRITABLE, &map->cpu);
	if (err == 0)
		return 0;
	/* With IO_STRICT_DEVMEM the kernel returns EINVAL while a driver owns the BAR. */
	return hr_fail(e, HR_ERROR_MISSING, err == ENOMEM ? -ENOMEM : -EBUSY,
		       "%s: BAR%u of %zu bytes cannot be mapped: %s%s", f->bdf, bar, map->bytes,
		       strerror(err),
		       err == EINVAL || err == EBUSY
			       ? " (a kernel driver owns it: unbind the driver)"
			       : sysfs_remedy(-err));
}

void hr_function_unmap(struct hr_function *f, struct hr_bar_map *map)
{
	if (map->cpu)
		pci_device_unmap_range(f->dev, map->cpu, map->bytes);
	memset(map, 0, sizeof *map);
}
