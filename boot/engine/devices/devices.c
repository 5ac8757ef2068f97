/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/devices/devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/log.h"
#include "gpu/cuda/cuda.h"
#include "gpu/host/host.h"
#include "nvme/soft/soft.h"
#include "nvme/transport/hardware.h"
#include "pci/topo/model.h"
#include "config/base/text.h"
#include "gpu/ops/operators.h"
#include "gpu/ops/user.h"

/* The text behind a prefix, or NULL. */
static const char *text_after_prefix(const char *device, const char *prefix)
{
	const size_t n = strlen(prefix);

	return strncmp(device, prefix, n) == 0 ? device + n : NULL;
}

/* The address of "pci:BDF" or "vfio:BDF", or NULL. */
static const char *function_of(const char *device)
{
	const char *rest = text_after_prefix(device, "pci:");

	return rest ? rest : text_after_prefix(device, "vfio:");
}

static bool is_bdf(const char *text)
{
	uint32_t domain, bus, dev, fn;
	const size_t n = hr_bdf_parse(text, &domain, &bus, &dev, &fn);

	return n && text[n] == '\0' && dev < 32 && fn < 8;
}

static int check_pci(const char *device, const char *bdf, struct hr_error *e)
{
	if (is_bdf(bdf))
		return 0;
	return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
		       "%.200s: '%.100s' is not a PCI function (expected like 0000:41:00.0)",
		       device, bdf);
}

/* The prefix that is most likely missing: for the path of a file, or for a PCI function. */
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

/* The kind that the word before the colon resembles ("sotf:disk.img"), or NULL. */
static const char *near_kind(const char *device)
{
	static const char *const known[] = { "soft", "pci", "vfio" };
	const char *colon = strchr(device, ':');
	char word[16];

	if (!colon || (size_t)(colon - device) >= sizeof word)
		return NULL;
	snprintf(word, sizeof word, "%.*s", (int)(colon - device), device);
	return hr_nearest(word, known, sizeof known / sizeof *known);
}

int hr_transport_check(const char *device, struct hr_error *e)
{
	struct hr_soft_options options;
	const char *rest = text_after_prefix(device, "soft:"), *kind, *near;

	if (rest)
		return hr_soft_parse(rest, &options, e);
	rest = function_of(device);
	if (rest)
		return check_pci(device, rest, e);
	kind = likely_kind(device);
	if (text_after_prefix(device, "kernel:"))
		return hr_fail(
			e, HR_ERROR_USAGE, -EINVAL,
			"'%.200s': workers need queue pairs, which a disk of the kernel does not "
			"offer; it is for "
			"'headrace store' only; expected soft:PATH[,...], pci:BDF or vfio:BDF",
			device);
	near = near_kind(device);
	return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
		       "'%.200s': expected soft:PATH[,...], pci:BDF or vfio:BDF%s%s%.200s%s",
		       device, near || *kind ? "; did you mean '" : "", near ? near : kind,
		       near    ? strchr(device, ':')
		       : *kind ? device
			       : "",
		       near || *kind ? "'?" : "");
}

/* hr_transport_open() creates an image when its size is given. */
static bool image_is_absent(const struct hr_soft_options *o)
{
	return o->path[0] && !o->bytes && access(o->path, F_OK) != 0 && errno == ENOENT;
}

bool hr_transport_masters_bus(const char *device)
{
	const char *address = function_of(device);

	return address && hr_function_masters_bus(address);
}

bool hr_transport_is_absent(const char *device)
{
	const char *rest = text_after_prefix(device, "soft:");
	struct hr_function_state state;
	struct hr_soft_options options;

	if (rest)
		return hr_soft_parse(rest, &options, NULL) == 0 && image_is_absent(&options);
	rest = function_of(device);
	return rest && hr_function_look(rest, &state, NULL) == -ENOENT;
}

