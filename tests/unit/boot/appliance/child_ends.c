/* The end of an engine: each text, its controllers, and what is left of its record. */
#include "tests/harness/child_rig.h"

TestSuite(child_ends, .init = set_up, .fini = tear_down, .timeout = 60);

/* ---- the end */

Test(child_ends, the_text_about_an_end)
{
	static const struct {
		int status;
		bool finished;
		int result;
		enum hr_error_kind kind;
		const char *want; /* NULL: none */
	} row[] = {
		{ EXITS(0), true, 0, HR_ERROR_NONE, NULL },
		{ EXITS(4), true, 0, HR_ERROR_NONE, NULL },
		{ EXITS(0), false, -EOWNERDEAD, HR_ERROR_FAILED,
		  "engine 500: exited with code 0 in the middle of its work; it ran: %s" },
		{ EXITS(3), false, -EOWNERDEAD, HR_ERROR_FAILED,
		  "engine 500: exited with code 3 in the middle of its work; it ran: %s" },
		{ EXITS(4), false, -EIO, HR_ERROR_DEVICE,
		  "engine 500: exited with code 4 in the middle of its work; it ran: %s" },
		{ SIGSEGV, false, -EOWNERDEAD, HR_ERROR_FAILED,
		  "engine 500: ended by signal 11 (Segmentation fault); it ran: %s" },
		{ SIGSEGV | CORE, false, -EOWNERDEAD, HR_ERROR_FAILED,
		  "engine 500: ended by signal 11 (Segmentation fault), core dumped; it ran: %s" },
		{ SIGKILL, false, -EOWNERDEAD, HR_ERROR_FAILED,
		  "engine 500: ended by signal 9 (Killed); it ran: %s" },
		{ SIGABRT, true, 0, HR_ERROR_FAILED,
		  "engine 500: ended by signal 6 (Aborted); it ran: %s" },
	};

	running(1, 64, 3, 13);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const unsigned before = fake_log_count_of(HR_LOG_ERROR);
		char want[256];

		published.finished = row[i].finished;
		will.status = row[i].status;
		will.ends_ns = 20 * MS;
		cr_expect_eq(attempt(), row[i].result, "row %zu", i);
		cr_expect_eq(child->death.kind, row[i].kind, "row %zu", i);
		cr_expect_eq(fake_log_count_of(HR_LOG_ERROR), before + (row[i].want != NULL));
		snprintf(want, sizeof want, row[i].want ? row[i].want : "%s",
			 "pipeline 'p1', 16 of 64 tiles done");
		if (row[i].want)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), want);
		if (row[i].result)
			cr_expect_str_eq(test_error_text(), want);
		else
			cr_expect_eq(test_error_kind(), HR_ERROR_NONE);
		cr_expect_str_eq(calls_take(), "hang-up@20 ");
		cr_expect_eq(child->asked_ns, 0u);
		cr_expect_not(child->unsafe);
	}
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), "engine 500: started");
}

static void kill_counted(void)
{
	will.vmstat = "nr_free_pages 7\noom_kill 4\n";
}

/* Of the kernel, since the engine started. */
Test(child_ends, the_kernel_was_out_of_memory)
{
	static const struct {
		const char *before;
		void (*at_step)(void);
		int status;
		const char *want;
	} row[] = {
		{ "oom_kill 3\nlast 9\n", kill_counted, SIGKILL,
		  "engine 500: ended by signal 9 (Killed), the kernel was out of memory; it ran: no "
		  "pipeline, stage 'none'" },
		{ "oom_kill 4\n", kill_counted, SIGKILL,
		  "engine 500: ended by signal 9 (Killed); it ran: no pipeline, stage 'none'" },
		{ "oom_kill 3\n", kill_counted, SIGTERM,
		  "engine 500: ended by signal 15 (Terminated); it ran: no pipeline, stage 'none'" },
		{ NULL, NULL, SIGKILL,
		  "engine 500: ended by signal 9 (Killed); it ran: no pipeline, stage 'none'" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		will.vmstat = row[i].before;
		will.at_step = row[i].at_step;
		will.status = row[i].status;
		will.ends_ns = 5 * MS;
		attempt();
		cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), row[i].want, "row %zu", i);
	}
}

