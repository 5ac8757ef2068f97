/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/words_rig.h - a wired run with a tap and a feed, whose words lie in memory of this
 * process, for tests of what the host reads there. No backend is up. Each test that includes this has
 * its own.
 */
#ifndef TESTS_HARNESS_WORDS_RIG_H
#define TESTS_HARNESS_WORDS_RIG_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/engine.h"
#include "boot/engine/shared_memory.h"
#include "gpu/tap/feed.h"
#include "gpu/tap/role.h"

#define SLOTS 3u
#define MEMORY_BYTES (2u << 20)

static struct hr_engine *engine;
static struct hr_run *run;
static struct hr_config_pipeline *pipeline;
static struct hr_pipe pipe_words;
static struct hr_pipe_control control;
static struct hr_tap_role tap_role;
static uint8_t *memory; /* of all places */

/* A part behind the others. */
static inline int words_part(enum hr_place place, uint64_t bytes)
{
	struct hr_partition *p = &engine->partition[0];
	const int part = hr_partition_add(p, place, bytes, 64, "t", "t");

	cr_assert_geq(part, 0);
	return part;
}

static inline void begin(void)
{
	struct hr_region region[HR_PLACES] = { 0 };

	engine = calloc(1, sizeof *engine);
	memory = aligned_alloc(4096, MEMORY_BYTES);
	cr_assert(engine && memory);
	memset(memory, 0, MEMORY_BYTES);
	memset(&pipe_words, 0, sizeof pipe_words);
	memset(&control, 0, sizeof control);
	memset(&tap_role, 0, sizeof tap_role);
	for (uint32_t i = 0; i < HR_PLACES; i++)
		region[i].cpu = region[i].worker = memory + i * (MEMORY_BYTES / 8);
	run = &engine->run[0];
	pipeline = &engine->config.pipeline[0];
	engine->config.pipelines = 1;
	strcpy(pipeline->name, "p");
	strcpy(pipeline->tap.name, "t");
	run->config = pipeline;
	run->slots = SLOTS;
	hr_partition_init(&engine->partition[0], (const uint64_t[HR_PLACES]){ 0 });
	run->layout.parts.partition = &engine->partition[0];
	words_part(HR_PLACE_WORKER, 100); /* the next parts do not begin at 0 */
	run->layout.tap_lending =
		words_part(HR_PLACE_WORKER, SLOTS * sizeof(struct hr_tap_lending));
	run->layout.tap_words = words_part(HR_PLACE_CONTROL, sizeof(struct hr_tap_words));
	run->layout.feed_words = words_part(HR_PLACE_CONTROL, sizeof(struct hr_feed_words));
	run->layout.tap_pages =
		words_part(HR_PLACE_TAP_WORDS, HR_TAP_SEATS * hr_tap_page_bytes(SLOTS));
	hr_partition_bind(&engine->partition[0], region);
	for (uint32_t seat = 0; seat < HR_TAP_SEATS; seat++)
		hr_run_tap_words(run)->seat[seat].set = seat;
	run->cpu.control = &control;
	run->cpu.tap = &tap_role;
	run->pipe = &pipe_words;
}

static inline void end(void)
{
	free(memory);
	free(engine);
}

static inline struct hr_tap_lending *lending(void)
{
	return hr_partition_cpu(run->layout.parts.partition, run->layout.tap_lending);
}

/* The generation that the consumer in a seat has given back for a slot. */
static inline uint32_t *given_back(uint32_t seat, uint32_t slot)
{
	uint8_t *page = hr_run_tap_pages(run) + seat * hr_tap_page_bytes(SLOTS);

	return (uint32_t *)(void *)(page + sizeof(struct hr_tap_returns)) + slot;
}

#endif
