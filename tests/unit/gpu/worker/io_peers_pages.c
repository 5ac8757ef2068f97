/* Pages of a gpu among three, step by step: requests to homes, orders of homes, and the list of pending
 * sets. The texts are of tests/harness/io_rig.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "gpu/worker/io_peers_pages.h"
#include "tests/harness/io_rig.h"

TestSuite(io_peers_pages, .fini = io_rig_down, .timeout = 60);

/* Of the worker's rows 1, 3, 5 and 7, gpu 1 is the home of row 3, gpu 2 of row 5. */
#define SET 13u	    /* its home is gpu 1 */
#define FAR_SET 22u /* gpu 2 */
#define OWN_SET 5u
#define OTHERS 100u
static const struct io_rig_shape three = { .group_shift = 2, .gpus = 3 };

static uint32_t page, far_page, own_page, next_page; /* next_page: in SET, too */

static void up(void)
{
	io_rig_up(&three);
	page = io_rig_page(SET, 0);
	next_page = io_rig_page(SET, 1);
	far_page = io_rig_page(FAR_SET, 0);
	own_page = io_rig_page(OWN_SET, 0);
}

/* The state of a way besides its word. */
static void keep(uint32_t set, uint32_t way, uint32_t request, uint32_t answer, bool writes)
{
	const struct hr_peer_way its = { request, answer, writes, 1, 2 };

	RIG->peers.set[set].way[way] = hr_peer_way_bits(&its);
}

/* The page is in way 3, in a state, with a request and an answer. */
static void hold(uint32_t state, uint32_t request, uint32_t answer)
{
	up();
	io_rig_put(page, 3, state);
	if (request || answer)
		keep(SET, 3, request, answer, false);
}

static int told(enum hr_peer_kind kind, uint32_t at, uint32_t way)
{
	io_rig_send(1, (struct hr_peer_message){ at, way, kind, false, 0, 0 });
	return hr_peer_pages_take(W, 1);
}

static void passes(uint32_t epochs)
{
	W->settled += epochs;
	W->seen += epochs;
}

/* ---- requests */

Test(io_peers_pages, missing_pages_are_wanted_from_their_homes)
{
	up();
	io_rig_request(page, 0);
	io_rig_request(far_page, HR_REQUEST_WRITE);
	io_rig_request(own_page, 0);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 0>3 w.told 0>3 w.room 0>1 w.entered 0>3 w.moved_ns 0>1000000000 "
	     "w.asked 0>3 room0 s13 wants 1 room1 s22 wants 1 room2 s5 wants 1 "
	     "count.requests 0>3 ring1.taken 3 s5.6 FREE>READING p44 s5.recency 0>40 s13.6 "
	     "FREE>READING p13 s13.recency 0>40 s22.6 FREE>READING p17 s22.recency 0>40 k5.6 "
	     "request 1 answer 0 e0 t23 k13.6 request 1 answer 0 e0 t23 k22.6 request 1 "
	     "answer 0 writes e0 t23 sent0h 1 -> 0h0 GET 44.6 sent1h 1 -> 1h0 GET 13.6 "
	     "sent2h 1 -> 2h0 GET 17.6 flag");
	io_rig_request(page, HR_REQUEST_WRITE);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 3>4 w.told 3>4 w.room 1>0 count.requests 3>4 count.merges 0>1 "
	     "ring1.taken 4");
	cr_expect(hr_io_peers_busy(W));
}

