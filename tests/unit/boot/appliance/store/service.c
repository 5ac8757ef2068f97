/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the store that the engine serves: each kind, each refusal, beside pipelines. */
#include "boot/appliance/store/service.h"

#include <sys/resource.h>

#include "boot/engine/devices/stand_in.h"
#include "boot/appliance/schedule/starts.h"
#include "tests/harness/store_service_rig.h"

TestSuite(store_service, .init = begin, .fini = end, .timeout = 120);

/* ---- map, get */

Test(store_service, a_map_has_the_objects_and_the_space)
{
	struct hr_message_item item;
	struct hr_message_map map;
	struct hr_store_object object;

	answer_to(HR_REQUEST_STORE_MAP, "", 0);
	item_at(0, HR_REQUEST_STORE_MAP, &item);
	cr_expect_eq(item.kind, HR_MESSAGE_MAP);
	memcpy(&map, answer + HR_MESSAGE_HEADER, sizeof map);
	memcpy(&object, answer + HR_MESSAGE_HEADER + sizeof map, sizeof object);
	cr_expect(map.count == 1 && map.space.objects == 1 && map.space.used == IN_BYTES);
	cr_expect_str_eq(object.name, "in");
}

Test(store_service, a_get_has_all_data_and_their_checksum)
{
	expect_object("in", in, IN_BYTES);
}

Test(store_service, an_object_that_is_not_there_or_not_whole_is_refused)
{
	const int fd = begin_put("half", 10, false);

	expect(answer_to(HR_REQUEST_STORE_GET, "none", 1), "there is no such object");
	expect(answer_to(HR_REQUEST_STORE_GET, "half", 1), "incomplete");
	close(fd);
}

Test(store_service, an_ssd_that_is_not_there_or_not_up_is_refused)
{
	struct hr_request r = request(HR_REQUEST_STORE_MAP, "");

	strcpy(r.disk, "image:1:2/1");
	got = 0;
	expect(finish(pass(&r), r.kind, HR_ERROR_MISSING), "\"result\": \"absent\"");
	engine->left_out[0] = true;
	expect(answer_to(HR_REQUEST_STORE_MAP, "", 1), "ssd 'a' is not up");
	engine->left_out[0] = false;
	engine->ssd[0].has_store = false;
	expect(answer_to(HR_REQUEST_STORE_MAP, "", 1), "has no object store");
	engine->ssd[0].has_store = true;
}

Test(store_service, damaged_data_are_the_end_of_a_get)
{
	hr_store_find(store, "in")->crc ^= 1;
	expect(answer_to(HR_REQUEST_STORE_GET, "in", HR_ERROR_DEVICE), "CRC-32C of the read data");
}

/* ---- put */

Test(store_service, a_put_is_an_object_after_its_last_byte)
{
	put("new", in, 1500 * KIB + 7, false);
	cr_expect_eq(changes, 1u);
	expect_object("new", in, 1500 * KIB + 7);
	put("empty", in, 0, false);
	expect_object("empty", in, 0);
}

Test(store_service, a_put_replaces_only_when_it_is_told)
{
	got = 0;
	expect(finish(ask_put("in", 5, false), HR_REQUEST_STORE_PUT, 1), "--replace replaces it");
	expect_object("in", in, IN_BYTES);
	put("in", in + 8, 4096, true);
	expect_object("in", in + 8, 4096);
	got = 0;
	expect(finish(ask_put(HR_STARTS_OBJECT, 5, true), HR_REQUEST_STORE_PUT, 1),
	       "belongs to the appliance");
	got = 0;
	expect(finish(ask_put("huge", 1u << 30, false), HR_REQUEST_STORE_PUT, 1), "no room for");
}

Test(store_service, a_put_that_goes_wrong_leaves_nothing)
{
	int fd = begin_put("x", 100, false);

	give_item(fd, HR_MESSAGE_DATA, in, 100);
	give_end(fd, 1);
	expect(finish(fd, HR_REQUEST_STORE_PUT, 1), "expected 00000001");
	expect_nothing_of("x");
	fd = begin_put("x", 100, false);
	give_item(fd, HR_MESSAGE_DATA, in, 99);
	give_end(fd, 1);
	expect(finish(fd, HR_REQUEST_STORE_PUT, 2), "the data end after 99 of 100 bytes");
	expect_nothing_of("x");
	fd = begin_put("x", 100, false);
	give_item(fd, HR_MESSAGE_DATA, in, 101);
	expect(finish(fd, HR_REQUEST_STORE_PUT, 2), "more data than the 100 bytes");
	expect_nothing_of("x");
	fd = begin_put("x", 100, false);
	give_item(fd, HR_MESSAGE_GO, NULL, 0);
	expect(finish(fd, HR_REQUEST_STORE_PUT, 2), "not a request of headrace");
	expect_nothing_of("x");
}

