#include "nvme/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>

#include "boot/log.h"
#include "nvme/ctrl.h"
#include "nvme/soft/soft.h"
#include "nvme/transports.h"
#include "pci/model.h"

/* What follows a prefix, or NULL. */
static const char *after(const char *device, const char *prefix)
{
	const size_t n = strlen(prefix);

	return strncmp(device, prefix, n) == 0 ? device + n : NULL;
}

static bool is_bdf(const char *text)
{
	uint32_t domain, bus, dev, fn;
	const size_t n = hr_bdf_parse(text, &domain, &bus, &dev, &fn);

	return n && text[n] == '\0' && dev < 32 && fn < 8;
}

static int check_pci(const char *device, const char *bdf, char *message)
{
	if (is_bdf(bdf))
		return 0;
	snprintf(message, HR_LOG_LINE_MAX,
		 "%.200s: '%.100s' is not a PCI function (expected like 0000:41:00.0)", device,
		 bdf);
	return -EINVAL;
}

int hr_transport_check(const char *device, char *message)
{
	struct hr_soft_options options;
	const char *rest = after(device, "soft:");

	if (rest)
		return hr_soft_parse(rest, &options, message);
	rest = after(device, "pci:");
	if (!rest)
		rest = after(device, "vfio:");
	if (rest)
		return check_pci(device, rest, message);
	snprintf(message, HR_LOG_LINE_MAX,
		 "'%.200s': expected soft:PATH[,...], pci:BDF or vfio:BDF", device);
	return -EINVAL;
}

bool hr_transport_is_physical(const char *device)
{
	return after(device, "pci:") != NULL;
}

int hr_transport_open(struct hr_transport *t, const char *device, char *message)
{
	struct hr_soft_options options;
	const char *rest = after(device, "soft:");
	const int err = hr_transport_check(device, message);

	if (err)
		return err;
	if (rest) {
		hr_soft_parse(rest, &options, message);
		return hr_soft_open(t, &options, message);
	}
	rest = after(device, "pci:");
	return rest ? hr_pci_open(t, rest, message)
		    : hr_vfio_open(t, after(device, "vfio:"), message);
}

int hr_nvme_function(const char *address, struct hr_function_state *state, char *message)
{
	const int err = hr_function_look(address, state, message);

	if (err || state->class == HR_CLASS_NVME)
		return err;
	snprintf(message, HR_LOG_LINE_MAX,
		 "%s: is no NVMe controller: its class is %06x, not %06x; 'headrace topo' lists "
		 "those that are",
		 state->bdf, state->class, HR_CLASS_NVME);
	return -ENODEV;
}

int hr_nvme_registers(const struct hr_transport *t, char *message)
{
	uint32_t vs;

	if (t->bar_bytes < 2 * (size_t)HR_DOORBELLS) {
		snprintf(message, HR_LOG_LINE_MAX,
			 "%s: BAR0 of %zu bytes has no room for the registers and doorbells of "
			 "NVMe",
			 t->name, t->bar_bytes);
		return -ENODEV;
	}
	vs = hr_reg_read32(t, NVME_REG_VS);
	if (vs != 0 && vs != UINT32_MAX)
		return 0;
	snprintf(message, HR_LOG_LINE_MAX,
		 "%s: VS reads %08x: the device is gone, asleep, or its bridge does not pass "
		 "memory on",
		 t->name, vs);
	return -ENODEV;
}
