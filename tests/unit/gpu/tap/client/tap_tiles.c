/*
 * Tiles of a consumer: how it waits for them, what ends them, runs that follow one another, and
 * tiles that are given back.
 */
#include "tests/harness/tap_client_rig.h"

#include <sys/wait.h>

TestSuite(tap_tiles, .init = begin, .fini = finish, .timeout = 60);

static int next(int timeout_ms)
{
	return hr_tap_next(tap, tile, 4, timeout_ms);
}

/* ---- waits */

Test(tap_tiles, tiles_are_taken_as_they_were_lent)
{
	struct hr_tap_entry *e;

	attached();
	for (unsigned n = 0; n < 3; n++)
		lend(n);
	e = (struct hr_tap_entry *)(void *)(fake_side.ring + 64) + 1;
	e->flags = HR_TAP_REDELIVERED | 4;
	e->lent_ns = 21;
	e->ready_ns = 22;
	e->freed_ns = 23;
	e->bytes = STRIDE;
	e->check = hr_tap_entry_check(e, 2);
	cr_expect_eq(hr_tap_next(tap, tile, 0, 0), -EINVAL);
	cr_expect_eq(hr_tap_next(tap, tile, 2, -1), 2);
	cr_expect_eq(hr_tap_next(tap, tile + 2, 2, 0), 1);
	EXPECT_LOG("");
	for (unsigned n = 0; n < 3; n++) {
		cr_expect_eq((const uint8_t *)tile[n].data - (const uint8_t *)tap->info.memory,
			     (long)(n * STRIDE));
		cr_expect(tile[n].tile == 10 + n && tile[n].gen == 5 + n && tile[n].slot == n);
		cr_expect_eq(tile[n].bytes, n == 1 ? STRIDE : 100);
		cr_expect_eq(tile[n].redelivered, n == 1);
		cr_expect_eq(tile[n].epoch, 77);
		cr_expect_eq(tile[n].lent_ns, n == 1 ? 21 : 0);
		cr_expect_eq(tile[n].ready_ns, n == 1 ? 22 : 0);
		cr_expect_eq(tile[n].freed_ns, n == 1 ? 23 : 0);
	}
	cr_expect_eq(page()->wake, 0);
	cr_expect_eq(next(0), -ETIMEDOUT);
	cr_expect_eq(page()->wake, 4);
}

/* What the tap reads in the page while the consumer waits: in all waits of a call. */
static uint32_t waiting, sleeps;
static uint64_t woken_by;

static void look(void)
{
	waiting += page()->waits;
	sleeps++;
	woken_by = page()->wake;
}

Test(tap_tiles, a_wait_begins_with_short_sleeps_and_ends_with_an_armed_one)
{
	attached();
	waiting = sleeps = 0;
	fake_side.waits = look;
	cr_expect_eq(next(205), -ETIMEDOUT);
	/* twenty looks of 1 us, with another one for each sleep */
	EXPECT_LOG("w50000 w100000 w200000 w400000 w800000 w100000000 w100000000 w3417000 w0");
	cr_expect_eq(waiting, 8);
	cr_expect_eq(sleeps, 9);
	cr_expect_eq(woken_by, 1);
	cr_expect_eq(page()->waits, 0);
	cr_expect_eq(page()->wake, 1);
}

static void lend_third(void)
{
	if (++sleeps == 3)
		lend(0);
}

Test(tap_tiles, a_tile_that_comes_during_a_wait_ends_it)
{
	attached();
	sleeps = 0;
	fake_side.waits = lend_third;
	cr_expect_eq(next(-1), 1);
	EXPECT_LOG("w50000 w100000 w200000");
	cr_expect_eq(page()->wake, 0);
}

/* A caller that looks all the time looks at the socket after 20 us; one that polls, always. */
Test(tap_tiles, a_look_without_a_wait_reads_the_socket_rarely)
{
	attached();
	fake_side.step_ns = 0;
	cr_expect_eq(next(0), -ETIMEDOUT);
	EXPECT_LOG("w0");
	fake_side.now_ns += 19999;
	cr_expect_eq(next(0), -ETIMEDOUT);
	EXPECT_LOG("");
	fake_side.now_ns += 1;
	cr_expect_eq(next(0), -ETIMEDOUT);
	EXPECT_LOG("w0");
	hr_tap_fd(tap);
	fake_side_log();
	cr_expect_eq(next(0), -ETIMEDOUT);
	EXPECT_LOG("w0");
	says(0, HR_TAP_TILES, 0, "");
	page()->wake = 0;
	cr_expect_eq(next(0), -ETIMEDOUT);
	EXPECT_LOG("w0! <9");
	cr_expect_eq(page()->wake, 1);
}

