/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/gdr.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct fake_gdr *now;
static uint64_t pinned_at;
static size_t pinned_bytes;

void fake_gdr_set(struct fake_gdr *fake, void *memory, size_t bytes, int memory_fd)
{
	memset(fake, 0, sizeof(*fake));
	fake->memory = memory;
	fake->bytes = bytes;
	fake->memory_fd = memory_fd;
	fake->major = 2;
	now = fake;
}

static int fails(enum fake_gdr_call call)
{
	return now->fail == call ? now->error : 0;
}

static void *open_(void)
{
	if (fails(FAKE_GDR_OPEN))
		return NULL;
	now->opened++;
	return now;
}

static int close_(void *g)
{
	struct fake_gdr *fake = g;

	fake->wrong += fake->pinned || !fake->opened;
	fake->opened--;
	return 0;
}

static int pin(void *g, unsigned long gpu, size_t bytes, uint64_t token, uint32_t space,
	       struct hr_gdr_handle *handle)
{
	struct fake_gdr *fake = g;

	fake->wrong += token || space;
	if (fails(FAKE_GDR_PIN))
		return fake->error;
	if (gpu < FAKE_GDR_BASE || gpu - FAKE_GDR_BASE > fake->bytes ||
	    bytes > fake->bytes - (gpu - FAKE_GDR_BASE))
		return EINVAL;
	pinned_at = gpu;
	pinned_bytes = bytes;
	fake->pinned++;
	handle->h = 0; /* a valid handle */
	return 0;
}

static int unpin(void *g, struct hr_gdr_handle handle)
{
	struct fake_gdr *fake = g;

	fake->wrong += handle.h != 0 || !fake->pinned || fake->mapped;
	fake->pinned--;
	return 0;
}

static int map(void *g, struct hr_gdr_handle handle, void **va, size_t bytes)
{
	struct fake_gdr *fake = g;

	fake->wrong += handle.h != 0 || !fake->pinned || bytes != pinned_bytes;
	if (fails(FAKE_GDR_MAP))
		return fake->error;
	*va = fake->memory + (pinned_at - FAKE_GDR_BASE) - fake->skew;
	fake->mapped++;
	return 0;
}

static int unmap(void *g, struct hr_gdr_handle handle, void *va, size_t bytes)
{
	struct fake_gdr *fake = g;

	fake->wrong += handle.h != 0 || !fake->mapped || bytes != pinned_bytes ||
		       va != fake->memory + (pinned_at - FAKE_GDR_BASE) - fake->skew;
	fake->mapped--;
	return 0;
}

static int info(void *g, struct hr_gdr_handle handle, struct hr_gdr_info *out)
{
	struct fake_gdr *fake = g;

	fake->wrong += handle.h != 0 || !fake->pinned;
	if (fails(FAKE_GDR_INFO))
		return fake->error;
	memset(out, 0, sizeof(*out));
	out->va = fake->unaligned ? pinned_at + HR_WINDOW_GRAIN : pinned_at - fake->skew;
	out->mapped_size = pinned_bytes + fake->skew;
	out->page_size = HR_WINDOW_GRAIN;
	out->mapped = out->wc_mapping = 1;
	return 0;
}

static void version(int *major, int *minor)
{
	*major = now->major;
	*minor = 5;
}

struct hr_gdr fake_gdr_table(void)
{
	return (struct hr_gdr){ .open = open_,
				.close = close_,
				.pin = pin,
				.unpin = unpin,
				.map = map,
				.unmap = unmap,
				.info = info,
				.version = version };
}

static bool mappable(void *to)
{
	const struct fake_gdr *fake = to;

	return fake->memory_fd >= 0;
}

static int export(void *to, uint64_t gpu, size_t bytes, int *fd, struct hr_error *e)
{
	const struct fake_gdr *fake = to;

	if (gpu != FAKE_GDR_BASE || bytes > fake->bytes)
		return hr_fail(e, HR_ERROR_FAILED, -EINVAL, "the fake GPU has no such memory");
	*fd = dup(fake->memory_fd);
	return *fd < 0 ? hr_fail(e, HR_ERROR_FAILED, -errno, "%s", strerror(errno)) : 0;
}

struct hr_window_driver fake_gdr_driver(struct fake_gdr *fake)
{
	return (struct hr_window_driver){ mappable, export, fake };
}
