/* SPDX-License-Identifier: Apache-2.0 */
/* The differences between a configuration and the same file after a change. */
#include "boot/appliance/supervisor/differences.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/devices/devices.h"
#include "config/file/file.h"
#include "tests/harness/error.h"

TestSuite(differences, .timeout = 60);

static struct hr_config old, fresh;

static void parse(struct hr_config *config, const char *text)
{
	cr_assert_eq(hr_config_parse(config, &hr_lookup, "f", text, strlen(text), test_error()), 0);
}

/* clang-format off */
#define FILE_OF(head, size, keys)                                          \
	head "ssds = ( { name = \"s\"; device = \"soft:s.img,size=" size "\"; } );\n" \
	"gpus = ( { name = \"g\"; device = \"host:1\"; } ); pipelines = ( { name = \"p\";\n" \
	"source = { object = \"in\"; }; operator = \"crc32c\"; " keys " } );"
/* clang-format on */

static struct hr_differences d;

/* "RESTART | ENGINE", with a comma between two lines. */
static const char *compare(void)
{
	static char text[sizeof d + 8];

	cr_assert_eq(hr_differences(&old, &fresh, &d), 0);
	snprintf(text, sizeof text, "%s | %s", d.restart, d.engine);
	for (char *at = text; *at; at++)
		*at = *at == '\n' ? ',' : *at;
	return text;
}

Test(differences, settings_are_named_by_group)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ FILE_OF("", "1M", "every = \"1h\";"), " | " },
		{ FILE_OF("\n\n", "1M", "every = \"1h\";"), " | " },
		{ FILE_OF("", "1M", "at = \"03:00\";"), " | " },
		{ FILE_OF("", "2M", "every = \"1h\";"), " | ssds" },
		{ FILE_OF("", "1M", "every = \"1h\"; slots = 3;"), " | pipeline 'p' is changed" },
		{ FILE_OF("appliance = { parallel = 2; };", "1M", "every = \"1h\";"),
		  " | appliance" },
		{ FILE_OF("appliance = { log = \"debug\"; };", "1M", "every = \"1h\";"),
		  "appliance | " },
		{ FILE_OF("boot = { restarts = 9; }; memory = { host = \"8M\"; };", "1M",
			  "every = \"1h\"; tile = \"64K\";"),
		  "boot | memory,pipeline 'p' is changed" },
	};

	parse(&old, row[0].text);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		parse(&fresh, row[i].text);
		cr_expect_str_eq(compare(), row[i].want, "row %zu: %s", i, compare());
	}
}

/* ---- each setting */

#define AT(member) offsetof(struct hr_config, member)

/* One byte of each member; the last one of a list, too. */
Test(differences, each_setting_belongs_to_a_group)
{
	static const struct {
		size_t at;
		const char *want;
	} row[] = {
		{ AT(name), "appliance | " },
		{ AT(log), "appliance | " },
		{ AT(checkpoint_ns), " | appliance" },
		{ AT(parallel), " | appliance" },
		{ AT(ssds), " | ssds" },
		{ AT(ssd[0].name), " | ssds" },
		{ AT(ssd[HR_SSDS_MAX - 1].device), " | ssds" },
		{ AT(gpus), " | gpus" },
		{ AT(gpu[HR_GPUS_MAX - 1].name), " | gpus" },
		{ AT(memory_host), " | memory" },
		{ AT(memory_gpu), " | memory" },
		{ AT(path), " | memory" },
		{ AT(queues), " | memory" },
		{ AT(boot.restarts), "boot | " },
		{ AT(boot.module[HR_MODULES_MAX - 1].name), "boot | " },
		{ AT(control.mode), "control | " },
		{ AT(health.action[4]), " | health" },
		{ AT(remotes.key), " | remote" },
		{ AT(ops), " | operators" },
		{ AT(op[HR_OPERATORS_MAX - 1].name), " | operators" },
		{ AT(folder), " | other settings" },
		{ AT(pipeline[0].slots), " | pipeline 'p' is changed" },
		{ AT(pipeline[1].name), " | pipeline 's' is removed,pipeline 'r' is new" },
		{ AT(pipeline[2].slots), " | " }, /* there is none */
	};

	parse(&old, FILE_OF("", "1M", "every = \"1h\";"));
	old.pipelines = 2;
	strcpy(old.pipeline[0].name, "p");
	strcpy(old.pipeline[1].name, "s");
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		fresh = old;
		((char *)&fresh)[row[i].at] ^= 1;
		cr_expect_str_eq(compare(), row[i].want, "row %zu: %s", i, compare());
	}
}

