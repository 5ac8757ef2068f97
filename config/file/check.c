/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "config/file/group.h"
#include "config/tile.h"
#include "config/derived.h"

#define TILE_DEFAULT (1u << 20)

static void choose_tile(struct hr_config_pipeline *pipeline, const struct hr_group *group)
{
	uint32_t longest = hr_config_longest_row(pipeline);
	uint64_t step = hr_config_tile_step(pipeline), bytes, sink;

	assert(step > 0);
	bytes = step < TILE_DEFAULT ? TILE_DEFAULT / step * step : step;
	if (bytes > HR_TILE_MAX) {
		hr_group_mistake(
			group, NULL,
			"whole rows of %u bytes in whole blocks take a tile of %llu bytes, "
			"expected at most %u",
			longest, (unsigned long long)bytes, HR_TILE_MAX);
		return;
	}
	sink = hr_config_output_bytes(pipeline, step / longest);
	if (sink > HR_TILE_MAX) {
		hr_group_mistake(group, NULL,
				 "whole rows of %u bytes in whole blocks make %llu bytes of "
				 "output, expected at most %u",
				 longest, (unsigned long long)sink, HR_TILE_MAX);
		return;
	}
	if (sink && bytes / step > HR_TILE_MAX / sink)
		bytes = HR_TILE_MAX / sink * step;
	pipeline->tile_bytes = (uint32_t)bytes;
	pipeline->tile_chosen = true;
}

static void check_tile(struct hr_config_pipeline *pipeline, const struct hr_group *group)
{
	uint32_t tile = pipeline->tile_bytes, longest = hr_config_longest_row(pipeline);
	uint64_t step = hr_config_row_step(pipeline, HR_BLOCK_MIN) * longest;
	uint64_t sink = hr_config_output_bytes(pipeline, hr_config_tile_rows(pipeline));

	assert(step > 0);
	if (tile % longest != 0)
		hr_group_mistake(
			group, "tile",
			"is %u bytes, expected whole rows of operator %s: a multiple of %u", tile,
			pipeline->op->name, longest);
	else if (tile % step != 0)
		hr_group_mistake(
			group, "tile",
			"is %u bytes, expected whole blocks of %u bytes in every source and "
			"the sink: a multiple of %llu",
			tile, HR_BLOCK_MIN, (unsigned long long)step);
	if (sink > HR_TILE_MAX)
		hr_group_mistake(group, "tile",
				 "is %u bytes and makes %llu bytes of output, expected at most %u",
				 tile, (unsigned long long)sink, HR_TILE_MAX);
}

static void check_shape(const struct hr_config_pipeline *pipeline, const struct hr_group *group)
{
	const struct hr_operator *op = pipeline->op;
	const uint32_t min = hr_op_sources_min(op), max = hr_op_sources_max(op);
	const char *plural = pipeline->sources == 1 ? "" : "s";

	if (pipeline->sources < min || pipeline->sources > max) {
		if (min == max)
			hr_group_mistake(group, "source", "has %u object%s, operator %s takes %u",
					 pipeline->sources, plural, op->name, min);
		else
			hr_group_mistake(group, "source",
					 "has %u object%s, operator %s takes %u to %u",
					 pipeline->sources, plural, op->name, min, max);
	}
	if (op->output == HR_OUT_DATA && !hr_config_has_output(pipeline))
		hr_group_mistake(group, NULL,
				 "key 'sink' is missing: operator %s produces data; expected for "
				 "example: sink = { ssd = \"ssd0\"; object = \"out\"; };",
				 op->name);
	if (op->output == HR_OUT_NONE && hr_config_has_output(pipeline))
		hr_group_mistake(group, "sink", "operator %s produces no data, expected no sink",
				 op->name);
}

