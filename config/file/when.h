/*
 * config/file/when.h - when a pipeline starts: the keys every, at, after, on, forever and missed.
 *
 * A pipeline has at most one of every, at, after, on and forever; without one it starts once, when
 * the appliance boots. boot/appliance/schedule/timetable.h computes its starts.
 */
#ifndef CONFIG_FILE_WHEN_H
#define CONFIG_FILE_WHEN_H

#include "config/config.h"

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
 * cycles (config/file/cycles.h), and sinks that a second start could not write.
 */
void hr_config_when_check(struct hr_config *config, struct hr_mistakes *mistakes);

#endif
