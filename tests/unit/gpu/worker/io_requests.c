/* Requests to an I/O worker: which pages get frames, which wait, which leave, and what requesters are
 * told. The texts are of tests/harness/io_rig.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "cache/page_policy.h"
#include "tests/harness/io_rig.h"

#define OTHERS 100u /* tag of a page of no request in way 0; way 1 has the next one */

TestSuite(io_requests, .fini = io_rig_down, .timeout = 60);

static const struct io_rig_shape plain = { 0 };

/* Other pages are in the ways from `first` on. */
static void fill(uint32_t set, uint32_t first, uint32_t end, uint32_t state)
{
	for (uint32_t way = first; way < end; way++)
		RIG->m.set[set].tag[way] = HR_PAGE_WORD(OTHERS + way, state);
}

static void fill_row(uint32_t row, uint32_t state)
{
	for (uint32_t set = row * 8; set < row * 8 + 8; set++)
		fill(set, 0, HR_WAYS, state);
}

#define SET 9u /* of row 1 */

/* ---- frames */

Test(io_requests, a_missing_page_gets_the_last_frame_that_is_free)
{
	io_rig_up(&plain);
	STEP(hr_io_requests(W), "= 0");
	io_rig_request(io_rig_page(SET, 0), 0);
	STEP(hr_io_requests(W),
	     "= 1 w.unused 8>7 w.sent 0>1 w.taken 0>1 w.told 0>1 w.room 0>1 w.entered 0>1 "
	     "w.moved_ns 0>1000000000 room0 s9 wants 1 unused [0 1 2 3 4 5 6] count.requests "
	     "0>1 count.reads 0>1 count.read_commands 0>1 count.serves 0>1 ring1.taken 1 "
	     "s9.6 FREE>READING p36 s9.recency 0>40 c7 SENT page 36+1 read [6] q1 #7 op2 n7 "
	     "L1288+8 F69 q1 rung");
	fill(SET + 1, 5, 7, HR_PAGE_READY);
	RIG->m.set[SET + 1].tag[3] = HR_PAGE_WORD(OTHERS, HR_PAGE_DIRTY);
	io_rig_leave(SET + 1, 4, IO_RIG_EPOCH + 1);
	io_rig_leave(SET + 1, 2, IO_RIG_EPOCH);
	io_rig_request(io_rig_page(SET + 1, 2), 0);
	STEP(hr_io_requests(W),
	     "= 1 w.unused 7>6 w.sent 1>2 w.taken 1>2 w.told 1>2 w.entered 1>2 room0 s10 "
	     "wants 1 unused [0 1 2 3 4 5] count.requests 1>2 count.reads 1>2 "
	     "count.read_commands 1>2 count.serves 1>2 ring1.taken 2 s10.2 LEFT@40>READING "
	     "p136 s10.recency 0>4 c6 SENT page 136+1 read [2] q0 #6 op2 n8 L5008+1 F72 q0 "
	     "rung");
	W->settled++;
	io_rig_request(io_rig_page(SET + 1, 3), 0);
	STEP(hr_io_requests(W),
	     "= 1 w.unused 6>5 w.sent 2>3 w.taken 2>3 w.told 2>3 w.entered 2>3 room0 s10 "
	     "wants 1 unused [0 1 2 3 4] count.requests 2>3 count.reads 2>3 "
	     "count.read_commands 2>3 count.serves 2>3 ring1.taken 3 s10.4 LEFT@41>READING "
	     "p190 s10.recency 4>14 c5 SENT page 190+1 read [4] q0 #5 op2 n8 L5062+1 F74 q0 "
	     "rung");
	STEP(hr_io_requests(W), "= 0 room0 s10 wants 1");
	STEP(hr_io_requests(W), "= 0 room0 s10 wants 1");
}

