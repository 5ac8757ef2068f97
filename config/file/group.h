/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/file/group.h - reads one group of settings by a table of its allowed members.
 *
 * Only files of config/ include this header, so that libconfig stays private to config/. Unknown
 * keys, wrong types, values out of range and missing keys become mistakes. A member with a mistake
 * keeps its default.
 */
#ifndef CONFIG_FILE_GROUP_H
#define CONFIG_FILE_GROUP_H

#include <libconfig.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/file/mistakes.h"

enum hr_field_type {
	HR_FIELD_STRING,   /* char[max], 1 .. max - 1 printable characters */
	HR_FIELD_NAME,	   /* the same, without '/' */
	HR_FIELD_U32,	   /* integer min .. max */
	HR_FIELD_SIZE,	   /* uint64_t: integer, or a string like "64M"; min .. max */
	HR_FIELD_SIZE32,   /* the same in a uint32_t */
	HR_FIELD_DURATION, /* uint64_t ns: a string like "5s", or 0 */
	HR_FIELD_MS,	   /* uint64_t ns: an integer of milliseconds, min .. max */
	HR_FIELD_BOOL,
	HR_FIELD_CHOICE, /* an enum (4 bytes): index in choices */
	HR_FIELD_GROUP,	 /* checked to be a group; the caller reads its members */
	HR_FIELD_LIST,	 /* a list of groups; the caller reads it */
	HR_FIELD_GROUPS, /* a group, or a list of groups */
	HR_FIELD_NAMES,	 /* checked to be an array of strings, at most max; the caller reads it */
};

struct hr_field {
	const char *key;
	enum hr_field_type type;
	bool required;
	size_t offset; /* offset of the field in the struct that hr_group_read() fills */
	uint64_t min, max;
	const char *const *choices; /* NULL-terminated */
	const char *example;	    /* for the message about a missing key */
};

/* A group and its name in messages: "pipelines[0].blocks". */
struct hr_group {
	struct hr_mistakes *mistakes;
	config_setting_t *setting;
	char path[96];
};

/* Read all fields of the group into *out. */
void hr_group_read(const struct hr_group *group, const struct hr_field *field, size_t count,
		   void *out);

/*
 * Find the member of that name if it is a group. False: the member is missing, or a mistake was
 * reported.
 */
bool hr_group_member(const struct hr_group *group, const char *key, struct hr_group *member);

/* The same for element i of a list member, or for a member that is a group itself (i is 0). */
bool hr_group_element(const struct hr_group *group, const char *key, unsigned i,
		      struct hr_group *element);

/* Number of elements of a list member; 0 when it is missing or not a list. */
unsigned hr_group_list(const struct hr_group *group, const char *key);

/* The same; 1 for a member that is a group. */
unsigned hr_group_elements(const struct hr_group *group, const char *key);

/* True for an array of strings, or an empty one, with at most `max` elements. */
bool hr_group_is_names(const config_setting_t *setting, uint64_t max);

/* String i of a member that is an array of strings; NULL: it is none, or has no such element. */
const char *hr_group_string(const struct hr_group *group, const char *key, unsigned i);

/* Line of a member; line of the group when the member is missing. */
unsigned hr_group_line(const struct hr_group *group, const char *key);

/* Report a mistake in a member: "LINE: PATH.KEY: text". key NULL: a mistake in the group itself. */
void hr_group_mistake(const struct hr_group *group, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
