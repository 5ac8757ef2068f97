/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/blk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/tick.h"
#include "nvme/ctrl.h"
#include "nvme/admin.h"
#include "nvme/queue/deadline.h"
#include "nvme/queue/status.h"
#include "nvme/queue/wait.h"

#define CHECK_SPINS 64u		/* idle steps between two reads of CSTS */
#define TRIM_BYTES (1ull << 30) /* of one command, so that it ends within its deadline */

/* [SQ][CQ][table][a list per buffer][a list per buffer for memory of the caller][buffers] */
#define LIST_PAGE 3u
#define DIRECT_PAGE (LIST_PAGE + HR_BLK_BUFFERS)
#define BUFFER_PAGE (DIRECT_PAGE + HR_BLK_BUFFERS)

size_t hr_nvme_blk_bytes(void)
{
	return (size_t)BUFFER_PAGE * HR_PAGE + (size_t)HR_BLK_BUFFERS * HR_BLK_CHUNK;
}

static uint64_t lba_of(const struct hr_nvme_blk *disk, const struct hr_blk_job *job, uint32_t i)
{
	return job->lba + (disk->buffer[i].at >> disk->ns.lba_shift);
}

/* "read of 64 blocks at LBA 16" */
static const char *describe_job(const struct hr_nvme_blk *disk, const struct hr_blk_job *job,
				uint32_t i, char *text, size_t bytes)
{
	const char *opcode = hr_opcode_name(job->opcode, false);
	uint32_t blocks;

	if (job->opcode == nvme_cmd_flush || job->command)
		return opcode;
	blocks = disk->buffer[i].bytes >> disk->ns.lba_shift;
	snprintf(text, bytes, "%s of %u block%s at LBA %" PRIu64, opcode, blocks,
		 blocks == 1 ? "" : "s", lba_of(disk, job, i));
	return text;
}

/* The health of the ssd allows no more commands: do not wait for those in flight. */
static void die(struct hr_blk_job *job, int err)
{
	job->err = job->err ? job->err : err;
	job->in_flight = 0;
}

/* Push the command of buffer i, whose range is already set. */
static void push(struct hr_nvme_blk *disk, struct hr_blk_job *job, uint32_t i)
{
	const uint32_t bytes = disk->buffer[i].bytes;
	const struct hr_prp *prp = job->direct ? &disk->buffer[i].direct : &disk->buffer[i].prp;
	struct hr_sqe sqe;
	int cid;

	if (job->command) {
		sqe = *job->command;
		sqe.nsid = disk->ns.nsid;
		sqe.prp1 = disk->buffer[i].prp.first;
	} else if (job->opcode == nvme_cmd_flush) {
		sqe = (struct hr_sqe){ .opcode = nvme_cmd_flush, .nsid = disk->ns.nsid };
	} else {
		hr_sqe_io(&sqe, job->opcode, disk->ns.nsid, lba_of(disk, job, i),
			  bytes >> disk->ns.lba_shift, prp->first, hr_prp2(prp, bytes));
		sqe.cdw12 |= job->fua ? HR_CDW12_FUA : 0;
	}
	cid = hr_qp_push(&disk->qp, true, &sqe, i);
	if (cid < 0)
		die(job, hr_health_fault(disk->health, HR_FAULT_BROKEN_QUEUE, job->e, cid,
					 "queue %u takes no command", disk->qp.id));
}

/* Assign the next chunk to buffer i. */
static void start_chunk(struct hr_nvme_blk *disk, struct hr_blk_job *job, uint32_t i)
{
	const size_t left = job->bytes - job->next;
	const uint32_t bytes = left < disk->chunk ? (uint32_t)left : disk->chunk;

	disk->buffer[i].at = job->next;
	disk->buffer[i].bytes = bytes;
	disk->buffer[i].tries = 0;
	if (job->from)
		memcpy(disk->buffer[i].data, job->from + job->next, bytes);
	if (job->direct)
		hr_prp_build(&disk->buffer[i].direct, job->direct, job->direct_at + job->next,
			     bytes, disk->region,
			     disk->offset + (DIRECT_PAGE + i) * (size_t)HR_PAGE);
	job->next += bytes;
	job->idle &= ~(1u << i);
	job->in_flight++;
	push(disk, job, i);
}

