/* The differences between a configuration and the same file after a change. */
#include "boot/appliance/reload.h"

#include <criterion/criterion.h>
#include <string.h>

#include "boot/engine/names.h"
#include "tests/harness/error.h"

TestSuite(reload, .timeout = 60);

static struct hr_config old, fresh;

static void parse(struct hr_config *config, const char *text)
{
	cr_assert_eq(hr_config_parse(config, &hr_names, "f", text, strlen(text), test_error()), 0);
}

/* clang-format off */
#define FILE_OF(head, size, keys)                                          \
	head "ssds = ( { name = \"s\"; device = \"soft:s.img,size=" size "\"; } );\n" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } ); pipelines = ( { name = \"p\";\n" \
	"source = { object = \"in\"; }; operator = \"crc32c\"; " keys " } );"
/* clang-format on */

Test(reload, differences_are_named_by_group)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ FILE_OF("", "1M", "every = \"1h\";"), "" },
		{ FILE_OF("\n\n", "1M", "every = \"1h\";"), "" },
		{ FILE_OF("", "1M", "at = \"03:00\";"), "" },
		{ FILE_OF("", "2M", "every = \"1h\";"), "ssds" },
		{ FILE_OF("", "1M", "every = \"1h\"; slots = 3;"), "pipeline 'p'" },
		{ FILE_OF("appliance = { parallel = 2; };", "1M", "every = \"1h\";"), "appliance" },
		{ FILE_OF("boot = { restarts = 9; }; memory = { host = \"8M\"; };", "1M",
			  "every = \"1h\"; tile = \"64K\";"),
		  "memory, boot, pipeline 'p'" },
	};
	char text[256];

	parse(&old, row[0].text);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		parse(&fresh, row[i].text);
		cr_expect_str_eq(hr_reload_differences(&old, &fresh, text, sizeof text),
				 row[i].want, "row %zu: %s", i, text);
	}
}
