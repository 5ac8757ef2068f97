/* SPDX-License-Identifier: Apache-2.0 */
/* tests/harness/service_rig.h - what the tests of the services of taps and feeds share. */
#ifndef TESTS_HARNESS_SERVICE_RIG_H
#define TESTS_HARNESS_SERVICE_RIG_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>

#include "boot/engine/bringup/stages.h"

/* A place of the partition with one part, at that address. Returns the number of the part. */
static inline int service_add_part(struct hr_partition *partition, enum hr_place place, void *at)
{
	partition->part[partition->count].place = place;
	partition->region[place].cpu = at;
	return (int)partition->count++;
}

/* Addresses without memory. */
static inline void *service_reserve(uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(at, MAP_FAILED);
	return at;
}

/* The number of open descriptors of this process. */
static inline unsigned service_open_fds(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) != -1;
	return count;
}

#endif
