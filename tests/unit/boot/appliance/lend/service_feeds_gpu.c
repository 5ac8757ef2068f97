/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producers of a feed on a GPU: they get the tiles of the bring-up, one process after the other,
 * each with words of its own. The test plays the worker; one producer is a child, the other one the
 * test itself.
 */
#include "boot/appliance/lend/service.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/scm.h"
#include "boot/engine/shared_memory.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "tests/fakes/clock.h"
#include "tests/harness/error.h"
#include "tests/harness/service_rig.h"

#define SLOTS 4u
#define TILE 8192u
#define BYTES ((size_t)2 << 20)
#define SETS 4u
#define LIMIT_NS (120 * HR_NS_PER_S)

static struct hr_engine engine;
static struct hr_lend_service service;
static struct hr_operator op = { .name = "copy" };
static struct hr_feed_role role;
static struct hr_feed_words words;
static struct hr_slot slots[SLOTS];
static struct hr_partition partition; /* a place for each part, which is enough here */
static struct hr_gpu_facts facts = { .uuid = { 0x11, 0x22, [15] = 0xff } };
static char directory[64];

/* ---- the appliance: a run with a feed, without other parts */

static void make_memory(void)
{
	struct hr_feed_memory *memory = &engine.feed_memory[0];
	struct hr_sets_range range = { .entries_name = "entries",
				       .page_name = "page",
				       .entries_bytes = hr_tap_ring_bytes(SLOTS),
				       .page_bytes = hr_feed_page_bytes(SLOTS),
				       .count = SETS };

	role.entries = range.entries = service_reserve(SETS * range.entries_bytes);
	role.pages = range.pages = service_reserve(SETS * range.page_bytes);
	memory->tiles = memfd_create("tiles", MFD_CLOEXEC);
	cr_assert_geq(memory->tiles, 0);
	cr_assert_eq(hr_sets_fill(&memory->sets, &range, test_error()), 0);
	memory->bytes = BYTES;
	memory->up = true;
	engine.backend[0].facts = &facts;
}

static void set_up(void)
{
	struct hr_config_pipeline *pipeline = &engine.config.pipeline[0];
	struct hr_run *run = &engine.run[0];

	hr_log_set_level(HR_LOG_ERROR);
	snprintf(directory, sizeof directory, "/tmp/hr-feed-gpu-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
	setenv("RUNTIME_DIRECTORY", directory, 1);
	engine.config.pipelines = 1;
	pipeline->op = &op;
	snprintf(pipeline->name, sizeof pipeline->name, "take");
	snprintf(pipeline->feed.name, sizeof pipeline->feed.name, "f");
	pipeline->feed.group = HR_CONTROL_NO_GROUP;
	run->config = pipeline;
	run->selected = true;
	run->slots = SLOTS;
	run->tiles = 20;
	run->source[0].tile_bytes = TILE;
	run->feed.role.ring = SLOTS;
	run->started_ns = 1;
	make_memory();
	role.words = &words;
	words.total = HR_NO_TILE;
	run->cpu.feed = &role;
	run->cpu.slot = slots;
	run->layout.parts.partition = &partition;
	run->layout.feed_entries = service_add_part(&partition, HR_PLACE_TAP_WORDS, role.entries);
	run->layout.feed_pages = service_add_part(&partition, HR_PLACE_HOST, role.pages);
	run->layout.feed_words = service_add_part(&partition, HR_PLACE_CONTROL, &words);
	fake_clock_start(HR_NS_PER_S, NULL, NULL);
	cr_assert_eq(hr_lend_service_open(&service, &engine, NULL, false, test_error()), 0, "%s",
		     test_error_text());
}

static void tear_down(void)
{
	engine.run[0].ended_ns = 2;
	hr_lend_service_close(&service);
	hr_feed_memory_close(&engine.feed_memory[0]);
	fake_clock_stop();
	rmdir(directory);
}

TestSuite(feed_gpu, .timeout = 200, .init = set_up, .fini = tear_down);

/* A step of the service, after which the worker obeys. */
static void step(uint64_t ns)
{
	fake_clock_advance(ns);
	hr_lend_service_step(&service);
	words.obeyed = words.order;
}

/* ---- producers */

static int connect_silently(void)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&service.feed[0].at,
			     sizeof service.feed[0].at),
		     0);
	return fd;
}

static int connect_to(void)
{
	const int fd = connect_silently();
	const struct hr_tap_message hello = { .magic = HR_TAP_MAGIC,
					      .kind = HR_FEED_HELLO,
					      .version_least = HR_FEED_VERSION,
					      .version = HR_FEED_VERSION };

	cr_assert_eq(hr_scm_send(fd, &hello, sizeof hello, NULL, 0), 0);
	return fd;
}

static void say(int fd, uint16_t kind)
{
	const struct hr_tap_message m = { .magic = HR_TAP_MAGIC, .kind = kind };

	cr_assert_eq(hr_scm_send(fd, &m, sizeof m, NULL, 0), 0);
}

