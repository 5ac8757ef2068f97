/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer of a tap, over a socket whose other side is the test's: what it sends, takes, gives back
 * and waits for, and which other side it does not believe. */
#include "gpu/tap/client/tap.h"

#include <poll.h>
#include <sys/wait.h>

#include "tests/harness/tap_server.h"

static struct hr_tap_options options;
static struct hr_tap *tap;
static struct hr_tap_tile tile[4];
static char why[HR_TAP_REASON];

static void begin(void)
{
	server_begin("tap", HR_TAP_VERSION);
	options = (struct hr_tap_options){ .directory = server.folder,
					   .name = "c",
					   .wait_ms = 100000 };
	tap = NULL;
}

static void end(void)
{
	hr_tap_close(tap);
	server_end();
}

TestSuite(tap_client, .init = begin, .fini = end, .timeout = 120);

static int open_tap(void)
{
	return hr_tap_open("t", &options, &tap, why, sizeof why);
}

static void attached(void)
{
	server_says(0, server_welcome(77));
	server_start();
	cr_assert_eq(open_tap(), 0, "%s", why);
	server_hears(0, HR_TAP_READY);
}

static int next(int timeout_ms)
{
	return hr_tap_next(tap, tile, 4, timeout_ms);
}

static struct hr_tap_returns *page(void)
{
	return (struct hr_tap_returns *)(void *)server.at[2];
}

static uint32_t gen(uint32_t slot)
{
	return __atomic_load_n((uint32_t *)(void *)(page() + 1) + slot, __ATOMIC_ACQUIRE);
}

/* Entry n: tile 10 + n in slot n, of generation 5 + n. */
static void lend_as(unsigned n, struct hr_tap_entry e)
{
	e.check = hr_tap_entry_check(&e, n + 1);
	e.sequence = n + 1;
	*server_entry(n) = e;
}

static struct hr_tap_entry entry(unsigned n)
{
	return (struct hr_tap_entry){
		.tile = 10 + n, .slot = n % SLOTS, .gen = 5 + n, .bytes = 100
	};
}

static void lend(unsigned n)
{
	lend_as(n, entry(n));
}

/* ---- attach */

Test(tap_client, a_hello_asks_for_the_credits_under_the_name_of_the_consumer)
{
	struct hr_tap_message hello = server_message(HR_TAP_HELLO, 0, "");
	const struct hr_tap_info *info;

	options.credits = 9;
	attached();
	hello.credits = 9;
	hello.name[0] = 'c';
	cr_expect_eq(memcmp(&server.hello[0], &hello, sizeof hello), 0);
	info = hr_tap_info(tap);
	cr_expect(info->epoch == 77 && info->tiles == 1000 && info->tile_bytes == 8000);
	cr_expect(info->credits == 3 && info->columns == 12 && info->each == 1 && info->gpu == -1);
	cr_expect_str_eq(info->dtype, "bf16");
	cr_expect_str_eq(info->pipeline, "train");
	cr_expect_eq(info->memory_bytes, (size_t)SLOTS * STRIDE);
	server.at[0][STRIDE] = 0x5a;
	cr_expect_eq(((const uint8_t *)info->memory)[STRIDE], 0x5a);
	cr_expect_str_eq(hr_tap_reason(tap), "");
	cr_expect_eq(hr_tap_code(tap), -1);
	hr_tap_close(tap);
	tap = NULL;
	server_hears(0, HR_TAP_DETACH);
}

Test(tap_client, without_options_a_consumer_has_the_name_of_its_program)
{
	setenv("RUNTIME_DIRECTORY", server.folder, 1);
	server_says(0, server_message(HR_TAP_WAIT, 0, "soon"));
	server_says(0, server_welcome(77));
	server_start();
	cr_assert_eq(hr_tap_open("t", NULL, &tap, NULL, 0), 0);
	cr_expect_eq(server.hello[0].credits, 0);
	cr_expect_str_eq(server.hello[0].name, program_invocation_short_name);
	server_hears(0, HR_TAP_READY);
}

