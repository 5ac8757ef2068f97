/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the control socket: what is parsed, and each error. */
#include "boot/appliance/protocol/message.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

TestSuite(message, .timeout = 60);

static uint8_t data[HR_MESSAGE_REQUEST_MAX];

static int format(enum hr_request_kind kind, const char *pipeline, bool wait)
{
	struct hr_request request = { .kind = kind, .wait = wait };

	strcpy(request.pipeline, pipeline);
	if (hr_request_form(kind)->disk)
		strcpy(request.disk, "image:801:7/1");
	if (hr_request_form(kind)->object)
		strcpy(request.object, "weights");
	if (hr_request_form(kind)->target)
		strcpy(request.target, "old.weights");
	return hr_request_format(&request, data);
}

static void put_u16(size_t at, uint16_t value)
{
	memcpy(data + at, &value, sizeof value);
}

static void put_u32(size_t at, uint32_t value)
{
	memcpy(data + at, &value, sizeof value);
}

Test(message, each_kind_of_request_is_parsed_as_it_was_written)
{
	struct hr_request got;

	for (int k = HR_REQUEST_STATUS; k < HR_REQUEST_KINDS; k++) {
		const enum hr_request_kind kind = (enum hr_request_kind)k;
		const char *name = hr_request_form(kind)->pipeline ? "sum of all" : "";
		const bool wait = kind == HR_REQUEST_TRIGGER || kind == HR_REQUEST_STOP;
		const int length = format(kind, name, wait);

		if (!hr_request_form(kind)->disk)
			cr_assert_eq(length, (int)(HR_MESSAGE_HEADER + strlen(name)));
		cr_expect_eq(hr_request_parse(&got, data, (size_t)length), length);
		cr_expect_eq(got.kind, kind);
		cr_expect_eq(got.wait, wait);
		cr_expect_str_eq(got.pipeline, name);
		cr_expect_str_eq(got.disk, hr_request_form(kind)->disk ? "image:801:7/1" : "");
		cr_expect_str_eq(got.object, hr_request_form(kind)->object ? "weights" : "");
		cr_expect_str_eq(got.target, hr_request_form(kind)->target ? "old.weights" : "");
		cr_expect_neq(strcmp(hr_request_form(kind)->name, "?"), 0);
	}
	cr_expect_str_eq(hr_request_form(HR_REQUEST_NONE)->name, "?");
	cr_expect_str_eq(hr_request_form(HR_REQUEST_KINDS)->name, "?");
}

/* Bytes behind a request are not read as a part of the request. */
Test(message, a_part_of_a_request_is_not_complete)
{
	const int length = format(HR_REQUEST_TRIGGER, "sum", true);
	struct hr_request got;

	for (size_t n = 0; n < (size_t)length; n++)
		cr_expect_eq(hr_request_parse(&got, data, n), 0, "%zu bytes", n);
	memset(data + length, 0xff, sizeof data - (size_t)length);
	cr_expect_eq(hr_request_parse(&got, data, sizeof data), length);
	cr_expect_str_eq(got.pipeline, "sum");
}

Test(message, the_longest_name_is_accepted_and_one_byte_more_is_refused)
{
	struct hr_request request = { .kind = HR_REQUEST_PAUSE }, got;
	int length;

	memset(request.pipeline, 'n', HR_NAME_MAX - 1);
	length = hr_request_format(&request, data);
	cr_expect_eq(hr_request_parse(&got, data, (size_t)length), length);
	cr_expect_str_eq(got.pipeline, request.pipeline);
	put_u32(8, HR_NAME_MAX);
	cr_expect_eq(hr_request_parse(&got, data, sizeof data), -EMSGSIZE);
	request.pipeline[HR_NAME_MAX - 1] = 'n';
	cr_expect_eq(hr_request_format(&request, data), -ENAMETOOLONG);
	request.pipeline[0] = '\0';
	cr_expect_eq(hr_request_format(&request, data), -EINVAL);
}