Test(io_peers_pages, a_writer_asks_for_a_page_that_is_shared)
{
	hold(HR_PAGE_READY | HR_PAGE_SHARED, 0, 0);
	io_rig_request(page, 0);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 0>1 w.told 0>1 count.requests 0>1 count.merges 0>1 ring1.taken 1");
	io_rig_request(page, HR_REQUEST_WRITE);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 1>2 w.waiting 0>1 w.moved_ns 0>1000000000 waiting [p13 #1 w] "
	     "count.requests 1>2 count.waits 0>1 k13.3 request 2 answer 0 e0 t23 sent1h 1 -> "
	     "1h0 UPGRADE 13.3");
	io_rig_request(page, HR_REQUEST_WRITE);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 2>3 count.requests 2>3 count.merges 1>2 count.waits 1>2");
	io_rig_put(far_page, 0, HR_PAGE_READY);
	io_rig_request(far_page, HR_REQUEST_WRITE);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 3>4 count.requests 3>4 count.merges 2>3 count.waits 2>3");
	io_rig_put(far_page, 0, HR_PAGE_WRITING | HR_PAGE_SHARED);
	io_rig_request(far_page, HR_REQUEST_WRITE);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 4>5 w.waiting 1>2 waiting [p13 #1 w, p17 #4 w] count.requests 4>5 "
	     "count.waits 3>5");
	/* while an answer is due */
	io_rig_put(own_page, 0, HR_PAGE_READY | HR_PAGE_SHARED);
	keep(OWN_SET, 0, 0, HR_PEER_ANSWER_INVALIDATE, false);
	io_rig_request(own_page, HR_REQUEST_WRITE);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 5>6 w.waiting 2>3 waiting [p13 #1 w, p17 #4 w, p44 #5 w] "
	     "count.requests 5>6 count.waits 5>8");
}

Test(io_peers_pages, requests_leave_room_for_answers)
{
	static const struct {
		uint32_t gpu, free, room;
	} row[] = { { 0, 64, 32 }, { 0, 9, 8 }, { 1, 9, 8 },   { 2, 9, 8 },
		    { 2, 1, 0 },   { 2, 0, 0 }, { 2, 33, 32 }, { 1, 32, 31 } };

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		up();
		RIG->peers.worker[1].sent[row[i].gpu][HR_TO_HOME] =
			500 + HR_PEER_RING_TO - row[i].free;
		io_rig_taken(row[i].gpu, HR_TO_HOME, 500);
		cr_expect_eq(hr_io_peers_room(W, 32), row[i].room, "row %u", i);
		cr_expect_eq(hr_io_peers_room(W, 3), row[i].room < 3 ? row[i].room : 3, "row %u",
			     i);
		if (row[i].room == 0) {
			io_rig_request(page, 0);
			STEP(hr_io_requests(W), "= 0");
		}
		io_rig_down();
	}
	up();
}

/* ---- pages that come */

static void want(bool writes)
{
	hold(HR_PAGE_READING, 0, 0);
	keep(SET, 3, HR_PEER_REQUEST_PAGE, 0, writes);
	W->asked = 1;
}

Test(io_peers_pages, a_page_is_read_when_its_home_says_so)
{
	want(false);
	STEP(hr_peer_pages_take(W, 1), "= 0");
	STEP(told(HR_PEER_FILL, page, 3),
	     "= 1 w.unused 8>7 w.sent 0>1 w.moved_ns 0>1000000000 w.asked 1>0 unused [0 1 2 "
	     "3 4 5 6] count.reads 0>1 count.read_commands 0>1 c7 SENT page 13+1 read [3] q1 "
	     "#7 op2 n7 L1104+8 F94 k13.3 request 0 answer 0 e0 t0 taken1p 1 -> 1 tookp 1");
	io_rig_complete(1, 7, 0);
	STEP(hr_io_reap_all(W),
	     "= 1 w.unused 7>8 w.sent 1>0 unused [0 1 2 3 4 5 6 7] count.settles 0>1 s13.3 "
	     "READING p13>READY+ p13 c7 UNUSED at 0>1 k13.3 request 0 answer 1 e0 t23 k13 "
	     "listed list to 1 list[16] s13");
	cr_expect(hr_io_peers_busy(W));
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 0>1 k13.3 request 0 answer 0 e0 t0 k13 not listed sent1h 1 -> "
	     "1h0 FILLED 13.3");
	cr_expect(!hr_io_peers_busy(W));
	STEP(hr_peer_pages_pending(W), "= 0");
}

Test(io_peers_pages, a_reader_that_wants_to_write_asks_with_its_answer)
{
	want(true);
	fake_clock_advance(100000000);
	W->peer_time += 5;
	STEP(told(HR_PEER_FILL, page, 3),
	     "= 1 w.unused 8>7 w.sent 0>1 w.moved_ns 0>1100000000 w.asked 1>0 unused [0 1 2 "
	     "3 4 5 6] count.reads 0>1 count.read_commands 0>1 c7 SENT page 13+1 read [3] q1 "
	     "#7 op2 n7 L1104+8 F94 k13.3 request 0 answer 0 writes e1 t28 taken1p 1 -> 1 "
	     "tookp 1");
	io_rig_complete(1, 7, 0);
	(void)hr_io_reap_all(W);
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 0>1 k13.3 request 2 answer 0 e1 t28 k13 not listed sent1h 1 -> "
	     "1h0 FILLED 13.3");
	STEP(told(HR_PEER_GRANT, page, 3),
	     "= 1 s13.3 READY+ p13>READY p13 k13.3 request 0 answer 0 e0 t0 taken1p 2 -> 1 "
	     "tookp 2");
}

