/* SPDX-License-Identifier: Apache-2.0 */
/* JSON objects as text, from other programs and disks. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "config/base/json.h"

TestSuite(json_text, .timeout = 60);

Test(json_text, objects)
{
	static const char *const good[] = {
		"{}",
		"{ }",
		"{\"a\": 1}",
		"{\"a\":-0.5e+10,\"b\":[ ],\"c\":[1, 2,{\"d\":null}],\"e\":true, \"f\" : false }",
		"{\"\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00aF\"}",
		"{\"caf\xc3\xa9\": \"\xf0\x9f\x98\x80\"}",
		"{\"a\": 0, \"a\": 10}",
	};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		cr_expect(hr_json_text_is_object(good[i]), "%s", good[i]);
}

Test(json_text, everything_else)
{
	static const char *const bad[] = {
		"",
		"{",
		"}",
		"[]",
		"1",
		"\"a\"",
		"null",
		" {}",
		"{}\n",
		"{} ",
		"{}{}",
		"{\"a\"}",
		"{\"a\":}",
		"{a: 1}",
		"{\"a\": 1,}",
		"{,}",
		"{\"a\": 1 \"b\": 2}",
		"{\"a\": [1,]}",
		"{\"a\": [1}",
		"{\"a\": 01}",
		"{\"a\": 1.}",
		"{\"a\": .5}",
		"{\"a\": +1}",
		"{\"a\": -}",
		"{\"a\": 1e}",
		"{\"a\": nul}",
		"{\"a\": nan}",
		"{\"a\": \"\\x\"}",
		"{\"a\": \"\\u12g4\"}",
		"{\"a\": \"\\u12",
		"{\"a\": \"b",
		"{\"a\": \"b\\",
		"{\"a\": \"\t\"}",
		"{\"a\": \"\xc3\"}",
		"{\"a\": \"\xff\"}",
		"{\"a\": \"\xed\xa0\x80\"}",
		"{\"a\"\xc3\xa9: 1}",
		"{\"a\": 1}, \"code\": 0, \"x\": {",
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		cr_expect_not(hr_json_text_is_object(bad[i]), "%s", bad[i]);
}

/* Objects and arrays inside one another: as deep as the limit, and one more. */
Test(json_text, the_depth_has_a_limit)
{
	for (unsigned depth = HR_JSON_TEXT_DEPTH; depth < HR_JSON_TEXT_DEPTH + 2; depth++) {
		char text[128] = "{\"a\": ";

		memset(text + strlen(text), '[', depth - 1);
		memset(text + strlen(text), ']', depth - 1);
		strcat(text, "}");
		cr_expect_eq(hr_json_text_is_object(text), depth == HR_JSON_TEXT_DEPTH, "%s", text);
	}
}
