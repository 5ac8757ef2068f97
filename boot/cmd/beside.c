/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/beside.h"

#include <errno.h>
#include <string.h>

#include "boot/cmd/store_client.h"

static struct hr_store_client client; /* one a process */

static int open_client(const struct hr_config_ssd *config, struct hr_store_backend *access)
{
	hr_store_client_close(&client);
	const int err = hr_store_client_open(access, &client, config, NULL) ? -ENODEV : 0;

	client.told = true; /* by the report */
	return err;
}

/* The items before the reply. 0, -errno, or the exit code of the appliance, whose reason is printed. */
static int receive_facts(struct hr_ssd_facts *facts, struct hr_message_map *map)
{
	struct hr_message_item item = { 0 };
	int got = hr_store_client_next(&client, &item);

	if (got == HR_STORE_CLIENT_ITEM && item.kind == HR_MESSAGE_FACTS)
		got = hr_client_receive(client.fd, facts, sizeof *facts);
	else
		return hr_store_client_conclude(&client, got);
	if (!got)
		got = hr_store_client_next(&client, &item);
	if (got == HR_STORE_CLIENT_ITEM && item.kind == HR_MESSAGE_MAP)
		got = hr_store_client_take_map(&client, &item, map);
	if (!got)
		got = hr_store_client_next(&client, &item);
	return hr_store_client_conclude(&client, got);
}

static int describe_busy_ssd(void *to, const struct hr_config_ssd *config,
			     struct hr_ssd_facts *facts, const struct hr_store_object **object,
			     uint32_t *count, const char **by, struct hr_error *e)
{
	struct hr_request request = { .kind = HR_REQUEST_STORE_FACTS };
	struct hr_store_backend access;
	struct hr_message_map map = { 0 };
	int code;

	if (open_client(config, &access))
		return -ENODEV;
	if (!hr_store_client_is_driven(&client))
		return *client.reason ? hr_fail(e, HR_ERROR_MISSING, -EBUSY, "%s", client.reason)
				      : -ENODEV;
	code = hr_store_client_begin(&client, &request, "");
	if (!code)
		code = receive_facts(facts, &map);
	if (code)
		return hr_fail(e, (enum hr_error_kind)code, -EBUSY,
			       "appliance '%s' does not describe it", client.appliance.name);
	*object = client.objects;
	*count = (uint32_t)map.count;
	*by = client.appliance.name;
	return 0;
}

static int read_part(void *to, const struct hr_config_ssd *config, const char *name, uint64_t at,
		     void *data, size_t bytes, struct hr_error *e)
{
	struct hr_store_backend access;
	struct hr_store_object object;
	uint8_t skipped[HR_PAGE];
	int code = open_client(config, &access) || !hr_store_client_is_driven(&client)
			   ? HR_ERROR_FAILED
			   : access.get(access.to, name, &object);

	for (uint64_t left = at; !code && left;) {
		const size_t some = left < sizeof skipped ? (size_t)left : sizeof skipped;

		code = access.read(access.to, skipped, some);
		left -= some;
	}
	if (!code)
		code = access.read(access.to, data, bytes);
	hr_store_client_close(&client);
	return code ? hr_fail(e, HR_ERROR_FAILED, -EBUSY,
			      "%s: '%s' cannot be read through its "
			      "appliance",
			      config->device, name)
		    : 0;
}

const struct hr_elsewhere hr_beside = { NULL, describe_busy_ssd, read_part };
