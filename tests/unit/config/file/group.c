/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of settings by themselves: what each call returns, how members are named in messages,
 * fields of every type with their limits, lists of keys and choices, and variables of devices.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/file/group.h"
#include "config/file/keys.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static config_t file;
static struct hr_mistakes mistakes;
static struct hr_group top;

static void begin(void)
{
	config_init(&file);
}

static void end(void)
{
	config_destroy(&file);
}

TestSuite(config_group, .init = begin, .fini = end, .timeout = 60);

/* The settings of this text as a group of that name. */
static const struct hr_group *group_of(const char *text, const char *path)
{
	cr_assert(config_read_string(&file, text), "%s", text);
	memset(&mistakes, 0, sizeof mistakes);
	top = (struct hr_group){ .mistakes = &mistakes, .setting = config_root_setting(&file) };
	snprintf(top.path, sizeof top.path, "%s", path);
	return &top;
}

static const char *reported(void)
{
	static char lines[2 * HR_ERROR_BYTES];

	mistakes.file = "f";
	test_error();
	hr_mistakes_report(&mistakes, &test_error_last);
	test_error_lines(lines, sizeof lines);
	return lines;
}

Test(config_group, members_and_elements_have_paths)
{
	static const char text[] =
		"a = { b = { c = 1; }; n = 5; };\nl = ( { x = 1; }, 7, { y = 2; }\n"
		");\ns = [ \"p\", \"q\" ]; e = [ ]; i = [ 1, 2 ];";
	const struct hr_group *root = group_of(text, "");
	struct hr_group a = { 0 }, b = { 0 }, element = { 0 };

	cr_assert(hr_group_member(root, "a", &a));
	cr_expect_str_eq(a.path, "a");
	cr_expect_eq(a.mistakes, &mistakes);
	cr_assert(hr_group_member(&a, "b", &b));
	cr_expect_str_eq(b.path, "a.b");
	cr_expect_not(hr_group_member(&a, "n", &b), "a number");
	cr_expect_not(hr_group_member(&a, "z", &b), "missing");
	cr_expect_str_eq(b.path, "a.b", "it stays");
	cr_expect_eq(hr_group_list(root, "l"), 3u);
	cr_expect_eq(hr_group_list(root, "a"), 0u);
	cr_expect_eq(hr_group_list(root, "s"), 0u);
	cr_expect_eq(hr_group_list(root, "z"), 0u);
	cr_expect_eq(hr_group_elements(root, "l"), 3u);
	cr_expect_eq(hr_group_elements(root, "a"), 1u);
	cr_expect_eq(hr_group_elements(root, "z"), 0u);
	cr_assert(hr_group_element(root, "l", 2, &element));
	cr_expect_str_eq(element.path, "l[2]");
	cr_expect_eq(element.mistakes, &mistakes);
	cr_expect_not_null(config_setting_get_member(element.setting, "y"));
	cr_expect_not(hr_group_element(root, "l", 1, &element), "a number");
	cr_expect_not(hr_group_element(root, "l", 3, &element), "beyond the end");
	cr_expect_not(hr_group_element(root, "z", 0, &element));
	cr_assert(hr_group_element(root, "a", 0, &element), "a group is its only element");
	cr_expect_str_eq(element.path, "a");
	cr_expect_not(hr_group_element(root, "a", 1, &element));
	cr_assert(hr_group_element(&a, "b", 0, &element));
	cr_expect_str_eq(element.path, "a.b");
	cr_expect_str_eq(hr_group_string(root, "s", 0), "p");
	cr_expect_str_eq(hr_group_string(root, "s", 1), "q");
	cr_expect_null(hr_group_string(root, "s", 2));
	cr_expect_null(hr_group_string(root, "l", 0));
	cr_expect_null(hr_group_string(root, "z", 0));
	cr_expect(hr_group_is_names(config_setting_get_member(root->setting, "s"), 2));
	cr_expect_not(hr_group_is_names(config_setting_get_member(root->setting, "s"), 1));
	cr_expect(hr_group_is_names(config_setting_get_member(root->setting, "e"), 0));
	cr_expect_not(hr_group_is_names(config_setting_get_member(root->setting, "i"), 9));
	cr_expect_not(hr_group_is_names(config_setting_get_member(root->setting, "l"), 9));
	cr_expect_eq(hr_group_line(root, "s"), 4u);
	cr_expect_eq(hr_group_line(root, "z"), hr_group_line(root, NULL));
	cr_expect_eq(hr_group_line(&a, "z"), 1u, "the line of the group");
	hr_group_mistake(root, "l", "one %d", 1);
	hr_group_mistake(&a, "n", "two");
	hr_group_mistake(&a, NULL, "three");
	hr_group_mistake(root, NULL, "zero");
	cr_expect_not_null(strstr(reported(), "f:1: a.n: two\nf:1: a: three\nf:2: l: one 1\n"),
			   "%s", reported());
	cr_expect_not_null(strstr(reported(), "zero"));
	cr_expect_null(strstr(reported(), ": : zero"));
}