/* The answer to HELLO, if there is one; with WELCOME its descriptors. */
static bool hear(int fd, struct hr_tap_message *m, int fds[HR_TAP_FDS])
{
	unsigned count = 0;

	memset(m, 0, sizeof *m);
	return hr_scm_receive(fd, m, sizeof *m, fds, HR_TAP_FDS, &count) == sizeof *m;
}

static void drop_fds(int fds[HR_TAP_FDS])
{
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		close(fds[i]);
}

static int expect_welcome(struct hr_tap_message *m)
{
	int fds[HR_TAP_FDS], fd = connect_to();

	step(HR_TAP_STEP_NS);
	cr_assert(hear(fd, m, fds));
	cr_assert_eq(m->kind, HR_FEED_WELCOME, "%s", m->text);
	drop_fds(fds);
	say(fd, HR_TAP_READY);
	step(HR_TAP_STEP_NS);
	cr_assert_eq(service.feed[0].producer.peer.state, HR_LEND_ATTACHED);
	return fd;
}

static void hear_refusal(int fd, int code, const char *why)
{
	struct hr_tap_message m;
	int fds[HR_TAP_FDS];

	cr_assert(hear(fd, &m, fds));
	cr_expect_eq(m.kind, HR_TAP_REFUSED);
	cr_expect_eq(m.code, code);
	cr_expect_str_eq(m.text, why);
	close(fd);
}

static void expect_refused(const char *why)
{
	const int fd = connect_to();

	step(HR_TAP_STEP_NS);
	hear_refusal(fd, EBUSY, why);
}

