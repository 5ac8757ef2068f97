/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/ranks/agree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define TEXT 64u

static const struct hr_shard_of *at(const struct hr_shard_of *of, size_t step, uint32_t rank)
{
	return (const struct hr_shard_of *)(const void *)((const uint8_t *)of + step * rank);
}

static uint64_t rows_of(const struct hr_shard_of *of)
{
	return of->bytes / of->shard.row_bytes;
}

/* "rows 10 to 19" */
static const char *rows_text(uint64_t first, uint64_t rows, char text[TEXT])
{
	if (rows)
		snprintf(text, TEXT, "rows %" PRIu64 " to %" PRIu64, first, first + rows - 1);
	else
		snprintf(text, TEXT, "no rows");
	return text;
}

static const char *rows_of_text(const struct hr_shard_of *of, char text[TEXT])
{
	return rows_text(of->shard.first_row, rows_of(of), text);
}

/* Rank r has a shard of the data set of rank 0. */
static int check_set(const struct hr_shard_of *first, const struct hr_shard_of *of, uint32_t r,
		     uint32_t ranks, const char *what, struct hr_error *e)
{
	char rows[TEXT];

	if (!of->is_shard)
		return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
				    "%s of rank %u is no shard; expected one that 'store put "
				    "--shard %u/%u' or a pipeline with shard has written",
				    what, r, r, ranks);
	rows_of_text(of, rows);
	if (of->shard.last + 1u != ranks)
		return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
				    "%s: rank %u has shard %u of %u, %s, but the job has %u ranks",
				    what, r, of->shard.index, of->shard.last + 1u, rows, ranks);
	if (of->shard.row_bytes != first->shard.row_bytes)
		return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
				    "%s: rank %u has %s of %u bytes each, but a row of rank 0 has "
				    "%u bytes",
				    what, r, rows, of->shard.row_bytes, first->shard.row_bytes);
	if (of->shard.set != first->shard.set || of->shard.rows != first->shard.rows)
		return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
				    "%s: rank %u has %s of another data set (%016" PRIx64
				    ", %" PRIu64 " rows) than rank 0 (%016" PRIx64 ", %" PRIu64
				    " rows)",
				    what, r, rows, of->shard.set, of->shard.rows, first->shard.set,
				    first->shard.rows);
	return 0;
}

/* The rows of rank r follow those of the ranks before, which end at `next`. */
static int check_rows(const struct hr_shard_of *of, uint64_t next, uint32_t r, const char *what,
		      struct hr_error *e)
{
	const uint64_t first = of->shard.first_row;
	char rows[TEXT], gap[TEXT];

	rows_of_text(of, rows);
	if (rows_of(of) && first < next)
		return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
				    "%s: %s of rank %u overlap with those of the ranks before, "
				    "which end with row %" PRIu64,
				    what, rows, r, next - 1);
	if (rows_of(of) && first > next)
		return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
				    "%s: %s are missing: rank %u has %s", what,
				    rows_text(next, first - next, gap), r, rows);
	if (of->shard.index != r || first != next)
		return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
				    "%s: rank %u has shard %u, %s from row %" PRIu64
				    "; expected shard %u, from row %" PRIu64,
				    what, r, of->shard.index, rows, first, r, next);
	return 0;
}

/* A tile lies in one shard. */
static int check_tiles(const struct hr_shard_of *of, uint32_t r, const char *what,
		       struct hr_error *e)
{
	const uint64_t begin = of->shard.first_row * of->shard.row_bytes;
	char rows[TEXT];

	if (begin % of->tile_bytes == 0 || of->shard.first_row == of->shard.rows)
		return 0;
	return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
			    "%s: %s of rank %u begin within a tile of %" PRIu64
			    " bytes; expected --tile-rows of 'store put' to be a multiple of the "
			    "%" PRIu64 " rows of a tile, or a tile that divides it",
			    what, rows_of_text(of, rows), r, of->tile_bytes,
			    of->tile_bytes / of->shard.row_bytes);
}

int hr_shards_cover(const struct hr_shard_of *of, size_t step, uint32_t ranks, const char *what,
		    struct hr_error *e)
{
	uint64_t next = 0;
	char gap[TEXT];
	int err = 0;

	for (uint32_t r = 0; !err && r < ranks; r++)
		err = check_set(at(of, step, 0), at(of, step, r), r, ranks, what, e);
	for (uint32_t r = 0; !err && r < ranks; r++) {
		const struct hr_shard_of *one = at(of, step, r);

		err = check_rows(one, next, r, what, e);
		if (!err)
			err = check_tiles(one, r, what, e);
		next = one->shard.first_row + rows_of(one);
	}
	if (err || next == of->shard.rows)
		return err;
	return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
			    "%s: %s are missing: rank %u has the last shard", what,
			    rows_text(next, of->shard.rows - next, gap), ranks - 1);
}

int hr_shards_agree(const struct hr_shard_of *const of[], const char *const names[],
		    uint32_t sources, uint32_t rank, const char *what, struct hr_error *e)
{
	const struct hr_store_shard *first = &of[0]->shard;
	const uint64_t tile = first->first_row * first->row_bytes / of[0]->tile_bytes;

	for (uint32_t s = 1; s < sources; s++) {
		const struct hr_store_shard *other = &of[s]->shard;
		const uint64_t its = other->first_row * other->row_bytes / of[s]->tile_bytes;

		if (its != tile)
			return hr_error_add(e, HR_ERROR_USAGE, -EINVAL,
					    "%s: rank %u has object '%s' from row %" PRIu64
					    ", tile %" PRIu64 ", but '%s' from row %" PRIu64
					    ", tile %" PRIu64,
					    what, rank, names[0], first->first_row, tile, names[s],
					    other->first_row, its);
	}
	return 0;
}
