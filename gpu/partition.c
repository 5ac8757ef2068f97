/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/partition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/log.h"

static const char *const place_name[HR_PLACES] = { "control", "host", "worker",
						   "gpu",     "tap",  "words" };

const char *hr_place_name(enum hr_place place)
{
	return (unsigned)place < HR_PLACES ? place_name[place] : "?";
}

void hr_partition_init(struct hr_partition *p, const uint64_t limit[HR_PLACES])
{
	memset(p, 0, sizeof *p);
	memcpy(p->limit, limit, sizeof p->limit);
}

/* Round up to a power of two. Saturates, so that a sum that overflows never seems to fit. */
static uint64_t round_up(uint64_t value, uint64_t align)
{
	uint64_t sum;

	if (__builtin_add_overflow(value, align - 1, &sum))
		return UINT64_MAX & ~(align - 1);
	return sum & ~(align - 1);
}

/* End of the last part of a place; `used` is this value, page aligned. */
static uint64_t place_end(const struct hr_partition *p, enum hr_place place)
{
	for (uint32_t i = p->count; i-- > 0;)
		if (p->part[i].place == place)
			return p->part[i].offset + p->part[i].bytes;
	return 0;
}

int hr_partition_add(struct hr_partition *p, enum hr_place place, uint64_t bytes, uint32_t align,
		     const char *owner, const char *purpose)
{
	struct hr_part *part;
	uint64_t end;

	if (p->count == HR_PARTS_MAX)
		return -ENOSPC;
	part = &p->part[p->count];
	part->place = place;
	part->offset = round_up(place_end(p, place), align);
	part->bytes = bytes;
	part->align = align;
	part->pointer = HR_NO_POINTER;
	snprintf(part->owner, sizeof part->owner, "%s", owner);
	snprintf(part->purpose, sizeof part->purpose, "%s", purpose);
	/* The size could overflow the sums of places, so the part is not added. */
	if (__builtin_add_overflow(part->offset, bytes, &end) || end > INT64_MAX / 4)
		return -ENOSPC;
	p->used[place] = round_up(end, HR_PAGE);
	return (int)p->count++;
}

int hr_partition_check(const struct hr_partition *p, struct hr_error *e)
{
	for (int place = 0; place < HR_PLACES; place++) {
		if (!p->limit[place] || p->used[place] <= p->limit[place])
			continue;
		return hr_fail(
			e, HR_ERROR_USAGE, -ENOSPC,
			"%s memory: the parts need %llu bytes, the limit of memory.%s is %llu",
			place_name[place], (unsigned long long)p->used[place],
			place == HR_PLACE_GPU || place == HR_PLACE_WORKER ? "gpu" : "host",
			(unsigned long long)p->limit[place]);
	}
	return 0;
}

void hr_partition_bind(struct hr_partition *p, const struct hr_region region[HR_PLACES])
{
	memcpy(p->region, region, sizeof p->region);
}

void *hr_partition_cpu(const struct hr_partition *p, int part)
{
	const struct hr_part *it = &p->part[part];
	uint8_t *cpu = p->region[it->place].cpu;

	return cpu ? cpu + it->offset : NULL;
}

void *hr_partition_worker(const struct hr_partition *p, int part)
{
	const struct hr_part *it = &p->part[part];

	return (uint8_t *)p->region[it->place].worker + it->offset;
}

bool hr_partition_bound(const struct hr_partition *p)
{
	bool any = false;

	for (int place = 0; place < HR_PLACES; place++)
		any |= p->region[place].bytes != 0;
	return any;
}

uint64_t hr_partition_ssd(const struct hr_partition *p, enum hr_place place, uint64_t offset)
{
	const struct hr_region *r = &p->region[place];

	if (place != HR_PLACE_HOST && place != HR_PLACE_GPU)
		/* a bus address may exist, but no controller has the place mapped */
		return 0;
	return r->bus.addr || r->granule_bus ? hr_region_bus(r, offset).addr : 0;
}

static void print_address(FILE *out, uint64_t base, uint64_t offset)
{
	if (base)
		fprintf(out, "0x%012llx ", (unsigned long long)base + offset);
	else
		fprintf(out, "%-14s ", "-");
}

static void print_line(const struct hr_partition *p, FILE *out, enum hr_place place,
		       uint64_t offset, uint64_t bytes, const char *owner, const char *purpose)
{
	fprintf(out, "%-8s 0x%012llx %12llu  ", place_name[place], (unsigned long long)offset,
		(unsigned long long)bytes);
	if (hr_partition_bound(p)) {
		print_address(out, (uintptr_t)p->region[place].worker, offset);
		print_address(out, (uintptr_t)p->region[place].cpu, offset);
		print_address(out, hr_partition_ssd(p, place, offset), 0);
	}
	fprintf(out, "%-24s %s\n", owner, purpose);
}

/* The parts of a place were added in the order of their offsets. */
static void print_place(const struct hr_partition *p, enum hr_place place, FILE *out)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < p->count; i++) {
		const struct hr_part *part = &p->part[i];

		if (part->place != place)
			continue;
		if (part->offset > at)
			print_line(p, out, place, at, part->offset - at, "", "(alignment)");
		print_line(p, out, place, part->offset, part->bytes, part->owner, part->purpose);
		at = part->offset + part->bytes;
	}
	if (p->used[place] > at)
		print_line(p, out, place, at, p->used[place] - at, "", "(alignment)");
	if (p->limit[place])
		fprintf(out, "%-8s %-14s %12llu  of %llu\n", place_name[place], "total",
			(unsigned long long)p->used[place], (unsigned long long)p->limit[place]);
	else
		fprintf(out, "%-8s %-14s %12llu\n", place_name[place], "total",
			(unsigned long long)p->used[place]);
}

void hr_partition_print(const struct hr_partition *p, FILE *out)
{
	fprintf(out, "%-8s %-14s %12s  ", "place", "offset", "bytes");
	if (hr_partition_bound(p))
		fprintf(out, "%-14s %-14s %-14s ", "workers", "CPU", "ssds");
	fprintf(out, "%-24s %s\n", "owner", "purpose");
	for (int place = 0; place < HR_PLACES; place++)
		if (p->used[place])
			print_place(p, (enum hr_place)place, out);
}
