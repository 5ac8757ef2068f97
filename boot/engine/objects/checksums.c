/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/objects/checksums.h"

#include <errno.h>

#include "config/base/clock.h"
#include "config/derived.h"
#include "config/base/error.h"
#include "config/base/process.h"
#include "cache/crc32c.h"
#include "config/base/tick.h"
#include "nvme/queue/status.h"

static uint8_t piece[HR_CHECKSUM_PIECE] __attribute__((aligned(HR_PAGE)));

static int no_checksum(struct hr_engine *engine, const struct hr_run *run,
		       const struct hr_config_object *object)
{
	return hr_error_add(&engine->error, HR_ERROR_USAGE, -EINVAL,
			    "%s:%u: object '%s' on ssd '%s' has no checksum, but pipeline '%s' has "
			    "verify = \"on\"; expected an object that 'headrace store put', or a "
			    "pipeline with sink.checksum, has written",
			    engine->config.file, object->line, object->object,
			    engine->config.ssd[object->ssd].name, run->config->name);
}

/* The earlier run number `from`, of an access operator, changes the object, and gives it a checksum. */
static bool will_change(const struct hr_engine *engine, const struct hr_config_object *config,
			int from)
{
	const struct hr_run *run = from < 0 ? NULL : &engine->run[from];

	return run && run->config->objects && run->outcome != HR_RUN_COMPLETE &&
	       hr_run_made_checksum(run, config);
}

static bool will_have_checksum(const struct hr_engine *engine,
			       const struct hr_config_object *config, int from,
			       const struct hr_store_object *object)
{
	return object ? object->flags & HR_OBJECT_HAS_CRC || will_change(engine, config, from)
		      : hr_run_made_checksum(&engine->run[from], config);
}

int hr_checksums_want(struct hr_engine *engine, struct hr_run *run, uint32_t s,
		      const struct hr_store_object *object)
{
	struct hr_run_source *source = &run->source[s];
	const bool has =
		will_have_checksum(engine, &run->config->source[s], source->writer, object);

	source->verify.wanted = has && run->config->verify != HR_VERIFY_OFF;
	return !has && run->config->verify == HR_VERIFY_ON
		       ? no_checksum(engine, run, &run->config->source[s])
		       : 0;
}

int hr_checksums_want_object(struct hr_engine *engine, struct hr_run *run, uint32_t k,
			     const struct hr_store_object *object)
{
	struct hr_run_object *to = &run->object[k];
	const struct hr_config_object *config = &run->config->object[k];
	const bool has = will_have_checksum(engine, config, to->writer, object);
	const enum hr_verify_policy policy = run->config->verify;

	to->verify.check = policy == HR_VERIFY_OFF ? HR_SOURCE_VERIFY_OFF
			   : !has		   ? HR_SOURCE_NO_CHECKSUM
			   : policy == HR_VERIFY_AUTO && to->bytes > HR_VERIFY_AUTO_BYTES
				   ? HR_SOURCE_LARGE
				   : HR_SOURCE_UNREAD;
	to->verify.wanted = to->verify.check == HR_SOURCE_UNREAD;
	return !has && policy == HR_VERIFY_ON ? no_checksum(engine, run, config) : 0;
}

static enum hr_source_check decide_source_check(const struct hr_run *run, uint32_t s, bool has)
{
	if (run->config->verify == HR_VERIFY_OFF)
		return HR_SOURCE_VERIFY_OFF;
	if (!has || !run->source[s].verify.wanted)
		return HR_SOURCE_NO_CHECKSUM;
	if (run->config->verify != HR_VERIFY_BEFORE && run->first_tile > hr_run_first_tile(run) &&
	    run->outcome != HR_RUN_COMPLETE)
		return HR_SOURCE_RESUMED;
	return HR_SOURCE_UNREAD;
}

/* Note checksum and extent of the object: another one may replace it before the run reads it. */
static void note_checksum(struct hr_run_verify *verify, const struct hr_store_object *object)
{
	verify->expected = verify->found = 0;
	verify->known = object && object->flags & HR_OBJECT_HAS_CRC;
	verify->stored = verify->known ? object->crc : 0;
	verify->offset = object ? object->offset : 0;
	verify->capacity = object ? object->capacity : 0;
}

int hr_checksums_decide(struct hr_engine *engine, struct hr_run *run,
			struct hr_store *const store[HR_SSDS_MAX])
{
	const struct hr_config_pipeline *p = run->config;
	int err = 0;

	for (uint32_t s = 0; s < hr_config_source_objects(p); s++) {
		const struct hr_store_object *object =
			hr_store_find_id(store[p->source[s].ssd], run->source[s].id);
		/* The sink of a run that has not ended will have its checksum after that. */
		const bool has =
			object && (object->flags & (HR_OBJECT_HAS_CRC | HR_OBJECT_PENDING) ||
				   will_change(engine, &p->source[s], run->source[s].writer));

		run->source[s].verify.check = decide_source_check(run, s, has);
		note_checksum(&run->source[s].verify, object);
		if (p->verify == HR_VERIFY_ON && object && !has && !err)
			err = no_checksum(engine, run, &p->source[s]);
	}
	for (uint32_t k = 0; k < p->objects; k++)
		if (run->object[k].used)
			note_checksum(&run->object[k].verify,
				      hr_store_find_id(store[p->object[k].ssd], run->object[k].id));
	return err;
}

