#include "tests/harness/io_rig_text.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "gpu/worker/io_peers.h"
#include "tests/harness/io_rig.h"

static char text[16384];
static size_t at;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	at += (size_t)vsnprintf(text + at, sizeof text - at, format, list);
	va_end(list);
	cr_assert_lt(at, sizeof text, "too many changes");
}

/* The former value of a place in the worker's memory. */
static const void *was(const void *p)
{
	return (const uint8_t *)&RIG->was + ((const uint8_t *)p - (const uint8_t *)&RIG->m);
}

static bool changed(const void *p, size_t bytes)
{
	return memcmp(p, was(p), bytes) != 0;
}

static uint64_t load(const void *p, size_t bytes)
{
	uint64_t v = 0;

	memcpy(&v, p, bytes);
	return v;
}

static void number(const char *name, const void *p, size_t bytes)
{
	if (changed(p, bytes))
		say(" %s %lld>%lld", name, (long long)load(was(p), bytes),
		    (long long)load(p, bytes));
}

struct member {
	const char *name;
	size_t at, bytes;
};

static void members(const char *prefix, const void *of, const struct member *member, size_t n)
{
	char name[64];

	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof name, "%s%s", prefix, member[i].name);
		number(name, (const uint8_t *)of + member[i].at, member[i].bytes);
	}
}