/* The head shows each error, before a body comes. */
Test(message, each_error_of_a_head_has_its_code)
{
	static const struct {
		enum hr_request_kind kind;
		size_t at;
		uint16_t value;
		int want;
	} row[] = {
		{ HR_REQUEST_STATUS, 0, 0x4548, -EPROTO },
		{ HR_REQUEST_STATUS, 2, 0x4548, -EPROTO },
		{ HR_REQUEST_STATUS, 4, 0, -EPROTONOSUPPORT },
		{ HR_REQUEST_STATUS, 4, 2, -EPROTONOSUPPORT },
		{ HR_REQUEST_STATUS, 6, HR_REQUEST_NONE, -EOPNOTSUPP },
		{ HR_REQUEST_STATUS, 6, HR_REQUEST_KINDS, -EOPNOTSUPP },
		{ HR_REQUEST_STATUS, 6, HR_MESSAGE_REPLY | HR_REQUEST_STATUS, -EOPNOTSUPP },
		{ HR_REQUEST_STATUS, 6, 0xffff, -EOPNOTSUPP },
		{ HR_REQUEST_STATUS, 8, 1, -EMSGSIZE },
		{ HR_REQUEST_STATUS, 10, 0xffff, -EMSGSIZE },
		{ HR_REQUEST_STATUS, 12, HR_MESSAGE_WAIT, -EOPNOTSUPP },
		{ HR_REQUEST_TRIGGER, 12, 2, -EOPNOTSUPP },
		{ HR_REQUEST_TRIGGER, 14, 1, -EOPNOTSUPP },
		{ HR_REQUEST_TRIGGER, 8, 0, -EINVAL },
	};
	struct hr_request got;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		format(row[i].kind, hr_request_form(row[i].kind)->pipeline ? "a" : "", false);
		put_u16(row[i].at, row[i].value);
		cr_expect_eq(hr_request_parse(&got, data, HR_MESSAGE_HEADER), row[i].want,
			     "row %zu", i);
		cr_expect_gt(strlen(hr_request_error(row[i].want)), 10u);
	}
}

Test(message, a_name_that_no_pipeline_can_have_is_refused)
{
	static const char bad[] = { '\0', '\n', 0x1f, '/', 0x7f, (char)0x80, (char)0xff };
	struct hr_request got;

	for (size_t i = 0; i < sizeof bad; i++) {
		const int length = format(HR_REQUEST_TRIGGER, "sum", false);

		data[HR_MESSAGE_HEADER + 1] = (uint8_t)bad[i];
		cr_expect_eq(hr_request_parse(&got, data, (size_t)length), -EINVAL, "byte 0x%02x",
			     (unsigned char)bad[i]);
	}
}

Test(message, a_status_and_what_reads_a_store_change_nothing)
{
	for (int k = 0; k < HR_REQUEST_KINDS + 1; k++)
		cr_expect_eq(hr_request_form((enum hr_request_kind)k)->reads,
			     k == HR_REQUEST_STATUS || k == HR_REQUEST_STORE_MAP ||
				     k == HR_REQUEST_STORE_GET || k == HR_REQUEST_STORE_VERIFY ||
				     k == HR_REQUEST_STORE_FACTS || k == HR_REQUEST_HISTORY);
}

/* ---- requests of the store */

Test(message, a_put_has_its_length_and_its_flag)
{
	struct hr_request put = { .kind = HR_REQUEST_STORE_PUT,
				  .disk = "name:a",
				  .object = "x",
				  .bytes = INT64_MAX,
				  .replace = true },
			  got;
	const int length = hr_request_format(&put, data);

	cr_expect_eq(hr_request_parse(&got, data, (size_t)length), length);
	cr_expect(got.bytes == INT64_MAX && got.replace && !got.map_only);
	put.bytes++;
	cr_expect_eq(hr_request_format(&put, data), -EINVAL);
	put.bytes = 0;
	put.object[0] = '\0';
	cr_expect_eq(hr_request_format(&put, data), -EINVAL);
	put.kind = HR_REQUEST_STORE_VERIFY;
	put.replace = false;
	put.map_only = true;
	hr_request_parse(&got, data, (size_t)hr_request_format(&put, data));
	cr_expect(got.map_only && !got.replace);
	put.disk[0] = '\0';
	cr_expect_eq(hr_request_format(&put, data), -EINVAL);
}

