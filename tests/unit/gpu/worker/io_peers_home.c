/* The home of rows of three gpus, message by message: the directory, and what it answers. The texts are
 * of tests/harness/io_rig.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "gpu/worker/io_peers_home.h"
#include "tests/harness/io_rig.h"

TestSuite(io_peers_home, .fini = io_rig_down, .timeout = 60);

/* Rows 1 and 7 of 8, with four sets each, have their home and owner here. */
#define SET 5u
#define FAR_SET 30u
static const struct io_rig_shape three = { .group_shift = 2, .gpus = 3 };

static uint32_t page, far_page, other_page; /* other_page: also in SET */

static void up(void)
{
	io_rig_up(&three);
	page = io_rig_page(SET, 0);
	other_page = io_rig_page(SET, 1);
	far_page = io_rig_page(FAR_SET, 0);
}

static void put(uint32_t gpu, enum hr_peer_kind kind, uint32_t at, uint32_t way, bool flag)
{
	io_rig_send(gpu, (struct hr_peer_message){ at, way, kind, flag, 0, 0 });
}

static int said(uint32_t gpu, enum hr_peer_kind kind, uint32_t at, uint32_t way, bool flag)
{
	put(gpu, kind, at, way, flag);
	return hr_peer_home_take(W, gpu);
}

/* Without a look at what changes. */
static void say(uint32_t gpu, enum hr_peer_kind kind, uint32_t way, bool flag)
{
	cr_assert(said(gpu, kind, kind == HR_PEER_DROP ? SET : page, way, flag));
	cr_assert(!W->role.failed);
}

#define SAID(gpu, kind, at, way, flag, text) STEP(said(gpu, HR_PEER_##kind, at, way, flag), text)

/* Gpu 1 has read the page into way 3, and gpu 2 has a copy in way 6. */
static void share(void)
{
	up();
	say(1, HR_PEER_GET, 3, false);
	say(1, HR_PEER_FILLED, 3, false);
	say(2, HR_PEER_GET, 6, false);
	say(2, HR_PEER_FILLED, 6, false);
}

/* Gpu 1 may write to the page in way 3. */
static void own(void)
{
	up();
	say(1, HR_PEER_GET, 3, true);
	say(1, HR_PEER_FILLED, 3, false);
}

Test(io_peers_home, a_page_is_read_once_and_then_copied)
{
	up();
	STEP(hr_peer_home_take(W, 1), "= 0");
	SAID(1, GET, page, 3, false,
	     "= 1 D5/1.3 FILLING p44 o1 t119 taken1h 1 sent1p 1 -> 1 tookh 1 -> 1p0 FILL "
	     "44.3");
	SAID(2, GET, page, 6, false, "= 1 D5/2.6 WANTS p44 o1 t119 taken2h 1 -> 2 tookh 1");
	SAID(0, GET, page, 0, false,
	     "= 1 D5/0.0 WANTS p44 o2 t119 taken0h 1 -> 0h0 GET 44.0 -> 0 tookh 1");
	SAID(1, FILLED, page, 3, false,
	     "= 1 D5/0.0 COPYING p44 of 1.3 o2 t119 D5/1.3 SHARED p44 o1 t119 D5/2.6 COPYING "
	     "p44 of 1.3 o1 t119 sent0p 1 -> 0p0 COPY 44.0 of 1.3 taken1h 2 -> 1 tookh 2 "
	     "sent2p 1 -> 2p0 COPY 44.6 of 1.3");
	SAID(0, FILLED, page, 0, false,
	     "= 1 D5/0.0 SHARED p44 o2 t119 taken0h 2 -> 0h1 FILLED 44.0 -> 0 tookh 2");
	W->peer_time++;
	SAID(2, FILLED, page, 6, false, "= 1 D5/2.6 SHARED p44 o1 t120 taken2h 2 -> 2 tookh 2");
	fake_clock_advance(20000000);
	W->peer_time += 2;
	SAID(2, GET, far_page, 0, true,
	     "= 1 D30/2.0 FILLING p4 WRITE o1 t122 taken2h 3 sent2p 2 -> 2 tookh 3 -> 2p1 "
	     "FILL 4.0");
	SAID(2, GET, other_page, 0, false,
	     "= 1 D5/2.0 FILLING p77 o1 t122 taken2h 4 sent2p 3 -> 2 tookh 4 -> 2p2 FILL "
	     "77.0");
}

