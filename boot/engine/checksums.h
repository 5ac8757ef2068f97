/*
 * boot/engine/checksums.h - checksums of the objects that pipelines read and write, made of those
 * that worker blocks compute of each tile (struct hr_pipe). Nothing here allocates but
 * hr_checksum_read().
 */
#ifndef BOOT_ENGINE_CHECKSUMS_H
#define BOOT_ENGINE_CHECKSUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/stages.h"

/*
 * Whether source s is to be compared with its checksum: object is what was found of it, or NULL for the
 * sink of an earlier pipeline. For stage `objects`. -EINVAL, logged with file and line: the pipeline
 * says verify = "on", and it has none.
 */
int hr_checksums_want(struct hr_appliance *app, struct hr_run *run, uint32_t s,
		      const struct hr_object *object);

/* The same once ids of sources, and the tile where the run begins, are known: objects are looked for
 * in these stores, one an ssd. For stage `sinks`. */
int hr_checksums_decide(struct hr_appliance *app, struct hr_run *run,
			struct hr_store *const store[HR_SSDS_MAX]);

/* Compute blocks compute checksums of tiles: of sources, or of any object. From `objects` on. */
bool hr_run_verifies(const struct hr_run *run);
bool hr_run_checksums(const struct hr_run *run);

/* Words that a run needs for them, one a tile and object, with words_at and sink_words_at set. Returns
 * UINT64_MAX when they are too many to be counted. */
uint64_t hr_checksums_words(struct hr_run *run);

/* CRC-32C of the first `tiles` tiles of the sink, all of which are written; 0 without checksum. For
 * numbers of tiles that never get smaller. */
uint32_t hr_checksums_sink(const struct hr_appliance *app, struct hr_run *run, uint64_t tiles);

/*
 * The workers have read everything: compare each source that is to be. 0, or -EBADMSG, logged, when one
 * is not what was stored.
 */
int hr_checksums_verify(struct hr_appliance *app, struct hr_run *run);

/*
 * CRC-32C of the first `bytes` of an object, read by the CPU. -EINTR: a signal asked to stop; -ENOMEM;
 * others of the disk.
 */
int hr_checksum_read(struct hr_appliance *app, uint32_t d, const struct hr_object *object,
		     uint64_t bytes, uint32_t *crc);

/* "verified" and the like, and the reason when a source is not, or NULL. */
const char *hr_source_check_name(enum hr_source_check check);
const char *hr_source_check_reason(const struct hr_run *run, enum hr_source_check check);

#endif
