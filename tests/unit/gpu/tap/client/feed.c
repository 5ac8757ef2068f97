/*
 * A producer's connection: what it says and waits for, what it commits, and what ends it, on a
 * scripted other side and its clock.
 */
#include "tests/harness/feed_client_rig.h"

TestSuite(feed_client, .init = start, .fini = finish, .timeout = 60);

/* ---- open */

Test(feed_client, a_hello_asks_for_the_credits_under_the_name_of_the_producer)
{
	struct hr_tap_message hello = message(HR_FEED_HELLO, 0, ""),
			      ready = message(HR_TAP_READY, 0, "");
	const struct hr_feed_info *info;

	options.credits = 9;
	attached();
	hello.credits = 9;
	hello.name[0] = 'p';
	cr_expect_eq(memcmp(&fake_side.sent[0], &hello, sizeof hello), 0);
	cr_expect_eq(memcmp(&fake_side.sent[1], &ready, sizeof ready), 0);
	info = hr_feed_info(feed);
	cr_expect(info->epoch == 77 && info->tiles == 1000 && info->tile_bytes == 8000);
	cr_expect(info->first == 10 && info->durable == 6);
	cr_expect(info->credits == 3 && info->columns == 12 && info->gpu == -1);
	cr_expect_str_eq(info->dtype, "bf16");
	cr_expect_str_eq(info->pipeline, "train");
	cr_expect_eq(info->memory_bytes, (size_t)SLOTS * STRIDE);
	((uint8_t *)info->memory)[STRIDE] = 0x5a;
	cr_expect_eq(fake_side.tiles[STRIDE], 0x5a);
	cr_expect_str_eq(hr_feed_reason(feed), "");
	cr_expect_eq(hr_feed_code(feed), -1);
	cr_expect_eq(hr_feed_durable(feed), 6);
	cr_expect_eq(hr_feed_fd(feed), feed->fd);
}

Test(feed_client, without_options_a_producer_has_the_name_of_its_program)
{
	const struct hr_tap_message m = welcome();

	fake_side_connects(0);
	memory();
	fake_side_says(0, &m, true, 0);
	cr_assert_eq(hr_feed_open("f", NULL, &feed, NULL, 0), 0);
	EXPECT_LOG("/f.feed >33 w60000000000! <34 >4");
	cr_expect_eq(fake_side.sent[0].credits, 0);
	cr_expect_str_eq(fake_side.sent[0].name, program_invocation_short_name);
}

