/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/object.h"

HR_WORKER int transfer_check(const struct hr_extent *extent, uint64_t offset, uint32_t bytes,
			     const struct hr_buffer *buffer)
{
	const uint64_t mask = ((uint64_t)1 << extent->lba_shift) - 1;

	if (offset > extent->bytes || bytes > extent->bytes - offset)
		return -ERANGE;
	if ((offset & mask) || bytes > buffer->bytes || buffer->chunk_bytes > extent->chunk_bytes)
		return -EINVAL;
	if ((bytes & mask) && offset + bytes != extent->bytes)
		return -EINVAL;
	return 0;
}

/* A transfer with checked arguments. */
struct hr_transfer {
	const struct hr_extent *extent;
	const struct hr_buffer *buffer;
	uint64_t offset;
	uint32_t bytes, index; /* index: of the buffer, for tokens */
	uint32_t flags;	       /* CDW12 */
	uint8_t opcode;
};

HR_WORKER void transfer_set(struct hr_transfer *t, uint8_t opcode, const struct hr_extent *extent,
			    uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			    uint32_t index, uint32_t flags)
{
	t->extent = extent;
	t->buffer = buffer;
	t->offset = offset;
	t->bytes = bytes;
	t->index = index;
	t->flags = flags;
	t->opcode = opcode;
}

/* Build the command for one chunk of a transfer. The last chunk may be shorter, rounded up to
 * blocks. */
HR_WORKER void transfer_sqe(struct hr_sqe *sqe, const struct hr_transfer *t, uint32_t chunk)
{
	const struct hr_extent *extent = t->extent;
	const struct hr_prp *prp = &t->buffer->chunk[chunk];
	const uint32_t start = chunk * t->buffer->chunk_bytes, left = t->bytes - start;
	const uint32_t bytes = left < t->buffer->chunk_bytes ? left : t->buffer->chunk_bytes;
	const uint32_t blocks =
		(bytes + ((uint32_t)1 << extent->lba_shift) - 1) >> extent->lba_shift;

	hr_sqe_io(sqe, t->opcode, extent->nsid,
		  extent->lba + ((t->offset + start) >> extent->lba_shift), blocks, prp->first,
		  hr_prp2(prp, blocks << extent->lba_shift));
	sqe->cdw12 |= t->flags;
}

/* Collective: push chunks [first, end), for which the queue has room. Lane i takes every
 * HR_LANES-th chunk. */
HR_WORKER void transfer_push(struct hr_nvme_qp *qp, const struct hr_transfer *t, uint32_t first,
			     uint32_t end)
{
	struct hr_sqe sqe;

	for (; first < end; first += HR_LANES) {
		const uint32_t chunk = first + hr_lane();

		if (chunk < end)
			transfer_sqe(&sqe, t, chunk);
		(void)hr_qp_push(qp, chunk < end, &sqe, HR_TOKEN(t->index, chunk));
	}
}

HR_WORKER int transfer_no_room(const struct hr_nvme_qp *qp)
{
	return qp->error ? qp->error : -EAGAIN;
}

HR_WORKER int transfer_post(struct hr_nvme_qp *qp, const struct hr_transfer *t)
{
	const uint32_t count = hr_chunk_count(t->bytes, t->buffer->chunk_bytes);
	const int err = transfer_check(t->extent, t->offset, t->bytes, t->buffer);

	if (err)
		return err;
	if (hr_qp_free_commands(qp) < count)
		return transfer_no_room(qp);
	transfer_push(qp, t, 0, count);
	return (int)count;
}

HR_DEVICE int hr_io_read_post(struct hr_nvme_qp *qp, const struct hr_extent *extent,
			      uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			      uint32_t buffer_index)
{
	struct hr_transfer t;

	transfer_set(&t, nvme_cmd_read, extent, offset, bytes, buffer, buffer_index, 0);
	return transfer_post(qp, &t);
}

HR_DEVICE int hr_io_write_post(struct hr_nvme_qp *qp, const struct hr_extent *extent,
			       uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			       uint32_t buffer_index, uint32_t flags)
{
	struct hr_transfer t;

	transfer_set(&t, nvme_cmd_write, extent, offset, bytes, buffer, buffer_index, flags);
	return transfer_post(qp, &t);
}

