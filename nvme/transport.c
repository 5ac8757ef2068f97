#include "nvme/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/log.h"
#include "nvme/ctrl.h"
#include "nvme/inuse.h"
#include "nvme/soft/soft.h"
#include "nvme/transports.h"
#include "pci/topo/model.h"

static bool bind_allowed;
static enum hr_transport_access access_wanted;

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

/* What most likely belongs in front of a string that has no kind: the path of a file, or a function. */
static const char *likely_kind(const char *device)
{
	char path[HR_DEVICE_MAX];
	struct stat st;

	if (is_bdf(device))
		return "pci:";
	snprintf(path, sizeof path, "%.*s", (int)strcspn(device, ","), device);
	if (stat(path, &st) == 0 && S_ISBLK(st.st_mode))
		return "kernel:";
	return (stat(path, &st) == 0 && S_ISREG(st.st_mode)) ||
			       (strlen(path) > 4 && strcmp(path + strlen(path) - 4, ".img") == 0)
		       ? "soft:"
		       : "";
}

int hr_transport_check(const char *device, char *message)
{
	struct hr_soft_options options;
	const char *rest = after(device, "soft:"), *kind;

	if (rest)
		return hr_soft_parse(rest, &options, message);
	rest = after(device, "pci:");
	if (!rest)
		rest = after(device, "vfio:");
	if (rest)
		return check_pci(device, rest, message);
	kind = likely_kind(device);
	if (after(device, "kernel:"))
		snprintf(message, HR_LOG_LINE_MAX,
			 "'%.200s': through the kernel workers have no queues of their own: for "
			 "'headrace store' only; expected soft:PATH[,...], pci:BDF or vfio:BDF",
			 device);
	else
		snprintf(message, HR_LOG_LINE_MAX,
			 "'%.200s': expected soft:PATH[,...], pci:BDF or vfio:BDF%s%s%.200s%s",
			 device, *kind ? "; did you mean '" : "", kind, *kind ? device : "",
			 *kind ? "'?" : "");
	return -EINVAL;
}

/* An image is made where its size is given. */
static bool image_is_absent(const struct hr_soft_options *o)
{
	return o->path[0] && !o->bytes && access(o->path, F_OK) != 0 && errno == ENOENT;
}

bool hr_transport_is_absent(const char *device)
{
	const char *rest = after(device, "soft:");
	struct hr_function_state state;
	struct hr_soft_options options;
	char message[HR_LOG_LINE_MAX];

	if (rest)
		return hr_soft_parse(rest, &options, message) == 0 && image_is_absent(&options);
	rest = after(device, "pci:");
	if (!rest)
		rest = after(device, "vfio:");
	return rest && hr_function_look(rest, &state, message) == -ENOENT;
}

uint32_t hr_transport_namespaces(const char *device)
{
	const char *rest = after(device, "soft:");
	struct hr_soft_options options;
	char message[HR_LOG_LINE_MAX];

	return rest && hr_soft_parse(rest, &options, message) == 0 ? options.namespaces : 0;
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
		options.existing = access_wanted != HR_ACCESS_CREATE;
		if (access_wanted == HR_ACCESS_READ && *options.path && !options.read_only) {
			options.read_only = true;
			options.cache_bytes = 0;
		}
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

void hr_transport_set_access(enum hr_transport_access access)
{
	access_wanted = access;
}

enum hr_transport_access hr_transport_access(void)
{
	return access_wanted;
}

void hr_transport_allow_bind(void)
{
	bind_allowed = true;
}

/* nvgrace-gpu-vfio-pci and the like are vfio-pci with something added. */
static bool is_bound(const struct hr_function_state *state, const char *driver)
{
	return driver ? strstr(state->driver, driver) != NULL : state->driver[0] == '\0';
}

static int say_bound(const struct hr_function_state *state, const char *driver, char *message)
{
	if (driver)
		snprintf(message, HR_LOG_LINE_MAX,
			 "%s: %s%s; it has to be bound to %s: use --bind, or: driverctl "
			 "set-override %s %s",
			 state->bdf,
			 state->driver[0] ? "the kernel driver is " : "no driver is bound to it",
			 state->driver, driver, state->bdf, driver);
	else
		snprintf(message, HR_LOG_LINE_MAX,
			 "%s: the kernel driver %s is bound to it: use --bind, or: echo %s > "
			 "/sys/bus/pci/drivers/%s/unbind",
			 state->bdf, state->driver, state->bdf, state->driver);
	return -EBUSY;
}

int hr_nvme_bind(struct hr_binding *binding, struct hr_function_state *state, const char *driver,
		 char *message)
{
	char why[HR_LOG_LINE_MAX - 64];
	int err;

	memset(binding, 0, sizeof(*binding));
	if (is_bound(state, driver))
		return 0;
	if (!bind_allowed)
		return say_bound(state, driver, message);
	/* Of nvme we can tell who uses it. What others handed out, nobody says. */
	if (state->driver[0] && strcmp(state->driver, "nvme") != 0) {
		snprintf(message, HR_LOG_LINE_MAX,
			 "%s: the driver %s is bound to it, and who uses it through that cannot be "
			 "told; end them, then: echo %s > /sys/bus/pci/drivers/%s/unbind",
			 state->bdf, state->driver, state->bdf, state->driver);
		return -EBUSY;
	}
	err = hr_controller_unused(state->bdf, message);
	if (err) {
		snprintf(why, sizeof(why), "%.900s", message);
		snprintf(message, HR_LOG_LINE_MAX, "%s: its disk is in use: %s", state->bdf, why);
		return err;
	}
	err = hr_bind(binding, state, driver, message);
	return err ? err : hr_function_look(binding->bdf, state, message);
}

int hr_nvme_registers(const struct hr_transport *t, char *message)
{
	uint32_t vs;

	if (t->bar_bytes < 2 * (size_t)HR_DOORBELLS) {
		snprintf(message, HR_LOG_LINE_MAX,
			 "%s: BAR0 of %zu bytes has no room for the registers and doorbells of "
			 "NVMe; look at it with lspci -vvs %s: update its firmware, or use another "
			 "ssd",
			 t->name, t->bar_bytes, t->name);
		return -ENODEV;
	}
	vs = hr_reg_read32(t, NVME_REG_VS);
	if (vs != 0 && vs != UINT32_MAX)
		return 0;
	snprintf(message, HR_LOG_LINE_MAX,
		 "%s: VS reads %08x: the device is gone, asleep, or its bridge does not pass "
		 "memory on; reset it: echo 1 > /sys/bus/pci/devices/%s/reset, or find it again: "
		 "echo 1 > /sys/bus/pci/devices/%s/remove; echo 1 > /sys/bus/pci/rescan",
		 t->name, vs, t->name, t->name);
	return -ENODEV;
}
