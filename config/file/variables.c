/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <stdio.h>
#include <string.h>

/* The value of a name of `length` characters; false: a mistake. */
static bool value_of(const struct hr_config *config, const struct hr_group *group, const char *name,
		     size_t length, uint32_t *value)
{
	const struct hr_config_rank *rank = config->names->rank;
	const bool local = length == 10 && strncmp(name, "local_rank", length) == 0;

	if (!local && !(length == 4 && strncmp(name, "rank", length) == 0)) {
		hr_group_mistake(group, "device",
				 "there is no variable ${%.*s}, expected ${rank} or ${local_rank}",
				 (int)length, name);
		return false;
	}
	if (!rank) {
		hr_group_mistake(group, "device",
				 "${%.*s} has a value only with 'headrace run --mpi', under mpirun "
				 "or srun",
				 (int)length, name);
		return false;
	}
	*value = local ? rank->local_rank : rank->rank;
	return true;
}

/* Replace the variables of `device` into `out`. False: a mistake. */
static bool expand(const struct hr_config *config, const struct hr_group *group, const char *device,
		   char *out, size_t bytes)
{
	const char *at = device, *begin, *end;
	size_t used = 0;
	uint32_t value;

	for (; (begin = strstr(at, "${")) != NULL; at = end + 1) {
		end = strchr(begin, '}');
		if (!end) {
			hr_group_mistake(group, "device", "'%s' has no '}' after \"${\"", device);
			return false;
		}
		if (!value_of(config, group, begin + 2, (size_t)(end - begin) - 2, &value))
			return false;
		used += (size_t)snprintf(out + used, bytes - used, "%.*s%u", (int)(begin - at), at,
					 value);
		if (used >= bytes)
			break;
	}
	if (used < bytes)
		used += (size_t)snprintf(out + used, bytes - used, "%s", at);
	if (used < bytes)
		return true;
	hr_group_mistake(group, "device",
			 "'%s' is too long with its variables, expected under %zu characters",
			 device, bytes);
	return false;
}

bool hr_config_variables(const struct hr_config *config, const struct hr_group *group, char *device)
{
	char out[HR_DEVICE_MAX] = "";
	const bool good = expand(config, group, device, out, sizeof out);

	memcpy(device, good ? out : "", good ? strlen(out) + 1 : 1);
	return good;
}