Test(io_requests, neighbours_come_together_and_each_page_once)
{
	io_rig_up(&plain);
	for (uint32_t i = 0; i < 2; i++) {
		io_rig_request(io_rig_page(8, 0), 0);
		io_rig_request(io_rig_page(8, 0) + 1, 0);
		io_rig_request(io_rig_page(8, 1), HR_REQUEST_WRITE);
	}
	STEP(hr_io_requests(W),
	     "= 1 w.unused 8>6 w.sent 0>2 w.taken 0>6 w.told 0>6 w.room 0>1 w.entered 0>3 "
	     "w.moved_ns 0>1000000000 room0 s8 wants 1 room1 s9 wants 1 unused [0 1 2 3 4 5] "
	     "count.requests 0>6 count.reads 0>3 count.read_commands 0>2 count.merges 0>3 "
	     "count.serves 0>1 ring1.taken 6 s8.5 FREE>READING p95 s8.6 FREE>READING p35 "
	     "s8.recency 0>60 s9.6 FREE>READING p36 s9.recency 0>40 c6 SENT page 95+1 read "
	     "[5] c7 SENT page 35+2 read [66] q1 #7 op2 n7 L1280+16 F62 F69 q1 #6 op2 n7 "
	     "L1760+8 F61 q1 rung");
	STEP(hr_io_requests(W), "= 0 room0 s8 wants 1 room1 s9 wants 1");
	io_rig_request(io_rig_page(8, 0), 0);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 6>7 w.told 6>7 w.room 1>0 count.requests 6>7 count.merges 3>4 "
	     "ring1.taken 7");
}

Test(io_requests, pages_in_the_table_in_any_state_are_not_requested_again)
{
	static const uint32_t state[] = { HR_PAGE_READING, HR_PAGE_ERROR,   HR_PAGE_READY,
					  HR_PAGE_DIRTY,   HR_PAGE_WRITING, HR_PAGE_REDIRTY };

	io_rig_up(&plain);
	for (uint32_t i = 0; i < 6; i++) {
		io_rig_put(io_rig_page(SET + i, 1), i, state[i]);
		io_rig_request(io_rig_page(SET + i, 1), i % 2 ? HR_REQUEST_WHOLE : 0);
	}
	STEP(hr_io_requests(W),
	     "= 1 w.taken 0>6 w.told 0>6 count.requests 0>6 count.merges 0>6 ring1.taken 6");
}

Test(io_requests, numbers_that_are_no_pages_are_dropped)
{
	io_rig_up(&plain);
	io_rig_request(100, 0);
	io_rig_request(127, 0);
	io_rig_request(192, 0);
	io_rig_request(HR_NO_PAGE, 0);
	STEP(hr_io_requests(W), "= 1 w.taken 0>4 w.told 0>4 count.requests 0>4 ring1.taken 4");
	io_rig_request(191, 0);
	io_rig_request(99, 0);
	STEP(hr_io_requests(W),
	     "= 1 w.unused 8>6 w.sent 0>2 w.taken 4>6 w.told 4>6 w.room 0>1 w.entered 0>2 "
	     "w.moved_ns 0>1000000000 room0 s11 wants 1 room1 s9 wants 1 unused [0 1 2 3 4 "
	     "5] count.requests 4>6 count.reads 0>2 count.read_commands 0>2 count.serves 0>1 "
	     "ring1.taken 6 s9.6 FREE>READING p99 s9.recency 0>40 s11.6 FREE>READING p191 "
	     "s11.recency 0>40 c6 SENT page 99+1 read [6] c7 SENT page 191+1 read [6] q0 #7 "
	     "op2 n8 L5063+1 F83 q0 rung q1 #6 op2 n7 L1792+1 F69 q1 rung");
}