static void check_blocks(const struct hr_config_pipeline *pipeline, const struct hr_group *group)
{
	const struct {
		const char *key;
		uint32_t blocks;
	} role[] = {
		{ "prefetch", pipeline->prefetch_blocks },
		{ "compute", pipeline->compute_blocks },
		{ "writeback", pipeline->writeback_blocks },
	};
	struct hr_group blocks;

	if (!hr_group_member(group, "blocks", &blocks))
		return;
	/* Slots are dealt out to the blocks of a role; a block without a slot would do no work. */
	for (size_t i = 0; pipeline->slots && i < sizeof role / sizeof *role; i++)
		if (role[i].blocks > pipeline->slots)
			hr_group_mistake(&blocks, role[i].key,
					 "is %u, expected at most the %u slots", role[i].blocks,
					 pipeline->slots);
	if (pipeline->has_sink && pipeline->writeback_blocks == 0 &&
	    config_setting_get_member(blocks.setting, "writeback"))
		hr_group_mistake(&blocks, "writeback",
				 "is 0, expected at least 1: there is a sink");
	if (hr_config_has_tap(pipeline) && config_setting_get_member(blocks.setting, "writeback"))
		hr_group_mistake(&blocks, "writeback",
				 "is %u, expected no such key: a %s has one worker",
				 pipeline->writeback_blocks,
				 hr_config_sends(pipeline) ? "remote sink" : "tap");
	else if (!pipeline->has_sink && pipeline->writeback_blocks != 0)
		hr_group_mistake(&blocks, "writeback", "is %u, expected 0: there is no sink",
				 pipeline->writeback_blocks);
	if (pipeline->threads % 32)
		hr_group_mistake(&blocks, "threads", "is %u, expected a multiple of 32",
				 pipeline->threads);
}

/* When the file gives no tile size, bring-up can shrink the tile to one step. */
static uint64_t least_rows(const struct hr_config_pipeline *pipeline)
{
	return pipeline->tile_chosen
		       ? hr_config_tile_step(pipeline) / hr_config_longest_row(pipeline)
		       : hr_config_tile_rows(pipeline);
}

static uint32_t least_commands(uint64_t bytes)
{
	return (uint32_t)((bytes + HR_CHUNK_MAX - 1) / HR_CHUNK_MAX);
}

/* One tile must fit the queues of its ssd, even when each command is as large as possible. */
static void check_queues(const struct hr_config *config, const struct hr_config_pipeline *pipeline,
			 const struct hr_group *group)
{
	const uint64_t rows = least_rows(pipeline);

	for (uint32_t d = 0; d < config->ssds; d++) {
		uint32_t room = config->ssd[d].queue_entries - 1, need = 0, written = 0;

		for (uint32_t s = 0; s < hr_config_source_objects(pipeline); s++)
			if (pipeline->source[s].ssd == d)
				need += least_commands(rows * hr_config_row_bytes(pipeline, s));
		if (pipeline->has_sink && pipeline->sink.ssd == d)
			written = least_commands(hr_config_output_bytes(pipeline, rows));
		if (need > room || written > room)
			hr_group_mistake(
				group, "tile",
				"one tile takes at least %u commands, but queues of ssd '%s' "
				"have room for %u (queue_entries on line %u)",
				need > written ? need : written, config->ssd[d].name, room,
				config->ssd[d].line);
	}
}

/* Sum of the tiles only. The partition adds queues and states, and checks the complete sum. */
static void check_memory(const struct hr_config *config, const struct hr_config_pipeline *pipeline,
			 const struct hr_group *group)
{
	uint64_t host = config->memory_host, gpu = config->memory_gpu, limit = 0;
	uint64_t tiles = hr_config_output_bytes(pipeline, hr_config_tile_rows(pipeline));
	uint32_t slots = pipeline->slots ? pipeline->slots : HR_SLOTS_DEFAULT;

	for (uint32_t s = 0; s < pipeline->sources; s++)
		tiles += hr_config_tile_bytes(pipeline, s);
	tiles *= slots;
	if (config->path == HR_PATH_BOUNCE)
		limit = host;
	else if (config->path == HR_PATH_DIRECT)
		limit = gpu;
	else if (host && gpu)
		limit = host > gpu ? host : gpu;
	if (limit && tiles > limit)
		hr_group_mistake(group, "slots",
				 "%u slots take %llu bytes of tiles, but memory allows %llu", slots,
				 (unsigned long long)tiles, (unsigned long long)limit);
}