static const char *const choices[] = { "low", "middle", "high", NULL };

struct values {
	char text[8], name[8];
	uint32_t number, size32, choice;
	uint64_t size, duration, ms;
	bool yes;
};

#define AT(member) .offset = offsetof(struct values, member)

static const struct hr_field fields[] = {
	{ "text", HR_FIELD_STRING, AT(text), .max = 8 },
	{ "name", HR_FIELD_NAME, AT(name), .max = 8 },
	{ "number", HR_FIELD_U32, AT(number), .min = 3, .max = 9 },
	{ "size", HR_FIELD_SIZE, AT(size), .min = 1024, .max = 3 << 20 },
	{ "size32", HR_FIELD_SIZE32, AT(size32), .min = 0, .max = 1ull << 42 },
	{ "duration", HR_FIELD_DURATION, AT(duration) },
	{ "ms", HR_FIELD_MS, AT(ms), .min = 1, .max = 5 },
	{ "yes", HR_FIELD_BOOL, AT(yes) },
	{ "choice", HR_FIELD_CHOICE, AT(choice), .choices = choices },
	{ "group", .type = HR_FIELD_GROUP },
	{ "list", HR_FIELD_LIST, .max = 2 },
	{ "groups", HR_FIELD_GROUPS, .max = 1 },
	{ "names", HR_FIELD_NAMES, .max = 2 },
};

