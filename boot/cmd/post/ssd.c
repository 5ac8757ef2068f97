/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/post/step.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/exclude.h"
#include "boot/engine/bringup/stage.h"
#include "config/base/clock.h"
#include "boot/engine/bringup/disks.h"
#include "config/base/process.h"
#include "nvme/admin.h"
#include "nvme/queue/status.h"
#include "cache/store/verify.h"

#define ROUND_TRIPS 64u
#define KELVIN 273
#define SMART_BYTES 512u

/* An error of a disk's call, unless the call has filled e. */
static int name_call(struct hr_error *e, const char *what, int err)
{
	char name[96];

	if (err == -EINTR)
		return err;
	hr_fail(e, HR_ERROR_DEVICE, err, "%s", hr_error_name(err, name, sizeof name));
	hr_error_context(e, "%s", what);
	return err;
}

/* A stage fills engine->error. */
static int move_stage_error(struct hr_engine *engine, struct hr_error *e, const char *what, int err)
{
	*e = engine->error;
	hr_error_clear(&engine->error);
	return e->kind ? err : name_call(e, what, err);
}

int hr_post_controller(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e)
{
	const struct hr_config_ssd *config = &engine->config.ssd[d];
	struct hr_ssd *ssd = &engine->ssd[d];
	int err = hr_disk_up(engine, d);

	if (!err)
		err = hr_disk_check_same(engine, d);
	if (!err)
		err = hr_ssd_reserve(ssd, &engine->error);
	if (err)
		return move_stage_error(engine, e, config->device, err);
	snprintf(detail, HR_POST_DETAIL,
		 "%s, serial %s, firmware %s, NVMe %u.%u, %llu blocks of %u bytes, %u queue pairs",
		 ssd->ctrl->model, ssd->ctrl->serial, ssd->ctrl->firmware, ssd->ctrl->vs >> 16,
		 ssd->ctrl->vs >> 8 & 0xff, (unsigned long long)ssd->ns.blocks,
		 1u << ssd->ns.lba_shift, hr_ssd_queues(ssd));
	return 0;
}

/* Read single blocks through an I/O queue pair, including the first and the last block. */
int hr_post_queue(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e)
{
	struct hr_blk *blk = engine->ssd[d].blk;
	uint8_t *block = aligned_alloc(HR_PAGE, HR_PAGE);
	uint64_t began = hr_now_ns(), spent;
	int err = 0;

	if (!block)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "out of memory for a block");

	for (uint32_t i = 0; !err && i < ROUND_TRIPS; i++)
		err = hr_signals_pending()
			      ? -EINTR
			      : blk->ops->read(blk, i % 2 ? blk->bytes - blk->block_bytes : 0,
					       block, blk->block_bytes, e);
	spent = hr_now_ns() - began;
	free(block);
	if (err)
		return name_call(e, "read of one block", err);
	snprintf(detail, HR_POST_DETAIL, "%u reads of one block, %.1f us each", ROUND_TRIPS,
		 (double)spent / ROUND_TRIPS / 1000);
	return 0;
}

int hr_post_smart(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e)
{
	struct hr_ctrl *ctrl = engine->ssd[d].ctrl;
	struct nvme_smart_log smart;
	int err = hr_admin_get_log(ctrl, NVME_LOG_LID_SMART, SMART_BYTES, e), kelvin;

	if (err)
		return name_call(e, "SMART log page", err);
	memcpy(&smart, ctrl->admin_data, sizeof smart);
	kelvin = smart.temperature[0] | smart.temperature[1] << 8;
	if (smart.critical_warning) {
		return hr_fail(
			e, HR_ERROR_DEVICE, -EIO,
			"critical warning 0x%02x, %d C, spare %u%% (threshold %u%%), %u%% used",
			smart.critical_warning, kelvin - KELVIN, smart.avail_spare,
			smart.spare_thresh, smart.percent_used);
	}
	snprintf(detail, HR_POST_DETAIL, "no warnings, %d C, spare %u%%, %u%% used",
		 kelvin - KELVIN, smart.avail_spare, smart.percent_used);
	return 0;
}

