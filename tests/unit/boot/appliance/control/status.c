/* SPDX-License-Identifier: Apache-2.0 */
/* The document of `headrace status`. */
#include "boot/appliance/control/status.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/base/clock.h"
#include "config/default.h"
#include "config/file/file.h"
#include "nvme/dma/hostmem.h"
#include "tests/fakes/log.h"
#include "tests/harness/error.h"

TestSuite(status, .timeout = 60);

static struct hr_engine engine;
static struct hr_status status;

static void prepare_app(void)
{
	cr_assert_eq(hr_config_parse(&engine.config, &hr_lookup, "test.conf", hr_config_default,
				     hr_config_default_bytes, test_error()),
		     0, "%s", test_error_text());
	cr_assert_eq(hr_engine_init(&engine, NULL), 0);
	snprintf(engine.config.name, sizeof engine.config.name, "box");
	hr_status_open(&status, &engine);
	status.told = true;
	status.phase = HR_PHASE_RUNNING;
}

Test(status, the_status_is_one_json_document)
{
	struct json_object *document, *pipelines;
	static char text[HR_STATUS_MAX];
	size_t length;

	prepare_app();
	snprintf(engine.config.name, sizeof engine.config.name, "a \"quoted\" \\ name");
	engine.run[0].outcome = HR_RUN_DONE;
	engine.run[0].tiles = engine.run[0].done_tiles = 7;
	engine.run[0].started_ns = 1;
	engine.run[0].ended_ns = 1 + HR_NS_PER_S / 2;
	engine.run[0].read_bytes = 1000;
	engine.run[1].outcome = HR_RUN_FAILED;
	engine.run[1].selected = false;
	engine.run[1].error = 0x281;
	hr_fail(&engine.run[1].cause, HR_ERROR_DEVICE, 0x281, "object 'in', tile 3: read failed");
	hr_record_update(&status.record, &engine);
	length = hr_status_format(&status, hr_now_ns(), text, sizeof text);
	cr_assert_eq(length, strlen(text));
	document = json_tokener_parse(text);
	cr_assert(document, "%s", text);
	cr_expect_str_eq(json_object_get_string(json_object_object_get(document, "appliance")),
			 "a \"quoted\" \\ name");
	pipelines = json_object_object_get(document, "pipelines");
	cr_assert_eq(json_object_array_length(pipelines), 2u);
	cr_expect_eq(json_object_get_uint64(json_object_object_get(
			     json_object_array_get_idx(pipelines, 0), "tiles_done")),
		     7u);
	cr_expect_eq(json_object_get_uint64(json_object_object_get(
			     json_object_array_get_idx(pipelines, 0), "read_bytes_per_s")),
		     2000u);
	/* The counters of a pipeline stay after its end. */
	cr_expect_str_eq(json_object_get_string(json_object_object_get(
				 json_object_array_get_idx(pipelines, 1), "error")),
			 "Unrecovered Read Error");
	cr_expect_str_eq(json_object_get_string(json_object_object_get(
				 json_object_array_get_idx(pipelines, 1), "message")),
			 "object 'in', tile 3: read failed");
	json_object_put(document);
}

/* The short document fits with the longest name, of bytes that are all escaped. */
Test(status, a_document_that_does_not_fit_is_reported)
{
	char text[HR_STATUS_MIN + 1];
	struct json_object *document;
	size_t length;

	prepare_app();
	memset(engine.config.name, 0xff, sizeof engine.config.name - 1);
	memset(text, 0x7f, sizeof text);
	hr_record_update(&status.record, &engine);
	length = hr_status_format(&status, hr_now_ns(), text, HR_STATUS_MIN);
	cr_assert_gt(length, 0);
	cr_expect_eq(length, strnlen(text, HR_STATUS_MIN));
	cr_expect_eq(text[HR_STATUS_MIN], 0x7f);
	document = json_tokener_parse(text);
	cr_assert(document, "%s", text);
	cr_expect_str_eq(json_object_get_string(json_object_object_get(document, "schema")),
			 "headrace.status");
	cr_expect_eq(json_object_get_uint64(json_object_object_get(document, "version")),
		     HR_STATUS_SCHEMA);
	cr_expect_str_eq(json_object_get_string(json_object_object_get(document, "failure")),
			 "the status needs more than the 1024 bytes of a document");
	json_object_put(document);
}

