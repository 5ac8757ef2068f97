/*
 * A queue pair of one lane after each step: all its numbers, its table, the ring and the
 * doorbells; the same for a command at a time (nvme/queue_one.h).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "nvme/queue_one.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/peer.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS 8000u
#define START_NS 1000000u
#define ENTRIES 4u
#define UNUSED 0xabu

static struct hr_nvme_qp qp;
static struct peer peer;
static struct hr_qp_one one;
static uint32_t tokens;
static uint16_t first_cid, last_cid; /* completed ones */

static void begin(uint32_t entries)
{
	peer_init(&peer, &qp, entries, TIMEOUT_NS);
	memset(qp.sq, UNUSED, entries * sizeof *qp.sq);
	tokens = first_cid = last_cid = 0;
}

static void setup(void)
{
	fake_clock_start(START_NS, NULL, NULL);
}

static void teardown(void)
{
	fake_clock_stop();
}

TestSuite(queue_state, .init = setup, .fini = teardown, .timeout = 60);

static struct hr_sqe sqe_of(uint32_t token)
{
	struct hr_sqe sqe;

	for (uint32_t i = 0; i < sizeof sqe; i++)
		((uint8_t *)&sqe)[i] = (uint8_t)(i + 65 * token + 1);
	return sqe;
}

/* The entry lies there with its CID, and no other entry has changed. */
static void check_entry(const struct hr_nvme_qp *before, const struct hr_sqe *ring, uint32_t at,
			uint32_t token, int cid)
{
	struct hr_sqe want = sqe_of(token);

	want.cid = (uint16_t)cid;
	cr_assert_eq(memcmp(&qp.sq[at], &want, sizeof want), 0, "entry %u", at);
	for (uint32_t i = 0; i < before->entries; i++)
		cr_assert(i == at || memcmp(&qp.sq[i], &ring[i], sizeof *ring) == 0, "entry %u", i);
}

static void push(void)
{
	const struct hr_nvme_qp before = qp;
	const struct hr_sqe sqe = sqe_of(tokens);
	struct hr_sqe ring[16];
	int cid;

	memcpy(ring, qp.sq, qp.entries * sizeof *ring);
	cid = hr_qp_push(&qp, true, &sqe, 100 + tokens);
	cr_assert_geq(cid, 0);
	check_entry(&before, ring, before.sq_tail, tokens++, cid);
}

static void one_send(void)
{
	const struct hr_nvme_qp before = qp;
	const struct hr_sqe sqe = sqe_of(tokens);
	struct hr_sqe ring[16];

	cr_assert(hr_qp_is_unused(&qp));
	memcpy(ring, qp.sq, qp.entries * sizeof *ring);
	one = hr_qp_one_next(&qp);
	hr_qp_one_write(&one, &sqe);
	check_entry(&before, ring, before.sq_tail, tokens, (int)one.cid);
	cr_assert_eq(memcmp(&qp, &before, sizeof qp), 0, "nothing is sent");
	hr_qp_one_release();
	hr_qp_one_send(&qp, &one);
	hr_qp_one_track(&qp, &one, 100 + tokens++);
	cr_assert_not(hr_qp_is_unused(&qp));
}

static void one_wait(void)
{
	const struct hr_qp_wait wait = { 7, NULL, 0, 0 };

	cr_assert_eq(hr_qp_one_wait(&qp, &one, &wait), 1u, "of its first poll");
	hr_qp_one_end(&qp, &one);
}

static void complete(uint32_t i, uint16_t status)
{
	cr_assert_lt(i, peer_fetch(&peer));
	cr_assert(peer_can_post(&peer));
	last_cid = peer.pending[i].cid;
	first_cid = first_cid ? first_cid : last_cid;
	peer_complete(&peer, i, status);
}

static void reap(bool want)
{
	struct hr_done done;

	cr_assert_eq(hr_qp_reap(&qp, &done), want);
}

/*
 * p: push, r: ring; c, l, f: the controller completes the first, the last, or the first with a
 * status; s, t: it repeats the last or first completion; g, n: a reap gets one, or none; o, w: a
 * command at a time, and its end; e: a deadline passes.
 */