void hr_config_pipeline_check(const struct hr_config *config, struct hr_config_pipeline *pipeline,
			      const struct hr_group *group)
{
	uint32_t before = group->mistakes->count;

	if (pipeline->objects) {
		hr_config_access_check(config, pipeline, group);
		return;
	}
	check_shape(pipeline, group);
	check_blocks(pipeline, group);
	if (pipeline->sources > hr_op_sources_max(pipeline->op))
		return;
	if (pipeline->tile_bytes)
		check_tile(pipeline, group);
	else
		choose_tile(pipeline, group);
	if (group->mistakes->count != before)
		return;
	if (hr_config_has_tap(pipeline))
		hr_config_tap_check(pipeline, group);
	if (hr_config_has_feed(pipeline))
		hr_config_feed_check(pipeline, group);
	check_queues(config, pipeline, group);
	check_memory(config, pipeline, group);
}

static bool same_object(const struct hr_config_object *a, const struct hr_config_object *b)
{
	return a->object[0] && a->ssd == b->ssd && strcmp(a->object, b->object) == 0;
}

/* Where an object is in a pipeline, for messages: "sink", "objects". */
static const char *key_of(const struct hr_config_pipeline *p)
{
	return p->objects ? "objects" : "sink";
}

/* An object that pipeline i creates is new: no earlier pipeline creates it. */
static void check_creator(const struct hr_config *config, struct hr_mistakes *mistakes, unsigned i,
			  const struct hr_config_object *object)
{
	for (unsigned j = 0; j < i; j++) {
		const struct hr_config_pipeline *p = &config->pipeline[j];
		const struct hr_config_object *other;

		for (unsigned k = 0; (other = hr_config_creates(p, k)) != NULL; k++)
			if (same_object(other, object))
				hr_mistake(mistakes, object->line,
					   "pipelines[%u].%s: object '%s' is already %s of "
					   "pipelines[%u] on line %u",
					   i, key_of(&config->pipeline[i]), object->object,
					   p->objects ? "a new object" : "the sink", j,
					   other->line);
	}
}

/* An older version has the name of the sink and a number: no pipeline may create such an object. */
static void check_versions(const struct hr_config *config, struct hr_mistakes *mistakes, unsigned i)
{
	const struct hr_config_object *sink = &config->pipeline[i].sink, *made;
	const size_t length = strlen(sink->object);
	char last[16];

	snprintf(last, sizeof last, ".%u", sink->keep - 1);
	if (sink->keep > 1 && length + strlen(last) >= HR_NAME_MAX)
		hr_mistake(mistakes, sink->line,
			   "pipelines[%u].sink: '%s%s', the name of the oldest version, has %zu "
			   "characters, expected at most %u",
			   i, sink->object, last, length + strlen(last), HR_NAME_MAX - 1);
	for (unsigned j = 0; j < config->pipelines; j++)
		for (unsigned k = 0; (made = hr_config_creates(&config->pipeline[j], k)); k++)
			if (made->ssd == sink->ssd &&
			    hr_config_version_of(made->object, sink->object, sink->keep))
				hr_mistake(mistakes, made->line,
					   "pipelines[%u].%s: object '%s' is the name of an older "
					   "version of the sink of pipelines[%u] on line %u",
					   j, key_of(&config->pipeline[j]), made->object, i,
					   sink->line);
}

void hr_config_sinks_check(const struct hr_config *config, struct hr_mistakes *mistakes)
{
	for (unsigned i = 0; i < config->pipelines; i++) {
		const struct hr_config_pipeline *p = &config->pipeline[i];
		const struct hr_config_object *object;

		for (unsigned s = 0; p->has_sink && s < hr_config_source_objects(p); s++)
			if (same_object(&p->source[s], &p->sink))
				hr_mistake(
					mistakes, p->sink.line,
					"pipelines[%u].sink: object '%s' is also a source on line "
					"%u, expected another",
					i, p->sink.object, p->source[s].line);
		for (unsigned k = 0; (object = hr_config_creates(p, k)) != NULL; k++)
			check_creator(config, mistakes, i, object);
		if (p->has_sink && p->sink.keep > 1)
			check_versions(config, mistakes, i);
	}
}
