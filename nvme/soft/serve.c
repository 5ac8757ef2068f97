/*
 * The straight way through a queue, taken when no faults are scripted: the commands of a batch are
 * executed one after another, then all their completions are posted. Reads and writes within a page
 * are done here when they are what they nearly always are; everything else is soft_io()'s, which
 * fetches the command itself. So nothing is refused here, and nothing done that soft_io() would
 * refuse.
 */
#include <string.h>

#include "nvme/soft/internal.h"

#define AHEAD 8u		 /* submission queue entries that are fetched early */
#define DELAY_BYTES (128u << 10) /* moved by a batch, at most, before its completions are posted */
#define NOWHERE UINT64_MAX	 /* no address for a transfer: not a multiple of 4 */
#define NONE UINT32_MAX		 /* no CID: below all of them, as a signed number */

/* What has been done since completions were last posted. */
struct batch {
	uint32_t count, writes, others; /* commands; of these */
	uint64_t read_bytes, written_bytes;
	/* [count]: of the completions, without phase; CID in bits 15:0. dw3[-1]: the largest CID before
	 * these, -1 if there is none. */
	uint32_t *dw3;
};

/*
 * Commands that one look at the doorbell has found are in flight together for the host, which has
 * sent the last before the completion of the first: no two have the same CID (Base 3.3.3.1). Here
 * are the dw3 of all their batches, one behind the other, each behind the largest CID so far.
 */
struct sent {
	uint32_t dw3[2 * SOFT_BATCH + 1];
};

/* What the commands of a batch are held against. Nothing of it changes while they are executed but
 * by soft_io(). */
struct view {
	uint32_t opcodes;   /* bit per opcode that is done here */
	uint32_t shift;	    /* of an LBA */
	uint64_t last_lba;  /* a page from there on is there; beyond, soft_io() looks closer */
	uint64_t bus, room; /* window: address, and last offset of a page */
	uint8_t *cpu;	    /* what is there */
	uint8_t *memory;    /* media */
};

static bool is_dead(const struct soft *soft)
{
	return __atomic_load_n(&soft->dead, __ATOMIC_ACQUIRE) != 0;
}

/*
 * Reads need an empty cache, writes that there is none. It is looked at after the doorbell: what
 * completed before these commands were sent is in it by then.
 */
static struct view look(const struct soft *soft, const struct soft_sq *sq)
{
	const struct soft_window *w = sq->near;
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
#define ONCE(field) __atomic_load_n(&(field), __ATOMIC_RELAXED) /* the host may change it */

/* Opcode, flags and CID. */
static inline uint32_t head_of(const struct hr_sqe *sqe)
{
	return ONCE(*(const soft_word32 *)(const void *)&sqe->opcode);
}

/*
 * Reads and writes within a page, all of it where `v` says that it may be, from slot `at` on: up to
 * n of them, or to the first command that is something else. Drivers count CIDs up, nearly always:
 * one that is not larger than the last is something else. Returns how many. Each field is loaded
 * once. bytes: of one block; memory: whether there are data to move.
 */
static inline __attribute__((always_inline)) uint32_t
move_pages(struct soft *soft, const struct view *v, const struct hr_sqe *slot, uint32_t n,
	   struct batch *b, const bool memory)
{
	uint32_t *dw3 = b->dw3 + b->count, i;
	uint64_t moved[2] = { 0, 0 };

