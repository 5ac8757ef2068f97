/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/objects/reading.h"

#include <errno.h>

#include "boot/engine/objects/checksums.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "nvme/queue/status.h"

/* What is read: a source, or an object of an access operator. */
struct item {
	const struct hr_config_object *config;
	struct hr_run_verify *verify;
	uint64_t id, bytes;
	int from;
};

static struct item item_of(struct hr_run *run, uint32_t i)
{
	struct hr_run_source *source = &run->source[i];
	struct hr_run_object *object = &run->object[i];

	if (run->config->objects)
		return (struct item){ &run->config->object[i], &object->verify, object->id,
				      object->bytes, object->writer };
	return (struct item){ &run->config->source[i], &source->verify, source->id,
			      source->is_shard ? source->held : source->bytes, source->writer };
}

static bool is_read(const struct hr_run *run, enum hr_reading_phase phase, uint32_t i)
{
	const struct hr_config_pipeline *p = run->config;
	const struct hr_run_object *object = &run->object[i];

	if (phase == HR_READING_AFTER)
		return object->used && p->object[i].writes && p->object[i].checksum;
	if (!p->objects)
		return p->verify == HR_VERIFY_BEFORE &&
		       run->source[i].verify.check == HR_SOURCE_UNREAD;
	return object->used && !p->object[i].bytes && object->verify.check == HR_SOURCE_UNREAD;
}

/* Go on to the next item that is read. */
static void find_next(struct hr_reading *r, const struct hr_run *run)
{
	const struct hr_config_pipeline *p = run->config;
	const uint32_t count = p->objects		       ? p->objects
			       : r->phase == HR_READING_BEFORE ? hr_config_source_objects(p)
							       : 0;

	r->at = 0;
	r->crc = 0;
	while (r->next < count && !is_read(run, r->phase, r->next))
		r->next++;
	if (r->next >= count)
		r->phase = HR_READING_NONE;
}

void hr_reading_begin(struct hr_reading *reading, enum hr_reading_phase phase,
		      const struct hr_run *run)
{
	*reading = (struct hr_reading){ .phase = phase };
	find_next(reading, run);
}

/* The item is read. */
static int conclude_item(struct hr_reading *r, struct hr_engine *engine, struct hr_run *run,
			 const struct item *item, struct hr_error *e)
{
	if (r->phase == HR_READING_AFTER) {
		run->object[r->next].summed = true;
		run->object[r->next].crc = r->crc;
		return 0;
	}
	item->verify->found = r->crc;
	return hr_checksums_compare(engine, run, item->config, item->verify, e);
}

static int fail_reading(struct hr_reading *r, const struct hr_engine *engine,
			const struct hr_run *run, const struct item *item, int err,
			struct hr_error *e)
{
	char name[96];

	hr_fail(e, HR_ERROR_DEVICE, err, "%s", hr_error_name(err, name, sizeof name));
	hr_error_context(e, "pipeline '%s': object '%s' on ssd '%s' cannot be read to %s checksum",
			 run->config->name, item->config->object,
			 engine->config.ssd[item->config->ssd].name,
			 r->phase == HR_READING_BEFORE ? "compare it with its" : "compute its");
	r->phase = HR_READING_NONE;
	return err;
}

/* Before the first piece. False: the item has no checksum to compare with. */
static bool begin_item(struct hr_engine *engine, const struct hr_run *run, const struct item *item,
		       enum hr_reading_phase phase)
{
	hr_debug("pipeline '%s': object '%s' on ssd '%s', %llu bytes, is read to %s checksum",
		 run->config->name, item->config->object,
		 engine->config.ssd[item->config->ssd].name, (unsigned long long)item->bytes,
		 phase == HR_READING_BEFORE ? "compare it with its" : "compute its");
	if (phase == HR_READING_AFTER ||
	    hr_checksums_expected(engine, item->config, item->id, item->from, item->verify,
				  &item->verify->expected))
		return true;
	item->verify->expected = 0;
	item->verify->check = HR_SOURCE_NO_CHECKSUM;
	return false;
}

static int read_piece(struct hr_reading *r, struct hr_engine *engine, const struct item *item,
		      struct hr_error *e)
{
	const struct hr_store_object *object =
		hr_store_find_id(&engine->ssd[item->config->ssd].store, item->id);

	if (!object && !item->verify->capacity)
		return -ENOENT;
	return hr_checksum_piece(engine, item->config->ssd,
				 object ? object->offset : item->verify->offset,
				 object ? object->capacity : item->verify->capacity, item->bytes,
				 &r->at, &r->crc, e);
}

int hr_reading_step(struct hr_reading *r, struct hr_engine *engine, struct hr_run *run,
		    struct hr_error *e)
{
	const struct item item = item_of(run, r->next);
	int err = 0;

	if (!r->at && !begin_item(engine, run, &item, r->phase)) {
		r->next++;
		find_next(r, run);
		return r->phase == HR_READING_NONE ? r->err : 0;
	}
	if (item.bytes)
		err = read_piece(r, engine, &item, e);
	if (err)
		return fail_reading(r, engine, run, &item, err, e);
	if (r->at < item.bytes)
		return 0;
	err = conclude_item(r, engine, run, &item, e);
	r->err = err ? err : r->err;
	r->next++;
	find_next(r, run);
	return r->phase == HR_READING_NONE ? r->err : 0;
}
