/*
 * Each worker owns a queue pair and `depth` buffers; a buffer whose command is back gets the next.
 * Lanes work side by side: each has a command that came back, and sends the next one.
 */
#include "gpu/worker/bench.h"

#include <errno.h>

#include "gpu/worker/block_qp.h"
#include "gpu/worker/vector.h"
#include "nvme/queue.h"

/* Host memory is far from a GPU, and one word of it that all workers read is read by one at a time:
 * rounds between two looks at the stop flag. */
#define BENCH_STOP_ROUNDS (HR_LANES == 1 ? 1u : 64u)

/* Commands that are told of together as long as there is more to reap: a fence of a GPU takes as long
 * as half a round of its lanes, a doorbell of an emulated device longer than its command. */
#define BENCH_BATCH 64u

struct bench_worker {
	struct hr_bench *bench;
	struct hr_worker_status *status;
	struct hr_nvme_qp *qp;
	struct hr_buffer *buffer;      /* [depth] */
	struct hr_bench_sent *sent_at; /* [depth] */
	uint8_t *landing;	       /* [depth][io_bytes], or NULL */
	uint64_t *latency;	       /* [HR_BENCH_BUCKETS], this lane's own */
	struct hr_bench_cost *cost;    /* or NULL */
	uint64_t all_places;	       /* of I/O size, in the extent */
	uint64_t first, places, next;  /* this worker's share, and where in it the next one goes */
	uint64_t random;	       /* this lane's own */
	uint64_t sent;
	uint32_t outstanding;
	uint32_t filled; /* buffers that have been used, or will not be */
	uint32_t rounds;
	uint64_t good; /* commands that came back well */
	bool failed;
	bool over; /* nothing is sent any more */
};

/* xorshift64: cheap, and good enough to spread reads. */
HR_WORKER uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/*
 * Where the rank-th of the commands that lanes send now goes. Sequential workers have a stretch of
 * their own; random ones the whole extent, divided by a multiplication: the upper half of 128 bits.
 */
HR_WORKER uint64_t bench_offset(struct bench_worker *w, uint32_t rank)
{
	uint64_t place = w->next + rank;

	if (w->bench->pattern == HR_BENCH_RANDOM)
		place = (uint64_t)((unsigned __int128)bench_random(&w->random) * w->all_places >>
				   64);
	else
		place = w->first + (place < w->places ? place : place % w->places);
	return place * w->bench->io_bytes;
}

