/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/sets.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "gpu/tap/memory.h"

static int make_set(struct hr_sets *sets, const struct hr_sets_range *range, uint32_t i,
		    struct hr_error *e)
{
	const int entries =
		hr_tap_memory_create(range->entries_name, range->entries + i * range->entries_bytes,
				     range->entries_bytes, HR_TAP_READ_ONLY, e);
	const int page = entries < 0 ? entries
				     : hr_tap_memory_create(range->page_name,
							    range->pages + i * range->page_bytes,
							    range->page_bytes, HR_TAP_WRITABLE, e);

	if (page < 0) {
		if (entries >= 0)
			close(entries);
		return page;
	}
	sets->set[i].entries = entries;
	sets->set[i].page = page;
	return 0;
}

int hr_sets_fill(struct hr_sets *sets, const struct hr_sets_range *range, struct hr_error *e)
{
	int err = 0;

	if (!sets->count)
		sets->count = sets->spent = range->count;
	while (!err && sets->spent) {
		err = make_set(sets, range, sets->spent - 1, e);
		sets->spent -= !err;
	}
	return err;
}

int hr_sets_next(const struct hr_sets *sets, uint32_t *set, int fds[2], struct hr_error *e)
{
	if (sets->spent == sets->count)
		return hr_fail(
			e, HR_ERROR_FAILED, -EBUSY,
			"memory for %u clients on the GPU is used up: it is renewed when this "
			"pipeline starts and no other runs",
			sets->count);
	*set = sets->spent;
	fds[0] = sets->set[*set].entries;
	fds[1] = sets->set[*set].page;
	return 0;
}

void hr_sets_spend(struct hr_sets *sets)
{
	close(sets->set[sets->spent].entries);
	close(sets->set[sets->spent].page);
	sets->spent++;
}

void hr_sets_give(struct hr_sets *sets)
{
	while (sets->spent < sets->count)
		hr_sets_spend(sets);
	memset(sets, 0, sizeof *sets);
}