/* At each moment of a put. */
Test(store_service, a_client_that_hangs_up_leaves_nothing)
{
	for (uint32_t bytes = 0; bytes <= 2 * KIB * KIB; bytes += 512 * KIB) {
		const int fd = begin_put("x", 3 * KIB * KIB, false);

		for (uint32_t at = 0; at < bytes; at += 512 * KIB)
			give_item(fd, HR_MESSAGE_DATA, in, 512 * KIB);
		close(fd);
		while (hr_store_find_pending(store, "x"))
			hr_store_service_step(service);
		expect_nothing_of("x");
	}
}

Test(store_service, a_reader_gets_the_version_with_which_it_began)
{
	uint8_t *is = malloc(8u << 20);
	int fd;

	got = 0;
	fd = ask(HR_REQUEST_STORE_GET, "in");
	cr_assert(take(fd, HR_MESSAGE_HEADER + sizeof(struct hr_store_object)));
	{
		const size_t before = got;
		uint8_t *kept = malloc(before);

		memcpy(kept, answer, before);
		put("in", in + 8, 1 << 20, true);
		put("other", in + 16, 2 << 20, false);
		memcpy(answer, kept, before);
		got = before;
		free(kept);
	}
	finish(fd, HR_REQUEST_STORE_GET, 0);
	cr_assert_eq(join_data(is), IN_BYTES);
	cr_expect_eq(memcmp(is, in, IN_BYTES), 0);
	free(is);
}

/* New objects take all space, also that of the version that is read. */
Test(store_service, a_reader_whose_version_loses_its_space_is_told)
{
	struct hr_store_object *object;
	char name[8] = "fill-a";
	size_t before;
	int fd;

	got = 0;
	fd = ask(HR_REQUEST_STORE_GET, "in");
	cr_assert(take(fd, HR_MESSAGE_HEADER + sizeof(struct hr_store_object)));
	before = got;
	cr_assert_eq(hr_store_remove(store, hr_store_find(store, "in")->id, NULL), 0);
	for (; hr_store_create(store, name, 1 << 20, 0, false, &object, NULL) == 0; name[5]++)
		cr_assert_lt(name[5], 'z');
	expect(finish(fd, HR_REQUEST_STORE_GET, 1),
	       "'in': it was replaced while it was read, and its space is needed");
	cr_expect_lt(got, before + IN_BYTES, "not all data were sent");
	expect(answer_to(HR_REQUEST_STORE_MAP, "", 0), "\"result\": \"done\"");
}

Test(store_service, an_incomplete_object_that_another_put_replaces_is_not_finished)
{
	const int first = begin_put("x", 10, false);
	const int second = begin_put("x", 10, true);

	give_item(first, HR_MESSAGE_DATA, in, 10);
	got = 0;
	expect(finish(first, HR_REQUEST_STORE_PUT, 1), "has taken the place");
	give_item(second, HR_MESSAGE_DATA, in + 8, 10);
	give_end(second, hr_crc32c(0, in + 8, 10));
	got = 0;
	finish(second, HR_REQUEST_STORE_PUT, 0);
	expect_object("x", in + 8, 10);
}

/* ---- pipelines */

Test(store_service, a_name_that_a_pipeline_makes_is_not_taken)
{
	struct hr_run *run = &engine->run[0];

	engine->config.pipeline[0].has_sink = true;
	strcpy(engine->config.pipeline[0].sink.object, "out");
	run->sink_id = 99;
	got = 0;
	expect(finish(ask_put("out", 5, true), HR_REQUEST_STORE_PUT, 1),
	       "pipeline 'sum' makes object 'out' now");
	run->outcome = HR_RUN_DONE;
	put("out", in, 5, true);
	engine->config.pipeline[0].has_sink = false;
}

Test(store_service, a_source_that_is_replaced_keeps_its_space_until_the_run_ends)
{
	struct hr_run *run = &engine->run[0];
	const struct hr_store_object old = *hr_store_find(store, "in");

	run->source[0].id = old.id;
	put("in", in, 4096, true);
	put("big", in, IN_BYTES, false);
	cr_expect_geq(hr_store_find(store, "big")->offset, old.offset + old.capacity);
	run->outcome = HR_RUN_DONE;
	hr_store_service_step(service);
	put("again", in, 4096, false);
	cr_expect_eq(hr_store_find(store, "again")->offset, old.offset);
}

