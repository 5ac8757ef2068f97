#include "boot/appliance/reload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/log.h"

/* ---- differences */

static void forget_object(struct hr_config_object *object)
{
	object->line = 0;
}

static void forget_pipeline(struct hr_config_pipeline *p)
{
	memset(&p->when, 0, sizeof p->when);
	p->line = p->tile_line = 0;
	forget_object(&p->sink);
	for (uint32_t s = 0; s < HR_SOURCES_MAX; s++)
		forget_object(&p->source[s]);
	for (uint32_t k = 0; k < HR_OBJECTS_MAX; k++)
		forget_object(&p->object[k]);
}

/* Zero the schedule, lines of the file, and pointers. */
static void forget(struct hr_config *config)
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
	config->file = NULL;
	config->names = NULL;
}

static void add(char *text, size_t bytes, bool differs, const char *name)
{
	const size_t at = strlen(text);

	if (differs)
		snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", name);
}

/* Reading a configuration zeroes all of it first, so padding is equal too. */
static bool differ(const void *a, const void *b, size_t bytes)
{
	return memcmp(a, b, bytes) != 0;
}

#define DIFFERS(member) differ(&(a)->member, &(b)->member, sizeof(a)->member)

static void compare(const struct hr_config *a, const struct hr_config *b, char *text, size_t bytes)
{
	text[0] = '\0';
	add(text, bytes,
	    DIFFERS(name) || DIFFERS(log) || DIFFERS(checkpoint_ns) || DIFFERS(parallel),
	    "appliance");
	add(text, bytes, DIFFERS(ssds) || DIFFERS(ssd), "ssds");
	add(text, bytes, DIFFERS(gpus) || DIFFERS(gpu), "gpus");
	add(text, bytes,
	    DIFFERS(memory_host) || DIFFERS(memory_gpu) || DIFFERS(path) || DIFFERS(queues),
	    "memory");
	add(text, bytes, DIFFERS(boot), "boot");
	add(text, bytes, DIFFERS(control), "control");
	add(text, bytes, DIFFERS(health), "health");
	add(text, bytes, DIFFERS(ops) || DIFFERS(op), "operators");
	add(text, bytes, DIFFERS(pipelines), "the number of pipelines");
	for (uint32_t i = 0; i < a->pipelines && i < b->pipelines; i++) {
		char name[HR_NAME_MAX + 16];

		snprintf(name, sizeof name, "pipeline '%s'", a->pipeline[i].name);
		add(text, bytes, DIFFERS(pipeline[i]), name);
	}
}

const char *hr_reload_differences(const struct hr_config *old, const struct hr_config *fresh,
				  char *text, size_t bytes)
{
	struct hr_config *copy = malloc(2 * sizeof *copy);

	if (!copy) {
		snprintf(text, bytes, "out of memory to compare");
		return text;
	}
	copy[0] = *old;
	copy[1] = *fresh;
	forget(&copy[0]);
	forget(&copy[1]);
	compare(&copy[0], &copy[1], text, bytes);
	free(copy);
	return text;
}

/* ---- taking over */

/* The pipelines are the same ones, in the same order. */
static bool same_pipelines(const struct hr_config *a, const struct hr_config *b)
{
	bool same = a->pipelines == b->pipelines;

	for (uint32_t i = 0; same && i < a->pipelines; i++)
		same = strcmp(a->pipeline[i].name, b->pipeline[i].name) == 0;
	return same;
}

/* The engine looks for the objects of its own copy of the configuration. */
static bool other_objects(const struct hr_config *a, const struct hr_config *b)
{
	bool other = false;

	for (uint32_t i = 0; i < a->pipelines; i++) {
		const struct hr_config_when *was = &a->pipeline[i].when, *is = &b->pipeline[i].when;

		other |= is->kind == HR_WHEN_OBJECT &&
			 (was->kind != HR_WHEN_OBJECT || was->object_ssd != is->object_ssd ||
			  strcmp(was->text, is->text) != 0);
	}
	return other;
}

static void take_over(struct hr_repeat *r, const struct hr_moment *at)
{
	struct hr_config *config = &r->app->config;

	hr_reload_differences(config, r->fresh, r->reload_text, sizeof r->reload_text);
	if (r->reload_text[0])
		hr_warn("%s: read again; these differ, and stay as they are until headrace is "
			"started again: %s",
			config->file, r->reload_text);
	if (!same_pipelines(config, r->fresh) || !hr_config_repeats(r->fresh)) {
		hr_warn("%s: the schedule is not taken over: %s", config->file,
			hr_config_repeats(r->fresh) ? "the pipelines are not the same ones"
						    : "no pipeline repeats any more");
		r->reload_result = -EINVAL;
		return;
	}
	r->renew |= other_objects(config, r->fresh);
	for (uint32_t i = 0; i < config->pipelines; i++)
		config->pipeline[i].when = r->fresh->pipeline[i].when;
	hr_timetable_reload(&r->timetable, config, at);
	hr_info("%s: read again; its schedule is in force", config->file);
}

int hr_reload_begin(struct hr_repeat *r)
{
	if (r->reader.pid)
		return -EALREADY;
	if (!r->read)
		return -ENOTSUP;
	r->fresh = r->fresh ? r->fresh : malloc(sizeof *r->fresh);
	if (!r->fresh)
		return -ENOMEM;
	r->reload_text[0] = '\0';
	return hr_reader_begin(&r->reader, r->read, r->read_to, HR_READ_NS);
}

void hr_reload_look(struct hr_repeat *r, const struct hr_moment *at)
{
	if (!r->reader.pid || !hr_reader_end(&r->reader, r->fresh, &r->reload_result))
		return;
	if (r->reload_result == 0)
		take_over(r, at);
}

bool hr_reload_is_over(const struct hr_repeat *r)
{
	return r->reader.pid == 0;
}

void hr_reload_close(struct hr_repeat *r)
{
	hr_reader_stop(&r->reader);
	free(r->fresh);
	r->fresh = NULL;
}