/* NOLINTNEXTLINE(bugprone-macro-parentheses): strings that the compiler joins */
#define NUMBER(prefix, of, member) number(prefix #member, &(of)->member, sizeof(of)->member)
/* NOLINTBEGIN(bugprone-macro-parentheses): strings that the compiler joins */
#define ARRAY(prefix, of, member, n)                                      \
	for (uint32_t k_ = 0; k_ < (n); k_++) {                           \
		char name_[64];                                           \
                                                                          \
		snprintf(name_, sizeof name_, prefix #member "[%u]", k_); \
		number(name_, &(of)->member[k_], sizeof(of)->member[k_]); \
	}
/* NOLINTEND(bugprone-macro-parentheses) */

/* ---- what has changed */

#define M(name)                                                  \
	{                                                        \
#name, offsetof(struct hr_io_worker, name),      \
			sizeof(((struct hr_io_worker *)0)->name) \
	}

static const struct member worker_members[] = { M(seen),
						M(settled),
						M(published),
						M(ended),
						M(stopped),
						M(unread),
						M(unused),
						M(unsent),
						M(sent),
						M(taken),
						M(told),
						M(waiting),
						M(room),
						M(reserve),
						M(entered),
						M(leaving),
						M(calm),
						M(offers_wait),
						M(offers_end),
						M(moved_ns),
						M(row),
						M(urgent),
						M(sweep),
						M(flush_step),
						M(flush_row),
						M(flush_again),
						M(flush_wanted),
						M(flush),
						M(flushed),
						M(flush_left),
						M(flush_sent),
						M(flush_tries),
						M(flush_again_ns),
						M(flush_first_ns),
						M(asked),
						M(pending),
						M(peer_row),
						M(peer_shift),
						M(peer_time),
						M(peer),
						M(confirmed),
						M(stop_told),
						M(done_told),
						M(peers_done),
						M(scan),
						M(scan_ended),
						M(lag),
						M(object),
						M(role.failed),
						M(role.dead),
						M(role.spins),
						M(role.cost.rounds),
						M(role.cost.busy_rounds) };

#undef M

static void say_worker(void)
{
	const struct hr_io_worker *w = W;

	members("w.", w, worker_members, sizeof worker_members / sizeof *worker_members);
	ARRAY("w.", w, writing, 2)
	if (!w->room)
		return;
	for (uint32_t s = 0; s < HR_IO_SLICES; s++)
		if (w->room_wanted[s])
			say(" room%u s%u wants %u%s", s, w->room_set[s], w->room_wanted[s],
			    w->room_waits[s] ? " waits" : "");
}

static void say_block(void)
{
	const struct hr_io_block *b = &RIG->m.block;

	if (changed(&b->waiting, sizeof b->waiting) || changed(&b->ticket, sizeof b->ticket) ||
	    changed(&b->flags, sizeof b->flags)) {
		say(" waiting [");
		for (uint32_t i = 0; i < W->waiting; i++)
			say("%sp%u #%u%s%s", i ? ", " : "", b->waiting[i], b->ticket[i],
			    b->flags[i] & HR_IO_WRITES ? " w" : "",
			    b->flags[i] & HR_IO_WHOLE ? " whole" : "");
		say("]");
	}
	if (!changed(&b->unused, sizeof b->unused) && !changed(&W->unused, sizeof W->unused))
		return;
	say(" unused [");
	for (uint32_t i = 0; i < W->unused; i++)
		say("%s%u", i ? " " : "", b->unused[i]);
	say("]");
}

#define M(name)                                                    \
	{                                                          \
#name, offsetof(struct hr_io_counters, name),      \
			sizeof(((struct hr_io_counters *)0)->name) \
	}

static const struct member counters[] = {
	M(requests),	M(reads),	   M(read_commands), M(merges), M(evictions),
	M(write_backs), M(write_commands), M(errors),	     M(whole),	M(waits),
	M(copies),	M(invalidations),  M(epochs),	     M(behind), M(serve_cycles),
	M(serves),	M(ssd_cycles),	   M(settle_cycles), M(settles)
};

#undef M

static void say_shared(void)
{
	const struct io_rig_memory *m = &RIG->m;

	members("count.", &m->block.count, counters, sizeof counters / sizeof *counters);
	NUMBER("words.", &m->words, epoch);
	NUMBER("words.", &m->words, settled);
	NUMBER("words.", &m->words, stop);
	NUMBER("words.", &m->words, ended);
	NUMBER("words.", &m->words, flush_wanted);
	NUMBER("words.", &m->words, barrier);
	for (uint32_t i = 0; i < sizeof m->worker / sizeof *m->worker; i++)
		if (changed(&m->worker[i], sizeof m->worker[i]))
			say(" worker%u seen %u ended %u", i, m->worker[i].seen,
			    m->worker[i].share_ended);
	for (uint32_t i = 0; i < IO_RIG_WORKERS; i++) {
		if (changed(&m->ring[i].taken, sizeof m->ring[i].taken))
			say(" ring%u.taken %llu", i, (unsigned long long)m->ring[i].taken);
		if (changed(&m->flushed[i], sizeof m->flushed[i]))
			say(" flushed%u %lld", i, (long long)m->flushed[i]);
		if (changed(&m->counters[i], sizeof m->counters[i]))
			say(" counters%u", i);
	}
}

static void say_status(uint32_t i)
{
	const struct hr_worker_status *s = &RIG->m.status[i];
	const struct hr_failure *f = &s->failure;

	if (!changed(s, sizeof *s))
		return;
	say(" status%u", i);
	NUMBER("", s, done);
	NUMBER("", s, failed);
	NUMBER("", s, heartbeat);
	NUMBER("", s, tiles);
	NUMBER("", s, bytes);
	if (changed(f, sizeof *f))
		say(" failure %d role %u source %u page %lld lba %llu object %llu qid %u cid %u "
		    "opcode %u peer %u",
		    f->error, f->role, f->source, (long long)f->tile, (unsigned long long)f->lba,
		    (unsigned long long)f->object, f->qid, f->cid, f->opcode, f->peer);
}

static void say_word(uint32_t set, uint32_t word)
{
	static const char *const names[] = { "FREE",  "LEFT",  "READING", "ERROR",
					     "READY", "DIRTY", "WRITING", "REDIRTY" };
	const uint32_t state = HR_PAGE_STATE(word);

	if (!RIG->access.cache.peers && HR_PAGE_KIND(word) == HR_PAGE_OFFERED)
		say("OFFERED");
	else
		say("%s%s", names[state], word & HR_PAGE_SHARED ? "+" : "");
	if (state == HR_PAGE_LEFT)
		say("@%u", HR_PAGE_TAG(word));
	else if (state != HR_PAGE_FREE || HR_PAGE_TAG(word))
		say(" p%u", hr_page_at(&RIG->access.cache.shape, set, HR_PAGE_TAG(word)));
}

static void say_sets(void)
{
	for (uint32_t s = 0; s < IO_RIG_SETS; s++) {
		const struct hr_page_set *set = &RIG->m.set[s];
		const struct hr_page_set *before = was(set);

		for (uint32_t way = 0; way < HR_WAYS; way++) {
			if (set->tag[way] == before->tag[way])
				continue;
			say(" s%u.%u ", s, way);
			say_word(s, before->tag[way]);
			say(">");
			say_word(s, set->tag[way]);
		}
		if (set->recency != before->recency)
			say(" s%u.recency %x>%x", s, before->recency, set->recency);
	}
}

static void say_command(const char *name, const struct hr_io_command *c)
{
	static const char *const states[] = { "UNUSED", "SENT", "PARKED", "SETTLING" };
	const struct hr_io_command *before = was(c);

	if (!changed(c, sizeof *c))
		return;
	say(" %s", name);
	if (c->state != before->state)
		say(" %s", states[c->state]);
	if (c->page != before->page || c->pages != before->pages || c->opcode != before->opcode)
		say(" page %u+%u %s", c->page, c->pages,
		    c->opcode == nvme_cmd_read ? "read" : "write");
	if (memcmp(c->way, before->way, sizeof c->way) != 0) {
		say(" [");
		for (uint32_t k = 0; k < c->pages; k++)
			say("%u", c->way[k]);
		say("]");
	}
	NUMBER("", c, tries);
	NUMBER("", c, single);
	NUMBER("", c, at);
	NUMBER("", c, sweep);
	NUMBER("", c, until);
	NUMBER("", c, first_ns);
}

/* A page of 4 KiB that a controller reads or writes. */
static void say_bus(uint64_t bus)
{
	if (bus >= IO_RIG_LIST_BUS)
		say(" list%llu", (unsigned long long)(bus - IO_RIG_LIST_BUS) / sizeof(uint64_t));
	else if (bus >= IO_RIG_STAGING_BUS)
		say(" S%llu", (unsigned long long)(bus - IO_RIG_STAGING_BUS) / HR_PAGE);
	else
		say(" F%llu", (unsigned long long)(bus - IO_RIG_FRAME_BUS) / HR_PAGE);
	if (bus % HR_PAGE && bus < IO_RIG_LIST_BUS)
		say("+%llu", (unsigned long long)bus % HR_PAGE);
}

static void say_sqe(uint32_t q, const struct hr_sqe *e)
{
	const struct hr_nvme_qp *qp = &W->qp[q];
	const uint64_t lba = e->cdw10 | (uint64_t)e->cdw11 << 32;
	const uint32_t blocks = (e->cdw12 & 0xffff) + 1;
	const uint32_t pieces = ((blocks << (e->nsid == 7 ? 9 : 12)) + HR_PAGE - 1) / HR_PAGE;

	say(" q%u #%u op%u n%u L%llu+%u", q, qp->inflight[e->cid & qp->index_mask].token, e->opcode,
	    e->nsid, (unsigned long long)lba, blocks);
	if (e->opcode == nvme_cmd_flush)
		return;
	say_bus(e->prp1);
	if (e->prp2)
		say_bus(e->prp2);
	for (uint32_t i = 0; e->prp2 >= IO_RIG_LIST_BUS && i + 1 < pieces; i++)
		say_bus(RIG->m.prp_list[(e->prp2 - IO_RIG_LIST_BUS) / sizeof(uint64_t) + i]);
}

static void say_queues(void)
{
	for (uint32_t q = 0; q < 2; q++) {
		const struct hr_nvme_qp *qp = &W->qp[q], *before = was(qp);
		uint32_t tail = before->sq_tail;

		for (; tail != qp->sq_tail; tail = hr_ring_add(tail, 1, qp->entries))
			say_sqe(q, &qp->sq[tail]);
		if (qp->sq_rung != before->sq_rung)
			say(" q%u rung", q);
		if (qp->broken != before->broken)
			say(" q%u broken %d", q, qp->broken);
	}
}

static void say_frames(char name, const uint8_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += HR_PAGE) {
		const uint8_t *p = from + i;
		size_t same = 1;

		if (!changed(p, HR_PAGE))
			continue;
		while (same < HR_PAGE && p[same] == p[0])
			same++;
		say(" %c%zu %s%u", name, i / HR_PAGE, same < HR_PAGE ? "mixed " : "= ", p[0]);
		if (same < HR_PAGE)
			say(" after %zu", same);
	}
}