static void fail_job(struct hr_nvme_blk *disk, struct hr_blk_job *job, uint32_t i, uint16_t status)
{
	char what[80], name[80];

	if (!job->err && !job->quiet)
		hr_fail(job->e, HR_ERROR_DEVICE, status, "%s: %s: %s (%03x)", disk->blk.name,
			describe_job(disk, job, i, what, sizeof(what)),
			hr_error_name(status, name, sizeof(name)), status);
	job->err = job->err ? job->err : status;
}

/* Tell once why the transfer takes long. */
static void warn_job_retry(struct hr_nvme_blk *disk, struct hr_blk_job *job, uint32_t i,
			   uint16_t status)
{
	char what[80], name[80];

	if (job->told || disk->buffer[i].tries < HR_RETRY_TOLD)
		return;
	job->told = true;
	hr_warn("%s: %s: %s (%03x); it is sent again for at most %llu ms", disk->blk.name,
		describe_job(disk, job, i, what, sizeof(what)),
		hr_error_name(status, name, sizeof(name)), status,
		disk->qp.timeout_ns / HR_NS_PER_MS);
}

/* Note the time of the next attempt of buffer i. False: no attempts or no time left. */
static bool try_again(struct hr_nvme_blk *disk, struct hr_blk_job *job, uint32_t i,
		      const struct hr_completion *done)
{
	const uint32_t most = job->opcode == nvme_cmd_flush
				      ? hr_status_flush_retries(done->status, done->dnr)
				      : hr_status_retries(done->status, done->dnr);
	const uint32_t tries = disk->buffer[i].tries;
	const uint64_t now = hr_now_ns(), pause = hr_qp_retry_pause(&disk->qp, done->crd, tries);

	if (tries >= most || (job->command && !hr_status_is_not_ready(done->status)))
		return false;
	if (!tries)
		disk->buffer[i].failed_ns = now;
	if (now + pause - disk->buffer[i].failed_ns > disk->qp.timeout_ns)
		return false;
	disk->buffer[i].tries++;
	disk->buffer[i].again_ns = now + pause;
	job->later |= 1u << i;
	warn_job_retry(disk, job, i, done->status);
	return true;
}

static void complete_chunk(struct hr_nvme_blk *disk, struct hr_blk_job *job,
			   const struct hr_completion *done)
{
	const uint32_t i = done->token;

	if (done->status && !job->err && try_again(disk, job, i, done))
		return;
	if (done->status)
		fail_job(disk, job, i, done->status);
	else if (job->to)
		memcpy(job->to + disk->buffer[i].at, disk->buffer[i].data, disk->buffer[i].bytes);
	job->idle |= 1u << i;
	job->in_flight--;
}

static void lose(struct hr_nvme_blk *disk, struct hr_blk_job *job, const struct hr_completion *done)
{
	const int gone = hr_ctrl_check(disk->ctrl, job->e);
	char what[80];

	hr_health_fault(disk->health, HR_FAULT_LOST_COMMAND, job->e, -ETIMEDOUT,
			"queue %u: %s (cid %04x): no completion after %llu ms", disk->qp.id,
			describe_job(disk, job, done->token, what, sizeof(what)), done->cid,
			disk->qp.timeout_ns / HR_NS_PER_MS);
	die(job, gone ? gone : -ETIMEDOUT);
}

/* Handle one completion, or find the reason why none arrives. False: there is none yet. */
static bool reap_job(struct hr_nvme_blk *disk, struct hr_blk_job *job)
{
	struct hr_nvme_qp *qp = &disk->qp;
	struct hr_completion done = { 0 };
	char text[80];

	if (hr_qp_reap(qp, &done)) {
		job->spins = 0;
		complete_chunk(disk, job, &done);
	} else if (qp->error) {
		die(job, hr_health_fault(disk->health, HR_FAULT_BROKEN_QUEUE, job->e, qp->error,
					 "queue %u: %s", qp->id,
					 hr_qp_error_text(qp, text, sizeof(text))));
	} else if (hr_qp_find_expired(qp, hr_now_ns(), &done)) {
		lose(disk, job, &done);
	} else {
		return false;
	}
	return true;
}

/* A controller that has failed completes nothing. */
static void check_job_controller(struct hr_nvme_blk *disk, struct hr_blk_job *job)
{
	const int err = hr_ctrl_check(disk->ctrl, job->e);

	if (err)
		die(job, err);
}

static uint32_t lowest(uint32_t mask)
{
	return (uint32_t)__builtin_ctz(mask);
}

