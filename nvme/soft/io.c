/* SPDX-License-Identifier: Apache-2.0 */
/* I/O commands (NVM Command Set 3.2). */
#include <stdlib.h>
#include <string.h>

#include "nvme/soft/internal.h"

#define RANGES_MAX 256u

static uint64_t slba_of(const struct hr_sqe *sqe)
{
	return (uint64_t)sqe->cdw11 << 32 | sqe->cdw10;
}

static uint32_t blocks_of(const struct hr_sqe *sqe)
{
	return (sqe->cdw12 & 0xffff) + 1;
}

/* Block number on the media of block lba of the command's namespace. */
static uint64_t on_media(const struct soft *soft, const struct hr_sqe *sqe, uint64_t lba)
{
	return (sqe->nsid - 1) * soft->blocks + lba;
}

static bool in_range(const struct soft *soft, uint64_t lba, uint64_t blocks)
{
	return lba <= soft->blocks && blocks <= soft->blocks - lba;
}

/* Check length and range of a read or write, and collect its memory. */
static uint16_t prepare_transfer(struct soft_poller *p, struct soft_sq *sq,
				 const struct hr_sqe *sqe, unsigned *pieces)
{
	const struct soft *soft = p->soft;
	const uint64_t bytes = (uint64_t)blocks_of(sqe) << soft->lba_shift;
	uint16_t status;

	if (bytes > soft->max_bytes)
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	if (!in_range(soft, slba_of(sqe), blocks_of(sqe)))
		return NVME_SC_LBA_RANGE | SOFT_DNR;
	status = soft_prp(soft, &sq->hint, sqe, bytes, p->vec, soft->vec_max, pieces);
	return status ? (uint16_t)(status | SOFT_DNR) : 0;
}

static uint16_t media_status(bool write)
{
	return (write ? NVME_SC_WRITE_FAULT : NVME_SC_READ_ERROR) | NVME_SCT_MEDIA << 8;
}

static uint64_t bytes_of(const struct soft *soft, const struct hr_sqe *sqe)
{
	return (uint64_t)blocks_of(sqe) << soft->lba_shift;
}

/* Read blocks into memory, or write them from there. 0 or -EIO. */
static int transfer_blocks(struct soft_poller *p, const struct hr_sqe *sqe, const struct iovec *vec,
			   unsigned pieces, bool write)
{
	struct soft_cache *cache = &p->soft->cache;
	const uint64_t lba = on_media(p->soft, sqe, slba_of(sqe));

	return write ? soft_cache_write(cache, lba, blocks_of(sqe), vec, pieces,
					sqe->cdw12 & HR_CDW12_FUA)
		     : soft_cache_read(cache, lba, blocks_of(sqe), vec, pieces);
}

/* The same through a copy, in which the data change. */
static uint16_t move_faulty(struct soft_poller *p, const struct hr_sqe *sqe, unsigned pieces,
			    bool write)
{
	struct iovec copy = { malloc(bytes_of(p->soft, sqe)), bytes_of(p->soft, sqe) };
	int err;

	if (!copy.iov_base)
		return NVME_SC_INTERNAL;
	if (write)
		soft_peer_read(p, copy.iov_base, copy.iov_len, pieces);
	err = transfer_blocks(p, sqe, &copy, 1, write);
	if (!write && !err)
		soft_peer_write(p, copy.iov_base, copy.iov_len, pieces);
	free(copy.iov_base);
	return err ? media_status(write) : 0;
}

static uint16_t transfer(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe,
			 bool write)
{
	unsigned pieces;
	uint16_t status = prepare_transfer(p, sq, sqe, &pieces);

	if (status)
		return status;
	if (soft_is_faulty_peer(p->soft, sq))
		status = move_faulty(p, sqe, pieces, write);
	else if (transfer_blocks(p, sqe, p->vec, pieces, write) != 0)
		status = media_status(write);
	if (status)
		return status;
	soft_add(write ? &p->stats.writes : &p->stats.reads, 1);
	soft_add(write ? &p->stats.written_bytes : &p->stats.read_bytes, bytes_of(p->soft, sqe));
	return 0;
}

uint16_t soft_read(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe)
{
	return transfer(p, sq, sqe, false);
}

static uint16_t io_write(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe)
{
	return transfer(p, sq, sqe, true);
}

/* Compare the data at `host` with the media, which are read to `media`. */
static uint16_t compare_blocks(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe,
			       unsigned pieces, uint8_t *host, uint8_t *media)
{
	const uint64_t bytes = bytes_of(p->soft, sqe);
	const struct iovec vec = { media, bytes };

	if (soft_is_faulty_peer(p->soft, sq))
		soft_peer_read(p, host, bytes, pieces);
	else
		soft_gather(host, p->vec, pieces);
	if (transfer_blocks(p, sqe, &vec, 1, false) != 0)
		return media_status(false);
	return memcmp(host, media, bytes) == 0
		       ? 0
		       : (NVME_SC_COMPARE_FAILED & 0xff) | NVME_SCT_MEDIA << 8 | SOFT_DNR;
}

