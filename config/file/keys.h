/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/file/keys.h - the groups of keys of a configuration, one function for each; for files
 * of this folder.
 */
#ifndef CONFIG_FILE_KEYS_H
#define CONFIG_FILE_KEYS_H

#include <stdbool.h>

#include "config/config.h"
#include "config/file/group.h"
#include "config/file/mistakes.h"

/* ---- checks that the settings of a pipeline, and those of several pipelines, fit each other */

struct hr_group;
struct hr_mistakes;

/*
 * Check tile, slots, blocks, queues and memory of a pipeline against each other.
 * hr_config_pipeline_read() has returned true for it.
 */
void hr_config_pipeline_check(const struct hr_config *config, struct hr_config_pipeline *pipeline,
			      const struct hr_group *group);

/* Check that no pipeline writes one of its sources, and that no two pipelines write one object. */
void hr_config_sinks_check(const struct hr_config *config, struct hr_mistakes *mistakes);

/* ---- the keys of a pipeline with an access operator */

/* Read `objects` and `cache` of a pipeline whose operator is known. False after a mistake. */
bool hr_config_access_read(const struct hr_config *config, const struct hr_group *group,
			   struct hr_config_pipeline *pipeline);

/* Check the objects against the operator, and the cache against the memory. */
void hr_config_access_check(const struct hr_config *config,
			    const struct hr_config_pipeline *pipeline,
			    const struct hr_group *group);

/* ---- reads the group `args` of a pipeline */

/*
 * Pass args = { ... } (or no arguments) to the operator's parser; the result is pipeline->op_args.
 * False after a mistake.
 */
bool hr_config_args_read(struct hr_config_pipeline *pipeline, const struct hr_group *group);

/* ---- reads the group `boot` */

/* Set the defaults, which apply without the group or without a key of it. */
void hr_config_boot_default(struct hr_config_boot *boot);

/* Read the group. */
void hr_config_boot_read(struct hr_config_boot *boot, const struct hr_group *group);

/* ---- the group `control`: which users may send requests to a running appliance.
 * For config/file/file.c only.
 */

void hr_config_control_default(struct hr_config_control *control);
void hr_config_control_read(struct hr_config_control *control, const struct hr_group *group);

/* Set *number to that of the member `group`, a name in /etc/group or a number; otherwise it is a
 * mistake. For config/file/tap.c as well. */
void hr_config_control_group(uint32_t *number, const struct hr_group *group, const char *name);

/* ---- pipelines whose ends start each other.
 *
 * The end of a pipeline starts those with `after` of it, and those with `on` of an object that it
 * makes: its sink, the older versions of its sink (keep), or a new object of an access operator. A
 * cycle of such starts is a mistake. When all of them are `after`, no pipeline of the cycle ever
 * starts; otherwise one new version of an object starts all of them again and again. Pipelines
 * that are meant to alternate without end have `forever` in one of them, which makes the intent
 * visible, and `after` in the others.
 */

/*
 * Report each cycle once, at its first pipeline in the file, with its pipelines and objects. The
 * names in the keys have been resolved (hr_config_when_check()).
 */
void hr_config_cycles_check(const struct hr_config *config, struct hr_mistakes *mistakes);

/* ---- a source that is a feed: source = { feed = "NAME"; ... }. For
 * config/file/pipeline.c and config/file/check.c only.
 */

/* True when the member `source` of the pipeline has the key `feed`. */
bool hr_config_feed_is_source(const struct hr_group *pipeline);

/* Read that source. False: it has mistakes, which were reported. */
bool hr_config_feed_read(struct hr_config_feed *feed, const struct hr_group *pipeline);

/* Check the feed of a pipeline whose operator and tile are known. */
void hr_config_feed_check(const struct hr_config_pipeline *pipeline, const struct hr_group *group);

/* Check that no two feeds have the same name. */
void hr_config_feeds_check(const struct hr_config *config, struct hr_mistakes *mistakes);

/* ---- the group `health`: what a critical warning of an ssd does. For
 * config/file/file.c only.
 */

void hr_config_health_read(struct hr_config_health *health, const struct hr_group *group);

/* ---- reads an object of a pipeline, and the name of one of the ssds or
 * gpus; for files of config/ only.
 */

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

/* ---- reads the list `operators`, and finds operators by name; for files of config/ only */

/* The built-in operator of that name; NULL: none. */
const struct hr_operator *hr_config_operator_find(const struct hr_config *config, const char *name);