/* The pages of a set are served in the order of their requests. */
Test(io_requests, several_pages_of_a_set)
{
	io_rig_up(&plain);
	fill(SET, 0, 3, HR_PAGE_READY);
	fill(SET, 5, 7, HR_PAGE_READY);
	for (uint32_t i = 0; i < 4; i++) {
		io_rig_request(io_rig_page(SET, 3 - i), 0);
		io_rig_request(io_rig_page(SET + 2, i), 0);
	}
	STEP(hr_io_requests(W),
	     "= 1 w.unused 8>3 w.sent 0>5 w.taken 0>7 w.told 0>4 w.waiting 0>2 w.room 0>1 "
	     "w.entered 0>5 w.moved_ns 0>1000000000 room0 s9 wants 2 waits room1 s11 wants 1 "
	     "waiting [p88 #4, p36 #6] unused [0 1 2] count.requests 0>7 count.reads 0>5 "
	     "count.read_commands 0>5 count.waits 0>2 count.serves 0>1 ring1.taken 4 s9.3 "
	     "FREE>READING p99 s9.4 FREE>READING p143 s9.recency 0>18 s11.4 FREE>READING "
	     "p137 s11.5 FREE>READING p90 s11.6 FREE>READING p38 s11.recency 0>70 c3 SENT "
	     "page 137+1 read [4] c4 SENT page 90+1 read [5] c5 SENT page 99+1 read [3] c6 "
	     "SENT page 38+1 read [6] c7 SENT page 143+1 read [4] q0 #7 op2 n8 L5015+1 F67 "
	     "q0 #3 op2 n8 L5009+1 F81 q0 rung q1 #6 op2 n7 L1304+8 F83 q1 #5 op2 n7 L1792+1 "
	     "F66 q1 #4 op2 n7 L1720+8 F82 q1 rung");
	STEP((hr_io_make_room(W), 0),
	     "= 0 w.room 1>0 count.evictions 0>2 s9.0 READY p93>LEFT@42 s9.1 READY "
	     "p196>LEFT@42 s9.recency 18>218");
	STEP((hr_io_make_room(W), 0), "= 0");
	STEP(hr_io_requests(W),
	     "= 1 w.unused 3>2 w.sent 5>6 w.taken 7>8 w.room 0>1 w.entered 5>6 room0 s11 "
	     "wants 1 unused [0 1] count.requests 7>8 count.reads 5>6 count.read_commands "
	     "5>6 count.waits 2>4 count.serves 1>2 s11.3 FREE>READING p191 s11.recency 70>78 "
	     "c2 SENT page 191+1 read [3] q0 #2 op2 n8 L5063+1 F80 q0 rung");
}

/* ---- the ring */

Test(io_requests, a_ring_is_taken_in_order_up_to_a_gap_and_over_its_end)
{
	io_rig_up(&plain);
	W->taken = W->told = RIG->m.ring[1].tail = 2 * HR_REQUESTS - 2;
	RIG->m.ring[1].entry[HR_REQUESTS - 2] = hr_request_entry(HR_REQUESTS - 2, 5); /* old */
	STEP(hr_io_requests(W), "= 0");
	for (uint32_t i = 0; i < 5; i++)
		io_rig_request(io_rig_page(SET + i, 0), 0);
	RIG->m.ring[1].entry[1] = 0;
	STEP(hr_io_requests(W),
	     "= 1 w.unused 8>7 w.sent 0>1 w.taken 510>513 w.told 510>513 w.room 0>1 "
	     "w.entered 0>3 w.moved_ns 0>1000000000 room0 s9 wants 1 room1 s10 wants 1 room2 "
	     "s11 wants 1 unused [0 1 2 3 4 5 6] count.requests 0>3 count.reads 0>3 "
	     "count.read_commands 0>1 count.serves 0>1 ring1.taken 513 s9.6 FREE>READING p36 "
	     "s9.recency 0>40 s10.6 FREE>READING p37 s10.recency 0>40 s11.6 FREE>READING p38 "
	     "s11.recency 0>40 c7 SENT page 36+3 read [666] q1 #7 op2 n7 L1288+24 F69 "
	     "list120 F76 F83 q1 rung");
	RIG->m.ring[1].entry[1] = hr_request_entry(2 * HR_REQUESTS + 1, io_rig_page(31, 0));
	STEP(hr_io_requests(W),
	     "= 1 w.unused 7>5 w.sent 1>3 w.taken 513>515 w.told 513>515 w.entered 3>5 room0 "
	     "s31 wants 1 room1 s13 wants 1 unused [0 1 2 3 4] count.requests 3>5 "
	     "count.reads 3>5 count.read_commands 1>3 count.serves 1>2 ring1.taken 515 s13.6 "
	     "FREE>READING p32 s13.recency 0>40 s31.6 FREE>READING p31 s31.recency 0>40 c5 "
	     "SENT page 32+1 read [6] c6 SENT page 31+1 read [6] q1 #6 op2 n7 L1248+8 F223 "
	     "q1 #5 op2 n7 L1256+8 F97 q1 rung");
}

Test(io_requests, commands_limit_the_requests_of_a_round)
{
	static const struct {
		uint32_t commands, taken, then;
	} row[] = { { 8, 7, 10 }, { 2, 1, 1 }, { 1, 1, 1 }, { 4, 3, 5 } };

	for (uint32_t i = 0; i < 4; i++) {
		io_rig_up(&(struct io_rig_shape){ .commands = row[i].commands });
		for (uint32_t k = 0; k < 10; k++)
			io_rig_request(8 * k + 1, 0);
		cr_expect(hr_io_requests(W));
		cr_expect_eq(W->taken, row[i].taken, "%u: %llu", row[i].commands,
			     (unsigned long long)W->taken);
		cr_expect_eq(hr_io_requests(W), row[i].commands > 8, "%u", i);
		W->unused = row[i].commands; /* as after their completions */
		W->asked = 1;
		hr_io_requests(W);
		cr_expect_eq(W->taken, row[i].then, "%u commands, one kept: %llu", row[i].commands,
			     (unsigned long long)W->taken);
		if (i < 3)
			io_rig_down();
	}
}

