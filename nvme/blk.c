#include "nvme/blk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "config/tick.h"
#include "nvme/health.h"
#include "nvme/ioqueues.h"
#include "nvme/retry.h"
#include "nvme/status.h"

#define CHECK_SPINS 64u /* idle steps between two looks at CSTS */

/* One call: what is to be moved, and how far it is. */
struct job {
	uint8_t opcode;
	const struct hr_sqe *command; /* NULL: read, write, flush */
	bool fua;
	bool quiet; /* a status is the caller's to tell */
	uint64_t lba;
	const uint8_t *from; /* write */
	uint8_t *to;	     /* read */
	size_t bytes, next;  /* next: first byte not yet given to a command */
	uint32_t idle;	     /* mask of buffers without a command */
	uint32_t in_flight;
	uint32_t spins;
	int err; /* of the first command that failed */
};

/* [SQ][CQ][table][a list per buffer][buffers] */
#define LIST_PAGE 3u
#define BUFFER_PAGE (LIST_PAGE + HR_BLK_BUFFERS)

size_t hr_nvme_blk_bytes(void)
{
	return (size_t)BUFFER_PAGE * HR_PAGE + (size_t)HR_BLK_BUFFERS * HR_BLK_CHUNK;
}

static uint64_t lba_of(const struct hr_nvme_blk *disk, const struct job *job, uint32_t i)
{
	return job->lba + (disk->buffer[i].at >> disk->ns.lba_shift);
}

/* "read of 64 blocks at LBA 16" */
static const char *describe(const struct hr_nvme_blk *disk, const struct job *job, uint32_t i,
			    char *text, size_t bytes)
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

/* The end of a disk: what is in flight will not be waited for. */
static void die(struct hr_nvme_blk *disk, struct job *job, int err)
{
	disk->dead = err;
	job->err = job->err ? job->err : err;
	job->in_flight = 0;
}

/* Push the command of buffer i, whose use is already set. */
static void push(struct hr_nvme_blk *disk, struct job *job, uint32_t i)
{
	const uint32_t bytes = disk->buffer[i].bytes;
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
			  bytes >> disk->ns.lba_shift, disk->buffer[i].prp.first,
			  hr_prp2(&disk->buffer[i].prp, bytes));
		sqe.cdw12 |= job->fua ? HR_CDW12_FUA : 0;
	}
	cid = hr_qp_push(&disk->qp, true, &sqe, i);
	if (cid < 0)
		die(disk, job, cid);
}

/* Give the next chunk to buffer i. */
static void start(struct hr_nvme_blk *disk, struct job *job, uint32_t i)
{
	const size_t left = job->bytes - job->next;
	const uint32_t bytes = left < disk->chunk ? (uint32_t)left : disk->chunk;

	disk->buffer[i].at = job->next;
	disk->buffer[i].bytes = bytes;
	disk->buffer[i].tries = 0;
	if (job->from)
		memcpy(disk->buffer[i].data, job->from + job->next, bytes);
	job->next += bytes;
	job->idle &= ~(1u << i);
	job->in_flight++;
	push(disk, job, i);
}

static void fail(struct hr_nvme_blk *disk, struct job *job, uint32_t i, uint16_t status)
{
	char what[80], name[80];

	if (!job->err && !job->quiet)
		hr_error("%s: %s: %s (%03x)", disk->blk.name,
			 describe(disk, job, i, what, sizeof(what)),
			 hr_error_name(status, name, sizeof(name)), status);
	job->err = job->err ? job->err : status;
}

/* Pauses before another try of buffer i. False: it has had its tries, or its time. */
static bool try_again(struct hr_nvme_blk *disk, const struct job *job, uint32_t i,
		      const struct hr_done *done)
{
	const uint32_t most = job->opcode == nvme_cmd_flush
				      ? hr_status_flush_retries(done->status, done->dnr)
				      : hr_status_retries(done->status, done->dnr);
	const uint32_t tries = disk->buffer[i].tries;
	const uint64_t now = hr_now_ns(), pause = hr_qp_retry_pause(&disk->qp, done->crd, tries);

	if (tries >= most)
		return false;
	if (!tries)
		disk->buffer[i].failed_ns = now;
	if (now + pause - disk->buffer[i].failed_ns > disk->qp.timeout_ns)
		return false;
	disk->buffer[i].tries++;
	hr_wait_ns(pause);
	return true;
}

static void finish(struct hr_nvme_blk *disk, struct job *job, const struct hr_done *done)
{
	const uint32_t i = done->token;

	if (done->status && !job->err && !job->command && try_again(disk, job, i, done)) {
		push(disk, job, i);
		return;
	}
	if (done->status)
		fail(disk, job, i, done->status);
	else if (job->to)
		memcpy(job->to + disk->buffer[i].at, disk->buffer[i].data, disk->buffer[i].bytes);
	job->idle |= 1u << i;
	job->in_flight--;
}

static void lose(struct hr_nvme_blk *disk, struct job *job, const struct hr_done *done)
{
	const int gone = hr_ctrl_check(disk->ctrl);
	char what[80];

	hr_error("%s: queue %u: %s (cid %04x): no completion after %llu ms", disk->blk.name,
		 disk->qp.id, describe(disk, job, done->token, what, sizeof(what)), done->cid,
		 disk->qp.timeout_ns / HR_NS_PER_MS);
	die(disk, job, gone ? gone : -ETIMEDOUT);
}