Test(child_ends, what_it_ran)
{
	static const struct {
		uint32_t started, ended, selected;
		uint64_t blocks; /* of io, of the first one */
		const char *want;
	} row[] = {
		{ 0, 0, 7, 0, "no pipeline, stage 'stores'" },
		{ 7, 7, 7, 0, "no pipeline, stage 'stores'" },
		{ 7, 0, 0, 0, "no pipeline, stage 'stores'" },
		{ 1, 0, 7, 0, "pipeline 'p0', 15 of 64 tiles done" },
		{ 1, 0, 7, 2, "pipeline 'p0', 80 pages read" },
		{ 7, 2, 7, 0,
		  "pipeline 'p0', 15 of 64 tiles done; pipeline 'p2', 17 of 64 tiles done" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char want[256];

		memset(&published, 0, sizeof published);
		published.stage = HR_STAGE_STORES;
		running(3, 64, 5, 13); /* there is no such pipeline */
		for (uint32_t p = 0; p < 3; p++) {
			if (row[i].started >> p & 1)
				running(p, 64, 5, 10 + p);
			published.run[p].ended_ns = row[i].ended >> p & 1 ? START : 0;
			published.run[p].selected = row[i].selected >> p & 1;
		}
		published.run[0].count.role[HR_ROLE_IO].blocks = row[i].blocks;
		published.run[0].count.cache.pages_read = 80;
		will.status = EXITS(1);
		will.ends_ns = 5 * MS;
		attempt();
		snprintf(want, sizeof want,
			 "engine 500: exited with code 1 in the middle of its work; it ran: %s",
			 row[i].want);
		cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), want, "row %zu", i);
	}
}

/* ---- controllers */

static uint32_t masters_left;

static void leave_masters(void)
{
	will.masters = masters_left;
}

/* A function that mastered the bus before is not the engine's, when its helper has ended. */
Test(child_ends, controllers_that_still_master_the_bus)
{
	static const struct {
		uint32_t before, after;
		bool clean, hangs_up;
		uint64_t quiet_ns;
		bool unsafe;
		unsigned errors; /* besides that of the end */
		unsigned long end_ms;
	} row[] = {
		{ 0, 0, false, true, NEVER, false, 0, 5 },
		{ 0, 6, true, true, NEVER, false, 0,
		  5 }, /* as an engine leaves it that ends well */
		{ 0, 6, false, true, NEVER, true, 2, 105 },
		{ 0, 6, false, true, 30 * MS, false, 0, 30 },
		{ 2, 2, false, true, NEVER, false, 0, 5 },
		{ 2, 6, false, true, NEVER, true, 1, 105 },
		{ 4, 4, true, false, NEVER, true, 1, 205 },
		{ 5, 5, true, false, NEVER, true, 2, 205 },
		{ 0, 0, true, false, NEVER, false, 0, 105 },
	};

	child->undo_ns = 100 * MS;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const unsigned errors = fake_log_count_of(HR_LOG_ERROR);
		const unsigned warnings = fake_log_count_of(HR_LOG_WARN);
		char want[32];

		fake_clock_start(START, step, NULL);
		started_ns = START;
		published.finished = row[i].clean;
		will.status = row[i].clean ? EXITS(0) : SIGKILL;
		will.ends_ns = 5 * MS;
		will.hangs_up_ns = row[i].hangs_up ? 0 : NEVER;
		will.masters = row[i].before;
		will.quiet_ns = row[i].quiet_ns;
		masters_left = row[i].after;
		will.at_step = leave_masters;
		attempt();
		cr_expect_eq(child->unsafe, row[i].unsafe, "row %zu", i);
		cr_expect_eq(fake_log_count_of(HR_LOG_ERROR) - errors,
			     row[i].errors + !row[i].clean, "row %zu", i);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN) - warnings, (unsigned)!row[i].hangs_up,
			     "row %zu", i);
		snprintf(want, sizeof want, "hang-up@%lu ", row[i].end_ms);
		cr_expect_str_eq(calls_take(), want, "row %zu", i);
		if (row[i].errors)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR),
					 "ssd 's2': c still masters the bus after the end of the "
					 "engine: no other engine is started");
		if (!row[i].hangs_up)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
					 "a process that the engine started still runs after 100 "
					 "ms");
	}
}

/* ---- what is left of the record */

static void fill_counters(struct hr_counters *count)
{
	memset(count, 0, sizeof *count);
	count->tiles = 9;
	count->tiles_done = 4;
	count->durable_tiles = 3;
	count->role[0].workers = count->role[HR_RUN_ROLES - 1].workers = 1;
	count->cache.pages_read = 5;
	count->tap.returned = count->tap.waiting = count->tap.present = 6;
	count->feed.next = count->feed.present = 7;
}