/* Send the commands for which there is room, and those that are due again. */
static void submit(struct hr_nvme_blk *disk, struct hr_blk_job *job)
{
	for (uint32_t left = job->later; left && hr_qp_free_commands(&disk->qp); left &= left - 1) {
		const uint32_t i = lowest(left);

		if (hr_now_ns() < disk->buffer[i].again_ns)
			continue;
		job->later &= ~(1u << i);
		push(disk, job, i);
	}
	while (!job->err && job->next < job->bytes && job->idle && hr_qp_free_commands(&disk->qp))
		start_chunk(disk, job, lowest(job->idle));
	hr_qp_publish(&disk->qp);
}

static bool is_over(const struct hr_blk_job *job)
{
	return !job->in_flight && (job->err || job->next == job->bytes);
}

/* Wait for the next completion, or for the next attempt when no command is at the controller. */
static void wait_step(struct hr_nvme_blk *disk, struct hr_blk_job *job)
{
	const uint64_t now = hr_now_ns();
	uint64_t pause = HR_WAIT_MAX_NS;

	if ((uint32_t)__builtin_popcount(job->later) < job->in_flight) {
		hr_wait_step(&job->spins);
		return;
	}
	for (uint32_t left = job->later; left; left &= left - 1) {
		const uint64_t again = disk->buffer[lowest(left)].again_ns;

		pause = again < now + pause ? (again > now ? again - now : 0) : pause;
	}
	hr_wait_ns(pause);
}

static void wait_for_end(struct hr_nvme_blk *disk, struct hr_blk_job *job)
{
	do {
		hr_tick();
		submit(disk, job);
		if (!job->in_flight || reap_job(disk, job))
			continue;
		wait_step(disk, job);
		if (job->spins % CHECK_SPINS == 0)
			check_job_controller(disk, job);
	} while (!is_over(job));
}

static int run_job(struct hr_nvme_blk *disk, struct hr_blk_job *job)
{
	int refused;

	if (disk->begun.active && !is_over(&disk->begun))
		wait_for_end(disk, &disk->begun);
	refused = hr_health_refuse(disk->health, job->e);
	if (refused)
		return refused;
	job->idle = (1u << HR_BLK_BUFFERS) - 1;
	if (job->opcode == nvme_cmd_flush)
		start_chunk(disk, job, 0);
	wait_for_end(disk, job);
	return job->err;
}

int hr_nvme_blk_poll(struct hr_nvme_blk *disk)
{
	struct hr_blk_job *job = &disk->begun;

	if (!job->active)
		return -ENOENT;
	if (!is_over(job)) {
		submit(disk, job);
		while (job->in_flight && reap_job(disk, job))
			submit(disk, job);
	}
	if (job->in_flight)
		check_job_controller(disk, job);
	if (!is_over(job))
		return -EINPROGRESS;
	job->active = false;
	return job->err;
}

int hr_blk_check(const struct hr_blk *blk, const char *what, uint64_t offset, size_t bytes,
		 struct hr_error *e)
{
	const uint64_t mask = blk->block_bytes - 1;

	if ((offset | bytes) & mask)
		return hr_fail(e, HR_ERROR_FAILED, -EINVAL,
			       "%s: %s of %zu bytes at %" PRIu64 ": not whole blocks of %u",
			       blk->name, what, bytes, offset, blk->block_bytes);
	if (offset > blk->bytes || bytes > blk->bytes - offset)
		return hr_fail(e, HR_ERROR_FAILED, -ERANGE,
			       "%s: %s of %zu bytes at %" PRIu64 ": beyond the end at %" PRIu64,
			       blk->name, what, bytes, offset, blk->bytes);
	return 0;
}

static int check_transfer(const struct hr_blk *blk, bool write, uint64_t offset, size_t bytes,
			  struct hr_error *e)
{
	const char *what = write ? "write" : "read";
	const int err = hr_blk_check(blk, what, offset, bytes, e);

	if (err || !write || !blk->read_only)
		return err;
	return hr_fail(e, HR_ERROR_MISSING, -EROFS,
		       "%s: write of %zu bytes at %" PRIu64 ": the disk is read-only", blk->name,
		       bytes, offset);
}

static int blk_read(struct hr_blk *blk, uint64_t offset, void *data, size_t bytes,
		    struct hr_error *e)
{
	struct hr_nvme_blk *disk = blk->impl;
	struct hr_blk_job job = {
		.opcode = nvme_cmd_read,
		.lba = offset >> disk->ns.lba_shift,
		.to = data,
		.bytes = bytes,
		.e = e,
	};
	const int err = check_transfer(blk, false, offset, bytes, e);

