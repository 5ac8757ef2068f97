/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/window.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/log.h"

#define WHY_MAX 320u

static int open_dmabuf(struct hr_gpu_window *w, const struct hr_window_driver *driver, char *why)
{
	struct hr_error e = { 0 };
	int fd = -1, err;
	void *at;

	if (!driver || !driver->mappable(driver->to)) {
		snprintf(why, WHY_MAX,
			 "the driver cannot map a dma-buf of this GPU (attribute 152)");
		return -ENOTSUP;
	}
	err = driver->export(driver->to, w->gpu, w->bytes, &fd, &e);
	if (err) {
		snprintf(why, WHY_MAX, "the driver cannot export a dma-buf over PCIe: %.200s",
			 e.text);
		return err;
	}
	at = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	err = at == MAP_FAILED ? -errno : 0;
	close(fd); /* the mapping holds its own reference */
	if (err) {
		snprintf(why, WHY_MAX, "mmap of %zu bytes of it: %s", w->bytes, strerror(-err));
		return err;
	}
	w->by = "dma-buf";
	w->cpu = w->mapping = at;
	w->mapping_bytes = w->bytes;
	return 0;
}

/* gdrapi returns positive errno values. */
static int fail_gdr_call(const char *call, int result, char *why)
{
	const int err = result < 0 ? -result : result;

	snprintf(why, WHY_MAX, "%s: %s", call, strerror(err));
	return -err;
}

static int map_pinned(struct hr_gpu_window *w, char *why)
{
	const struct hr_gdr *gdr = w->gdr;
	struct hr_gdr_info info = { 0 };
	int result = gdr->map(w->gdr_device, w->handle, &w->mapping, w->bytes);

	if (result) {
		w->mapping = NULL;
		return fail_gdr_call("gdr_map", result, why);
	}
	w->mapping_bytes = w->bytes;
	result = gdr->info(w->gdr_device, w->handle, &info);
	if (result)
		return fail_gdr_call("gdr_get_info_v2", result, why);
	if (info.va > w->gpu || w->gpu - info.va >= HR_WINDOW_GRAIN ||
	    info.mapped_size < w->bytes + (w->gpu - info.va)) {
		snprintf(why, WHY_MAX, "it maps %llu bytes from 0x%llx, not %zu from 0x%llx",
			 (unsigned long long)info.mapped_size, (unsigned long long)info.va,
			 w->bytes, (unsigned long long)w->gpu);
		return -EIO;
	}
	w->cpu = (uint8_t *)w->mapping + (w->gpu - info.va);
	w->by = "gdrcopy";
	return 0;
}

static void close_gdr(struct hr_gpu_window *w)
{
	if (w->mapping)
		w->gdr->unmap(w->gdr_device, w->handle, w->mapping, w->mapping_bytes);
	if (w->pinned)
		w->gdr->unpin(w->gdr_device, w->handle);
	if (w->gdr_device)
		w->gdr->close(w->gdr_device);
}

static int open_gdr(struct hr_gpu_window *w, const struct hr_gdr *gdr, char *why)
{
	int result, err;

	if (!gdr) {
		snprintf(why, WHY_MAX, "libgdrapi.so.2 is not installed");
		return -ENOENT;
	}
	w->gdr = gdr;
	w->gdr_device = gdr->open();
	if (!w->gdr_device) {
		snprintf(why, WHY_MAX, "gdr_open: /dev/gdrdrv cannot be opened (modprobe gdrdrv)");
		return -ENODEV;
	}
	result = gdr->pin(w->gdr_device, w->gpu, w->bytes, 0, 0, &w->handle);
	w->pinned = result == 0;
	err = w->pinned ? map_pinned(w, why) : fail_gdr_call("gdr_pin_buffer", result, why);
	if (err)
		close_gdr(w);
	return err;
}

int hr_window_open(struct hr_gpu_window *w, const struct hr_window_driver *driver,
		   const struct hr_gdr *gdr, uint64_t gpu, size_t bytes, struct hr_error *e)
{
	const struct hr_gpu_window asked = { .gpu = gpu, .bytes = bytes };
	char why[2][WHY_MAX];

	memset(w, 0, sizeof(*w));
	if (!bytes || gpu % HR_WINDOW_GRAIN || bytes % HR_WINDOW_GRAIN)
		return hr_fail(e, HR_ERROR_FAILED, -EINVAL,
			       "GPU memory 0x%llx, %zu bytes: not whole pages of 64 KiB",
			       (unsigned long long)gpu, bytes);
	*w = asked;
	if (open_dmabuf(w, driver, why[0]) == 0)
		return 0;
	*w = asked;
	if (open_gdr(w, gdr, why[1]) == 0)
		return 0;
	memset(w, 0, sizeof(*w));
	return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
		       "GPU memory cannot be mapped for the ssd: by dma-buf: %s; by gdrcopy: %s",
		       why[0], why[1]);
}

void hr_window_close(struct hr_gpu_window *w)
{
	if (w->gdr)
		close_gdr(w);
	else if (w->mapping)
		munmap(w->mapping, w->mapping_bytes);
	memset(w, 0, sizeof(*w));
}

int hr_window_region(const struct hr_gpu_window *w, const char *name, struct hr_region *region)
{
	int err = hr_region_init_host(region, name, w->cpu, w->bytes);

	if (err)
		return err;
	region->kind = HR_REGION_GPU;
	region->worker = (void *)(uintptr_t)w->gpu;
	return 0;
}