static void step(char what)
{
	struct hr_done lost;

	if (what == 'p')
		push();
	else if (what == 'r')
		hr_qp_ring(&qp);
	else if (what == 'c' || what == 'f')
		complete(0, what == 'f' ? 0x281 : 0);
	else if (what == 'l')
		complete(peer_fetch(&peer) - 1, 0);
	else if (what == 's' || what == 't')
		peer_post(&peer, (struct hr_cqe){ .sqhd = (uint16_t)peer.sq_head,
						  .sqid = 3,
						  .cid = what == 's' ? last_cid : first_cid });
	else if (what == 'g' || what == 'n')
		reap(what == 'g');
	else if (what == 'o')
		one_send();
	else if (what == 'w')
		one_wait();
	else if (what == 'e')
		cr_assert(hr_qp_expire(&qp, START_NS + 2 * TIMEOUT_NS, &lost));
	else
		cr_assert_fail("%c", what);
}

static const char *numbers(void)
{
	static char text[256];
	const struct hr_qp_stats *s = &qp.stats;

	snprintf(text, sizeof text,
		 "free %u..%u sq %u/%u +%u -%u cq %u/%u p%u; %llu %llu %llu %llu %llu %llu; "
		 "%llu %llu %llu; %u %u",
		 qp.free_head, qp.free_tail, qp.sq_rung, qp.sq_tail, qp.pushed, qp.unfetched,
		 qp.cq_rung, qp.cq_head, qp.phase, (unsigned long long)s->submitted,
		 (unsigned long long)s->completed, (unsigned long long)s->failed,
		 (unsigned long long)s->lost, (unsigned long long)s->late,
		 (unsigned long long)s->stray, (unsigned long long)s->doorbells,
		 (unsigned long long)s->batches, (unsigned long long)s->releases, peer.sq_doorbell,
		 peer.cq_doorbell);
	return text;
}

/* Index, CID, token and state of each command, and whether it has a deadline. */
static const char *table(void)
{
	static char text[256];
	int at = 0;

	for (uint32_t i = 0; i < ENTRIES - 1; i++) {
		const struct hr_inflight *c = &qp.inflight[i];

		cr_assert(c->deadline_ns == 0 || c->deadline_ns == START_NS + TIMEOUT_NS);
		at += snprintf(text + at, sizeof text - (size_t)at, "%s%x:%u%c%s", i ? " " : "",
			       c->cid, c->token, "FPSL"[c->state], c -> deadline_ns ? "!" : "");
	}
	for (uint32_t i = 0; i <= qp.index_mask; i++)
		at += snprintf(text + at, sizeof text - (size_t)at, "%s%x", i ? "," : " ",
			       qp.free_ring[i]);
	return text;
}

/*
 * free: head..tail of the free ring; sq: rung/tail, commands without doorbell, commands not
 * fetched; cq: rung/head, phase; submitted, completed, failed, lost, late, stray; doorbells,
 * batches, releases; values of both doorbells.
 */
