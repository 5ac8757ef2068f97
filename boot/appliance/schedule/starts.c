/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/schedule/starts.h"

#include <errno.h>
#include <string.h>

#include "boot/engine/engine.h"
#include "cache/crc32c.h"
#include "nvme/queue/status.h"

#define MAGIC "hrstarts"
#define VERSION 1u
#define PAGES 2u
#define TAG 0x7374726174737268u /* of the object: headrace has made it for the starts */
#define TIME_MAX (1ull << 62)	/* the year 2116 */
#define COUNT_MAX (1ull << 62)
#define STATUS_MAX 0xffff
#define ERRNO_MAX 4095

struct page {
	char magic[8];
	uint32_t version, count;
	struct hr_starts starts;
	uint8_t zero[HR_PAGE - 16 - sizeof(struct hr_starts) - 4];
	uint32_t crc;
};

_Static_assert(sizeof(struct page) == HR_PAGE, "page");
_Static_assert(sizeof(struct hr_start) % 8 == 0, "words");

/* ---- values */

static bool is_name(const char *name)
{
	const size_t length = strnlen(name, HR_NAME_MAX);

	for (size_t i = 0; i < length; i++)
		if (name[i] < ' ' || name[i] > '~' || name[i] == '/')
			return false;
	return length < HR_NAME_MAX;
}

static const char *check_start(const struct hr_start *start)
{
	if (!is_name(start->name))
		return "name";
	if (start->planned_ns > TIME_MAX)
		return "planned";
	if (start->started_ns > TIME_MAX || start->ended_ns > TIME_MAX)
		return "time of the last start";
	if (start->starts > COUNT_MAX || start->done > start->starts ||
	    start->failures > start->starts || start->failures_in_row > start->starts ||
	    start->skipped > COUNT_MAX)
		return "number of starts";
	if (start->outcome >= HR_START_OUTCOMES)
		return "outcome";
	if (start->error < -ERRNO_MAX || start->error > STATUS_MAX)
		return "error";
	return start->flags & ~(uint64_t)HR_START_FLAGS ? "flags" : NULL;
}

const char *hr_starts_check(const struct hr_starts *starts)
{
	const char *wrong = starts->sequence > COUNT_MAX ? "sequence" : NULL;

	for (uint32_t i = 0; !wrong && i < HR_PIPELINES_MAX; i++)
		wrong = check_start(&starts->start[i]);
	for (uint32_t i = 0; !wrong && i < HR_PIPELINES_MAX; i++)
		if (starts->suspension[i].deaths > COUNT_MAX ||
		    starts->suspension[i].until_ns > TIME_MAX)
			wrong = "suspension";
	return wrong;
}

void hr_starts_put(const struct hr_starts *starts, uint8_t to[HR_PAGE])
{
	struct page page = { .magic = MAGIC, .version = VERSION, .count = HR_PIPELINES_MAX };

	page.starts = *starts;
	page.crc = hr_crc32c(0, &page, HR_PAGE - sizeof page.crc);
	memcpy(to, &page, HR_PAGE);
}

bool hr_starts_get(struct hr_starts *starts, const uint8_t from[HR_PAGE])
{
	struct page page;

	memcpy(&page, from, HR_PAGE);
	if (memcmp(page.magic, MAGIC, sizeof page.magic) != 0 || page.version != VERSION ||
	    page.count != HR_PIPELINES_MAX ||
	    page.crc != hr_crc32c(0, &page, HR_PAGE - sizeof page.crc) || !page.starts.sequence ||
	    hr_starts_check(&page.starts))
		return false;
	*starts = page.starts;
	return true;
}

/* ---- one store */

/* The object; NULL with 0: there is none. */
static int find_starts_object(const struct hr_store *store, const struct hr_store_object **object,
			      struct hr_error *e)
{
	*object = hr_store_find(store, HR_STARTS_OBJECT);
	if (!*object || ((*object)->tag == TAG && (*object)->bytes == PAGES * HR_PAGE))
		return 0;
	return hr_error_add(e, HR_ERROR_FAILED, -EEXIST,
			    "%s: object '%s' was not made by 'headrace boot', which keeps the "
			    "starts of pipelines in an object of that name: rename or remove it",
			    store->blk->name, HR_STARTS_OBJECT);
}

int hr_starts_load(struct hr_store *store, struct hr_starts *starts, struct hr_error *e)
{
	const struct hr_store_object *object;
	struct hr_starts found;
	bool any = false;
	int err = find_starts_object(store, &object, e);

	for (uint32_t i = 0; !err && object && i < PAGES; i++) {
		_Alignas(64) uint8_t page[HR_PAGE];

		err = store->blk->ops->read(store->blk, object->offset + i * HR_PAGE, page, HR_PAGE,
					    e);
		if (err || !hr_starts_get(&found, page))
			continue;
		if (!any || found.sequence > starts->sequence)
			*starts = found;
		any = true;
	}
	return err ? err : any ? 0 : -ENOENT;
}

/* Both pages are blank before the object has its name, because the extent may hold old data. */
static int create_starts_object(struct hr_store *store, struct hr_error *e)
{
	static const uint8_t blank[HR_PAGE];
	struct hr_store_object *object;
	int err = hr_store_create(store, HR_STARTS_OBJECT, PAGES * HR_PAGE, TAG, true, &object, e);

	for (uint32_t i = 0; !err && i < PAGES; i++)
		err = store->blk->ops->write(store->blk, object->offset + i * HR_PAGE, blank,
					     HR_PAGE, false, e);
	return err ? err : hr_store_finish(store, object->id, false, 0, e);
}

int hr_starts_save(struct hr_store *store, struct hr_starts *starts, struct hr_error *e)
{
	const struct hr_store_object *object;
	_Alignas(64) uint8_t page[HR_PAGE];
	int err = find_starts_object(store, &object, e);

	if (!err && !object) {
		err = create_starts_object(store, e);
		object = hr_store_find(store, HR_STARTS_OBJECT);
	}
	if (err)
		return err;
	starts->sequence++;
	hr_starts_put(starts, page);
	return store->blk->ops->write(store->blk,
				      object->offset + starts->sequence % PAGES * HR_PAGE, page,
				      HR_PAGE, true, e);
}

/* ---- all ssds */

static bool is_up(const struct hr_ssd *ssd)
{
	return ssd->has_store && !hr_health_failed(&ssd->health);
}

int hr_starts_read(struct hr_engine *engine, struct hr_starts *starts, struct hr_error *e)
{
	struct hr_starts found;
	int first = -ENOENT;

	memset(starts, 0, sizeof *starts);
	for (uint32_t d = 0; d < engine->config.ssds; d++) {
		int err = is_up(&engine->ssd[d]) ? hr_starts_load(&engine->ssd[d].store, &found, e)
						 : -ENOENT;

		if (!err && found.sequence > starts->sequence)
			*starts = found;
		if (err != -ENOENT)
			first = first && err ? err : 0;
	}
	return first;
}

int hr_starts_write(struct hr_engine *engine, struct hr_starts *starts, struct hr_error *e)
{
	for (uint32_t d = 0; d < engine->config.ssds; d++)
		if (is_up(&engine->ssd[d]) && !engine->ssd[d].blk->read_only)
			return hr_starts_save(&engine->ssd[d].store, starts, e);
	return hr_error_add(e, HR_ERROR_MISSING, -ENODEV,
			    "no ssd has a writable object store for the starts of pipelines");
}
