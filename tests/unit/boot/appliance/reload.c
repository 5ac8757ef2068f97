/* The differences between a configuration and the same file after a change. */
#include "boot/appliance/reload.h"

#include <criterion/criterion.h>
#include <stddef.h>
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

/* ---- each setting */

#define AT(member) offsetof(struct hr_config, member)

/* One byte of each member; the last one of a list, too. */
Test(reload, each_setting_belongs_to_a_group)
{
	static const struct {
		size_t at;
		const char *want;
	} row[] = {
		{ AT(name), "appliance" },
		{ AT(log), "appliance" },
		{ AT(checkpoint_ns), "appliance" },
		{ AT(parallel), "appliance" },
		{ AT(ssds), "ssds" },
		{ AT(ssd[0].name), "ssds" },
		{ AT(ssd[HR_SSDS_MAX - 1].device), "ssds" },
		{ AT(gpus), "gpus" },
		{ AT(gpu[HR_GPUS_MAX - 1].name), "gpus" },
		{ AT(memory_host), "memory" },
		{ AT(memory_gpu), "memory" },
		{ AT(path), "memory" },
		{ AT(queues), "memory" },
		{ AT(boot.restarts), "boot" },
		{ AT(boot.module[HR_MODULES_MAX - 1].name), "boot" },
		{ AT(control.mode), "control" },
		{ AT(health.action[4]), "health" },
		{ AT(ops), "operators" },
		{ AT(op[HR_OPERATORS_MAX - 1].name), "operators" },
		{ AT(pipeline[0].slots), "pipeline 'p'" },
		{ AT(pipeline[1].name), "pipeline 'q'" },
		{ AT(pipeline[2].slots), "" }, /* there is none */
	};
	char text[256];

	parse(&old, FILE_OF("", "1M", "every = \"1h\";"));
	old.pipelines = 2;
	strcpy(old.pipeline[1].name, "q");
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fresh = old;
		((char *)&fresh)[row[i].at] ^= 1;
		cr_expect_str_eq(hr_reload_differences(&old, &fresh, text, sizeof text),
				 row[i].want, "row %zu: %s", i, text);
	}
	fresh = old;
	fresh.pipelines = 3;
	fresh.pipeline[1].slots++;
	cr_expect_str_eq(hr_reload_differences(&old, &fresh, text, sizeof text),
			 "the number of pipelines, pipeline 'q'");
	cr_expect_str_eq(hr_reload_differences(&fresh, &old, text, sizeof text),
			 "the number of pipelines, pipeline 'q'");
	cr_expect_str_eq(hr_reload_differences(&old, &fresh, text, 12), "the number ");
}

/* Lines, pointers and the schedule, of the first and the last element of each list. */
Test(reload, what_is_no_difference)
{
	char text[256];

	parse(&old, FILE_OF("", "1M", "every = \"1h\";"));
	old.pipelines = HR_PIPELINES_MAX;
	for (uint32_t last = 0; last < 2; last++) {
		struct hr_config_pipeline *p = &fresh.pipeline[last ? HR_PIPELINES_MAX - 1 : 0];
		struct hr_config_ssd *ssd = &fresh.ssd[last ? HR_SSDS_MAX - 1 : 0];

		fresh = old;
		p->line = p->tile_line = 1001;
		p->sink.line = p->source[last ? HR_SOURCES_MAX - 1 : 0].line = 1002;
		p->object[last ? HR_OBJECTS_MAX - 1 : 0].line = 1003;
		p->when.kind = HR_WHEN_FOREVER;
		p->when.every_ns = 7;
		ssd->line = ssd->prepared[last ? HR_PREPARED_MAX - 1 : 0].line = 1004;
		fresh.gpu[last ? HR_GPUS_MAX - 1 : 0].line = 1005;
		fresh.op[last ? HR_OPERATORS_MAX - 1 : 0].line = 1006;
		fresh.op[last ? HR_OPERATORS_MAX - 1 : 0].op = (const void *)&text;
		fresh.boot.module[last ? HR_MODULES_MAX - 1 : 0].line = 1007;
		fresh.file = "other";
		fresh.names = NULL;
		cr_expect_str_eq(hr_reload_differences(&old, &fresh, text, sizeof text), "");
	}
	cr_expect_eq(old.pipeline[0].when.kind, HR_WHEN_EVERY, "the configurations stay");
	cr_expect_eq(fresh.op[HR_OPERATORS_MAX - 1].line, 1006u);
}