Test(io_peers_pages, the_home_hears_of_a_failed_read)
{
	want(true);
	(void)told(HR_PEER_FILL, page, 3);
	io_rig_complete(1, 7, 0x281 | 0x4000);
	(void)hr_io_reap_all(W);
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 0>1 k13.3 request 0 answer 0 e0 t0 k13 not listed sent1h 1 -> "
	     "1h0 FILLED 13.3 flag");
}

Test(io_peers_pages, pages_are_copied_from_frames_of_other_gpus)
{
	static const struct hr_peer_message copy[] = { { 0, 3, HR_PEER_COPY, false, 2, 6 },
						       { 0, 5, HR_PEER_COPY, false, 0, 1 },
						       { 0, 0, HR_PEER_FILL, false, 0, 0 } };
	const uint32_t pages[] = { (want(true), page), next_page, io_rig_page(SET + 1, 0) };

	memset(RIG->m.frame, 0x22, sizeof RIG->m.frame);
	memset(RIG->m.frame[0], 0x11, sizeof RIG->m.frame[0]);
	memset(RIG->m.frame[2] + (SET * HR_WAYS + 6) * HR_PAGE, 0x66, HR_PAGE);
	memset(RIG->m.frame[0] + (SET * HR_WAYS + 1) * HR_PAGE, 0x55, HR_PAGE);
	W->asked = 5;
	for (uint32_t i = 0; i < 3; i++) {
		struct hr_peer_message m = copy[i];

		m.page = pages[i];
		io_rig_put(m.page, m.way, HR_PAGE_READING);
		keep(io_rig_set(m.page), m.way, HR_PEER_REQUEST_PAGE, 0, i == 0);
		io_rig_send(1, m);
	}
	STEP(hr_peer_pages_take(W, 1),
	     "= 1 w.unused 8>7 w.sent 0>1 w.moved_ns 0>1000000000 w.asked 5>2 unused [0 1 2 "
	     "3 4 5 6] count.reads 0>1 count.read_commands 0>1 count.copies 0>2 s13.3 "
	     "READING p13>READY+ p13 s13.5 READING p151>READY+ p151 c7 SENT page 14+1 read "
	     "q1 #7 op2 n7 L1112+8 F98 F94 = 102 F96 = 85 k13.3 request 0 answer 1 writes e1 "
	     "t23 k13.5 request 0 answer 1 e1 t23 k13 listed k14.0 request 0 answer 0 e0 t0 "
	     "list to 1 list[16] s13 taken1p 3 -> 1 tookp 3");
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 0>1 k13.3 request 2 answer 0 e1 t23 k13.5 request 0 answer 0 e0 "
	     "t0 k13 not listed sent1h 2 -> 1h0 FILLED 13.3 -> 1h1 FILLED 151.5");
}

/* ---- orders of homes */

Test(io_peers_pages, a_page_that_is_granted_is_not_shared)
{
	hold(HR_PAGE_READY | HR_PAGE_SHARED, HR_PEER_REQUEST_WRITE, 0);
	STEP(told(HR_PEER_GRANT, page, 3),
	     "= 1 w.moved_ns 0>1000000000 s13.3 READY+ p13>READY p13 k13.3 request 0 answer "
	     "0 e0 t0 taken1p 1 -> 1 tookp 1");
	io_rig_down();
	hold(HR_PAGE_READY | HR_PAGE_SHARED, 0, 0);
	STEP(told(HR_PEER_GRANT, page, 3),
	     "= 1 w.moved_ns 0>1000000000 s13.3 READY+ p13>READY p13 taken1p 1 -> 1 tookp 1");
}