bool hr_run_sums(const struct hr_run *run, uint32_t s)
{
	return run->source[s].verify.wanted && run->config->verify != HR_VERIFY_BEFORE &&
	       !(s == 0 && run->config->op->records_checksum);
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
static uint32_t join_tile_checksums(uint32_t crc, const uint32_t *word, uint64_t from, uint64_t to,
				    uint64_t bytes, uint32_t tile_bytes)
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

uint32_t hr_checksums_sink(const struct hr_engine *engine, struct hr_run *run, uint64_t tiles)
{
	if (!run->config->sink.checksum)
		return 0;
	if (tiles > run->sink_summed_tiles) {
		run->sink_crc = join_tile_checksums(run->sink_crc, run->cpu.sink_crc,
						    run->sink_summed_tiles, tiles, run->sink_bytes,
						    run->sink_tile_bytes);
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

/* The checksum that an earlier run of this process gives to an object, which is incomplete until those
 * of all parts are whole. */
static bool made_crc(struct hr_engine *engine, const struct hr_config_object *config, int from,
		     uint32_t *crc)
{
	struct hr_run *maker = from < 0 ? NULL : &engine->run[from];
	const struct hr_run_object *object;

	if (!maker || !hr_run_made_checksum(maker, config))
		return false;
	object = hr_run_made_object(maker, config);
	*crc = object ? object->crc : hr_checksums_sink(engine, maker, hr_run_end_tile(maker));
	return !object || object->summed;
}

bool hr_checksums_expected(struct hr_engine *engine, const struct hr_config_object *config,
			   uint64_t id, int from, const struct hr_run_verify *verify, uint32_t *crc)
{
	const struct hr_store_object *object =
		hr_store_find_id(&engine->ssd[config->ssd].store, id);

	if (object && object->flags & HR_OBJECT_PENDING)
		return made_crc(engine, config, from, crc);
	/* an object that was replaced meanwhile has left its checksum here */
	*crc = object ? object->crc : verify->stored;
	return object ? (object->flags & HR_OBJECT_HAS_CRC) != 0 : verify->known;
}

int hr_checksums_compare(struct hr_engine *engine, const struct hr_run *run,
			 const struct hr_config_object *config, struct hr_run_verify *verify,
			 struct hr_error *e)
{
	verify->check = verify->found == verify->expected ? HR_SOURCE_VERIFIED : HR_SOURCE_WRONG;
	if (verify->check == HR_SOURCE_VERIFIED)
		return 0;
	return hr_error_add(e, HR_ERROR_DEVICE, -EBADMSG,
			    "pipeline '%s': object '%s' on ssd '%s' differs from the stored data: "
			    "CRC-32C of the data is %08x, expected %08x",
			    run->config->name, config->object, engine->config.ssd[config->ssd].name,
			    verify->found, verify->expected);
}

static void compare_checksum(struct hr_engine *engine, struct hr_run *run, uint32_t s,
			     struct hr_error *e)
{
	struct hr_run_source *source = &run->source[s];
	const struct hr_config_object *config = &run->config->source[s];

	if (!hr_checksums_expected(engine, config, source->id, source->writer, &source->verify,
				   &source->verify.expected)) {
		source->verify.expected = 0;
		source->verify.check = HR_SOURCE_NO_CHECKSUM;
		return;
	}
	source->verify.found = join_tile_checksums(
		0, words_of(run, s), run->of_shards ? run->shard_begin : 0,
		run->of_shards ? run->shard_end : run->tiles, source->bytes, source->tile_bytes);
	hr_checksums_compare(engine, run, config, &source->verify, e);
}

int hr_checksums_verify(struct hr_engine *engine, struct hr_run *run, struct hr_error *e)
{
	int err = 0;

	for (uint32_t s = 0; s < run->config->sources; s++) {
		if (run->source[s].verify.check == HR_SOURCE_UNREAD)
			compare_checksum(engine, run, s, e);
		if (run->source[s].verify.check == HR_SOURCE_WRONG)
			err = -EBADMSG;
	}
	return err;
}

int hr_checksum_piece(struct hr_engine *engine, uint32_t d, uint64_t offset, uint64_t capacity,
		      uint64_t bytes, uint64_t *at, uint32_t *crc, struct hr_error *e)
{
	struct hr_blk *blk = engine->ssd[d].blk;
	const uint64_t left = bytes - *at, held = capacity - *at;
	const int err = blk->ops->read(blk, offset + *at, piece,
				       held < sizeof piece ? (size_t)held : sizeof piece, e);

	if (err)
		return err;
	*crc = hr_crc32c(*crc, piece, left < sizeof piece ? (size_t)left : sizeof piece);
	*at += left < sizeof piece ? left : sizeof piece;
	return 0;
}

int hr_checksum_read(struct hr_engine *engine, uint32_t d, const struct hr_store_object *object,
		     uint64_t bytes, uint32_t *crc, struct hr_error *e)
{
	uint64_t at = 0;
	int err = 0;

	*crc = 0;
	while (!err && at < bytes) {
		err = hr_signals_pending()
			      ? -EINTR
			      : hr_checksum_piece(engine, d, object->offset, object->capacity,
						  bytes, &at, crc, e);
		hr_tick();
	}
	return err;
}

const char *hr_source_check_name(enum hr_source_check check)
{
	static const char *const name[] = { "unread",	   "verified", "wrong", "off",
					    "no checksum", "resumed",  "large" };

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
	case HR_SOURCE_LARGE:
		return "it has more than 256 MiB, and verify is \"auto\"";
	case HR_SOURCE_UNREAD:
		return run->outcome == HR_RUN_COMPLETE ? "nothing was read"
						       : "the run has not read all of it";
	default:
		return NULL;
	}
}