/* ---- several gpus */

static const char *const kinds[] = {
	"NOTHING", "GET",  "UPGRADE", "FILLED", "CLEANED",    "DROP",
	"FILL",	   "COPY", "GRANT",   "CLEAN",	"INVALIDATE", "DROPPED"
};

static const char *ring_name(uint32_t ring)
{
	return ring == HR_TO_HOME ? "h" : "p";
}

static void say_message(uint32_t g, uint32_t ring, uint32_t i, uint64_t entry)
{
	const struct hr_peer_message m = hr_peer_unpack(entry);

	say(" -> %u%s%u %s %u.%u%s", g, ring_name(ring), i, kinds[m.kind], m.page, m.way,
	    m.flag ? " flag" : "");
	if (m.kind == HR_PEER_COPY || m.from_gpu || m.from_way)
		say(" of %u.%u", m.from_gpu, m.from_way);
	if (entry >> HR_PEER_LAP_SHIFT != 1)
		say(" lap %llu", (unsigned long long)entry >> HR_PEER_LAP_SHIFT);
}

static void say_mailbox(uint32_t g)
{
	struct hr_mailbox *box = &RIG->peers.gpu[g].to[W->role.index];

	for (uint32_t ring = 0; ring < HR_PEER_RINGS; ring++) {
		for (uint32_t i = 0; i < HR_PEER_RING(ring); i++) {
			const uint64_t *entry = hr_peer_entry(box, ring, i);

			if (changed(entry, sizeof *entry))
				say_message(g, ring, i, *entry);
		}
		if (changed(&box->taken[ring], sizeof box->taken[ring]))
			say(" -> %u took%s %llu", g, ring_name(ring),
			    (unsigned long long)box->taken[ring]);
	}
	if (changed(&box->done, sizeof box->done))
		say(" -> %u done %u", g, box->done);
}

