/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/layout/layout.h - parts of memory, each declared once, as a row: size, place,
 * purpose, and the pointer to it.
 *
 * An owner (a pipeline, `headrace bench`) has a descriptor: the struct that its workers receive,
 * with pointers to all other parts. Rows are planned before memory is allocated. After the
 * partition is bound, the addresses are written into the descriptor. A new part is a new row.
 */
#ifndef BOOT_ENGINE_LAYOUT_LAYOUT_H
#define BOOT_ENGINE_LAYOUT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/partition.h"
#include "gpu/places.h"

struct hr_layout_row {
	const char *purpose; /* purpose in the partition map */
	enum hr_place place;
	uint64_t count, size; /* the part has count * size bytes; 0: no part */
	/* offset of the pointer to the part in the descriptor, or HR_NO_POINTER */
	uint32_t pointer;
	uint32_t align; /* a power of two; 0: a cache line */
	bool data;	/* tiles or pages: hr_layout_clear() leaves them */
	int *part;	/* receives its index in the partition, -1 without a part; or NULL */
};

/* The parts of one owner. They are adjacent in each place. */
struct hr_layout {
	struct hr_partition *partition;
	char owner[HR_NAME_MAX];
	uint32_t first, end; /* indices in the partition */
};

/* Parts that are added to *partition after this call belong to this owner. */
void hr_layout_begin(struct hr_layout *layout, struct hr_partition *partition, const char *owner);

/* Add a part for each row. 0, or -ENOSPC: the partition has no room for more parts, or their
 * sizes overflow. */
int hr_layout_add(struct hr_layout *layout, const struct hr_layout_row *row, size_t rows);

/* Write the addresses of the parts into the descriptor: addresses for the CPU, or for workers.
 * The partition is bound. */
void hr_layout_point_cpu(const struct hr_layout *layout, void *descriptor);
void hr_layout_point_workers(const struct hr_layout *layout, void *descriptor);

/*
 * Zero the parts again for another launch, but not those with data; workers of this owner have
 * ended, and no controller uses the parts. 0, or -errno of the backend, as hr_places_upload().
 */
int hr_layout_clear(const struct hr_layout *layout, struct hr_places *places, struct hr_error *e);

/* Before a launch: copy the parts in the place WORKER to the workers' memory. After the end: copy
 * them back. As hr_places_upload(). */
int hr_layout_upload(const struct hr_layout *layout, struct hr_places *places, struct hr_error *e);
int hr_layout_download(const struct hr_layout *layout, struct hr_places *places,
		       struct hr_error *e);

#endif
