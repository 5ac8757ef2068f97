/*
 * A consumer's connection: what it says and waits for, in which order and how long, on a scripted
 * other side and its clock.
 */
#include "tests/harness/tap_client_rig.h"

TestSuite(tap_client, .init = begin, .fini = finish, .timeout = 60);

/* ---- open */

Test(tap_client, a_hello_asks_for_the_credits_under_the_name_of_the_consumer)
{
	struct hr_tap_message hello = message(HR_TAP_HELLO, 0, ""),
			      ready = message(HR_TAP_READY, 0, "");
	const struct hr_tap_info *info;

	options.credits = 9;
	attached();
	hello.credits = 9;
	hello.name[0] = 'c';
	cr_expect_eq(memcmp(&fake_side.sent[0], &hello, sizeof hello), 0);
	cr_expect_eq(memcmp(&fake_side.sent[1], &ready, sizeof ready), 0);
	info = hr_tap_info(tap);
	cr_expect(info->epoch == 77 && info->tiles == 1000 && info->tile_bytes == 8000);
	cr_expect(info->credits == 3 && info->columns == 12 && info->each == 1 && info->gpu == -1);
	cr_expect_str_eq(info->dtype, "bf16");
	cr_expect_str_eq(info->pipeline, "train");
	cr_expect_eq(info->memory_bytes, (size_t)SLOTS * STRIDE);
	fake_side.tiles[STRIDE] = 0x5a;
	cr_expect_eq(((const uint8_t *)info->memory)[STRIDE], 0x5a);
	cr_expect_str_eq(hr_tap_reason(tap), "");
	cr_expect_eq(hr_tap_code(tap), -1);
}

Test(tap_client, without_options_a_consumer_has_the_name_of_its_program)
{
	fake_side_connects(0);
	welcomes(0, 77);
	cr_assert_eq(hr_tap_open("t", NULL, &tap, NULL, 0), 0);
	EXPECT_LOG("/t.tap >1 w1000000000! <2 >4");
	cr_expect_eq(fake_side.sent[0].credits, 0);
	cr_expect_str_eq(fake_side.sent[0].name, program_invocation_short_name);
}