static const struct {
	const char *steps, *numbers, *table;
} row[] = {
	{ "", "free 0..3 sq 0/0 +0 -0 cq 0/0 p1; 0 0 0 0 0 0; 0 0 0; 0 0",
	  "0:0F 1:0F 2:0F 0,1,2,0" },
	{ "p", "free 1..3 sq 0/1 +1 -0 cq 0/0 p1; 0 0 0 0 0 0; 0 0 0; 0 0",
	  "4:100P 1:0F 2:0F 0,1,2,0" },
	{ "ppp", "free 3..3 sq 0/3 +3 -0 cq 0/0 p1; 0 0 0 0 0 0; 0 0 0; 0 0",
	  "4:100P 5:101P 6:102P 0,1,2,0" },
	{ "pr", "free 1..3 sq 1/1 +0 -1 cq 0/0 p1; 1 0 0 0 0 0; 1 1 0; 1 0",
	  "4:100S! 1:0F 2:0F 0,1,2,0" },
	{ "pprpr", "free 3..3 sq 3/3 +0 -3 cq 0/0 p1; 3 0 0 0 0 0; 2 2 0; 3 0",
	  "4:100S! 5:101S! 6:102S! 0,1,2,0" },
	{ "prr", "free 1..3 sq 1/1 +0 -1 cq 0/0 p1; 1 0 0 0 0 0; 1 1 0; 1 0",
	  "4:100S! 1:0F 2:0F 0,1,2,0" },
	{ "prcg", "free 1..4 sq 1/1 +0 -0 cq 0/1 p1; 1 1 0 0 0 0; 1 1 0; 1 0",
	  "4:100F! 1:0F 2:0F 0,1,2,4" },
	{ "ppprcg", "free 3..4 sq 3/3 +0 -0 cq 0/1 p1; 3 1 0 0 0 0; 1 1 0; 3 0",
	  "4:100F! 5:101S! 6:102S! 0,1,2,4" },
	{ "ppprlg", "free 3..4 sq 3/3 +0 -0 cq 0/1 p1; 3 1 0 0 0 0; 1 1 0; 3 0",
	  "4:100S! 5:101S! 6:102F! 0,1,2,6" },
	{ "ppprcgcgcg", "free 3..6 sq 3/3 +0 -0 cq 0/3 p1; 3 3 0 0 0 0; 1 1 0; 3 0",
	  "4:100F! 5:101F! 6:102F! 6,5,2,4" },
	{ "prfg", "free 1..4 sq 1/1 +0 -0 cq 0/1 p1; 1 1 1 0 0 0; 1 1 0; 1 0",
	  "4:100F! 1:0F 2:0F 0,1,2,4" },
	{ "prcgsn", "free 1..4 sq 1/1 +0 -0 cq 0/2 p1; 1 1 0 0 0 1; 1 1 0; 1 0",
	  "4:100F! 1:0F 2:0F 0,1,2,4" },
	{ "prcgprcgprcgprtn", "free 4..6 sq 0/0 +0 -1 cq 3/0 p0; 4 3 0 0 1 0; 5 4 0; 0 3",
	  "8:103S! 5:101F! 6:102F! 5,6,2,4" },
	{ "pre", "free 1..3 sq 1/1 +0 -1 cq 0/0 p1; 1 0 0 1 0 0; 1 1 0; 1 0",
	  "4:100L! 1:0F 2:0F 0,1,2,0" },
	{ "pprecn", "free 2..3 sq 2/2 +0 -0 cq 0/1 p1; 2 0 0 1 1 0; 1 1 0; 2 0",
	  "4:100L! 5:101S! 2:0F 0,1,2,0" },
	{ "prepr", "free 2..3 sq 2/2 +0 -2 cq 0/0 p1; 2 0 0 1 0 0; 2 2 0; 2 0",
	  "4:100L! 5:101S! 2:0F 0,1,2,0" },
	{ "prcgprcgprcgprcg", "free 4..7 sq 0/0 +0 -0 cq 3/0 p0; 4 4 0 0 0 0; 5 4 0; 0 3",
	  "8:103F! 5:101F! 6:102F! 5,6,8,4" },
	{ "prcgprcgprcgprcgprcg", "free 5..8 sq 1/1 +0 -0 cq 3/1 p0; 5 5 0 0 0 0; 6 5 0; 1 3",
	  "8:103F! 9:104F! 6:102F! 5,6,8,9" },
	{ "ppprcgcgsn", "free 3..5 sq 3/3 +0 -0 cq 0/3 p1; 3 2 0 0 0 1; 1 1 0; 3 0",
	  "4:100F! 5:101S! 6:102F! 6,1,2,4" },
	{ "ppprcgcgsnr", "free 3..5 sq 3/3 +0 -0 cq 3/3 p1; 3 2 0 0 0 1; 2 1 1; 3 3",
	  "4:100F! 5:101S! 6:102F! 6,1,2,4" },
	{ "ppprcgcgsnn", "free 3..5 sq 3/3 +0 -0 cq 3/3 p1; 3 2 0 0 0 1; 2 1 1; 3 3",
	  "4:100F! 5:101S! 6:102F! 6,1,2,4" },
	{ "ppprcgcgsnrcg", "free 3..6 sq 3/3 +0 -0 cq 3/0 p0; 3 3 0 0 0 1; 2 1 1; 3 3",
	  "4:100F! 5:101F! 6:102F! 6,5,2,4" },
	{ "o", "free 1..3 sq 1/1 +0 -1 cq 0/0 p1; 1 0 0 0 0 0; 1 1 0; 1 0",
	  "4:100S! 1:0F 2:0F 0,1,2,0" },
	{ "oc", "free 1..3 sq 1/1 +0 -1 cq 0/0 p1; 1 0 0 0 0 0; 1 1 0; 1 0",
	  "4:100S! 1:0F 2:0F 0,1,2,0" },
	{ "ocw", "free 1..4 sq 1/1 +0 -0 cq 0/1 p1; 1 1 0 0 0 0; 1 1 0; 1 0",
	  "4:100F! 1:0F 2:0F 0,1,2,4" },
	{ "ocwo", "free 2..4 sq 2/2 +0 -1 cq 0/1 p1; 2 1 0 0 0 0; 2 2 0; 2 0",
	  "4:100F! 5:101S! 2:0F 0,1,2,4" },
	{ "ocwocwocw", "free 3..6 sq 3/3 +0 -0 cq 0/3 p1; 3 3 0 0 0 0; 3 3 0; 3 0",
	  "4:100F! 5:101F! 6:102F! 5,6,2,4" },
	{ "ocwocwocwocwocw", "free 5..8 sq 1/1 +0 -0 cq 3/1 p0; 5 5 0 0 0 0; 6 5 0; 1 3",
	  "8:103F! 9:104F! 6:102F! 5,6,8,9" },
	{ "prcgocwprcg", "free 3..6 sq 3/3 +0 -0 cq 0/3 p1; 3 3 0 0 0 0; 3 3 0; 3 0",
	  "4:100F! 5:101F! 6:102F! 5,6,2,4" },
	{ "ocwprcgocw", "free 3..6 sq 3/3 +0 -0 cq 0/3 p1; 3 3 0 0 0 0; 3 3 0; 3 0",
	  "4:100F! 5:101F! 6:102F! 5,6,2,4" },
	{ "ofg", "free 1..4 sq 1/1 +0 -0 cq 0/1 p1; 1 1 1 0 0 0; 1 1 0; 1 0",
	  "4:100F! 1:0F 2:0F 0,1,2,4" },
	{ "oe", "free 1..3 sq 1/1 +0 -1 cq 0/0 p1; 1 0 0 1 0 0; 1 1 0; 1 0",
	  "4:100L! 1:0F 2:0F 0,1,2,0" },
	{ "ocwocwocwo", "free 4..6 sq 0/0 +0 -1 cq 3/3 p1; 4 3 0 0 0 0; 5 4 0; 0 3",
	  "8:103S! 5:101F! 6:102F! 5,6,2,4" },
};

