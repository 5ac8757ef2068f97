/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `headrace store format` and `unlock`: a disk whose store is not open.
 */
#include "boot/cmd/store/store.h"

#include <errno.h>
#include <stdio.h>

#include "config/base/error.h"
#include "boot/engine/devices/ssd_store.h"

int hr_store_cmd_format(struct hr_ssd *ssd, const struct hr_store_request *request)
{
	struct hr_error e = { 0 };
	const int err = hr_ssd_format_store(ssd, request->objects, request->force, &e);

	if (err == -EEXIST)
		hr_fail(&e, HR_ERROR_FAILED, err,
			"%s: holds an object store already; --force erases it",
			ssd->transport.name);
	else if (err == -EMEDIUMTYPE)
		hr_fail(&e, HR_ERROR_FAILED, err,
			"%s: is not blank: something else is stored there; --force erases it",
			ssd->transport.name);
	if (err) {
		hr_ssd_discard(ssd);
		return hr_error_report(&e, err);
	}
	printf("%s: room for %u objects\n", ssd->transport.name, request->objects);
	return HR_EXIT_DONE;
}

int hr_store_cmd_unlock(struct hr_ssd *ssd, const struct hr_store_request *request)
{
	struct hr_resv_holder holder;
	char text[HR_RESV_TEXT];
	struct hr_error e = { 0 };
	const int err = hr_ssd_unlock(ssd, &holder, &e);

	if (err)
		return hr_error_report(&e, err);
	if (holder.type)
		printf("%s: removed: %s\n", ssd->transport.name, hr_resv_text(&holder, text));
	else
		printf("%s: there is no reservation\n", ssd->transport.name);
	return HR_EXIT_DONE;
}
