/*
 * config/names.h - questions of the configuration to layers above it: is a device string correct,
 * which operator has this name or lies in this file, and what is the number of this process.
 * boot/engine/devices/lookup.h answers them.
 */
#ifndef CONFIG_NAMES_H
#define CONFIG_NAMES_H

#include <stdint.h>

#include "config/base/error.h"
#include "config/operator.h"

/* The number of this process among those of an MPI job: among all, and among those of its machine. */
struct hr_config_rank {
	uint32_t rank, local_rank;
};

struct hr_config_names {
	/* Check the form of an ssd's or a gpu's device string. 0, or -EINVAL. */
	int (*ssd_check)(const char *device, struct hr_error *e);
	int (*gpu_check)(const char *device, struct hr_error *e);
	/*
	 * Number of namespaces of the controller that the string describes; 0: the string does not
	 * tell.
	 */
	uint32_t (*ssd_namespaces)(const char *device);
	/* Built-in operator i, i below HR_OPERATORS_BUILT_IN_MAX; NULL: no such operator. */
	const struct hr_operator *(*operator_at)(uint32_t i);
	/*
	 * Load the user operator in a file; the process owns the description. 0, or an error such
	 * as -EINVAL with a text that the caller prints after the path.
	 */
	int (*operator_load)(const char *path, const struct hr_operator **op, struct hr_error *e);
	/* CRC-32C of the file of a loaded user operator. */
	uint32_t (*operator_checksum)(const struct hr_operator *op);
	/* Values of ${rank} and ${local_rank} in device strings; NULL: they have none, because the
	 * process is not started with `headrace run --mpi`. */
	const struct hr_config_rank *rank;
};

#endif
