/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/store.h - a small object store on a disk in memory, with which tests of the store
 * start.
 */
#ifndef TESTS_HARNESS_STORE_H
#define TESTS_HARNESS_STORE_H

#include "cache/store/store.h"
#include "cache/store/disk.h"
#include "tests/fakes/log.h"
#include "tests/fakes/memdisk.h"

#define FAKE_STORE_OBJECTS 8u
#define FAKE_STORE_DATA (64u * HR_STORE_ALIGN) /* bytes for objects */
#define FAKE_STORE_BYTES (HR_STORE_DATA_ALIGN + FAKE_STORE_DATA)

struct fake_store {
	struct memdisk disk;
	struct hr_store store;
	struct hr_store_object object[FAKE_STORE_OBJECTS];
	uint8_t *io;
	struct hr_error error; /* of the last reopen, printed */
};

/* Make a formatted and open store; asserts that each step works. */
void fake_store_init(struct fake_store *f, uint32_t block_bytes);
void fake_store_fini(struct fake_store *f);

/* Turn the power off and on, then open; returns the result of hr_store_open(). */
int fake_store_reopen(struct fake_store *f);

/* Make a finished object without checksum, and assert success; returns its id. */
uint64_t fake_store_put(struct fake_store *f, const char *name, uint64_t bytes);

/* The superblock and the records of slot i on the media; and correct their CRCs. */
struct hr_superblock *fake_store_superblock(struct fake_store *f, unsigned i);
struct hr_store_object *fake_store_map(struct fake_store *f, unsigned i);
void fake_store_sign(struct fake_store *f, unsigned i);

#endif
