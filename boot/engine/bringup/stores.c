/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage `stores`: open the object store of each ssd; for an ssd in memory, create it with its
 * objects.
 */

#include "boot/engine/bringup/stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/bringup/disks.h"
#include "boot/engine/devices/ssd_store.h"
#include "config/base/log.h"
#include "config/base/process.h"
#include "cache/crc32c.h"
#include "nvme/queue/status.h"

#define FILL_BYTES (256u << 10)

/* 64-bit word i of the object is i; the last word may be cut off. */
static int fill_prepared(struct hr_ssd *ssd, const struct hr_store_object *object, uint64_t *words,
			 uint32_t *crc, struct hr_error *e)
{
	uint64_t next = 0;

	for (uint64_t at = 0; at < object->bytes; at += FILL_BYTES) {
		uint64_t left = object->capacity - at, data = object->bytes - at;
		size_t bytes = left < FILL_BYTES ? (size_t)left : FILL_BYTES;
		int err;

		for (size_t i = 0; i < FILL_BYTES / sizeof *words; i++)
			words[i] = next++;
		err = hr_signals_pending() ? -EINTR
					   : ssd->blk->ops->write(ssd->blk, object->offset + at,
								  words, bytes, false, e);
		if (err)
			return err;
		*crc = hr_crc32c(*crc, words, data < bytes ? (size_t)data : bytes);
	}
	return 0;
}

static int prepare_object(struct hr_ssd *ssd, const struct hr_config_prepared *want,
			  struct hr_error *e)
{
	uint64_t *words = aligned_alloc(HR_PAGE, FILL_BYTES);
	struct hr_store_object *object;
	uint32_t crc = 0;
	int err;

	if (!words)
		return -ENOMEM;
	err = hr_store_create(&ssd->store, want->object, want->bytes, 0, false, &object, e);
	if (!err)
		err = fill_prepared(ssd, object, words, &crc, e);
	if (!err)
		err = hr_store_finish(&ssd->store, object->id, true, crc, e);
	free(words);
	return err;
}

/* Memory available without swapping; UINT64_MAX: unknown. */
static uint64_t memory_available(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];
	bool found = false;

	while (file && !found && fgets(line, sizeof line, file))
		found = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
	if (file)
		fclose(file);
	return found ? (uint64_t)kib << 10 : UINT64_MAX;
}

/* Objects in memory are written whole before anything runs, so check for enough memory first. */
static int check_memory(struct hr_engine *engine, uint32_t i)
{
	const struct hr_config_ssd *config = &engine->config.ssd[i];
	const uint64_t room = memory_available();
	uint64_t sum = 0;

	for (uint32_t j = 0; j < config->prepared_count; j++) {
		if (!__builtin_add_overflow(sum, config->prepared[j].bytes, &sum) && sum <= room)
			continue;
		return hr_error_add(
			&engine->error, HR_ERROR_USAGE, -EINVAL,
			"%s:%u: ssds[%u].objects[%u]: with object '%s' of %llu bytes the "
			"objects in memory need more than the %llu bytes that this "
			"machine has available",
			engine->config.file, config->prepared[j].line, i, j,
			config->prepared[j].object, (unsigned long long)config->prepared[j].bytes,
			(unsigned long long)room);
	}
	return 0;
}

/* An object that does not fit is a mistake of the configuration; other errors are not. */
static enum hr_error_kind kind_of(int err)
{
	switch (err) {
	case -ENOSPC:
	case -ENFILE:
	case -EEXIST:
	case -EINVAL:
		return HR_ERROR_USAGE;
	case -ENOMEM:
		return HR_ERROR_MISSING;
	default:
		return HR_ERROR_DEVICE;
	}
}

static int make_store(struct hr_engine *engine, uint32_t i)
{
	const struct hr_config_ssd *config = &engine->config.ssd[i];
	struct hr_ssd *ssd = &engine->ssd[i];
	char name[96];
	/* New memory is blank: no store can exist, and no data can be overwritten. */
	int err = check_memory(engine, i);

	if (err)
		return err;
	err = hr_ssd_format_store(ssd, HR_STORE_OBJECTS_DEFAULT, true, &engine->error);
	if (!err)
		err = hr_ssd_open_store(ssd, &engine->error);
	if (err)
		return hr_stage_name_ssd(engine, i, err, "cannot have an object store");
	for (uint32_t j = 0; j < config->prepared_count; j++) {
		const struct hr_config_prepared *want = &config->prepared[j];

		err = prepare_object(ssd, want, &engine->error);
		if (err == -EINTR)
			return err;
		if (!err)
			continue;
		hr_fail(&engine->error, kind_of(err), err, "%s",
			hr_store_error_name(err, name, sizeof name));
		engine->error.kind = kind_of(err);
		hr_error_context(&engine->error,
				 "%s:%u: ssds[%u].objects[%u]: object '%s' of %llu bytes "
				 "cannot be made on '%s'",
				 engine->config.file, want->line, i, j, want->object,
				 (unsigned long long)want->bytes, config->name);
		return err;
	}
	return 0;
}

static int open_store(struct hr_engine *engine, uint32_t i)
{
	int err;

	if (engine->ssd[i].transport.keeps_no_data) /* for `bench`, which needs no store */
		return 0;
	if (engine->ssd[i].stand_in) /* which has one already */
		return 0;
	err = hr_ssd_open_store(&engine->ssd[i], &engine->error);
	/* A missing store is an error only when a pipeline needs an object of the ssd. */
	if (err == -ENOMEDIUM || err == -EMEDIUMTYPE) {
		hr_error_clear(&engine->error);
		return 0;
	}
	return hr_stage_name_ssd(engine, i, err, "has an object store that cannot be opened");
}

int hr_store_up(struct hr_engine *engine, uint32_t d)
{
	const int err =
		engine->config.ssd[d].in_memory ? make_store(engine, d) : open_store(engine, d);

	return err ? err : hr_disk_check_store(engine, d);
}

int hr_stores_up(struct hr_engine *engine)
{
	return hr_stage_ssds(engine, hr_store_up);
}
