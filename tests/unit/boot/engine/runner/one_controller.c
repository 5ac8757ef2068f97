/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several ssds that are namespaces of one controller: one bring-up, one admin queue, one pool of I/O
 * queue pairs, and one end. Software controllers and the host backend.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/process.h"
#include "config/base/clock.h"
#include "boot/engine/bringup/disks.h"
#include "boot/engine/runner/runner.h"
#include "nvme/events.h"
#include "tests/fakes/log.h"
#include "tests/harness/engine.h"

#define TWO "soft:memory,size=64M,namespaces=2"
#define SHORT_NS (300 * HR_NS_PER_MS)

static struct hr_engine *engine;
static char rules_file[64];
static unsigned timeout_ms = 60000; /* deadline of commands; shorter in tests that wait for it */

static void begin(void)
{
	engine = calloc(1, sizeof *engine);
	cr_assert_not_null(engine);
}

static void end(void)
{
	hr_engine_down(engine);
	free(engine);
	if (rules_file[0])
		unlink(rules_file);
}

TestSuite(one_controller, .init = begin, .fini = end, .timeout = 120);

/* Namespace 1 is a, with object "in"; namespace 2 is b. c has its own controller. */
static int up(const char *device, const char *pipelines, enum hr_stage last)
{
	engine_print(
		engine,
		"ssds = ( { name = \"a\"; device = \"%s\"; timeout_ms = %u; queue_entries = 64;"
		" objects = ( { name = \"in\"; bytes = \"1M\"; } ); },\n"
		"{ name = \"b\"; device = \"%s\"; namespace = 2; timeout_ms = %u;"
		" queue_entries = 16; objects = ( { name = \"small\"; bytes = \"64K\"; } ); },\n"
		"{ name = \"c\"; device = \"soft:memory,size=16M\"; } );\n"
		"gpus = ( { name = \"g\"; device = \"host:2\"; } );\npipelines = ( %s );\n",
		device, timeout_ms, device, timeout_ms, pipelines);
	return hr_engine_up(engine, last);
}

#define COPY(blocks)                                                                       \
	"{ name = \"p\"; source = { ssd = \"a\"; object = \"in\"; }; operator = \"copy\";" \
	" sink = { ssd = \"b\"; object = \"out\"; }; tile = \"4K\"; slots = 256;" blocks " }"

/* The device with a fault script. */
static const char *faulty(const char *rules)
{
	static char device[160];
	int fd;

	snprintf(rules_file, sizeof rules_file, "/tmp/headrace-namespaces-XXXXXX");
	fd = mkstemp(rules_file);
	cr_assert(dprintf(fd, "%s", rules) >= 0);
	close(fd);
	snprintf(device, sizeof device, TWO ",faults=%s", rules_file);
	return device;
}

Test(one_controller, the_controller_is_brought_up_once_and_serves_both)
{
	uint32_t left;

	cr_assert_eq(up(TWO, COPY(""), HR_STAGE_STORES), 0);
	cr_expect(hr_ssd_same_controller(&engine->ssd[0], &engine->ssd[1]));
	cr_expect(!hr_ssd_same_controller(&engine->ssd[0], &engine->ssd[2]));
	cr_expect_eq(engine->ssd[0].controller->users, 2);
	cr_expect_eq(engine->ssd[0].ns.blocks, (32u << 20) / 4096);
	cr_expect_eq(engine->ssd[1].ns.blocks, (32u << 20) / 4096);
	cr_expect_eq(engine->ssd[0].queue_entries, 64);
	cr_expect_eq(engine->ssd[1].queue_entries, 16);
	left = hr_ssd_queues_left(&engine->ssd[1]);
	cr_expect_eq(left, hr_ssd_queues(&engine->ssd[0]) - 2, "one for each object store");
	cr_assert_eq(hr_engine_up(engine, HR_STAGE_QUEUES), 0);
	hr_unseal();
	cr_expect_eq(hr_ssd_queues_left(&engine->ssd[0]), left - 2, "a reader, and a writer");
	cr_expect_eq(engine->mapped[HR_PLACE_HOST][0], 1, "once, for the first of them");
	cr_expect_eq(engine->bar[0][0], engine->bar[0][1]);
	cr_expect_neq(engine->run[0].cpu.read_qp[0].id, engine->run[0].cpu.write_qp[0].id);
	hr_engine_down_to(engine, HR_STAGE_STORES);
	cr_expect_eq(hr_ssd_queues_left(&engine->ssd[0]), left);
}