/* A key of each type: what the struct gets ("" of text, or a number), or the message. */
static const struct {
	const char *text;
	size_t at, bytes;
	uint64_t value;
	const char *want;
} row[] = {
#define U32(member) offsetof(struct values, member), 4
#define U64(member) offsetof(struct values, member), 8
#define NO 0, 0, 0
	{ "text = \"/ ~ab\";", U64(text), 0x62617e202f, "" },
	{ "text = \"1234567\";", U64(text), 0x37363534333231, "" },
	{ "text = \"12345678\";", NO, "f:1: g.text: has 8 characters, expected 1 to 7\n" },
	{ "text = \"\";", NO, "f:1: g.text: has 0 characters, expected 1 to 7\n" },
	{ "text = \"a\\x7f\";", NO, "f:1: g.text: has byte 0x7f, expected printable ASCII\n" },
	{ "text = \"\\xe9\";", NO, "f:1: g.text: has byte 0xe9, expected printable ASCII\n" },
	{ "text = \"a\\x1f\";", NO, "f:1: g.text: has byte 0x1f, expected printable ASCII\n" },
	{ "name = \"a/b\";", NO, "f:1: g.name: 'a/b' has a '/', expected a name\n" },
	{ "name = \"/\";", NO, "f:1: g.name: '/' has a '/', expected a name\n" },
	{ "name = 1.5;", NO, "f:1: g.name: is a floating point number, expected a string\n" },
	{ "number = 3;", U32(number), 3, "" },
	{ "number = 9L;", U32(number), 9, "" },
	{ "number = 2;", NO, "f:1: g.number: is 2, expected an integer from 3 to 9\n" },
	{ "number = 10;", NO, "f:1: g.number: is 10, expected an integer from 3 to 9\n" },
	{ "number = -5;", NO, "f:1: g.number: is -5, expected an integer from 3 to 9\n" },
	{ "number = \"5\";", NO, "f:1: g.number: is a string, expected an integer from 3 to 9\n" },
	{ "size = 1024;", U64(size), 1024, "" },
	{ "size = \"3M\";", U64(size), 3 << 20, "" },
	{ "size = 1023;", NO, "f:1: g.size: is 1023, expected 1K to 3M\n" },
	{ "size = \"4M\";", NO, "f:1: g.size: is 4M, expected 1K to 3M\n" },
	{ "size = -1;", NO, "f:1: g.size: is -1, expected 1K to 3M\n" },
	{ "size = \"1x\";", NO,
	  "f:1: g.size: '1x' is not a size; expected digits and K, M, G or T\n" },
	{ "size = \"9999999999T\";", NO,
	  "f:1: g.size: '9999999999T' is too large, expected at most 9223372036854775807\n" },
	{ "size = true;", NO,
	  "f:1: g.size: is a boolean, expected a size: an integer, or like \"64M\"\n" },
	{ "size32 = 0;", U32(size32), 0, "" },
	{ "size32 = \"5T\";", NO, "f:1: g.size32: is 5T, expected 0 to 4T\n" },
	{ "duration = 0;", U64(duration), 0, "" },
	{ "duration = \"2s\";", U64(duration), 2000000000, "" },
	{ "duration = 1;", NO,
	  "f:1: g.duration: is an integer, expected a duration like \"5s\" or \"500ms\", or 0\n" },
	{ "duration = \"2\";", NO,
	  "f:1: g.duration: '2' is not a duration; expected digits and ms, s, m, h or d\n" },
	{ "ms = 5;", U64(ms), 5000000, "" },
	{ "ms = 6;", NO, "f:1: g.ms: is 6, expected an integer from 1 to 5\n" },
	{ "yes = true;", offsetof(struct values, yes), 1, 1, "" },
	{ "yes = false;", offsetof(struct values, yes), 1, 0, "" },
	{ "yes = 1;", NO, "f:1: g.yes: is an integer, expected true or false\n" },
	{ "choice = \"low\";", U32(choice), 0, "" },
	{ "choice = \"high\";", U32(choice), 2, "" },
	{ "choice = \"hig\";", NO,
	  "f:1: g.choice: is \"hig\", expected \"low\" or \"middle\" or \"high\"\n" },
	{ "choice = [ 1 ];", NO,
	  "f:1: g.choice: is an array, expected \"low\" or \"middle\" or \"high\"\n" },
	{ "group = { };", NO, "" },
	{ "group = ( );", NO, "f:1: g.group: is a list, expected a group { ... }\n" },
	{ "list = ( );", NO, "" },
	{ "list = ( { }, { } );", NO, "" },
	{ "list = ( { }, { }, { } );", NO, "f:1: g.list: has 3 elements, expected at most 2\n" },
	{ "list = ( 1,\n{ },\n\"x\" );", NO,
	  "f:1: g.list[0]: is an integer, expected a group { ... }\n"
	  "f:1: g.list: has 3 elements, expected at most 2\n"
	  "f:3: g.list[2]: is a string, expected a group { ... }\n" },
	{ "list = { };", NO, "f:1: g.list: is a group, expected a list of groups ( { ... } )\n" },
	{ "groups = { };", NO, "" },
	{ "groups = ( { } );", NO, "" },
	{ "groups = ( { }, { } );", NO, "f:1: g.groups: has 2 elements, expected at most 1\n" },
	{ "groups = 5;", NO,
	  "f:1: g.groups: is an integer, expected a group { ... } or a list of groups ( { ... } "
	  ")\n" },
	{ "names = [ \"a\", \"b\" ];", NO, "" },
	{ "names = [ ];", NO, "" },
	{ "names = [ \"a\", \"b\", \"c\" ];", NO,
	  "f:1: g.names: has 3 names, expected at most 2\n" },
	{ "names = [ 1 ];", NO,
	  "f:1: g.names: is an array, expected an array of names [ \"first\", \"second\" ]\n" },
	{ "nam = 1;", NO, "f:1: g.nam: unknown key; did you mean 'name'?\n" },
	{ "\nzzzzzz = 1;", NO,
	  "f:2: g.zzzzzz: unknown key; expected one of: text, name, number, size, size32, "
	  "duration, ms, yes, choice, group, list, groups, names\n" },
	{ "number = 1;\ntext = \"\"; yes = true;", offsetof(struct values, yes), 1, 1,
	  "f:1: g.number: is 1, expected an integer from 3 to 9\n"
	  "f:2: g.text: has 0 characters, expected 1 to 7\n" },
};

