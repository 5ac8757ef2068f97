/* SPDX-License-Identifier: Apache-2.0 */
/* Open and close a software controller, add windows, cut its power. */
#include "nvme/soft/soft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/soft/internal.h"

static bool overlaps(const struct soft *soft, uint64_t bus, uint64_t bytes)
{
	for (uint32_t i = 0; i < HR_SOFT_WINDOWS; i++) {
		const struct soft_window *w = &soft->window[i];

		if (w->bytes && bus < w->bus + w->bytes && w->bus < bus + bytes)
			return true;
	}
	return false;
}

/* Add a window for one piece of a region. */
static int add_window(struct soft *soft, uint64_t bus, uint64_t bytes, uint8_t *cpu, bool peer)
{
	if (overlaps(soft, bus, bytes))
		return -EEXIST;
	for (uint32_t i = 0; i < HR_SOFT_WINDOWS; i++) {
		if (soft->window[i].bytes)
			continue;
		soft->window[i] = (struct soft_window){ bus, bytes, cpu, peer };
		return 0;
	}
	return -ENOSPC;
}

static void drop_window(struct soft *soft, uint64_t bus)
{
	for (uint32_t i = 0; i < HR_SOFT_WINDOWS; i++)
		if (soft->window[i].bytes && soft->window[i].bus == bus) {
			soft_drop_queues(soft, &soft->window[i]);
			soft->window[i] = (struct soft_window){ 0 };
		}
}

/* Remove the windows of [0, end) of a region. */
static void drop_windows(struct soft *soft, const struct hr_region *region, size_t end)
{
	for (size_t at = 0; at < end; at += hr_region_contiguous_bytes(region, at))
		drop_window(soft, hr_region_bus(region, at).addr);
}

static int soft_map(struct hr_transport *t, const struct hr_region *region, struct hr_error *e)
{
	struct soft *soft = t->impl;
	int err = region->cpu ? 0
			      : hr_fail(e, HR_ERROR_MISSING, -EINVAL,
					"region '%s': the CPU cannot access it", region->name);

	soft_quiesce(soft, 0); /* a poller may still use the former window */
	for (size_t at = 0; !err && at < region->bytes;
	     at += hr_region_contiguous_bytes(region, at)) {
		err = add_window(soft, hr_region_bus(region, at).addr,
				 hr_region_contiguous_bytes(region, at),
				 (uint8_t *)region->cpu + at, region->kind != HR_REGION_HOST);
		if (err) {
			hr_fail(e, HR_ERROR_FAILED, err, "region '%s': %s", region->name,
				err == -EEXIST ? "overlaps another window" : "no window is left");
			drop_windows(soft, region, at);
		}
	}
	soft_resume(soft, 0);
	return err;
}

static void soft_unmap(struct hr_transport *t, const struct hr_region *region)
{
	struct soft *soft = t->impl;

	soft_quiesce(soft, 0);
	soft_peer_forget(soft);
	drop_windows(soft, region, region->bytes);
	soft_resume(soft, 0);
}

static void free_all(struct soft *soft)
{
	soft_peer_forget(soft);
	for (uint32_t i = 0; soft->poller && i < soft->threads; i++) {
		pthread_mutex_destroy(&soft->poller[i].lock);
		free(soft->poller[i].vec);
	}
	free(soft->poller);
	soft_reservations_close(soft);
	soft_cache_close(&soft->cache);
	soft_media_close(&soft->media);
	pthread_mutex_destroy(&soft->errors_lock);
	pthread_mutex_destroy(&soft->rest_lock);
	pthread_cond_destroy(&soft->rest_end);
	if (soft->bar)
		munmap(soft->bar, soft->bar_bytes);
	free(soft);
}

/* Data in the volatile cache is lost, as on any ssd that was not shut down. */
static void soft_close(struct hr_transport *t)
{
	struct soft *soft = t->impl;

	soft_join(soft, soft->threads);
	free_all(soft);
	memset(t, 0, sizeof(*t));
}

static void rest(struct hr_transport *t, bool resting)
{
	soft_set_idle(t->impl, resting);
}

static void discard(struct hr_transport *t)
{
	struct soft *soft = t->impl;

	soft_media_unmake(&soft->media);
}

/* The configuration space of a device that is gone does not answer; that of a deaf one does. */
static int silence(struct hr_transport *t, bool for_good)
{
	struct soft *soft = t->impl;

	if (__atomic_load_n(&soft->dead, __ATOMIC_ACQUIRE))
		return __atomic_load_n(&soft->deaf, __ATOMIC_ACQUIRE) ? 0 : -ENODEV;
	soft_quiesce(soft, 0);
	soft->running = false;
	soft_resume(soft, 0);
	return 0;
}