/* ---- pages that wait */

Test(io_requests, a_page_without_a_frame_waits_until_another_has_left)
{
	io_rig_up(&plain);
	fill(SET, 0, HR_WAYS, HR_PAGE_READY);
	io_rig_request(io_rig_page(SET + 1, 0), 0);
	io_rig_request(io_rig_page(SET, 0), HR_REQUEST_WRITE);
	io_rig_request(io_rig_page(SET, 1), HR_REQUEST_WHOLE);
	io_rig_request(io_rig_page(SET, 0), 0);
	fake_clock_advance(3);
	STEP(hr_io_requests(W),
	     "= 1 w.unused 8>7 w.sent 0>1 w.taken 0>4 w.told 0>1 w.waiting 0>2 w.room 0>1 "
	     "w.entered 0>1 w.moved_ns 0>1000000003 room0 s10 wants 1 room1 s9 wants 2 waits "
	     "waiting [p36 #1 w, p88 #2 whole] unused [0 1 2 3 4 5 6] count.requests 0>4 "
	     "count.reads 0>1 count.read_commands 0>1 count.merges 0>1 count.waits 0>2 "
	     "count.serves 0>1 ring1.taken 1 s10.6 FREE>READING p37 s10.recency 0>40 c7 SENT "
	     "page 37+1 read [6] q1 #7 op2 n7 L1296+8 F76 q1 rung");
	STEP((hr_io_make_room(W), 0),
	     "= 0 w.room 1>0 count.evictions 0>2 s9.0 READY p93>LEFT@42 s9.1 READY "
	     "p196>LEFT@42 s9.recency 0>200");
	fake_clock_advance(3);
	io_rig_request(io_rig_page(SET, 1), 0);
	io_rig_request(io_rig_page(SET + 2, 0), 0);
	STEP(hr_io_requests(W),
	     "= 1 w.unused 7>6 w.sent 1>2 w.taken 4>6 w.room 0>1 w.entered 1>2 w.moved_ns "
	     "1000000003>1000000006 room1 s11 wants 1 unused [0 1 2 3 4 5] count.requests "
	     "4>6 count.reads 1>2 count.read_commands 1>2 count.merges 1>2 count.waits 2>4 "
	     "count.serves 1>2 s11.6 FREE>READING p38 s11.recency 0>40 c6 SENT page 38+1 "
	     "read [6] q1 #6 op2 n7 L1304+8 F83 q1 rung");
	STEP((hr_io_make_room(W), 0), "= 0 w.room 1>0");
	W->settled = IO_RIG_EPOCH + 2;
	STEP(hr_io_requests(W),
	     "= 1 w.unused 6>5 w.sent 2>3 w.told 1>6 w.waiting 2>0 w.room 0>1 w.entered 2>3 "
	     "room0 s9 wants 1 unused [0 1 2 3 4] count.reads 2>3 count.read_commands 2>3 "
	     "count.whole 0>1 count.serves 2>3 ring1.taken 6 s9.0 LEFT@42>OFFERED p88 s9.1 "
	     "LEFT@42>READING p36 s9.recency 200>203 c5 SENT page 36+1 read [1] q1 #5 op2 n7 "
	     "L1288+8 F64 q1 rung");
	STEP(hr_io_requests(W), "= 0 room0 s9 wants 1");
}