/* A child attaches, commits nothing, and says DETACH when it is told to. */
static pid_t begin_child(bool detaches)
{
	int ready[2];
	char byte;
	pid_t child;

	cr_assert_eq(pipe(ready), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		struct hr_tap_message m;
		int fds[HR_TAP_FDS], fd = connect_to();

		while (!hear(fd, &m, fds))
			usleep(1000);
		say(fd, HR_TAP_READY);
		if (detaches)
			say(fd, HR_TAP_DETACH);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	fcntl(ready[0], F_SETFL, O_NONBLOCK);
	while (read(ready[0], &byte, 1) != 1) {
		step(HR_TAP_STEP_NS);
		usleep(1000);
	}
	close(ready[0]);
	for (int i = 0; i < 10; i++)
		step(HR_TAP_STEP_NS);
	return child;
}

static void kill_child(pid_t child)
{
	cr_assert_eq(kill(child, SIGKILL), 0);
	cr_assert_eq(waitpid(child, NULL, 0), child);
}

/* ---- the tests */

Test(feed_gpu, welcome_names_the_gpu_and_its_memory)
{
	struct hr_tap_message m;
	const int fd = expect_welcome(&m);

	cr_expect_eq(m.memory, HR_TAP_MEMORY_CUDA);
	cr_expect_eq(m.gpu.bytes, BYTES);
	cr_expect_eq(memcmp(m.gpu.uuid, facts.uuid, sizeof facts.uuid), 0);
	cr_expect_eq(m.tile_bytes, TILE);
	close(fd);
}

/* Not even a process attaches again to words that it has passed on. */
Test(feed_gpu, each_producer_has_a_page_of_its_own)
{
	struct hr_feed_commits *page = (struct hr_feed_commits *)(void *)role.pages;
	struct hr_tap_message m;
	int fd = expect_welcome(&m);

	page->commit[1] = 99;
	say(fd, HR_TAP_DETACH);
	step(HR_TAP_STEP_NS);
	step(HR_TAP_STEP_NS);
	cr_expect_eq(service.feed[0].producer.peer.state, HR_LEND_FREE);
	cr_expect_eq(page->commit[1], 99, "the memory stays mapped");
	close(fd);
	fd = expect_welcome(&m);
	cr_expect_eq(words.set, 1);
	cr_expect_eq((uint8_t *)hr_run_feed_page(&engine.run[0]),
		     role.pages + hr_feed_page_bytes(SLOTS));
	cr_expect_eq(
		((struct hr_feed_commits *)(void *)hr_run_feed_page(&engine.run[0]))->commit[1], 0);
	cr_expect_eq(engine.run[0].feed.attached, 2);
	close(fd);
}

Test(feed_gpu, a_run_has_so_many_producers)
{
	struct hr_tap_message m;

	for (uint32_t i = 0; i < SETS; i++) {
		const int fd = expect_welcome(&m);

		say(fd, HR_TAP_DETACH);
		step(HR_TAP_STEP_NS);
		step(HR_TAP_STEP_NS);
		close(fd);
	}
	expect_refused("memory for 4 clients on the GPU is used up: it is renewed when this "
		       "pipeline starts and no other runs");
}

Test(feed_gpu, another_process_waits_for_the_end_of_one_that_has_detached)
{
	const pid_t child = begin_child(true);
	struct hr_tap_message m;
	char why[96];

	cr_assert_eq(engine.run[0].feed.attached, 1);
	cr_assert_eq(service.feed[0].producer.peer.state, HR_LEND_FREE);
	snprintf(why, sizeof why, "process %d has the tiles on the GPU mapped until it ends",
		 (int)child);
	expect_refused(why);
	kill_child(child);
	close(expect_welcome(&m));
}

Test(feed_gpu, a_client_gets_the_memory_after_the_end_of_a_killed_process)
{
	const pid_t child = begin_child(false);
	struct hr_tap_message m;

	cr_assert_eq(service.feed[0].producer.peer.state, HR_LEND_ATTACHED);
	kill_child(child);
	step(HR_TAP_STEP_NS);
	step(HR_TAP_STEP_NS);
	close(expect_welcome(&m));
}

Test(feed_gpu, under_mps_it_waits_longer)
{
	const pid_t child = begin_child(false);
	struct hr_tap_message m;
	int fds[HR_TAP_FDS], fd;

	facts.mps = true;
	kill_child(child);
	step(HR_TAP_STEP_NS);
	step(HR_TAP_STEP_NS);
	fd = connect_to();
	step(HR_TAP_STEP_NS);
	step(HR_FEED_QUIET_NS / 2);
	cr_expect_not(hear(fd, &m, fds));
	step(HR_FEED_QUIET_NS);
	cr_assert(hear(fd, &m, fds));
	cr_expect_eq(m.kind, HR_FEED_WELCOME);
	drop_fds(fds);
	close(fd);
}

/* The next run of the same engine has the same memory. */
Test(feed_gpu, the_process_of_an_earlier_run_counts_too)
{
	const pid_t child = begin_child(true);
	struct hr_tap_message m;
	char why[96];

	engine.run[0].ended_ns = 2;
	engine.run[0].outcome = HR_RUN_INTERRUPTED;
	hr_lend_service_end(&service, 0);
	engine.run[0].ended_ns = 0;
	engine.run[0].outcome = HR_RUN_WAITING;
	cr_assert_eq(hr_lend_service_begin(&service, 0, test_error()), 0);
	snprintf(why, sizeof why, "process %d has the tiles on the GPU mapped until it ends",
		 (int)child);
	expect_refused(why);
	kill_child(child);
	close(expect_welcome(&m));
}

/* ---- the service */

static void end_run(void)
{
	engine.run[0].ended_ns = 2;
	step(HR_TAP_STEP_NS);
}

static void close_service(void)
{
	end_run();
	hr_lend_service_close(&service);
	engine.run[0].ended_ns = 0;
}

Test(feed_gpu, a_second_process_is_refused)
{
	struct hr_tap_message m;
	const int fd = expect_welcome(&m);
	char why[96];

	snprintf(why, sizeof why, "process %d of user %u is attached", (int)getpid(),
		 (unsigned)getuid());
	expect_refused(why);
	cr_expect_eq(service.feed[0].producer.peer.state, HR_LEND_ATTACHED);
	close(fd);
}

/* A producer, a client that was refused, and one that says nothing. */
Test(feed_gpu, the_end_is_told_to_all_and_leaves_nothing_open)
{
	struct hr_tap_message m;
	int fds[HR_TAP_FDS], fd, silent;
	struct stat st;
	unsigned before;
	pid_t child;
	char why[96];

	close_service();
	before = service_open_fds();
	cr_assert_eq(hr_lend_service_open(&service, &engine, NULL, false, test_error()), 0);
	cr_assert_eq(stat(service.feed[0].at.sun_path, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0600u, "no group may connect");
	child = begin_child(true);
	snprintf(why, sizeof why, "process %d has the tiles on the GPU mapped until it ends",
		 (int)child);
	expect_refused(why);
	kill_child(child);
	fd = expect_welcome(&m);
	silent = connect_silently();
	step(HR_TAP_STEP_NS);
	end_run();
	cr_assert(hear(fd, &m, fds), "the producer is told");
	cr_expect_eq(m.kind, HR_TAP_END);
	close(fd);
	hear_refusal(silent, EPIPE, "the run has ended");
	cr_expect_neq(stat(service.feed[0].at.sun_path, &st), 0);
	close_service();
	/* without the entries and the page of each producer */
	cr_expect_eq(service_open_fds(), before - 2 * 2, "%u, before %u", service_open_fds(),
		     before);
}

Test(feed_gpu, a_run_that_does_not_start_has_no_socket)
{
	close_service();
	engine.run[0].outcome = HR_RUN_COMPLETE;
	cr_assert_eq(hr_lend_service_open(&service, &engine, NULL, false, test_error()), 0);
	cr_expect_eq(service.feed[0].state, HR_LEND_CLOSED);
	engine.run[0].outcome = HR_RUN_WAITING;
}

Test(feed_gpu, when_a_socket_cannot_be_opened_none_stays)
{
	unsigned before;

	close_service();
	before = service_open_fds();
	engine.config.pipelines = 2;
	engine.config.pipeline[1] = engine.config.pipeline[0];
	engine.run[1] = engine.run[0];
	engine.run[1].config = &engine.config.pipeline[1];
	cr_assert_eq(hr_lend_service_open(&service, &engine, NULL, false, test_error()),
		     -EADDRINUSE);
	cr_expect_eq(service_open_fds(), before);
	cr_expect_eq(rmdir(directory), 0, "it is empty");
	engine.config.pipelines = 1;
}
