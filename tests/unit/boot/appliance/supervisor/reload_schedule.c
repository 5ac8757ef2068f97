/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration that is read again while pipelines repeat: the schedule that is in force then. */
#include "boot/appliance/supervisor/repeat.h"
#include "config/file/file.h"

#include <poll.h>

#include "tests/harness/repeat_rig.h"

TestSuite(reload_schedule, .timeout = 120);

#define EVERY(time) "every = \"" time "\";"
#define OBJECT(name) "on = \"object " name "\";"

/* Two ssds, so that an object of the same name can be another one. */
#define TWO(first, names, a, b)                                                                \
	"ssds = ( { name = \"s\"; device = \"soft:memory,size=16M\"; },\n"                     \
	"         { name = \"t\"; device = \"soft:memory,size=16M\"; } );\n"                   \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n" first "pipelines = (\n"         \
	"{ name = \"a\"; operator = \"crc32c\"; source = { ssd = \"s\"; object = \"x\"; }; " a \
	" },\n"                                                                                \
	"{ name = \"" names "\"; operator = \"crc32c\"; source = { ssd = \"t\"; object = "     \
	"\"y\"; }; " b " } );\n"
#define SAME(a, b) TWO("", "b", a, b)

static const char *next; /* the file, when it is read again */

static int read_next(struct hr_config *config, void *to, struct hr_error *e)
{
	cr_assert_null(to);
	return next ? hr_config_parse(config, &hr_lookup, "f", next, strlen(next), e)
		    : hr_fail(e, HR_ERROR_USAGE, -EINVAL, "f:1: wrong");
}

static void reload(void)
{
	const struct hr_moment at = { hr_now_ns(), 0 };

	strcpy(r->differences.engine, "before");
	r->reload_result = 77;
	cr_expect(hr_reload_is_over(r, false));
	cr_assert_eq(hr_reload_begin(r), 0);
	cr_expect_str_eq(r->differences.engine, "");
	cr_expect_not(hr_reload_is_over(r, false));
	cr_expect_eq(hr_reload_begin(r), -EALREADY);
	while (!hr_reload_is_over(r, false)) {
		hr_reload_poll(r, &at);
		poll(NULL, 0, 1);
	}
}

static bool has_same_when(const struct hr_config *a, const struct hr_config *b)
{
	bool same = a->pipelines == b->pipelines;

	for (uint32_t p = 0; same && p < a->pipelines; p++)
		same = memcmp(&a->pipeline[p].when, &b->pipeline[p].when,
			      sizeof a->pipeline[p].when) == 0;
	return same;
}

/* Only the schedule differs, or the file has mistakes. */
Test(reload_schedule, a_schedule_is_in_force_at_once)
{
	static const struct {
		const char *before, *after;
		int result;
		bool renew;
	} row[] = {
		{ SAME(EVERY("10s"), EVERY("20s")), SAME(EVERY("30s"), EVERY("40s")), 0, false },
		{ SAME(EVERY("10s"), ""), SAME("", EVERY("40s")), 0, false },
		{ SAME(EVERY("10s"), ""), SAME("", ""), -EINVAL, false },
		{ SAME(EVERY("10s"), EVERY("10s")), NULL, -EINVAL, false },
		/* the engine looks for objects */
		{ SAME(EVERY("10s"), OBJECT("y")), SAME(EVERY("20s"), OBJECT("y")), 0, false },
		{ SAME(EVERY("10s"), EVERY("10s")), SAME(EVERY("10s"), OBJECT("y")), 0, true },
		{ SAME(EVERY("10s"), OBJECT("y")), SAME(OBJECT("x"), OBJECT("y")), 0, true },
		{ SAME(OBJECT("x"), OBJECT("y")), SAME(OBJECT("x"), EVERY("10s")), 0, false },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		static struct hr_config before, wanted;

		begin(row[i].before);
		r->read = read_next;
		ready();
		look();
		before = engine->config;
		next = row[i].after;
		if (next)
			read_next(&wanted, NULL, NULL);
		reload();
		cr_expect_eq(r->reload_result, row[i].result, "row %zu: %d", i, r->reload_result);
		cr_expect_eq(r->renew, row[i].renew, "row %zu", i);
		cr_expect_str_eq(r->differences.engine, "", "row %zu", i);
		cr_expect_null(r->next);
		cr_expect_not(hr_reload_switch(r, &(struct hr_moment){ 0 }));
		cr_expect(has_same_when(&engine->config, row[i].result ? &before : &wanted),
			  "row %zu", i);
		if (row[i].result)
			cr_expect_str_eq(r->reload_error.text,
					 next ? "f: no pipeline repeats (every, at, after, on, "
						"forever); expected one that does: stop the "
						"appliance for a configuration without"
					      : "f:1: wrong");
		else
			cr_expect_str_eq(fake_log_last(),
					 "f: read again; its schedule is in force");
		end();
	}
}

/* ---- the next engine */

#define LIMIT "memory = { host = \"8M\"; };"
#define BOOT "boot = { restarts = 7; };"

/* Another pipeline, in front of one that stays. */
static const char other[] =
	"ssds = ( { name = \"s\"; device = \"soft:memory,size=16M\"; },\n"
	"         { name = \"t\"; device = \"soft:memory,size=16M\"; } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n" BOOT "pipelines = (\n"
	"{ name = \"c\"; operator = \"crc32c\"; source = { ssd = \"s\"; object = \"x\"; }; "
	"on = \"request\"; },\n"
	"{ name = \"a\"; operator = \"crc32c\"; source = { ssd = \"s\"; object = \"x\"; }; "
	"every = \"10s\"; } );\n";

Test(reload_schedule, the_next_engine_has_the_new_pipelines)
{
	const struct hr_moment later = { BEGIN + 60 * S, 0 };

	begin(SAME(EVERY("10s"), EVERY("10s")));
	r->read = read_next;
	ready();
	cr_expect_eq(look(), BIT(A) | BIT(B));
	run(A);
	run(B);
	next = other;
	reload();
	cr_expect_eq(r->reload_result, 0);
	cr_expect_str_eq(r->differences.engine, "pipeline 'b' is removed\npipeline 'c' is new");
	cr_expect_str_eq(r->differences.restart, "boot");
	cr_expect(r->renew && r->next && !hr_reload_is_over(r, true));
	over(A, HR_RUN_FAILED, -ENOENT);
	over(B, HR_RUN_DONE, 0);
	fake_clock_advance(30 * S);
	cr_expect_eq(look(), 0u, "no start begins");
	hr_repeat_engine_ended(r);
	cr_expect(hr_reload_switch(r, &later));
	cr_expect(!r->renew && !r->next && r->former && !hr_reload_is_over(r, true));
	cr_expect_eq(engine->config.boot.restarts, r->former->boot.restarts);
	cr_expect_str_eq(engine->config.pipeline[0].name, "c");
	cr_expect_str_eq(start_of(0)->name, "c");
	cr_expect_eq(start_of(0)->starts, 0u);
	cr_expect_str_eq(start_of(1)->name, "a");
	cr_expect_eq(start_of(1)->starts, 1u);
	cr_expect_eq(r->result[1][1], -ENOENT);
	cr_expect_eq(r->result[0][1], 0);
	ready();
	fake_clock_advance(2 * S);
	cr_expect_eq(look(), BIT(1), "a is due, and c waits for a request");
	cr_expect_null(r->former);
	cr_expect(hr_reload_is_over(r, true));
	cr_expect_not(hr_reload_revert(r, &(struct hr_error){ 0 }, &later));
	end();
}

Test(reload_schedule, the_earlier_configuration_is_in_force_when_no_engine_comes_up)
{
	struct hr_moment at = { BEGIN, 0 };
	struct hr_error cause = { 0 };

	hr_fail(&cause, HR_ERROR_MISSING, -ENODEV, "no gpu");
	begin(SAME(EVERY("10s"), EVERY("10s")));
	r->read = read_next;
	ready();
	look();
	for (uint32_t i = 0; i < 2; i++) {
		run(i);
		over(i, HR_RUN_DONE, 0);
	}
	look();
	cr_expect_not(hr_reload_revert(r, &cause, &at), "nothing was changed");
	next = other;
	reload();
	cr_assert(hr_reload_switch(r, &at));
	next = TWO(LIMIT, "b", EVERY("10s"), EVERY("10s")); /* before an engine has come up */
	reload();
	cr_expect_str_eq(r->differences.engine,
			 "memory\npipeline 'c' is removed\npipeline 'b' is new");
	cr_assert(hr_reload_switch(r, &at));
	cr_expect(hr_reload_revert(r, &cause, &at));
	cr_expect_eq(r->reload_result, -ECANCELED);
	cr_expect_eq(r->reload_error.kind, HR_ERROR_MISSING);
	cr_expect_not_null(strstr(r->reload_error.text, "in force again: no gpu"));
	cr_expect_eq(engine->config.memory_host, 0u);
	cr_expect_str_eq(engine->config.pipeline[B].name, "b");
	cr_expect_eq(start_of(A)->starts, 1u);
	cr_expect(hr_reload_is_over(r, true));
	end();
}

Test(reload_schedule, the_same_file_again_takes_a_change_back)
{
	begin(SAME(EVERY("10s"), EVERY("10s")));
	r->read = read_next;
	ready();
	look();
	run(A);
	next = other;
	reload();
	cr_expect_not_null(r->next);
	next = SAME(EVERY("10s"), EVERY("10s"));
	reload();
	cr_expect_null(r->next);
	cr_expect_not(hr_reload_switch(r, &(struct hr_moment){ 0 }));
	end();
}

/* The timetable has the new times at once; another engine that was needed is still needed. */
Test(reload_schedule, the_new_times_hold)
{
	begin(SAME(EVERY("10s"), "on = \"request\";"));
	r->read = read_next;
	ready();
	cr_expect_eq(look(), BIT(A));
	run(A);
	cr_expect_eq(look(), 0u);
	next = SAME("on = \"request\";", EVERY("10s"));
	r->renew = true;
	reload();
	cr_expect(r->renew);
	cr_expect(r->timetable.changed);
	r->renew = false;
	cr_expect_eq(look(), BIT(B));
	over(A, HR_RUN_DONE, 0);
	fake_clock_advance(30 * S);
	cr_expect_eq(look(), 0u, "a starts on request only, and b runs");
	end();
}

Test(reload_schedule, a_reader_that_still_reads_at_the_end_is_stopped)
{
	begin(SAME(EVERY("10s"), ""));
	cr_expect_eq(hr_reload_begin(r), -ENOTSUP);
	r->read = read_next;
	next = SAME(EVERY("20s"), "");
	cr_assert_eq(hr_reload_begin(r), 0);
	hr_reload_close(r);
	cr_expect(hr_reload_is_over(r, true));
	cr_expect_null(r->fresh);
	cr_expect_eq(engine->config.pipeline[0].when.every_ns, 10 * S);
	end();
}
