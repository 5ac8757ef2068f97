/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/layout/layout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "boot/engine/layout/sizes.h"

void hr_layout_begin(struct hr_layout *layout, struct hr_partition *partition, const char *owner)
{
	layout->partition = partition;
	snprintf(layout->owner, sizeof layout->owner, "%s", owner);
	layout->first = layout->end = partition->count;
}

static int add_row(struct hr_layout *layout, const struct hr_layout_row *row)
{
	uint64_t bytes;
	int part = -1;

	if (__builtin_mul_overflow(row->count, row->size, &bytes))
		return -ENOSPC;
	if (bytes) {
		part = hr_partition_add(layout->partition, row->place, bytes,
					row->align ? row->align : HR_CACHE_LINE, layout->owner,
					row->purpose);
		if (part < 0)
			return part;
		layout->partition->part[part].pointer = row->pointer;
		layout->partition->part[part].data = row->data;
		layout->end = layout->partition->count;
	}
	if (row->part)
		*row->part = part;
	return 0;
}

int hr_layout_add(struct hr_layout *layout, const struct hr_layout_row *row, size_t rows)
{
	int err = 0;

	for (size_t i = 0; !err && i < rows; i++)
		err = add_row(layout, &row[i]);
	return err;
}

static void point(const struct hr_layout *layout, void *descriptor,
		  void *(*address_of)(const struct hr_partition *p, int part))
{
	for (uint32_t i = layout->first; i < layout->end; i++) {
		const uint32_t pointer = layout->partition->part[i].pointer;
		void *address = address_of(layout->partition, (int)i);

		if (pointer != HR_NO_POINTER)
			memcpy((char *)descriptor + pointer, &address, sizeof address);
	}
}

void hr_layout_point_cpu(const struct hr_layout *layout, void *descriptor)
{
	point(layout, descriptor, hr_partition_cpu);
}

void hr_layout_point_workers(const struct hr_layout *layout, void *descriptor)
{
	point(layout, descriptor, hr_partition_worker);
}

/* Memory that the CPU cannot access gets its zeros from the backend. */
static int clear_part(const struct hr_part *part, struct hr_places *places, struct hr_error *e)
{
	static const uint8_t zeros[16 * HR_PAGE];
	const struct hr_region *region = &places->region[part->place];
	int err = 0;

	if (region->cpu) {
		memset((uint8_t *)region->cpu + part->offset, 0, part->bytes);
		return 0;
	}
	for (uint64_t at = 0; !err && at < part->bytes; at += sizeof zeros) {
		const uint64_t left = part->bytes - at;

		err = places->backend->ops->upload(
			places->backend, (uint8_t *)region->worker + part->offset + at, zeros,
			left < sizeof zeros ? left : sizeof zeros, e);
	}
	return err;
}

int hr_layout_clear(const struct hr_layout *layout, struct hr_places *places, struct hr_error *e)
{
	int err = 0;

	for (uint32_t i = layout->first; !err && i < layout->end; i++)
		if (!layout->partition->part[i].data)
			err = clear_part(&layout->partition->part[i], places, e);
	return err;
}

/* From the first part in the place WORKER to the end of the last. */
static uint64_t worker_range(const struct hr_layout *layout, uint64_t *offset)
{
	uint64_t end = 0;

	*offset = 0;
	for (uint32_t i = layout->first; i < layout->end; i++) {
		const struct hr_part *part = &layout->partition->part[i];

		if (part->place != HR_PLACE_WORKER)
			continue;
		if (end == 0)
			*offset = part->offset;
		end = part->offset + part->bytes;
	}
	return end - *offset;
}

int hr_layout_upload(const struct hr_layout *layout, struct hr_places *places, struct hr_error *e)
{
	uint64_t offset;
	const uint64_t bytes = worker_range(layout, &offset);

	return hr_places_upload(places, offset, bytes, e);
}

int hr_layout_download(const struct hr_layout *layout, struct hr_places *places, struct hr_error *e)
{
	uint64_t offset;
	const uint64_t bytes = worker_range(layout, &offset);

	return hr_places_download(places, offset, bytes, e);
}