Test(config_group, a_field_is_read_or_stays_with_a_message)
{
	for (size_t i = 0; i < ROWS(row); i++) {
		struct values got, want;
		uint64_t value = 0;

		memset(&got, 0xee, sizeof got);
		memset(&want, 0xee, sizeof want);
		hr_group_read(group_of(row[i].text, "g"), fields, ROWS(fields), &got);
		cr_expect_str_eq(reported(), row[i].want, "%s%s", row[i].text, reported());
		memcpy(&value, (const char *)&got + row[i].at, row[i].bytes);
		if (row[i].bytes && strncmp(row[i].text, "text", 4) == 0) /* up to its end */
			for (size_t k = strlen(got.text) + 1; k < 8; k++)
				value &= ~(0xffull << (8 * k));
		cr_expect_eq(value, row[i].value, "%s %llx", row[i].text,
			     (unsigned long long)value);
		memcpy((char *)&got + row[i].at, (const char *)&want + row[i].at, row[i].bytes);
		cr_expect_eq(memcmp(&got, &want, sizeof got), 0, "%s: another field", row[i].text);
	}
}

Test(config_group, keys_that_are_required)
{
	static const struct hr_field need[] = {
		{ "a", HR_FIELD_BOOL, .required = true, AT(yes), .example = "a = true;" },
		{ "b", HR_FIELD_U32, .required = false, AT(number), .max = 5 },
		{ "c", HR_FIELD_U32, .required = true, AT(number), .max = 5, .example = "c = 1;" },
	};
	struct values got;

	hr_group_read(group_of("c = 7;", "g"), need, 3, &got);
	cr_expect_not_null(
		strstr(reported(), "g: key 'a' is missing; expected for example: a = true;\n"));
	cr_expect_not_null(strstr(reported(), "f:1: g.c: is 7, expected an integer from 0 to 5\n"));
	cr_expect_null(strstr(reported(), "'b'"));
	cr_expect_null(strstr(reported(), "'c'"));
	hr_group_read(group_of("a = true;", ""), need, 2, &got);
	cr_expect_str_eq(reported(), "");
}

/* 30 keys of 9 characters: the list is cut, and no key is read behind the table. */
Test(config_group, a_list_of_keys_has_a_limit)
{
	static char key[30][12];
	struct hr_field many[30];
	struct values got;

	for (unsigned i = 0; i < 30; i++) {
		snprintf(key[i], sizeof key[i], "keyname%02u", i);
		many[i] = (struct hr_field){ key[i], HR_FIELD_BOOL, AT(yes) };
	}
	hr_group_read(group_of("other = 1;", "g"), many, 30, &got);
	cr_expect_not_null(strstr(reported(), "g.other: unknown key; expected one of: keyname00, "
					      "keyname01, "));
	cr_expect_not_null(strstr(reported(), "keyname22"), "%s", reported());
	cr_expect_null(strstr(reported(), "keyname24"), "%s", reported());
	hr_group_read(group_of("keynameab = 1;", "g"), many, 1, &got);
	cr_expect_str_eq(reported(), "f:1: g.keynameab: unknown key; did you mean 'keyname00'?\n");
}

