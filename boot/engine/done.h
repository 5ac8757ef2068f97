/*
 * boot/engine/done.h - how far a run has come: tiles and bytes, counted by its workers.
 */
#ifndef BOOT_ENGINE_DONE_H
#define BOOT_ENGINE_DONE_H

#include <stdint.h>

#include "boot/engine/run.h"

/* Completed tiles of a launched pipeline, counted by its last role. Until the queues go down. */
uint64_t hr_run_tiles_done(const struct hr_run *run);

/* Bytes of all sources in the first `tiles` tiles. */
uint64_t hr_run_bytes(const struct hr_run *run, uint64_t tiles);

/* Bytes of all sources that prefetch has read since the launch, counted by whole tiles. Also
 * valid after the queues of a run have gone down; 0 for a run that was not launched. */
uint64_t hr_run_bytes_read(const struct hr_run *run);

#endif
