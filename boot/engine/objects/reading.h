/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/objects/reading.h - objects of a run that the CPU reads piece by piece, so that
 * it watches other runs meanwhile: before the workers start, to compare objects with their
 * checksums; after they have ended, to compute the checksums of objects that an access
 * operator has written. Allocates nothing.
 *
 * Before: the objects of an access operator that hr_checksums_want_object() has selected, and with
 * verify = "before" the sources of a stream operator. After: the written objects with `checksum`.
 */
#ifndef BOOT_ENGINE_OBJECTS_READING_H
#define BOOT_ENGINE_OBJECTS_READING_H

#include <stdbool.h>

#include "boot/engine/engine.h"

enum hr_reading_phase { HR_READING_NONE, HR_READING_BEFORE, HR_READING_AFTER };

struct hr_reading {
	enum hr_reading_phase phase; /* NONE: nothing is left to read */
	uint32_t next;		     /* object or source */
	uint64_t at;		     /* its bytes that are read */
	uint32_t crc;
	int err; /* -EBADMSG: an object differs; the others are read all the same */
};

/* Begin to read; phase is NONE afterwards when there is nothing to read. */
void hr_reading_begin(struct hr_reading *reading, enum hr_reading_phase phase,
		      const struct hr_run *run);

/*
 * Read the next piece; call it while phase is not NONE. Sets the results in the run. 0; -EBADMSG, when
 * all is read: an object differs from the stored data; or the error of a disk. Both end the reading,
 * and *e describes them.
 */
int hr_reading_step(struct hr_reading *reading, struct hr_engine *engine, struct hr_run *run,
		    struct hr_error *e);

#endif
