/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/lend/memory.h"

#include <unistd.h>

static void close_objects(const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

int hr_lend_memory_make(const struct hr_lend_object *object, unsigned count, int *fds,
			struct hr_error *e)
{
	for (unsigned i = 0; i < count; i++) {
		fds[i] = hr_tap_memory_create(object[i].name, object[i].at, object[i].bytes,
					      object[i].use, e);
		if (fds[i] >= 0)
			continue;
		close_objects(fds, i);
		hr_lend_memory_drop(object, i);
		return fds[i];
	}
	return 0;
}

void hr_lend_memory_drop(const struct hr_lend_object *object, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		hr_tap_memory_drop(object[i].at, object[i].bytes);
}

void hr_lend_memory_sent(struct hr_sets *sets, const int *fds, unsigned count, bool sent)
{
	if (!sets)
		close_objects(fds, count);
	else if (sent)
		hr_sets_spend(sets);
}