Test(io_peers_home, a_page_that_could_not_be_read_is_read_by_the_next_gpu)
{
	up();
	say(1, HR_PEER_GET, 3, true);
	say(2, HR_PEER_GET, 6, false);
	SAID(1, FILLED, page, 3, true,
	     "= 1 D5/1.3 NONE D5/2.6 FILLING p44 o2 t119 taken1h 2 -> 1 tookh 2 sent2p 1 -> "
	     "2p0 FILL 44.6");
	SAID(2, FILLED, page, 6, true, "= 1 D5/2.6 NONE taken2h 2 -> 2 tookh 2");
}

Test(io_peers_home, a_writer_waits_until_the_others_have_left)
{
	share();
	say(0, HR_PEER_GET, 0, false);
	say(0, HR_PEER_FILLED, 0, false);
	SAID(2, UPGRADE, page, 6, false,
	     "= 1 D5/0.0 INVALIDATING p44 o1 t119 D5/1.3 INVALIDATING p44 o1 t119 D5/2.6 "
	     "SHARED p44 WRITE o1 t119 sent0p 2 -> 0p1 INVALIDATE 44.0 sent1p 2 -> 1p1 "
	     "INVALIDATE 44.3 taken2h 3 -> 2 tookh 3");
	SAID(1, DROP, SET, 3, false,
	     "= 1 D5/1.3 NONE p44 o1 t119 taken1h 3 sent1p 3 -> 1 tookh 3 -> 1p2 DROPPED 5.3");
	SAID(0, DROP, SET, 0, false,
	     "= 1 D5/0.0 NONE p44 o1 t119 D5/2.6 EXCLUSIVE p44 o1 t119 taken0h 3 sent0p 3 -> "
	     "0h2 DROP 5.0 -> 0 tookh 3 -> 0p2 DROPPED 5.0 sent2p 2 -> 2p1 GRANT 44.6");
	SAID(2, UPGRADE, page, 6, false, "= 1 taken2h 4 -> 2 tookh 4");
}

Test(io_peers_home, the_only_holder_may_write_at_once)
{
	up();
	SAID(1, GET, page, 3, true,
	     "= 1 D5/1.3 FILLING p44 WRITE o1 t119 taken1h 1 sent1p 1 -> 1 tookh 1 -> 1p0 "
	     "FILL 44.3");
	SAID(1, FILLED, page, 3, false,
	     "= 1 D5/1.3 EXCLUSIVE p44 o1 t119 taken1h 2 sent1p 2 -> 1 tookh 2 -> 1p1 GRANT "
	     "44.3");
	/* EXCLUSIVE: it left by itself */
	SAID(1, DROP, SET, 3, false,
	     "= 1 D5/1.3 NONE p44 o1 t119 taken1h 3 sent1p 3 -> 1 tookh 3 -> 1p2 DROPPED 5.3");
	SAID(1, GET, page, 2, false,
	     "= 1 D5/1.2 FILLING p44 o1 t119 taken1h 4 sent1p 4 -> 1 tookh 4 -> 1p3 FILL "
	     "44.2");
	say(1, HR_PEER_FILLED, 2, false);
	SAID(1, UPGRADE, page, 2, false,
	     "= 1 D5/1.2 EXCLUSIVE p44 o1 t119 taken1h 6 sent1p 5 -> 1 tookh 6 -> 1p4 GRANT "
	     "44.2");
}

Test(io_peers_home, a_page_is_clean_before_another_gpu_gets_it)
{
	own();
	SAID(2, GET, page, 6, true,
	     "= 1 D5/1.3 CLEANING p44 o1 t119 D5/2.6 WANTS p44 WRITE o1 t119 sent1p 3 -> 1p2 "
	     "CLEAN 44.3 taken2h 1 -> 2 tookh 1");
	SAID(0, GET, page, 0, false,
	     "= 1 D5/0.0 WANTS p44 o2 t119 taken0h 1 -> 0h0 GET 44.0 -> 0 tookh 1");
	SAID(1, CLEANED, page, 3, false,
	     "= 1 D5/1.3 SHARED p44 o1 t119 D5/2.6 COPYING p44 WRITE of 1.3 o1 t119 taken1h "
	     "3 -> 1 tookh 3 sent2p 1 -> 2p0 COPY 44.6 of 1.3");
	SAID(2, FILLED, page, 6, false,
	     "= 1 D5/1.3 INVALIDATING p44 o1 t119 D5/2.6 SHARED p44 WRITE o1 t119 sent1p 4 "
	     "-> 1p3 INVALIDATE 44.3 taken2h 2 -> 2 tookh 2");
	SAID(1, DROP, SET, 3, false,
	     "= 1 D5/1.3 NONE p44 o1 t119 D5/2.6 CLEANING p44 o1 t119 taken1h 4 sent1p 5 -> "
	     "1 tookh 4 -> 1p4 DROPPED 5.3 sent2p 3 -> 2p1 GRANT 44.6 -> 2p2 CLEAN 44.6");
	SAID(2, CLEANED, page, 6, false,
	     "= 1 D5/0.0 COPYING p44 of 2.6 o2 t119 D5/2.6 SHARED p44 o1 t119 sent0p 1 -> "
	     "0p0 COPY 44.0 of 2.6 taken2h 3 -> 2 tookh 3");
	SAID(0, FILLED, page, 0, false,
	     "= 1 D5/0.0 SHARED p44 o2 t119 taken0h 2 -> 0h1 FILLED 44.0 -> 0 tookh 2");
}

