/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/places.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "config/base/process.h"
#include "config/base/log.h"
#include "nvme/dma/hostmem.h"

static int allocate_host_place(struct hr_places *places, enum hr_place place, size_t bytes,
			       struct hr_error *e)
{
	struct hr_backend *b = places->backend;
	struct hr_region *region = &places->region[place];
	int err = hr_hostmem_alloc(region, hr_place_name(place), bytes, e);

	if (err)
		return err;
	err = b->ops->attach(b, region->cpu, region->bytes, false, &region->worker, e);
	if (err)
		hr_hostmem_free(region);
	return err;
}

/* True for a place whose addresses are reserved here, and whose memory is made later. */
static bool is_reserved(const struct hr_places *places, enum hr_place place)
{
	return place == HR_PLACE_TAP_WORDS ||
	       (place == HR_PLACE_TAP && !places->backend->ops->reserve_shared);
}

/* Only addresses: gpu/tap/memory.h puts memory objects there. */
static int reserve_tap_place(struct hr_places *places, enum hr_place place, size_t bytes)
{
	struct hr_region *region = &places->region[place];
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -ENOMEM;
	region->name = hr_place_name(place);
	region->cpu = region->worker = at;
	region->bytes = bytes;
	return 0;
}

int hr_places_attach_words(struct hr_places *places, struct hr_error *e)
{
	struct hr_region *region = &places->region[HR_PLACE_TAP_WORDS];
	struct hr_backend *b = places->backend;
	int err;

	if (!region->bytes || b->lanes == 1)
		return 0;
	err = b->ops->attach(b, region->cpu, region->bytes, false, &region->worker, e);
	places->has_words = !err;
	return err;
}

void hr_places_detach_words(struct hr_places *places)
{
	if (places->has_words)
		places->backend->ops->detach(places->backend,
					     places->region[HR_PLACE_TAP_WORDS].cpu);
	places->has_words = false;
}

/* Allocate the copy in which the CPU writes data for workers, when it is needed. */
static int allocate_cpu_copy(struct hr_places *places)
{
	struct hr_region *region = &places->region[HR_PLACE_WORKER];

	if (region->cpu)
		return 0;
	region->cpu = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (region->cpu == MAP_FAILED) {
		region->cpu = NULL;
		return -ENOMEM;
	}
	hr_not_dumped(region->cpu, region->bytes);
	places->has_copy = true;
	return 0;
}

/* Free the copy. The backend did not allocate it and must not see it. */
static void free_cpu_copy(struct hr_places *places)
{
	struct hr_region *region = &places->region[HR_PLACE_WORKER];

	if (places->has_copy) {
		munmap(region->cpu, region->bytes);
		region->cpu = NULL;
	}
	places->has_copy = false;
}

static int allocate_gpu_place(struct hr_places *places, enum hr_place place, size_t bytes,
			      struct hr_error *e)
{
	struct hr_backend *b = places->backend;
	struct hr_region *region = &places->region[place];
	const bool peer = place == HR_PLACE_GPU && b->ops->alloc_peer;
	int err = place == HR_PLACE_TAP ? b->ops->reserve_shared(b, bytes, region, e)
		  : peer		? b->ops->alloc_peer(b, bytes, region, e)
					: b->ops->alloc(b, bytes, region, e);

	if (err)
		return err;
	region->name = hr_place_name(place);
	return place == HR_PLACE_WORKER ? allocate_cpu_copy(places) : 0;
}

static int allocate_place(struct hr_places *places, enum hr_place place, size_t bytes,
			  struct hr_error *e)
{
	if (is_reserved(places, place))
		return reserve_tap_place(places, place, bytes);
	if (place == HR_PLACE_CONTROL || place == HR_PLACE_HOST)
		return allocate_host_place(places, place, bytes, e);
	return allocate_gpu_place(places, place, bytes, e);
}

int hr_places_alloc(struct hr_places *places, struct hr_backend *backend,
		    const uint64_t bytes[HR_PLACES], struct hr_error *e)
{
	int err = 0;

	memset(places, 0, sizeof *places);
	places->backend = backend;
	for (int i = 0; !err && i < HR_PLACES; i++) {
		const enum hr_place place = (enum hr_place)i;

		if (bytes[i] == 0)
			continue;
		err = allocate_place(places, place, bytes[i], e);
		if (err)
			hr_fail(e, HR_ERROR_MISSING, err, "%s", strerror(-err));
		hr_error_context(e, "cannot get %llu bytes of %s memory",
				 (unsigned long long)bytes[i], hr_place_name(place));
	}
	if (err)
		hr_places_free(places);
	return err;
}

int hr_places_open_gpu(struct hr_places *places, struct hr_error *e)
{
	struct hr_region *region = &places->region[HR_PLACE_GPU], seen;
	const struct hr_window_driver *driver = places->backend->window;
	int err;

	if (!region->bytes || region->kind != HR_REGION_GPU)
		return 0;
	if (!driver)
		return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
			       "no other device can reach this GPU's memory");
	err = hr_gdr_load(&places->gdr, NULL);
	err = hr_window_open(&places->window, driver, err ? NULL : &places->gdr,
			     (uint64_t)(uintptr_t)region->worker, region->bytes, e);
	if (err)
		return err;
	err = hr_window_region(&places->window, region->name, &seen);
	if (err)
		return hr_fail(e, HR_ERROR_MISSING, err, "no I/O addresses left for %zu bytes",
			       region->bytes);
	region->bus = seen.bus;
	region->cpu = seen.cpu;
	return 0;
}

static void close_gpu(struct hr_places *places)
{
	struct hr_region *region = &places->region[HR_PLACE_GPU];

	/* cpu and bus address belong to the window */
	if (places->window.cpu && region->cpu) {
		region->cpu = NULL;
		hr_region_unassign_bus();
	}
	hr_window_close(&places->window);
	if (places->gdr.open)
		hr_gdr_unload(&places->gdr);
}

static void free_place(struct hr_places *places, enum hr_place place)
{
	struct hr_backend *b = places->backend;
	struct hr_region *region = &places->region[place];

	if (!region->bytes)
		return;
	if (place == HR_PLACE_TAP_WORDS)
		hr_places_detach_words(places);
	if (is_reserved(places, place)) {
		munmap(region->cpu, region->bytes);
		return;
	}
	if (place == HR_PLACE_CONTROL || place == HR_PLACE_HOST) {
		b->ops->detach(b, region->cpu);
		hr_hostmem_free(region);
		return;
	}
	if (place == HR_PLACE_WORKER)
		free_cpu_copy(places);
	b->ops->free(b, region);
}

void hr_places_free(struct hr_places *places)
{
	close_gpu(places);
	for (int place = HR_PLACES; place-- > 0;)
		free_place(places, (enum hr_place)place);
	memset(places, 0, sizeof *places);
}

int hr_places_upload(struct hr_places *places, uint64_t offset, uint64_t bytes, struct hr_error *e)
{
	const struct hr_region *r = &places->region[HR_PLACE_WORKER];

	return bytes ? places->backend->ops->upload(places->backend, (uint8_t *)r->worker + offset,
						    (uint8_t *)r->cpu + offset, bytes, e)
		     : 0;
}

int hr_places_download(struct hr_places *places, uint64_t offset, uint64_t bytes,
		       struct hr_error *e)
{
	const struct hr_region *r = &places->region[HR_PLACE_WORKER];

	return bytes ? places->backend->ops->download(places->backend, (uint8_t *)r->cpu + offset,
						      (uint8_t *)r->worker + offset, bytes, e)
		     : 0;
}
