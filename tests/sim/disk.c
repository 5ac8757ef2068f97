/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/crc32c.h"
#include "tests/sim/command.h"

#define PAGE 4096u
#define PENDING 1u
#define HAS_CRC 2u

struct superblock {
	char magic[8];
	uint32_t version, capacity;
	uint8_t uuid[16];
	uint64_t generation, next_id, disk_bytes, map_offset, scratch_offset;
	uint64_t data_offset, data_bytes;
	uint32_t count, map_crc;
	uint8_t zero[3996];
	uint32_t crc;
};
_Static_assert(sizeof(struct superblock) == PAGE, "FORMAT.md");

struct record {
	uint64_t id;
	char name[64];
	uint64_t offset, capacity, bytes, durable_bytes, tag, created;
	uint32_t flags, crc;
};
_Static_assert(sizeof(struct record) == 128, "FORMAT.md");

struct disk {
	const uint8_t *at; /* NULL: none */
	size_t bytes;
	int fd;
	const struct superblock *super;
	const struct record *record;
};

static const struct superblock *valid(const struct disk *d, unsigned copy)
{
	const struct superblock *s = (const void *)(d->at + copy * PAGE);

	if (memcmp(s->magic, "headrace", 8) != 0 ||
	    hr_crc32c(0, s, offsetof(struct superblock, crc)) != s->crc ||
	    s->map_offset + s->count * sizeof(struct record) > d->bytes ||
	    hr_crc32c(0, d->at + s->map_offset, s->count * sizeof(struct record)) != s->map_crc)
		return NULL;
	return s;
}

static void close_disk(struct disk *d)
{
	if (d->at)
		munmap((void *)(uintptr_t)d->at, d->bytes);
	if (d->fd >= 0)
		close(d->fd);
}

/* False: a process uses it. */
static bool open_disk(struct disk *d, unsigned ssd)
{
	const struct superblock *other;
	char name[16];
	struct stat st;

	snprintf(name, sizeof name, "%c.img", 'a' + (int)ssd);
	*d = (struct disk){ .fd = open(name, O_RDONLY | O_CLOEXEC) };
	if (d->fd < 0 || flock(d->fd, LOCK_SH | LOCK_NB) != 0 || fstat(d->fd, &st) != 0) {
		close_disk(d);
		return false;
	}
	d->bytes = (size_t)st.st_size;
	d->at = mmap(NULL, d->bytes, PROT_READ, MAP_SHARED, d->fd, 0);
	if (d->at == MAP_FAILED)
		sim_fault("cannot map %s", name);
	d->super = valid(d, 0);
	other = valid(d, 1);
	if (!d->super || (other && other->generation > d->super->generation))
		d->super = other;
	if (!d->super)
		sim_fault("%s has no superblock that is valid, with a map that is", name);
	d->record = (const void *)(d->at + d->super->map_offset);
	return true;
}

/* The object of the model with that name, or SIM_OBJECTS. "out3.1" is an older version of "out3". */
static unsigned object_of(const struct sim_plan *plan, unsigned ssd, const char *name)
{
	const size_t length = strcspn(name, ".");

	for (unsigned i = 0; i < plan->objects; i++)
		if (plan->object[i].ssd == ssd && strlen(plan->object[i].name) == length &&
		    memcmp(plan->object[i].name, name, length) == 0)
			return i;
	return SIM_OBJECTS;
}

static void check_extent(const struct disk *d, unsigned i)
{
	const struct record *r = &d->record[i];
	const uint64_t first = d->super->data_offset, end = first + d->super->data_bytes;

	if (r->offset < first || r->offset + r->capacity > end || r->bytes > r->capacity ||
	    r->durable_bytes > r->bytes)
		sim_fault("disk: the extent of %s is impossible", r->name);
	for (unsigned k = 0; k < i; k++)
		if (d->record[k].offset < r->offset + r->capacity &&
		    r->offset < d->record[k].offset + d->record[k].capacity)
			sim_fault("disk: %s and %s overlap", r->name, d->record[k].name);
}

static void check_data(const struct sim_objects *objects, const struct disk *d,
		       const struct record *r, unsigned object, bool rot)
{
	const uint8_t *data = d->at + r->offset;
	const bool pending = r->flags & PENDING;

	if ((r->flags & HAS_CRC || (pending && r->durable_bytes)) &&
	    hr_crc32c(0, data, pending ? r->durable_bytes : r->bytes) != r->crc)
		sim_fault("disk: the %s%s differs from its checksum: %llu bytes",
			  pending ? "durable part of " : "", r->name,
			  (unsigned long long)r->durable_bytes);
	if (object == SIM_OBJECTS)
		return;
	if (!pending)
		sim_objects_check_data(objects, object, data, r->bytes,
				       strchr(r->name, '.') ? SIM_VERSIONS
							    : sim_objects_least(objects, object));
	else if (!rot && !sim_objects_begins(objects, object, data, r->durable_bytes))
		sim_fault("disk: the durable part of %s, %llu bytes, is of no version", r->name,
			  (unsigned long long)r->durable_bytes);
}

void sim_disk_check(const struct sim_objects *objects, unsigned ssd, bool rot)
{
	struct disk d;

	if (!open_disk(&d, ssd))
		return;
	for (unsigned i = 0; i < d.super->count; i++) {
		check_extent(&d, i);
		check_data(objects, &d, &d.record[i],
			   object_of(objects->plan, ssd, d.record[i].name), rot);
	}
	close_disk(&d);
}

bool sim_disk_find(const struct sim_objects *objects, unsigned object, uint64_t *offset,
		   uint64_t *bytes)
{
	const struct sim_object *o = &objects->plan->object[object];
	bool found = false;
	struct disk d;

	if (!open_disk(&d, o->ssd))
		return false;
	for (unsigned i = 0; i < d.super->count; i++)
		if (strcmp(d.record[i].name, o->name) == 0 && !(d.record[i].flags & PENDING)) {
			*offset = d.record[i].offset;
			*bytes = d.record[i].bytes;
			found = true;
		}
	close_disk(&d);
	return found;
}

bool sim_disk_has(const struct sim_objects *objects, unsigned object)
{
	uint64_t offset, bytes;
	struct disk d;

	if (!open_disk(&d, objects->plan->object[object].ssd))
		return true;
	close_disk(&d);
	return sim_disk_find(objects, object, &offset, &bytes);
}

void sim_disk_flip(unsigned ssd, uint64_t offset)
{
	char name[16];
	uint8_t byte;
	int fd;

	snprintf(name, sizeof name, "%c.img", 'a' + (int)ssd);
	fd = open(name, O_RDWR | O_CLOEXEC);
	if (fd < 0 || pread(fd, &byte, 1, (off_t)offset) != 1)
		sim_fault("cannot read %s", name);
	byte ^= 16;
	if (pwrite(fd, &byte, 1, (off_t)offset) != 1)
		sim_fault("cannot write %s", name);
	close(fd);
}
