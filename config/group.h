/*
 * config/group.h - reading one group of settings by a table of what may stand in it.
 *
 * Only included inside config/ (libconfig ends here). Unknown keys, wrong types, values out of
 * range and missing keys become mistakes; the fields of what is wrong keep their defaults.
 */
#ifndef CONFIG_GROUP_H
#define CONFIG_GROUP_H

#include <libconfig.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/mistakes.h"

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
	HR_FIELD_GROUP,	 /* only that it is one; the caller reads it */
	HR_FIELD_LIST,	 /* a list of groups; the caller reads it */
	HR_FIELD_GROUPS, /* a group, or a list of groups */
};

struct hr_field {
	const char *key;
	enum hr_field_type type;
	bool required;
	size_t offset; /* of the member in what hr_group_read() fills */
	uint64_t min, max;
	const char *const *choices; /* NULL-terminated */
	const char *example;	    /* for a missing key */
};

/* A group and how messages call it: "pipelines[0].blocks". */
struct hr_group {
	struct hr_mistakes *mistakes;
	config_setting_t *setting;
	char path[96];
};

/* Read all fields of the group into *out. */
void hr_group_read(const struct hr_group *group, const struct hr_field *field, size_t count,
		   void *out);

/* The member of that name if it is a group; false: there is none, or a mistake was reported. */
bool hr_group_member(const struct hr_group *group, const char *key, struct hr_group *member);

/* The same for element i of a list member, or for a member that is a group itself (i 0). */
bool hr_group_element(const struct hr_group *group, const char *key, unsigned i,
		      struct hr_group *element);

/* Elements of a list member; 0 when there is none or something else. */
unsigned hr_group_list(const struct hr_group *group, const char *key);

/* The same, and 1 for a member that is a group. */
unsigned hr_group_elements(const struct hr_group *group, const char *key);

/* Line of a member, or of the group when there is none. */
unsigned hr_group_line(const struct hr_group *group, const char *key);

/* Report a mistake about a member: "LINE: PATH.KEY: text". key may be NULL: the group itself. */
void hr_group_mistake(const struct hr_group *group, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
