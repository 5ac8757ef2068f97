/*
 * boot/engine/checksums.h - checksums of the objects that pipelines read and write, combined from
 * the checksums of tiles that worker blocks compute (struct hr_pipe). Only hr_checksum_read()
 * allocates.
 */
#ifndef BOOT_ENGINE_CHECKSUMS_H
#define BOOT_ENGINE_CHECKSUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/stages.h"

/*
 * Decide whether to compare source s with its checksum: object is the object found, or NULL for the
 * sink of an earlier pipeline. For stage `objects`. -EINVAL, in app->error: the
 * pipeline has verify = "on", but the object has no checksum.
 */
int hr_checksums_want(struct hr_appliance *app, struct hr_run *run, uint32_t s,
		      const struct hr_store_object *object);

/* The same when the ids of sources and the first tile of the run are known. store: one object
 * store per ssd, to look up the objects. For stage `sinks`. */
int hr_checksums_decide(struct hr_appliance *app, struct hr_run *run,
			struct hr_store *const store[HR_SSDS_MAX]);

/* True when compute blocks compute checksums of tiles: of source s, unless its operator does; of
 * any source; of any object. From `objects` on. */
bool hr_run_sums(const struct hr_run *run, uint32_t s);
bool hr_run_verifies(const struct hr_run *run);
bool hr_run_checksums(const struct hr_run *run);

/* CRC-32C of the first `tiles` tiles of the sink, all of which are written; 0 without checksum.
 * `tiles` must not decrease between calls. */
uint32_t hr_checksums_sink(const struct hr_appliance *app, struct hr_run *run, uint64_t tiles);

/*
 * Call after the workers have read everything: compare each source that hr_checksums_decide()
 * selected. 0, or -EBADMSG when a source differs from the stored data: *e has a line for each.
 */
int hr_checksums_verify(struct hr_appliance *app, struct hr_run *run, struct hr_error *e);

/*
 * CRC-32C of the first `bytes` of an object, read by the CPU. -EINTR: a signal asked to stop; -ENOMEM;
 * others of the disk.
 */
int hr_checksum_read(struct hr_appliance *app, uint32_t d, const struct hr_store_object *object,
		     uint64_t bytes, uint32_t *crc, struct hr_error *e);

/* Name of a check, such as "verified"; reason why a source was not verified, or NULL. */
const char *hr_source_check_name(enum hr_source_check check);
const char *hr_source_check_reason(const struct hr_run *run, enum hr_source_check check);

#endif