	for (i = 0; i < n && (!memory || moved[0] + moved[1] < DELAY_BYTES); i++, slot++) {
		const uint32_t head = head_of(slot), cid = head >> 16;
		const uint64_t prp1 = ONCE(slot->prp1), at = prp1 - v->bus;
		const uint64_t lba = ONCE(*(const soft_word64 *)(const void *)&slot->cdw10);
		const uint32_t bytes = ((ONCE(slot->cdw12) & 0xffff) + 1) << v->shift;

		/* opcodes below 4; no fused operation, no SGL */
		if (head & NOT_HERE || !(v->opcodes >> (head & 3) & 1) || ONCE(slot->nsid) != 1)
			break;
		if ((prp1 & (HR_PAGE - 1)) + bytes > HR_PAGE || prp1 & 3 || at > v->room ||
		    lba > v->last_lba)
			break;
		if ((int32_t)cid <= (int32_t)dw3[-1])
			break;
		__builtin_prefetch(slot + AHEAD); /* behind the ring it does nothing */
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

/* Whether a command of an earlier batch has the CID. */
static bool is_among(const struct sent *sent, const uint32_t *end, uint32_t cid)
{
	for (const uint32_t *dw3 = sent->dw3 + 1; dw3 < end; dw3++)
		if ((*dw3 & 0xffff) == cid)
			return true;
	return false;
}

/* Any command. It may have been a file's, or a flush: who waits for the others is not kept waiting. */
static void other(struct soft_poller *p, struct soft_sq *sq, const struct sent *sent,
		  struct batch *b)
{
	const struct hr_sqe sqe = soft_fetch(&sq->ring[sq->head]);
	const uint16_t field = is_among(sent, b->dw3, sqe.cid) ? NVME_SC_CMDID_CONFLICT | SOFT_DNR
							       : soft_io(p, sq, &sqe);

	if (field) {
		soft_add(&p->stats.errors, 1);
		soft_log_error(p->soft, sq->id, &sqe, field);
	}
	b->dw3[b->count++] = (uint32_t)field << 17 | sqe.cid;
	b->others++;
}

static void pass(struct soft_sq *sq, uint32_t n)
{
	sq->head += n;
	if (sq->head >= sq->entries)
		sq->head -= sq->entries;
}

/* Execute some commands, at least one and up to n; the queue's head moves past them. */
static void execute(struct soft_poller *p, struct soft_sq *sq, uint32_t n, const struct sent *sent,
		    struct batch *b)
{
	const struct view v = look(p->soft, sq);
	const uint32_t lap = sq->entries - sq->head;
	const struct hr_sqe *slot = &sq->ring[sq->head];
	uint32_t done;

	n = n < lap ? n : lap;
	if (p->soft->media.memory)
		done = move_pages(p->soft, &v, slot, n, b, true);
	else
		done = move_pages(p->soft, &v, slot, n, b, false);
	pass(sq, done);
	if (done == 0 && !is_dead(p->soft)) {
		other(p, sq, sent, b);
		pass(sq, 1);
	}
}

/* What others read is written once a batch. */
static void count(struct soft_poller *p, const struct batch *b)
{
	soft_add(&p->stats.commands, b->count);
	soft_add(&p->stats.reads, b->count - b->others - b->writes);
	soft_add(&p->stats.read_bytes, b->read_bytes);
	soft_add(&p->stats.writes, b->writes);
	soft_add(&p->stats.written_bytes, b->written_bytes);
}

/* n completions into consecutive slots, the last first. */
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

/* A host that waits for the next completion then finds the whole batch. */
static void post(const struct soft_sq *sq, const struct batch *b)
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

/* The largest CID is the last one where they count up: all but the one that took the other way. */
static void next(struct batch *b)
{
	const int32_t before = (int32_t)b->dw3[-1];
	const int32_t last = (int32_t)(b->dw3[b->count - 1] & 0xffff);

	b->dw3 += b->count;
	*b->dw3++ = (uint32_t)(last > before ? last : before);
}

bool soft_serve_straight(struct soft_poller *p, struct soft_sq *sq)
{
	struct soft *soft = p->soft;
	uint32_t left = soft_ready(soft, sq);
	struct batch b;
	struct sent sent;

	if (!left)
		return false;
	left = left < SOFT_BATCH ? left : SOFT_BATCH;
	b.dw3 = sent.dw3;
	*b.dw3++ = NONE;
	for (;;) {
		memset(&b, 0, offsetof(struct batch, dw3));
		execute(p, sq, left, &sent, &b);
		count(p, &b);
		if (is_dead(soft)) /* nothing leaves it any more */
			break;
		post(sq, &b);
		left -= b.count;
		if (!left)
			break;
		next(&b);
	}
	if (sq->event)
		__atomic_store_n(sq->event, sq->head, __ATOMIC_RELEASE);
	return true;
}