Test(io_requests, so_many_pages_wait)
{
	io_rig_up(&plain);
	fill_row(1, HR_PAGE_DIRTY);
	fill_row(3, HR_PAGE_DIRTY);
	for (uint32_t n = 0; n < 40; n++)
		io_rig_request(io_rig_page(8 + n % 8 + n / 8 % 2 * 16, n / 16), 0);
	for (uint32_t i = 0; i < 4; i++)
		(void)hr_io_requests(W);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 28>35 w.waiting 28>32 w.urgent 3>1 room0 s28 wants 1 waits room1 "
	     "s29 wants 1 waits room2 s30 wants 1 waits room3 s31 wants 1 waits room4 s8 "
	     "wants 1 waits room5 s9 wants 1 waits room6 s10 wants 1 waits waiting [p30 #14, "
	     "p31 #15, p95 #16, p88 #17, p89 #18, p90 #19, p91 #20, p34 #7, p24 #8, p25 #9, "
	     "p26 #10, p27 #11, p28 #12, p29 #13, p92 #21, p93 #22, p94 #23, p42 #24, p43 "
	     "#25, p44 #26, p45 #27, p35 #0, p36 #1, p37 #2, p38 #3, p39 #4, p32 #5, p33 #6, "
	     "p46 #28, p47 #29, p40 #30, p41 #31] count.requests 28>35 count.waits 49>63");
	STEP(hr_io_requests(W),
	     "= 1 w.taken 35>40 room0 s11 wants 1 waits room1 s12 wants 1 waits room2 s13 "
	     "wants 1 waits room3 s14 wants 1 waits room4 s15 wants 1 waits waiting [p34 #7, "
	     "p24 #8, p25 #9, p26 #10, p27 #11, p28 #12, p29 #13, p92 #21, p93 #22, p94 #23, "
	     "p42 #24, p43 #25, p44 #26, p45 #27, p35 #0, p36 #1, p37 #2, p38 #3, p39 #4, "
	     "p32 #5, p33 #6, p46 #28, p47 #29, p40 #30, p41 #31, p30 #14, p31 #15, p95 #16, "
	     "p88 #17, p89 #18, p90 #19, p91 #20] count.requests 35>40 count.waits 63>75");
	STEP((hr_io_make_room(W), 0), "= 0 w.room 1>0");
	for (uint32_t set = 8; set < 32; set++)
		io_rig_leave(set, 2, IO_RIG_EPOCH);
	STEP(hr_io_requests(W),
	     "= 1 w.unused 8>6 w.sent 0>2 w.waiting 32>25 w.room 0>1 w.entered 0>7 room0 s15 "
	     "wants 1 room1 s24 wants 1 room2 s25 wants 1 room3 s26 wants 1 room4 s27 wants "
	     "1 room5 s28 wants 1 room6 s29 wants 1 waiting [p92 #21, p93 #22, p94 #23, p42 "
	     "#24, p43 #25, p44 #26, p45 #27, p35 #0, p36 #1, p37 #2, p38 #3, p39 #4, p32 "
	     "#5, p33 #6, p46 #28, p47 #29, p40 #30, p41 #31, p30 #14, p31 #15, p95 #16, p88 "
	     "#17, p89 #18, p90 #19, p91 #20] unused [0 1 2 3 4 5] count.reads 0>7 "
	     "count.read_commands 0>2 count.serves 0>1 s15.2 LEFT@40>READING p34 s15.recency "
	     "0>4 s24.2 LEFT@40>READING p24 s24.recency 0>4 s25.2 LEFT@40>READING p25 "
	     "s25.recency 0>4 s26.2 LEFT@40>READING p26 s26.recency 0>4 s27.2 "
	     "LEFT@40>READING p27 s27.recency 0>4 s28.2 LEFT@40>READING p28 s28.recency 0>4 "
	     "s29.2 LEFT@40>READING p29 s29.recency 0>4 c6 SENT page 24+6 read [222222] c7 "
	     "SENT page 34+1 read [2] q1 #7 op2 n7 L1272+8 F107 q1 #6 op2 n7 L1192+48 F170 "
	     "list112 F177 F184 F191 F198 F205 q1 rung");
}