Test(store_service, an_object_that_a_run_writes_in_place_is_busy)
{
	struct hr_run *run = &engine->run[0];
	struct hr_config_pipeline *p = &engine->config.pipeline[0];

	p->objects = 1;
	p->object[0].writes = true;
	run->object[0].used = true;
	run->object[0].id = hr_store_find(store, "in")->id;
	run->started_ns = 1;
	run->pipe = &run->cpu;
	engine->config.control.store_percent = 100;
	expect(answer_to(HR_REQUEST_STORE_GET, "in", 1), "pipeline 'sum' changes object 'in' now");
	got = 0;
	{
		const int fd = begin_put("in", 1, true);

		give_item(fd, HR_MESSAGE_DATA, in, 1);
		give_end(fd, hr_crc32c(0, in, 1));
		expect(finish(fd, HR_REQUEST_STORE_PUT, 1), "changes object 'in' now");
	}
	run->pipe = NULL;
	p->objects = 0;
	expect_object("in", in, IN_BYTES);
}

Test(store_service, the_facts_come_with_the_map)
{
	struct hr_message_item item;
	struct hr_ssd_facts facts;
	size_t at;

	answer_to(HR_REQUEST_STORE_FACTS, "", 0);
	at = item_at(0, HR_REQUEST_STORE_FACTS, &item);
	cr_expect_eq(item.kind, HR_MESSAGE_FACTS);
	memcpy(&facts, answer + HR_MESSAGE_HEADER, sizeof facts);
	cr_expect(hr_ssd_facts_ok(&facts, 1) && facts.has_store);
	item_at(at, HR_REQUEST_STORE_FACTS, &item);
	cr_expect_eq(item.kind, HR_MESSAGE_MAP);
	engine->ssd[0].has_store = false;
	store->count = 0;
	store->object = NULL;
	answer_to(HR_REQUEST_STORE_FACTS, "", 0);
	engine->ssd[0].has_store = true;
	store->object = engine->ssd[0].store_memory;
}

/* ---- rm, mv, cp */

static const char *change(enum hr_request_kind kind, const char *object, const char *target,
			  bool replace, uint32_t code)
{
	struct hr_request r = request(kind, object);

	strcpy(r.target, target);
	r.replace = replace;
	got = 0;
	return finish(pass(&r), kind, code);
}

Test(store_service, objects_are_copied_renamed_and_removed)
{
	expect(change(HR_REQUEST_STORE_CP, "in", "twin", false, 0),
	       "\"target\": \"twin\", \"bytes\"");
	cr_expect_eq(changes, 1u);
	expect_object("twin", in, IN_BYTES);
	cr_expect_eq(hr_store_find(store, "twin")->crc, hr_crc32c(0, in, IN_BYTES));
	change(HR_REQUEST_STORE_MV, "twin", "other", false, 0);
	expect_object("other", in, IN_BYTES);
	cr_expect_null(hr_store_find(store, "twin"));
	put("small", in, 77, false);
	expect(change(HR_REQUEST_STORE_MV, "small", "other", false, 1), "--replace replaces it");
	expect(change(HR_REQUEST_STORE_CP, "small", "other", false, 1), "--replace replaces it");
	change(HR_REQUEST_STORE_CP, "small", "other", true, 0);
	expect_object("other", in, 77);
	change(HR_REQUEST_STORE_MV, "small", "other", true, 0);
	expect_object("other", in, 77);
	answer_to(HR_REQUEST_STORE_RM, "other", 0);
	cr_expect_eq(store->count, 1u);
	cr_expect_eq(changes, 6u);
	expect(answer_to(HR_REQUEST_STORE_RM, "other", 1), "there is no such object");
	expect(change(HR_REQUEST_STORE_MV, "other", "x", false, 1), "there is no such object");
	expect(change(HR_REQUEST_STORE_CP, "other", "x", false, 1), "there is no such object");
	for (uint32_t i = 0; i < HR_STORE_PINS; i++)
		cr_expect_eq(store->pin[i].id, 0u, "pin %u is left", i);
}

Test(store_service, damaged_data_are_not_copied)
{
	hr_store_find(store, "in")->crc ^= 1;
	expect(change(HR_REQUEST_STORE_CP, "in", "x", false, HR_ERROR_DEVICE), "nothing is copied");
	expect_nothing_of("x");
}

