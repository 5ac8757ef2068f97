/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/log.h"
#include "nvme/transport/disk_use.h"
#include "nvme/transport/hardware.h"
#include "nvme/queue/wire.h"

static bool bind_allowed;
static enum hr_open_mode access_wanted;

int hr_nvme_function(const char *address, struct hr_function_state *state, struct hr_error *e)
{
	const int err = hr_function_look(address, state, e);

	if (err || state->class == HR_CLASS_NVME)
		return err;
	return hr_fail(
		e, HR_ERROR_MISSING, -ENODEV,
		"%s: is not an NVMe controller: its class is %06x, not %06x; 'headrace topo' "
		"lists NVMe controllers",
		state->bdf, state->class, HR_CLASS_NVME);
}

void hr_open_mode_set(enum hr_open_mode access)
{
	access_wanted = access;
}

enum hr_open_mode hr_open_mode(void)
{
	return access_wanted;
}

void hr_transport_allow_bind(void)
{
	bind_allowed = true;
}

/* nvgrace-gpu-vfio-pci and others are vfio-pci with additions. */
static bool is_bound(const struct hr_function_state *state, const char *driver)
{
	return driver ? strstr(state->driver, driver) != NULL : state->driver[0] == '\0';
}

static int fail_bound(const struct hr_function_state *state, const char *driver, struct hr_error *e)
{
	if (driver)
		return hr_fail(e, HR_ERROR_MISSING, -EBUSY,
			       "%s: %s%s; it has to be bound to %s: use --bind, or: driverctl "
			       "set-override %s %s",
			       state->bdf,
			       state->driver[0] ? "the kernel driver is "
						: "no driver is bound to it",
			       state->driver, driver, state->bdf, driver);
	return hr_fail(e, HR_ERROR_MISSING, -EBUSY,
		       "%s: the kernel driver %s is bound to it: use --bind, or: echo %s > "
		       "/sys/bus/pci/drivers/%s/unbind",
		       state->bdf, state->driver, state->bdf, state->driver);
}

int hr_nvme_bind(struct hr_binding *binding, struct hr_function_state *state, const char *driver,
		 struct hr_error *e)
{
	int err;

	memset(binding, 0, sizeof(*binding));
	if (is_bound(state, driver))
		return 0;
	if (!bind_allowed)
		return fail_bound(state, driver, e);
	/* For the driver nvme the users can be listed. For other drivers the kernel does not
	 * tell them. */
	if (state->driver[0] && strcmp(state->driver, "nvme") != 0)
		return hr_fail(
			e, HR_ERROR_MISSING, -EBUSY,
			"%s: the driver %s is bound to it, and the users of that driver cannot be "
			"listed; end them, then: echo %s > /sys/bus/pci/drivers/%s/unbind",
			state->bdf, state->driver, state->bdf, state->driver);
	err = hr_disks_check_unused(state->bdf, e);
	if (err) {
		hr_error_context(e, "%s: its disk is in use", state->bdf);
		return err;
	}
	err = hr_bind(binding, state, driver, e);
	return err ? err : hr_function_look(binding->bdf, state, e);
}

int hr_nvme_registers(const struct hr_transport *t, struct hr_error *e)
{
	uint32_t vs;

	if (t->bar_bytes < 2 * (size_t)HR_DOORBELLS)
		return hr_fail(
			e, HR_ERROR_MISSING, -ENODEV,
			"%s: BAR0 of %zu bytes has no room for the registers and doorbells of "
			"NVMe; look at it with lspci -vvs %s: update its firmware, or use another "
			"ssd",
			t->name, t->bar_bytes, t->name);
	vs = hr_reg_read32(t, NVME_REG_VS);
	if (vs != 0 && vs != UINT32_MAX)
		return 0;
	return hr_fail(
		e, HR_ERROR_MISSING, -ENODEV,
		"%s: VS reads %08x: the device is gone, asleep, or its bridge does not pass "
		"memory on; reset it: echo 1 > /sys/bus/pci/devices/%s/reset, or find it again: "
		"echo 1 > /sys/bus/pci/devices/%s/remove; echo 1 > /sys/bus/pci/rescan",
		t->name, vs, t->name, t->name);
}