static int identify_image(const char *options_text, uint32_t nsid, char *text, size_t bytes)
{
	struct hr_soft_options options;
	struct stat st;
	int n;

	if (hr_soft_parse(options_text, &options, NULL) != 0)
		return -EINVAL;
	if (!*options.path)
		return -ENODEV;
	if (stat(options.path, &st) != 0)
		return -errno;
	n = snprintf(text, bytes, "image:%llx:%llx/%u", (unsigned long long)st.st_dev,
		     (unsigned long long)st.st_ino, nsid);
	return n > 0 && (size_t)n < bytes ? 0 : -ENAMETOOLONG;
}

static int identify_function(const char *bdf, uint32_t nsid, char *text, size_t bytes)
{
	uint32_t domain, bus, dev, fn;
	int n;

	if (!is_bdf(bdf))
		return -EINVAL;
	hr_bdf_parse(bdf, &domain, &bus, &dev, &fn);
	n = snprintf(text, bytes, "function:%04x:%02x:%02x.%x/%u", domain, bus, dev, fn, nsid);
	return n > 0 && (size_t)n < bytes ? 0 : -ENAMETOOLONG;
}

int hr_transport_identity(const char *device, uint32_t nsid, char *text, size_t bytes)
{
	const char *image = text_after_prefix(device, "soft:"), *function = function_of(device);
	int err = -EINVAL;

	*text = '\0';
	if (image)
		err = identify_image(image, nsid, text, bytes);
	else if (function)
		err = identify_function(function, nsid, text, bytes);
	if (err)
		*text = '\0';
	return err;
}

uint32_t hr_transport_namespaces(const char *device)
{
	const char *rest = text_after_prefix(device, "soft:");
	struct hr_soft_options options;

	return rest && hr_soft_parse(rest, &options, NULL) == 0 ? options.namespaces : 0;
}

bool hr_transport_is_physical(const char *device)
{
	return text_after_prefix(device, "pci:") != NULL;
}

int hr_transport_open(struct hr_transport *t, const char *device, struct hr_error *e)
{
	struct hr_soft_options options;
	const char *rest = text_after_prefix(device, "soft:");
	const int err = hr_transport_check(device, e);

	if (err)
		return err;
	if (rest) {
		hr_soft_parse(rest, &options, e);
		options.existing = hr_open_mode() != HR_OPEN_CREATE;
		if (hr_open_mode() == HR_OPEN_READ_ONLY && *options.path && !options.read_only) {
			options.read_only = true;
			options.cache_bytes = 0;
		}
		return hr_soft_open(t, &options, e);
	}
	rest = text_after_prefix(device, "pci:");
	return rest ? hr_pci_open(t, rest, e)
		    : hr_vfio_open(t, text_after_prefix(device, "vfio:"), e);
}

#define NUMBER_MAX 4096u

/* "PREFIX:N" with N in least..NUMBER_MAX. */
static bool numbered(const char *device, const char *prefix, unsigned least, unsigned *number)
{
	const size_t n = strlen(prefix);
	char *end;
	unsigned long v;

	if (strncmp(device, prefix, n) != 0 || device[n] < '0' || device[n] > '9')
		return false;
	errno = 0;
	v = strtoul(device + n, &end, 10);
	*number = (unsigned)v;
	return !*end && !errno && v >= least && v <= NUMBER_MAX;
}

/* "cuda:N" or "cuda:N,compressible". */
static bool is_cuda(const char *device, unsigned *number, bool *compressible)
{
	static const char option[] = ",compressible";
	const size_t n = strcspn(device, ",");
	char plain[32];

	*compressible = device[n] != '\0';
	if (n >= sizeof plain || (*compressible && strcmp(device + n, option) != 0))
		return false;
	memcpy(plain, device, n);
	plain[n] = '\0';
	return numbered(plain, "cuda:", 0, number);
}

