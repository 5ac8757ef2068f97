/*
 * boot/appliance/schedule/timetable_json.h - the starts of a pipeline in JSON, for `status`
 * and `check`.
 */
#ifndef BOOT_APPLIANCE_SCHEDULE_TIMETABLE_JSON_H
#define BOOT_APPLIANCE_SCHEDULE_TIMETABLE_JSON_H

#include "boot/appliance/schedule/timetable.h"
#include "config/base/json.h"

/* "none", "running", "done", "failed", "interrupted". */
const char *hr_start_outcome_name(const struct hr_start *start);

/* Add the members of pipeline i to an open object; times that are unknown are left out. */
void hr_timetable_json(struct hr_json *j, const struct hr_timetable *t, uint32_t i,
		       const struct hr_moment *at);

#endif
