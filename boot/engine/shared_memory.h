/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/shared_memory.h - memory of a run that other processes map: of its tap, of its
 * feed, and the words of both.
 */
#ifndef BOOT_ENGINE_SHARED_MEMORY_H
#define BOOT_ENGINE_SHARED_MEMORY_H

#include "boot/engine/engine.h"

/* ---- the memory of the tap of a run that other processes map:
 * objects of their own for the tiles, and, on a GPU, for the entries and the page of each consumer.
 */

/* Make the memory objects of the tap of pipeline i in the places TAP and TAP_WORDS, which are
 * reserved: engine->tap_tiles[i]. -ENOMEM, -EMFILE, -ENOSYS, errors of make_shared, in
 * engine->error. */
int hr_tap_memory_open(struct hr_engine *engine, uint32_t i);

/* Other memory for the tiles, because consumers of a run that was broken off may still read them. No
 * worker runs. As hr_tap_memory_open(). */
int hr_tap_memory_renew(struct hr_engine *engine, uint32_t i);

/* On a GPU: new objects for the sets of the tap that consumers have had (hr_sets_fill()); for all of
 * them at first. */
int hr_run_tap_fill(struct hr_engine *engine, uint32_t i, struct hr_error *e);

/* Close its descriptors. Does nothing when it is not up. The memory goes with the places; processes
 * that have mapped it keep it. */
void hr_tap_memory_close(struct hr_tap_tiles *tiles);

/* Addresses for the CPU of the tap of a run whose memory is up: entries and pages of all sets, and
 * the words that the host shares with the worker. */
uint8_t *hr_run_tap_entries(const struct hr_run *run);
uint8_t *hr_run_tap_pages(const struct hr_run *run);
struct hr_tap_words *hr_run_tap_words(const struct hr_run *run);

/* Of the set of the consumer that has the seat. */
uint8_t *hr_run_tap_entries_of(const struct hr_run *run, uint32_t seat);
uint8_t *hr_run_tap_page_of(const struct hr_run *run, uint32_t seat);

/* ---- the memory of the feed of a run that a producer maps. On a GPU, which maps
 * host memory only before a launch, the objects are made at bring-up: the tiles, and sets of entries
 * and page (boot/engine/sets.h). On the host backend each producer gets new ones
 * (boot/appliance/lend/producer.c).
 */

/* Make the memory objects of the feed of pipeline i in the places TAP and TAP_WORDS, which are
 * reserved: engine->feed_memory[i]. Does nothing on the host backend. -ENOMEM, -EMFILE, -ENOSYS, errors
 * of make_shared, in engine->error. */
int hr_feed_memory_open(struct hr_engine *engine, uint32_t i);

/* On a GPU: new objects for the sets of the feed that producers have had (hr_sets_fill()). */
int hr_run_feed_fill(struct hr_engine *engine, uint32_t i, struct hr_error *e);

/* Close the descriptors. Does nothing when it is not up. The memory goes with the places; a process
 * that has mapped it keeps it. */
void hr_feed_memory_close(struct hr_feed_memory *memory);

/* Addresses for the CPU of the feed of a run whose memory is up: of the set of the newest producer. */
uint8_t *hr_run_feed_entries(const struct hr_run *run);
uint8_t *hr_run_feed_page(const struct hr_run *run);

/* ---- the words that a pipeline on a GPU shares with clients of its tap and its
 * feed, before a run.
 */

/*
 * Pipeline i, which has no client now, is about to run: make new memory for the sets that clients of
 * earlier runs have had. Does nothing without these, and while another run goes on, because the GPU
 * gives memory back only when it executes no launch. The addresses of workers may change, and are
 * wired after this. -ENOMEM, -EMFILE, or as hr_places_attach_words(), in engine->error.
 */
int hr_run_words_renew(struct hr_engine *engine, uint32_t i);

#endif