/* "host:CPUS" or "host:CPUS,bar=BDF[/N]"; bar is "" without one. */
static bool is_host(const char *device, unsigned *number, char bar[HR_DEVICE_MAX])
{
	static const char option[] = ",bar=";
	const size_t n = strcspn(device, ",");
	char plain[32];

	*bar = '\0';
	if (n >= sizeof plain || strlen(device) >= HR_DEVICE_MAX)
		return false;
	memcpy(plain, device, n);
	plain[n] = '\0';
	if (!numbered(plain, "host:", 1, number))
		return false;
	if (device[n] == '\0')
		return true;
	if (strncmp(device + n, option, sizeof option - 1) != 0)
		return false;
	snprintf(bar, HR_DEVICE_MAX, "%s", device + n + sizeof option - 1);
	return hr_host_bar_check(bar);
}

int hr_backend_check(const char *device, struct hr_error *e)
{
	unsigned number;
	bool compressible;
	char bar[HR_DEVICE_MAX];

	if (strcmp(device, "auto") == 0 || is_cuda(device, &number, &compressible) ||
	    is_host(device, &number, bar))
		return 0;
	return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
		       "'%.200s': expected cuda:N[,compressible], host:CPUS[,bar=BDF[/N]] or auto",
		       device);
}

bool hr_backend_may_come(const char *device)
{
	unsigned number;
	bool compressible;

	return strcmp(device, "auto") == 0 || is_cuda(device, &number, &compressible);
}

int hr_backend_await(const char *device, struct hr_error *e)
{
	unsigned number;
	bool compressible;

	if (is_cuda(device, &number, &compressible))
		return hr_cuda_await((int)number, e);
	return strcmp(device, "auto") == 0 ? hr_cuda_await(HR_CUDA_FIRST, e) : 0;
}

static int open_cuda(struct hr_backend *b, const char *device, unsigned number, bool compressible,
		     struct hr_error *e)
{
	struct hr_error why = { 0 };
	const int err = hr_cuda_open(b, (int)number, compressible, &why);

	return err ? hr_fail(e, why.kind, err, "%s: %s; or use host:CPUS or auto", device, why.text)
		   : 0;
}

/* Open the first usable GPU, otherwise the CPU; the note has the choice and the reason. */
static int open_auto(struct hr_backend *b, unsigned cpus, uint32_t max_blocks, struct hr_error *e)
{
	struct hr_error why = { 0 };
	int err = hr_cuda_open(b, HR_CUDA_FIRST, false, &why);

	if (!err) {
		snprintf(b->note, sizeof b->note, "auto: worker blocks run on %s", b->name);
		return 0;
	}
	err = hr_host_open(b, cpus, max_blocks, e);
	if (!err)
		snprintf(b->note, sizeof b->note, "auto: %.900s; worker blocks run on the %u CPUs",
			 why.text, cpus);
	return err;
}

int hr_backend_open(struct hr_backend *b, const char *device, uint32_t max_blocks,
		    struct hr_error *e)
{
	const long online = sysconf(_SC_NPROCESSORS_ONLN);
	const unsigned cpus = online > 0 ? (unsigned)online : 1;
	char bar[HR_DEVICE_MAX];
	unsigned number = 0;
	bool compressible;
	int err = hr_backend_check(device, e);

	if (err)
		return err;
	if (is_cuda(device, &number, &compressible))
		return open_cuda(b, device, number, compressible, e);
	if (!is_host(device, &number, bar))
		return open_auto(b, cpus, max_blocks, e);
	err = hr_host_open(b, number < cpus ? number : cpus, max_blocks, e);
	if (!err && number > cpus)
		snprintf(b->note, sizeof b->note, "%s: only %u CPUs are online", device, cpus);
	return err || !*bar ? err : hr_host_use_bar(b, bar, e);
}

/* ---- for the reader of the configuration */

_Static_assert(HR_OP_COUNT <= HR_OPERATORS_BUILT_IN_MAX, "a list of operators has no room for all");

static const struct hr_operator *operator_at(uint32_t i)
{
	return i < HR_OP_COUNT ? hr_op_get(i) : NULL;
}

const struct hr_config_lookup hr_lookup = {
	.ssd_check = hr_transport_check,
	.gpu_check = hr_backend_check,
	.ssd_namespaces = hr_transport_namespaces,
	.operator_at = operator_at,
	.operator_load = hr_op_user_load,
	.operator_checksum = hr_op_user_checksum,
};