/* Take one completion, or find out why there is none. */
static void collect(struct hr_nvme_blk *disk, struct job *job)
{
	struct hr_nvme_qp *qp = &disk->qp;
	struct hr_done done = { 0 };
	char text[80];
	int err;

	if (hr_qp_reap(qp, &done)) {
		job->spins = 0;
		finish(disk, job, &done);
	} else if (qp->broken) {
		hr_error("%s: queue %u: %s", disk->blk.name, qp->id,
			 hr_qp_offence(qp, text, sizeof(text)));
		die(disk, job, qp->broken);
	} else if (hr_qp_expire(qp, hr_now_ns(), &done)) {
		lose(disk, job, &done);
	} else {
		hr_idle(&job->spins);
		err = job->spins % CHECK_SPINS ? 0 : hr_ctrl_check(disk->ctrl);
		if (err)
			die(disk, job, err);
	}
}

static uint32_t lowest_idle(const struct job *job)
{
	return (uint32_t)__builtin_ctz(job->idle);
}

static int run(struct hr_nvme_blk *disk, struct job *job)
{
	if (disk->dead)
		return disk->dead;
	job->idle = (1u << HR_BLK_BUFFERS) - 1;
	if (job->opcode == nvme_cmd_flush)
		start(disk, job, 0);
	do {
		hr_tick();
		while (!job->err && job->next < job->bytes && job->idle && hr_qp_room(&disk->qp))
			start(disk, job, lowest_idle(job));
		hr_qp_ring(&disk->qp);
		if (job->in_flight)
			collect(disk, job);
	} while (job->in_flight || (!job->err && job->next < job->bytes));
	return job->err;
}

static int check(const struct hr_blk *blk, const char *what, uint64_t offset, size_t bytes)
{
	const uint64_t mask = blk->block_bytes - 1;

	if ((offset | bytes) & mask) {
		hr_error("%s: %s of %zu bytes at %" PRIu64 ": not whole blocks of %u", blk->name,
			 what, bytes, offset, blk->block_bytes);
		return -EINVAL;
	}
	if (offset > blk->bytes || bytes > blk->bytes - offset) {
		hr_error("%s: %s of %zu bytes at %" PRIu64 ": beyond the end at %" PRIu64,
			 blk->name, what, bytes, offset, blk->bytes);
		return -ERANGE;
	}
	return 0;
}

static int blk_read(struct hr_blk *blk, uint64_t offset, void *data, size_t bytes)
{
	struct hr_nvme_blk *disk = blk->impl;
	struct job job = {
		.opcode = nvme_cmd_read,
		.lba = offset >> disk->ns.lba_shift,
		.to = data,
		.bytes = bytes,
	};
	const int err = check(blk, "read", offset, bytes);

	return err ? err : run(disk, &job);
}

static int blk_write(struct hr_blk *blk, uint64_t offset, const void *data, size_t bytes, bool fua)
{
	struct hr_nvme_blk *disk = blk->impl;
	struct job job = {
		.opcode = nvme_cmd_write,
		.lba = offset >> disk->ns.lba_shift,
		.from = data,
		.bytes = bytes,
		.fua = fua,
	};
	const int err = check(blk, "write", offset, bytes);

	if (err)
		return err;
	if (blk->read_only) {
		hr_error("%s: write of %zu bytes at %" PRIu64 ": the disk is read-only", blk->name,
			 bytes, offset);
		return -EROFS;
	}
	return run(disk, &job);
}

/* Without a volatile cache a completed write is durable. */
static int blk_flush(struct hr_blk *blk)
{
	struct hr_nvme_blk *disk = blk->impl;
	struct job job = { .opcode = nvme_cmd_flush };

	return blk->volatile_cache ? run(disk, &job) : disk->dead;
}

/* As any other transfer through buffer 0, whose address for the controller is another one now. */
int hr_nvme_blk_move(struct hr_nvme_blk *disk, bool write, uint64_t offset, struct hr_bus page)
{
	const uint64_t own = disk->buffer[0].prp.first;
	struct job job = {
		.opcode = write ? nvme_cmd_write : nvme_cmd_read,
		.lba = offset >> disk->ns.lba_shift,
		.bytes = HR_PAGE,
		.quiet = true,
	};
	int err = check(&disk->blk, write ? "write" : "read", offset, HR_PAGE);

	if (err)
		return err;
	if (write && disk->blk.read_only)
		return -EROFS;
	disk->buffer[0].prp.first = page.addr;
	err = run(disk, &job);
	disk->buffer[0].prp.first = own;
	return err;
}

int hr_nvme_blk_command(struct hr_nvme_blk *disk, const struct hr_sqe *command, void *data,
			size_t bytes, bool to_host)
{
	struct job job = {
		.opcode = command->opcode,
		.command = command,
		.from = to_host ? NULL : data,
		.to = to_host ? data : NULL,
		.bytes = bytes,
		.quiet = true,
	};

	if (bytes == 0 || bytes > HR_BLK_COMMAND_MAX)
		return -EINVAL;
	return run(disk, &job);
}

static const struct hr_blk_ops nvme_blk_ops = {
	.read = blk_read,
	.write = blk_write,
	.flush = blk_flush,
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
		     uint64_t timeout_ns)
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
	set_buffers(disk, region, offset);
	memory.sq = cpu + offset;
	memory.cq = cpu + offset + HR_PAGE;
	memory.table = cpu + offset + 2 * (size_t)HR_PAGE;
	err = hr_qp_init(&disk->qp, id, entries, &memory, timeout_ns);
	if (err)
		return err;
	return hr_ctrl_create_qp(ctrl, &disk->qp, hr_region_bus(region, offset),
				 hr_region_bus(region, offset + HR_PAGE));
}

int hr_nvme_blk_close(struct hr_nvme_blk *disk)
{
	return hr_ctrl_delete_qp(disk->ctrl, disk->qp.id);
}