	return err ? err : run_job(disk, &job);
}

static int blk_write(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes, bool fua,
		     struct hr_error *e)
{
	struct hr_nvme_blk *disk = blk->impl;
	struct hr_blk_job job = {
		.opcode = nvme_cmd_write,
		.lba = offset >> disk->ns.lba_shift,
		.from = data,
		.bytes = bytes,
		.fua = fua,
		.e = e,
	};
	const int err = check_transfer(blk, true, offset, bytes, e);

	return err ? err : run_job(disk, &job);
}

/* Without a volatile cache a completed write is durable. */
static int blk_flush(struct hr_blk *blk, struct hr_error *e)
{
	struct hr_nvme_blk *disk = blk->impl;
	struct hr_blk_job job = { .opcode = nvme_cmd_flush, .e = e };

	return blk->volatile_cache ? run_job(disk, &job) : hr_health_refuse(disk->health, e);
}

/* A transfer through buffer 0, with the caller's bus address in place of the buffer's. */
int hr_nvme_blk_move(struct hr_nvme_blk *disk, bool write, uint64_t offset, struct hr_bus page,
		     struct hr_error *e)
{
	const uint64_t own = disk->buffer[0].prp.first;
	struct hr_blk_job job = {
		.opcode = write ? nvme_cmd_write : nvme_cmd_read,
		.lba = offset >> disk->ns.lba_shift,
		.bytes = HR_PAGE,
		.quiet = true,
		.e = e,
	};
	int err = hr_blk_check(&disk->blk, write ? "write" : "read", offset, HR_PAGE, e);

	if (err)
		return err;
	if (write && disk->blk.read_only)
		return hr_fail(e, HR_ERROR_MISSING, -EROFS,
			       "%s: write of a page at %" PRIu64 ": the disk is read-only",
			       disk->blk.name, offset);
	disk->buffer[0].prp.first = page.addr;
	err = run_job(disk, &job);
	disk->buffer[0].prp.first = own;
	return err;
}

int hr_nvme_blk_direct(struct hr_nvme_blk *disk, uint8_t opcode, uint64_t offset,
		       const struct hr_region *region, size_t at, size_t bytes, struct hr_error *e)
{
	struct hr_blk_job job = {
		.opcode = opcode,
		.lba = offset >> disk->ns.lba_shift,
		.direct = region,
		.direct_at = at,
		.bytes = bytes,
		.quiet = true,
		.e = e,
	};
	const int err = check_transfer(&disk->blk, opcode == nvme_cmd_write, offset, bytes, e);

	if (err)
		return err;
	if ((at | bytes) % HR_PAGE || at > region->bytes || bytes > region->bytes - at)
		return hr_fail(e, HR_ERROR_FAILED, -EINVAL,
			       "%s: %zu bytes at %zu of memory of %zu bytes: not whole pages of it",
			       disk->blk.name, bytes, at, region->bytes);
	return run_job(disk, &job);
}

int hr_nvme_blk_command(struct hr_nvme_blk *disk, const struct hr_sqe *command, void *data,
			size_t bytes, bool to_host, struct hr_error *e)
{
	struct hr_blk_job job = {
		.opcode = command->opcode,
		.command = command,
		.from = to_host ? NULL : data,
		.to = to_host ? data : NULL,
		.bytes = bytes,
		.quiet = true,
		.e = e,
	};

	if (bytes == 0 || bytes > HR_BLK_COMMAND_MAX)
		return -EINVAL;
	return run_job(disk, &job);
}

int hr_nvme_blk_begin(struct hr_nvme_blk *disk, bool write, uint64_t offset, void *data,
		      size_t bytes, struct hr_error *e)
{
	int err = check_transfer(&disk->blk, write, offset, bytes, e);

	if (disk->begun.active)
		return -EBUSY;
	if (!err)
		err = hr_health_refuse(disk->health, e);
	if (err)
		return err;
	disk->begun = (struct hr_blk_job){
		.opcode = write ? nvme_cmd_write : nvme_cmd_read,
		.active = true,
		.lba = offset >> disk->ns.lba_shift,
		.from = write ? data : NULL,
		.to = write ? NULL : data,
		.bytes = bytes,
		.idle = (1u << HR_BLK_BUFFERS) - 1,
		.e = e,
	};
	submit(disk, &disk->begun);
	return 0;
}