/* NVM Command Set 3.2.1. */
static uint16_t io_compare(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe)
{
	uint8_t *data;
	unsigned pieces;
	uint16_t status = prepare_transfer(p, sq, sqe, &pieces);

	if (status)
		return status;
	data = calloc(2, bytes_of(p->soft, sqe));
	if (!data)
		return NVME_SC_INTERNAL;
	status = compare_blocks(p, sq, sqe, pieces, data, data + bytes_of(p->soft, sqe));
	free(data);
	return status;
}

static uint16_t io_flush(struct soft_poller *p)
{
	if (soft_cache_flush(&p->soft->cache) != 0)
		return NVME_SC_WRITE_FAULT | NVME_SCT_MEDIA << 8;
	soft_add(&p->stats.flushes, 1);
	return 0;
}

static uint16_t discard_blocks(struct soft_poller *p, uint64_t lba, uint64_t blocks, bool through)
{
	return soft_cache_discard(&p->soft->cache, lba, blocks, through) == 0
		       ? 0
		       : NVME_SC_WRITE_FAULT | NVME_SCT_MEDIA << 8;
}

static uint16_t io_write_zeroes(struct soft_poller *p, const struct hr_sqe *sqe)
{
	if (!in_range(p->soft, slba_of(sqe), blocks_of(sqe)))
		return NVME_SC_LBA_RANGE | SOFT_DNR;
	return discard_blocks(p, on_media(p->soft, sqe, slba_of(sqe)), blocks_of(sqe),
			      sqe->cdw12 & HR_CDW12_FUA);
}

/* All ranges are checked before the first one is deallocated. */
static uint16_t io_dsm(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe)
{
	const uint32_t ranges = (sqe->cdw10 & 0xff) + 1;
	struct nvme_dsm_range range[RANGES_MAX];
	struct iovec vec[2];
	unsigned pieces;
	uint16_t status =
		soft_prp(p->soft, &sq->hint, sqe, ranges * sizeof(range[0]), vec, 2, &pieces);

	if (status)
		return (uint16_t)(status | SOFT_DNR);
	soft_gather(range, vec, pieces);
	for (uint32_t i = 0; i < ranges; i++)
		if (!in_range(p->soft, range[i].slba, range[i].nlb))
			return NVME_SC_LBA_RANGE | SOFT_DNR;
	for (uint32_t i = 0; !status && (sqe->cdw11 & NVME_DSMGMT_AD) && i < ranges; i++)
		status = discard_blocks(p, on_media(p->soft, sqe, range[i].slba), range[i].nlb,
					false);
	return status;
}

/* Base 8.12.1: commands that a write protected namespace refuses. */
static bool changes_data(const struct hr_sqe *sqe)
{
	return sqe->opcode == nvme_cmd_write || sqe->opcode == nvme_cmd_write_zeroes ||
	       (sqe->opcode == nvme_cmd_dsm && sqe->cdw11 & NVME_DSMGMT_AD);
}

static bool is_reservation(uint8_t opcode)
{
	return opcode == nvme_cmd_resv_register || opcode == nvme_cmd_resv_report ||
	       opcode == nvme_cmd_resv_acquire || opcode == nvme_cmd_resv_release;
}

uint16_t soft_io(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe)
{
	if (sqe->flags & (HR_SQE_PSDT_MASK | 3)) /* SGLS 0, FUSES 0 */
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	if (!soft_has_namespace(p->soft, sqe->nsid) &&
	    !(sqe->opcode == nvme_cmd_flush && sqe->nsid == NVME_NSID_ALL))
		return NVME_SC_INVALID_NS | SOFT_DNR;
	if (p->soft->options.zoned)
		return soft_zoned_io(p, sq, sqe);
	if (is_reservation(sqe->opcode))
		return soft_reservation_io(p, sq, sqe);
	if (soft_reservation_refuses(p->soft, sqe))
		return NVME_SC_RESERVATION_CONFLICT | SOFT_DNR;
	if (soft_is_protected(p->soft) && changes_data(sqe))
		return NVME_SC_NS_WRITE_PROTECTED | SOFT_DNR;
	switch (sqe->opcode) {
	case nvme_cmd_flush:
		return io_flush(p);
	case nvme_cmd_write:
		return io_write(p, sq, sqe);
	case nvme_cmd_read:
		return soft_read(p, sq, sqe);
	case nvme_cmd_compare:
		return soft_compares(p->soft) ? io_compare(p, sq, sqe)
					      : NVME_SC_INVALID_OPCODE | SOFT_DNR;
	case nvme_cmd_write_zeroes:
		return io_write_zeroes(p, sqe);
	case nvme_cmd_dsm:
		return io_dsm(p, sq, sqe);
	default:
		return NVME_SC_INVALID_OPCODE | SOFT_DNR;
	}
}