static void say_peer_words(uint32_t g)
{
	const struct hr_peer_words *words = RIG->peers.gpu[g].words;

	if (!changed(words, sizeof *words))
		return;
	say(" words of %u:", g);
	NUMBER("", words, stop);
	ARRAY("", words, epoch, HR_GPUS_MAX)
	ARRAY("", words, passed, HR_GPUS_MAX)
	ARRAY("", words, sampled, HR_GPUS_MAX)
}

static void say_entry(uint32_t set, uint32_t i, uint64_t e)
{
	static const char *const states[] = { "NONE",	"WANTS",     "FILLING",	 "COPYING",
					      "SHARED", "EXCLUSIVE", "CLEANING", "INVALIDATING" };

	say(" D%u/%u.%u %s", set, i / HR_WAYS, i % HR_WAYS, states[e >> 33 & 7]);
	if (!e)
		return;
	say(" p%u", hr_page_at(&RIG->access.cache.shape, set, (uint32_t)(e >> 36)));
	if (e >> 32 & 1)
		say(" WRITE");
	if (e >> 31 & 1)
		say(" DROP");
	if ((e >> 33 & 7) == HR_PEER_COPYING || (e >> 25 & 63))
		say(" of %u.%u", (unsigned)(e >> 28 & 7), (unsigned)(e >> 25 & 7));
	say(" o%u t%u", (unsigned)(e >> 8 & 0xffff), (unsigned)(e & 0xff));
}

