/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/history.h"

#include <errno.h>
#include <string.h>

#include "boot/engine/engine.h"
#include "cache/crc32c.h"
#include "config/base/json.h"
#include "config/base/text.h"

#define MAGIC "hrpast\0"
#define VERSION 1u
#define TAG 0x747361707268u   /* of the object: headrace has made it for the runs */
#define TIME_MAX (1ull << 62) /* the year 2116 */
#define COUNT_MAX (1ull << 62)
#define STATUS_MAX 0xffff
#define ERRNO_MAX 4095
#define CHUNK 16u /* pages of a read */

_Static_assert(sizeof(struct hr_past_run) == HR_PAGE, "a page");

/* ---- pages */

static uint32_t crc_of(const struct hr_past_run *run)
{
	return hr_crc32c(0, run, HR_PAGE - sizeof run->crc);
}

static bool is_blank(const struct hr_past_run *run)
{
	return memcmp(run->magic, MAGIC, sizeof run->magic) != 0;
}

static bool is_valid(const struct hr_past_run *run)
{
	if (is_blank(run) || run->version != VERSION || run->crc != crc_of(run))
		return false;
	if (run->sequence == 0 || run->sequence > COUNT_MAX || run->start > COUNT_MAX)
		return false;
	if (run->outcome == HR_RUN_WAITING || run->outcome > HR_RUN_FAILED || run->ended_it > 1 ||
	    run->too_long > 1 || run->error < -ERRNO_MAX || run->error > STATUS_MAX)
		return false;
	if (run->started_ns > TIME_MAX || run->ended_ns > TIME_MAX || run->duration_ns > TIME_MAX)
		return false;
	if (!run->pipeline[0] || !hr_is_line(run->pipeline, sizeof run->pipeline) ||
	    !hr_is_line(run->op, sizeof run->op) ||
	    !hr_is_line(run->message, sizeof run->message) ||
	    !hr_is_line(run->result, sizeof run->result))
		return false;
	return !run->result[0] || hr_json_text_is_object(run->result);
}

bool hr_history_get(const struct hr_history *history, uint32_t k, struct hr_past_run *run)
{
	if (is_blank(&history->run[k]))
		return false;
	*run = history->run[k];
	return is_valid(run);
}

static bool is_of(const struct hr_past_run *run, const char *pipeline)
{
	return strncmp(run->pipeline, pipeline, sizeof run->pipeline) == 0;
}

bool hr_history_newest(const struct hr_history *history, const char *pipeline, uint64_t before,
		       struct hr_past_run *run)
{
	struct hr_past_run other;
	uint64_t best = 0;

	for (uint32_t k = 0; k < HR_HISTORY_ENTRIES; k++) {
		const struct hr_past_run *page = &history->run[k];

		if (!is_of(page, pipeline) || page->sequence >= before || page->sequence <= best ||
		    !hr_history_get(history, k, &other) || !is_of(&other, pipeline) ||
		    other.sequence >= before || other.sequence <= best)
			continue;
		best = other.sequence;
		*run = other;
	}
	return best != 0;
}

bool hr_history_find(const struct hr_history *history, const char *pipeline, uint64_t start,
		     struct hr_past_run *run)
{
	run->sequence = UINT64_MAX;
	while (hr_history_newest(history, pipeline, run->sequence, run))
		if (run->start == start)
			return true;
	return false;
}

/* ---- a place for a run */

static bool is_configured(const struct hr_config *config, const struct hr_past_run *run)
{
	for (uint32_t i = 0; i < config->pipelines; i++)
		if (is_of(run, config->pipeline[i].name))
			return true;
	return false;
}

/* What a look at all pages has found. Index HR_HISTORY_ENTRIES: none. */
struct places {
	uint64_t newest;	/* sequence of all */
	uint32_t own, oldest;	/* number of pages of the pipeline, and the oldest one */
	uint32_t free, foreign; /* the first free page, the oldest one of no pipeline */
	uint64_t oldest_at, foreign_at;
};

static void note_place(struct places *p, uint32_t k, const struct hr_past_run *page,
		       const struct hr_config *config, const char *pipeline)
{
	p->newest = page->sequence > p->newest ? page->sequence : p->newest;
	if (is_of(page, pipeline)) {
		if (!p->own++ || page->sequence < p->oldest_at) {
			p->oldest = k;
			p->oldest_at = page->sequence;
		}
	} else if (!is_configured(config, page) &&
		   (p->foreign == HR_HISTORY_ENTRIES || page->sequence < p->foreign_at)) {
		p->foreign = k;
		p->foreign_at = page->sequence;
	}
}

void hr_history_add(struct hr_history *history, const struct hr_config *config,
		    struct hr_past_run *run)
{
	struct places p = { .oldest = HR_HISTORY_ENTRIES,
			    .free = HR_HISTORY_ENTRIES,
			    .foreign = HR_HISTORY_ENTRIES };
	uint32_t k;

