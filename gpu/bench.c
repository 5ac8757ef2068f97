/*
 * Each worker owns a queue pair and `depth` buffers; a buffer whose command is back gets the next.
 */
#include "gpu/bench.h"

#include <errno.h>

#include "nvme/queue.h"

struct bench_worker {
	struct hr_bench *bench;
	struct hr_worker_status *status;
	struct hr_qp *qp;
	struct hr_buffer *buffer;      /* [depth] */
	struct hr_bench_sent *sent_at; /* [depth] */
	uint64_t *latency;	       /* [HR_BENCH_BUCKETS] */
	uint64_t first, places;	       /* of I/O size, this worker's share of the extent */
	uint64_t next, random;
	uint64_t sent;
	uint32_t outstanding;
};

/* xorshift64: cheap, and good enough to spread reads. */
HR_WORKER uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Sequential workers have a stretch of their own; random ones the whole extent. */
HR_WORKER uint64_t bench_offset(struct bench_worker *w)
{
	const struct hr_bench *b = w->bench;
	uint64_t place;

	if (b->pattern == HR_BENCH_RANDOM) {
		place = bench_random(&w->random) % (b->extent.bytes / b->io_bytes);
	} else {
		place = w->first + w->next;
		w->next = w->next + 1 == w->places ? 0 : w->next + 1;
	}
	return place * b->io_bytes;
}

HR_WORKER void bench_worker_set(struct bench_worker *w, struct hr_bench *b, uint32_t block)
{
	const uint32_t index = block * b->workers + hr_warp();

	w->bench = b;
	w->status = &b->status[index];
	w->qp = &b->qp[index];
	w->buffer = b->buffer + (uint64_t)index * b->depth;
	w->sent_at = b->sent + (uint64_t)index * b->depth;
	w->latency = b->latency + (uint64_t)index * HR_BENCH_BUCKETS;
	w->places = b->extent.bytes / b->io_bytes / (b->blocks * b->workers);
	w->first = w->places * index;
	w->next = 0;
	w->random = (b->seed + index + 1) * 0x9e3779b97f4a7c15u;
	w->sent = 0;
	w->outstanding = 0;
}

/* Four buckets to each doubling: the two bits below the highest one say which. */
HR_WORKER uint32_t bench_bucket(uint64_t ns)
{
	uint32_t log = 0, bucket;

	while (log < 63 && ns >> (log + 1))
		log++;
	bucket = 4 * log + (log >= 2 ? (uint32_t)(ns >> (log - 2)) & 3 : 0);
	return bucket < HR_BENCH_BUCKETS ? bucket : HR_BENCH_BUCKETS - 1;
}

/* offset: where in the extent the command that failed begins. */
HR_WORKER void bench_fail(struct bench_worker *w, int error, uint16_t cid, uint64_t offset)
{
	const struct hr_extent *extent = &w->bench->extent;
	struct hr_failure *failure = &w->status->failure;

	if (hr_lane() == 0 && !w->status->failed) {
		failure->error = error;
		failure->role = w->bench->write ? HR_ROLE_WRITEBACK : HR_ROLE_PREFETCH;
		failure->object = extent->id;
		failure->lba = extent->lba + (offset >> extent->lba_shift);
		failure->qid = w->qp->id;
		failure->cid = cid;
		failure->opcode = w->bench->write ? nvme_cmd_write : nvme_cmd_read;
		hr_store_release_sys_u32(&w->status->failed, 1);
		hr_store_release_sys_u32(w->bench->stop, 1);
	}
	hr_lanes_sync();
}

/* All that this worker may send is sent. */
HR_WORKER bool bench_enough(const struct bench_worker *w)
{
	return w->bench->max_commands && w->sent >= w->bench->max_commands;
}

/* Send the next command through buffer i. False: it cannot be sent. Collective. */
HR_WORKER bool bench_send(struct bench_worker *w, uint32_t i, uint64_t now)
{
	const struct hr_bench *b = w->bench;
	const uint64_t offset = bench_offset(w);
	const int posted = b->write ? hr_pwrite_post(w->qp, &b->extent, offset, b->io_bytes,
						     &w->buffer[i], i, 0)
				    : hr_pread_prefetch(w->qp, &b->extent, offset, b->io_bytes,
							&w->buffer[i], i);

	if (posted < 0) {
		bench_fail(w, posted, 0, offset);
		return false;
	}
	if (hr_lane() == 0) {
		w->sent_at[i].ns = now;
		w->sent_at[i].offset = offset;
	}
	hr_lanes_sync();
	w->outstanding += (uint32_t)posted;
	w->sent++;
	return true;
}

HR_WORKER bool bench_over(const struct bench_worker *w, uint64_t end_ns, uint64_t now)
{
	const struct hr_bench *b = w->bench;

	return now >= end_ns || hr_shfl_u32(hr_load_acquire_sys_u32(b->stop), 0) != 0;
}

/* One lane's completion: count its latency, and use its buffer again unless it is over. */
HR_WORKER void bench_done(struct bench_worker *w, uint32_t token, uint16_t cid, uint16_t status,
			  uint64_t now, bool over)
{
	const uint32_t i = HR_TOKEN_BUFFER(token);

	w->outstanding--;
	if (status) {
		bench_fail(w, status == HR_STATUS_LOST ? -ETIMEDOUT : status, cid,
			   w->sent_at[i].offset);
		return;
	}
	if (hr_lane() == 0) {
		w->latency[bench_bucket(now - w->sent_at[i].ns)]++;
		w->status->tiles++;
		w->status->bytes += w->bench->io_bytes;
	}
	if (!over && !bench_enough(w))
		bench_send(w, i, now);
}

/* Take what is back. True when something is. */
HR_WORKER bool bench_reap(struct bench_worker *w, uint64_t end_ns)
{
	struct hr_done mine;
	uint32_t mask = hr_consume_prefetch_pread(w->qp, &mine);
	const bool any = mask != 0;
	const uint64_t now = any ? hr_shfl_u64(hr_clock_ns(), 0) : 0;
	const bool over = any && bench_over(w, end_ns, now);

	for (; mask; mask &= mask - 1) {
		const uint32_t lane = hr_lowest_bit(mask);

		bench_done(w, hr_shfl_u32(mine.token, lane), (uint16_t)hr_shfl_u32(mine.cid, lane),
			   (uint16_t)hr_shfl_u32(mine.status, lane), now, over);
	}
	return any;
}

HR_WORKER void bench_fill(struct bench_worker *w, uint64_t now)
{
	uint32_t i;

	for (i = 0; i < w->bench->depth && !bench_enough(w); i++)
		if (!bench_send(w, i, now))
			return;
}

HR_DEVICE void hr_bench_block(struct hr_bench *bench, uint32_t block)
{
	const uint64_t start = hr_shfl_u64(hr_clock_ns(), 0), end = start + bench->duration_ns;
	struct bench_worker w;
	uint32_t spins = 0;

	bench_worker_set(&w, bench, block);
	bench_fill(&w, start);
	hr_qp_ring(w.qp);
	while (w.outstanding && !w.qp->broken) {
		if (bench_reap(&w, end)) {
			spins = 0;
			hr_qp_ring(w.qp);
		} else {
			hr_idle(&spins);
		}
	}
	if (w.qp->broken)
		bench_fail(&w, w.qp->broken, 0, 0);
	hr_lanes_sync();
	if (hr_lane() == 0)
		hr_store_release_sys_u32(&w.status->done, 1);
}
