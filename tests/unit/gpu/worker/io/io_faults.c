/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O workers over controllers with scripted faults, and stop requests: what fails is named, what
 * can be repeated is repeated, and every run ends.
 */
#include <criterion/criterion.h>
#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>

#include "cache/objects/objects.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "tests/harness/access_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS (20 * HR_NS_PER_S)
#define LOST_TIMEOUT_NS (2 * HR_NS_PER_S) /* deadline of commands in tests that wait for it */
#define PAGES 40u
#define LBA 4096u

/*
 * The rig writes the object with 8 commands of 64 blocks each. Rules for writes exclude these
 * commands.
 */

TestSuite(io_faults, .timeout = 120);

static struct access_rig rig;
static int32_t op_error; /* error of the operator's last call, with one compute worker */

static const struct access_work reads = { .objects = 1, .bytes = { PAGES * LBA }, .frames = 2000 };
static const struct access_work writes = {
	.objects = 1, .bytes = { PAGES * LBA }, .writable = 1, .frames = 2000
};

static void read_all(struct hr_objects *objects)
{
	static uint8_t data[PAGES * LBA];
	const struct hr_object *o = hr_get_object_map(objects, 0);

	if (hr_pread(objects, o, 0, data, sizeof data) == (int64_t)sizeof data)
		cr_assert(memcmp(data, rig.model[0], sizeof data) == 0);
	op_error = objects->error;
}

static void write_all(struct hr_objects *objects)
{
	memset(rig.model[0], 0x6b, PAGES * LBA);
	(void)hr_pwrite(objects, hr_get_object_map(objects, 0), 0, rig.model[0], PAGES * LBA);
	op_error = hr_flush(objects);
}

static uint32_t finished;

static void finish(const struct hr_op_all *all)
{
	finished++;
	cr_expect_eq(all->object_bytes[0], PAGES * LBA);
	access_check_disk(&rig, 0);
}

/* A run under a script. Returns the failure, or NULL. */
static const struct hr_failure *run(const char *script, uint64_t timeout_ns,
				    const struct access_work *work,
				    void (*op)(struct hr_objects *objects))
{
	access_up(&rig, 1, "lba=4096", script, 64, timeout_ns);
	rig.op.run = op;
	rig.op.finish = finish;
	access_start(&rig, work);
	access_wait(&rig);
	return access_failure(&rig);
}

Test(io_faults, a_bad_page_is_named_although_its_command_reads_others)
{
	for (uint32_t staging = 0; staging < 2; staging++) {
		struct access_work work = reads;
		const struct hr_failure *failure;

		work.staging = staging;
		failure = run("on read lba 13 count 1000: status 0x281\n", TIMEOUT_NS, &work,
			      read_all);
		cr_assert_not_null(failure);
		cr_expect_eq(failure->error, 0x281);
		cr_expect_eq(failure->role, HR_ROLE_IO);
		cr_expect_eq(failure->object, ACCESS_OBJECT_ID(0));
		cr_expect_eq(failure->tile, 13);
		cr_expect_eq(failure->lba, 13);
		cr_expect_eq(failure->opcode, nvme_cmd_read);
		cr_expect_neq(failure->qid, 0);
		cr_expect_eq(access_counters(&rig).errors, 1);
		cr_expect(op_error == -EIO || op_error == -ECANCELED, "%d", op_error);
		access_down(&rig);
	}
}

Test(io_faults, commands_with_a_temporary_error_are_repeated)
{
	static const char *const script[] = {
		"on read count 3: status 0x281\n",		     /* media, three times */
		"on read nth 2 count 8: status 0x6\n",		     /* internal error */
		"on read lba 7 count 2: status 0x22 crd 1\n",	     /* command interrupted */
		"on read: delay 20ms\non read count 5: duplicate\n", /* late, twice */
		"on write nth 9 count 3: status 0x281\non flush: status 0x6\n",
		"on write nth 10 count 8: status 0x6\n",
	};

	for (uint32_t i = 0; i < ROWS(script); i++) {
		const bool write = strstr(script[i], "write");

		cr_expect_null(run(script[i], TIMEOUT_NS, write ? &writes : &reads,
				   write ? write_all : read_all),
			       "%s", script[i]);
		cr_expect_eq(op_error, 0, "%s", script[i]);
		access_check_disk(&rig, 0);
		access_down(&rig);
	}
}

Test(io_faults, a_permanent_error_ends_the_run)
{
	static const struct {
		const char *script;
		int32_t error;
		uint8_t opcode;
		bool write;
		uint64_t page;
	} row[] = {
		{ "on read lba 0 count 99: status 0x281 dnr\n", 0x281, nvme_cmd_read, false, 0 },
		{ "on write lba 39 nth 2 count 99: status 0x280\n", 0x280, nvme_cmd_write, true,
		  39 },
		{ "on write lba 5 nth 2 count 99: status 0x280 dnr\n", 0x280, nvme_cmd_write, true,
		  5 },
		{ "on flush count 99: status 0x280\n", 0x280, nvme_cmd_flush, true, HR_NO_TILE },
	};

	for (uint32_t i = 0; i < ROWS(row); i++) {
		const struct hr_failure *failure =
			run(row[i].script, TIMEOUT_NS, row[i].write ? &writes : &reads,
			    row[i].write ? write_all : read_all);

		cr_assert_not_null(failure, "%s", row[i].script);
		cr_expect_eq(failure->error, row[i].error, "%s", row[i].script);
		cr_expect_eq(failure->opcode, row[i].opcode, "%s", row[i].script);
		cr_expect_eq(failure->tile, row[i].page, "%s", row[i].script);
		cr_expect_neq(op_error, 0);
		access_down(&rig);
	}
}