Test(io_requests, a_request_that_blocks_the_ring_is_forgotten)
{
	io_rig_up(&plain);
	fill(SET, 0, HR_WAYS, HR_PAGE_DIRTY);
	fill(SET + 1, 0, HR_WAYS, HR_PAGE_DIRTY);
	fill(SET + 2, 0, HR_WAYS, HR_PAGE_DIRTY);
	io_rig_request(io_rig_page(SET, 0), 0);
	(void)hr_io_requests(W);
	io_rig_request(io_rig_page(SET + 1, 0), HR_REQUEST_WRITE);
	io_rig_request(io_rig_page(SET + 2, 0), HR_REQUEST_WHOLE);
	(void)hr_io_requests(W);
	W->taken = RIG->m.ring[1].tail = HR_REQUESTS - 1;
	STEP(hr_io_requests(W),
	     "= 0 room0 s9 wants 1 waits room1 s10 wants 1 waits room2 s11 wants 1 waits "
	     "count.waits 4>7");
	W->taken = RIG->m.ring[1].tail = HR_REQUESTS;
	STEP(hr_io_requests(W),
	     "= 0 w.told 0>1 w.waiting 3>2 room0 s9 wants 1 waits room1 s10 wants 1 waits "
	     "room2 s11 wants 1 waits waiting [p38 #2 whole, p37 #1 w] count.waits 7>10 "
	     "ring1.taken 1");
	W->taken = RIG->m.ring[1].tail = HR_REQUESTS + 7;
	STEP(hr_io_requests(W),
	     "= 0 w.told 1>2 w.waiting 2>1 room0 s11 wants 1 waits room1 s10 wants 1 waits "
	     "count.waits 10>12 ring1.taken 2");
}

/* ---- pages that leave */

struct leaves {
	uint32_t policy, recency;
	uint32_t wanted, ways; /* that are READY, from 0 on; the others stay */
	uint32_t left;	       /* mask */
};

Test(io_requests, a_set_keeps_so_many_frames_free)
{
	static const struct leaves row[] = {
		{ HR_POLICY_CLOCK, 0, 1, 7, 1 },
		{ HR_POLICY_CLOCK, 0, 3, 7, 7 },
		{ HR_POLICY_CLOCK, 0, 4, 7, 15 },
		{ HR_POLICY_CLOCK, 3, 2, 7, 12 },
		{ HR_POLICY_CLOCK, 0, 3, 2, 3 },
		{ HR_POLICY_LRU, HR_POLICY_ORDER, 2, 7, 0x60 },
		{ HR_POLICY_LRU, HR_POLICY_ORDER, 4, 3, 7 },
		/* pages that were not used leave when there is no other frame */
		{ HR_POLICY_STREAM, HR_POLICY_ORDER << 8, 3, 7, 0x40 },
		{ HR_POLICY_STREAM, HR_POLICY_ORDER << 8 | 0x10, 3, 7, 0x10 },
		{ HR_POLICY_STREAM, HR_POLICY_ORDER << 8 | 0x13, 3, 7, 0x13 },
		{ HR_POLICY_STREAM, HR_POLICY_ORDER << 8 | 0x13, 2, 7, 0x12 },
		{ HR_POLICY_COUNT, 0, 2, 7, 3 },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		uint32_t left = 0;

		io_rig_up(&(struct io_rig_shape){ .policy = row[i].policy });
		fill(SET, 0, HR_WAYS, HR_PAGE_DIRTY);
		fill(SET, 0, row[i].ways, HR_PAGE_READY);
		RIG->m.set[SET].recency = row[i].recency;
		W->reserve = row[i].wanted;
		io_rig_request(io_rig_page(SET, 0), 0);
		hr_io_requests(W);
		hr_io_make_room(W);
		for (uint32_t way = 0; way < HR_WAYS; way++)
			if (RIG->m.set[SET].tag[way] ==
			    HR_PAGE_WORD(IO_RIG_EPOCH + 2, HR_PAGE_LEFT))
				left |= 1u << way;
		cr_expect_eq(left, row[i].left, "row %u: %x", i, left);
		cr_expect_eq(W->block->count.evictions, __builtin_popcount(left), "row %u", i);
		if (i + 1 < sizeof row / sizeof *row)
			io_rig_down();
	}
}

Test(io_requests, frames_that_are_free_or_leave_count_for_the_reserve)
{
	io_rig_up(&plain);
	fill(SET, 0, HR_WAYS, HR_PAGE_READY);
	RIG->m.set[SET].tag[2] = HR_PAGE_WORD(OTHERS, HR_PAGE_ERROR);
	RIG->m.set[SET].tag[6] = 0;
	io_rig_leave(SET, 5, IO_RIG_EPOCH + 2);
	W->reserve = 2;
	io_rig_request(io_rig_page(SET, 0), 0);
	STEP(hr_io_requests(W),
	     "= 1 w.unused 8>7 w.sent 0>1 w.taken 0>1 w.told 0>1 w.room 0>1 w.entered 0>1 "
	     "w.moved_ns 0>1000000000 room0 s9 wants 2 unused [0 1 2 3 4 5 6] count.requests "
	     "0>1 count.reads 0>1 count.read_commands 0>1 count.serves 0>1 ring1.taken 1 "
	     "s9.6 FREE>READING p36 s9.recency 0>40 c7 SENT page 36+1 read [6] q1 #7 op2 n7 "
	     "L1288+8 F69 q1 rung");
	STEP((hr_io_make_room(W), 0),
	     "= 0 w.room 1>0 count.evictions 0>1 s9.0 READY p93>LEFT@42 s9.recency 40>140");
	W->reserve = 4;
	io_rig_request(io_rig_page(SET, 1), 0);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 1>2 w.waiting 0>1 w.room 0>1 room0 s9 wants 4 waits waiting [p88 "
	     "#1] count.requests 1>2 count.waits 0>1");
	STEP((hr_io_make_room(W), 0),
	     "= 0 w.room 1>0 count.evictions 1>3 s9.1 READY p196>LEFT@42 s9.2 ERROR "
	     "p93>LEFT@42 s9.recency 140>340");
}