/* The page left before CLEAN came. */
Test(io_peers_home, a_page_that_left_instead_is_read_again)
{
	own();
	say(2, HR_PEER_GET, 6, false);
	SAID(1, DROP, SET, 3, false,
	     "= 1 D5/1.3 NONE p44 o1 t119 D5/2.6 FILLING p44 o1 t119 taken1h 3 sent1p 4 -> 1 "
	     "tookh 3 -> 1p3 DROPPED 5.3 sent2p 1 -> 2p0 FILL 44.6");
}

/* The writer that asked first writes first; of the other the WRITE is void with its copy. */
Test(io_peers_home, writers_come_in_the_order_of_their_requests)
{
	share();
	say(0, HR_PEER_GET, 0, false);
	SAID(2, UPGRADE, page, 6, false,
	     "= 1 D5/2.6 SHARED p44 WRITE o1 t119 taken2h 3 -> 2 tookh 3");
	SAID(1, UPGRADE, page, 3, false,
	     "= 1 D5/1.3 SHARED p44 WRITE o2 t119 taken1h 3 -> 1 tookh 3");
	SAID(1, UPGRADE, page, 3, false, "= 1 taken1h 4 -> 1 tookh 4");
	SAID(0, FILLED, page, 0, false,
	     "= 1 D5/0.0 INVALIDATING p44 o1 t119 D5/1.3 INVALIDATING p44 o2 t119 taken0h 2 "
	     "sent0p 2 -> 0h1 FILLED 44.0 -> 0 tookh 2 -> 0p1 INVALIDATE 44.0 sent1p 2 -> "
	     "1p1 INVALIDATE 44.3");
	SAID(1, UPGRADE, page, 3, false, "= 1 taken1h 5 -> 1 tookh 5");
	SAID(0, DROP, SET, 0, false,
	     "= 1 D5/0.0 NONE p44 o1 t119 taken0h 3 sent0p 3 -> 0h2 DROP 5.0 -> 0 tookh 3 -> "
	     "0p2 DROPPED 5.0");
	SAID(1, GET, page, 5, true, "= 1 D5/1.5 WANTS p44 WRITE o2 t119 taken1h 6 -> 1 tookh 6");
	SAID(1, DROP, SET, 3, false,
	     "= 1 D5/1.3 NONE p44 o2 t119 D5/2.6 CLEANING p44 o1 t119 taken1h 7 sent1p 3 -> "
	     "1 tookh 7 -> 1p2 DROPPED 5.3 sent2p 3 -> 2p1 GRANT 44.6 -> 2p2 CLEAN 44.6");
}

/* A gpu that only reads does not come before a writer that asked earlier, and not after a later one. */
Test(io_peers_home, readers_come_between_writers_in_their_order)
{
	up();
	say(1, HR_PEER_GET, 3, true);
	SAID(2, GET, page, 6, true, "= 1 D5/2.6 WANTS p44 WRITE o2 t119 taken2h 1 -> 2 tookh 1");
	SAID(0, GET, page, 0, false,
	     "= 1 D5/0.0 WANTS p44 o3 t119 taken0h 1 -> 0h0 GET 44.0 -> 0 tookh 1");
	SAID(1, FILLED, page, 3, false,
	     "= 1 D5/1.3 CLEANING p44 o1 t119 taken1h 2 sent1p 3 -> 1 tookh 2 -> 1p1 GRANT "
	     "44.3 -> 1p2 CLEAN 44.3");
	SAID(1, CLEANED, page, 3, false,
	     "= 1 D5/1.3 SHARED p44 o1 t119 D5/2.6 COPYING p44 WRITE of 1.3 o2 t119 taken1h "
	     "3 -> 1 tookh 3 sent2p 1 -> 2p0 COPY 44.6 of 1.3");
}

