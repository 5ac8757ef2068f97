/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loopback proof of a memory region, before a pipeline relies on it. The ssd writes a pattern
 * to the region, and the proof reads it at its address for workers. Then the proof writes another
 * pattern, and the ssd reads it. The blocks on the ssd are the store's scratch area, which never
 * holds data.
 *
 * The success of a command is no proof: a write that a bridge or an IOMMU discards is posted, so
 * the ssd does not detect it.
 */

#include "boot/engine/bringup/stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/process.h"
#include "nvme/queue/status.h"

/* pages of a region that are tested: the first, the last, some between */
#define SAMPLES 16u

struct proof {
	struct hr_engine *engine;
	uint32_t g, d;
	enum hr_place place;
	bool *refuted;
	struct hr_error *e;
	const struct hr_region *region;
	uint8_t *want, *got; /* one page each */
	uint64_t seed;
};

static void make_pattern(struct proof *p)
{
	for (size_t i = 0; i < HR_PAGE; i += 8) {
		const uint64_t word = (p->seed + i) * 0x9e3779b97f4a7c15u;

		memcpy(p->want + i, &word, sizeof word);
	}
	p->seed += HR_PAGE;
}

/* Read a page of the region at its address for workers: GPU memory through the backend, host
 * memory directly. */
static int read_region_page(const struct proof *p, size_t at)
{
	struct hr_backend *b = &p->engine->backend[p->g];
	const uint8_t *worker = (const uint8_t *)p->region->worker + at;

	if (p->place == HR_PLACE_GPU)
		return b->ops->download(b, p->got, worker, HR_PAGE, p->e);
	memcpy(p->got, (const uint8_t *)p->region->cpu + at, HR_PAGE);
	return 0;
}

static int write_region_page(const struct proof *p, size_t at, const uint8_t *page)
{
	struct hr_backend *b = &p->engine->backend[p->g];

	if (p->place == HR_PLACE_GPU)
		return b->ops->upload(b, (uint8_t *)p->region->worker + at, page, HR_PAGE, p->e);
	memcpy((uint8_t *)p->region->cpu + at, page, HR_PAGE);
	return 0;
}

/* Describe the most likely cause, for a message. */
static void suspect(const struct proof *p, char *text, size_t bytes)
{
	const struct hr_path *path = &p->engine->path[p->g][p->d];

	if (p->place != HR_PLACE_GPU || !path->pair)
		snprintf(text, bytes,
			 "the bus addresses do not belong to that memory: "
			 "does an IOMMU translate them?");
	else if (path->suspect[0])
		snprintf(text, bytes, "most likely rule %s of the topology: %s", path->suspect,
			 path->suspect_why);
	else
		snprintf(text, bytes,
			 "the topology shows no cause (%s by rule %s): a "
			 "bridge or the firmware may contradict its registers",
			 path->verdict, path->rule);
}

static int refute_loopback(const struct proof *p, int err, const char *what, size_t at,
			   const char *detail)
{
	char text[448];

	suspect(p, text, sizeof text);
	*p->refuted = true;
	return hr_fail(
		p->e, HR_ERROR_DEVICE, err,
		"loopback through %s memory of gpu '%s' (%s): %s at bus address 0x%llx: %s; %s",
		hr_place_name(p->place), p->engine->config.gpu[p->g].name,
		p->engine->backend[p->g].name, what,
		(unsigned long long)hr_region_bus(p->region, at).addr, detail, text);
}

static int differs(const struct proof *p, size_t at, const char *what)
{
	char text[64];
	size_t i = 0;

	while (i < HR_PAGE - 1 && p->got[i] == p->want[i])
		i++;
	snprintf(text, sizeof text, "byte %zu is 0x%02x, expected 0x%02x", i, p->got[i],
		 p->want[i]);
	return refute_loopback(p, -EIO, what, at, text);
}

/* The ssd's command that accesses the region. When it fails and the ssd works, the region is the
 * cause. */
static int access_region(const struct proof *p, bool write, uint64_t offset, size_t at)
{
	struct hr_ssd *ssd = &p->engine->ssd[p->d];
	const int err =
		hr_nvme_blk_move(&ssd->disk, write, offset, hr_region_bus(p->region, at), p->e);
	char text[96], name[80];

	if (err <= 0 || hr_health_failed(&ssd->health))
		return err;
	snprintf(text, sizeof text, "%s (%03x)", hr_status_name((uint16_t)err, name, sizeof name),
		 (unsigned)err);
	return refute_loopback(p, err, write ? "the ssd cannot read" : "the ssd cannot write", at,
			       text);
}

static int compare_page(const struct proof *p, size_t at, const char *what)
{
	return memcmp(p->got, p->want, HR_PAGE) == 0 ? 0 : differs(p, at, what);
}