static void say_peers_set(uint32_t set)
{
	const struct hr_page_cache *cache = &RIG->access.cache;
	const struct hr_peers *peers = cache->peers;
	const struct hr_peer_set *kept = &peers->set[set];
	const uint64_t *entry = &peers->directory[hr_peers_directory(cache, peers->gpus, set)];
	const uint32_t home = hr_peers_home(cache, peers->gpus, set >> cache->shape.group_shift);

	for (uint32_t i = 0; i < peers->gpus * HR_WAYS && home == peers->self; i++)
		if (changed(&entry[i], sizeof entry[i]))
			say_entry(set, i, entry[i]);
	for (uint32_t way = 0; way < HR_WAYS; way++) {
		const struct hr_peer_way its = hr_peer_way(kept->way[way]);

		if (changed(&kept->way[way], sizeof kept->way[way]))
			say(" k%u.%u request %u answer %u%s e%u t%u", set, way, its.request,
			    its.answer, its.writes ? " writes" : "", its.epoch, its.time);
	}
	if (changed(&kept->listed, sizeof kept->listed))
		say(" k%u %slisted", set, kept->listed ? "" : "not ");
}

static void say_peers(void)
{
	const struct hr_peers *peers = RIG->access.cache.peers;
	const struct hr_peer_worker *worker;
	uint64_t size;

	if (!peers)
		return;
	for (uint32_t set = 0; set < hr_page_sets(&RIG->access.cache.shape); set++)
		say_peers_set(set);
	worker = &peers->worker[W->role.index];
	if (changed(&worker->pending, sizeof worker->pending))
		say(" list to %llu", (unsigned long long)worker->pending);
	size = IO_RIG_WORKERS *
	       hr_peers_own_sets(&RIG->access.cache.shape, RIG->access.cache.io_workers);
	size = RIG->access.cache.io_workers * size / IO_RIG_WORKERS;
	for (uint64_t i = 0; i < size; i++)
		if (changed(&peers->pending[i], sizeof *peers->pending))
			say(" list[%llu] s%u", (unsigned long long)i, peers->pending[i]);
	for (uint32_t g = 0; g < peers->gpus; g++) {
		for (uint32_t ring = 0; ring < HR_PEER_RINGS; ring++) {
			if (changed(&worker->sent[g][ring], sizeof(uint64_t)))
				say(" sent%u%s %llu", g, ring_name(ring),
				    (unsigned long long)worker->sent[g][ring]);
			if (changed(&worker->taken[g][ring], sizeof(uint64_t)))
				say(" taken%u%s %llu", g, ring_name(ring),
				    (unsigned long long)worker->taken[g][ring]);
		}
		say_mailbox(g);
		say_peer_words(g);
	}
}

void io_rig_keep(void)
{
	memcpy(&RIG->was, &RIG->m, sizeof RIG->m);
}

void io_rig_expect(int64_t result, const char *want, const char *file, int line)
{
	at = 0;
	say("= %lld", (long long)result);
	say_worker();
	say_block();
	say_shared();
	for (uint32_t i = 0; i < IO_RIG_WORKERS; i++)
		say_status(i);
	say_sets();
	for (uint32_t i = 0; i < RIG->access.commands; i++) {
		char name[16];

		snprintf(name, sizeof name, "c%u", i);
		say_command(name, &W->command[i]);
	}
	say_queues();
	say_frames('F', RIG->access.cache.frame, IO_RIG_SETS * HR_WAYS * HR_PAGE);
	say_frames('S', RIG->m.staging, sizeof RIG->m.staging);
	say_peers();
	if (strcmp(text, want) != 0)
		cr_expect_fail("%s:%d:\n  %s\nexpected\n  %s\nend", file, line, text, want);
}
