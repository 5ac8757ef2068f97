/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/supervisor/differences.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void forget_object(struct hr_config_object *object)
{
	object->line = 0;
}

static void forget_pipeline(struct hr_config_pipeline *p)
{
	memset(&p->when, 0, sizeof p->when);
	p->line = p->tile_line = p->tap.line = p->feed.line = p->from.line = p->to.line = 0;
	forget_object(&p->sink);
	for (uint32_t s = 0; s < HR_SOURCES_MAX; s++)
		forget_object(&p->source[s]);
	for (uint32_t k = 0; k < HR_OBJECTS_MAX; k++)
		forget_object(&p->object[k]);
}

/* Zero the schedule, lines of the file, and pointers that are not those of built-in operators. */
static void clear_unchanging(struct hr_config *config)
{
	for (uint32_t i = 0; i < HR_PIPELINES_MAX; i++)
		forget_pipeline(&config->pipeline[i]);
	for (uint32_t d = 0; d < HR_SSDS_MAX; d++) {
		config->ssd[d].line = 0;
		for (uint32_t k = 0; k < HR_PREPARED_MAX; k++)
			config->ssd[d].prepared[k].line = 0;
	}
	for (uint32_t g = 0; g < HR_GPUS_MAX; g++)
		config->gpu[g].line = 0;
	for (uint32_t o = 0; o < HR_OPERATORS_MAX; o++) {
		config->op[o].line = 0;
		config->op[o].op = NULL;
	}
	for (uint32_t m = 0; m < HR_MODULES_MAX; m++)
		config->boot.module[m].line = 0;
	config->remotes.line = 0;
	config->file = NULL;
	config->names = NULL;
}

static void append_difference(char *text, size_t bytes, bool differs, const char *name)
{
	const size_t at = strlen(text);

	if (differs)
		snprintf(text + at, bytes - at, "%s%s", at ? "\n" : "", name);
}

/* Reading a configuration zeroes all of it first, so padding is equal too. */
static bool differ(const void *a, const void *b, size_t bytes)
{
	return memcmp(a, b, bytes) != 0;
}

/* True when both differ; then b becomes equal. */
static bool make_equal(const void *a, void *b, size_t bytes)
{
	const bool other = differ(a, b, bytes);

	memcpy(b, a, bytes);
	return other;
}

#define TAKE(member) make_equal(&(a)->member, &(b)->member, sizeof(a)->member)

static void list_restart(const struct hr_config *a, struct hr_config *b, char *text, size_t bytes)
{
	append_difference(text, bytes, TAKE(name) | TAKE(log) | TAKE(log_chosen), "appliance");
	append_difference(text, bytes, TAKE(boot), "boot");
	append_difference(text, bytes, TAKE(control), "control");
}

void hr_differences_keep(const struct hr_config *a, struct hr_config *b)
{
	char unused[sizeof((struct hr_differences *)0)->restart] = "";

	list_restart(a, b, unused, sizeof unused);
}

uint32_t hr_pipeline_index(const struct hr_config *config, const char *name)
{
	for (uint32_t i = 0; i < config->pipelines; i++)
		if (strcmp(config->pipeline[i].name, name) == 0)
			return i;
	return HR_PIPELINES_MAX;
}

static void add_pipeline(char *text, size_t bytes, bool differs, const char *name, const char *how)
{
	char line[HR_NAME_MAX + 32];

	snprintf(line, sizeof line, "pipeline '%s' %s", name, how);
	append_difference(text, bytes, differs, line);
}

static void list_pipelines(const struct hr_config *a, const struct hr_config *b, char *text,
			   size_t bytes)
{
	bool moved = false;

	for (uint32_t i = 0; i < a->pipelines; i++) {
		const struct hr_config_pipeline *was = &a->pipeline[i];
		const uint32_t at = hr_pipeline_index(b, was->name);

		moved |= at != i;
		if (at == HR_PIPELINES_MAX)
			add_pipeline(text, bytes, true, was->name, "is removed");
		else
			add_pipeline(text, bytes, differ(was, &b->pipeline[at], sizeof *was),
				     was->name, "is changed");
	}
	for (uint32_t i = 0; i < b->pipelines; i++)
		add_pipeline(text, bytes,
			     hr_pipeline_index(a, b->pipeline[i].name) == HR_PIPELINES_MAX,
			     b->pipeline[i].name, "is new");
	append_difference(text, bytes, moved && !*text, "the order of pipelines");
}

static void list_engine(const struct hr_config *a, struct hr_config *b, char *text, size_t bytes)
{
	char pipelines[sizeof((struct hr_differences *)0)->engine] = "";

	list_pipelines(a, b, pipelines, sizeof pipelines);
	append_difference(text, bytes, TAKE(checkpoint_ns) | TAKE(parallel), "appliance");
	append_difference(text, bytes, TAKE(ssds) | TAKE(ssd), "ssds");
	append_difference(text, bytes, TAKE(gpus) | TAKE(gpu), "gpus");
	append_difference(text, bytes,
			  TAKE(memory_host) | TAKE(memory_gpu) | TAKE(path) | TAKE(queues),
			  "memory");
	append_difference(text, bytes, TAKE(health), "health");
	append_difference(text, bytes, TAKE(remotes), "remote");
	append_difference(text, bytes, TAKE(ops) | TAKE(op), "operators");
	append_difference(text, bytes, *pipelines, pipelines);
	(void)(TAKE(pipelines) | TAKE(pipeline));
	append_difference(text, bytes, differ(a, b, sizeof *a), "other settings");
}

int hr_differences(const struct hr_config *old, const struct hr_config *fresh,
		   struct hr_differences *d)
{
	struct hr_config *copy = malloc(2 * sizeof *copy);

	memset(d, 0, sizeof *d);
	if (!copy)
		return -ENOMEM;
	copy[0] = *old;
	copy[1] = *fresh;
	clear_unchanging(&copy[0]);
	clear_unchanging(&copy[1]);
	list_restart(&copy[0], &copy[1], d->restart, sizeof d->restart);
	list_engine(&copy[0], &copy[1], d->engine, sizeof d->engine);
	free(copy);
	return 0;
}
