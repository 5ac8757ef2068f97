/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/json.h - reads back JSON that a part of the product has written.
 */
#ifndef TESTS_HARNESS_JSON_H
#define TESTS_HARNESS_JSON_H

#include <criterion/criterion.h>
#include <json-c/json.h>

#include "config/base/json.h"

/* End a document that goes to text, and parse it; the caller frees it with json_object_put(). */
static inline struct json_object *json_parsed(struct hr_json *j)
{
	struct json_object *document;

	cr_assert_eq(hr_json_done(j), 0);
	document = json_tokener_parse(j->text);
	cr_assert_not_null(document, "%s", j->text);
	return document;
}

#endif
