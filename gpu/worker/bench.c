/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each worker owns a queue pair and `depth` buffers. When the command of a buffer has completed,
 * the buffer gets the next command. Lanes work in parallel: each handles one completed command and
 * sends the next one.
 */
#include "gpu/worker/bench.h"

#include <errno.h>

#include "gpu/worker/block_qp.h"
#include "gpu/worker/vector.h"
#include "nvme/queue/single.h"

/* Rounds between two reads of the stop flag. Host memory is slow for a GPU, and reads of one
 * word by all workers are serialized. */
#define BENCH_STOP_ROUNDS (HR_LANES == 1 ? 1u : 64u)

/* Maximum commands per doorbell while more completions wait. A fence of a GPU takes as long as
 * half a round of its lanes, and a doorbell of an emulated device takes longer than its command. */
#define BENCH_BATCH 64u

/* Polls of a round that waits for a completion. With many commands no round waits for long. */
#define BENCH_POLLS 8u

struct bench_worker {
	struct hr_bench *bench;
	struct hr_worker_status *status;
	struct hr_nvme_qp *qp;
	struct hr_buffer *buffer;      /* [depth] */
	struct hr_bench_sent *sent_at; /* [depth] */
	uint8_t *landing;	       /* [depth][io_bytes], or NULL */
	uint64_t *latency;	       /* [HR_BENCH_BUCKETS], of this lane */
	struct hr_bench_cost *cost;    /* or NULL */
	uint64_t all_chunks;	       /* chunks of I/O size in the extent */
	/* share of this worker, and position of the next command in it */
	uint64_t first, chunks, next;
	uint64_t random; /* state of this lane */
	uint64_t sent;
	uint32_t outstanding;
	uint32_t filled; /* buffers that have been used, or will never be */
	uint32_t rounds;
	uint64_t good; /* commands completed without error */
	/* Reads of a page, one at a time: the command at the controller, the prepared one */
	bool single;
	struct hr_single one, next_one;
	uint64_t next_offset; /* of the prepared command in the extent */
	bool failed;
	bool over; /* no more commands are sent */
};

/* xorshift64: fast, and random enough to spread reads. */
HR_WORKER uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/*
 * Offset of the nth of the commands that lanes send now. Sequential workers use a range of
 * their own. Random ones use the whole extent; the upper half of a 128-bit product scales the
 * random number.
 */
HR_WORKER uint64_t bench_offset(struct bench_worker *w, uint32_t nth)
{
	uint64_t chunk = w->next + nth;

	if (w->bench->pattern == HR_BENCH_RANDOM)
		chunk = (uint64_t)((unsigned __int128)bench_random(&w->random) * w->all_chunks >>
				   64);
	else
		chunk = w->first + (chunk < w->chunks ? chunk : chunk % w->chunks);
	return chunk * w->bench->io_bytes;
}

HR_WORKER void bench_worker_set(struct bench_worker *w, struct hr_bench *b, uint32_t block)
{
	const uint32_t index = block * b->workers + hr_warp();
	const uint64_t first_buffer = (uint64_t)index * b->depth;

	w->bench = b;
	w->status = &b->status[index];
	w->qp = hr_block_qp_begin(&b->qp[index], 1, b->workers, hr_block_copy_bytes(sizeof(*b), 0));
	w->buffer = b->buffer + first_buffer;
	w->sent_at = b->sent + first_buffer;
	w->landing = b->landing ? b->landing + first_buffer * b->io_bytes : NULL;
	w->latency = b->latency + ((uint64_t)index * HR_LANES + hr_lane()) * HR_BENCH_BUCKETS;
	w->cost = b->cost ? &b->cost[index] : NULL;
	w->all_chunks = b->extent.bytes / b->io_bytes;
	w->chunks = w->all_chunks / (b->blocks * b->workers);
	w->chunks += w->chunks == 0; /* never 0: the extent has a chunk for every worker */
	w->first = w->chunks * index;
	w->next = 0;
	w->random = (b->seed + (uint64_t)index * HR_LANES + hr_lane() + 1) * 0x9e3779b97f4a7c15u;
	w->sent = 0;
	w->outstanding = 0;
	w->filled = 0;
	w->rounds = 0;
	w->good = 0;
	w->failed = false;
	w->over = false;
}

/* True when the worker reads single pages, one at a time. */
HR_WORKER bool bench_is_single(const struct bench_worker *w)
{
	const struct hr_bench *b = w->bench;

	return b->depth == 1 && !b->write && b->io_bytes == HR_PAGE && w->qp->entries > 2;
}