Test(one_controller, a_copy_goes_from_one_namespace_to_the_other)
{
	static uint8_t in[1 << 20], out[1 << 20];
	const struct hr_store_object *from, *to;

	cr_assert_eq(up(TWO, COPY("blocks = { prefetch = 3; writeback = 2; };"), HR_STAGE_QUEUES),
		     0);
	cr_assert_eq(hr_run_all(engine, false, NULL), 0);
	hr_unseal();
	from = hr_store_find(&engine->ssd[0].store, "in");
	to = hr_store_find(&engine->ssd[1].store, "out");
	cr_assert(from && to);
	cr_expect_null(hr_store_find(&engine->ssd[0].store, "out"));
	cr_assert_eq(engine->ssd[0].blk->ops->read(engine->ssd[0].blk, from->offset, in, sizeof in,
						   NULL),
		     0);
	cr_assert_eq(engine->ssd[1].blk->ops->read(engine->ssd[1].blk, to->offset, out, sizeof out,
						   NULL),
		     0);
	cr_expect_eq(memcmp(in, out, sizeof in), 0);
	cr_expect_neq(in[8], 0);
}

static int plan(unsigned readers, unsigned writers)
{
	char pipeline[512];

	snprintf(pipeline, sizeof pipeline, COPY("blocks = { prefetch = %u; writeback = %u; };"),
		 readers, writers);
	return up(TWO, pipeline, HR_STAGE_PARTITION);
}

Test(one_controller, queue_pairs_of_all_namespaces_count_together)
{
	unsigned have;

	cr_assert_eq(plan(1, 1), 0);
	have = hr_ssd_queues_left(&engine->ssd[0]);
	hr_engine_down(engine);
	cr_assert_gt(have, 4, "%u", have);
	cr_expect_eq(plan(have - 2, 2), 0);
	hr_engine_down(engine);
	cr_expect_eq(plan(have - 2, 3), -ENOTSUP);
	cr_expect_eq(plan(have - 1, 2), -ENOTSUP);
	cr_expect(strstr(fake_log_last(), "f:1: ssd 'a' and ssd 'b' (line 2)"), "%s",
		  fake_log_last());
}

/* The first ssd made the controller, and the second keeps it. */
Test(one_controller, the_last_ssd_closes_the_controller_in_any_order)
{
	static uint8_t page[4096] __attribute__((aligned(4096)));

	for (uint32_t first = 0; first < 2; first++) {
		struct hr_ssd *gone = &engine->ssd[first], *left = &engine->ssd[!first];

		cr_assert_eq(up(TWO, COPY(""), HR_STAGE_STORES), 0);
		hr_ssd_down(gone);
		cr_expect_eq(left->controller->users, 1);
		cr_expect_eq(left->controller->queues_used, 1);
		cr_expect(hr_reg_read32(&left->transport, NVME_REG_CC) & 1, "still enabled");
		cr_expect_eq(left->blk->ops->read(left->blk, 0, page, sizeof page, NULL), 0);
		cr_assert_eq(hr_disk_up(engine, first), 0, "and it may come back");
		cr_expect(hr_ssd_same_controller(gone, left));
		cr_expect_eq(left->controller->queues_used, 2);
		cr_expect_eq(gone->blk->ops->read(gone->blk, 0, page, sizeof page, NULL), 0);
		hr_engine_down(engine);
		cr_expect_null(engine->ssd[0].controller);
		cr_expect_null(engine->ssd[1].controller);
	}
}

