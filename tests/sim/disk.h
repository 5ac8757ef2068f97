/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/sim/disk.h - what the image of an ssd holds while no process uses it, read by its format alone
 * (cache/store/FORMAT.md).
 */
#ifndef TESTS_SIM_DISK_H
#define TESTS_SIM_DISK_H

#include "tests/sim/objects.h"

/*
 * Each object of the disk is a whole version of its source. The durable part of an incomplete one is
 * the begin of a version, and has the checksum that the disk has with it. Extents do not overlap.
 * Does nothing when a process uses the image. rot: the durable part may have any bytes.
 */
void sim_disk_check(const struct sim_objects *objects, unsigned ssd, bool rot);

/* The place of an object's data; false: the disk does not have it. */
bool sim_disk_find(const struct sim_objects *objects, unsigned object, uint64_t *offset,
		   uint64_t *bytes);

/* True when the disk has the object, or a process uses it. */
bool sim_disk_has(const struct sim_objects *objects, unsigned object);

/* Invert a bit of the image. */
void sim_disk_flip(unsigned ssd, uint64_t offset);

#endif