/* The bits below the highest bit select the bucket of a power of two. */
HR_WORKER uint32_t bench_bucket(uint64_t ns)
{
	uint32_t shift, bucket;

	if (ns < HR_BENCH_STEPS)
		return (uint32_t)ns;
	shift = hr_highest_bit_u64(ns) - HR_BENCH_STEP_SHIFT;
	bucket = (shift << HR_BENCH_STEP_SHIFT) + (uint32_t)(ns >> shift);
	return bucket < HR_BENCH_BUCKETS ? bucket : HR_BENCH_BUCKETS - 1;
}

/* One lane. offset: start of the failed command in the extent. */
HR_WORKER void bench_fail(struct bench_worker *w, int error, uint16_t cid, uint64_t offset)
{
	const struct hr_extent *extent = &w->bench->extent;
	struct hr_failure *failure = &w->status->failure;

	if (w->status->failed)
		return;
	failure->error = error;
	failure->role = w->bench->write ? HR_ROLE_WRITEBACK : HR_ROLE_PREFETCH;
	failure->object = extent->id;
	failure->lba = extent->lba + (offset >> extent->lba_shift);
	failure->qid = w->qp->id;
	failure->cid = cid;
	failure->opcode = w->bench->write ? nvme_cmd_write : nvme_cmd_read;
	hr_release_sys_u32(&w->status->failed, 1);
	hr_release_sys_u32(w->bench->stop, 1);
}

/* Collective: the lowest of the `failing` lanes records its failure. */
HR_WORKER void bench_fail_lowest(struct bench_worker *w, hr_mask failing, int error, uint16_t cid,
				 uint64_t offset)
{
	if (!failing)
		return;
	hr_lanes_sync();
	if (hr_lane() == hr_lowest_bit(failing))
		bench_fail(w, error, cid, offset);
	w->failed = true;
	hr_lanes_sync();
}

/* The two ends of the copy: buffer i in host memory, and the address for its copy in GPU memory. */
HR_WORKER void bench_ends(const struct bench_worker *w, uint32_t i, uint32_t part, uint8_t **to,
			  const uint8_t **from)
{
	uint8_t *const data = w->buffer[i].data + part;
	uint8_t *const there = w->landing + (uint64_t)i * w->bench->io_bytes + part;

	*to = w->bench->write ? data : there;
	*from = w->bench->write ? there : data;
}

/*
 * Collective: for each of `lanes`, copy its buffer to GPU memory, or the opposite direction for
 * writes. Two buffers at a time; a single one as two halves.
 */
HR_WORKER void bench_move(const struct bench_worker *w, hr_mask lanes, uint32_t mine)
{
	const uint32_t bytes = w->bench->io_bytes;
	const uint8_t *from[2];
	uint8_t *to[2];

	hr_lanes_sync();
	if (w->single) {
		struct hr_stream stream;

		hr_stream_begin(&stream);
		if (lanes)
			hr_stream_copy(&stream, w->landing, w->buffer->data, HR_PAGE);
		hr_stream_end(&stream);
		hr_lanes_sync();
		return;
	}
	while (lanes) {
		const uint32_t i = hr_shfl_u32(mine, hr_lowest_bit(lanes));
		const hr_mask rest = lanes & (lanes - 1);
		const uint32_t j = rest ? hr_shfl_u32(mine, hr_lowest_bit(rest)) : i;

		bench_ends(w, i, 0, &to[0], &from[0]);
		bench_ends(w, j, rest ? 0 : bytes / 2, &to[1], &from[1]);
		hr_copy_two(to, from, rest ? bytes : bytes / 2);
		lanes = rest & (rest - 1);
	}
	hr_lanes_sync();
}

/* The lanes among `wants` that may still send: all, or up to max_commands. */
HR_WORKER hr_mask bench_allowed(const struct bench_worker *w, hr_mask wants)
{
	const uint64_t most = w->bench->max_commands;

	while (most && wants && w->sent + hr_count_bits(wants) > most)
		wants &= ~((hr_mask)1 << hr_highest_bit_u64(wants));
	return wants;
}

