/*
 * `headrace store rm`: objects by name, or all incomplete ones.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "boot/engine/exit.h"
#include "boot/engine/pending.h"
#include "boot/cmd/store/store.h"

static int remove_pending(struct hr_ssd *ssd, const struct hr_store_wishes *wishes)
{
	uint64_t bytes = 0;
	uint32_t count = 0;
	const int err =
		hr_pending_remove(&ssd->store, wishes->older_ns, NULL, NULL, &count, &bytes);

	if (err)
		return hr_store_failed(ssd, NULL, err);
	printf("%s: %u incomplete objects removed, %" PRIu64 " bytes\n", ssd->transport.name, count,
	       bytes);
	return HR_EXIT_DONE;
}

static int remove_one(struct hr_ssd *ssd, const struct hr_store_wishes *wishes, const char *name)
{
	const struct hr_object *pending = hr_store_find_pending(&ssd->store, name);
	const struct hr_object *whole = wishes->pending ? NULL : hr_store_find(&ssd->store, name);
	const uint64_t whole_id = whole ? whole->id : 0;
	int err = 0;

	if (!pending && !whole)
		return hr_store_failed(ssd, name, -ENOENT);
	if (pending)
		err = hr_store_remove(&ssd->store, pending->id);
	if (!err && whole_id)
		err = hr_store_remove(&ssd->store, whole_id);
	return err ? hr_store_failed(ssd, name, err) : HR_EXIT_DONE;
}

int hr_store_cmd_rm(struct hr_ssd *ssd, const struct hr_store_wishes *wishes)
{
	int worst = HR_EXIT_DONE;

	if (wishes->pending && wishes->args == 0)
		return remove_pending(ssd, wishes);

	for (int i = 0; i < wishes->args && !ssd->disk.dead; i++) {
		const int code = remove_one(ssd, wishes, wishes->arg[i]);

		worst = code > worst ? code : worst;
	}
	return worst;
}