Test(io_peers_pages, a_page_is_clean_after_a_grace_period)
{
	hold(HR_PAGE_DIRTY, 0, 0);
	STEP(told(HR_PEER_CLEAN, page, 3),
	     "= 1 w.moved_ns 0>1000000000 k13.3 request 0 answer 3 e10 t23 k13 listed list "
	     "to 1 list[16] s13 taken1p 1 -> 1 tookp 1");
	STEP(hr_peer_pages_pending(W), "= 0 w.pending 0>1 list to 2 list[17] s13");
	passes(1);
	STEP(hr_peer_pages_pending(W), "= 0 w.pending 1>2 list to 3 list[18] s13");
	passes(1);
	STEP(hr_peer_pages_pending(W),
	     "= 0 w.urgent 4294967295>3 w.pending 2>3 s13.3 DIRTY p13>DIRTY+ p13 k13.3 "
	     "request 0 answer 4 e10 t23 list to 4 list[19] s13");
	io_rig_put(page, 3, HR_PAGE_WRITING | HR_PAGE_SHARED);
	STEP(hr_peer_pages_pending(W), "= 0 w.pending 3>4 list to 5 list[20] s13");
	io_rig_put(page, 3, HR_PAGE_READY | HR_PAGE_SHARED);
	RIG->peers.worker[1].sent[1][HR_TO_HOME] = HR_PEER_RING_TO;
	STEP(hr_peer_pages_pending(W), "= 0 w.pending 4>5 list to 6 list[21] s13");
	io_rig_taken(1, HR_TO_HOME, 1);
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 5>6 k13.3 request 0 answer 0 e0 t0 k13 not listed sent1h 65 -> "
	     "1h0 CLEANED 13.3 lap 2");
}

Test(io_peers_pages, a_clean_page_is_clean_at_the_end_of_the_grace_period)
{
	hold(HR_PAGE_READY, 0, 0);
	(void)told(HR_PEER_CLEAN, page, 3);
	W->ended = true; /* no compute worker writes any more */
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 0>1 s13.3 READY p13>READY+ p13 k13.3 request 0 answer 0 e0 t0 "
	     "k13 not listed sent1h 1 -> 1h0 CLEANED 13.3");
}

/* Five bits of an epoch are compared. */
Test(io_peers_pages, the_end_of_a_grace_period_is_seen_for_sixteen_epochs)
{
	for (uint32_t epochs = 1; epochs < 20; epochs++) {
		hold(HR_PAGE_READY, 0, 0);
		(void)told(HR_PEER_CLEAN, page, 3);
		W->settled += epochs;
		cr_expect_eq(hr_peer_pages_pending(W), epochs >= 2 && epochs < 18, "%u", epochs);
		io_rig_down();
	}
	up();
}

Test(io_peers_pages, a_page_that_must_leave_leaves_and_is_dropped)
{
	hold(HR_PAGE_READY | HR_PAGE_SHARED, HR_PEER_REQUEST_WRITE, 0);
	STEP(told(HR_PEER_INVALIDATE, page, 3),
	     "= 1 w.moved_ns 0>1000000000 k13.3 request 0 answer 5 e10 t23 k13 listed list "
	     "to 1 list[16] s13 taken1p 1 -> 1 tookp 1");
	passes(1);
	STEP(hr_peer_pages_pending(W), "= 0 w.pending 0>1 list to 2 list[17] s13");
	passes(1);
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 1>2 count.invalidations 0>1 s13.3 READY+ p13>LEFT+@44 list to 3 "
	     "list[18] s13");
	passes(1);
	STEP(hr_peer_pages_pending(W), "= 0 w.pending 2>3 list to 4 list[19] s13");
	passes(1);
	RIG->peers.worker[1].sent[1][HR_TO_HOME] = HR_PEER_RING_TO;
	STEP(hr_peer_pages_pending(W), "= 0 w.pending 3>4 list to 5 list[20] s13");
	io_rig_taken(1, HR_TO_HOME, 1);
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 4>5 k13.3 request 3 answer 0 e10 t23 k13 not listed sent1h 65 -> "
	     "1h0 DROP 13.3 lap 2");
	STEP(told(HR_PEER_DROPPED, SET, 3),
	     "= 1 s13.3 LEFT+@44>FREE k13.3 request 0 answer 0 e0 t0 taken1p 2 -> 1 tookp 2");
}

