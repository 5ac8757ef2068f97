/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>

#include "config/file/keys.h"
#include "config/base/clock.h"

#define GROUPS_FILE "/etc/group"
#define OWNER 0600u /* the owner may always ask and change */
#define READS 0444u
#define STORE_PERCENT 15u
#define CHANGES 0222u

struct text {
	char mode[8], group[HR_NAME_MAX];
	uint32_t store_percent;
};

static const struct hr_field control_fields[] = {
	{ "mode", HR_FIELD_STRING, .offset = offsetof(struct text, mode), .max = 8 },
	{ "group", HR_FIELD_NAME, .offset = offsetof(struct text, group), .max = HR_NAME_MAX },
	{ "store_percent", HR_FIELD_U32, .offset = offsetof(struct text, store_percent), .min = 1,
	  .max = 100 },
};

void hr_config_control_default(struct hr_config_control *control)
{
	control->mode = OWNER;
	control->group = HR_CONTROL_NO_GROUP;
	control->store_percent = STORE_PERCENT;
}

/*
 * Read the file itself: getgrnam() loads libraries in a static program. 0, or -1: there is no such
 * group.
 */
static int find_group(const char *name, uint32_t *number)
{
	FILE *file = fopen(GROUPS_FILE, "re");
	const struct group *entry = NULL;

	while (file && (entry = fgetgrent(file)) && strcmp(entry->gr_name, name) != 0)
		;
	if (entry)
		*number = entry->gr_gid;
	if (file)
		fclose(file);
	return entry ? 0 : -1;
}

static int read_number(const char *text, uint32_t *number)
{
	unsigned long long value = 0;

	for (const char *c = text; *c; c++) {
		if (!isdigit((unsigned char)*c))
			return -1;
		value = value * 10 + (unsigned)(*c - '0');
		if (value >= HR_CONTROL_NO_GROUP)
			return -1;
	}
	*number = (uint32_t)value;
	return 0;
}

void hr_config_control_group(uint32_t *number, const struct hr_group *group, const char *name)
{
	if (read_number(name, number) != 0 && find_group(name, number) != 0)
		hr_group_mistake(group, "group",
				 "there is no group '%s' in " GROUPS_FILE
				 "; expected a group of it, or a number",
				 name);
}

/* Three octal digits, with or without a 0 before them. */
static int parse_mode(const char *text, uint32_t *mode)
{
	const char *digit = *text == '0' && strlen(text) == 4 ? text + 1 : text;

	if (strlen(digit) != 3 || strspn(digit, "01234567") != 3)
		return -1;
	*mode = (uint32_t)(digit[0] - '0') << 6 | (uint32_t)(digit[1] - '0') << 3 |
		(uint32_t)(digit[2] - '0');
	return 0;
}

static void read_mode(struct hr_config_control *control, const struct hr_group *group,
		      const char *text)
{
	uint32_t mode;

	if (parse_mode(text, &mode) != 0)
		hr_group_mistake(group, "mode", "is \"%s\", expected permissions like \"0640\"",
				 text);
	else if ((mode & OWNER) != OWNER || mode & ~(READS | CHANGES) ||
		 (mode & CHANGES) << 1 & ~mode)
		hr_group_mistake(group, "mode",
				 "is \"%s\", expected 6 for the owner, then 0, 4 (may ask for the "
				 "status) or 6 (may also change) for the group and for others",
				 text);
	else
		control->mode = mode;
}

void hr_config_control_read(struct hr_config_control *control, const struct hr_group *group)
{
	struct text text = { "", "", control->store_percent };

	hr_group_read(group, control_fields, HR_COUNT(control_fields), &text);
	control->store_percent = text.store_percent;
	if (*text.mode)
		read_mode(control, group, text.mode);
	if (*text.group)
		hr_config_control_group(&control->group, group, text.group);
	if (control->mode & 0060u && !*text.group)
		hr_group_mistake(group, "group",
				 "is missing, but mode has permissions for a group; expected "
				 "group = \"NAME\"");
}

/* ---- the group boot */

#define RESTARTS_MAX 1000000u
#define WAIT_S_MAX 86400u
#define PROGRESS_S 30u
#define PROGRESS_S_MAX 3600u

static const char *const posts[] = { "full", "quick", "off", NULL };
static const char *const ends[] = { "poweroff", "reboot", "halt", "stay", "shell", NULL };

