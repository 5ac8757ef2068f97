/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/objects/checksums.h - checksums of the objects that pipelines read and write,
 * combined from the checksums of tiles that worker blocks compute (struct hr_pipe), or read by
 * the CPU. Nothing here allocates.
 */
#ifndef BOOT_ENGINE_OBJECTS_CHECKSUMS_H
#define BOOT_ENGINE_OBJECTS_CHECKSUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/engine.h"

/*
 * Decide whether to compare source s with its checksum: object is the object found, or NULL for the
 * sink of an earlier pipeline. For stage `objects`. -EINVAL, in engine->error: the
 * pipeline has verify = "on", but the object has no checksum.
 */
int hr_checksums_want(struct hr_engine *engine, struct hr_run *run, uint32_t s,
		      const struct hr_store_object *object);

/*
 * The same for object k of an access operator, which the CPU reads before the workers start
 * (boot/engine/objects/reading.h): sets run->object[k].verify. With verify = "auto" an object
 * of more than HR_VERIFY_AUTO_BYTES is not compared, because reading it could take longer than the run.
 */
#define HR_VERIFY_AUTO_BYTES (256ull << 20)
int hr_checksums_want_object(struct hr_engine *engine, struct hr_run *run, uint32_t k,
			     const struct hr_store_object *object);

/* The same when the ids of sources and the first tile of the run are known. store: one object
 * store per ssd, to look up the objects. For stage `sinks`. */
int hr_checksums_decide(struct hr_engine *engine, struct hr_run *run,
			struct hr_store *const store[HR_SSDS_MAX]);

/* True when compute blocks compute checksums of tiles: of source s, unless its operator does; of
 * any source; of any object. From `objects` on. */
bool hr_run_sums(const struct hr_run *run, uint32_t s);
bool hr_run_verifies(const struct hr_run *run);
bool hr_run_checksums(const struct hr_run *run);

/* CRC-32C of the first `tiles` tiles of the sink, all of which are written; 0 without checksum.
 * `tiles` must not decrease between calls. */
uint32_t hr_checksums_sink(const struct hr_engine *engine, struct hr_run *run, uint64_t tiles);

/*
 * Call after the workers have read everything: compare each source that hr_checksums_decide()
 * selected. 0, or -EBADMSG when a source differs from the stored data: *e has a line for each.
 */
int hr_checksums_verify(struct hr_engine *engine, struct hr_run *run, struct hr_error *e);

/*
 * The checksum that the data of an object should have now: the stored one, that of the earlier run
 * number `from` of this process (-1: none), or with verify->known the one of bring-up, when the object
 * was replaced meanwhile. False: it has none.
 */
bool hr_checksums_expected(struct hr_engine *engine, const struct hr_config_object *config,
			   uint64_t id, int from, const struct hr_run_verify *verify,
			   uint32_t *crc);

/* Compare `found` with `expected`: sets verify->check. 0, or -EBADMSG: *e has one more line. */
int hr_checksums_compare(struct hr_engine *engine, const struct hr_run *run,
			 const struct hr_config_object *config, struct hr_run_verify *verify,
			 struct hr_error *e);

/*
 * Read the next piece of the data of an object, `bytes` in an extent at `offset` of ssd d, from byte
 * *at on, at most HR_CHECKSUM_PIECE; append it to *crc and *at. Errors of the disk.
 */
#define HR_CHECKSUM_PIECE (HR_BLK_BUFFERS * HR_BLK_CHUNK) /* all buffers of the disk are in use */
int hr_checksum_piece(struct hr_engine *engine, uint32_t d, uint64_t offset, uint64_t capacity,
		      uint64_t bytes, uint64_t *at, uint32_t *crc, struct hr_error *e);

/*
 * CRC-32C of the first `bytes` of an object, read by the CPU. -EINTR: a signal asked to stop; others of
 * the disk.
 */
int hr_checksum_read(struct hr_engine *engine, uint32_t d, const struct hr_store_object *object,
		     uint64_t bytes, uint32_t *crc, struct hr_error *e);

/* Name of a check, such as "verified"; reason why a source was not verified, or NULL. */
const char *hr_source_check_name(enum hr_source_check check);
const char *hr_source_check_reason(const struct hr_run *run, enum hr_source_check check);

#endif