/* Its memory is allocated and mapped at that time, and taken back without any command. */
Test(one_controller, a_namespace_without_a_queue_pair_leaves_the_other_as_it_is)
{
	struct hr_ssd *a = &engine->ssd[0], *b = &engine->ssd[1];
	static uint8_t page[4096] __attribute__((aligned(4096)));
	uint32_t queues;

	cr_assert_eq(up(TWO, COPY(""), HR_STAGE_STORES), 0);
	hr_ssd_down(b);
	queues = a->controller->queues;
	a->controller->queues = a->controller->queues_used;
	cr_expect_eq(hr_disk_up(engine, 1), -ENOTSUP);
	cr_expect(strstr(engine->error.text, "namespace 2: none of the 1 I/O queue pairs of the "
					     "controller is left"),
		  "%s", engine->error.text);
	hr_error_clear(&engine->error);
	cr_expect_eq(a->controller->kept, 0u, "all memory is free again");
	cr_expect_eq(a->controller->users, 1u);
	cr_expect_eq(a->controller->queues_used, 1u);
	cr_expect_null(b->controller);
	cr_expect(hr_reg_read32(&a->transport, NVME_REG_CC) & 1, "still enabled");
	a->controller->queues = queues;
	cr_expect_eq(hr_disk_up(engine, 1), 0);
	cr_expect_eq(a->blk->ops->read(a->blk, 0, page, sizeof page, NULL), 0);
}

/* From now on commands of this queue pair have a deadline that the test waits for. */
static void shorten(struct hr_nvme_qp *qp)
{
	qp->timeout_ns = SHORT_NS;
	qp->next_scan_ns = 0; /* the long deadline has set this value */
}

/*
 * A command lost on namespace 1 disables the controller, also for namespace 2; c has another one.
 */
Test(one_controller, a_lost_command_on_one_namespace_fails_all_of_the_controller)
{
	static uint8_t page[4096] __attribute__((aligned(4096)));
	struct hr_ssd *a = &engine->ssd[0], *b = &engine->ssd[1];

	cr_assert_eq(up(faulty("on read lba 8000: drop\n"), COPY(""), HR_STAGE_STORES), 0);
	shorten(&a->disk.qp);
	cr_expect_eq(a->blk->ops->read(a->blk, 8000 * 4096, page, sizeof page, NULL), -ETIMEDOUT);
	cr_expect_eq(a->health.state, HR_HEALTH_FAILED);
	cr_expect_eq(b->health.state, HR_HEALTH_FAILED);
	cr_expect_eq(engine->ssd[2].health.state, HR_HEALTH_UP);
	cr_expect_eq(hr_ssd_delete_qps(b), 0);
	cr_expect_eq(hr_reg_read32(&b->transport, NVME_REG_CC) & 1, 0u, "disabled");
	cr_expect_eq(b->blk->ops->read(b->blk, 0, page, sizeof page, NULL), -EIO);
	hr_ssd_down(a);
	cr_expect_eq(hr_disk_up(engine, 0), -EIO, "b is still on the failed controller");
	hr_ssd_down(b);
	cr_expect_eq(hr_disk_up(engine, 0), 0, "a new start");
}

Test(one_controller, a_run_that_loses_a_command_fails_all_ssds_of_the_controller)
{
	const uint64_t lba = 300; /* LBA of "in" */
	struct hr_pipe *pipe;
	char rules[64];

	snprintf(rules, sizeof rules, "on read lba %u-8191: drop\n", (unsigned)lba);
	cr_assert_eq(up(faulty(rules), COPY(""), HR_STAGE_QUEUES), 0);
	pipe = &engine->run[0].cpu;
	for (uint32_t i = 0; i < pipe->blocks[HR_ROLE_PREFETCH] * pipe->read_queues; i++)
		shorten(&pipe->read_qp[i]);
	cr_expect_eq(hr_run_all(engine, false, NULL), -ETIMEDOUT);
	hr_unseal();
	cr_expect(hr_health_failed(&engine->ssd[0].health) &&
		  hr_health_failed(&engine->ssd[1].health) &&
		  !hr_health_failed(&engine->ssd[2].health));
	hr_engine_down(engine);
	cr_expect(!hr_any_controller_stuck(engine));
}

