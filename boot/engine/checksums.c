#include "boot/engine/checksums.h"

#include <errno.h>
#include <stdlib.h>

#include "config/clock.h"
#include "config/uses.h"
#include "config/error.h"
#include "boot/engine/signals.h"
#include "cache/crc32c.h"
#include "cache/crc32c_join.h"
#include "config/tick.h"
#include "nvme/status.h"

#define READ_BYTES (4u << 20)

static int no_checksum(struct hr_appliance *app, const struct hr_run *run, uint32_t s)
{
	const struct hr_config_object *source = &run->config->source[s];

	return hr_error_add(&app->error, HR_ERROR_USAGE, -EINVAL,
			    "%s:%u: object '%s' on ssd '%s' has no checksum, but pipeline '%s' has "
			    "verify = \"on\"; expected an object that 'headrace store put', or a "
			    "pipeline with sink.checksum, has written",
			    app->config.file, source->line, source->object,
			    app->config.ssd[source->ssd].name, run->config->name);
}

int hr_checksums_want(struct hr_appliance *app, struct hr_run *run, uint32_t s,
		      const struct hr_store_object *object)
{
	struct hr_run_source *source = &run->source[s];
	const bool has = object ? (object->flags & HR_OBJECT_HAS_CRC) != 0
				: app->run[source->from].config->sink.checksum;

	source->verifiable = has && run->config->verify != HR_VERIFY_OFF;
	return !has && run->config->verify == HR_VERIFY_ON ? no_checksum(app, run, s) : 0;
}

static enum hr_source_check decide(const struct hr_run *run, uint32_t s, bool has)
{
	if (run->config->verify == HR_VERIFY_OFF)
		return HR_SOURCE_VERIFY_OFF;
	if (!has || !run->source[s].verifiable)
		return HR_SOURCE_NO_CHECKSUM;
	if (run->first_tile > hr_run_begin(run) && run->outcome != HR_RUN_COMPLETE)
		return HR_SOURCE_RESUMED;
	return HR_SOURCE_UNREAD;
}

int hr_checksums_decide(struct hr_appliance *app, struct hr_run *run,
			struct hr_store *const store[HR_SSDS_MAX])
{
	int err = 0;

	for (uint32_t s = 0; s < hr_config_source_objects(run->config); s++) {
		const struct hr_store_object *object =
			hr_store_find_id(store[run->config->source[s].ssd], run->source[s].id);
		/* The sink of a run that has not ended will have its checksum after that. */
		const bool has = object && object->flags & (HR_OBJECT_HAS_CRC | HR_OBJECT_PENDING);

		run->source[s].check = decide(run, s, has);
		run->source[s].crc_expected = run->source[s].crc_found = 0;
		run->source[s].crc_known = object && object->flags & HR_OBJECT_HAS_CRC;
		run->source[s].crc_stored = run->source[s].crc_known ? object->crc : 0;
		if (run->config->verify == HR_VERIFY_ON && object && !has && !err)
			err = no_checksum(app, run, s);
	}
	return err;
}

bool hr_run_sums(const struct hr_run *run, uint32_t s)
{
	return run->source[s].verifiable && !(s == 0 && run->config->op->records_checksum);
}

bool hr_run_verifies(const struct hr_run *run)
{
	for (uint32_t s = 0; s < run->config->sources; s++)
		if (hr_run_sums(run, s))
			return true;
	return false;
}

bool hr_run_checksums(const struct hr_run *run)
{
	return hr_run_verifies(run) || (run->config->has_sink && run->config->sink.checksum);
}

/* Append the checksums of tiles from .. to - 1 of an object to crc, the checksum of tiles 0 ..
 * from - 1. */
static uint32_t join(uint32_t crc, const uint32_t *word, uint64_t from, uint64_t to, uint64_t bytes,
		     uint32_t tile_bytes)
{
	const uint64_t whole = tile_bytes ? bytes / tile_bytes : 0;
	struct hr_crc32c_join tables;
	uint64_t t = from;

	if (from >= to)
		return crc;
	hr_crc32c_join_init(&tables, tile_bytes);
	for (; t < to && t < whole; t++)
		crc = hr_crc32c_join(&tables, crc, word[t]);
	if (t < to)
		crc = hr_crc32c_combine(crc, word[t], bytes - t * tile_bytes);
	return crc;
}

uint32_t hr_checksums_sink(const struct hr_appliance *app, struct hr_run *run, uint64_t tiles)
{
	if (!run->config->sink.checksum)
		return 0;
	if (tiles > run->sink_summed_tiles) {
		run->sink_crc = join(run->sink_crc, run->cpu.sink_crc, run->sink_summed_tiles,
				     tiles, run->sink_bytes, run->sink_tile_bytes);
		run->sink_summed_tiles = tiles;
	}
	return run->sink_crc;
}