int hr_post_store(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e)
{
	struct hr_ssd *ssd = &engine->ssd[d];
	struct hr_store_space space;
	int err = hr_store_up(engine, d);

	if (err)
		return move_stage_error(engine, e, "object store", err);
	if (!ssd->has_store) {
		snprintf(detail, HR_POST_DETAIL, "none on this ssd");
		return HR_POST_SKIP;
	}
	hr_store_space(&ssd->store, &space);
	snprintf(detail, HR_POST_DETAIL, "%u object%s, %llu of %llu MiB used, generation %llu",
		 space.objects, space.objects == 1 ? "" : "s", (unsigned long long)space.used >> 20,
		 (unsigned long long)space.total >> 20, (unsigned long long)ssd->store.generation);
	return 0;
}

/* A pattern that differs in each 8 bytes and in each round. */
static void make_pattern(uint8_t *data, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = (seed + i) * 0x9e3779b97f4a7c15u;

		memcpy(data + i, &word, sizeof word);
	}
}

static int write_and_compare(struct hr_blk *blk, uint64_t offset, uint8_t *out, uint8_t *in,
			     char *detail, struct hr_error *e)
{
	int err;

	make_pattern(out, HR_STORE_SCRATCH, hr_now_ns());
	err = blk->ops->write(blk, offset, out, HR_STORE_SCRATCH, true, e);
	if (err)
		return name_call(e, "write to the scratch area", err);
	err = blk->ops->read(blk, offset, in, HR_STORE_SCRATCH, e);
	if (err)
		return name_call(e, "read of the scratch area", err);
	for (size_t i = 0; i < HR_STORE_SCRATCH; i++) {
		if (in[i] == out[i])
			continue;
		return hr_fail(e, HR_ERROR_DEVICE, -EIO,
			       "byte %zu of the scratch area reads 0x%02x, expected 0x%02x", i,
			       in[i], out[i]);
	}
	snprintf(detail, HR_POST_DETAIL, "%u KiB written, read back, equal",
		 HR_STORE_SCRATCH >> 10);
	return 0;
}

int hr_post_loopback(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e)
{
	struct hr_ssd *ssd = &engine->ssd[d];
	uint8_t *memory;
	int err;

	if (!ssd->has_store || ssd->blk->read_only) {
		snprintf(detail, HR_POST_DETAIL, "nothing was written: %s",
			 ssd->has_store ? "the namespace is write protected"
					: "there is no store with a scratch area");
		return HR_POST_SKIP;
	}
	memory = aligned_alloc(HR_PAGE, 2 * HR_STORE_SCRATCH);
	if (!memory)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
			       "out of memory for the scratch buffers");
	err = write_and_compare(ssd->blk, ssd->store.scratch_offset, memory,
				memory + HR_STORE_SCRATCH, detail, e);
	free(memory);
	return err;
}

/* The first fault is the error. */
static void keep_fault(void *arg, bool fault, const char *line)
{
	if (fault)
		hr_fail(arg, HR_ERROR_FAILED, -EUCLEAN, "%s", line);
}

int hr_post_verify(struct hr_engine *engine, uint32_t d, char *detail, struct hr_error *e)
{
	struct hr_ssd *ssd = &engine->ssd[d];
	const struct hr_store_check check = { .report = keep_fault, .arg = e };
	uint32_t faults;
	int err;

	if (!ssd->has_store) {
		snprintf(detail, HR_POST_DETAIL, "no store");
		return HR_POST_SKIP;
	}
	err = hr_store_verify(&ssd->store, &check, &faults, e);
	if (err)
		return name_call(e, "object map", err);
	if (faults > 0)
		return -EUCLEAN;
	snprintf(detail, HR_POST_DETAIL, "superblocks, map copies and %u record%s valid",
		 ssd->store.count, ssd->store.count == 1 ? "" : "s");
	return 0;
}
