/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/object_users.h - objects that runs use now, or will use before they end. A run uses an
 * object by its id from `objects` on, and a name from `sinks` on.
 */
#ifndef BOOT_ENGINE_OBJECT_USERS_H
#define BOOT_ENGINE_OBJECT_USERS_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/engine/engine.h"

/* True when a pipeline runs now. */
bool hr_any_running(const struct hr_engine *engine);

/* Each returns the first such run, or NULL. A run that reads object `id` of ssd d; one that writes
 * to it in place (`running`: and that runs now); one that makes an object of that name there. */
const struct hr_run *hr_run_reading(const struct hr_engine *engine, uint32_t d, uint64_t id);
const struct hr_run *hr_run_changing(const struct hr_engine *engine, uint32_t d, uint64_t id,
				     bool running);
const struct hr_run *hr_run_making(const struct hr_engine *engine, uint32_t d, const char *name);

/* The extent of an object of ssd d, for workers. */
void hr_run_extent(const struct hr_engine *engine, uint32_t d, uint64_t id,
		   struct hr_extent *extent);

#endif
