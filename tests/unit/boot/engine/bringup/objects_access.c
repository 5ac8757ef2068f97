/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `objects` for an access operator, over stores on disks in memory: old and new objects, and
 * the lengths that the operator checks.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/harness/stage_objects_rig.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(stage_objects_access, .init = begin, .fini = test_runs_end, .timeout = 60);

static const char *bad_text;
static unsigned bad_object;
static uint64_t seen[HR_OBJECTS_MAX];
static int check_result;

static int own_check(const void *args, const uint64_t *bytes,
		     void (*complain)(void *to, unsigned object, const char *text), void *to)
{
	memcpy(seen, bytes, sizeof seen);
	if (bad_text)
		complain(to, bad_object, bad_text);
	return check_result;
}

/* p1 accesses the objects "x", none, "new" and "mid" of ssd b, which p0 makes. */
static void use_objects(void)
{
	static const struct hr_op_object object[] = {
		{ .name = "first" }, { .name = "second" }, { .name = "third" }, { .name = "last" }
	};
	struct hr_config_pipeline *p = &engine->config.pipeline[1];

	own.object = object;
	own.objects = ROWS(object);
	own.check = own_check;
	check_result = 0;
	bad_text = NULL;
	test_runs_put(0, "x", 7, 0, true);
	engine->run[1].selected = true;
	engine->config.pipeline[0].op = hr_op_find("copy");
	add_source(0, 0, "x");
	set_sink(0, 1, "mid");
	p->objects = 4;
	p->object[0] = (struct hr_config_object){ .object = "x", .line = 40 };
	p->object[2] = (struct hr_config_object){
		.object = "new", .line = 42, .writes = true, .bytes = 99
	};
	p->object[3] = (struct hr_config_object){ .object = "mid", .line = 43, .ssd = 1 };
	memset(engine->run[1].object, 0x55, sizeof engine->run[1].object);
}

Test(stage_objects_access, objects_are_found_or_will_be_made)
{
	const struct hr_run_object *object = engine->run[1].object;

	use_objects();
	cr_assert_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect(object[0].used && !object[1].used && object[2].used && object[3].used);
	cr_expect_eq(object[0].id, hr_store_find(&engine->ssd[0].store, "x")->id);
	cr_expect_eq(object[1].writer, -1);
	cr_expect_eq(object[2].id, 0);
	cr_expect_eq(object[2].writer, -1);
	cr_expect_eq(object[3].writer, 0);
	cr_expect_eq(object[0].writer, -1);
	cr_expect_eq(object[0].queue, 0);
	cr_expect_eq(object[2].queue, 0);
	cr_expect_eq(object[3].queue, 1);
	cr_expect_eq(object[4].queue, 0x55555555);
	cr_expect_eq(engine->run[1].ssds, 2);
	cr_expect_eq(seen[0], 7);
	cr_expect_eq(seen[1], 0);
	cr_expect_eq(seen[2], 99);
	cr_expect_eq(seen[3], 7);
	cr_expect_eq(seen[4], 0);
	own.check = NULL;
	engine->run[1].ssds = 9;
	cr_assert_eq(hr_objects_up(engine), 0, "%s", engine->error.text);
	cr_expect_eq(engine->run[1].ssds, 2);
}

Test(stage_objects_access, each_missing_object_is_told)
{
	use_objects();
	engine->run[0].selected = false;
	strcpy(engine->config.pipeline[1].object[0].object, "none");
	memset(seen, 0, sizeof seen);
	expect_error(hr_objects_up(engine), "f:40: there is no object 'none' on ssd 'a'\n"
					    "f:43: there is no object 'mid' on ssd 'b'");
	cr_expect_eq(seen[2], 0, "lengths are not checked");
}

Test(stage_objects_access, a_shard_of_an_object_needs_ranks)
{
	use_objects();
	engine->run[0].selected = false;
	engine->config.pipeline[1].objects = 1;
	be_shard(14);
	cr_expect_eq(hr_objects_up(engine), -EINVAL);
	cr_expect(strstr(engine->error.text, "f:40: object 'x'"), "%s", engine->error.text);
}

Test(stage_objects_access, the_operator_checks_lengths)
{
	use_objects();
	bad_text = "too short";
	bad_object = 2;
	expect_error(hr_objects_up(engine),
		     "f:42: object 'new' on ssd 'a', 99 bytes, as 'third' of "
		     "operator copy: too short");
	bad_object = 3;
	check_result = -EINVAL;
	expect_error(hr_objects_up(engine), "f:43: object 'mid' on ssd 'b', 7 bytes, as 'last' of "
					    "operator copy: too short");
	bad_object = 4; /* no object of the operator */
	expect_error(hr_objects_up(engine), "f:40: object 'x' on ssd 'a', 7 bytes, as 'first' of "
					    "operator copy: too short");
	bad_text = NULL;
	expect_error(hr_objects_up(engine),
		     "f:40: object 'x' on ssd 'a', 7 bytes, as 'first' of "
		     "operator copy: the operator does not accept its length");
}
