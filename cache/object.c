#include "cache/object.h"

HR_DEVICE const struct hr_extent *hr_get_object(const struct hr_object_map *map, uint64_t id)
{
	const struct hr_extent *extent = (const struct hr_extent *)(const void *)(map + 1);
	uint32_t low = 0, high = map->count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (extent[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < map->count && extent[low].id == id ? &extent[low] : NULL;
}

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

/* A transfer whose arguments have been checked; its commands are posted in one go or in rounds. */
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

/* The command for one chunk of a transfer: the last one is shorter, and rounded up to blocks. */
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

/* Collective: push chunks [first, end), for which there is room; a lane takes each HR_LANES-th. */
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
	return qp->broken ? qp->broken : -EAGAIN;
}

HR_WORKER int transfer_post(struct hr_nvme_qp *qp, const struct hr_transfer *t)
{
	const uint32_t count = hr_chunk_count(t->bytes, t->buffer->chunk_bytes);
	const int err = transfer_check(t->extent, t->offset, t->bytes, t->buffer);

	if (err)
		return err;
	if (hr_qp_room(qp) < count)
		return transfer_no_room(qp);
	transfer_push(qp, t, 0, count);
	return (int)count;
}

HR_DEVICE int hr_pread_prefetch(struct hr_nvme_qp *qp, const struct hr_extent *extent,
				uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
				uint32_t buffer_index)
{
	struct hr_transfer t;

	transfer_set(&t, nvme_cmd_read, extent, offset, bytes, buffer, buffer_index, 0);
	return transfer_post(qp, &t);
}

HR_DEVICE int hr_pwrite_post(struct hr_nvme_qp *qp, const struct hr_extent *extent, uint64_t offset,
			     uint32_t bytes, const struct hr_buffer *buffer, uint32_t buffer_index,
			     uint32_t flags)
{
	struct hr_transfer t;

	transfer_set(&t, nvme_cmd_write, extent, offset, bytes, buffer, buffer_index, flags);
	return transfer_post(qp, &t);
}

/* Collective: the one command of this lane's transfer. */
HR_WORKER int transfer_post_each(struct hr_nvme_qp *qp, bool want, const struct hr_transfer *t)
{
	struct hr_sqe sqe = { 0 }; /* of a lane that posts nothing */
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

HR_DEVICE int hr_pread_each(struct hr_nvme_qp *qp, bool want, const struct hr_extent *extent,
			    uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			    uint32_t buffer_index)
{
	struct hr_transfer t;

	transfer_set(&t, nvme_cmd_read, extent, offset, bytes, buffer, buffer_index, 0);
	return transfer_post_each(qp, want, &t);
}

HR_DEVICE int hr_pwrite_each(struct hr_nvme_qp *qp, bool want, const struct hr_extent *extent,
			     uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			     uint32_t buffer_index, uint32_t flags)
{
	struct hr_transfer t;

	transfer_set(&t, nvme_cmd_write, extent, offset, bytes, buffer, buffer_index, flags);
	return transfer_post_each(qp, want, &t);
}

HR_DEVICE int hr_repost(struct hr_nvme_qp *qp, uint8_t opcode, const struct hr_extent *extent,
			uint64_t offset, uint32_t bytes, const struct hr_buffer *buffer,
			uint32_t buffer_index, uint32_t chunk, uint32_t flags)
{
	struct hr_transfer t;
	struct hr_sqe sqe;

	if (!hr_qp_room(qp))
		return transfer_no_room(qp);
	transfer_set(&t, opcode, extent, offset, bytes, buffer, buffer_index, flags);
	transfer_sqe(&sqe, &t, chunk);
	(void)hr_qp_push(qp, hr_lane() == 0, &sqe, HR_TOKEN(buffer_index, chunk));
	return 1;
}

HR_DEVICE int hr_flush_post(struct hr_nvme_qp *qp, const struct hr_extent *extent,
			    uint32_t buffer_index)
{
	struct hr_sqe sqe;

	if (!hr_qp_room(qp))
		return transfer_no_room(qp);
	hr_sqe_io(&sqe, nvme_cmd_flush, extent->nsid, 0, 1, 0, 0);
	(void)hr_qp_push(qp, hr_lane() == 0, &sqe, HR_TOKEN(buffer_index, 0));
	return 1;
}

HR_DEVICE uint32_t hr_consume_prefetch_pread(struct hr_nvme_qp *qp, struct hr_done *done)
{
	const uint32_t mask = hr_qp_reap(qp, done);

	if (mask)
		return mask;
	if (!hr_qp_expire(qp, hr_clock_ns(), done))
		return 0;
	done->status = HR_STATUS_LOST;
	return 1;
}

/* Collective: ring and wait for `left` commands; *err keeps the worst of what they ended with. */
HR_WORKER void transfer_wait(struct hr_nvme_qp *qp, uint32_t left, int *err)
{
	struct hr_done done = { 0 };
	uint32_t spins = 0;

	hr_qp_ring(qp);
	while (left) {
		const uint32_t mask = hr_consume_prefetch_pread(qp, &done);
		const uint32_t bad = hr_ballot((mask >> hr_lane() & 1) && done.status);

		if (bad) {
			const uint32_t status = hr_shfl_u32(done.status, hr_lowest_bit(bad));

			if (status == HR_STATUS_LOST)
				*err = -ETIMEDOUT;
			else if (!*err)
				*err = (int)status;
		}
		if (!mask && qp->broken) {
			*err = qp->broken;
			return;
		}
		if (mask)
			spins = 0;
		else
			hr_idle(&spins);
		left -= hr_count_bits(mask);
	}
}

HR_WORKER int transfer_run(struct hr_nvme_qp *qp, const struct hr_transfer *t)
{
	const uint32_t count = hr_chunk_count(t->bytes, t->buffer->chunk_bytes);
	int err = transfer_check(t->extent, t->offset, t->bytes, t->buffer);
	uint32_t next = 0;

	while (!err && next < count) {
		const uint32_t room = hr_qp_room(qp);
		const uint32_t end = count - next < room ? count : next + room;

		if (!room)
			return transfer_no_room(qp);
		transfer_push(qp, t, next, end);
		transfer_wait(qp, end - next, &err);
		next = end;
	}
	return err;
}

HR_DEVICE int hr_pread(struct hr_nvme_qp *qp, const struct hr_extent *extent, uint64_t offset,
		       uint32_t bytes, const struct hr_buffer *buffer)
{
	struct hr_transfer t;

	transfer_set(&t, nvme_cmd_read, extent, offset, bytes, buffer, 0, 0);
	return transfer_run(qp, &t);
}

HR_DEVICE int hr_pwrite(struct hr_nvme_qp *qp, const struct hr_extent *extent, uint64_t offset,
			uint32_t bytes, const struct hr_buffer *buffer, uint32_t flags)
{
	struct hr_transfer t;

	transfer_set(&t, nvme_cmd_write, extent, offset, bytes, buffer, 0, flags);
	return transfer_run(qp, &t);
}

HR_DEVICE int hr_flush(struct hr_nvme_qp *qp, const struct hr_extent *extent)
{
	int err = 0, posted = hr_flush_post(qp, extent, 0);

	if (posted < 0)
		return posted;
	transfer_wait(qp, (uint32_t)posted, &err);
	return err;
}