/* The pipeline that ran has failed; one whose result was not printed was not done. */
Test(child_ends, the_pipelines_of_an_engine_that_died)
{
	static const struct {
		bool selected;
		enum hr_outcome outcome;
		uint64_t started_ns, ended_ns;
		bool reported;
		enum hr_outcome want;
		bool fails, again;
	} row[] = {
		{ true, HR_RUN_WAITING, 0, 0, false, HR_RUN_WAITING, false, false },
		{ true, HR_RUN_WAITING, START, 0, false, HR_RUN_FAILED, true, false },
		{ false, HR_RUN_WAITING, START, 0, false, HR_RUN_WAITING, false, false },
		{ true, HR_RUN_DONE, START, START, true, HR_RUN_DONE, false, false },
		{ true, HR_RUN_DONE, START, START, false, HR_RUN_WAITING, false, true },
		{ true, HR_RUN_COMPLETE, START, START, false, HR_RUN_WAITING, false, true },
		{ true, HR_RUN_COMPLETE, START, START, true, HR_RUN_COMPLETE, false, false },
		{ true, HR_RUN_INTERRUPTED, START, START, false, HR_RUN_INTERRUPTED, false, false },
		{ false, HR_RUN_DONE, START, START, false, HR_RUN_DONE, false, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_record_run *run = &record.run[2];

		published.run[2] = (struct hr_record_run){ .selected = row[i].selected,
							   .outcome = (uint64_t)row[i].outcome,
							   .started_ns = row[i].started_ns,
							   .ended_ns = row[i].ended_ns,
							   .reported = row[i].reported };
		fill_counters(&published.run[2].count);
		will.status = EXITS(3);
		will.ends_ns = 5 * MS;
		cr_expect_eq(attempt(), -EOWNERDEAD);
		cr_expect_eq(run->outcome, (uint64_t)row[i].want, "row %zu", i);
		cr_expect_eq(app->run[2].outcome, row[i].want, "row %zu", i);
		cr_expect_eq(run->error.code, row[i].fails ? -EOWNERDEAD : 0, "row %zu", i);
		if (row[i].fails)
			cr_expect_str_eq(app->run[2].cause.text, child->death.text);
		cr_expect_eq(run->started_ns, row[i].again ? 0 : row[i].started_ns);
		cr_expect_eq(run->ended_ns, row[i].fails   ? hr_now_ns()
					    : row[i].again ? 0
							   : row[i].ended_ns);
	}
}

/* Counts of what is present are those of an engine that runs. */
Test(child_ends, what_is_left_after_the_end)
{
	static const uint64_t finished[] = { 1, 0 };

	for (size_t n = 0; n < 2; n++) {
		struct hr_counters want;

		memset(&published, 0, sizeof published);
		published.finished = finished[n];
		published.refused = 1;
		published.stage = HR_STAGE_STORES;
		published.ssd[2].health = HR_HEALTH_LOST;
		published.ssd[2].faults[1] = 4;
		published.error.code = -ENXIO;
		published.error.kind = HR_ERROR_DEVICE;
		strcpy(published.error.text, "of the engine");
		published.consumer[31].attached = published.producer[0].attached = 1;
		published.store.job[7].kind = HR_REQUEST_STORE_GET;
		published.store.requests = 8;
		for (uint32_t i = 0; i < 3; i++)
			fill_counters(&published.run[i].count);
		will.status = EXITS(n ? 4 : 0);
		will.ends_ns = 5 * MS;
		cr_expect_eq(attempt(), n ? -EIO : -ENXIO);
		cr_expect_str_eq(test_error_text(), n ? child->death.text : "of the engine");
		cr_expect_eq(record.stage, n ? HR_STAGE_NONE : HR_STAGE_STORES);
		cr_expect_eq(record.ssd[2].health, n ? HR_HEALTH_DOWN : HR_HEALTH_LOST);
		cr_expect_eq(app->ssd[2].health.count[1], n ? 0u : 4u);
		cr_expect(app->refused);
		memset(&want, 0, sizeof want);
		want.tiles = 9;
		want.tiles_done = 4;
		want.durable_tiles = 3;
		want.tap.returned = 6;
		want.feed.next = 7;
		for (uint32_t i = 0; i < 3; i++)
			cr_expect_eq(memcmp(&record.run[i].count, &want, sizeof want), 0, "%u", i);
		cr_expect(!record.consumer[31].attached && !record.producer[0].attached);
		cr_expect(!record.store.job[7].kind && record.store.requests == 8);
	}
}

/* A new attempt knows nothing of the one before. */
Test(child_ends, each_attempt_begins_anew)
{
	published.finished = 1;
	will.ends_ns = 5 * MS;
	record.ran_ns = 77;
	child->still_ns = child->running_ns = child->asked_ns = child->killed_ns = 1000 * S;
	child->wrong = "x";
	child->hung_up = true;
	hr_fail(&child->death, HR_ERROR_FAILED, -EIO, "before");
	app->run[1].outcome = HR_RUN_COMPLETE;
	will.start = -EAGAIN;
	attempt();
	cr_expect(!child->still_ns && !child->running_ns && !child->asked_ns && !child->killed_ns);
	cr_expect(!child->wrong && !child->hung_up && !child->death.kind && !record.ran_ns);
	cr_expect_eq(record.run[1].outcome, (uint64_t)HR_RUN_COMPLETE, "of the appliance");
	cr_expect_eq(child->looked_ns, START);
}
