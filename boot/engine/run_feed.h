/*
 * boot/engine/run_feed.h - the memory of the feed of a run that a producer maps. On a GPU, which maps
 * host memory only before a launch, the objects are made at bring-up: the tiles, and sets of entries
 * and page (boot/engine/sets.h). On the host backend each producer gets new ones
 * (boot/appliance/lend/producer.c).
 */
#ifndef BOOT_ENGINE_RUN_FEED_H
#define BOOT_ENGINE_RUN_FEED_H

#include "boot/engine/engine.h"

/* Make the memory objects of the feed of pipeline i in the places TAP and TAP_WORDS, which are
 * reserved: app->feed_memory[i]. Does nothing on the host backend. -ENOMEM, -EMFILE, -ENOSYS, errors
 * of make_shared, in app->error. */
int hr_run_feed_take(struct hr_appliance *app, uint32_t i);

/* On a GPU: new objects for the sets of the feed that producers have had (hr_sets_fill()). */
int hr_run_feed_fill(struct hr_appliance *app, uint32_t i, struct hr_error *e);

/* Close the descriptors. Does nothing when it is not up. The memory goes with the places; a process
 * that has mapped it keeps it. */
void hr_run_feed_give(struct hr_feed_memory *memory);

/* Addresses for the CPU of the feed of a run whose memory is up: of the set of the newest producer. */
uint8_t *hr_run_feed_entries(const struct hr_run *run);
uint8_t *hr_run_feed_page(const struct hr_run *run);

#endif