/* Entries that wait have an order, be they the first or the last of the set. */
Test(io_peers_home, a_request_comes_after_those_that_wait)
{
	up();
	say(1, HR_PEER_GET, 3, false);
	say(0, HR_PEER_GET, 0, false);
	SAID(2, GET, page, 6, false, "= 1 D5/2.6 WANTS p44 o2 t119 taken2h 1 -> 2 tookh 1");
	SAID(1, GET, page, 0, false, "= 1 D5/1.0 WANTS p44 o3 t119 taken1h 2 -> 1 tookh 2");
	SAID(1, FILLED, page, 3, true,
	     "= 1 D5/0.0 FILLING p44 o1 t119 D5/1.3 NONE sent0p 1 -> 0p0 FILL 44.0 taken1h 3 "
	     "-> 1 tookh 3");
}

/* Orders have 16 bits, and wrap. */
Test(io_peers_home, orders_wrap)
{
	uint64_t *entry;

	share();
	say(0, HR_PEER_GET, 0, false);
	entry = &RIG->peers.directory[hr_peers_directory(&RIG->access.cache, 3, SET)];
	entry[1 * HR_WAYS + 3] = (entry[1 * HR_WAYS + 3] & ~0xffff00ull) | 0xfffe00 | 1ull << 32;
	SAID(2, UPGRADE, page, 6, false,
	     "= 1 D5/2.6 SHARED p44 WRITE o65535 t119 taken2h 3 -> 2 tookh 3");
	SAID(2, GET, page, 5, true, "= 1 D5/2.5 WANTS p44 WRITE o0 t119 taken2h 4 -> 2 tookh 4");
	SAID(0, FILLED, page, 0, false,
	     "= 1 D5/0.0 INVALIDATING p44 o1 t119 D5/2.6 INVALIDATING p44 o65535 t119 "
	     "taken0h 2 sent0p 2 -> 0h1 FILLED 44.0 -> 0 tookh 2 -> 0p1 INVALIDATE 44.0 "
	     "sent2p 2 -> 2p1 INVALIDATE 44.6");
}

Test(io_peers_home, a_copy_that_is_read_is_kept_until_then)
{
	share();
	say(0, HR_PEER_GET, 0, false);
	SAID(2, DROP, SET, 6, false, "= 1 D5/2.6 SHARED p44 DROP o1 t119 taken2h 3 -> 2 tookh 3");
	SAID(1, DROP, SET, 3, false,
	     "= 1 D5/1.3 NONE taken1h 3 sent1p 2 -> 1 tookh 3 -> 1p1 DROPPED 5.3");
	SAID(1, GET, page, 5, false, "= 1 D5/1.5 WANTS p44 o1 t119 taken1h 4 -> 1 tookh 4");
	SAID(0, FILLED, page, 0, true,
	     "= 1 D5/0.0 NONE D5/1.5 FILLING p44 o1 t119 D5/2.6 NONE taken0h 2 -> 0h1 FILLED "
	     "44.0 flag -> 0 tookh 2 sent1p 3 -> 1p2 FILL 44.5 sent2p 2 -> 2p1 DROPPED 5.6");
	SAID(1, FILLED, page, 5, false, "= 1 D5/1.5 SHARED p44 o1 t119 taken1h 5 -> 1 tookh 5");
}

Test(io_peers_home, copies_that_left_are_no_sources)
{
	share();
	say(0, HR_PEER_GET, 0, false);
	SAID(2, DROP, SET, 6, false, "= 1 D5/2.6 SHARED p44 DROP o1 t119 taken2h 3 -> 2 tookh 3");
	SAID(1, GET, page, 0, false,
	     "= 1 D5/1.0 COPYING p44 of 1.3 o1 t119 taken1h 3 sent1p 2 -> 1 tookh 3 -> 1p1 "
	     "COPY 44.0 of 1.3");
	SAID(0, FILLED, page, 0, false,
	     "= 1 D5/0.0 SHARED p44 o1 t119 D5/2.6 NONE taken0h 2 -> 0h1 FILLED 44.0 -> 0 "
	     "tookh 2 sent2p 2 -> 2p1 DROPPED 5.6");
}

