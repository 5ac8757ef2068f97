/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/bringup/sinks.h - stage `sinks`: create sink objects, or find those to resume.
 */
#ifndef BOOT_ENGINE_BRINGUP_SINKS_H
#define BOOT_ENGINE_BRINGUP_SINKS_H

#include "boot/engine/engine.h"

/*
 * Check all sinks and their space without writing to any disk, with the same steps as
 * hr_sinks_up(): sets sink_plan of each run. After `objects`. 0, or the error that hr_sinks_up()
 * would return; all errors are logged, with file and line, and engine->refused is set when the error
 * will remain.
 */
int hr_sinks_check(struct hr_engine *engine);
/* Check the sinks, then create or find them; on error the created ones are removed again. Also connect
 * to other appliances (boot/engine/remote/remote.h), whose tiles decide where a run starts. */
int hr_sinks_up(struct hr_engine *engine);
/* Remove the sinks that this bring-up has created and whose runs were never launched. */
void hr_sinks_down(struct hr_engine *engine);
/* Planned action for an existing sink or new object, as "; ..."; "" when there is none. After
 * hr_sinks_check(). */
const char *hr_sink_plan_text(enum hr_sink_plan plan);

/* Hash of all that determines the contents of a run's sink: operator, arguments, sources, tiles. */
uint64_t hr_run_fingerprint(const struct hr_engine *engine, const struct hr_run *run);

#endif