Test(tap_client, a_connection_that_is_refused_ends_with_its_reason)
{
	static const struct {
		int result;
		const char *why;
	} row[] = {
		{ -ENOENT, "tap 't': no pipeline with this tap runs" },
		{ -ECONNREFUSED, "tap 't': no pipeline with this tap runs" },
		{ -EACCES, "tap 't': Permission denied" },
		{ -EMFILE, "tap 't': Too many open files" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fake_side_connects(row[i].result);
		cr_expect_eq(open_tap(), row[i].result);
		cr_expect_str_eq(why, row[i].why);
		EXPECT_LOG("d/t.tap");
	}
	fake_side_connects(-ENOENT);
	memset(why, 'x', 4);
	cr_expect_eq(hr_tap_open("t", &options, &tap, why, 0), -ENOENT);
	cr_expect_eq(why[0], 'x');
	fake_side_connects(-ENOENT);
	cr_expect_eq(hr_tap_open("t", &options, &tap, why, 1), -ENOENT);
	cr_expect(why[0] == '\0' && why[1] == 'x');
	cr_expect_null(tap);
}

Test(tap_client, names_and_folders_have_a_longest_length)
{
	char longest[120];

	memset(longest, 'n', sizeof longest);
	longest[64] = '\0';
	cr_expect_eq(hr_tap_open(longest, &options, &tap, why, sizeof why), -ENAMETOOLONG);
	cr_expect_not_null(strstr(why, "': File name too long"));
	longest[63] = '\0';
	fake_side_connects(-EACCES);
	cr_expect_eq(hr_tap_open(longest, &options, &tap, why, sizeof why), -EACCES);
	longest[63] = longest[64] = 'n';
	longest[HR_TAP_DIRECTORY] = '\0';
	options.directory = longest;
	cr_expect_eq(open_tap(), -ENAMETOOLONG);
	cr_expect_str_eq(why, "tap 't': File name too long");
	longest[HR_TAP_DIRECTORY - 1] = '\0';
	fake_side_connects(-EACCES);
	cr_expect_eq(open_tap(), -EACCES);
}

Test(tap_client, memory_that_is_not_there_is_an_error_of_open)
{
	fake_calloc_fails(1);
	cr_expect_eq(open_tap(), -ENOMEM);
	cr_expect_str_eq(why, "tap 't': out of memory");
	fake_side.fail_mmap = 1;
	cr_expect_eq(open_tap(), -ENOMEM);
	cr_expect_str_eq(why, "tap 't': Cannot allocate memory");
	fake_side.fail_madvise = 1;
	cr_expect_eq(open_tap(), -ENOMEM);
	cr_expect_str_eq(why, "tap 't': Cannot allocate memory");
	EXPECT_LOG("");
}

Test(tap_client, an_appliance_without_an_engine_is_waited_for_as_long_as_the_option_says)
{
	fake_side.step_ns = 0;
	fake_side_connects(0);
	cr_expect_eq(open_tap(), -ETIMEDOUT);
	EXPECT_LOG("d/t.tap >1 w1000000000 w1000000000 w500000000 w0");
	cr_expect_str_eq(why, "tap 't': the appliance has no engine that answers, within 2500 ms");
	options.wait_ms = 0; /* a minute */
	fake_side_connects(0);
	says(50000 * MS, HR_TAP_WAIT, 0, "train runs at 12:00");
	cr_expect_eq(open_tap(), -ETIMEDOUT);
	cr_expect_str_eq(why, "tap 't': train runs at 12:00");
	cr_expect_eq(fake_side.now_ns, FAKE_SIDE_START + 62500 * MS);
	options.wait_ms = -1; /* without a limit */
	fake_side_log();
	fake_side_connects(0);
	welcomes(200000 * MS, 77);
	cr_expect_eq(open_tap(), 0);
	cr_expect_str_eq(hr_tap_reason(tap), "");
}

Test(tap_client, a_full_queue_of_connections_is_tried_again_after_pauses_that_grow)
{
	fake_side.step_ns = 0;
	options.wait_ms = 12000;
	for (unsigned i = 0; i < 8; i++)
		fake_side_connects(-EAGAIN);
	fake_side_connects(0);
	welcomes(7150 * MS, 77);
	cr_expect_eq(open_tap(), 0, "%s", why);
	EXPECT_LOG("d/t.tap -w50000000 d/t.tap -w100000000 d/t.tap -w200000000 d/t.tap -w400000000 "
		   "d/t.tap -w800000000 d/t.tap -w1600000000 d/t.tap -w2000000000 "
		   "d/t.tap -w2000000000 d/t.tap >1 w1000000000! <2 >4");
}

Test(tap_client, the_limit_of_open_ends_a_pause_too)
{
	fake_side.step_ns = 0;
	options.wait_ms = 100;
	fake_side_connects(-EAGAIN);
	fake_side_connects(-EAGAIN);
	cr_expect_eq(open_tap(), -ETIMEDOUT);
	EXPECT_LOG("d/t.tap -w50000000 d/t.tap -w50000000 -w0");
}

Test(tap_client, an_answer_that_is_no_welcome_ends_the_attempt)
{
	static const struct {
		uint16_t kind, version, code;
		const char *text;
		int error, result;
		const char *why;
	} row[] = {
		{ HR_TAP_REFUSED, 3, EBUSY, "all 4 taken", 0, -EBUSY, "tap 't': all 4 taken" },
		{ HR_TAP_REFUSED, 9, 0, "no", 0, -EPROTO, "tap 't': no" },
		{ HR_TAP_WELCOME, 4, 0, "", 0, -EPROTO, "tap 't': the answer is not one of a tap" },
		{ HR_TAP_END, 3, 0, "", 0, -EPROTO, "tap 't': the answer is not one of a tap" },
		{ 0, 3, 0, "", -EPROTO, -EPROTO, "tap 't': the answer is not one of a tap" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = message(row[i].kind, row[i].code, row[i].text);

		m.version = row[i].version;
		fake_side_connects(0);
		fake_side_says(0, &m, false, row[i].error);
		cr_expect_eq(open_tap(), row[i].result);
		cr_expect_str_eq(why, row[i].why);
		cr_expect_eq(fake_side_descriptors(), before);
	}
}

Test(tap_client, an_engine_that_hangs_up_before_its_answer_is_called_again)
{
	fake_side.step_ns = 0;
	fake_side_connects(0);
	fake_side_connects(0);
	fake_side_says(MS, NULL, false, -EPIPE);
	welcomes(200 * MS, 77);
	cr_expect_eq(open_tap(), 0);
	EXPECT_LOG("d/t.tap >1 w1000000000! <0 -w50000000 d/t.tap >1 w1000000000! <2 >4");
}

Test(tap_client, a_ready_that_cannot_be_sent_is_a_lost_connection)
{
	struct hr_tap_message m = welcome();

	fake_side.step_ns = 0;
	fake_side.fail_send = 2;
	fake_side_connects(0);
	fake_side_connects(0);
	welcomes(0, 76);
	m.epoch = 77;
	fake_side_says(0, &m, true, 0);
	cr_assert_eq(open_tap(), 0);
	EXPECT_LOG("d/t.tap >1 w1000000000! <2 >4 -w50000000 d/t.tap >1 w1000000000! <2 >4");
	cr_expect_eq(hr_tap_info(tap)->epoch, 77);
	cr_expect_null(tap->session->older);
}

Test(tap_client, a_hello_that_cannot_be_sent_is_answered)
{
	fake_side.fail_send = 1;
	fake_side_connects(0);
	says(0, HR_TAP_REFUSED, EUSERS, "too many");
	cr_expect_eq(open_tap(), -EUSERS);
	cr_expect_str_eq(why, "tap 't': too many");
}

Test(tap_client, a_welcome_whose_memory_cannot_be_ends_the_attempt)
{
	struct hr_tap_message m = welcome();

	m.slots = 0;
	fake_side_connects(0);
	fake_side_says(0, &m, false, 0);
	cr_expect_eq(open_tap(), -EPROTO);
	cr_expect_str_eq(why, "tap 't': the tap's memory has sizes that cannot be");
	fake_side_connects(0);
	m = welcome();
	fake_side_says(0, &m, false, 0);
	cr_expect_eq(open_tap(), -ENOMEM);
	cr_expect_str_eq(why, "tap 't': the tiles cannot be mapped");
}

Test(tap_client, the_gpu_of_the_options_reads_the_tiles)
{
	struct hr_tap_message m = welcome();

	memory();
	m.memory = HR_TAP_MEMORY_CUDA;
	m.gpu.bytes = (uint64_t)SLOTS * STRIDE;
	options.gpu = 2;
	fake_side.cuda_ordinal = 1;
	fake_side_connects(0);
	fake_side_says(0, &m, true, 0);
	cr_assert_eq(open_tap(), 0, "%s", why);
	cr_expect_eq(fake_side.cuda.user, 2);
	cr_expect_eq(hr_tap_info(tap)->gpu, 1);
	cr_expect_eq(hr_tap_info(tap)->memory, (const void *)fake_side.tiles);
}

/* ---- the descriptor for poll */

Test(tap_client, the_descriptor_has_the_socket_and_a_timer_that_is_off)
{
	int fd;

	attached();
	fd = hr_tap_fd(tap);
	cr_expect_geq(fd, 0);
	EXPECT_LOG("poll timer +timer +socket @0");
	cr_expect_eq(hr_tap_fd(tap), fd);
	EXPECT_LOG("");
	*tap->alive = 0;
	cr_expect_eq(hr_tap_fd(tap), -EPIPE);
}

Test(tap_client, a_descriptor_that_cannot_be_made_leaves_none)
{
	attached();
	fake_side.fail_epoll = 1;
	cr_expect_eq(hr_tap_fd(tap), -EMFILE);
	EXPECT_LOG("poll");
	fake_side.fail_timer = 1;
	cr_expect_eq(hr_tap_fd(tap), -ENOMEM);
	EXPECT_LOG("poll timer");
	cr_expect_geq(hr_tap_fd(tap), 0);
	EXPECT_LOG("poll timer +timer +socket @0");
}

/* Lose the run, with an END that says that there is another one. */
static void lose_run(uint64_t after_ns, int connects)
{
	struct hr_tap_message m = message(HR_TAP_END, 4, "it broke");

	m.again = 1;
	fake_side_says(after_ns, &m, false, 0);
	fake_side_connects(connects);
	cr_expect_eq(hr_tap_next(tap, tile, 1, 0), -ECONNRESET);
	cr_expect_str_eq(hr_tap_reason(tap), "it broke");
	cr_expect_eq(hr_tap_code(tap), 4);
}

Test(tap_client, the_timer_of_the_descriptor_is_the_next_attempt)
{
	fake_side.step_ns = 0;
	attached();
	fake_side.now_ns += 1999999999 - MS;
	lose_run(0, -EAGAIN);
	EXPECT_LOG("w0! <6 d/t.tap");
	/* 5 s + 1.998999999 s + 50 ms */
	cr_expect_geq(hr_tap_fd(tap), 0);
	EXPECT_LOG("poll timer +timer @7048999999");
	fake_side_connects(-EAGAIN);
	cr_expect_eq(hr_tap_next(tap, tile, 1, 50), -ETIMEDOUT);
	EXPECT_LOG("-w50000000 d/t.tap @7148999999");
	fake_side_connects(0);
	cr_expect_eq(hr_tap_next(tap, tile, 1, 100), -ETIMEDOUT);
	EXPECT_LOG("-w100000000 d/t.tap @0 +socket >1");
	welcomes(0, 78);
	lend(0);
	cr_expect_eq(hr_tap_next(tap, tile, 1, 0), 1);
	EXPECT_LOG("w0! <2 >4");
	says(0, HR_TAP_END, 0, "");
	cr_expect_eq(hr_tap_next(tap, tile, 1, 0), 0);
	EXPECT_LOG("w0! <6 @1");
}

Test(tap_client, the_timer_of_the_descriptor_fires_when_there_is_something_to_say)
{
	attached();
	says(0, HR_TAP_END, 0, "");
	cr_expect_eq(hr_tap_next(tap, tile, 1, 0), 0);
	fake_side_log();
	cr_expect_geq(hr_tap_fd(tap), 0);
	EXPECT_LOG("poll timer +timer @1");
}

/* ---- close */

Test(tap_client, a_close_says_so_while_it_is_attached)
{
	struct hr_tap_message detach = message(HR_TAP_DETACH, 0, "");

	hr_tap_close(NULL);
	attached();
	hr_tap_close(tap);
	EXPECT_LOG(">5");
	cr_expect_eq(memcmp(&fake_side.sent[2], &detach, sizeof detach), 0);
	attached();
	says(0, HR_TAP_END, 0, "");
	cr_expect_eq(hr_tap_next(tap, tile, 1, 0), 0);
	fake_side_log();
	hr_tap_close(tap);
	EXPECT_LOG("");
	attached();
	cr_expect_geq(hr_tap_fd(tap), 0);
	fake_side_log();
	*tap->alive = 0; /* a child of fork() */
	hr_tap_close(tap);
	EXPECT_LOG("");
	tap = NULL;
}

Test(tap_client, a_child_forgets_the_gpu_of_its_parent)
{
	struct hr_tap_message m = welcome();

	memory();
	m.memory = HR_TAP_MEMORY_CUDA;
	m.gpu.bytes = (uint64_t)SLOTS * STRIDE;
	for (unsigned i = 0; i < 2; i++) {
		fake_side_connects(0);
		fake_side_says(0, &m, true, 0);
		cr_assert_eq(open_tap(), 0);
		fake_side_log();
		*tap->alive = (uint32_t)i;
		hr_tap_close(tap);
		EXPECT_LOG(i ? ">5 cuda(close)" : "cuda(forget)");
	}
	tap = NULL;
}
