/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/bench/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/process.h"
#include "cache/crc32c.h"
#include "config/base/error.h"
#include "nvme/queue/status.h"

#define MIB (1ull << 20)
#define HOST_BYTES (256 * MIB)
#define GPU_BYTES (4096 * MIB)
#define FILL_BYTES (256u << 10)

uint64_t hr_bench_object_bytes(const struct hr_bench_run *run, uint32_t d)
{
	const struct hr_ssd *ssd = &run->engine->ssd[d];
	const uint64_t most = run->gpu ? GPU_BYTES : HOST_BYTES;
	struct hr_store_space space;
	uint64_t bytes;

	if (run->request->object_mib || !ssd->has_store)
		return (uint64_t)run->request->object_mib << 20;
	hr_store_space(&ssd->store, &space);
	bytes = space.largest_gap / 4 & ~(MIB - 1);
	return bytes < most ? bytes : most;
}

uint64_t hr_bench_source_bytes(const struct hr_bench_run *run, uint32_t d)
{
	const uint64_t asked = hr_bench_object_bytes(run, d);
	struct hr_store_space space;

	hr_store_space(&run->engine->ssd[d].store, &space);
	return (asked < space.largest_gap / 3 ? asked : space.largest_gap / 3) & ~(MIB - 1);
}

int hr_bench_complain(const struct hr_ssd *ssd, const char *object, int err, struct hr_error *e)
{
	char name[96];

	if (err == -EINTR)
		return err;
	hr_fail(e, err == -ENOMEM ? HR_ERROR_MISSING : HR_ERROR_FAILED, err, "%s",
		hr_store_error_name(err, name, sizeof name));
	hr_error_context(e, "bench: object '%s' on '%s'", object, ssd->transport.name);
	return err;
}

int hr_bench_drop(struct hr_ssd *ssd, const char *name, struct hr_error *e)
{
	struct hr_store_object *object;
	int err = 0;

	while (!err && ((object = hr_store_find_pending(&ssd->store, name)) ||
			(object = hr_store_find(&ssd->store, name))))
		err = hr_store_remove(&ssd->store, object->id, e);
	return err ? hr_bench_complain(ssd, name, err, e) : 0;
}

int hr_bench_make(struct hr_ssd *ssd, const char *name, uint64_t bytes,
		  const struct hr_bench_fill *fill, struct hr_error *e)
{
	uint8_t *piece = aligned_alloc(HR_PAGE, FILL_BYTES);
	struct hr_store_object *object = NULL;
	uint32_t crc = 0;
	int err = piece ? hr_store_create(&ssd->store, name, bytes, 0, false, &object, e) : -ENOMEM;

	for (uint64_t at = 0; !err && at < bytes; at += FILL_BYTES) {
		const uint64_t left = object->capacity - at, data = bytes - at;

		if (at == 0 || !fill->same)
			fill->piece(piece, at, FILL_BYTES, fill->argument);
		if (hr_signals_pending())
			err = -EINTR;
		else
			err = ssd->blk->ops->write(ssd->blk, object->offset + at, piece,
						   left < FILL_BYTES ? (size_t)left : FILL_BYTES,
						   false, e);
		crc = hr_crc32c(crc, piece, data < FILL_BYTES ? (size_t)data : FILL_BYTES);
	}
	if (!err)
		err = hr_store_finish(&ssd->store, object->id, true, crc, e);
	free(piece);
	return err ? hr_bench_complain(ssd, name, err, e) : 0;
}

struct hr_config_pipeline *hr_bench_only_pipeline(struct hr_engine *engine,
						  const struct hr_config_pipeline *p)
{
	struct hr_config_pipeline *own = &engine->config.pipeline[0];

	*own = *p;
	engine->config.pipelines = 1;
	engine->config.memory_host = engine->config.memory_gpu = 0;
	memset(&engine->run[0], 0, sizeof engine->run[0]);
	engine->run[0].config = own;
	engine->run[0].selected = true;
	for (uint32_t k = 0; k < hr_run_gpus(&engine->run[0]); k++)
		engine->run[0].gpu[k].entry = own->objects ? HR_ENTRY_ACCESS : HR_ENTRY_PIPE;
	return own;
}