static void name(struct hr_config *config, const char *names)
{
	config->pipelines = (uint32_t)strlen(names);
	for (uint32_t i = 0; names[i]; i++)
		config->pipeline[i].name[0] = names[i];
}

Test(differences, pipelines_are_found_by_their_names)
{
	static const struct {
		const char *before, *after, *want;
	} row[] = {
		{ "p", "p", " | " },
		{ "p", "q", " | pipeline 'p' is removed,pipeline 'q' is new" },
		{ "pq", "q", " | pipeline 'p' is removed" },
		{ "q", "pq", " | pipeline 'p' is new" },
		{ "pq", "qp", " | the order of pipelines" },
		{ "pqr", "rsq", " | pipeline 'p' is removed,pipeline 's' is new" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		parse(&old, FILE_OF("", "1M", "every = \"1h\";"));
		for (uint32_t p = 1; p < 4; p++)
			old.pipeline[p] = old.pipeline[0];
		fresh = old;
		name(&old, row[i].before);
		name(&fresh, row[i].after);
		cr_expect_str_eq(compare(), row[i].want, "row %zu: %s", i, compare());
	}
	cr_expect_eq(hr_pipeline_index(&old, "r"), 2u);
	cr_expect_eq(hr_pipeline_index(&old, "x"), HR_PIPELINES_MAX);
}

/* Whole lines, as many as there is room for. */
Test(differences, as_many_pipelines_as_possible_fit)
{
	parse(&old, FILE_OF("", "1M", "every = \"1h\";"));
	old.pipelines = HR_PIPELINES_MAX;
	fresh = old;
	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++) {
		memset(old.pipeline[i].name, 'a' + (int)i, HR_NAME_MAX - 1);
		memset(fresh.pipeline[i].name, 'A' + (int)i, HR_NAME_MAX - 1);
	}
	compare();
	cr_expect_not_null(strstr(d.engine, "PPPP' is new"));
}

Test(differences, settings_that_need_a_restart_are_kept)
{
	parse(&old, FILE_OF("", "1M", "every = \"1h\";"));
	parse(&fresh, FILE_OF("appliance = { name = \"x\"; log = \"debug\"; parallel = 2; };\n"
			      "control = { store_percent = 50; }; boot = { restarts = 9; };",
			      "1M", "every = \"2h\";"));
	cr_expect_str_eq(compare(), "appliance,boot,control | appliance");
	hr_differences_keep(&old, &fresh);
	cr_expect_str_eq(compare(), " | appliance");
	cr_expect_eq(fresh.parallel, 2u);
	cr_expect_eq(fresh.boot.restarts, old.boot.restarts);
}

/* Lines, pointers and the schedule, of the first and the last element of each list. */
Test(differences, what_is_no_difference)
{
	parse(&old, FILE_OF("", "1M", "every = \"1h\";"));
	old.pipelines = HR_PIPELINES_MAX;
	for (uint32_t i = 1; i < HR_PIPELINES_MAX; i++)
		old.pipeline[i].name[0] = (char)('A' + i);
	for (uint32_t last = 0; last < 2; last++) {
		struct hr_config_pipeline *p = &fresh.pipeline[last ? HR_PIPELINES_MAX - 1 : 0];
		struct hr_config_ssd *ssd = &fresh.ssd[last ? HR_SSDS_MAX - 1 : 0];

		fresh = old;
		p->line = p->tile_line = 1001;
		p->sink.line = p->source[last ? HR_SOURCES_MAX - 1 : 0].line = 1002;
		p->object[last ? HR_OBJECTS_MAX - 1 : 0].line = 1003;
		p->tap.line = p->feed.line = p->from.line = p->to.line = 1008;
		fresh.remotes.line = 1009;
		p->when.kind = HR_WHEN_FOREVER;
		p->when.every_ns = 7;
		ssd->line = ssd->prepared[last ? HR_PREPARED_MAX - 1 : 0].line = 1004;
		fresh.gpu[last ? HR_GPUS_MAX - 1 : 0].line = 1005;
		fresh.op[last ? HR_OPERATORS_MAX - 1 : 0].line = 1006;
		fresh.op[last ? HR_OPERATORS_MAX - 1 : 0].op = (const void *)&d;
		fresh.boot.module[last ? HR_MODULES_MAX - 1 : 0].line = 1007;
		fresh.file = "other";
		fresh.names = NULL;
		cr_expect_str_eq(compare(), " | ");
	}
	cr_expect_eq(old.pipeline[0].when.kind, HR_WHEN_EVERY, "the configurations stay");
	cr_expect_eq(fresh.op[HR_OPERATORS_MAX - 1].line, 1006u);
}