Test(config_group, a_name_is_found_among_elements)
{
	static const struct {
		char name[8];
		int more;
	} list[] = { { "alpha", 1 }, { "beta", 2 }, { "gamma", 3 } };
	static const struct {
		const char *text, *name;
		unsigned count;
		int want;
		const char *report;
	} of[] = {
		{ "k = 1;", "alpha", 2, 0, "" },
		{ "k = 1;", "beta", 2, 1, "" },
		{ "k = 1;", "gamma", 2, -1, "f:1: g.k: there is no ssd 'gamma'\n" },
		{ "k = 1;", "gamma", 3, 2, "" },
		{ "k = 1;", "bete", 2, -1,
		  "f:1: g.k: there is no ssd 'bete'; did you mean 'beta'?\n" },
		{ "k = 1;", "", 1, -1, "" }, /* reported before */
		{ "x = 1;", "", 0, -1, "" },
		{ "x = 1;", "", 1, 0, "" },
		{ "x = 1;", "", 2, -1,
		  "g: key 'k' is missing; expected the name of one of the 2 ssds\n" },
	};

	for (size_t i = 0; i < ROWS(of); i++) {
		const struct hr_group *group = group_of(of[i].text, "g");
		const int got = hr_config_find_name(group, "k", of[i].name, list, of[i].count,
						    sizeof *list, "ssd");
		const char *report = reported();

		cr_expect_eq(got, of[i].want, "row %zu: %d", i, got);
		cr_expect_eq(mistakes.count, *of[i].report != '\0', "row %zu: %s", i, report);
		cr_expect_not_null(strstr(report, of[i].report), "row %zu: %s", i, report);
	}
}

/* A device with its variables; one character less or more than fits. */
Test(config_group, variables_become_values_or_a_mistake)
{
	static const struct hr_config_rank rank = { 12, 3 };
	static struct hr_config config;
	static struct hr_config_lookup names;
	static const struct {
		const char *device;
		bool ranked;
		const char *want, *report;
	} of[] = {
		{ "", true, "", "" },
		{ "soft:a", false, "soft:a", "" },
		{ "${rank}", true, "12", "" },
		{ "a${rank}b${local_rank}c", true, "a12b3c", "" },
		{ "${rank}${rank}", true, "1212", "" },
		{ "a$b${", true, "", "f:1: g.device: 'a$b${' has no '}' after \"${\"\n" },
		{ "a${rank", true, "", "f:1: g.device: 'a${rank' has no '}' after \"${\"\n" },
		{ "${rank}", false, "",
		  "f:1: g.device: ${rank} has a value only with 'headrace run --mpi', under mpirun "
		  "or srun\n" },
		{ "${ran}", true, "",
		  "f:1: g.device: there is no variable ${ran}, expected ${rank} or ${local_rank}\n" },
		{ "${local_ranks}", true, "",
		  "f:1: g.device: there is no variable ${local_ranks}, expected ${rank} or "
		  "${local_rank}\n" },
	};

	config.names = &names;
	for (size_t i = 0; i < ROWS(of); i++) {
		char device[HR_DEVICE_MAX];

		names.rank = of[i].ranked ? &rank : NULL;
		snprintf(device, sizeof device, "%s", of[i].device);
		cr_expect_eq(hr_config_variables(&config, group_of("device = 1;", "g"), device),
			     !*of[i].report, "row %zu", i);
		cr_expect_str_eq(device, of[i].want, "row %zu: %s", i, device);
		cr_expect_str_eq(reported(), of[i].report, "row %zu: %s", i, reported());
	}
	names.rank = &(const struct hr_config_rank){ 1234567890, 1234567890 };
	for (size_t n = HR_DEVICE_MAX - 22; n < HR_DEVICE_MAX - 7; n++)
		for (int tail = 0; tail < (n + 10 < HR_DEVICE_MAX ? 2 : 1); tail++) {
			char device[HR_DEVICE_MAX], want[2 * HR_DEVICE_MAX];
			const bool fits = n + 10 + (tail ? 3 : 0) < HR_DEVICE_MAX;

			memset(device, 'x', n);
			snprintf(device + n, sizeof device - n, "${rank}%s", tail ? "yyy" : "");
			snprintf(want, sizeof want, "%.*s1234567890%s", (int)n, device,
				 tail ? "yyy" : "");
			cr_expect_eq(
				hr_config_variables(&config, group_of("device = 1;", "g"), device),
				fits, "%zu", n);
			cr_expect_str_eq(device, fits ? want : "", "%zu", n);
			cr_expect_eq(mistakes.count, !fits, "%zu", n);
		}
}
