/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real captures, in the folder that HEADRACE_CAPTURES names: registers and the text that lspci made
 * from them state the same facts.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/source/source.h"

static struct hr_model model, other;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
	cr_assert_eq(hr_model_init(&other), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
	hr_model_fini(&other);
}

TestSuite(topo_captures, .init = set_up, .fini = tear_down, .timeout = 60);

static char *without_data(const char *path)
{
	size_t size, length = 0;
	char *text = NULL, *line = NULL;
	FILE *in = fopen(path, "r"), *out = open_memstream(&text, &size);

	cr_assert_not_null(in);
	while (getline(&line, &length, in) > 0)
		if (strspn(line, "0123456789abcdef") != strcspn(line, ":") || strchr(line, '.'))
			fputs(line, out);
	free(line);
	fclose(in);
	fclose(out);
	return text;
}

/* Facts from the text must equal facts from the registers. */
static void compare(const char *path)
{
	char *text = without_data(path);

	hr_model_reset(&model);
	hr_model_reset(&other);
	cr_assert_eq(hr_source_open(&model, path), 0, "%s", model.error.text);
	cr_assert_eq(hr_source_parse(&other, path, text, strlen(text)), 0, "%s", other.error.text);
	free(text);
	cr_assert_eq(model.count, other.count, "%s", path);
	for (uint32_t i = 0; i < model.count; i++)
		for (unsigned id = 0; id < HR_FACTS_COUNT; id++) {
			const struct hr_fact *a = &model.fn[i].fact[id], *b = &other.fn[i].fact[id];
			uint32_t mask = id == HR_F_COMMAND	? 6
					: id == HR_F_STATUS	? 0x10
					: id == HR_F_CLASS	? 0xffff00
					: id == HR_F_HEADER	? 0x7f
					: id == HR_F_BRIDGE_CTL ? 0x40
					: id == HR_F_DEVCTL	? 0x10
					: id == HR_F_DEVSTA	? 0x7
					: id == HR_F_DEVCAP2	? 0x30000
					: id == HR_F_DEVCTL2	? 0x1000
					: id == HR_F_CESTA	? 0x11c1
					: id == HR_F_UESTA	? 0x34c000
								: ~0u;

			/* lspci prints a target speed that was never set as the lowest rate. */
			if (id == HR_F_SPEED_TARGET && !a->value)
				continue;
			if (a->source && b->source)
				cr_expect_eq(a->value & mask, b->value & mask,
					     "%s: %u %s: %x, text %x", path, i,
					     hr_fact_name((enum hr_fact_id)id), a->value, b->value);
		}
}

Test(topo_captures, text_and_registers_of_real_captures_agree)
{
	const char *folder = getenv("HEADRACE_CAPTURES");
	struct dirent *entry;
	unsigned captures = 0;
	char path[512];
	DIR *dir;

	if (!folder)
		cr_skip_test("HEADRACE_CAPTURES names no folder of captures");
	dir = opendir(folder);
	cr_assert_not_null(dir, "%s", folder);
	while ((entry = readdir(dir))) {
		if (!strstr(entry->d_name, ".lspci"))
			continue;
		snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		compare(path);
		captures++;
	}
	closedir(dir);
	cr_expect_gt(captures, 0, "no .lspci file in %s", folder);
}
