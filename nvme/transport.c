#include "nvme/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>

#include "boot/log.h"
#include "nvme/soft/soft.h"

/* What follows a prefix, or NULL. */
static const char *after(const char *device, const char *prefix)
{
	const size_t n = strlen(prefix);

	return strncmp(device, prefix, n) == 0 ? device + n : NULL;
}

/* DDDD:BB:DD.F or BB:DD.F, hexadecimal. */
static bool is_bdf(const char *text)
{
	unsigned domain = 0, bus, slot, function;
	int end = 0;

	if (sscanf(text, "%4x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &end) != 4 ||
	    text[end]) {
		end = 0;
		if (sscanf(text, "%2x:%2x.%1x%n", &bus, &slot, &function, &end) != 3 || text[end])
			return false;
	}
	return slot < 32 && function < 8;
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
	snprintf(message, HR_LOG_LINE_MAX,
		 "%.200s: this build has no pci and vfio transports; use soft:PATH", device);
	return -ENOTSUP;
}