Test(feed_client, a_connection_that_is_refused_ends_with_its_reason)
{
	static const struct {
		int result;
		const char *why;
	} row[] = {
		{ -ENOENT, "feed 'f': no pipeline with this feed runs" },
		{ -ECONNREFUSED, "feed 'f': no pipeline with this feed runs" },
		{ -EACCES, "feed 'f': Permission denied" },
		{ -EAGAIN, "feed 'f': Resource temporarily unavailable" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_side_connects(row[i].result);
		cr_expect_eq(open_feed(), row[i].result);
		cr_expect_str_eq(why, row[i].why);
		EXPECT_LOG("d/f.feed");
	}
	fake_side_connects(-ENOENT);
	memset(why, 'x', 4);
	cr_expect_eq(hr_feed_open("f", &options, &feed, why, 0), -ENOENT);
	cr_expect_eq(why[0], 'x');
	fake_side_connects(-ENOENT);
	cr_expect_eq(hr_feed_open("f", &options, &feed, why, 1), -ENOENT);
	cr_expect(why[0] == '\0' && why[1] == 'x');
	fake_side_connects(-ENOENT);
	cr_expect_eq(hr_feed_open("f", &options, &feed, NULL, 9), -ENOENT);
	fake_calloc_fails(1);
	cr_expect_eq(open_feed(), -ENOMEM);
	cr_expect_str_eq(why, "out of memory");
	cr_expect_null(feed);
}

Test(feed_client, an_answer_that_is_no_welcome_ends_the_attempt)
{
	static const struct {
		uint16_t kind, version, code;
		const char *text;
		int error, result;
		const char *why;
	} row[] = {
		{ HR_TAP_REFUSED, 1, EBUSY, "it has one", 0, -EBUSY, "feed 'f': it has one" },
		{ HR_TAP_REFUSED, 9, 0, "no", 0, -EPROTO, "feed 'f': no" },
		{ HR_FEED_WELCOME, 2, 0, "", 0, -EPROTO,
		  "feed 'f': the answer is not one of a feed" },
		{ HR_TAP_WELCOME, 1, 0, "", 0, -EPROTO,
		  "feed 'f': the answer is not one of a feed" },
		{ 0, 1, 0, "", -EPROTO, -EPROTO,
		  "feed 'f': the connection ended without an answer" },
		{ 0, 1, 0, "", -EPIPE, -EPIPE, "feed 'f': the connection ended without an answer" },
	};

	memory();
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = welcome();

		if (row[i].kind != HR_FEED_WELCOME)
			m = message(row[i].kind, row[i].code, row[i].text);
		m.version = row[i].version;
		fake_side_connects(0);
		fake_side_says(0, &m, true, row[i].error);
		cr_expect_eq(open_feed(), row[i].result);
		cr_expect_str_eq(why, row[i].why);
	}
	fake_side_log();
	fake_side_connects(0);
	cr_expect_eq(open_feed(), -ETIMEDOUT);
	EXPECT_LOG("d/f.feed >33 w60000000000");
	cr_expect_str_eq(why, "feed 'f': the feed does not answer");
}

Test(feed_client, a_message_that_cannot_be_sent)
{
	const struct hr_tap_message m = welcome();

	/* of HELLO -EPIPE means that the feed may have said why */
	memory();
	fake_side_connects(0);
	fake_side.fail_send = 1;
	fake_side_says(0, &m, true, 0);
	cr_expect_eq(open_feed(), 0);
	finish();
	start();
	fake_side_connects(0);
	fake_side.fail_send = 1;
	fake_side.send_error = -ENOBUFS;
	cr_expect_eq(open_feed(), -ENOBUFS);
	cr_expect_str_eq(why, "feed 'f': No buffer space available");
	EXPECT_LOG("d/f.feed >33");
	memory();
	fake_side_connects(0);
	fake_side.fail_send = 2;
	fake_side_says(0, &m, true, 0);
	cr_expect_eq(open_feed(), -ENOBUFS);
	cr_expect_str_eq(why, "feed 'f': No buffer space available");
}

#define AT(field) offsetof(struct hr_tap_message, field)

Test(feed_client, sizes_that_cannot_be_are_refused_before_anything_is_mapped)
{
	static const struct {
		size_t at;
		uint32_t value;
		bool can_be;
	} row[] = {
		{ AT(slots), 0, false },
		{ AT(slots), 1, true },
		{ AT(slots), 1u << 20, true },
		{ AT(slots), (1u << 20) + 1, false },
		{ AT(ring), 0, false },
		{ AT(ring), 2, false }, /* < credits */
		{ AT(ring), 4, true },
		{ AT(ring), 6, false },
		{ AT(ring), 1u << 20, true },
		{ AT(ring), 1u << 21, false },
		{ AT(credits), 0, false },
		{ AT(credits), 1, true },
		{ AT(credits), RING, true },
		{ AT(credits), RING + 1, false },
		{ AT(stride), 0, false },
		{ AT(stride), STRIDE + 4096, true },
		{ AT(stride), STRIDE + 2048, false },
		{ AT(stride), STRIDE + 1, false },
		{ AT(stride), STRIDE - 4096, false },
		{ AT(tile_bytes), STRIDE, true },
		{ AT(tile_bytes), STRIDE + 1, false },
		{ AT(tile_bytes), 1, true },
		{ AT(tile_bytes), 0, false },
	};
	struct hr_tap_message m;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		m = welcome();
		memcpy((uint8_t *)&m + row[i].at, &row[i].value, sizeof row[i].value);
		cr_expect_eq(is_plausible(&m), row[i].can_be, "%zu", i);
	}
	m = gpu_welcome();
	cr_expect(is_plausible(&m));
	m.gpu.bytes--;
	cr_expect(!is_plausible(&m));
	m = welcome();
	m.gpu.bytes = UINT64_MAX;
	m.memory = HR_TAP_MEMORY_CUDA + 1;
	cr_expect(!is_plausible(&m));
	fake_side_connects(0);
	memory();
	fake_side_says(0, &m, true, 0);
	cr_expect_eq(open_feed(), -EPROTO);
	cr_expect_str_eq(why, "feed 'f': the feed's memory has sizes that cannot be");
}