	for (k = 0; k < HR_HISTORY_ENTRIES; k++) {
		struct hr_past_run page;

		if (hr_history_get(history, k, &page))
			note_place(&p, k, &page, config, run->pipeline);
		else if (p.free == HR_HISTORY_ENTRIES)
			p.free = k;
	}
	k = p.own >= HR_HISTORY_RUNS ? p.oldest : p.free < HR_HISTORY_ENTRIES ? p.free : p.foreign;
	if (k == HR_HISTORY_ENTRIES) /* only damaged pages leave no place */
		k = 0;
	memcpy(run->magic, MAGIC, sizeof run->magic);
	run->version = VERSION;
	run->sequence = p.newest + 1;
	run->crc = crc_of(run);
	history->run[k] = *run;
	history->unsaved[k] = 1;
}

/* ---- the object */

static int find_history_object(const struct hr_store *store, const struct hr_store_object **object,
			       struct hr_error *e)
{
	*object = hr_store_find(store, HR_HISTORY_OBJECT);
	if (!*object || ((*object)->tag == TAG && (*object)->bytes == HR_HISTORY_ENTRIES * HR_PAGE))
		return 0;
	return hr_error_add(e, HR_ERROR_FAILED, -EEXIST,
			    "%s: object '%s' was not made by 'headrace boot', which keeps the last "
			    "runs of pipelines in an object of that name: rename or remove it",
			    store->blk->name, HR_HISTORY_OBJECT);
}

/* The first ssd with a writable store; NULL: there is none. */
static struct hr_store *store_of(struct hr_engine *engine)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		struct hr_ssd *ssd = &engine->ssd[d];

		if (ssd->has_store && !hr_health_failed(&ssd->health) && !ssd->blk->read_only)
			return &ssd->store;
	}
	return NULL;
}

static int no_store(struct hr_error *e)
{
	return hr_error_add(e, HR_ERROR_MISSING, -ENODEV,
			    "no ssd has a writable object store for the runs of pipelines");
}

/* All pages are blank before the object has its name, because the extent may hold old data. */
static int create_history_object(struct hr_store *store, const struct hr_store_object **made,
				 struct hr_error *e)
{
	static const _Alignas(HR_PAGE) uint8_t blank[CHUNK * HR_PAGE];
	struct hr_store_object *object;
	const uint64_t bytes = HR_HISTORY_ENTRIES * HR_PAGE;
	int err = hr_store_create(store, HR_HISTORY_OBJECT, bytes, TAG, true, &object, e);

	for (uint64_t at = 0; !err && at < bytes; at += sizeof blank)
		err = store->blk->ops->write(store->blk, object->offset + at, blank, sizeof blank,
					     false, e);
	if (!err)
		err = hr_store_finish(store, object->id, false, 0, e);
	*made = err ? NULL : hr_store_find(store, HR_HISTORY_OBJECT);
	return err;
}

int hr_history_save(struct hr_engine *engine, struct hr_history *history, struct hr_error *e)
{
	static _Alignas(HR_PAGE) struct hr_past_run page;
	struct hr_store *store = store_of(engine);
	const struct hr_store_object *object;
	int err = store ? find_history_object(store, &object, e) : no_store(e);

	for (uint32_t k = 0; !err && k < HR_HISTORY_ENTRIES; k++) {
		if (!history->unsaved[k])
			continue;
		if (!object)
			err = create_history_object(store, &object, e);
		page = history->run[k];
		if (!err)
			err = store->blk->ops->write(store->blk,
						     object->offset + (uint64_t)k * HR_PAGE, &page,
						     HR_PAGE, true, e);
		history->unsaved[k] = err != 0;
	}
	return err;
}

static int read_pages(struct hr_store *store, const struct hr_store_object *object,
		      struct hr_history *history, struct hr_error *e)
{
	static _Alignas(HR_PAGE) struct hr_past_run page[CHUNK];
	int err = 0;

	for (uint32_t k = 0; !err && k < HR_HISTORY_ENTRIES; k += CHUNK) {
		err = store->blk->ops->read(store->blk, object->offset + (uint64_t)k * HR_PAGE,
					    page, sizeof page, e);
		if (!err)
			memcpy(&history->run[k], page, sizeof page);
	}
	return err;
}

/* Runs that ended before this engine, and that only memory has: add them behind those of the disk. */
static void add_again(struct hr_history *history, const struct hr_history *before,
		      const struct hr_config *config)
{
	uint64_t last = 0;

	for (;;) {
		struct hr_past_run run, next = { .sequence = UINT64_MAX };

		for (uint32_t k = 0; k < HR_HISTORY_ENTRIES; k++)
			if (before->unsaved[k] && hr_history_get(before, k, &run) &&
			    run.sequence > last && run.sequence < next.sequence)
				next = run;
		if (next.sequence == UINT64_MAX)
			return;
		last = next.sequence;
		hr_history_add(history, config, &next);
	}
}

int hr_history_load(struct hr_engine *engine, struct hr_history *history, struct hr_error *e)
{
	static struct hr_history before; /* too large for a stack */
	struct hr_store *store = store_of(engine);
	const struct hr_store_object *object;
	int err = store ? find_history_object(store, &object, e) : no_store(e);

	if (err || !object)
		return err ? err : hr_history_save(engine, history, e);
	before = *history;
	memset(history, 0, sizeof *history);
	err = read_pages(store, object, history, e);
	add_again(history, &before, &engine->config);
	return err ? err : hr_history_save(engine, history, e);
}