/* The home sent these before it knew. */
Test(io_peers_pages, orders_for_a_page_that_left_have_no_effect)
{
	static const enum hr_peer_kind kind[] = { HR_PEER_GRANT, HR_PEER_CLEAN,
						  HR_PEER_INVALIDATE };

	for (uint32_t i = 0; i < 3; i++) {
		up();
		RIG->m.set[SET].tag[3] = HR_PAGE_WORD(IO_RIG_EPOCH, HR_PAGE_LEFT | HR_PAGE_SHARED);
		keep(SET, 3, HR_PEER_REQUEST_DROP, 0, false);
		io_rig_send(1, (struct hr_peer_message){ page, 3, kind[i], false, 0, 0 });
		cr_expect(hr_peer_pages_take(W, 1));
		cr_expect(!W->role.failed);
		cr_expect_eq(RIG->m.set[SET].tag[3],
			     HR_PAGE_WORD(IO_RIG_EPOCH, HR_PAGE_LEFT | HR_PAGE_SHARED));
		cr_expect_eq(hr_peer_way(RIG->peers.set[SET].way[3]).answer, 0);
		cr_expect_eq(hr_peer_way(RIG->peers.set[SET].way[3]).time, 2);
		io_rig_down();
	}
	/* it has left, and DROP is not sent yet: INVALIDATE is answered by it */
	up();
	RIG->m.set[SET].tag[3] = HR_PAGE_WORD(IO_RIG_EPOCH + 1, HR_PAGE_LEFT | HR_PAGE_SHARED);
	STEP(told(HR_PEER_INVALIDATE, page, 3),
	     "= 1 w.moved_ns 0>1000000000 k13.3 request 0 answer 5 e10 t23 k13 listed list "
	     "to 1 list[16] s13 taken1p 1 -> 1 tookp 1");
	passes(1);
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 0>1 k13.3 request 3 answer 0 e10 t23 k13 not listed sent1h 1 -> "
	     "1h0 DROP 13.3");
}

Test(io_peers_pages, orders_fit_the_state_of_their_page)
{
	const uint32_t ready = HR_PAGE_READY | HR_PAGE_SHARED;
	const uint32_t asks = HR_PEER_REQUEST_PAGE, drops = HR_PEER_REQUEST_DROP;
	const struct {
		enum hr_peer_kind kind;
		uint32_t state, request, answer;
		bool fits;
	} row[] = {
		{ HR_PEER_FILL, HR_PAGE_READING, asks, 0, true },
		{ HR_PEER_FILL, HR_PAGE_READING, 0, 0, false },
		{ HR_PEER_FILL, HR_PAGE_READING, HR_PEER_REQUEST_WRITE, 0, false },
		{ HR_PEER_FILL, ready, asks, 0, false },
		{ HR_PEER_FILL, HR_PAGE_FREE, asks, 0, false },
		{ HR_PEER_COPY, HR_PAGE_READING, asks, 0, true },
		{ HR_PEER_COPY, HR_PAGE_ERROR, asks, 0, false },
		{ HR_PEER_GRANT, ready, HR_PEER_REQUEST_WRITE, 0, true },
		{ HR_PEER_GRANT, ready, 0, HR_PEER_ANSWER_FILLED, false },
		{ HR_PEER_GRANT, HR_PAGE_ERROR, 0, 0, false },
		{ HR_PEER_CLEAN, HR_PAGE_REDIRTY, 0, 0, true },
		{ HR_PEER_CLEAN, HR_PAGE_READY, 0, HR_PEER_ANSWER_CLEANED, false },
		{ HR_PEER_CLEAN, HR_PAGE_READING, asks, 0, false },
		{ HR_PEER_INVALIDATE, ready, 0, 0, true },
		{ HR_PEER_INVALIDATE, ready, 0, HR_PEER_ANSWER_INVALIDATE, false },
		{ HR_PEER_INVALIDATE, HR_PAGE_FREE, 0, 0, false },
		{ HR_PEER_DROPPED, HR_PAGE_LEFT | HR_PAGE_SHARED, drops, 0, true },
		{ HR_PEER_DROPPED, HR_PAGE_LEFT | HR_PAGE_SHARED, 0, 0, false },
		{ HR_PEER_DROPPED, HR_PAGE_LEFT, drops, 0, false },
		{ HR_PEER_DROPPED, ready, drops, 0, false },
		{ HR_PEER_GRANT, HR_PAGE_LEFT, 0, 0, false },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		hold(row[i].state, row[i].request, row[i].answer);
		W->asked = 4;
		cr_expect(told(row[i].kind, row[i].kind == HR_PEER_DROPPED ? SET : page, 3));
		cr_expect_eq(W->role.failed, !row[i].fits, "row %u", i);
		cr_expect_eq(W->role.status->failure.error, row[i].fits ? 0 : -EPROTO);
		cr_expect_eq(W->role.status->failure.peer, row[i].fits ? 0 : 2);
		if (!row[i].fits)
			cr_expect_eq(HR_PAGE_KIND(RIG->m.set[SET].tag[3]), row[i].state, "row %u",
				     i);
		io_rig_down();
		/* another page of the set */
		hold(row[i].state, row[i].request, row[i].answer);
		W->asked = 4;
		if (row[i].kind != HR_PEER_DROPPED) {
			(void)told(row[i].kind, next_page, 3);
			cr_expect(W->role.failed, "row %u", i);
		}
		io_rig_down();
	}
	/* of several messages with one bad, the reads are not begun */
	want(false);
	io_rig_send(1, (struct hr_peer_message){ page, 3, HR_PEER_FILL, false, 0, 0 });
	STEP(told(HR_PEER_GRANT, next_page, 1),
	     "= 1 w.stopped 0>1 w.peer 0>2 w.role.failed 0>1 words.stop 0>2 status1 failed "
	     "0>1 failure -71 role 3 source 0 page -1 lba 0 object 0 qid 11 cid 0 opcode 2 "
	     "peer 2 taken1p 2 -> 1 tookp 2");
}

