/*
 * config/file/object.h - reads an object of a pipeline, and the name of one of the ssds or
 * gpus; for files of config/ only.
 */
#ifndef CONFIG_FILE_OBJECT_H
#define CONFIG_FILE_OBJECT_H

#include "config/config.h"
#include "config/file/group.h"

/* Which keys an object has besides ssd and object. */
enum hr_object_keys {
	HR_OBJECT_SOURCE, /* none */
	HR_OBJECT_SINK,	  /* replace, checksum, keep */
	HR_OBJECT_ACCESS, /* bytes, replace, checksum */
};

/*
 * Index of a name in an array of `count` structs that begin with their name. Without a name: the
 * only element. -1 after a mistake was reported. what: "ssd", "gpu".
 */
int hr_config_find_name(const struct hr_group *group, const char *key, const char *name,
			const void *array, unsigned count, size_t stride, const char *what);

/* Read the object from its group. False after a mistake. */
bool hr_config_object_read(const struct hr_config *config, const struct hr_group *group,
			   enum hr_object_keys keys, struct hr_config_object *object);

#endif
