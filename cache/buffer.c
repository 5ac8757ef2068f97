/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/object.h"

/* Bytes of a list within a page: a power of two, because chunk_bytes is one. The first page of a
 * transfer is not in the list, so its last entry is free (nvme/dma/prp.h). */
static size_t list_bytes(uint32_t chunk_bytes)
{
	return chunk_bytes / HR_PAGE * sizeof(uint64_t);
}

size_t hr_buffer_prp_bytes(uint32_t bytes, uint32_t chunk_bytes)
{
	const size_t lists = hr_chunk_count(bytes, chunk_bytes) * list_bytes(chunk_bytes);

	if (chunk_bytes <= 2 * HR_PAGE || bytes <= 2 * HR_PAGE)
		return 0;
	return (lists + HR_PAGE - 1) & ~((size_t)HR_PAGE - 1);
}

void hr_buffer_init(struct hr_buffer *buffer, const struct hr_region *region, size_t offset,
		    uint32_t bytes, uint32_t chunk_bytes, const struct hr_region *prp_region,
		    size_t prp_offset, struct hr_prp *chunk)
{
	const uint32_t chunks = hr_chunk_count(bytes, chunk_bytes);

	buffer->data = (uint8_t *)region->worker + offset;
	buffer->bytes = bytes;
	buffer->chunk_bytes = chunk_bytes;
	buffer->chunk = chunk;
	for (uint32_t i = 0; i < chunks; i++) {
		const uint32_t start = i * chunk_bytes, left = bytes - start;

		hr_prp_build(&chunk[i], region, offset + start,
			     left < chunk_bytes ? left : chunk_bytes, prp_region,
			     prp_offset + i * list_bytes(chunk_bytes));
	}
}