/* ---- victims */

Test(io_peers_pages, pages_without_messages_on_their_way_can_leave)
{
	up();
	for (uint32_t way = 0; way < HR_WAYS; way++)
		RIG->m.set[SET].tag[way] =
			HR_PAGE_WORD(OTHERS + way, HR_PAGE_READY | (way % 2 ? HR_PAGE_SHARED : 0));
	RIG->m.set[SET].tag[4] = HR_PAGE_WORD(OTHERS, HR_PAGE_ERROR);
	keep(SET, 0, HR_PEER_REQUEST_WRITE, 0, false);
	keep(SET, 2, 0, HR_PEER_ANSWER_CLEAN, false);
	keep(SET, 6, 0, 0, true);
	cr_expect_eq(hr_io_peers_idle(W, SET), 0x3a);
	cr_expect_eq(hr_io_peers_idle(W, SET + 1), 0x7f);
	W->reserve = 3;
	io_rig_request(page, 0);
	(void)hr_io_requests(W);
	STEP((hr_io_make_room(W), 0),
	     "= 0 w.room 1>0 count.evictions 0>3 s13.1 READY+ p240>LEFT+@42 s13.3 READY+ "
	     "p70>LEFT+@42 s13.4 ERROR p189>LEFT@42 s13.recency 0>500 k13 listed list to 1 "
	     "list[16] s13");
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 0>1 s13.2 READY p39>READY+ p39 k13.2 request 0 answer 0 e0 t0 "
	     "list to 2 list[17] s13 sent1h 1 -> 1h0 CLEANED 39.2");
	passes(2);
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 1>2 k13.1 request 3 answer 0 e0 t23 k13.3 request 3 answer 0 e0 "
	     "t23 k13 not listed sent1h 3 -> 1h1 DROP 13.1 -> 1h2 DROP 13.3");
}

/* ---- the list */

Test(io_peers_pages, each_set_is_in_the_list_once)
{
	up();
	STEP((hr_io_peers_list(W, SET), 0), "= 0 k13 listed list to 1 list[16] s13");
	STEP((hr_io_peers_list(W, SET), 0), "= 0");
	STEP((hr_io_peers_list(W, 31), 0), "= 0 k31 listed list to 2 list[17] s31");
	STEP(hr_peer_pages_pending(W), "= 0 w.pending 0>2 k13 not listed k31 not listed");
	RIG->peers.worker[1].pending = W->pending = 47; /* the last of 16 places */
	STEP((hr_io_peers_list(W, FAR_SET), 0), "= 0 k22 listed list to 48 list[31] s22");
	STEP((hr_io_peers_list(W, OWN_SET), 0), "= 0 k5 listed list to 49 list[16] s5");
	STEP(hr_peer_pages_pending(W), "= 0 w.pending 47>49 k5 not listed k22 not listed");
}