static const struct hr_field boot_fields[] = {
	{ "modules", .type = HR_FIELD_LIST, .max = HR_MODULES_MAX },
	{ "hugepages", HR_FIELD_SIZE, .offset = offsetof(struct hr_config_boot, hugepage_bytes),
	  .max = INT64_MAX },
	{ "post", HR_FIELD_CHOICE, .offset = offsetof(struct hr_config_boot, post),
	  .choices = posts },
	{ "restarts", HR_FIELD_U32, .offset = offsetof(struct hr_config_boot, restarts), .min = 0,
	  .max = RESTARTS_MAX },
	{ "backoff", HR_FIELD_DURATION, .offset = offsetof(struct hr_config_boot, backoff_ns) },
	{ "collect", HR_FIELD_DURATION, .offset = offsetof(struct hr_config_boot, collect_ns) },
	{ "heal", HR_FIELD_DURATION, .offset = offsetof(struct hr_config_boot, heal_ns) },
	{ "wait_s", HR_FIELD_U32, .offset = offsetof(struct hr_config_boot, wait_s), .min = 0,
	  .max = WAIT_S_MAX },
	{ "progress_s", HR_FIELD_U32, .offset = offsetof(struct hr_config_boot, progress_s),
	  .min = 1, .max = PROGRESS_S_MAX },
	{ "results", HR_FIELD_BOOL, .offset = offsetof(struct hr_config_boot, results) },
	{ "watchdog", HR_FIELD_DURATION, .offset = offsetof(struct hr_config_boot, watchdog_ns) },
	{ "after", HR_FIELD_CHOICE, .offset = offsetof(struct hr_config_boot, after),
	  .choices = ends },
	{ "last_resort", HR_FIELD_CHOICE, .offset = offsetof(struct hr_config_boot, last_resort),
	  .choices = ends },
};

/* A module's name has no '/'; an absolute path begins with one. */
static const struct hr_field module_fields[] = {
	{ "name", HR_FIELD_STRING, .required = true,
	  .offset = offsetof(struct hr_config_module, name), .max = HR_DEVICE_MAX,
	  .example = "name = \"vfio-pci\";" },
	{ "options", HR_FIELD_STRING, .offset = offsetof(struct hr_config_module, options),
	  .max = HR_DEVICE_MAX },
};

void hr_config_boot_default(struct hr_config_boot *boot)
{
	boot->restarts = 3;
	boot->backoff_ns = HR_NS_PER_S;
	boot->heal_ns = 600 * HR_NS_PER_S;
	boot->wait_s = 60;
	boot->progress_s = PROGRESS_S;
}

static void read_modules(struct hr_config_boot *boot, const struct hr_group *group)
{
	const unsigned count = hr_group_list(group, "modules");
	struct hr_group element;

	for (unsigned i = 0; i < count && i < HR_MODULES_MAX; i++) {
		struct hr_config_module *module = &boot->module[i];

		if (!hr_group_element(group, "modules", i, &element))
			continue;
		module->line = hr_group_line(&element, NULL);
		hr_group_read(&element, module_fields, HR_COUNT(module_fields), module);
		if (module->name[0] != '/' && strchr(module->name, '/'))
			hr_group_mistake(&element, "name",
					 "'%.200s' is neither a module's name nor an absolute path",
					 module->name);
		boot->modules = i + 1;
	}
}

void hr_config_boot_read(struct hr_config_boot *boot, const struct hr_group *group)
{
	hr_group_read(group, boot_fields, HR_COUNT(boot_fields), boot);
	read_modules(boot, group);
	if (boot->watchdog_ns && boot->watchdog_ns < 5 * HR_NS_PER_S)
		hr_group_mistake(
			group, "watchdog",
			"is under 5s, the time that bring-up can take; expected 0, or 5s or more");
}

/* ---- the group health */

static const char *const actions[] = { "log", "pause", "stop", NULL };

#define WARNING(key, number)                                                                \
	{                                                                                   \
		key, HR_FIELD_CHOICE, .choices = actions,                                   \
				      .offset = offsetof(struct hr_config_health, action) + \
						(number) * sizeof(enum hr_warning_action)   \
	}

/* In the order of the bits of the critical warning. */
static const struct hr_field health_fields[HR_WARNINGS] = {
	WARNING("spare", 0),	 WARNING("temperature", 1), WARNING("reliability", 2),
	WARNING("read_only", 3), WARNING("backup", 4),
};

void hr_config_health_read(struct hr_config_health *health, const struct hr_group *group)
{
	hr_group_read(group, health_fields, HR_WARNINGS, health);
}