/* Answers that end the attempt; each leaves nothing. */
Test(tap_client, an_answer_that_is_no_welcome_ends_the_attempt)
{
	static const struct {
		uint16_t kind, version, code;
		const char *text;
		int result;
		const char *why;
	} row[] = {
		{ HR_TAP_REFUSED, 3, EBUSY, "all 4 taken", -EBUSY, "tap 't': all 4 taken" },
		{ HR_TAP_REFUSED, 9, 0, "no", -EPROTO, "tap 't': no" },
		{ HR_TAP_WELCOME, 4, 0, "", -EPROTO, "tap 't': the answer is not one of a tap" },
		{ HR_TAP_END, 3, 0, "", -EPROTO, "tap 't': the answer is not one of a tap" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = server_message(row[i].kind, row[i].code, row[i].text);

		m.version = row[i].version;
		server_says(0, m);
		server_start();
		cr_expect_eq(open_tap(), row[i].result);
		cr_expect_str_eq(why, row[i].why);
		server_end();
		begin();
	}
}

/* Sizes that cannot be, and memory that does not have them: nothing is mapped. */
static void expect_welcome(const struct server_row *row)
{
	server_answers(row, hr_tap_page_bytes(SLOTS));
	cr_expect_eq(open_tap(), row->result, "byte %zu, %u: %s", row->at, row->value, why);
	cr_expect(!row->result || strstr(why, "memory has sizes that cannot be") ||
			  strstr(why, "the tiles cannot be mapped"),
		  "byte %zu, %u: %s", row->at, row->value, why);
	end();
	begin();
}

Test(tap_client, a_welcome_whose_memory_cannot_be_ends_the_attempt)
{
	static const struct server_row own[] = {
		{ AT(ring), 0, { 0 }, 3, -EPROTO },
		{ AT(stride), STRIDE - 1, { 0 }, 3, -EPROTO },
		{ AT(columns), 12, { 0 }, 3, 0 },
	};

	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		expect_welcome(&own[i]);
	for (size_t i = 0; i < sizeof server_rows / sizeof *server_rows; i++)
		expect_welcome(&server_rows[i]);
	server_says(0, server_welcome(77));
	((struct hr_tap_head *)(void *)server.at[1])->magic++;
	server_start();
	cr_expect_eq(open_tap(), -EPROTO);
}

Test(tap_client, without_an_appliance_there_is_no_tap)
{
	char longest[300];

	cr_expect_eq(open_tap(), -ECONNREFUSED);
	cr_expect_str_eq(why, "tap 't': no pipeline with this tap runs");
	cr_expect_eq(hr_tap_open("u", &options, &tap, why, sizeof why), -ENOENT);
	cr_expect_eq(hr_tap_open("../t", &options, &tap, why, sizeof why), -EINVAL);
	cr_expect_eq(hr_tap_open("", &options, &tap, why, sizeof why), -EINVAL);
	memset(longest, 'n', sizeof longest);
	longest[sizeof longest - 1] = '\0';
	cr_expect_eq(hr_tap_open(longest, &options, &tap, why, sizeof why), -ENAMETOOLONG);
	options.directory = longest;
	cr_expect_eq(open_tap(), -ENAMETOOLONG);
}

Test(tap_client, only_a_folder_that_no_other_user_can_change_is_trusted)
{
	static const struct {
		mode_t mode;
		uid_t owner;
		int result;
	} row[] = { { 0755, 0, -ECONNREFUSED }, { 0700, 0, -ECONNREFUSED }, { 0775, 0, -ENOENT },
		    { 0757, 0, -ENOENT },	{ 0755, 7, -ENOENT },	    { 0700, 7, -ENOENT } };
	char link[128];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		cr_assert_eq(chmod(server.folder, row[i].mode), 0);
		if (geteuid() == 0)
			cr_assert_eq(chown(server.folder, row[i].owner, 0), 0);
		else if (row[i].owner)
			continue;
		cr_expect_eq(open_tap(), row[i].result, "row %zu", i);
	}
	cr_assert(geteuid() || chown(server.folder, 0, 0) == 0);
	cr_assert_eq(chmod(server.folder, 0755), 0);
	snprintf(link, sizeof link, "%s.link", server.folder);
	cr_assert_eq(symlink(server.folder, link), 0);
	options.directory = link;
	cr_expect_eq(open_tap(), -ENOENT);
	unlink(link);
}

