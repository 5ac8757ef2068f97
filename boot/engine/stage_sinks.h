/*
 * boot/engine/stage_sinks.h - stage `sinks`: sink objects are created, or found to be resumed.
 */
#ifndef BOOT_ENGINE_STAGE_SINKS_H
#define BOOT_ENGINE_STAGE_SINKS_H

#include "boot/engine/appliance.h"

/*
 * Judge all sinks and their space without a change on any disk, by the same steps that hr_sinks_up()
 * takes: sets sink_plan of each run. After `objects`. 0, or what hr_sinks_up() would fail with; all
 * mistakes are logged, with file and line, and app->refused is set where it will not change by
 * itself.
 */
int hr_sinks_judge(struct hr_appliance *app);
/* Judge them, then create or find them; on error those that were made are removed again. */
int hr_sinks_up(struct hr_appliance *app);
/* Remove those that this bring-up has made and whose runs were never launched. */
void hr_sinks_down(struct hr_appliance *app);
/* What is going to be done about a sink of this name that is there: "; ...", or "" when none is.
 * After hr_sinks_judge(). */
const char *hr_sink_prospect(const struct hr_run *run);

/* What determines the contents of a run's sink: operator, arguments, sources, tiles. */
uint64_t hr_run_fingerprint(const struct hr_appliance *app, const struct hr_run *run);

/*
 * Tag of the sink of a run with this fingerprint: not 0, and with `checksum` another than without. With
 * it, crc of the incomplete object is that of its durable prefix. Versions that keep no such checksum
 * write the tag without, so they do not go on with what they would leave with a stale one.
 */
uint64_t hr_sink_tag(uint64_t fingerprint, bool checksum);

/* A run that was cut short goes on after what is durable of its sink when it is called again. */
bool hr_run_resumes(const struct hr_run *run);

#endif
