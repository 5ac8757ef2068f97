/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/supervisor/repeat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/log.h"
#include "config/derived.h"

/* ---- a configuration that has been read */

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

/* The lines as one line of a message. */
static const char *joined(const char *lines, char *text, size_t bytes)
{
	size_t at = 0;

	for (; *lines && at + 3 < bytes; lines++) {
		text[at++] = *lines == '\n' ? ',' : *lines;
		if (*lines == '\n')
			text[at++] = ' ';
	}
	text[at] = '\0';
	return text;
}

/* The present configuration stays, with the schedule of the new one. */
static void apply_schedule(struct hr_repeat *r, const struct hr_moment *at)
{
	struct hr_config *config = &r->engine->config;

	r->renew |= other_objects(config, r->fresh);
	for (uint32_t i = 0; i < config->pipelines; i++)
		config->pipeline[i].when = r->fresh->pipeline[i].when;
	hr_timetable_reload(&r->timetable, config, at);
	hr_info("%s: read again; its schedule is in force", config->file);
}

static void plan_switch(struct hr_repeat *r)
{
	char text[HR_LOG_LINE_MAX / 2];

	r->next = r->fresh;
	r->fresh = NULL;
	r->renew = true;
	hr_info("%s: read again; a new engine takes it over%s: %s", r->engine->config.file,
		r->running ? " when the pipelines that run have ended" : "",
		joined(r->differences.engine, text, sizeof text));
}

static int check_repeats(struct hr_repeat *r)
{
	const char *file = r->engine->config.file;
	struct hr_error *e = &r->reload_error;

	if (!hr_config_repeats(r->fresh))
		return hr_fail(
			e, HR_ERROR_USAGE, -EINVAL,
			"%s: no pipeline repeats (every, at, after, on, forever); expected one "
			"that does: stop the appliance for a configuration without",
			file);
	if (hr_differences(&r->engine->config, r->fresh, &r->differences) != 0)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "%s: out of memory to compare it",
			       file);
	return 0;
}

static void apply_reload(struct hr_repeat *r, const struct hr_moment *at)
{
	char text[sizeof r->differences.restart + 16];

	r->reload_result = check_repeats(r);
	hr_error_log(&r->reload_error, HR_LOG_ERROR);
	if (r->reload_result)
		return;
	if (*r->differences.restart)
		hr_warn("%s: read again; these differ, and stay as they are until headrace is "
			"started again: %s",
			r->engine->config.file, joined(r->differences.restart, text, sizeof text));
	hr_differences_keep(&r->engine->config, r->fresh);
	free(r->next);
	r->next = NULL;
	if (*r->differences.engine)
		plan_switch(r);
	else
		apply_schedule(r, at);
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
	memset(&r->differences, 0, sizeof r->differences);
	hr_error_clear(&r->reload_error);
	return hr_config_reader_start(&r->reader, r->read, r->read_to, HR_CONFIG_READER_NS);
}

void hr_reload_poll(struct hr_repeat *r, const struct hr_moment *at)
{
	if (!r->reader.pid ||
	    !hr_config_reader_poll(&r->reader, r->fresh, &r->reload_result, &r->reload_error))
		return;
	if (r->reload_result == 0)
		apply_reload(r, at);
}

bool hr_reload_is_over(const struct hr_repeat *r, bool in_force)
{
	return r->reader.pid == 0 && !(in_force && (r->next || r->former));
}

/* ---- the next engine */

/* Ends of starts go with their pipelines. */
static void move_results(struct hr_repeat *r, const struct hr_config *fresh)
{
	int before[HR_PIPELINES_MAX][HR_REPEAT_RESULTS];

	memcpy(before, r->result, sizeof before);
	memset(r->result, 0, sizeof r->result);
	for (uint32_t i = 0; i < fresh->pipelines; i++) {
		const uint32_t was = hr_pipeline_index(&r->engine->config, fresh->pipeline[i].name);

		if (was < HR_PIPELINES_MAX)
			memcpy(r->result[i], before[was], sizeof before[was]);
	}
}

static void put_in_force(struct hr_repeat *r, const struct hr_config *config,
			 const struct hr_moment *at)
{
	move_results(r, config);
	r->engine->config = *config;
	hr_timetable_reload(&r->timetable, &r->engine->config, at);
	memset(r->number, 0, sizeof r->number);
	memset(r->child->record, 0, sizeof *r->child->record);
	r->held = r->refused = 0;
	r->renew = false;
}

bool hr_reload_switch(struct hr_repeat *r, const struct hr_moment *at)
{
	struct hr_config *next = r->next;

	if (!next)
		return false;
	r->next = NULL;
	if (!r->former) {
		r->former = malloc(sizeof *r->former);
		if (r->former)
			*r->former = r->engine->config;
	}
	if (r->former)
		put_in_force(r, next, at);
	else
		r->reload_result = hr_fail(&r->reload_error, HR_ERROR_MISSING, -ENOMEM,
					   "%s: out of memory for the new configuration",
					   r->engine->config.file);
	hr_error_log(&r->reload_error, HR_LOG_ERROR);
	free(next);
	return r->former != NULL;
}

void hr_reload_settle(struct hr_repeat *r)
{
	if (!r->former)
		return;
	hr_info("%s: the new configuration is in force", r->engine->config.file);
	free(r->former);
	r->former = NULL;
}

bool hr_reload_revert(struct hr_repeat *r, const struct hr_error *cause, const struct hr_moment *at)
{
	struct hr_config *former = r->former;

	if (former && r->child->record->ready) {
		hr_reload_settle(r);
		return false;
	}
	if (!former)
		return false;
	if (r->next) { /* the next engine has a newer configuration, not the earlier one */
		hr_warn("%s: no engine comes up with it, and it has been read again since: %s",
			r->engine->config.file, cause->kind ? cause->text : "the engine has died");
		return true;
	}
	hr_error_clear(&r->reload_error);
	r->reload_result = hr_fail(
		&r->reload_error, cause->kind ? cause->kind : HR_ERROR_FAILED, -ECANCELED,
		"%s: no engine comes up with the new configuration, and the earlier one is in "
		"force again: %s",
		r->engine->config.file, cause->kind ? cause->text : "the engine has died");
	hr_error_log(&r->reload_error, HR_LOG_ERROR);
	r->former = NULL;
	put_in_force(r, former, at);
	free(former);
	return true;
}

void hr_reload_close(struct hr_repeat *r)
{
	hr_config_reader_kill(&r->reader);
	free(r->fresh);
	free(r->next);
	free(r->former);
	r->fresh = r->next = r->former = NULL;
}