/* The first folder that has the socket, also when it refuses. */
Test(tap_client, the_folders_of_the_environment_come_one_after_the_other)
{
	static const struct {
		const char *given, *user; /* "@": the folder; "+": one with a socket beside it */
		int result;
	} row[] = {
		{ "@", "", -ECONNREFUSED },
		{ "@:/tmp/headrace-none", NULL, -ECONNREFUSED },
		{ "/tmp/headrace-none", "@", -ECONNREFUSED },
		{ "", "@", -ECONNREFUSED },
		{ NULL, "@", -ECONNREFUSED },
		{ "/tmp/headrace-none:@", NULL, -ENOENT },
		{ NULL, NULL, -ENOENT },
		{ "", "", -ENOENT },
	};
	char path[256], inner[128];

	/* XDG_RUNTIME_DIR/headrace */
	snprintf(inner, sizeof inner, "%s/headrace", server.folder);
	cr_assert_eq(symlink(".", inner), 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (int user = 0; user < 2; user++) {
			const char *from = user ? row[i].user : row[i].given;
			const char *name = user ? "XDG_RUNTIME_DIR" : "RUNTIME_DIRECTORY";
			const char *at = from ? strchr(from, '@') : NULL;

			if (at)
				snprintf(path, sizeof path, "%.*s%s%s", (int)(at - from), from,
					 server.folder, at + 1);
			if (from)
				setenv(name, at ? path : from, 1);
			else
				unsetenv(name);
			if (!user)
				continue;
			/* a folder, not a link */
			unlink(inner);
			cr_assert(mkdir(inner, 0755) == 0);
			snprintf(path, sizeof path, "%s/t.tap", inner);
			cr_assert_eq(link(server.path, path), 0);
			options.directory = NULL;
			cr_expect_eq(open_tap(), row[i].result, "row %zu: %s", i, why);
			unlink(path);
			rmdir(inner);
			cr_assert_eq(symlink(".", inner), 0);
		}
	unlink(inner);
}

Test(tap_client, a_run_that_does_not_begin_is_waited_for_as_long_as_the_option_says)
{
	options.wait_ms = 20;
	server_says(0, server_message(HR_TAP_WAIT, 0, "train runs at 12:00"));
	server_start();
	cr_expect_eq(open_tap(), -ETIMEDOUT);
	cr_expect_str_eq(why, "tap 't': train runs at 12:00");
	cr_expect_eq(open_tap(), -ETIMEDOUT);
	cr_expect_str_eq(why, "tap 't': the appliance has no engine that answers, within 20 ms");
}

Test(tap_client, an_engine_that_hangs_up_before_its_answer_is_called_again)
{
	server.hangs_up[0] = true;
	server_says(1, server_welcome(78));
	server_start();
	cr_assert_eq(open_tap(), 0, "%s", why);
	cr_expect_eq(hr_tap_info(tap)->epoch, 78);
	server_hears(1, HR_TAP_READY);
}

/* ---- tiles */

Test(tap_client, tiles_are_taken_as_they_were_lent_and_given_back)
{
	struct hr_tap_entry e = entry(1);

	attached();
	e.flags = HR_TAP_REDELIVERED | 4;
	e.lent_ns = 21;
	e.ready_ns = 22;
	e.freed_ns = 23;
	e.bytes = STRIDE;
	lend(0);
	lend_as(1, e);
	lend(2);
	cr_expect_eq(hr_tap_next(tap, tile, 0, 0), -EINVAL);
	cr_expect_eq(hr_tap_next(tap, tile, 2, -1), 2);
	cr_expect_eq(hr_tap_next(tap, tile + 2, 2, 0), 1);
	for (unsigned n = 0; n < 3; n++) {
		cr_expect_eq((const uint8_t *)tile[n].data -
				     (const uint8_t *)hr_tap_info(tap)->memory,
			     (long)(n * STRIDE));
		cr_expect(tile[n].tile == 10 + n && tile[n].gen == 5 + n && tile[n].slot == n);
		cr_expect(tile[n].bytes == (n == 1 ? STRIDE : 100) && tile[n].epoch == 77);
		cr_expect_eq(tile[n].redelivered, n == 1);
		cr_expect_eq(tile[n].lent_ns, n == 1 ? 21 : 0);
		cr_expect_eq(tile[n].ready_ns, n == 1 ? 22 : 0);
		cr_expect_eq(tile[n].freed_ns, n == 1 ? 23 : 0);
	}
	cr_expect_eq(next(0), -ETIMEDOUT);
	cr_expect_eq(next(3), -ETIMEDOUT);
	cr_expect(page()->wake == 4 && page()->waits == 0);
	/* only a tile in hand can be given back, once */
	for (unsigned i = 0; i < 3; i++) {
		struct hr_tap_tile other = tile[1];

		other.gen += i == 0;
		other.gen *= i != 1;
		other.slot += i == 2 ? SLOTS : 0;
		cr_expect_eq(hr_tap_done(tap, &other), -EINVAL);
		cr_expect_eq(hr_tap_fail(tap, &other), -EINVAL);
	}
	cr_expect_eq(hr_tap_done_stream(tap, &tile[0], NULL), -EINVAL);
	cr_expect_eq(hr_tap_done(tap, &tile[1]), 0);
	cr_expect_eq(hr_tap_fail(tap, &tile[2]), 0);
	cr_expect_eq(hr_tap_done(tap, &tile[1]), -EINVAL);
	cr_expect_eq(hr_tap_done(tap, &tile[2]), -EINVAL);
	cr_expect(gen(0) == 0 && gen(1) == 6 && gen(2) == (7 | HR_TAP_FAILED));
	/* the ring goes round */
	cr_expect_eq(hr_tap_done(tap, &tile[0]), 0);
	for (unsigned n = 3; n < 30; n++) {
		lend(n);
		cr_assert_eq(next(0), 1);
		cr_expect(tile[0].tile == 10 + n && hr_tap_done(tap, tile) == 0);
		cr_expect_eq(gen(n % SLOTS), 5 + n);
	}
}

Test(tap_client, an_entry_with_a_word_that_cannot_be_is_not_taken)
{
	attached();
	for (unsigned i = 0; i < 9; i++) {
		struct hr_tap_entry e = entry(0);

		e.slot = i == 0 ? SLOTS : e.slot;
		e.bytes = i == 1 ? STRIDE + 1 : e.bytes;
		e.gen = i == 2 ? 0 : i == 3 ? HR_TAP_FAILED | 5 : e.gen;
		lend_as(0, e);
		server_entry(0)->check += i == 4;
		server_entry(0)->tile += i == 5;
		server_entry(0)->sequence += i == 6;
		server_entry(0)->sequence -= i == 7;
		cr_expect_eq(next(0), i == 8 ? 1 : -ETIMEDOUT, "%u", i);
	}
	/* a slot that is in hand */
	lend_as(1, (struct hr_tap_entry){ .tile = 11, .slot = 0, .gen = 9, .bytes = 1 });
	cr_expect_eq(hr_tap_next(tap, tile + 1, 1, 0), -ETIMEDOUT);
	cr_expect_eq(hr_tap_done(tap, tile), 0);
	cr_expect_eq(next(0), 1);
}

Test(tap_client, the_last_tile_is_followed_by_none)
{
	attached();
	lend(0);
	((struct hr_tap_head *)(void *)server.at[1])->last = 1;
	cr_expect_eq(next(-1), 1);
	cr_expect_eq(next(-1), 0);
}

static void *lend_later(void *unused)
{
	while (!__atomic_load_n(&page()->waits, __ATOMIC_ACQUIRE))
		usleep(100);
	lend(0);
	return NULL;
}

Test(tap_client, a_tile_that_comes_during_a_wait_ends_it)
{
	pthread_t thread;

	attached();
	cr_assert_eq(pthread_create(&thread, NULL, lend_later, NULL), 0);
	cr_expect_eq(next(-1), 1);
	pthread_join(thread, NULL);
	cr_expect_eq(page()->waits, 0);
}

Test(tap_client, the_descriptor_is_readable_when_there_is_something_to_take)
{
	const struct hr_tap_message tiles = server_message(HR_TAP_TILES, 0, "");
	struct pollfd wait = { .events = POLLIN };

	attached();
	wait.fd = hr_tap_fd(tap);
	cr_assert_geq(wait.fd, 0);
	cr_expect_eq(hr_tap_fd(tap), wait.fd);
	cr_expect_eq(next(0), -ETIMEDOUT);
	cr_expect_eq(poll(&wait, 1, 0), 0);
	cr_expect_eq(page()->wake, 1);
	lend(0);
	server_send(server.fd[0], &tiles);
	cr_expect_eq(poll(&wait, 1, 60000), 1);
	cr_expect_eq(next(0), 1);
	cr_expect_eq(next(0), -ETIMEDOUT);
	cr_expect_eq(poll(&wait, 1, 0), 0);
	cr_expect_eq(page()->wake, 2);
	close(server.fd[0]);
	server.fd[0] = -1;
	cr_expect_eq(poll(&wait, 1, 60000), 1);
	cr_expect_eq(next(0), -ECONNRESET);
}

Test(tap_client, a_child_of_fork_has_no_tap)
{
	int status;
	pid_t child;

	attached();
	lend(0);
	cr_assert_eq(next(0), 1);
	child = fork();
	if (child == 0) {
		const bool none = next(0) == -EPIPE && hr_tap_done(tap, tile) == -EPIPE &&
				  hr_tap_fail(tap, tile) == -EPIPE && hr_tap_fd(tap) == -EPIPE;

		hr_tap_close(tap);
		_exit(!none);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	cr_expect_eq(hr_tap_done(tap, tile), 0);
	cr_expect_eq(recv(server.fd[0], why, 1, MSG_DONTWAIT), -1, "the child says nothing");
}

/* ---- the end of a run */

Test(tap_client, messages_that_end_a_run)
{
	static const struct {
		uint16_t kind, code;
		const char *text;
		bool gone; /* the socket, too */
		int result, ends, run_code;
		const char *reason;
	} row[] = {
		{ HR_TAP_END, 0, "", false, 0, 0, 0, "the run has ended" },
		{ HR_TAP_END, 4, "a fault", false, -EPIPE, -EPIPE, 4, "a fault" },
		{ HR_TAP_REVOKED, 0, "it was slow", false, -EPIPE, -EPIPE, -1,
		  "dropped by the tap: it was slow" },
		{ HR_TAP_WAIT, 0, "", false, -EPIPE, -EPIPE, -1, "the other side is not a tap" },
		{ 0, 0, "", true, -EPIPE, -EPIPE, -1, "the appliance is gone" },
		{ 0, 0, "", false, -ECONNRESET, -ETIMEDOUT, -1,
		  "the engine of the appliance has died" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = server_message(row[i].kind, row[i].code, row[i].text);

		attached();
		lend(0);
		if (row[i].gone)
			unlink(server.path);
		if (row[i].kind)
			server_send(server.fd[0], &m);
		close(server.fd[0]);
		server.fd[0] = -1;
		cr_expect_eq(next(0), 1, "a tile from before the end");
		cr_expect_eq(next(60000), row[i].result, "row %zu", i);
		cr_expect_str_eq(hr_tap_reason(tap), row[i].reason);
		cr_expect_eq(hr_tap_code(tap), row[i].run_code, "row %zu", i);
		cr_expect_eq(next(0), row[i].ends, "row %zu", i);
		end();
		begin();
	}
}

/* Tiles of the first run stay readable, and their memory is unmapped with the last of them. */
Test(tap_client, a_run_that_is_broken_off_is_followed_by_another)
{
	struct hr_tap_message m = server_message(HR_TAP_END, 4, "it broke");
	const uint32_t *old;
	unsigned mapped;

	server_says(1, server_welcome(78));
	attached();
	lend(0);
	lend(1);
	cr_expect_eq(next(0), 2);
	old = mmap(NULL, 4096, PROT_READ, MAP_SHARED, server.memory[2], 0);
	server_memory((size_t)SLOTS * STRIDE, hr_tap_ring_bytes(RING), hr_tap_page_bytes(SLOTS));
	m.again = 1;
	server_send(server.fd[0], &m);
	cr_expect_eq(next(60000), -ECONNRESET);
	cr_expect_str_eq(hr_tap_reason(tap), "it broke");
	cr_expect_eq(hr_tap_code(tap), 4);
	lend(0);
	cr_assert_eq(hr_tap_next(tap, tile + 2, 1, 60000), 1);
	server_hears(1, HR_TAP_READY);
	cr_expect(hr_tap_info(tap)->epoch == 78 && tile[2].epoch == 78);
	cr_expect_eq(hr_tap_code(tap), -1);
	cr_expect_str_eq(hr_tap_reason(tap), "");
	mapped = server_mappings();
	cr_expect_eq(hr_tap_done(tap, &tile[1]), 0);
	cr_expect_eq(hr_tap_done(tap, &tile[1]), -EINVAL);
	cr_expect(old[17] == 6 && server_mappings() == mapped);
	cr_expect_eq(hr_tap_fail(tap, &tile[0]), 0);
	cr_expect_eq(server_mappings(), mapped - 3);
	cr_expect(old[16] == (5 | HR_TAP_FAILED) && gen(0) == 0);
	cr_expect_eq(hr_tap_done(tap, &tile[0]), -EINVAL);
	cr_expect_eq(hr_tap_done(tap, &tile[2]), 0);
	cr_expect_eq(gen(0), 5);
	munmap((void *)(uintptr_t)old, 4096);
}

Test(tap_client, a_next_run_that_does_not_come_is_the_end)
{
	static const struct {
		uint16_t kind, code;
		const char *text;
		unsigned memories;
		int result;
		const char *reason;
	} row[] = {
		{ HR_TAP_REFUSED, EBUSY, "full", 3, -EPIPE, "full" },
		{ HR_TAP_WELCOME, 0, "", 0, -ENOMEM, "the tiles cannot be mapped" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_tap_message m = server_welcome(78),
				      broke = server_message(HR_TAP_END, 4, "it broke");

		if (row[i].kind == HR_TAP_REFUSED)
			m = server_message(row[i].kind, row[i].code, row[i].text);
		server_says(1, m);
		attached();
		server.memories = row[i].memories;
		broke.again = 1;
		server_send(server.fd[0], &broke);
		cr_expect_eq(next(60000), -ECONNRESET, "row %zu", i);
		cr_expect_eq(next(60000), row[i].result, "row %zu", i);
		cr_expect_str_eq(hr_tap_reason(tap), row[i].reason);
		cr_expect_eq(next(0), row[i].result, "row %zu", i);
		end();
		begin();
	}
}