/* The ssd writes the block at `from` of the disk, whose contents are in want[], to the region. */
static int prove_write(struct proof *p, size_t at, uint64_t from)
{
	int err = access_region(p, false, from, at);

	if (!err)
		err = read_region_page(p, at);
	return err ? err : compare_page(p, at, "the data that the ssd wrote did not arrive");
}

/* The ssd reads data that workers have written. */
static int prove_read(struct proof *p, size_t at, uint64_t to)
{
	struct hr_nvme_blk *disk = &p->engine->ssd[p->d].disk;
	int err = write_region_page(p, at, p->want);

	if (!err)
		err = access_region(p, true, to, at);
	if (!err)
		err = disk->blk.ops->read(&disk->blk, to, p->got, HR_PAGE, p->e);
	return err ? err : compare_page(p, at, "the ssd read other data");
}

/* Test one page of the region in both directions; zero it at the end. */
static int prove_page(struct proof *p, size_t at, unsigned sample)
{
	static const uint8_t zero[HR_PAGE];
	struct hr_ssd *ssd = &p->engine->ssd[p->d];
	const uint64_t scratch =
		ssd->store.scratch_offset + sample * (uint64_t)HR_PAGE % HR_STORE_SCRATCH;
	int err;

	if (ssd->blk->read_only) { /* use the superblock as the pattern */
		err = ssd->blk->ops->read(ssd->blk, 0, p->want, HR_PAGE, p->e);
		if (!err)
			err = prove_write(p, at, 0);
		return err ? err : write_region_page(p, at, zero);
	}
	make_pattern(p);
	err = ssd->blk->ops->write(ssd->blk, scratch, p->want, HR_PAGE, false, p->e);
	if (!err)
		err = prove_write(p, at, scratch);
	make_pattern(p);
	if (!err)
		err = prove_read(p, at, scratch);
	return err ? err : write_region_page(p, at, zero);
}

static int prove_region(struct proof *p)
{
	const size_t pages = p->region->bytes / HR_PAGE;
	const unsigned samples = pages < SAMPLES ? (unsigned)pages : SAMPLES;
	int err = 0;

	for (unsigned i = 0; !err && i < samples; i++) {
		const size_t page = samples > 1 ? (pages - 1) * i / (samples - 1) : 0;

		err = hr_signals_pending() ? -EINTR : prove_page(p, page * HR_PAGE, i);
	}
	return err;
}

static int prove_place(struct hr_engine *engine, uint32_t g, uint32_t d, enum hr_place place,
		       bool *refuted, struct hr_error *e)
{
	struct proof p = { .engine = engine,
			   .g = g,
			   .d = d,
			   .place = place,
			   .refuted = refuted,
			   .e = e,
			   .region = &engine->memory[g].region[place],
			   .seed = hr_now_ns() };
	uint64_t began = hr_now_ns();
	int err;

	if (!p.region->bytes)
		return 0;
	p.want = aligned_alloc(HR_PAGE, 2 * HR_PAGE);
	if (!p.want)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			       "out of memory for the loopback proof: %u bytes", 2 * HR_PAGE);
	p.got = p.want + HR_PAGE;
	err = prove_region(&p);
	free(p.want);
	if (!err)
		hr_info("%s: loopback through %s memory of gpu '%s' proven in %.1f ms",
			engine->ssd[d].transport.name, hr_place_name(place),
			engine->config.gpu[g].name, (double)(hr_now_ns() - began) / 1e6);
	return err;
}

/* A lost command may still move its data, so the memory must not be freed before the controller
 * stops. */
static void stop_lost(struct hr_engine *engine, uint32_t d)
{
	struct hr_ssd *ssd = &engine->ssd[d];

	if (hr_health_failed(&ssd->health) && hr_ssd_disable(ssd) != 0)
		hr_warn("%s: the controller does not stop; the memory of the loopback stays "
			"allocated",
			ssd->transport.name);
}

int hr_loopback_test(struct hr_engine *engine, uint32_t g, uint32_t d, enum hr_place place,
		     bool *refuted, struct hr_error *e)
{
	const struct hr_ssd *ssd = &engine->ssd[d];
	int err;

	*refuted = false;
	/* A software controller copies by pointers, so no bus is involved. */
	if (ssd->transport.kind == HR_TRANSPORT_SOFT)
		return 0;
	if (!ssd->has_store) {
		hr_info("%s: no store, hence no scratch area: %s memory is not proven",
			ssd->transport.name, hr_place_name(place));
		return 0;
	}
	err = prove_place(engine, g, d, place, refuted, e);
	if (err)
		stop_lost(engine, d);
	return err;
}