Test(store_service, incomplete_objects_are_removed_unless_a_client_makes_them)
{
	struct hr_request r = request(HR_REQUEST_STORE_RM, "");
	const int fd = begin_put("half", 10, false);
	struct hr_store_object *left;

	cr_assert_eq(hr_store_create(store, "left", 5000, 0, false, &left, NULL), 0);
	r.pending = true;
	got = 0;
	expect(finish(pass(&r), r.kind, 0), "\"removed_objects\": 1, \"removed_bytes\": 8192");
	cr_expect_null(hr_store_find_pending(store, "left"));
	cr_expect_not_null(hr_store_find_pending(store, "half"));
	expect(answer_to(HR_REQUEST_STORE_RM, "half", 1), "another client makes object 'half' now");
	strcpy(r.object, "in");
	got = 0;
	expect(finish(pass(&r), r.kind, 1), "there is no such object");
	close(fd);
}

Test(store_service, what_a_pipeline_uses_stays)
{
	struct hr_run *run = &engine->run[0];
	struct hr_config_pipeline *p = &engine->config.pipeline[0];

	put("out", in, 77, false);
	put("free", in, 78, false);
	run->source[0].id = hr_store_find(store, "in")->id;
	p->has_sink = true;
	strcpy(p->sink.object, "out");
	run->sink_id = 99;
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "out" : "in";
		const char *want = i ? "busy: pipeline 'sum' makes object 'out' now"
				     : "busy: pipeline 'sum' reads object 'in' now";

		expect(answer_to(HR_REQUEST_STORE_RM, name, 1), want);
		expect(change(HR_REQUEST_STORE_MV, name, "x", false, 1), want);
		expect(change(HR_REQUEST_STORE_MV, "free", name, true, 1), want);
	}
	expect(change(HR_REQUEST_STORE_CP, "free", "out", true, 1), "makes object 'out' now");
	expect(change(HR_REQUEST_STORE_CP, "free", HR_STARTS_OBJECT, true, 1),
	       "belongs to the appliance");
	expect(answer_to(HR_REQUEST_STORE_RM, HR_STARTS_OBJECT, 1), "there is no such object");
	change(HR_REQUEST_STORE_CP, "in", "twin", false, 0);
	run->outcome = HR_RUN_DONE;
	answer_to(HR_REQUEST_STORE_RM, "in", 0);
	answer_to(HR_REQUEST_STORE_RM, "out", 0);
	p->has_sink = false;
	expect_object("twin", in, IN_BYTES);
}

/* The client hangs up after each step of a copy. */
Test(store_service, a_copy_whose_client_hangs_up_leaves_nothing)
{
	struct hr_request r = request(HR_REQUEST_STORE_CP, "in");

	strcpy(r.target, "x");
	for (size_t items = 1; items <= 3; items++) {
		int fd;

		got = 0;
		fd = pass(&r);
		cr_assert(
			take(fd, items * (HR_MESSAGE_HEADER + sizeof(struct hr_message_verified))));
		close(fd);
		while (hr_store_find_pending(store, "x"))
			hr_store_service_step(service);
		expect_nothing_of("x");
	}
}

/* ---- rate */

Test(store_service, while_a_pipeline_runs_the_service_works_as_long_as_it_has_credit)
{
	struct hr_run *run = &engine->run[0];
	int fd;

	run->started_ns = 1;
	run->pipe = &run->cpu;
	fd = ask(HR_REQUEST_STORE_MAP, "");
	service->credit_ns = -(int64_t)(3600 * HR_NS_PER_S);
	hr_store_service_step(service);
	cr_expect_eq(service->job[0].state, HR_STORE_JOB_BEGINS);
	cr_expect_gt(hr_store_service_pause_ns(service), 0u);
	run->pipe = NULL; /* the pipeline has ended */
	got = 0;
	finish(fd, HR_REQUEST_STORE_MAP, 0);
}

/* Each descriptor that cannot be had is an error with its cause, and nothing stays open. */
Test(store_service, a_service_that_cannot_wait_is_not_open)
{
	static struct hr_store_service other;
	const int lowest = dup(hands[0]), closed = dup(hands[0]);
	struct rlimit limit, none;

	close(lowest);
	close(closed);
	cr_expect_eq(hr_store_service_open(&other, engine, closed, test_error()), -EBADF);
	cr_expect_str_eq(test_error_text(), "store requests cannot be served: Bad file descriptor");
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	cr_expect_eq(other.wake, -1);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = (rlim_t)lowest;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	cr_expect_eq(hr_store_service_open(&other, engine, -1, test_error()), -EMFILE);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_expect_str_eq(test_error_text(), "store requests cannot be served: Too many open files");
	cr_expect_eq(other.wake, -1);
	cr_expect_eq(dup(hands[0]), lowest, "a descriptor is left");
	close(lowest);
}
