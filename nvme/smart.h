/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/smart.h - the health log of a controller: SMART / Health Information, log page 02h.
 *
 * Spec: NVMe Base 2.0, 5.16.1.3. All values come from the device: each is used as it is, and none is
 * an index or a length. Pure, but for the messages of hr_smart_log().
 */
#ifndef NVME_SMART_H
#define NVME_SMART_H

#include <stdbool.h>
#include <stdint.h>

#define HR_SMART_BYTES 512u  /* of the log page */
#define HR_SMART_WARNINGS 5u /* bits of the critical warning that are defined for disks */

/* Words of 8 bytes only: a part of the record that an engine shares with its supervisor. */
struct hr_smart {
	uint64_t known;		   /* 0 or 1: the log page has been read */
	uint64_t critical_warning; /* a bit for each of hr_smart_warning(), and reserved ones */
	uint64_t temperature_k;	   /* composite temperature in kelvin; 0: not reported */
	uint64_t spare_percent, spare_threshold_percent;
	uint64_t used_percent; /* of the endurance; 255: 255 and more */
	uint64_t media_errors; /* the 128-bit counters: their largest 64-bit value when larger */
	uint64_t unsafe_shutdowns;
	uint64_t power_on_hours;
};

/* Read the log page. */
void hr_smart_parse(struct hr_smart *smart, const void *page);

/* Name of bit i of the critical warning: "spare", "temperature", "reliability", "read_only",
 * "backup"; NULL from HR_SMART_WARNINGS on. */
const char *hr_smart_warning(uint32_t i);

/*
 * Log what has changed between two readings, as warnings: a critical warning that is set or no
 * longer set, more media errors, an endurance that is used up. The first reading is compared with a
 * controller without any of these. name: of the controller.
 */
void hr_smart_log(const char *name, const struct hr_smart *was, const struct hr_smart *now);

#endif
