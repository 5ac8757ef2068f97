/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/devices/ssd_store.h"

#include <errno.h>
#include <stdlib.h>

#include "nvme/queue/status.h"

static size_t round_up(size_t bytes)
{
	return (bytes + HR_PAGE - 1) & ~((size_t)HR_PAGE - 1);
}

/* Reads from this ssd return arbitrary data, so opening a store makes no sense. */
static int refuse_store(const struct hr_ssd *ssd, struct hr_error *e)
{
	if (!ssd->transport.keeps_no_data)
		return 0;
	return hr_fail(e, HR_ERROR_MISSING, -ENOTSUP,
		       "%s keeps no data, so it has no object store: only 'headrace bench' can use "
		       "it; soft:memory and images keep them",
		       ssd->transport.name);
}

static int no_memory(const struct hr_ssd *ssd, size_t bytes, struct hr_error *e)
{
	return hr_fail(e, HR_ERROR_MISSING, -ENOMEM,
		       "%s: out of memory for the object store: %zu bytes", ssd->transport.name,
		       bytes);
}

int hr_ssd_open_store(struct hr_ssd *ssd, struct hr_error *e)
{
	uint8_t *page;
	uint32_t capacity;
	size_t objects, bytes;
	int err = refuse_store(ssd, e);

	if (err)
		return err;
	page = aligned_alloc(HR_PAGE, HR_PAGE);
	if (!page)
		return no_memory(ssd, HR_PAGE, e);
	err = hr_store_probe(ssd->blk, &capacity, page, e);
	free(page);
	if (err)
		return err;
	objects = round_up(capacity * sizeof(struct hr_store_object));
	bytes = round_up(objects + hr_store_io_bytes(capacity));
	ssd->store_memory = aligned_alloc(HR_PAGE, bytes);
	if (!ssd->store_memory)
		return no_memory(ssd, bytes, e);
	err = hr_store_open(&ssd->store, ssd->blk, ssd->store_memory, capacity,
			    (uint8_t *)ssd->store_memory + objects, e);
	if (err) {
		free(ssd->store_memory);
		ssd->store_memory = NULL;
	}
	ssd->has_store = err == 0;
	return err;
}

int hr_ssd_format_store(struct hr_ssd *ssd, uint32_t capacity, bool force, struct hr_error *e)
{
	uint8_t *io;
	int err = refuse_store(ssd, e);

	if (err)
		return err;
	io = aligned_alloc(HR_PAGE, round_up(hr_store_io_bytes(capacity)));
	if (!io)
		return no_memory(ssd, hr_store_io_bytes(capacity), e);
	err = hr_store_format(ssd->blk, capacity, force, io, e);
	free(io);
	return err;
}

static enum hr_error_kind kind_of(int err)
{
	switch (err) {
	case -EINVAL:
		return HR_ERROR_USAGE;
	case -ENOMEM:
		return HR_ERROR_MISSING;
	default:
		return HR_ERROR_FAILED;
	}
}

int hr_ssd_store_explain(const struct hr_ssd *ssd, const char *object, int err, struct hr_error *e)
{
	const char *disk = ssd->transport.name;
	const char *quote = object ? "'" : "", *colon = object ? ": " : "";
	const char *why = NULL;
	char name[96];

	switch (err) {
	case -ENOMEDIUM:
		why = "the disk is blank; 'headrace store format' makes an object store";
		break;
	case -EMEDIUMTYPE:
		why = "the disk holds data other than an object store";
		break;
	case -EEXIST:
		why = "exists already; --replace replaces it";
		break;
	case -EBUSY:
		why = "an incomplete object has that name; 'rm' removes it, --replace takes its "
		      "place";
		break;
	case -ENOENT:
		why = "there is no such object";
		break;
	case -EINVAL:
		why = "a name is 1..63 printable characters without '/'";
		break;
	case -ENOMEM:
		why = hr_error_name(err, name, sizeof name);
		break;
	default:
		break; /* the text is in e */
	}
	if (why)
		hr_fail(e, kind_of(err), err, "%s: %s%s%s%s%s", disk, quote, object ? object : "",
			quote, colon, why);
	hr_incomplete_hint(&ssd->store, ssd->device, err, e);
	return err;
}
