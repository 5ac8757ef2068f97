/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/devices/ssd_store.h"

#include <errno.h>
#include <string.h>

#include "config/base/log.h"
#include "config/base/text.h"
#include "config/base/seam.h"
#include "config/derived.h"

void hr_incomplete_hint(const struct hr_store *store, const char *device, int err,
			struct hr_error *e)
{
	struct hr_store_space space;
	char word[HR_QUOTE_BYTES];

	if (err != -ENOSPC && err != -ENFILE)
		return;
	hr_store_space(store, &space);
	if (space.pending_objects)
		hr_error_add(e, HR_ERROR_FAILED, err,
			     "%s: %u incomplete object%s hold%s %llu bytes: 'headrace store rm "
			     "--pending %s' removes them",
			     store->blk->name, space.pending_objects,
			     space.pending_objects == 1 ? "" : "s",
			     space.pending_objects == 1 ? "s" : "",
			     (unsigned long long)space.pending, hr_quote(device, word));
}

struct choice {
	uint64_t before_ns; /* limit, CLOCK_REALTIME */
	bool (*keep)(void *arg, const struct hr_store_object *object);
	void *arg;
};

static bool is_old(void *arg, const struct hr_store_object *object)
{
	const struct choice *choice = arg;

	return (object->flags & HR_OBJECT_PENDING) && object->created_ns <= choice->before_ns &&
	       !(choice->keep && choice->keep(choice->arg, object));
}

/* 0 when the clock is before 1970: then no object is older. */
static uint64_t moment_before(uint64_t age_ns)
{
	const uint64_t now_ns = hr_wall_ns();

	return now_ns > age_ns ? now_ns - age_ns : 0;
}

bool hr_incomplete_is_old(const struct hr_store_object *object, uint64_t age_ns)
{
	return object->created_ns < moment_before(age_ns);
}

int hr_incomplete_remove(struct hr_store *store, uint64_t age_ns,
			 bool (*keep)(void *arg, const struct hr_store_object *object), void *arg,
			 uint32_t *count, uint64_t *bytes, struct hr_error *e)
{
	struct choice choice = { age_ns ? moment_before(age_ns) : UINT64_MAX, keep, arg };

	return hr_store_remove_some(store, is_old, &choice, count, bytes, e);
}
