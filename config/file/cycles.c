/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <stdio.h>
#include <string.h>

#include "config/derived.h"

#define NONE HR_PIPELINES_MAX

/* The pipeline whose end starts pipeline i. There is at most one: an object has one maker. */
static uint32_t starter(const struct hr_config *config, uint32_t i)
{
	const struct hr_config_when *when = &config->pipeline[i].when;

	if (when->kind == HR_WHEN_AFTER)
		return when->after;
	if (when->kind != HR_WHEN_OBJECT || !when->text[0])
		return NONE;
	for (uint32_t j = 0; j < config->pipelines; j++)
		if (hr_config_makes_version(&config->pipeline[j], when->object_ssd, when->text))
			return j;
	return NONE;
}

/* Add "'a' after " or "'a' on object 'x' of ". A text without room for that ends in "...". */
static void append_cycle_link(const struct hr_config_pipeline *p, char *text, size_t bytes)
{
	static const char cut[] = "... ";
	const size_t at = strlen(text), room = bytes - at - sizeof cut;
	int n;

	if (at >= sizeof cut && strcmp(text + at - strlen(cut), cut) == 0)
		return;
	if (p->when.kind == HR_WHEN_AFTER)
		n = snprintf(text + at, room, "'%s' after ", p->name);
	else
		n = snprintf(text + at, room, "'%s' on object '%s' of ", p->name, p->when.text);
	if (n >= (int)room)
		snprintf(text + at, sizeof cut, "%s", cut);
}

static void check_cycle(const struct hr_config *config, struct hr_mistakes *mistakes, uint32_t i)
{
	const struct hr_config_pipeline *first = &config->pipeline[i];
	char text[HR_MISTAKE_BYTES / 2 + HR_MISTAKE_BYTES / 8] = "";
	uint32_t j = i, steps = 0;
	bool starts = false;

	do {
		append_cycle_link(&config->pipeline[j], text, sizeof text);
		starts |= config->pipeline[j].when.kind == HR_WHEN_OBJECT;
		j = starter(config, j);
		if (j == NONE || j < i)
			return;
	} while (j != i && ++steps < config->pipelines);
	if (j != i)
		return;
	hr_mistake(mistakes, first->when.line, "pipelines[%u].%s: %s: %s'%s'", i,
		   first->when.kind == HR_WHEN_AFTER ? "after" : "on",
		   starts ? "a cycle of pipelines would run without end"
			  : "no pipeline of a cycle would ever start",
		   text, first->name);
}

void hr_config_cycles_check(const struct hr_config *config, struct hr_mistakes *mistakes)
{
	for (uint32_t i = 0; i < config->pipelines; i++)
		check_cycle(config, mistakes, i);
}
