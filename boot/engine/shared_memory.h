/*
 * boot/engine/shared_memory.h - the memory of the tap of a run that other processes map:
 * objects of their own for the tiles, and, on a GPU, for the entries and the page of each consumer.
 */
#ifndef BOOT_ENGINE_SHARED_MEMORY_H
#define BOOT_ENGINE_SHARED_MEMORY_H

#include "boot/engine/engine.h"

/* Make the memory objects of the tap of pipeline i in the places TAP and TAP_WORDS, which are
 * reserved: app->tap_tiles[i]. -ENOMEM, -EMFILE, -ENOSYS, errors of make_shared, in app->error. */
int hr_run_tap_take(struct hr_appliance *app, uint32_t i);

/* Other memory for the tiles, because consumers of a run that was broken off may still read them. No
 * worker runs. As hr_run_tap_take(). */
int hr_run_tap_renew(struct hr_appliance *app, uint32_t i);

/* On a GPU: new objects for the sets of the tap that consumers have had (hr_sets_fill()); for all of
 * them at first. */
int hr_run_tap_fill(struct hr_appliance *app, uint32_t i, struct hr_error *e);

/* Close its descriptors. Does nothing when it is not up. The memory goes with the places; processes
 * that have mapped it keep it. */
void hr_run_tap_give(struct hr_tap_tiles *tiles);

/* Addresses for the CPU of the tap of a run whose memory is up: entries and pages of all sets, and
 * the words that the host shares with the worker. */
uint8_t *hr_run_tap_entries(const struct hr_run *run);
uint8_t *hr_run_tap_pages(const struct hr_run *run);
struct hr_tap_words *hr_run_tap_words(const struct hr_run *run);

/* Of the set of the consumer that has the seat. */
uint8_t *hr_run_tap_entries_of(const struct hr_run *run, uint32_t seat);
uint8_t *hr_run_tap_page_of(const struct hr_run *run, uint32_t seat);

#endif