/* One set of a batch removes pages for all its requests, at most three; the others for theirs. */
Test(io_requests, pages_leave_for_each_request_that_waits)
{
	io_rig_up(&plain);
	fill(SET, 0, HR_WAYS, HR_PAGE_READY);
	fill(SET + 1, 0, HR_WAYS, HR_PAGE_READY);
	for (uint32_t i = 0; i < 5; i++)
		io_rig_request(io_rig_page(SET, i), 0);
	io_rig_request(io_rig_page(SET + 1, 0), 0);
	io_rig_request(io_rig_page(SET + 1, 1), 0);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 0>7 w.waiting 0>7 w.room 0>1 w.moved_ns 0>1000000000 room0 s9 "
	     "wants 3 waits room5 s10 wants 2 waits waiting [p36 #0, p88 #1, p99 #2, p143 "
	     "#3, p189 #4, p37 #5, p89 #6] count.requests 0>7 count.waits 0>7");
	STEP((hr_io_make_room(W), 0),
	     "= 0 w.room 1>0 count.evictions 0>5 s9.0 READY p93>LEFT@42 s9.1 READY "
	     "p196>LEFT@42 s9.2 READY p107>LEFT@42 s9.recency 0>300 s10.0 READY p94>LEFT@42 "
	     "s10.1 READY p197>LEFT@42 s10.recency 0>200");
}

Test(io_requests, a_set_without_clean_pages_is_written_first)
{
	io_rig_up(&plain);
	fill(26, 0, HR_WAYS, HR_PAGE_DIRTY);
	fill(SET, 0, HR_WAYS, HR_PAGE_WRITING);
	io_rig_request(io_rig_page(SET, 0), 0);
	(void)hr_io_requests(W);
	STEP((hr_io_make_room(W), 0), "= 0 w.room 1>0");
	io_rig_request(io_rig_page(26, 0), 0);
	(void)hr_io_requests(W);
	STEP((hr_io_make_room(W), 0), "= 0 w.room 1>0 w.urgent 4294967295>3");
}

/* ---- pages that a worker writes as a whole */

Test(io_requests, a_page_to_write_as_a_whole_is_not_read)
{
	io_rig_up(&plain);
	io_rig_request(io_rig_page(SET, 0), HR_REQUEST_WHOLE);
	io_rig_request(io_rig_page(SET, 0), HR_REQUEST_WHOLE);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 0>2 w.told 0>2 w.room 0>1 room0 s9 wants 1 count.requests 0>2 "
	     "count.merges 0>1 count.whole 0>1 ring1.taken 2 s9.6 FREE>OFFERED p36 "
	     "s9.recency 0>40");
	io_rig_request(io_rig_page(SET, 0), HR_REQUEST_WHOLE);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 2>3 w.told 2>3 w.room 1>0 count.requests 2>3 count.merges 1>2 "
	     "ring1.taken 3");
	io_rig_request(io_rig_page(SET, 0), 0);
	STEP(hr_io_requests(W),
	     "= 1 w.unused 8>7 w.sent 0>1 w.taken 3>4 w.told 3>4 w.room 0>1 w.entered 0>1 "
	     "w.moved_ns 0>1000000000 room0 s9 wants 1 unused [0 1 2 3 4 5 6] count.requests "
	     "3>4 count.reads 0>1 count.read_commands 0>1 count.serves 0>1 ring1.taken 4 "
	     "s9.6 OFFERED p36>READING p36 c7 SENT page 36+1 read [6] q1 #7 op2 n7 L1288+8 "
	     "F69 q1 rung");
}

