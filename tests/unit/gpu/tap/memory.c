/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory objects of a tap: what another process can do with a descriptor, and the reserved addresses.
 */
#include "gpu/tap/memory.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "boot/engine/devices/devices.h"
#include "config/base/limits.h"
#include "gpu/places.h"
#include "tests/harness/error.h"
#include "tests/harness/mapped.h"

#define BYTES (4 * (size_t)HR_PAGE)

TestSuite(tap_memory, .timeout = 280);

static struct hr_backend host;
static struct hr_places places;
static uint8_t *at;

static void set_up(void)
{
	static const uint64_t bytes[HR_PLACES] = { [HR_PLACE_TAP] = 2 * BYTES };

	cr_assert_eq(hr_backend_open(&host, "host:1", 1, test_error()), 0);
	cr_assert_eq(hr_places_alloc(&places, &host, bytes, test_error()), 0);
	at = places.region[HR_PLACE_TAP].cpu;
}

static void tear_down(void)
{
	hr_places_free(&places);
	host.ops->close(&host);
}

static int map_error(int fd, int protection)
{
	void *map = mmap(NULL, BYTES, protection, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return errno;
	munmap(map, BYTES);
	return 0;
}

Test(tap_memory, others_can_only_read_sealed_memory, .init = set_up, .fini = tear_down)
{
	const int fd = hr_tap_memory_create("t", at, BYTES, HR_TAP_READ_ONLY, test_error());
	const uint8_t *seen;

	cr_assert_geq(fd, 0, "%s", test_error_text());
	cr_expect_eq(map_error(fd, PROT_READ | PROT_WRITE), EPERM);
	cr_expect_eq(map_error(fd, PROT_READ), 0);
	cr_expect(pwrite(fd, "x", 1, 0) < 0 && errno == EPERM);
	cr_expect(ftruncate(fd, 0) != 0 && errno == EPERM);
	cr_expect(ftruncate(fd, 2 * BYTES) != 0 && errno == EPERM);
	cr_expect(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HR_PAGE) != 0);
	cr_expect(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0 && errno == EPERM);
	seen = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	cr_assert_neq(seen, MAP_FAILED);
	cr_expect(mprotect((void *)(uintptr_t)seen, BYTES, PROT_READ | PROT_WRITE) != 0);
	cr_expect_eq(seen[BYTES - 1], 0);
	at[BYTES - 1] = 7;
	cr_expect_eq(seen[BYTES - 1], 7);
	munmap((void *)(uintptr_t)seen, BYTES);
	close(fd);
}

Test(tap_memory, others_can_write_a_page_but_not_change_its_size, .init = set_up, .fini = tear_down)
{
	const int fd = hr_tap_memory_create("t", at, BYTES, HR_TAP_WRITABLE, test_error());

	cr_assert_geq(fd, 0, "%s", test_error_text());
	cr_expect_eq(map_error(fd, PROT_READ | PROT_WRITE), 0);
	cr_expect(ftruncate(fd, 0) != 0 && errno == EPERM);
	cr_expect_eq(pwrite(fd, "x", 1, 0), 1);
	cr_expect_eq(at[0], 'x');
	close(fd);
}

Test(tap_memory, only_parts_with_an_object_can_be_accessed, .init = set_up, .fini = tear_down)
{
	const int fd = hr_tap_memory_create("t", at, BYTES, HR_TAP_READ_ONLY, test_error());
	const uint8_t *seen = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);

	cr_assert_neq(seen, MAP_FAILED);
	cr_expect(is_mapped(at) && !is_mapped(at + BYTES));
	at[0] = 9;
	close(fd);
	hr_tap_memory_drop(at, BYTES);
	cr_expect_not(is_mapped(at));
	cr_expect_eq(seen[0], 9); /* as in a process that keeps its tiles */
	munmap((void *)(uintptr_t)seen, BYTES);
}

static size_t reserved_bytes;

static int reserve_shared(struct hr_backend *b, size_t bytes, struct hr_region *region,
			  struct hr_error *e)
{
	reserved_bytes = bytes;
	region->worker = &places;
	region->bytes = bytes;
	return 0;
}

static void free_region(struct hr_backend *b, struct hr_region *region)
{
	memset(region, 0, sizeof *region);
}

static void *attached;

static int attach(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker,
		  struct hr_error *e)
{
	attached = cpu;
	*worker = (uint8_t *)cpu + 1;
	return bytes == BYTES && !io ? 0 : -EINVAL;
}

static void detach(struct hr_backend *b, void *cpu)
{
	cr_expect_eq(cpu, attached);
	attached = NULL;
}

Test(tap_memory, on_a_gpu_tiles_are_its_memory_and_words_are_attached_when_they_are_made)
{
	static const struct hr_backend_ops ops = { .reserve_shared = reserve_shared,
						   .free = free_region,
						   .attach = attach,
						   .detach = detach };
	static const uint64_t bytes[HR_PLACES] = {
		[HR_PLACE_TAP] = 3 * BYTES, [HR_PLACE_TAP_WORDS] = BYTES
	};
	struct hr_backend gpu = { .ops = &ops, .lanes = 32 };
	struct hr_region *words = &places.region[HR_PLACE_TAP_WORDS];
	int fd;

	cr_assert_eq(hr_places_alloc(&places, &gpu, bytes, test_error()), 0);
	cr_expect_eq(reserved_bytes, 3 * BYTES);
	cr_expect_null(places.region[HR_PLACE_TAP].cpu);
	fd = hr_tap_memory_create("words", words->cpu, BYTES, HR_TAP_READ_ONLY, test_error());
	cr_assert_geq(fd, 0);
	cr_assert_eq(hr_places_attach_words(&places, test_error()), 0);
	cr_expect_eq(words->worker, (uint8_t *)words->cpu + 1);
	close(fd);
	hr_places_free(&places);
	cr_expect_null(attached);
}
