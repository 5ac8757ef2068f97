/* A configuration that is read again while pipelines repeat: the schedule that is in force then. */
#include "boot/appliance/reload.h"

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

#define ONE                                                                                      \
	"ssds = ( { name = \"s\"; device = \"soft:memory,size=16M\"; },\n"                       \
	"         { name = \"t\"; device = \"soft:memory,size=16M\"; } );\n"                     \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"                                   \
	"pipelines = ( { name = \"a\"; operator = \"crc32c\"; source = { ssd = \"s\"; object = " \
	"\"x\"; }; every = \"10s\"; } );\n"

static const char *next; /* the file, when it is read again */

static int read_next(struct hr_config *config, void *to)
{
	cr_assert_null(to);
	return next ? hr_config_parse(config, &hr_names, "f", next, strlen(next), NULL) : -EINVAL;
}

static void reload(void)
{
	const struct hr_moment at = { hr_now_ns(), 0 };

	strcpy(r->reload_text, "before");
	r->reload_result = 77;
	cr_expect(hr_reload_is_over(r));
	cr_assert_eq(hr_reload_begin(r), 0);
	cr_expect_str_eq(r->reload_text, "");
	cr_expect_not(hr_reload_is_over(r));
	cr_expect_eq(hr_reload_begin(r), -EALREADY);
	while (!hr_reload_is_over(r)) {
		hr_reload_look(r, &at);
		poll(NULL, 0, 1);
	}
}

Test(reload_schedule, what_is_taken_over)
{
	static const struct {
		const char *before, *after;
		int result;
		bool renew;
		const char *text;    /* of settings that differ */
		const char *refused; /* NULL: the schedule is in force */
	} row[] = {
		{ SAME(EVERY("10s"), EVERY("20s")), SAME(EVERY("30s"), EVERY("40s")), 0, false, "",
		  NULL },
		{ SAME(EVERY("10s"), ""), SAME("", EVERY("40s")), 0, false, "", NULL },
		{ SAME(EVERY("10s"), ""),
		  TWO("memory = { host = \"8M\"; };", "b", EVERY("30s"), ""), 0, false, "memory",
		  NULL },
		{ SAME(EVERY("10s"), ""), TWO("", "c", EVERY("30s"), ""), -EINVAL, false,
		  "pipeline 'b'", "the pipelines are not the same ones" },
		{ SAME(EVERY("10s"), ""), SAME("", ""), -EINVAL, false, "",
		  "no pipeline repeats any more" },
		{ SAME(EVERY("10s"), ""), ONE, -EINVAL, false, "the number of pipelines",
		  "the pipelines are not the same ones" },
		{ SAME(EVERY("10s"), EVERY("10s")), NULL, -EINVAL, false, "", NULL },
		/* the engine looks for objects */
		{ SAME(EVERY("10s"), OBJECT("y")), SAME(EVERY("20s"), OBJECT("y")), 0, false, "",
		  NULL },
		{ SAME(EVERY("10s"), EVERY("10s")), SAME(EVERY("10s"), OBJECT("y")), 0, true, "",
		  NULL },
		{ SAME(EVERY("10s"), OBJECT("y")), SAME(OBJECT("x"), OBJECT("y")), 0, true, "",
		  NULL },
		{ SAME(OBJECT("x"), OBJECT("y")), SAME(OBJECT("x"), EVERY("10s")), 0, false, "",
		  NULL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_config_when was, *is;
		const bool in_force = row[i].result == 0;
		unsigned warnings;

		begin(row[i].before);
		r->read = read_next;
		ready();
		look();
		was = app->config.pipeline[1].when;
		is = &app->config.pipeline[1].when;
		next = row[i].after;
		warnings = fake_log_count_of(HR_LOG_WARN);
		reload();
		cr_expect_eq(r->reload_result, row[i].result, "row %zu: %d", i, r->reload_result);
		cr_expect_eq(r->renew, row[i].renew, "row %zu", i);
		cr_expect_str_eq(r->reload_text, row[i].text, "row %zu", i);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN) - warnings,
			     (unsigned)(*row[i].text != 0) + (row[i].refused != NULL),
			     "row %zu: %s", i, fake_log_last_of(HR_LOG_WARN));
		if (row[i].refused) {
			char want[256];

			snprintf(want, sizeof want, "f: the schedule is not taken over: %s",
				 row[i].refused);
			cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), want);
		} else if (in_force && *row[i].text) {
			cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
					 "f: read again; these differ, and stay as they are until "
					 "headrace is started again: memory");
		}
		if (in_force) {
			cr_expect_str_eq(fake_log_last(),
					 "f: read again; its schedule is in force");
			for (uint32_t p = 0; p < 2; p++)
				cr_expect_eq(memcmp(&app->config.pipeline[p].when,
						    &r->fresh->pipeline[p].when, sizeof *is),
					     0, "row %zu", i);
		} else {
			cr_expect_eq(memcmp(&was, is, sizeof was), 0, "row %zu", i);
		}
		end();
	}
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
	cr_expect(hr_reload_is_over(r));
	cr_expect_null(r->fresh);
	cr_expect_eq(app->config.pipeline[0].when.every_ns, 10 * S);
	end();
}
