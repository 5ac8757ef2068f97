/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fast path through a queue, used when no faults are scripted. It executes the commands of a batch
 * one after another, then posts all their completions. It executes the most common reads and
 * writes, within a page, itself. soft_io() fetches and executes every other command. So this path
 * refuses no command, and executes none that soft_io() would refuse.
 */
#include <string.h>

#include "nvme/soft/internal.h"

#define AHEAD 8u		 /* submission queue entries to prefetch */
#define DELAY_BYTES (128u << 10) /* maximum bytes of a batch before its completions */
#define NOWHERE UINT64_MAX	 /* invalid address of a transfer: not a multiple of 4 */

/* Work done since completions were last posted. */
struct batch {
	/* number of commands; of these writes and others */
	uint32_t count, writes, others;
	uint64_t read_bytes, written_bytes;
	/* [count]: DW3 of the completions, without phase; CID in bits 15:0 */
	uint32_t *dw3;
};

/*
 * The commands that one poll of the doorbell finds are in flight together, because the host sends
 * the last one before the first one completes. So no two have the same CID (Base 3.3.3.1).
 */
struct sent {
	uint32_t *seen; /* of the poller: the last poll that found a CID with this index */
	uint32_t look;	/* number of this poll */
	uint32_t dw3[SOFT_BATCH]; /* of all batches of the poll, consecutive */
};

/* State that the commands of a batch are checked against. Only soft_io() changes it during the
 * batch. */
struct view {
	uint32_t opcodes; /* one bit per opcode that the fast path executes */
	uint32_t shift;	  /* log2 of the block size */
	/* last LBA whose whole page exists; soft_io() checks beyond it */
	uint64_t last_lba;
	uint64_t bus, room; /* window: bus address, and last offset of a page */
	uint8_t *cpu;	    /* host address of the window */
	uint8_t *memory;    /* media */
};

static bool is_dead(const struct soft *soft)
{
	return __atomic_load_n(&soft->dead, __ATOMIC_ACQUIRE) != 0;
}

/*
 * The fast path needs an empty cache for reads, and no cache for writes. The cache is checked after
 * the doorbell is read: it then holds all blocks that completed before these commands were sent.
 */
static struct view fast_path_view(const struct soft *soft, const struct soft_sq *sq)
{
	const struct soft_window *w = sq->hint;
	const uint64_t page_blocks = HR_PAGE >> soft->lba_shift;
	struct view v = { .shift = soft->lba_shift, .bus = NOWHERE, .memory = soft->media.memory };

	if (soft_cache_is_bare(&soft->cache, false) && soft->blocks >= page_blocks &&
	    !soft->reservations)
		v.opcodes |= 1u << nvme_cmd_read;
	if (soft_cache_is_bare(&soft->cache, true) && soft->blocks >= page_blocks &&
	    !soft_is_protected(soft) && !soft->options.zoned && !soft->reservations)
		v.opcodes |= 1u << nvme_cmd_write;
	v.last_lba = soft->blocks - page_blocks;
	if (w->bytes >= HR_PAGE) {
		v.bus = w->bus;
		v.room = w->bytes - HR_PAGE;
		v.cpu = w->cpu;
	}
	return v;
}

#define NOT_HERE ((uint32_t)(HR_SQE_PSDT_MASK | 3) << 8 | 0xfc) /* in opcode and flags */
/* load once: the host may change it */
#define ONCE(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/* Opcode, flags and CID. */
static inline uint32_t head_of(const struct hr_sqe *sqe)
{
	return ONCE(*(const soft_word32 *)(const void *)&sqe->opcode);
}

/* False: an earlier command of this poll has the CID, or another CID with the same index. */
static inline bool is_new(uint32_t *seen, uint32_t look, uint32_t cid)
{
	if (seen[cid % SOFT_CIDS] == look)
		return false;
	seen[cid % SOFT_CIDS] = look;
	return true;
}

/*
 * Execute reads and writes within a page that satisfy `v`, from entry `at` on: up to n commands, or
 * up to the first other command. A command whose CID fails is_new() counts as other. Returns the
 * number executed. Each field is loaded once. memory: whether to move data.
 */
static inline __attribute__((always_inline)) uint32_t move_pages(
	struct soft *soft, const struct view *v, const struct hr_sqe *sqe, uint32_t n,
	const struct sent *sent, struct batch *b, const bool memory)
{
	uint32_t *const seen = sent->seen, *dw3 = b->dw3 + b->count, i;
	const uint32_t number = sent->look;
	uint64_t moved[2] = { 0, 0 };

	for (i = 0; i < n && (!memory || moved[0] + moved[1] < DELAY_BYTES); i++, sqe++) {
		const uint32_t head = head_of(sqe), cid = head >> 16;
		const uint64_t prp1 = ONCE(sqe->prp1), at = prp1 - v->bus;
		const uint64_t lba = ONCE(*(const soft_word64 *)(const void *)&sqe->cdw10);
		const uint32_t bytes = ((ONCE(sqe->cdw12) & 0xffff) + 1) << v->shift;

		if (!is_new(seen, number, cid))
			break;
		/* opcodes below 4; no fused operation, no SGL */
		if (head & NOT_HERE || !(v->opcodes >> (head & 3) & 1) || ONCE(sqe->nsid) != 1)
			break;
		if ((prp1 & (HR_PAGE - 1)) + bytes > HR_PAGE || prp1 & 3 || at > v->room ||
		    lba > v->last_lba)
			break;
		__builtin_prefetch(sqe + AHEAD); /* no effect behind the ring */
		if ((head & 3) == nvme_cmd_write) {
			if (is_dead(soft))
				break;
			if (memory)
				soft_memory_write(&soft->media, lba << v->shift, v->cpu + at,
						  bytes);
			moved[1] += bytes;
			b->writes++;
		} else {
			if (memory)
				soft_memory_read(&soft->media, lba << v->shift, v->cpu + at, bytes);
			moved[0] += bytes;
		}
		*dw3++ = cid;
	}
	b->read_bytes += moved[0];
	b->written_bytes += moved[1];
	b->count += i;
	return i;
}