Test(io_peers_pages, all_ways_of_all_pending_sets_go_on)
{
	up();
	for (uint32_t i = 0; i < 2; i++) {
		io_rig_put(page + i, 0, HR_PAGE_READY | HR_PAGE_SHARED);
		keep(io_rig_set(page + i), 0, 0, HR_PEER_ANSWER_FILLED, false);
		RIG->m.set[io_rig_set(page + i)].tag[6] =
			HR_PAGE_WORD(IO_RIG_EPOCH, HR_PAGE_LEFT | HR_PAGE_SHARED);
		RIG->m.set[io_rig_set(page + i)].tag[5] = HR_PAGE_WORD(IO_RIG_EPOCH, HR_PAGE_LEFT);
		hr_io_peers_list(W, io_rig_set(page + i));
	}
	STEP(hr_peer_pages_pending(W),
	     "= 1 w.pending 0>2 k13.0 request 0 answer 0 e0 t0 k13.6 request 3 answer 0 e0 "
	     "t23 k13 not listed k14.0 request 0 answer 0 e0 t0 k14.6 request 3 answer 0 e0 "
	     "t23 k14 not listed sent1h 4 -> 1h0 FILLED 13.0 -> 1h1 DROP 13.6 -> 1h2 FILLED "
	     "14.0 -> 1h3 DROP 14.6");
}

/* ---- late answers */

Test(io_peers_pages, answers_of_homes_and_epochs_may_be_late)
{
	static const struct {
		uint32_t request, answer, age;
		bool left;
		uint32_t passed; /* by gpu 2, before w.seen */
		bool late;
		uint32_t gpu;
	} row[] = {
		/* 7 units for an epoch, 21 for a home, and one */
		{ HR_PEER_REQUEST_PAGE, 0, 22, false, 0, false, 0 },
		{ HR_PEER_REQUEST_PAGE, 0, 23, false, 0, true, 1 },
		{ HR_PEER_REQUEST_WRITE, 0, 23, false, 0, true, 1 },
		{ HR_PEER_REQUEST_DROP, 0, 23, true, 0, true, 1 },
		{ 0, HR_PEER_ANSWER_CLEAN, 8, false, 0, false, 0 },
		{ 0, HR_PEER_ANSWER_CLEAN, 9, false, 0, true, HR_IO_NONE },
		{ 0, HR_PEER_ANSWER_INVALIDATE, 9, false, 8, true, 2 },
		{ 0, HR_PEER_ANSWER_INVALIDATE, 9, false, 7, true, HR_IO_NONE },
		{ 0, HR_PEER_ANSWER_INVALIDATE, 8, false, 8, false, 0 },
		{ 0, HR_PEER_ANSWER_CLEANED, 31, false, 0, false, 0 },
		{ 0, HR_PEER_ANSWER_FILLED, 31, false, 0, false, 0 },
		{ 0, 0, 31, false, 0, false, 0 },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		uint32_t gpu = 77, which = 77;
		struct hr_peer_way its = { row[i].request, row[i].answer, true, 3, 0 };

		up();
		W->peer_time = 68;
		its.time = (68 - row[i].age) & HR_PEER_CLOCK;
		io_rig_put(page, 6, HR_PAGE_READY);
		if (row[i].left)
			RIG->m.set[SET].tag[6] = HR_PAGE_WORD(40, HR_PAGE_LEFT | HR_PAGE_SHARED);
		RIG->peers.set[SET].way[6] = hr_peer_way_bits(&its);
		RIG->peers.words->passed[1] = W->seen;
		RIG->peers.words->passed[2] = W->seen - row[i].passed;
		cr_expect_eq(hr_peer_pages_late(W, SET, &gpu, &which), row[i].late, "row %u", i);
		cr_expect_eq(gpu, row[i].late ? row[i].gpu : 77, "row %u: %u", i, gpu);
		cr_expect_eq(which,
			     !row[i].late  ? 77
			     : row[i].left ? HR_NO_PAGE
					   : page,
			     "row %u", i);
		cr_expect(!hr_peer_pages_late(W, SET - 1, &gpu, &which));
		io_rig_down();
	}
	up();
}