Test(message, a_removal_of_all_incomplete_objects_has_an_age_and_no_object)
{
	struct hr_request rm = { .kind = HR_REQUEST_STORE_RM,
				 .disk = "name:a",
				 .bytes = 7,
				 .pending = true },
			  got;
	const int length = hr_request_format(&rm, data);

	cr_expect_eq(hr_request_parse(&got, data, (size_t)length), length);
	cr_expect(got.pending && got.bytes == 7 && !*got.object);
	strcpy(rm.object, "x");
	cr_expect_eq(hr_request_format(&rm, data), -EINVAL, "an object has no age");
	rm.bytes = 0;
	cr_expect_gt(hr_request_format(&rm, data), 0);
	rm.pending = false;
	rm.object[0] = '\0';
	cr_expect_eq(hr_request_format(&rm, data), -EINVAL, "nothing to remove");
}

/* Bytes of the body: 8 of the length, 96 of the ssd, 64 of the object, 64 of the target. */
Test(message, each_error_in_a_request_of_the_store_is_found)
{
	static const struct {
		enum hr_request_kind kind;
		size_t at;
		uint16_t value;
		int want;
	} row[] = {
		{ HR_REQUEST_STORE_GET, 8, 167, -EINVAL },
		{ HR_REQUEST_STORE_GET, 8, 169, -EMSGSIZE },
		{ HR_REQUEST_STORE_GET, 12, HR_MESSAGE_REPLACE, -EOPNOTSUPP },
		{ HR_REQUEST_STORE_PUT, 12, HR_MESSAGE_MAP_ONLY, -EOPNOTSUPP },
		{ HR_REQUEST_STORE_GET, 16, 1, -EINVAL }, /* a length */
		{ HR_REQUEST_STORE_PUT, 22, 0x8000, -EINVAL },
		{ HR_REQUEST_STORE_GET, 24, 0, -EINVAL }, /* no ssd */
		{ HR_REQUEST_STORE_GET, 24, 0x0a41, -EINVAL },
		{ HR_REQUEST_STORE_GET, 118, 0x4141, -EINVAL }, /* not behind the NUL */
		{ HR_REQUEST_STORE_GET, 120, 0, -EINVAL },	/* no object */
		{ HR_REQUEST_STORE_GET, 120, 0x2f41, -EINVAL },
		{ HR_REQUEST_STORE_GET, 182, 1, -EINVAL },
		{ HR_REQUEST_STORE_MV, 8, 231, -EINVAL },
		{ HR_REQUEST_STORE_MV, 8, 233, -EMSGSIZE },
		{ HR_REQUEST_STORE_CP, 12, HR_MESSAGE_PENDING, -EOPNOTSUPP },
		{ HR_REQUEST_STORE_CP, 184, 0, -EINVAL }, /* no target */
		{ HR_REQUEST_STORE_CP, 184, 0x2f41, -EINVAL },
		{ HR_REQUEST_STORE_MV, 246, 1, -EINVAL },
		{ HR_REQUEST_STORE_MAP, 120, 0x4141,
		  -EINVAL }, /* an object that it does not have */
	};
	struct hr_request got;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		format(row[i].kind, "", false);
		put_u16(row[i].at, row[i].value);
		cr_expect_eq(hr_request_parse(&got, data, sizeof data), row[i].want, "row %zu", i);
	}
}