Test(tap_tiles, the_last_tile_is_followed_by_none)
{
	attached();
	lend(0);
	((struct hr_tap_head *)(void *)fake_side.ring)->last = 1;
	cr_expect_eq(next(-1), 1);
	cr_expect_eq(next(-1), 0);
	EXPECT_LOG("");
}

/* ---- what ends a run */

Test(tap_tiles, messages_that_end_a_run)
{
	static const struct {
		uint16_t kind, code;
		const char *text;
		int error, connects, result, ends, run_code;
		const char *reason, *log;
	} row[] = {
		{ HR_TAP_END, 0, "", 0, 9, 0, 0, 0, "the run has ended", "w0! <6" },
		{ HR_TAP_END, 4, "a fault", 0, 9, -EPIPE, -EPIPE, 4, "a fault", "w0! <6" },
		{ HR_TAP_REVOKED, 0, "it was slow", 0, 9, -EPIPE, -EPIPE, -1,
		  "dropped by the tap: it was slow", "w0! <7" },
		{ 0, 0, "", -EPIPE, -ENOENT, -EPIPE, -EPIPE, -1, "the appliance is gone",
		  "w0! <0 d/t.tap" },
		{ 0, 0, "", -EPIPE, -EAGAIN, -ECONNRESET, -ETIMEDOUT, -1,
		  "the engine of the appliance has died", "w0! <0 d/t.tap" },
		{ 0, 0, "", -EPIPE, 0, -ECONNRESET, -ETIMEDOUT, -1,
		  "the engine of the appliance has died", "w0! <0 d/t.tap >1" },
		{ HR_TAP_END, 0, "", -EPROTO, 9, -EPIPE, -EPIPE, -1, "the other side is not a tap",
		  "w0! <6" },
		{ HR_TAP_WAIT, 0, "", 0, 9, -EPIPE, -EPIPE, -1, "the other side is not a tap",
		  "w0! <8" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = message(row[i].kind, row[i].code, row[i].text);

		attached();
		if (row[i].connects <= 0)
			fake_side_connects(row[i].connects);
		fake_side_says(0, &m, false, row[i].error);
		cr_expect_eq(next(0), row[i].result, "%zu", i);
		EXPECT_LOG(row[i].log);
		cr_expect_str_eq(hr_tap_reason(tap), row[i].reason);
		cr_expect_eq(hr_tap_code(tap), row[i].run_code, "%zu", i);
		cr_expect_eq(next(0), row[i].ends, "%zu", i);
		finish();
		begin();
	}
	attached();
	fake_side_says(0, NULL, false, -EAGAIN);
	cr_expect_eq(next(0), -ETIMEDOUT);
}

static void lend_now(void)
{
	lend(0);
}

Test(tap_tiles, tiles_that_came_before_the_end_are_valid)
{
	attached();
	says(0, HR_TAP_END, 0, "");
	fake_side.waits = lend_now;
	cr_expect_eq(next(0), 1);
	cr_expect_eq(next(0), 0);
	EXPECT_LOG("w0! <6");
}

/* ---- the next run */

static void broken_run(int connects)
{
	struct hr_tap_message m = message(HR_TAP_END, 4, "it broke");

	attached();
	m.again = 1;
	fake_side_says(0, &m, false, 0);
	fake_side_connects(connects);
	fake_side.step_ns = 0;
}

Test(tap_tiles, a_run_that_is_broken_off_is_followed_by_another)
{
	broken_run(0);
	lend(0);
	lend(1);
	cr_expect_eq(next(0), 2);
	cr_expect_eq(next(0), -ECONNRESET);
	cr_expect_eq(hr_tap_code(tap), 4);
	EXPECT_LOG("w0! <6 d/t.tap >1");
	cr_expect_eq(next(2), -ETIMEDOUT);
	EXPECT_LOG("w2000000 w0");
	welcomes(10 * MS, 78);
	lend(0);
	cr_expect_eq(hr_tap_next(tap, tile + 2, 1, 60), 1);
	EXPECT_LOG("w60000000! <2 >4");
	cr_expect_eq(hr_tap_info(tap)->epoch, 78);
	cr_expect_eq(hr_tap_code(tap), -1);
	cr_expect_str_eq(hr_tap_reason(tap), "");
	/* the memory of the first run is kept as long as one of its tiles is in hand */
	cr_expect(tap->session->older && tap->session->older->epoch == 77);
	cr_expect_eq(hr_tap_done(tap, &tile[1]), 0);
	cr_expect_eq(hr_tap_done(tap, &tile[1]), -EINVAL);
	cr_expect_not_null(tap->session->older);
	cr_expect_eq(tap->session->older->gen[1], 6);
	cr_expect_eq(hr_tap_fail(tap, &tile[0]), 0);
	cr_expect_null(tap->session->older);
	cr_expect_eq(hr_tap_done(tap, &tile[0]), -EINVAL);
	cr_expect_eq(tap->session->gen[0], 0);
	cr_expect_eq(hr_tap_done(tap, &tile[2]), 0);
	cr_expect_eq(tap->session->gen[0], 5);
	cr_expect_not_null(tap->session);
}

Test(tap_tiles, runs_without_a_tile_in_hand_are_unmapped_between_others)
{
	uint64_t epoch[3];
	unsigned n = 0;

	attached();
	for (unsigned i = 0; i < 4; i++) {
		struct hr_tap_message m = message(HR_TAP_END, 4, "it broke");

		if (i % 2 == 0)
			lend(0);
		if (i % 2 == 0)
			cr_expect_eq(hr_tap_next(tap, &tile[i / 2], 1, 0), 1);
		m.again = 1;
		fake_side_says(0, &m, false, 0);
		fake_side_connects(0);
		cr_expect_eq(hr_tap_next(tap, &tile[3], 1, 1), -ECONNRESET);
		welcomes(0, 78 + i);
		cr_expect_eq(hr_tap_next(tap, &tile[3], 1, 1), -ETIMEDOUT);
	}
	for (struct hr_tap_session *s = tap->session; s && n < 3; s = s->older)
		epoch[n++] = s->epoch;
	cr_expect_eq(n, 3);
	cr_expect(epoch[0] == 81 && epoch[1] == 79 && epoch[2] == 77);
	cr_expect_eq(hr_tap_done(tap, &tile[0]), 0);
	cr_expect_eq(tap->session->older->epoch, 79);
	cr_expect_null(tap->session->older->older);
}

/* A run on a GPU: the driver unmaps it, also when the next run lies in host memory. */
Test(tap_tiles, an_older_run_on_a_gpu_is_closed)
{
	struct hr_tap_message m = welcome();

	memory();
	m.memory = HR_TAP_MEMORY_CUDA;
	m.gpu.bytes = (uint64_t)SLOTS * STRIDE;
	fake_side_connects(0);
	fake_side_says(0, &m, true, 0);
	cr_assert_eq(open_tap(), 0);
	m = message(HR_TAP_END, 4, "it broke");
	m.again = 1;
	fake_side_says(0, &m, false, 0);
	fake_side_connects(0);
	cr_expect_eq(next(0), -ECONNRESET);
	welcomes(0, 78);
	fake_side_log();
	cr_expect_eq(next(0), -ETIMEDOUT);
	EXPECT_LOG("w0! <2 cuda(close) >4 w0");
}

Test(tap_tiles, a_next_run_that_does_not_come_is_the_end)
{
	static const struct {
		int connects; /* of the second attempt; 1: none */
		uint16_t kind, code;
		bool memory;
		int result, ends;
		const char *reason;
	} row[] = {
		{ -ENOENT, 0, 0, false, -EPIPE, -EPIPE, "the appliance is gone" },
		{ -ECONNREFUSED, 0, 0, false, -EPIPE, -EPIPE, "the appliance is gone" },
		{ -EACCES, 0, 0, false, -EPIPE, -EPIPE, "Permission denied" },
		{ 0, HR_TAP_REFUSED, EBUSY, false, -EPIPE, -EPIPE, "full" },
		{ 0, HR_TAP_WELCOME, 0, false, -ENOMEM, -ENOMEM, "the tiles cannot be mapped" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = welcome();

		broken_run(-EAGAIN);
		cr_expect_eq(next(0), -ECONNRESET);
		fake_side_connects(row[i].connects);
		if (row[i].kind == HR_TAP_REFUSED)
			m = message(row[i].kind, row[i].code, "full");
		fake_side_says(0, &m, false, 0);
		cr_expect_eq(next(100), row[i].result, "%zu", i);
		cr_expect_str_eq(hr_tap_reason(tap), row[i].reason);
		cr_expect_eq(next(0), row[i].ends, "%zu", i);
		finish();
		begin();
	}
}

/* ---- tiles given back */

Test(tap_tiles, only_a_tile_in_hand_can_be_given_back)
{
	struct hr_tap_tile other;

	attached();
	for (unsigned n = 0; n < 4; n++)
		lend(n);
	cr_expect_eq(next(0), 4);
	cr_expect_eq(hr_tap_done_stream(tap, &tile[0], NULL), -EINVAL);
	for (unsigned i = 0; i < 4; i++) {
		other = tile[0];
		if (i == 0)
			other.epoch++;
		if (i == 1)
			other.gen++;
		if (i == 2)
			other.slot = SLOTS;
		if (i == 3)
			other.gen = 0;
		cr_expect_eq(hr_tap_done(tap, &other), -EINVAL);
		cr_expect_eq(hr_tap_fail(tap, &other), -EINVAL);
		cr_expect_eq(hr_tap_done_stream(tap, &other, NULL), -EINVAL);
	}
	cr_expect_eq(hr_tap_done(tap, &tile[3]), 0);
	cr_expect_eq(hr_tap_fail(tap, &tile[1]), 0);
	cr_expect_eq(tap->session->in_hand, 2);
	for (unsigned n = 0; n < 4; n++)
		cr_expect_eq(((uint32_t *)(void *)(fake_side.page + 64))[n],
			     n == 3   ? 8
			     : n == 1 ? 6 | HR_TAP_FAILED
				      : 0,
			     "%u", n);
	lend(4); /* slot 0 again, which is in hand */
	other = tile[0];
	cr_expect_eq(next(0), -ETIMEDOUT);
	cr_expect_eq(hr_tap_done(tap, &other), 0);
	cr_expect_eq(next(0), 1);
	cr_expect_eq(tile[0].gen, 9);
}

Test(tap_tiles, a_stream_gives_a_tile_of_a_gpu_back)
{
	struct hr_tap_message m = welcome();

	memory();
	lend(0);
	lend(1);
	m.memory = HR_TAP_MEMORY_CUDA;
	m.gpu.bytes = (uint64_t)SLOTS * STRIDE;
	fake_side_connects(0);
	fake_side_says(0, &m, true, 0);
	cr_assert_eq(open_tap(), 0);
	cr_assert_eq(next(0), 2);
	fake_side_log();
	fake_side.cuda_error = -EIO;
	cr_expect_eq(hr_tap_done_stream(tap, &tile[1], (void *)0x10), -EIO);
	EXPECT_LOG("cuda(0x10+68=0x6)");
	fake_side.cuda_error = 0;
	cr_expect_eq(hr_tap_done_stream(tap, &tile[1], (void *)0x20), 0);
	EXPECT_LOG("cuda(0x20+68=0x6)");
	cr_expect_eq(hr_tap_done_stream(tap, &tile[1], (void *)0x20), -EINVAL);
	cr_expect_eq(hr_tap_done(tap, &tile[1]), -EINVAL);
	cr_expect_eq(tap->session->in_hand, 1);
	EXPECT_LOG("");
}

Test(tap_tiles, a_child_of_fork_has_no_tap)
{
	int status;
	pid_t child;

	attached();
	lend(0);
	cr_assert_eq(next(0), 1);
	child = fork();
	if (child == 0)
		_exit(next(0) != -EPIPE || hr_tap_done(tap, tile) != -EPIPE ||
		      hr_tap_fail(tap, tile) != -EPIPE || hr_tap_fd(tap) != -EPIPE ||
		      hr_tap_done_stream(tap, tile, NULL) != -EPIPE || *fake_side_log());
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	cr_expect_eq(hr_tap_done(tap, tile), 0);
}