/* Collective: write the entry of the next single read to the ring. It is not sent. */
HR_WORKER void bench_prepare(struct bench_worker *w)
{
	const struct hr_extent *extent = &w->bench->extent;
	const struct hr_prp *prp = &w->buffer->chunk[0];
	const uint64_t offset = hr_shfl_u64(bench_offset(w, 0), 0);
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, nvme_cmd_read, extent->nsid, extent->lba + (offset >> extent->lba_shift),
		  HR_PAGE >> extent->lba_shift, prp->first, hr_prp2(prp, HR_PAGE));
	w->next_one = hr_single_next(w->qp);
	w->next_offset = offset;
	hr_single_write_sqe(&w->next_one, &sqe);
}

/* Collective: with `want` in lane 0, send the prepared read, and prepare another while the controller
 * reads. */
HR_WORKER void bench_send_single(struct bench_worker *w, bool want, uint64_t now)
{
	if (!bench_allowed(w, hr_ballot(want)) || w->qp->error)
		return;
	if (!w->sent)
		bench_prepare(w);
	w->one = w->next_one;
	hr_single_release_cqe();
	hr_single_submit(w->qp, &w->one);
	hr_single_track(w->qp, &w->one, HR_TOKEN(0, 0));
	if (hr_lane() == 0) {
		w->sent_at->ns = now;
		w->sent_at->offset = w->next_offset;
	}
	w->outstanding = 1;
	w->sent++;
	w->next = w->next + 1 < w->chunks ? w->next + 1 : 0;
	bench_prepare(w);
	hr_lanes_sync();
}

/* Collective: each lane with `want` sends the next command, through buffer i. */
HR_WORKER void bench_send(struct bench_worker *w, bool want, uint32_t i, uint64_t now)
{
	const struct hr_bench *b = w->bench;
	const hr_mask wants = bench_allowed(w, hr_ballot(want));
	const uint32_t nth = hr_lanes_before(wants);
	const bool mine = hr_in_mask(wants);
	const uint64_t offset = mine ? bench_offset(w, nth) : 0;
	uint32_t count;
	int posted;

	if (b->write && w->landing)
		bench_move(w, wants, i);
	posted = b->write ? hr_io_write_each(w->qp, mine, &b->extent, offset, b->io_bytes,
					     &w->buffer[i], i, 0)
			  : hr_io_read_each(w->qp, mine, &b->extent, offset, b->io_bytes,
					    &w->buffer[i], i);
	if (posted > 0) {
		w->sent_at[i].ns = now;
		w->sent_at[i].offset = offset;
	}
	count = hr_count_bits(hr_ballot(posted > 0));
	w->outstanding += count;
	w->sent += count;
	for (w->next += count; w->next >= w->chunks;)
		w->next -= w->chunks;
	bench_fail_lowest(w, hr_ballot(posted < 0), posted, 0, offset);
}

/* Collective: check for the end of the time, and for the stop flag. */
HR_WORKER void bench_look_up(struct bench_worker *w, uint64_t end_ns, uint64_t now)
{
	if (now >= end_ns || w->failed)
		w->over = true;
	else if (w->rounds++ % BENCH_STOP_ROUNDS == 0)
		w->over |= hr_shfl_u32(hr_poll_sys_u32(w->bench->stop), 0) != 0;
}

/* Count the commands of lanes `good`, and their latency. */
HR_WORKER void bench_count(struct bench_worker *w, hr_mask good, uint32_t i, uint64_t now)
{
	if (hr_in_mask(good))
		hr_count_up_u64(&w->latency[bench_bucket(now - w->sent_at[i].ns)]);
	w->good += hr_count_bits(good);
}

/* Completed commands, one per lane; at the start, unused buffers. */
struct bench_back {
	struct hr_completion done;
	hr_mask lanes; /* lanes with a completed command or an unused buffer */
	hr_mask fresh; /* of these, lanes with an unused buffer */
};

/* Collective: true when the single read has completed with status 0. */
HR_WORKER bool bench_take_single(struct bench_worker *w)
{
	const struct hr_qp_wait wait = { BENCH_POLLS, NULL, 0, 0 };

	if (!w->single || !w->outstanding || !hr_single_wait(w->qp, &w->one, &wait))
		return false;
	hr_single_end(w->qp, &w->one);
	return true;
}

HR_WORKER void bench_read_completed(struct bench_worker *w, struct bench_back *back)
{
	const uint32_t first = w->filled, depth = w->bench->depth;
	const bool waits = depth < HR_LANES && !w->single;
	const struct hr_qp_wait wait = { waits ? BENCH_POLLS : 1, NULL, 0, 0 };

	back->done.token = HR_TOKEN(w->single ? 0 : first + hr_lane(), 0);
	back->done.status = 0;
	back->done.cid = 0;
	back->fresh = 0;
	if (first < depth) {
		back->fresh = back->lanes = hr_ballot(first + hr_lane() < depth);
		w->filled += HR_LANES;
	} else if (bench_take_single(w)) {
		back->lanes = 1;
		w->outstanding = 0;
	} else {
		back->lanes = hr_io_reap_or(w->qp, &wait, &back->done);
		w->outstanding -= hr_count_bits(back->lanes);
	}
}