Test(message, a_part_is_parsed_as_it_was_written)
{
	static const struct {
		enum hr_message_kind kind;
		uint32_t bytes;
		int want;
	} row[] = {
		{ HR_MESSAGE_ALIVE, 0, 0 },
		{ HR_MESSAGE_ALIVE, 1, -EPROTO },
		{ HR_MESSAGE_DATA, 0, -EPROTO },
		{ HR_MESSAGE_DATA, HR_MESSAGE_DATA_MAX, 0 },
		{ HR_MESSAGE_DATA, HR_MESSAGE_DATA_MAX + 1, -EPROTO },
		{ HR_MESSAGE_END, 4, 0 },
		{ HR_MESSAGE_END, 5, -EPROTO },
		{ HR_MESSAGE_OBJECT, sizeof(struct hr_store_object), 0 },
		{ HR_MESSAGE_MAP, sizeof(struct hr_message_map) - 1, -EPROTO },
		{ HR_MESSAGE_KINDS, 0, -EPROTO },
	};
	const struct hr_reply reply = { HR_REQUEST_STORE_PUT, 0, 2 };
	struct hr_message_item got;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_message_item item = { row[i].kind, row[i].bytes };

		hr_message_format_item(&item, HR_REQUEST_STORE_PUT, data);
		cr_expect_eq(hr_message_parse_item(&got, data, HR_REQUEST_STORE_PUT), row[i].want,
			     "row %zu", i);
		if (!row[i].want)
			cr_expect(got.kind == item.kind && got.bytes == item.bytes, "row %zu", i);
		cr_expect_eq(hr_message_parse_item(&got, data, HR_REQUEST_STORE_GET), -EPROTO);
	}
	hr_reply_format(&reply, data);
	cr_expect_eq(hr_message_parse_item(&got, data, HR_REQUEST_STORE_PUT), -ENOMSG);
	data[0] = 0;
	cr_expect_eq(hr_message_parse_item(&got, data, HR_REQUEST_STORE_PUT), -EPROTO);
}

Test(message, a_reply_is_parsed_as_it_was_written)
{
	const struct hr_reply reply = { HR_REQUEST_STOP, 4, 1000 };
	struct hr_reply got;
	unsigned version;

	hr_reply_format(&reply, data);
	cr_assert_eq(hr_reply_parse(&got, data, HR_REQUEST_STOP, &version), 0);
	cr_expect_eq(got.kind, HR_REQUEST_STOP);
	cr_expect_eq(got.code, 4u);
	cr_expect_eq(got.bytes, 1000u);
	cr_expect_eq(version, HR_MESSAGE_VERSION);
	/* to a request that was not understood */
	put_u16(6, HR_MESSAGE_REPLY);
	cr_expect_eq(hr_reply_parse(&got, data, HR_REQUEST_STOP, &version), 0);
	cr_expect_eq(got.kind, HR_REQUEST_NONE);
}

Test(message, each_error_of_a_reply_has_its_code)
{
	static const struct {
		size_t at;
		uint16_t value;
		int want;
	} row[] = {
		{ 0, 0, -EPROTO },
		{ 4, 7, -EPROTONOSUPPORT },
		{ 6, HR_REQUEST_STOP, -EPROTO },
		{ 6, HR_MESSAGE_REPLY | HR_REQUEST_STATUS, -EPROTO },
		{ 10, 2, -EPROTO }, /* 128 KiB and more */
		{ 12, 5, -EPROTO },
	};
	const struct hr_reply reply = { HR_REQUEST_STOP, 0, 1000 };
	struct hr_reply got;
	unsigned version = 0;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		hr_reply_format(&reply, data);
		put_u16(row[i].at, row[i].value);
		cr_expect_eq(hr_reply_parse(&got, data, HR_REQUEST_STOP, &version), row[i].want,
			     "row %zu", i);
	}
	put_u16(4, 7);
	hr_reply_parse(&got, data, HR_REQUEST_STOP, &version);
	cr_expect_eq(version, 7u);
}