Test(queue_state, each_step_changes_only_its_numbers)
{
	for (size_t i = 0; i < ROWS(row); i++) {
		begin(ENTRIES);
		for (const char *at = row[i].steps; *at; at++)
			step(*at);
		cr_expect_str_eq(numbers(), row[i].numbers, "%s: %s", row[i].steps, numbers());
		cr_expect_str_eq(table(), row[i].table, "%s: %s", row[i].steps, table());
		peer_fini(&peer);
	}
}

/* In the order of indices, each once, with nothing of an earlier completion; what lies behind the
 * table has the form of a sent command. */
Test(queue_state, commands_expire_one_after_the_other)
{
	const uint64_t now = START_NS + TIMEOUT_NS;

	for (uint32_t entries = 2; entries <= 5; entries++) {
		uint16_t *at;

		begin(entries);
		for (uint32_t i = 0; i < entries - 1; i++)
			push();
		hr_qp_ring(&qp);
		for (at = qp.free_ring + qp.index_mask + 1;
		     (uint8_t *)at < (uint8_t *)qp.inflight + hr_qp_table_bytes(entries); at++)
			*at = HR_CMD_SENT;
		memset(qp.free_ring, 0, sizeof(uint64_t)); /* the deadline of that form */
		for (uint32_t i = 0; i < entries - 1; i++) {
			struct hr_done lost = { 1, 2, 3, 4, true, 3 };
			const uint64_t scan = qp.scan_ns;

			cr_assert(hr_qp_expire(&qp, now + i, &lost), "%u of %u", i, entries);
			cr_expect_eq(lost.token, 100 + i);
			cr_expect_eq(lost.cid, qp.inflight[i].cid);
			cr_expect(!lost.dw0 && !lost.status && !lost.crd);
			cr_expect_eq(lost.dnr, false);
			cr_expect_eq(qp.inflight[i].state, HR_CMD_LOST);
			cr_expect_eq(qp.scan_ns, scan, "the next one at once");
			cr_expect_eq(qp.stats.lost, i + 1);
		}
		cr_expect_not(hr_qp_expire(&qp, now + 50, &(struct hr_done){ 0 }));
		cr_expect_eq(qp.scan_ns, now + 50 + TIMEOUT_NS / 8);
		cr_expect_eq(qp.stats.lost, entries - 1);
		peer_fini(&peer);
	}
}
