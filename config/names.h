/*
 * config/names.h - what the configuration asks of the parts above it: whether a device string is
 * right, and which operator a name or a file stands for. boot/engine/names.h has the answers.
 */
#ifndef CONFIG_NAMES_H
#define CONFIG_NAMES_H

#include <stdint.h>

#include "config/operator.h"

struct hr_config_names {
	/* A device string of an ssd, and of a gpu, is well formed: 0, or -EINVAL with message of
	 * HR_LOG_LINE_MAX bytes. */
	int (*ssd_check)(const char *device, char *message);
	int (*gpu_check)(const char *device, char *message);
	/* Namespaces of the controller that the string makes; 0: the string does not say. */
	uint32_t (*ssd_namespaces)(const char *device);
	/* Built-in operator i, at most HR_OPERATORS_BUILT_IN_MAX of them; NULL: there is none. */
	const struct hr_operator *(*operator_at)(uint32_t i);
	/*
	 * Load the user operator in a file; the description belongs to the process. 0; -EINVAL and
	 * others with message (HR_LOG_LINE_MAX bytes), which follows the path in a sentence.
	 */
	int (*operator_load)(const char *path, const struct hr_operator **op, char *message);
};

#endif