static const struct hr_transport_ops soft_ops = {
	.map = soft_map,
	.unmap = soft_unmap,
	.silence = silence,
	.rest = rest,
	.discard = discard,
	.close = soft_close,
};

static int map_soft_bar(struct soft *soft)
{
	const size_t doorbells = 2 * (HR_SOFT_QUEUES + 1) * (size_t)(4u << soft->options.dstrd);

	soft->bar_bytes = (SOFT_DOORBELLS + doorbells + HR_PAGE - 1) & ~((size_t)HR_PAGE - 1);
	soft->bar = mmap(NULL, soft->bar_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);
	if (soft->bar == MAP_FAILED) {
		soft->bar = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* Zeroed, cache line aligned. */
static void *allocate_lines(size_t bytes)
{
	void *memory = aligned_alloc(SOFT_LINE, bytes);

	return memory ? memset(memory, 0, bytes) : NULL;
}

static int allocate_pollers(struct soft *soft)
{
	soft->threads = soft->options.threads;
	soft->poller = allocate_lines(soft->threads * sizeof(*soft->poller));
	if (!soft->poller)
		return -ENOMEM;
	for (uint32_t i = 0; i < soft->threads; i++) {
		struct soft_poller *p = &soft->poller[i];

		p->soft = soft;
		p->index = i;
		pthread_mutex_init(&p->lock, NULL);
		p->vec = calloc(soft->vec_max, sizeof(*p->vec));
		if (!p->vec)
			return -ENOMEM;
	}
	return 0;
}

static void set_shape(struct soft *soft)
{
	const struct hr_soft_options *o = &soft->options;

	soft->lba_shift = o->block_bytes == 512 ? 9 : 12;
	/* 0 in the options of some tests */
	soft->namespaces = o->namespaces ? o->namespaces : 1;
	soft->blocks = (soft->media.bytes >> soft->lba_shift) / soft->namespaces;
	soft->max_bytes = o->mdts ? (uint64_t)HR_PAGE << o->mdts : (uint64_t)o->block_bytes << 16;
	soft->vec_max = (unsigned)(soft->max_bytes / HR_PAGE) + 2;
	soft->opened_ns = hr_now_ns();
	pthread_mutex_init(&soft->errors_lock, NULL);
	pthread_mutex_init(&soft->rest_lock, NULL);
	pthread_cond_init(&soft->rest_end, NULL);
	soft_make_identity(soft);
	soft->protected = o->read_only;
}

int soft_new(struct soft **out, const struct hr_soft_options *options, struct hr_error *e)
{
	struct soft *soft = allocate_lines(sizeof(*soft));
	int err;

	if (!soft)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "soft: out of memory");
	soft->options = *options;
	err = soft_media_open(&soft->media, &soft->options, e);
	if (err) {
		free(soft);
		return err;
	}
	set_shape(soft);
	err = soft_cache_open(&soft->cache, &soft->media, options->cache_bytes,
			      options->block_bytes, &soft->dead);
	if (!err)
		err = map_soft_bar(soft);
	if (!err)
		err = allocate_pollers(soft);
	if (!err)
		err = soft_reservations_open(soft);
	if (!err && *options->faults)
		err = soft_faults_read(soft, options->faults, e);
	if (err) {
		hr_fail(e, HR_ERROR_MISSING, err, "soft: cannot set up the controller: %s",
			strerror(-err));
		soft_media_unmake(&soft->media);
		free_all(soft);
		return err;
	}
	soft_regs_reset(soft);
	*out = soft;
	return 0;
}

void soft_delete(struct soft *soft)
{
	free_all(soft);
}

/* Of a long path keep the end, which identifies it best. */
static void set_name(struct hr_transport *t, const char *what)
{
	const size_t length = strlen(what), room = sizeof(t->name) - sizeof("soft:");
	const size_t cut = length > room ? length - room + strlen("...") : 0;
	char *end = stpcpy(t->name, cut ? "soft:..." : "soft:");

	memcpy(end, what + cut, length - cut + 1);
}

int hr_soft_open(struct hr_transport *t, const struct hr_soft_options *options, struct hr_error *e)
{
	struct soft *soft;
	int err = soft_new(&soft, options, e);

	if (err)
		return err;
	err = soft_start(soft, e);
	if (err) {
		soft_delete(soft);
		return err;
	}
	memset(t, 0, sizeof(*t));
	t->ops = &soft_ops;
	set_name(t, *options->path ? options->path : (options->null ? "null" : "memory"));
	t->keeps_no_data = options->null;
	t->vendor = options->vendor;
	t->device = options->device;
	t->bar = soft->bar;
	t->bar_is_memory = true;
	t->bar_bytes = soft->bar_bytes;
	t->impl = soft;
	return 0;
}
