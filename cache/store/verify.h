/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/store/verify.h - check a store and its objects.
 */
#ifndef CACHE_STORE_VERIFY_H
#define CACHE_STORE_VERIFY_H

#include "cache/store/store.h"

/*
 * Check both superblocks, both map copies, every record, and overlaps. With `data` also check the
 * CRC-32C of each object that has one, reading through buffer (buffer_bytes is a multiple of
 * HR_PAGE; NULL without data). report is called with one line per finding; findings with `fault`
 * are counted in *faults.
 *
 * An object that cannot be read is a fault. Damage to the superblock or map that is not current is
 * no fault when a power cut can leave it: a map older than the current one, or a superblock that is
 * torn between its old and its new contents. The next change to the store writes these anew. Any
 * other damage is a fault, because the last change may be lost.
 *
 * Returns 0, or the error that ended the check early (< 0: from the disk, with e, which is empty
 * before; -EINTR: progress() returned false).
 */
struct hr_store_check {
	void (*report)(void *arg, bool fault, const char *line);
	/* NULL, or called for each piece of checked data; false ends the check */
	bool (*progress)(void *arg, uint64_t bytes);
	void *arg;
	bool data;
	uint8_t *buffer;
	size_t buffer_bytes;
};
int hr_store_verify(struct hr_store *store, const struct hr_store_check *check, uint32_t *faults,
		    struct hr_error *e);

/*
 * For a caller that reads the data itself. Write the line about an object whose data have the
 * checksum crc (which does not matter when it has none), or about one that cannot be read at byte
 * `at` for err. True: it is a fault.
 */
bool hr_store_finding(const struct hr_store_object *object, uint32_t crc, char *line, size_t bytes);
bool hr_store_unreadable(const char *object, uint64_t at, int err, char *line, size_t bytes);

#endif