/* ---- messages that break the protocol */

static void expect_broken(uint32_t gpu, enum hr_peer_kind kind, uint32_t at, uint32_t way,
			  bool broken)
{
	cr_expect(said(gpu, kind, at, way, false));
	cr_expect_eq(W->role.failed, broken, "%u of %u in way %u", kind, at, way);
	cr_expect_eq(W->role.status->failure.error, broken ? -EPROTO : 0);
	cr_expect_eq(W->role.status->failure.peer, broken ? gpu + 1 : 0);
	io_rig_down();
}

Test(io_peers_home, messages_fit_the_state_of_their_entry)
{
	static const struct {
		void (*before)(void);
		uint32_t gpu;
		enum hr_peer_kind kind;
		uint32_t way;
		bool broken;
	} row[] = {
		{ share, 1, HR_PEER_GET, 3, true },	{ share, 1, HR_PEER_GET, 2, false },
		{ share, 1, HR_PEER_FILLED, 3, true },	{ share, 1, HR_PEER_CLEANED, 3, true },
		{ share, 1, HR_PEER_DROP, 3, false },	{ share, 1, HR_PEER_DROP, 2, true },
		{ share, 1, HR_PEER_UPGRADE, 2, true }, { share, 2, HR_PEER_UPGRADE, 6, false },
		{ own, 1, HR_PEER_UPGRADE, 3, false },	{ own, 1, HR_PEER_CLEANED, 3, true },
		{ own, 1, HR_PEER_DROP, 3, false },	{ own, 1, HR_PEER_FILLED, 3, true },
		{ own, 2, HR_PEER_FILLED, 3, true },	{ own, 1, HR_PEER_GET, 3, true },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		row[i].before();
		expect_broken(row[i].gpu, row[i].kind, row[i].kind == HR_PEER_DROP ? SET : page,
			      row[i].way, row[i].broken);
	}
	/* another page of the set */
	share();
	expect_broken(1, HR_PEER_UPGRADE, other_page, 3, true);
	up();
	say(1, HR_PEER_GET, 3, false);
	expect_broken(1, HR_PEER_DROP, SET, 3, true); /* FILLING */
	share();
	say(1, HR_PEER_DROP, 3, false);
	expect_broken(1, HR_PEER_DROP, SET, 3, true); /* it is NONE */
	up();
	STEP(said(2, HR_PEER_CLEANED, page, 1, false),
	     "= 1 w.stopped 0>1 w.peer 0>3 w.role.failed 0>1 words.stop 0>2 status1 failed "
	     "0>1 failure -71 role 3 source 0 page -1 lba 0 object 0 qid 11 cid 0 opcode 2 "
	     "peer 3 taken2h 1 -> 2 tookh 1");
}

/* ---- batches and rings */

Test(io_peers_home, messages_of_several_sets_are_handled_together)
{
	up();
	put(2, HR_PEER_GET, page, 1, false);
	put(2, HR_PEER_GET, far_page, 2, true);
	put(2, HR_PEER_GET, other_page, 3, false);
	STEP(hr_peer_home_take(W, 2),
	     "= 1 D5/2.1 FILLING p44 o1 t119 D5/2.3 FILLING p77 o1 t119 D30/2.2 FILLING p4 "
	     "WRITE o1 t119 taken2h 3 sent2p 3 -> 2 tookh 3 -> 2p0 FILL 44.1 -> 2p1 FILL 4.2 "
	     "-> 2p2 FILL 77.3");
	put(2, HR_PEER_FILLED, far_page, 2, false);
	put(2, HR_PEER_CLEANED, page, 1, false);
	put(2, HR_PEER_FILLED, other_page, 3, false);
	STEP(hr_peer_home_take(W, 2),
	     "= 1 w.stopped 0>1 w.peer 0>3 w.role.failed 0>1 words.stop 0>2 status1 failed "
	     "0>1 failure -71 role 3 source 0 page -1 lba 0 object 0 qid 11 cid 0 opcode 2 "
	     "peer 3 D5/2.1 SHARED p44 o1 t119 D5/2.3 SHARED p77 o1 t119 D30/2.2 EXCLUSIVE "
	     "p4 o1 t119 taken2h 6 sent2p 4 -> 2 tookh 6 -> 2p3 GRANT 4.2");
}

