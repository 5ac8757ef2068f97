#include "config/file/control.h"

#include <ctype.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>

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

	hr_group_read(group, control_fields, HR_COUNT(fields), &text);
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
