/*
 * Stage `stores`: the object store of each ssd; made, with its objects, where the ssd is memory.
 */

#include "boot/engine/stage_stores.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/disks.h"
#include "boot/engine/mistake.h"
#include "boot/engine/stage_controllers.h"
#include "config/log.h"
#include "boot/engine/signals.h"
#include "cache/crc32c.h"
#include "nvme/status.h"

#define FILL_BYTES (256u << 10)

/* 64-bit word i of the object is i; the last word may be cut. */
static int fill(struct hr_ssd *ssd, const struct hr_object *object, uint64_t *words, uint32_t *crc)
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
								  words, bytes, false);
		if (err)
			return err;
		*crc = hr_crc32c(*crc, words, data < bytes ? (size_t)data : bytes);
	}
	return 0;
}

static int prepare(struct hr_ssd *ssd, const struct hr_config_prepared *want)
{
	uint64_t *words = aligned_alloc(HR_PAGE, FILL_BYTES);
	struct hr_object *object;
	uint32_t crc = 0;
	int err;

	if (!words)
		return -ENOMEM;
	err = hr_store_create(&ssd->store, want->object, want->bytes, 0, false, &object);
	if (!err)
		err = fill(ssd, object, words, &crc);
	if (!err)
		err = hr_store_finish(&ssd->store, object->id, true, crc);
	free(words);
	return err;
}

/* Memory that the machine can give without swapping; UINT64_MAX: it does not say. */
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

/* Objects are written whole before anything runs: at once, or not at all. */
static int check_memory(const struct hr_appliance *app, uint32_t i)
{
	const struct hr_config_ssd *config = &app->config.ssd[i];
	const uint64_t room = memory_available();
	uint64_t sum = 0;

	for (uint32_t j = 0; j < config->prepared_count; j++) {
		if (!__builtin_add_overflow(sum, config->prepared[j].bytes, &sum) && sum <= room)
			continue;
		return hr_mistake_at(app, config->prepared[j].line,
				     "ssds[%u].objects[%u]: with object '%s' of %llu bytes the "
				     "objects in memory need more than the %llu bytes that this "
				     "machine has available",
				     i, j, config->prepared[j].object,
				     (unsigned long long)config->prepared[j].bytes,
				     (unsigned long long)room);
	}
	return 0;
}

static int make_store(struct hr_appliance *app, uint32_t i)
{
	const struct hr_config_ssd *config = &app->config.ssd[i];
	struct hr_ssd *ssd = &app->ssd[i];
	char name[96];
	/* New memory is blank: there is nothing to look for, and nothing to spoil. */
	int err = check_memory(app, i);

	if (!err)
		err = hr_ssd_format_store(ssd, HR_STORE_OBJECTS_DEFAULT, true);
	if (!err)
		err = hr_ssd_open_store(ssd);
	if (err)
		return err;
	for (uint32_t j = 0; j < config->prepared_count; j++) {
		err = prepare(ssd, &config->prepared[j]);
		if (err == -EINTR)
			return err;
		if (err)
			return hr_mistake_at(app, config->prepared[j].line,
					     "ssds[%u].objects[%u]: object '%s' of %llu bytes "
					     "cannot be made on '%s': %s",
					     i, j, config->prepared[j].object,
					     (unsigned long long)config->prepared[j].bytes,
					     config->name,
					     hr_store_error_name(err, name, sizeof name));
	}
	return 0;
}

static int open_store(struct hr_appliance *app, uint32_t i)
{
	int err;

	if (app->ssd[i].transport.keeps_no_data) /* for the bench, which needs none */
		return 0;
	err = hr_ssd_open_store(&app->ssd[i]);
	/* No store: an error only once a pipeline wants an object of it. */
	if (err == -ENOMEDIUM || err == -EMEDIUMTYPE)
		return 0;
	if (err)
		hr_error("%s:%u: ssd '%s': its object store cannot be opened", app->config.file,
			 app->config.ssd[i].line, app->config.ssd[i].name);
	return err;
}

int hr_store_stage(struct hr_appliance *app, uint32_t d)
{
	const int err = app->config.ssd[d].in_memory ? make_store(app, d) : open_store(app, d);

	return err ? err : hr_disk_check_store(app, d);
}

int hr_stores_up(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < app->config.ssds; i++) {
		if (app->left_out[i])
			continue;
		err = hr_signals_pending() ? -EINTR : hr_store_stage(app, i);
		err = hr_stage_without(app, i, err);
	}
	return err;
}