/* True when an earlier command of this poll has the CID. */
static bool is_among(const struct sent *sent, const uint32_t *end, uint32_t cid)
{
	for (const uint32_t *dw3 = sent->dw3; dw3 < end; dw3++)
		if ((*dw3 & 0xffff) == cid)
			return true;
	return false;
}

/* Execute any command, as a batch of its own: it may take long (a file, a flush), and the
 * completions before it are posted by then. */
static void other(struct soft_poller *p, struct soft_sq *sq, const struct sent *sent,
		  struct batch *b)
{
	const struct hr_sqe sqe = soft_fetch(&sq->ring[sq->head]);
	const bool again =
		!is_new(sent->seen, sent->look, sqe.cid) && is_among(sent, b->dw3, sqe.cid);
	const uint16_t field = again ? NVME_SC_CMDID_CONFLICT | SOFT_DNR : soft_io(p, sq, &sqe);

	if (field) {
		soft_add(&p->stats.errors, 1);
		soft_log_error(p->soft, sq->id, &sqe, field);
	}
	b->dw3[b->count++] = (uint32_t)field << 17 | sqe.cid;
	b->others++;
}

static void advance_sq_head(struct soft_sq *sq, uint32_t n)
{
	sq->head += n;
	if (sq->head >= sq->entries)
		sq->head -= sq->entries;
}

/* Execute at least one and up to n commands; the head of the queue advances past them. */
static void execute(struct soft_poller *p, struct soft_sq *sq, uint32_t n, const struct sent *sent,
		    struct batch *b)
{
	const struct view v = fast_path_view(p->soft, sq);
	const uint32_t lap = sq->entries - sq->head;
	const struct hr_sqe *sqe = &sq->ring[sq->head];
	uint32_t done;

	n = n < lap ? n : lap;
	if (p->soft->media.memory)
		done = move_pages(p->soft, &v, sqe, n, sent, b, true);
	else
		done = move_pages(p->soft, &v, sqe, n, sent, b, false);
	advance_sq_head(sq, done);
	if (done == 0 && !is_dead(p->soft)) {
		other(p, sq, sent, b);
		advance_sq_head(sq, 1);
	}
}

/* Counters that other threads read are written once per batch. */
static void count_batch(struct soft_poller *p, const struct batch *b)
{
	soft_add(&p->stats.commands, b->count);
	soft_add(&p->stats.reads, b->count - b->others - b->writes);
	soft_add(&p->stats.read_bytes, b->read_bytes);
	soft_add(&p->stats.writes, b->writes);
	soft_add(&p->stats.written_bytes, b->written_bytes);
}

/* Write n completions into consecutive entries, the last one first. */
static void post_run(struct hr_cqe *cqe, const uint32_t *dw3, uint32_t n, uint32_t sqid,
		     uint32_t sqhd, uint32_t phase)
{
	const uint32_t dw2 = sqid << 16 | sqhd;

	while (n-- > 0) {
		const uint64_t high = dw3[n] | phase << 16;

		cqe[n].dw0 = cqe[n].dw1 = 0;
		__atomic_store_n(&cqe[n].dw23, high << 32 | dw2, __ATOMIC_RELEASE);
	}
}

/* Post all completions. A host that waits for the next completion then finds the whole batch. */
static void post_batch(const struct soft_sq *sq, const struct batch *b)
{
	struct soft_cq *cq = sq->cq;
	const uint32_t left = cq->entries - cq->tail;
	const uint32_t n = b->count < left ? b->count : left;

	post_run(cq->ring, b->dw3 + n, b->count - n, sq->id, sq->head, cq->phase ^ 1);
	post_run(cq->ring + cq->tail, b->dw3, n, sq->id, sq->head, cq->phase);
	cq->tail += b->count;
	if (cq->tail >= cq->entries) {
		cq->tail -= cq->entries;
		cq->phase ^= 1;
	}
}

bool soft_serve_fast(struct soft_poller *p, struct soft_sq *sq)
{
	struct soft *soft = p->soft;
	uint32_t left = soft_ready(soft, sq);
	struct batch b;
	struct sent sent;

	if (!left)
		return false;
	left = left < SOFT_BATCH ? left : SOFT_BATCH;
	sent.seen = p->seen;
	sent.look = ++p->look;
	b.dw3 = sent.dw3;
	for (;;) {
		memset(&b, 0, offsetof(struct batch, dw3));
		execute(p, sq, left, &sent, &b);
		count_batch(p, &b);
		if (is_dead(soft)) /* no completion is posted any more */
			break;
		post_batch(sq, &b);
		left -= b.count;
		if (!left)
			break;
		b.dw3 += b.count;
	}
	return true;
}