/* A loss in the stage `stores` leaves out both ssds; a pipeline that needs neither runs. */
Test(one_controller, other_pipelines_run_without_the_failed_controller)
{
	const char *device = faulty("on write lba 300-8191: drop\n"); /* in a's object */

	timeout_ms = SHORT_NS / HR_NS_PER_MS;
	up(device,
	   COPY("") ", { name = \"q\"; source = { ssd = \"c\"; object = \"in\"; };"
		    " operator = \"crc32c\"; }",
	   HR_STAGE_BACKENDS);
	engine->keep_going = true;
	cr_expect_eq(hr_engine_up(engine, HR_STAGE_STORES), 0);
	cr_expect(engine->left_out[0] && engine->left_out[1] && !engine->left_out[2]);
	cr_expect_null(engine->ssd[0].controller);
	cr_expect_null(engine->ssd[1].controller);
	cr_expect(engine->run[1].selected && !engine->run[0].selected);
}

Test(one_controller, an_event_is_reported_once_and_ends_only_its_namespace)
{
	static uint8_t page[4096] __attribute__((aligned(4096)));
	struct hr_ssd *a = &engine->ssd[0], *b = &engine->ssd[1];
	const uint64_t deadline = hr_now_ns() + 60 * HR_NS_PER_S;
	int err = 0;

	cr_assert_eq(up(faulty("on read lba 8000: protect\n"), COPY(""), HR_STAGE_STORES), 0);
	b->ns.blocks++; /* as if the namespace had been larger at bring-up */
	cr_assert_eq(a->blk->ops->read(a->blk, 8000 * 4096, page, sizeof page, NULL), 0);
	while (!err && hr_now_ns() < deadline) {
		cr_assert_eq(hr_ctrl_aer_poll(a->ctrl, &a->ns, NULL), 0);
		err = hr_ctrl_aer_poll(b->ctrl, &b->ns, NULL);
		hr_wait_ns(HR_NS_PER_MS);
	}
	cr_expect_eq(err, -ENXIO);
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "namespace 2 has changed"), "%s",
		  fake_log_last_of(HR_LOG_ERROR));
	cr_expect(strstr(fake_log_last_of(HR_LOG_WARN), "namespace 1 is write protected now"), "%s",
		  fake_log_last_of(HR_LOG_WARN));
	hr_error("the end of the first look");
	cr_expect_eq(hr_ctrl_aer_poll(a->ctrl, &a->ns, NULL), 0);
	cr_expect_eq(hr_ctrl_aer_poll(b->ctrl, &b->ns, NULL), -ENXIO, "it stays lost");
	cr_expect(strstr(fake_log_last_of(HR_LOG_ERROR), "the end of the first look"));
}

Test(one_controller, one_namespace_in_two_lines_is_a_mistake)
{
	cr_assert_eq(up(TWO, COPY(""), HR_STAGE_BACKENDS), 0);
	engine->config.ssd[1].nsid = 1;
	cr_expect_eq(hr_engine_up(engine, HR_STAGE_CONTROLLERS), -EINVAL);
	cr_expect(strstr(fake_log_last(), "f:2: ssd 'b' and ssd 'a' (line 1) are the same disk"),
		  "%s", fake_log_last());
}

/* A missing namespace does not make the other namespace fail. */
Test(one_controller, a_missing_namespace_leaves_the_other_namespace_usable)
{
	cr_assert_eq(up(TWO, COPY(""), HR_STAGE_BACKENDS), 0);
	engine->config.ssd[1].nsid = 3;
	cr_assert_eq(hr_disk_up(engine, 0), 0);
	cr_expect_eq(hr_disk_up(engine, 1), -ENOENT);
	cr_expect(strstr(engine->error.text, "the controller has 1, 2"), "%s", engine->error.text);
	cr_expect_eq(engine->ssd[0].controller->users, 1);
	cr_expect_eq(engine->ssd[0].controller->kept, 0, "memory of the one that left is free");
	hr_ssd_down(&engine->ssd[0]);
}