HR_WORKER void bench_worker_set(struct bench_worker *w, struct hr_bench *b, uint32_t block)
{
	const uint32_t index = block * b->workers + hr_warp();
	const uint64_t first_buffer = (uint64_t)index * b->depth;

	w->bench = b;
	w->status = &b->status[index];
	w->qp = hr_block_qp_begin(&b->qp[index], 1, b->workers);
	w->buffer = b->buffer + first_buffer;
	w->sent_at = b->sent + first_buffer;
	w->landing = b->landing ? b->landing + first_buffer * b->io_bytes : NULL;
	w->latency = b->latency + ((uint64_t)index * HR_LANES + hr_lane()) * HR_BENCH_BUCKETS;
	w->cost = b->cost ? &b->cost[index] : NULL;
	w->all_places = b->extent.bytes / b->io_bytes;
	w->places = w->all_places / (b->blocks * b->workers);
	w->places += w->places == 0; /* it never is: the object has one for every worker at least */
	w->first = w->places * index;
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

/* Four buckets to each doubling: the two bits below the highest one say which. */
HR_WORKER uint32_t bench_bucket(uint64_t ns)
{
	const uint32_t log = ns ? hr_highest_bit_u64(ns) : 0;
	const uint32_t bucket = 4 * log + (log >= 2 ? (uint32_t)(ns >> (log - 2)) & 3 : 0);

	return bucket < HR_BENCH_BUCKETS ? bucket : HR_BENCH_BUCKETS - 1;
}

/* One lane. offset: where in the extent the command that failed begins. */
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

/* Collective: the lowest of `failing` lanes says what went wrong. */
HR_WORKER void bench_fail_lowest(struct bench_worker *w, uint32_t failing, int error, uint16_t cid,
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

/* Where buffer i lies in host memory, and its place in GPU memory: the copy's two ends. */
HR_WORKER void bench_ends(const struct bench_worker *w, uint32_t i, uint32_t part, uint8_t **to,
			  const uint8_t **from)
{
	uint8_t *const data = w->buffer[i].data + part;
	uint8_t *const there = w->landing + (uint64_t)i * w->bench->io_bytes + part;

	*to = w->bench->write ? data : there;
	*from = w->bench->write ? there : data;
}

/*
 * Collective: for each of `lanes`, its buffer to GPU memory, or from there when it is written. Two
 * at a time; a single one as two halves.
 */
HR_WORKER void bench_move(const struct bench_worker *w, uint32_t lanes, uint32_t mine)
{
	const uint32_t bytes = w->bench->io_bytes;
	const uint8_t *from[2];
	uint8_t *to[2];

	hr_lanes_sync();
	while (lanes) {
		const uint32_t i = hr_shfl_u32(mine, hr_lowest_bit(lanes));
		const uint32_t rest = lanes & (lanes - 1);
		const uint32_t j = rest ? hr_shfl_u32(mine, hr_lowest_bit(rest)) : i;

		bench_ends(w, i, 0, &to[0], &from[0]);
		bench_ends(w, j, rest ? 0 : bytes / 2, &to[1], &from[1]);
		hr_copy_two(to, from, rest ? bytes : bytes / 2);
		lanes = rest & (rest - 1);
	}
	hr_lanes_sync();
}

/* The lanes among `wants` that may still send: all, or as many as max_commands leaves. */
HR_WORKER uint32_t bench_allowed(const struct bench_worker *w, uint32_t wants)
{
	const uint64_t most = w->bench->max_commands;

	while (most && wants && w->sent + hr_count_bits(wants) > most)
		wants &= ~((uint32_t)1 << hr_highest_bit_u64(wants));
	return wants;
}

/* Collective: each lane that wants sends the next command, through buffer i. */
HR_WORKER void bench_send(struct bench_worker *w, bool want, uint32_t i, uint64_t now)
{
	const struct hr_bench *b = w->bench;
	const uint32_t wants = bench_allowed(w, hr_ballot(want));
	const uint32_t rank = hr_count_bits(wants & (((uint32_t)1 << hr_lane()) - 1));
	const bool mine = wants >> hr_lane() & 1;
	const uint64_t offset = mine ? bench_offset(w, rank) : 0;
	uint32_t count;
	int posted;

	if (b->write && w->landing)
		bench_move(w, wants, i);
	posted = b->write ? hr_pwrite_each(w->qp, mine, &b->extent, offset, b->io_bytes,
					   &w->buffer[i], i, 0)
			  : hr_pread_each(w->qp, mine, &b->extent, offset, b->io_bytes,
					  &w->buffer[i], i);
	if (posted > 0) {
		w->sent_at[i].ns = now;
		w->sent_at[i].offset = offset;
	}
	count = hr_count_bits(hr_ballot(posted > 0));
	w->outstanding += count;
	w->sent += count;
	for (w->next += count; w->next >= w->places;)
		w->next -= w->places;
	bench_fail_lowest(w, hr_ballot(posted < 0), posted, 0, offset);
}

/* Collective. */
HR_WORKER void bench_look_up(struct bench_worker *w, uint64_t end_ns, uint64_t now)
{
	if (now >= end_ns || w->failed)
		w->over = true;
	else if (w->rounds++ % BENCH_STOP_ROUNDS == 0)
		w->over |= hr_shfl_u32(hr_acquire_sys_u32(w->bench->stop), 0) != 0;
}

/* Count what came back well, in lanes `good`, and how long it took. */
HR_WORKER void bench_count(struct bench_worker *w, uint32_t good, uint32_t i, uint64_t now)
{
	if (good >> hr_lane() & 1)
		hr_count_up_u64(&w->latency[bench_bucket(now - w->sent_at[i].ns)]);
	w->good += hr_count_bits(good);
}

/* What is back, in this lane; at the start, buffers that have not been used yet. */
struct bench_back {
	struct hr_done done;
	uint32_t lanes; /* those that have something */
	uint32_t fresh; /* of these, buffers for a first command */
};

HR_WORKER void bench_take(struct bench_worker *w, struct bench_back *back)
{
	const uint32_t first = w->filled, depth = w->bench->depth;

	back->done.token = HR_TOKEN(first + hr_lane(), 0);
	back->done.status = 0;
	back->done.cid = 0;
	back->fresh = 0;
	if (first < depth) {
		back->fresh = back->lanes = hr_ballot(first + hr_lane() < depth);
		w->filled += HR_LANES;
	} else {
		back->lanes = hr_consume_prefetch_pread(w->qp, &back->done);
		w->outstanding -= hr_count_bits(back->lanes);
	}
}

/* Collective: tell the controller of what was pushed. */
HR_WORKER void bench_ring(struct bench_worker *w)
{
	const uint64_t began = w->cost ? hr_cycles() : 0;

	hr_qp_ring(w->qp);
	if (w->cost && hr_lane() == 0)
		w->cost->send_cycles += hr_cycles() - began;
}

/* Use what is back, and send the next through the same buffers. */
HR_WORKER void bench_turn(struct bench_worker *w, const struct bench_back *back, uint64_t end_ns)
{
	const bool mine = back->lanes >> hr_lane() & 1;
	const uint32_t i = mine ? HR_TOKEN_BUFFER(back->done.token) : 0;
	const uint32_t bad = hr_ballot(mine && back->done.status), good = back->lanes & ~bad;
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
	bench_send(w, (good >> hr_lane() & 1) && (!w->over || back->fresh), i, now);
	if (w->cost && !back->fresh && hr_lane() == 0) {
		w->cost->send_cycles += hr_cycles() - moved;
		w->cost->rounds++;
		w->cost->commands += hr_count_bits(back->lanes);
	}
}

/* True when something was back. */
HR_WORKER bool bench_round(struct bench_worker *w, uint64_t end_ns)
{
	const uint64_t began = w->cost ? hr_cycles() : 0;
	struct bench_back back;

	bench_take(w, &back);
	if (back.lanes && w->cost && !back.fresh && hr_lane() == 0)
		w->cost->reap_cycles += hr_cycles() - began;
	if (back.lanes)
		bench_turn(w, &back, end_ns);
	if (hr_count_bits(back.lanes) < HR_LANES || w->qp->pushed >= BENCH_BATCH)
		bench_ring(w);
	return back.lanes != 0;
}

HR_DEVICE void hr_bench_block(struct hr_bench *bench, uint32_t block)
{
	const uint64_t end = hr_shfl_u64(hr_clock_ns(), 0) + bench->duration_ns;
	struct bench_worker w;
	uint32_t spins = 0;

	bench_worker_set(&w, bench, block);
	do {
		if (bench_round(&w, end))
			spins = 0;
		else
			hr_idle(&spins);
	} while (w.outstanding && !w.qp->broken);
	if (w.qp->broken && hr_lane() == 0)
		bench_fail(&w, w.qp->broken, 0, 0);
	hr_block_qp_end(&bench->qp[block * bench->workers + hr_warp()], w.qp, 1);
	hr_lanes_sync();
	if (hr_lane() == 0) {
		w.status->tiles = w.good;
		w.status->bytes = w.good * bench->io_bytes;
		hr_release_sys_u32(&w.status->done, 1);
	}
}