/*
 * Dataset Management with Deallocate (NVM Command Set 3.2.3), one range a command. A status is no
 * error: deallocation is a hint, and the controller may limit its ranges.
 */
static int blk_trim(struct hr_blk *blk, uint64_t offset, uint64_t bytes, struct hr_error *e)
{
	struct hr_nvme_blk *disk = blk->impl;
	const uint32_t shift = disk->ns.lba_shift;
	int err = hr_blk_check(blk, "deallocation", offset, bytes, e);

	if (err || !(disk->ctrl->oncs & NVME_CTRL_ONCS_DSM))
		return err;
	while (bytes) {
		const uint64_t some = bytes < TRIM_BYTES ? bytes : TRIM_BYTES;
		struct nvme_dsm_range range = { .nlb = (uint32_t)(some >> shift),
						.slba = offset >> shift };
		struct hr_sqe command = { .opcode = nvme_cmd_dsm, .cdw11 = NVME_DSMGMT_AD };

		err = hr_nvme_blk_command(disk, &command, &range, sizeof range, false, e);
		if (err > 0)
			hr_debug("%s: deallocation of %" PRIu64 " bytes at %" PRIu64
				 " is refused: status 0x%x",
				 blk->name, some, offset, (unsigned)err);
		if (err)
			return err > 0 ? 0 : err;
		offset += some;
		bytes -= some;
	}
	return 0;
}

static const struct hr_blk_ops nvme_blk_ops = {
	.read = blk_read,
	.write = blk_write,
	.flush = blk_flush,
	.trim = blk_trim,
};

static void set_buffers(struct hr_nvme_blk *disk, const struct hr_region *region, size_t offset)
{
	for (uint32_t i = 0; i < HR_BLK_BUFFERS; i++) {
		const size_t at = offset + (size_t)BUFFER_PAGE * HR_PAGE + (size_t)i * HR_BLK_CHUNK;

		disk->buffer[i].data = (uint8_t *)region->cpu + at;
		hr_prp_build(&disk->buffer[i].prp, region, at, HR_BLK_CHUNK, region,
			     offset + (LIST_PAGE + i) * (size_t)HR_PAGE);
	}
}

int hr_nvme_blk_open(struct hr_nvme_blk *disk, struct hr_ctrl *ctrl, const struct hr_ns *ns,
		     uint16_t id, const struct hr_region *region, size_t offset,
		     uint64_t timeout_ns, struct hr_error *e)
{
	uint8_t *cpu = region->cpu;
	const uint32_t entries =
		ctrl->max_entries < HR_BLK_ENTRIES ? ctrl->max_entries : HR_BLK_ENTRIES;
	struct hr_qp_memory memory;
	int err;

	if (!cpu || offset % HR_PAGE || offset > region->bytes ||
	    hr_nvme_blk_bytes() > region->bytes - offset)
		return -EINVAL;
	memset(disk, 0, sizeof(*disk));
	disk->ctrl = ctrl;
	disk->health = &ctrl->health;
	disk->ns = *ns;
	disk->chunk = ctrl->max_transfer < HR_BLK_CHUNK ? ctrl->max_transfer : HR_BLK_CHUNK;
	disk->blk = (struct hr_blk){
		.ops = &nvme_blk_ops,
		.name = ctrl->transport->name,
		.bytes = ns->blocks << ns->lba_shift,
		.block_bytes = 1u << ns->lba_shift,
		.volatile_cache = ctrl->volatile_cache,
		.read_only = ns->read_only,
		.impl = disk,
	};
	disk->region = region;
	disk->offset = offset;
	set_buffers(disk, region, offset);
	memory.sq = cpu + offset;
	memory.cq = cpu + offset + HR_PAGE;
	memory.table = cpu + offset + 2 * (size_t)HR_PAGE;
	err = hr_qp_init(&disk->qp, id, entries, &memory, timeout_ns);
	if (err)
		return err;
	err = hr_ctrl_create_qp(ctrl, &disk->qp, hr_region_bus(region, offset),
				hr_region_bus(region, offset + HR_PAGE), e);
	if (!err)
		hr_health_set(disk->health, HR_STEP_REOPEN);
	return err;
}

int hr_nvme_blk_close(struct hr_nvme_blk *disk, struct hr_error *e)
{
	return hr_ctrl_delete_qp(disk->ctrl, disk->qp.id, e);
}