/* Collective: publish the pushed commands. */
HR_WORKER void bench_ring(struct bench_worker *w)
{
	const uint64_t began = w->cost ? hr_cycles() : 0;

	hr_qp_publish(w->qp);
	if (w->cost && hr_lane() == 0)
		w->cost->send_cycles += hr_cycles() - began;
}

HR_STATIC_ASSERT(sizeof(struct hr_bench) % sizeof(uint64_t) == 0, "moved by words");

/* Process the completed commands, and send the next ones through the same buffers. */
HR_WORKER void bench_turn(struct bench_worker *w, const struct bench_back *back, uint64_t end_ns)
{
	const bool mine = hr_in_mask(back->lanes);
	const uint32_t i = mine ? HR_TOKEN_BUFFER(back->done.token) : 0;
	const hr_mask bad = hr_ballot(mine && back->done.status), good = back->lanes & ~bad;
	const uint16_t status = back->done.status;
	uint64_t moved, now;

	if (w->landing && !w->bench->write)
		bench_move(w, good & ~back->fresh, i);
	moved = w->cost ? hr_cycles() : 0;
	now = hr_shfl_u64(hr_clock_ns(), 0);
	bench_count(w, good & ~back->fresh, i, now);
	bench_fail_lowest(w, bad, status == HR_STATUS_LOST ? -ETIMEDOUT : status, back->done.cid,
			  w->sent_at[i].offset);
	bench_look_up(w, end_ns, now);
	if (w->single)
		bench_send_single(w, hr_in_mask(good) && (!w->over || back->fresh), now);
	else
		bench_send(w, hr_in_mask(good) && (!w->over || back->fresh), i, now);
	if (w->cost && !back->fresh && hr_lane() == 0) {
		w->cost->send_cycles += hr_cycles() - moved;
		w->cost->rounds++;
		w->cost->commands += hr_count_bits(back->lanes);
	}
}

/* True when a command had completed. */
HR_WORKER bool bench_round(struct bench_worker *w, uint64_t end_ns)
{
	const uint64_t began = w->cost ? hr_cycles() : 0;
	struct bench_back back;

	bench_read_completed(w, &back);
	if (back.lanes && w->cost && !back.fresh && hr_lane() == 0)
		w->cost->reap_cycles += hr_cycles() - began;
	if (back.lanes)
		bench_turn(w, &back, end_ns);
	if (w->single)
		return back.lanes != 0;
	if (hr_count_bits(back.lanes) < HR_LANES || w->qp->unpublished >= BENCH_BATCH)
		bench_ring(w);
	return back.lanes != 0;
}

/* Until no command is outstanding. single: a constant of the caller, so that neither way takes
 * registers of the other. */
HR_WORKER void bench_rounds(struct bench_worker *w, uint64_t end_ns, bool single)
{
	uint32_t spins = 0;

	w->single = single;
	do {
		if (bench_round(w, end_ns))
			spins = 0;
		else
			hr_idle(&spins);
	} while (w->outstanding && !w->qp->error);
}

HR_DEVICE void hr_bench_block(struct hr_bench *bench, uint32_t block)
{
	const uint64_t end = hr_shfl_u64(hr_clock_ns(), 0) + bench->duration_ns;
	struct bench_worker w;

	bench = (struct hr_bench *)hr_block_copy(bench, sizeof(*bench), 0);
	bench_worker_set(&w, bench, block);
	if (hr_lane() == 0)
		hr_relaxed_sys_u64(&w.status->heartbeat, 1);
	if (bench_is_single(&w))
		bench_rounds(&w, end, true);
	else
		bench_rounds(&w, end, false);
	if (w.qp->error && hr_lane() == 0)
		bench_fail(&w, w.qp->error, 0, 0);
	hr_block_qp_end(&bench->qp[block * bench->workers + hr_warp()], w.qp, 1);
	hr_lanes_sync();
	if (hr_lane() == 0) {
		w.status->tiles = w.good;
		w.status->bytes = w.good * bench->io_bytes;
		hr_release_sys_u32(&w.status->ended, 1);
	}
}