/* So many messages to gpu 0 or 2 are on their way. */
static void fill_ring(uint32_t gpu, uint32_t free)
{
	RIG->peers.worker[1].sent[gpu][HR_FROM_HOME] = 1000 + HR_PEER_RING_FROM - free;
	io_rig_taken(gpu, HR_FROM_HOME, 1000);
}

Test(io_peers_home, a_message_waits_until_its_answers_have_room)
{
	static const struct {
		uint32_t gpu, free;
		bool twice; /* another message of the set */
		uint32_t taken;
	} row[] = {
		/* GET of a page that gpus 1 and 2 have once: two answers to one of them, and one */
		{ 0, 2, false, 0 },   { 0, 3, false, 1 }, { 2, 2, false, 0 }, { 2, 3, false, 1 },
		{ 0, 128, false, 1 }, { 0, 7, true, 0 },  { 1, 8, true, 1 },  { 2, 15, true, 1 },
		{ 1, 16, true, 2 },   { 1, 0, false, 0 },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		share();
		fill_ring(row[i].gpu, row[i].free);
		put(0, HR_PEER_GET, page, 0, false);
		if (row[i].twice)
			put(0, HR_PEER_GET, other_page, 5, false);
		cr_expect_eq(hr_peer_home_take(W, 0), row[i].taken != 0, "row %u", i);
		cr_expect_eq(RIG->peers.worker[1].taken[0][HR_TO_HOME], row[i].taken, "row %u: %u",
			     i, (unsigned)RIG->peers.worker[1].taken[0][HR_TO_HOME]);
		io_rig_down();
	}
	/* DROP: one entry of each gpu, and one more */
	for (uint32_t free = 1; free < 3; free++) {
		share();
		fill_ring(0, free);
		put(1, HR_PEER_DROP, SET, 3, false);
		cr_expect_eq(hr_peer_home_take(W, 1), free == 2);
		if (free == 1)
			io_rig_down();
	}
}

Test(io_peers_home, a_batch_has_so_many_messages)
{
	up();
	for (uint32_t i = 0; i < 40; i++)
		put(1, HR_PEER_UPGRADE, page, 3, false);
	RIG->peers.directory[hr_peers_directory(&RIG->access.cache, 3, SET) + HR_WAYS + 3] =
		(uint64_t)hr_page_position_of(&RIG->access.cache.shape, page).tag << 36 |
		(uint64_t)HR_PEER_EXCLUSIVE << 33;
	cr_expect(hr_peer_home_take(W, 1));
	/* messages of one set may have eight answers each */
	cr_expect_eq(RIG->peers.worker[1].taken[1][HR_TO_HOME], HR_PEER_RING_FROM / 8);
}

/* ---- late answers */

Test(io_peers_home, orders_that_are_not_answered_in_time_are_late)
{
	static const struct {
		enum hr_peer_state state;
		uint32_t age;
		bool late;
	} row[] = {
		{ HR_PEER_FILLING, 15, false },	    { HR_PEER_FILLING, 16, true },
		{ HR_PEER_COPYING, 16, true },	    { HR_PEER_CLEANING, 16, true },
		{ HR_PEER_INVALIDATING, 16, true }, { HR_PEER_INVALIDATING, 15, false },
		{ HR_PEER_NONE, 200, false },	    { HR_PEER_WANTS, 200, false },
		{ HR_PEER_SHARED, 200, false },	    { HR_PEER_EXCLUSIVE, 200, false },
		{ HR_PEER_FILLING, 255, true },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++)
		for (uint32_t at = 0; at < 21; at += 10) {
			uint32_t gpu = 99, which = 99;
			uint64_t *entry;

			up();
			W->peer_time = 1003;
			entry = &RIG->peers.directory[hr_peers_directory(&RIG->access.cache, 3,
									 FAR_SET)];
			entry[at] =
				(uint64_t)hr_page_position_of(&RIG->access.cache.shape, far_page)
						.tag
					<< 36 |
				(uint64_t)row[i].state << 33 | ((1003 - row[i].age) & 0xff);
			cr_expect_eq(hr_peer_home_late(W, FAR_SET, &gpu, &which), row[i].late,
				     "row %u", i);
			cr_expect_eq(gpu, row[i].late ? at / HR_WAYS : 99);
			cr_expect_eq(which, row[i].late ? far_page : 99);
			cr_expect(!hr_peer_home_late(W, SET, &gpu, &which));
			cr_expect(!hr_peer_home_late(W, FAR_SET - 1, &gpu, &which));
			if (i + 1 < sizeof row / sizeof *row || at < 20)
				io_rig_down();
		}
}