Test(feed_client, memory_that_cannot_be_mapped_ends_the_attempt)
{
	static const struct {
		size_t less[3];
		unsigned mmap, madvise, calloc;
		uint32_t magic;
		int result;
	} row[] = {
		{ { 1, 0, 0 }, 0, 0, 0, 0, -ENOMEM }, { { 0, 1, 0 }, 0, 0, 0, 0, -ENOMEM },
		{ { 0, 0, 1 }, 0, 0, 0, 0, -ENOMEM }, { { 0 }, 1, 0, 0, 0, -ENOMEM },
		{ { 0 }, 2, 0, 0, 0, -ENOMEM },	      { { 0 }, 3, 0, 0, 0, -ENOMEM },
		{ { 0 }, 4, 0, 0, 0, -ENOMEM },	      { { 0 }, 0, 1, 0, 0, -ENOMEM },
		{ { 0 }, 0, 0, 2, 0, -ENOMEM },	      { { 0 }, 0, 0, 0, 1, -EPROTO },
	};
	const struct hr_tap_message m = welcome();

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_side_connects(0);
		fake_side_memory((size_t)SLOTS * STRIDE - row[i].less[0],
				 hr_tap_ring_bytes(RING) - row[i].less[1],
				 hr_feed_page_bytes(SLOTS) - row[i].less[2]);
		head()->magic = HR_TAP_MAGIC + row[i].magic;
		fake_side_says(0, &m, true, 0);
		fake_side.fail_mmap = row[i].mmap;
		fake_side.fail_madvise = row[i].madvise;
		fake_calloc_fails(row[i].calloc);
		cr_expect_eq(open_feed(), row[i].result, "%zu", i);
		cr_expect_str_eq(why, "feed 'f': the tiles cannot be mapped");
	}
	fake_side_connects(0);
	fake_side_says(0, &m, false, 0); /* without descriptors */
	cr_expect_eq(open_feed(), -ENOMEM);
}

Test(feed_client, a_gpu_maps_the_tiles_for_writing)
{
	const struct hr_tap_message m = gpu_welcome();

	options.gpu = 3;
	attached_on_gpu();
	cr_expect_eq(hr_feed_info(feed)->gpu, 5);
	cr_expect_eq(hr_feed_info(feed)->memory, (void *)fake_side.tiles);
	cr_expect(fake_side.cuda.bytes == SLOTS * STRIDE && fake_side.uuid[2] == 9);
	cr_expect(fake_side.cuda.page == feed->page && fake_side.cuda.page_bytes == 4096);
	cr_expect(fake_side.cuda.user == 3 && fake_side.cuda.writes && fake_side.cuda.fd >= 0);
	hr_feed_close(feed);
	EXPECT_LOG("cuda(wait) >5 cuda(close)");
	attached_on_gpu();
	*feed->alive = 0;
	hr_feed_close(feed);
	EXPECT_LOG("cuda(forget)");
	feed = NULL;
	fake_side.cuda_error = -ENODEV;
	fake_side_connects(0);
	fake_side_says(0, &m, true, 0);
	cr_expect_eq(open_feed(), -ENODEV);
	cr_expect_str_eq(why, "feed 'f': the driver says no");
}