/* The checksums of a source's tiles; NULL when there are no tiles. */
static const uint32_t *words_of(const struct hr_run *run, uint32_t s)
{
	return s == 0 && run->config->op->records_checksum ? (uint32_t *)run->cpu.op_records
							   : run->cpu.source[s].crc;
}

/* The sink of an earlier run of this process, incomplete until those of all parts are whole. */
static struct hr_run *maker_of(struct hr_appliance *app, const struct hr_run *run, uint32_t s,
			       const struct hr_store_object *object)
{
	const int from = run->source[s].from;

	if (!object || !(object->flags & HR_OBJECT_PENDING) || from < 0 ||
	    !app->run[from].config->sink.checksum)
		return NULL;
	return &app->run[from];
}

static void compare(struct hr_appliance *app, struct hr_run *run, uint32_t s, struct hr_error *e)
{
	struct hr_run_source *source = &run->source[s];
	const struct hr_config_object *config = &run->config->source[s];
	const struct hr_store_object *object =
		hr_store_find_id(&app->ssd[config->ssd].store, source->id);

	struct hr_run *maker = maker_of(app, run, s, object);

	/* an object that was replaced meanwhile has left its checksum here */
	if (object ? !maker && !(object->flags & HR_OBJECT_HAS_CRC) : !source->crc_known) {
		source->check = HR_SOURCE_NO_CHECKSUM;
		return;
	}
	source->crc_expected = maker	? hr_checksums_sink(app, maker, hr_run_end(maker))
			       : object ? object->crc
					: source->crc_stored;
	source->crc_found = join(0, words_of(run, s), run->of_shards ? run->shard_begin : 0,
				 run->of_shards ? run->shard_end : run->tiles, source->bytes,
				 source->tile_bytes);
	source->check =
		source->crc_found == source->crc_expected ? HR_SOURCE_VERIFIED : HR_SOURCE_WRONG;
	if (source->check == HR_SOURCE_WRONG)
		hr_error_add(e, HR_ERROR_DEVICE, -EBADMSG,
			     "pipeline '%s': object '%s' on ssd '%s' differs from the stored data: "
			     "CRC-32C of the data is %08x, expected %08x",
			     run->config->name, config->object, app->config.ssd[config->ssd].name,
			     source->crc_found, source->crc_expected);
}

int hr_checksums_verify(struct hr_appliance *app, struct hr_run *run, struct hr_error *e)
{
	int err = 0;

	for (uint32_t s = 0; s < run->config->sources; s++) {
		if (run->source[s].check == HR_SOURCE_UNREAD)
			compare(app, run, s, e);
		if (run->source[s].check == HR_SOURCE_WRONG)
			err = -EBADMSG;
	}
	return err;
}

int hr_checksum_read(struct hr_appliance *app, uint32_t d, const struct hr_store_object *object,
		     uint64_t bytes, uint32_t *crc, struct hr_error *e)
{
	struct hr_blk *blk = app->ssd[d].blk;
	uint8_t *buffer = aligned_alloc(HR_PAGE, READ_BYTES);
	int err = buffer ? 0
			 : hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
				   "out of memory for a buffer of %u bytes", READ_BYTES);

	*crc = 0;
	for (uint64_t at = 0; !err && at < bytes; at += READ_BYTES) {
		const uint64_t left = bytes - at, held = object->capacity - at;

		err = hr_signals_pending()
			      ? -EINTR
			      : blk->ops->read(blk, object->offset + at, buffer,
					       held < READ_BYTES ? (size_t)held : READ_BYTES, e);
		if (!err)
			*crc = hr_crc32c(*crc, buffer,
					 left < READ_BYTES ? (size_t)left : READ_BYTES);
		hr_tick();
	}
	free(buffer);
	return err;
}

const char *hr_source_check_name(enum hr_source_check check)
{
	static const char *const name[] = { "unread", "verified",    "wrong",
					    "off",    "no checksum", "resumed" };

	return name[check];
}

const char *hr_source_check_reason(const struct hr_run *run, enum hr_source_check check)
{
	switch (check) {
	case HR_SOURCE_VERIFY_OFF:
		return "verify is off";
	case HR_SOURCE_NO_CHECKSUM:
		return "it has no checksum";
	case HR_SOURCE_RESUMED:
		return "the run resumed an interrupted run and read only the rest";
	case HR_SOURCE_UNREAD:
		return run->outcome == HR_RUN_COMPLETE ? "nothing was read"
						       : "the run has not read all of it";
	default:
		return NULL;
	}
}