/* Collective: push the single command of each lane's transfer. */
HR_WORKER int transfer_post_each(struct hr_nvme_qp *qp, bool want, const struct hr_transfer *t)
{
	struct hr_sqe sqe = { 0 }; /* for a lane that posts nothing */
	int err = 0, cid;

	if (want)
		err = transfer_check(t->extent, t->offset, t->bytes, t->buffer);
	if (want && !err && (t->bytes == 0 || t->bytes > t->buffer->chunk_bytes))
		err = -EINVAL;
	if (want && !err)
		transfer_sqe(&sqe, t, 0);
	cid = hr_qp_push(qp, want && !err, &sqe, HR_TOKEN(t->index, 0));
	if (!want || err)
		return err;
	return cid < 0 ? cid : 1;
}

HR_DEVICE int hr_io_read_each(struct hr_nvme_qp *qp, bool want, const struct hr_extent *extent,
			      uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			      uint32_t buffer_index)
{
	struct hr_transfer t;

	transfer_set(&t, nvme_cmd_read, extent, offset, bytes, buffer, buffer_index, 0);
	return transfer_post_each(qp, want, &t);
}

HR_DEVICE int hr_io_write_each(struct hr_nvme_qp *qp, bool want, const struct hr_extent *extent,
			       uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			       uint32_t buffer_index, uint32_t flags)
{
	struct hr_transfer t;

	transfer_set(&t, nvme_cmd_write, extent, offset, bytes, buffer, buffer_index, flags);
	return transfer_post_each(qp, want, &t);
}

HR_DEVICE int hr_io_repost(struct hr_nvme_qp *qp, uint8_t opcode, const struct hr_extent *extent,
			   uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			   uint32_t buffer_index, uint32_t chunk, uint32_t flags)
{
	struct hr_transfer t;
	struct hr_sqe sqe;

	if (!hr_qp_free_commands(qp))
		return transfer_no_room(qp);
	transfer_set(&t, opcode, extent, offset, bytes, buffer, buffer_index, flags);
	transfer_sqe(&sqe, &t, chunk);
	(void)hr_qp_push(qp, hr_lane() == 0, &sqe, HR_TOKEN(buffer_index, chunk));
	return 1;
}

HR_DEVICE int hr_io_flush_post(struct hr_nvme_qp *qp, const struct hr_extent *extent,
			       uint32_t buffer_index)
{
	struct hr_sqe sqe;

	if (!hr_qp_free_commands(qp))
		return transfer_no_room(qp);
	hr_sqe_io(&sqe, nvme_cmd_flush, extent->nsid, 0, 1, 0, 0);
	(void)hr_qp_push(qp, hr_lane() == 0, &sqe, HR_TOKEN(buffer_index, 0));
	return 1;
}

/* Polls without a completion between two looks at the clock, which takes a GPU long. */
#define EXPIRE_POLLS (HR_LANES == 1 ? 1u : 16u)

/* Collective: count a poll without a completion. True when deadlines are to be checked. */
HR_WORKER bool reap_checks(struct hr_nvme_qp *qp)
{
	uint32_t empty;

	if (EXPIRE_POLLS == 1)
		return true;
	empty = qp->empty_polls;
	hr_lanes_sync();
	if (hr_lane() == 0)
		qp->empty_polls = empty + 1;
	hr_lanes_sync();
	return empty % EXPIRE_POLLS == 0;
}

HR_DEVICE hr_mask hr_io_reap_or(struct hr_nvme_qp *qp, const struct hr_qp_wait *wait,
				struct hr_completion *done)
{
	const hr_mask mask = hr_qp_reap_or(qp, wait, done);

	if (mask)
		return mask;
	if (!reap_checks(qp) || !hr_qp_find_expired(qp, hr_clock_ns(), done))
		return 0;
	done->status = HR_STATUS_LOST;
	return 1;
}

HR_DEVICE hr_mask hr_io_reap(struct hr_nvme_qp *qp, struct hr_completion *done)
{
	const struct hr_qp_wait wait = { 1, NULL, 0, 0 };

	return hr_io_reap_or(qp, &wait, done);
}