Test(io_faults, a_lost_command_and_a_bad_completion_end_the_run)
{
	static const struct {
		const char *script;
		int32_t error;
	} row[] = {
		{ "on read nth 1: drop\n", -ETIMEDOUT },
		{ "on read nth 1: bad-sqhd 60000\n", -EPROTO },
	};

	for (uint32_t i = 0; i < ROWS(row); i++) {
		const struct hr_failure *failure = run(
			row[i].script, row[i].error == -ETIMEDOUT ? LOST_TIMEOUT_NS : TIMEOUT_NS,
			&reads, read_all);

		cr_assert_not_null(failure, "%s", row[i].script);
		cr_expect_eq(failure->error, row[i].error, "%s: %d", row[i].script, failure->error);
		cr_expect_eq(op_error, -ECANCELED);
		access_down(&rig);
	}
}

static uint32_t asked; /* the I/O worker of the page that is read */

/* Waits for a page that does not come until the run ends. */
static void read_once(struct hr_objects *objects)
{
	const struct hr_page_cache *cache = objects->cache;
	uint64_t page = 0;

	while (hr_cache_awaited(cache, (uint32_t)page).ring != &cache->ring[asked])
		page++;
	(void)hr_get_u32(objects, hr_get_object_map(objects, 0), page * 1024);
	op_error = objects->error;
}

Test(io_faults, the_host_stops_a_run)
{
	static const struct {
		const char *script;
		enum hr_pipe_stop stop;
		uint32_t io, asked;
	} row[] = {
		{ "on read count 99: status 0x22 crd 3\n", HR_STOP_NEW, 1, 0 },
		{ "on read: drop\n", HR_STOP_ABANDON, 1, 0 },
		{ "on read: drop\n", HR_STOP_ABANDON, 2, 1 },
	};

	for (uint32_t i = 0; i < ROWS(row); i++) {
		struct access_work work = reads;

		work.io = row[i].io;
		work.frames = 0;
		asked = row[i].asked;
		access_up(&rig, 1, "lba=4096", row[i].script, 64, 100 * HR_NS_PER_S);
		rig.op.run = read_once;
		access_start(&rig, &work);
		while (!hr_acquire_u64(&rig.access->cache.ring[asked].taken))
			hr_wait_ns(100000);
		hr_release_sys_u32(&rig.access->control->stop, row[i].stop);
		access_wait(&rig);
		cr_expect_null(access_failure(&rig));
		cr_expect_eq(op_error, -ECANCELED, "%u: %d", i, op_error);
		access_down(&rig);
	}
}

static uint32_t hits;

static void read_the_same(struct hr_objects *objects)
{
	while (!objects->error) {
		(void)hr_get_u32(objects, hr_get_object_map(objects, 0), 0);
		hr_release_u32(&hits, 1);
	}
}

Test(io_faults, the_host_stops_an_operator_that_has_only_hits)
{
	access_up(&rig, 1, "lba=4096", NULL, 64, 100 * HR_NS_PER_S);
	rig.op.run = read_the_same;
	access_start(&rig, &reads);
	while (!hr_acquire_u32(&hits))
		hr_wait_ns(100000);
	hr_release_sys_u32(&rig.access->control->stop, HR_STOP_NEW);
	access_wait(&rig);
	cr_expect_null(access_failure(&rig));
	access_down(&rig);
}

static void read_beyond(struct hr_objects *objects)
{
	(void)hr_get_u32(objects, hr_get_object_map(objects, 0), 10 * PAGES * LBA);
}

Test(io_faults, an_error_of_the_operator_names_the_object)
{
	const struct hr_failure *failure = run(NULL, TIMEOUT_NS, &reads, read_beyond);

	cr_assert_not_null(failure);
	cr_expect_eq(failure->error, -ERANGE);
	cr_expect_eq(failure->role, HR_ROLE_ACCESS);
	cr_expect_eq(failure->object, ACCESS_OBJECT_ID(0));
	cr_expect_eq(failure->tile, 10 * PAGES * LBA);
	access_down(&rig);
}

/* Worker 0 ends after the first round of the barrier; the others go on to the second. */
static void end_early(struct hr_objects *objects)
{
	(void)hr_get_u32(objects, hr_get_object_map(objects, 0), objects->worker * 1024);
	if (hr_workers_sync(objects) == 0 && objects->worker)
		cr_expect_eq(hr_workers_sync(objects), -EDEADLK);
}

Test(io_faults, a_barrier_that_a_worker_does_not_reach_is_a_deadlock)
{
	const struct access_work two = {
		.objects = 1, .bytes = { PAGES * LBA }, .frames = 200, .compute = 2
	};
	const struct hr_failure *failure = run(NULL, TIMEOUT_NS, &two, end_early);

	cr_assert_not_null(failure);
	cr_expect_eq(failure->error, -EDEADLK);
	cr_expect_eq(failure->role, HR_ROLE_ACCESS);
	cr_expect_eq(failure->tile, HR_NO_TILE);
	access_down(&rig);
}

Test(io_faults, finish_runs_once_after_all_data_are_durable)
{
	cr_expect_null(run(NULL, TIMEOUT_NS, &writes, write_all));
	cr_expect_eq(finished, 1);
	access_down(&rig);
	cr_expect_not_null(
		run("on read lba 3 count 99: status 0x281\n", TIMEOUT_NS, &reads, read_all));
	cr_expect_eq(finished, 1);
	access_down(&rig);
}