Test(io_requests, offered_pages_leave_after_a_grace_period)
{
	io_rig_up(&plain);
	fill(SET, 0, 5, HR_PAGE_OFFERED);
	fill(SET, 5, HR_WAYS, HR_PAGE_DIRTY);
	io_rig_request(io_rig_page(SET, 0), 0);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 0>1 w.waiting 0>1 w.room 0>1 w.moved_ns 0>1000000000 room0 s9 "
	     "wants 1 waits waiting [p36 #0] count.requests 0>1 count.waits 0>1");
	STEP((hr_io_make_room(W), 0),
	     "= 0 w.room 1>0 w.offers_wait 0>1 w.offers_end 0>42 w.urgent 4294967295>1");
	STEP(hr_io_requests(W), "= 0 w.room 0>1 room0 s9 wants 1 waits count.waits 1>2");
	W->settled = IO_RIG_EPOCH + 1;
	STEP((hr_io_make_room(W), 0), "= 0 w.room 1>0");
	STEP(hr_io_requests(W), "= 0 w.room 0>1 room0 s9 wants 1 waits count.waits 2>3");
	W->settled = W->seen = IO_RIG_EPOCH + 2;
	STEP((hr_io_make_room(W), 0),
	     "= 0 w.room 1>0 count.evictions 0>1 s9.0 OFFERED p93>LEFT@44 s9.recency 0>100");
	W->settled = W->seen = IO_RIG_EPOCH + 4;
	STEP(hr_io_requests(W),
	     "= 1 w.unused 8>7 w.sent 0>1 w.told 0>1 w.waiting 1>0 w.room 0>1 w.entered 0>1 "
	     "room0 s9 wants 1 unused [0 1 2 3 4 5 6] count.reads 0>1 count.read_commands "
	     "0>1 count.serves 0>1 ring1.taken 1 s9.0 LEFT@44>READING p36 s9.recency 100>101 "
	     "c7 SENT page 36+1 read q1 #7 op2 n7 L1288+8 F63 q1 rung");
	STEP(hr_io_requests(W), "= 0 w.offers_wait 1>0 room0 s9 wants 1");
}

/* ---- a page that waits too long */

Test(io_requests, a_page_that_waits_too_long_ends_the_run)
{
	io_rig_up(&plain);
	fill(SET, 0, HR_WAYS, HR_PAGE_READING);
	io_rig_request(io_rig_page(SET, 0), 0);
	fake_clock_advance(5);
	STEP(hr_io_requests(W),
	     "= 1 w.taken 0>1 w.waiting 0>1 w.room 0>1 w.moved_ns 0>1000000005 room0 s9 "
	     "wants 1 waits waiting [p36 #0] count.requests 0>1 count.waits 0>1");
	fake_clock_advance(IO_RIG_TIMEOUT - 1);
	STEP(hr_io_requests(W), "= 0 room0 s9 wants 1 waits count.waits 1>2");
	W->moved_ns += 2; /* of a clock that is ahead */
	fake_clock_advance(1);
	STEP(hr_io_requests(W), "= 0 room0 s9 wants 1 waits count.waits 2>3");
	fake_clock_advance(2);
	STEP(hr_io_requests(W),
	     "= 0 w.stopped 0>1 w.role.failed 0>1 room0 s9 wants 1 waits count.waits 3>4 "
	     "words.stop 0>3 status1 failed 0>1 failure -35 role 3 source 0 page 36 lba 1288 "
	     "object 70 qid 11 cid 0 opcode 2 peer 0");
	fake_clock_advance(IO_RIG_TIMEOUT);
	STEP(hr_io_requests(W), "= 0 room0 s9 wants 1 waits count.waits 4>5");
}

/* With several gpus another page may wait for the deadlines of others before. */
Test(io_requests, a_page_waits_longer_for_other_gpus)
{
	for (uint32_t late = 0; late < 2; late++) {
		io_rig_up(&(struct io_rig_shape){ .gpus = 2 });
		fill(SET, 0, HR_WAYS, HR_PAGE_READING);
		io_rig_request(io_rig_page(SET, 0), 0);
		hr_io_requests(W);
		fake_clock_advance(5 * IO_RIG_TIMEOUT - 1 + late);
		hr_io_requests(W);
		cr_expect_eq(W->role.failed, late);
		if (!late)
			io_rig_down();
	}
}