Test(status, the_store_requests_are_listed_with_their_clients)
{
	static char text[HR_STATUS_MAX];
	struct hr_record_store *store = &status.record.store;
	struct json_object *document, *member, *request;

	prepare_app();
	hr_record_update(&status.record, &engine);
	store->requests = 7;
	store->refused = 2;
	store->dropped = 1;
	store->job[3] = (struct hr_record_store_job){ .kind = HR_REQUEST_STORE_PUT,
						      .object = "weights",
						      .done_bytes = 5,
						      .total_bytes = 10,
						      .user = 1000,
						      .process = 4242 };
	cr_assert_gt(hr_status_format(&status, hr_now_ns(), text, sizeof text), 0);
	document = json_tokener_parse(text);
	member = json_object_object_get(document, "store");
	cr_expect_eq(json_object_get_int(json_object_object_get(member, "requests_count")), 7);
	cr_expect_eq(json_object_get_int(json_object_object_get(member, "refused_count")), 2);
	cr_expect_eq(json_object_get_int(json_object_object_get(member, "dropped_count")), 1);
	member = json_object_object_get(member, "requests");
	cr_assert_eq(json_object_array_length(member), 1u);
	request = json_object_array_get_idx(member, 0);
	cr_expect_str_eq(json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN),
			 "{\"request\":\"store-put\",\"ssd\":\"ssd0\",\"object\":\"weights\","
			 "\"done_bytes\":5,\"total_bytes\":10,\"client_uid\":1000,"
			 "\"client_pid\":4242}");
	json_object_put(document);
}

static void fill(char *text, size_t bytes, char with)
{
	memset(text, with, bytes - 1);
	text[bytes - 1] = '\0';
}

/*
 * All names have the maximum length and consist of the bytes with the longest escapes; all numbers
 * are the longest ones.
 */
Test(status, the_largest_document_fits)
{
	static char text[HR_STATUS_MAX], path[4096];
	struct json_object *document;

	prepare_app();
	memset(&status.record, 0xff, sizeof status.record);
	fill(engine.config.name, sizeof engine.config.name, '\\');
	fill(path, sizeof path, (char)0xff);
	engine.config.file = path;
	engine.config.ssds = HR_SSDS_MAX;
	engine.config.pipelines = HR_PIPELINES_MAX;
	for (uint32_t d = 0; d < HR_SSDS_MAX; d++) {
		fill(engine.config.ssd[d].name, sizeof engine.config.ssd[d].name, '"');
		fill(engine.config.ssd[d].device, sizeof engine.config.ssd[d].device, '"');
		status.record.ssd[d].health = HR_HEALTH_STOPPED;
	}
	fill(engine.config.gpu[0].name, sizeof engine.config.gpu[0].name, '"');
	status.record.stage = HR_STAGE_NONE;
	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++) {
		engine.config.pipeline[i].op = engine.config.pipeline[0].op;
		engine.config.pipeline[i].gpu = 0;
		fill(engine.config.pipeline[i].name, sizeof engine.config.pipeline[i].name, '"');
		fill(engine.config.pipeline[i].tap.name, sizeof engine.config.pipeline[i].tap.name,
		     '"');
		status.record.run[i].outcome = HR_RUN_INTERRUPTED;
		status.record.run[i].error.code = -ENOTRECOVERABLE;
		fill(status.record.run[i].error.text, HR_RECORD_TEXT, (char)0xff);
		status.record.run[i].share = HR_SHARE_SLICE;
	}
	for (uint32_t i = 0; i < HR_RECORD_STORE_JOBS; i++) {
		fill(status.record.store.job[i].object, HR_NAME_MAX, '"');
		status.record.store.job[i].ssd = 0;
	}
	for (uint32_t i = 0; i < HR_RECORD_CONSUMERS; i++) {
		status.record.consumer[i].pipeline = i % HR_PIPELINES_MAX;
		fill(status.record.consumer[i].name, HR_NAME_MAX, '"');
	}
	cr_assert_gt(hr_status_format(&status, UINT64_MAX, text, sizeof text), 0);
	document = json_tokener_parse(text);
	cr_expect_not_null(document);
	json_object_put(document);
}

Test(status, an_appliance_has_the_pipelines_that_its_configuration_has)
{
	struct hr_region memory;

	prepare_app();
	cr_expect_eq(hr_engine_init(&engine, "no-such"), -ENOENT);
	cr_expect(strstr(fake_log_last(), "there is no pipeline 'no-such'"), "%s", fake_log_last());
	cr_expect_eq(engine.error.kind, HR_ERROR_USAGE, "%s", engine.error.text);
	cr_expect_eq(hr_engine_init(&engine, engine.config.pipeline[1].name), 0);
	cr_expect(engine.run[1].selected && !engine.run[0].selected);
	/* Addresses in use belong to the other kind of host memory. */
	cr_assert_eq(hr_hostmem_alloc(&memory, "m", HR_PAGE, NULL), 0);
	strcpy(engine.config.ssd[0].device, "pci:0000:01:00.0");
	cr_expect_eq(hr_engine_init(&engine, NULL), -EBUSY);
	hr_hostmem_free(&memory);
	cr_expect_eq(hr_engine_init(&engine, NULL), 0);
}
