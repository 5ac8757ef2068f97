#include "boot/cmd/cmd.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <string.h>

#include "boot/cmd/report/json.h"

TestSuite(cmd, .timeout = 5);

Test(cmd, exit_code_follows_from_the_kind_of_error)
{
	static const struct {
		int error, want;
	} row[] = {
		{ 0, HR_EXIT_DONE },
		{ 0x281, HR_EXIT_DEVICE }, /* Unrecovered Read Error */
		{ 0x002, HR_EXIT_DEVICE },
		{ -ETIMEDOUT, HR_EXIT_DEVICE },
		{ -EPROTO, HR_EXIT_DEVICE },
		{ -EIO, HR_EXIT_DEVICE },
		{ -ENODEV, HR_EXIT_MISSING },
		{ -ENOLINK, HR_EXIT_DEVICE },
		{ -ECONNRESET, HR_EXIT_DEVICE },
		{ -ESTALE, HR_EXIT_FAILED },
		{ -ENOENT, HR_EXIT_MISSING },
		{ -EACCES, HR_EXIT_MISSING },
		{ -EROFS, HR_EXIT_MISSING },
		{ -EBUSY, HR_EXIT_MISSING },
		{ -ENOTSUP, HR_EXIT_MISSING },
		{ -ENOMEM, HR_EXIT_MISSING },
		{ -EINVAL, HR_EXIT_USAGE },
		{ -ENOSPC, HR_EXIT_FAILED },
		{ -EEXIST, HR_EXIT_FAILED },
		{ -EUCLEAN, HR_EXIT_FAILED },
		{ -EINTR, HR_EXIT_FAILED },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_eq(hr_exit_code(row[i].error), row[i].want, "row %zu", i);
}

Test(cmd, reports_keep_numbers_whole_and_say_null_for_what_is_none)
{
	struct json_object *o = hr_json_new(), *list = hr_json_array(o, "list");
	const char *text;

	hr_json_u64(o, "most", UINT64_MAX);
	hr_json_i64(o, "least", INT64_MIN);
	hr_json_double(o, "pi", 3.14159, 2);
	hr_json_double(o, "none", NAN, 2);
	hr_json_bool(o, "yes", true);
	hr_json_string(o, "path", "a/b \"c\"");
	hr_json_u64(hr_json_append(list), "x", 1);
	hr_json_u64(hr_json_object(o, "inner"), "y", 2);
	text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
							 JSON_C_TO_STRING_NOSLASHESCAPE);
	cr_assert_str_eq(text,
			 "{\"list\":[{\"x\":1}],\"most\":18446744073709551615,"
			 "\"least\":-9223372036854775808,\"pi\":3.14,\"none\":null,\"yes\":true,"
			 "\"path\":\"a/b \\\"c\\\"\",\"inner\":{\"y\":2}}",
			 "%s", text);
	json_object_put(o);
}
