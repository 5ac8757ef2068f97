/*
 * `headrace store rm`: removes objects by name, or all incomplete objects.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "boot/engine/exit.h"
#include "boot/engine/pending.h"
#include "boot/cmd/store/remove.h"

static int remove_pending(struct hr_ssd *ssd, const struct hr_store_request *request)
{
	struct hr_error e = { 0 };
	uint64_t bytes = 0;
	uint32_t count = 0;
	const int err =
		hr_pending_remove(&ssd->store, request->older_ns, NULL, NULL, &count, &bytes, &e);

	if (err)
		return hr_store_failed(ssd, NULL, err, &e);
	printf("%s: %u incomplete objects removed, %" PRIu64 " bytes\n", ssd->transport.name, count,
	       bytes);
	return HR_EXIT_DONE;
}

static int remove_one(struct hr_ssd *ssd, const struct hr_store_request *request, const char *name)
{
	const struct hr_store_object *pending = hr_store_find_pending(&ssd->store, name);
	const struct hr_store_object *whole =
		request->pending ? NULL : hr_store_find(&ssd->store, name);
	const uint64_t whole_id = whole ? whole->id : 0;
	struct hr_error e = { 0 };
	int err = 0;

	if (!pending && !whole)
		return hr_store_failed(ssd, name, -ENOENT, &e);
	if (pending)
		err = hr_store_remove(&ssd->store, pending->id, &e);
	if (!err && whole_id)
		err = hr_store_remove(&ssd->store, whole_id, &e);
	return err ? hr_store_failed(ssd, name, err, &e) : HR_EXIT_DONE;
}

int hr_store_cmd_rm(struct hr_ssd *ssd, const struct hr_store_request *request)
{
	int worst = HR_EXIT_DONE;

	if (request->pending && request->args == 0)
		return remove_pending(ssd, request);

	for (int i = 0; i < request->args && !hr_health_failed(&ssd->health); i++) {
		const int code = remove_one(ssd, request, request->arg[i]);

		worst = code > worst ? code : worst;
	}
	return worst;
}
