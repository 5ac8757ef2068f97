/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/store.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/crc32c.h"

void fake_store_init(struct fake_store *f, uint32_t block_bytes)
{
	memset(f, 0, sizeof(*f));
	memdisk_init(&f->disk, FAKE_STORE_BYTES, block_bytes);
	f->io = malloc(hr_store_io_bytes(FAKE_STORE_OBJECTS));
	cr_assert_not_null(f->io);
	cr_assert_eq(hr_store_format(&f->disk.blk, FAKE_STORE_OBJECTS, false, f->io, NULL), 0);
	cr_assert_eq(fake_store_reopen(f), 0);
}

void fake_store_fini(struct fake_store *f)
{
	memdisk_fini(&f->disk);
	free(f->io);
}

int fake_store_reopen(struct fake_store *f)
{
	int err;

	memdisk_power_on(&f->disk);
	memset(f->object, 0xaa, sizeof(f->object));
	memset(f->io, 0xaa, hr_store_io_bytes(FAKE_STORE_OBJECTS));
	hr_error_clear(&f->error);
	err = hr_store_open(&f->store, &f->disk.blk, f->object, FAKE_STORE_OBJECTS, f->io,
			    &f->error);
	cr_expect(err || !f->error.kind, "%s", f->error.text);
	hr_error_log(&f->error, HR_LOG_ERROR);
	return err;
}

uint64_t fake_store_put(struct fake_store *f, const char *name, uint64_t bytes)
{
	struct hr_store_object *object;
	uint64_t id;

	cr_assert_eq(hr_store_create(&f->store, name, bytes, 0, false, &object, NULL), 0, "%s",
		     name);
	id = object->id;
	cr_assert_eq(hr_store_finish(&f->store, id, false, 0, NULL), 0, "%s", name);
	return id;
}

struct hr_superblock *fake_store_superblock(struct fake_store *f, unsigned i)
{
	return (struct hr_superblock *)(void *)(f->disk.media + (size_t)i * HR_PAGE);
}

struct hr_store_object *fake_store_map(struct fake_store *f, unsigned i)
{
	return (struct hr_store_object *)(void *)(f->disk.media + (size_t)(2 + i) * HR_PAGE);
}

void fake_store_sign(struct fake_store *f, unsigned i)
{
	struct hr_superblock *superblock = fake_store_superblock(f, i);
	const uint32_t count = superblock->head.count <= FAKE_STORE_OBJECTS ? superblock->head.count
									    : FAKE_STORE_OBJECTS;

	superblock->head.map_crc =
		hr_crc32c(0, fake_store_map(f, i), count * sizeof(struct hr_store_object));
	superblock->crc = hr_crc32c(0, superblock, offsetof(struct hr_superblock, crc));
}
