/*
 * The loopback proof, before a pipeline relies on an ssd and a region of memory: the ssd writes a
 * pattern there, which is looked at from where workers look; another one is put there, which the ssd
 * reads. The blocks in between are the store's scratch area, which belongs to nobody's data.
 *
 * That a command succeeds says little: a write that a bridge swallows, or that an IOMMU drops, is
 * posted, and the ssd never learns of it.
 */

#include "boot/engine/prove.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "boot/engine/signals.h"
#include "nvme/status.h"

#define SAMPLES 16u /* pages of a region that are tried: the first, the last, some between */

struct proof {
	struct hr_appliance *app;
	uint32_t g, d;
	enum hr_place place;
	struct hr_obstacle *obstacle;
	const struct hr_region *region;
	uint8_t *want, *got; /* a page each */
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

/* A page of the region as workers see it: GPU memory through the backend, host memory plainly. */
static int look(const struct proof *p, size_t at)
{
	struct hr_backend *b = &p->app->backend[p->g];
	const uint8_t *worker = (const uint8_t *)p->region->worker + at;

	if (p->place == HR_PLACE_GPU)
		return b->ops->download(b, p->got, worker, HR_PAGE);
	memcpy(p->got, (const uint8_t *)p->region->cpu + at, HR_PAGE);
	return 0;
}

static int put(const struct proof *p, size_t at, const uint8_t *page)
{
	struct hr_backend *b = &p->app->backend[p->g];

	if (p->place == HR_PLACE_GPU)
		return b->ops->upload(b, (uint8_t *)p->region->worker + at, page, HR_PAGE);
	memcpy((uint8_t *)p->region->cpu + at, page, HR_PAGE);
	return 0;
}

/* What stands between the two, in words for a message. */
static void blame(const struct proof *p)
{
	const struct hr_path *path = &p->app->path[p->g][p->d];
	struct hr_obstacle *o = p->obstacle;

	if (p->place != HR_PLACE_GPU || !path->pair)
		snprintf(o->suspect, sizeof o->suspect,
			 "these are not the addresses of that memory: is an IOMMU in between?");
	else if (path->suspect[0])
		snprintf(o->suspect, sizeof o->suspect, "most likely rule %s of the topology: %s",
			 path->suspect, path->suspect_why);
	else
		snprintf(o->suspect, sizeof o->suspect,
			 "nothing that the topology knows speaks against it (%s by rule %s): a "
			 "bridge or the firmware does not do what the registers say",
			 path->verdict, path->rule);
}

static void tell(const struct proof *p, const char *what, size_t at, const char *detail)
{
	snprintf(p->obstacle->what, sizeof p->obstacle->what,
		 "loopback through %s memory of gpu '%s' (%s): %s at bus address 0x%llx: %s",
		 hr_place_name(p->place), p->app->config.gpu[p->g].name, p->app->backend[p->g].name,
		 what, (unsigned long long)hr_region_bus(p->region, at).addr, detail);
	blame(p);
}

static int differs(const struct proof *p, size_t at, const char *what)
{
	char text[64];
	size_t i = 0;

	while (i < HR_PAGE - 1 && p->got[i] == p->want[i])
		i++;
	snprintf(text, sizeof text, "byte %zu is 0x%02x, expected 0x%02x", i, p->got[i],
		 p->want[i]);
	tell(p, what, at, text);
	return -EIO;
}

/* The ssd's own command that touches the region; when that fails and the ssd lives, so it is the
 * region. */
static int move(const struct proof *p, bool write, uint64_t offset, size_t at)
{
	struct hr_nvme_blk *disk = &p->app->ssd[p->d].disk;
	const int err = hr_nvme_blk_move(disk, write, offset, hr_region_bus(p->region, at));
	char text[96], name[80];

	if (err <= 0 || disk->dead)
		return err;
	snprintf(text, sizeof text, "%s (%03x)", hr_status_name((uint16_t)err, name, sizeof name),
		 (unsigned)err);
	tell(p, write ? "the ssd cannot read" : "the ssd cannot write", at, text);
	return err;
}

static int compare(const struct proof *p, size_t at, const char *what)
{
	return memcmp(p->got, p->want, HR_PAGE) == 0 ? 0 : differs(p, at, what);
}

/* The ssd writes into the region: what lies at `from` of the disk, which is in want[]. */
static int prove_write(struct proof *p, size_t at, uint64_t from)
{
	int err = move(p, false, from, at);

	if (!err)
		err = look(p, at);
	return err ? err : compare(p, at, "what the ssd wrote did not arrive");
}

/* The ssd reads what workers put there. */
static int prove_read(struct proof *p, size_t at, uint64_t to)
{
	struct hr_nvme_blk *disk = &p->app->ssd[p->d].disk;
	int err = put(p, at, p->want);

	if (!err)
		err = move(p, true, to, at);
	if (!err)
		err = disk->blk.ops->read(&disk->blk, to, p->got, HR_PAGE);
	return err ? err : compare(p, at, "what the ssd read is something else");
}

/* One page of the region, there and back, zeroed again at the end. */
static int prove_page(struct proof *p, size_t at, unsigned sample)
{
	static const uint8_t zero[HR_PAGE];
	struct hr_ssd *ssd = &p->app->ssd[p->d];
	const uint64_t scratch =
		ssd->store.scratch_offset + sample * (uint64_t)HR_PAGE % HR_STORE_SCRATCH;
	int err;

	if (ssd->blk->read_only) { /* the superblock is as good a pattern as any */
		err = ssd->blk->ops->read(ssd->blk, 0, p->want, HR_PAGE);
		if (!err)
			err = prove_write(p, at, 0);
		return err ? err : put(p, at, zero);
	}
	make_pattern(p);
	err = ssd->blk->ops->write(ssd->blk, scratch, p->want, HR_PAGE, false);
	if (!err)
		err = prove_write(p, at, scratch);
	make_pattern(p);
	if (!err)
		err = prove_read(p, at, scratch);
	return err ? err : put(p, at, zero);
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

static int prove_place(struct hr_appliance *app, uint32_t g, uint32_t d, enum hr_place place,
		       struct hr_obstacle *obstacle)
{
	struct proof p = { .app = app,
			   .g = g,
			   .d = d,
			   .place = place,
			   .obstacle = obstacle,
			   .region = &app->memory[g].region[place],
			   .seed = hr_now_ns() };
	uint64_t began = hr_now_ns();
	int err;

	if (!p.region->bytes)
		return 0;
	p.want = aligned_alloc(HR_PAGE, 2 * HR_PAGE);
	if (!p.want) {
		hr_error("out of memory for the loopback proof: %u bytes", 2 * HR_PAGE);
		return -ENOMEM;
	}
	p.got = p.want + HR_PAGE;
	err = prove_region(&p);
	free(p.want);
	if (!err)
		hr_info("%s: loopback through %s memory of gpu '%s' proven in %.1f ms",
			app->ssd[d].transport.name, hr_place_name(place), app->config.gpu[g].name,
			(double)(hr_now_ns() - began) / 1e6);
	return err;
}

/* A command that was lost may still move its data: not into memory that is given back. */
static void stop_lost(struct hr_appliance *app, uint32_t d)
{
	struct hr_ssd *ssd = &app->ssd[d];

	if (!ssd->disk.dead)
		return;
	hr_ssd_fail(ssd);
	if (hr_ssd_disable(ssd) == 0)
		return;
	hr_warn("%s: does not stop; the memory of the loopback stays allocated",
		ssd->transport.name);
	app->stuck = true;
}

int hr_prove(struct hr_appliance *app, uint32_t g, uint32_t d, enum hr_place place,
	     struct hr_obstacle *obstacle)
{
	const struct hr_ssd *ssd = &app->ssd[d];
	int err;

	memset(obstacle, 0, sizeof *obstacle);
	/* A software controller copies by pointers: there is nothing between it and memory. */
	if (ssd->transport.kind == HR_TRANSPORT_SOFT)
		return 0;
	if (!ssd->has_store) {
		hr_info("%s: no store, hence no scratch area: %s memory is not proven",
			ssd->transport.name, hr_place_name(place));
		return 0;
	}
	err = prove_place(app, g, d, place, obstacle);
	if (err)
		stop_lost(app, d);
	return err;
}