/* Read user operator i from its group and load it. After a mistake it has no description. */
void hr_config_operator_read(struct hr_config *config, const struct hr_group *group, unsigned i);

/* ---- reads one element of the list `pipelines` */

/*
 * Read pipeline i from its group: resolve names, parse arguments, fill in defaults. False after a
 * mistake that makes the checks of sizes meaningless.
 */
bool hr_config_pipeline_read(struct hr_config *config, const struct hr_group *group, unsigned i);

/* ---- sinks and sources that are streams of tiles to and from other appliances:
 * sink = { remote = "ADDRESS:PORT"; ... }, source = { remote = "ADDRESS:PORT"; ... }, and the group
 * `remote` with what all of them share. For config/file/file.c, config/file/pipeline.c and
 * config/file/check.c only.
 */

/* Read the group `remote` of the file. */
void hr_config_remotes_read(struct hr_config *config, const struct hr_group *group);

/* Read the group `sink` of a pipeline whose sink has the key `remote`. */
void hr_config_remote_sink_read(struct hr_config_pipeline *pipeline, const struct hr_group *sink);

/* True when the member `source` of the pipeline has the key `remote`. */
bool hr_config_remote_is_source(const struct hr_group *pipeline);

/* Read that source. False: it has mistakes, which were reported. */
bool hr_config_remote_source_read(struct hr_config_pipeline *pipeline,
				  const struct hr_group *group);

/* Check all streams after all pipelines have been read: the key, addresses, names, schedules. */
void hr_config_remotes_check(const struct hr_config *config, struct hr_mistakes *mistakes);

/* ---- a sink that is a tap: sink = { tap = "NAME"; ... }. For
 * config/file/pipeline.c and config/file/check.c only.
 */

/* Bytes of an element of that type, "f32", "bf16", ...; 0: there is no such type, or it is "". */
uint32_t hr_config_dtype_bytes(const char *dtype);

/* Check the keys dtype and columns of a tap or feed. */
void hr_config_dtype_check(const struct hr_group *group, const char *dtype, uint32_t columns);

/* Read the group `sink` of a pipeline whose sink has the key `tap`. */
void hr_config_tap_read(struct hr_config_tap *tap, const struct hr_group *sink);

/* Check the tap of a pipeline whose operator and tile are known. */
void hr_config_tap_check(const struct hr_config_pipeline *pipeline, const struct hr_group *group);

/* Check that no two taps have the same name. */
void hr_config_taps_check(const struct hr_config *config, struct hr_mistakes *mistakes);

/* ---- ${rank} and ${local_rank} in a device string */

/*
 * Replace each ${NAME} in the value of the key `device` of a group by its number. device has
 * HR_DEVICE_MAX bytes. A '$' without '{' stays as it is. False: a mistake was reported (an unknown
 * name, a name without a value here, no '}', a result that is too long), and device is "".
 */
bool hr_config_variables(const struct hr_config *config, const struct hr_group *group,
			 char *device);

/* ---- when a pipeline starts: the keys every, at, after, on, forever and missed.
 *
 * A pipeline has at most one of every, at, after, on and forever; without one it starts once, when
 * the appliance boots. boot/appliance/schedule/timetable.h computes its starts.
 */

struct hr_group;
struct hr_mistakes;

/* The keys as the file gives them. */
struct hr_when_keys {
	uint64_t every_ns;
	char at[HR_NAME_MAX], after[HR_NAME_MAX], on[HR_NAME_MAX + 8];
	bool forever;
	uint32_t missed; /* 0: run, 1: skip */
};

/* "run", "skip", NULL. */
extern const char *const hr_when_missed[];

/* Check the keys of a pipeline's group, and set *when. Names are resolved by hr_config_when_check(). */
void hr_config_when_read(struct hr_config_when *when, const struct hr_when_keys *keys,
			 const struct hr_group *group);

/*
 * After all pipelines have been read: find the pipelines and objects that the keys name, refuse
 * cycles, and sinks that a second start could not write.
 */
void hr_config_when_check(struct hr_config *config, struct hr_mistakes *mistakes);

/* ---- whether the C library knows a time zone. It takes a value of TZ that it does not
 * know for UTC, without an error.
 */

/*
 * True for a value that TZ can have (tzset(3)): "", a file of TZDIR or /usr/share/zoneinfo like
 * "Europe/Berlin", the absolute path of such a file, both also after ':', and rules like
 * "CET-1CEST,M3.5.0,M10.5.0/3".
 */
bool hr_zone_is_known(const char *zone);

#endif
