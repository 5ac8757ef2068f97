/*
 * config/when.h - when a pipeline starts: the keys every, at, after, on, forever and missed.
 *
 * A pipeline has at most one of every, at, after, on and forever; without one it starts once, when
 * the appliance boots. boot/appliance/timetable.h computes its starts.
 */
#ifndef CONFIG_WHEN_H
#define CONFIG_WHEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/limits.h"

struct hr_config;
struct hr_group;
struct hr_mistakes;

enum hr_when_kind {
	HR_WHEN_ONCE, /* at boot */
	HR_WHEN_EVERY,
	HR_WHEN_AT,
	HR_WHEN_AFTER,
	HR_WHEN_OBJECT, /* on = "object NAME": a new version of an object that it reads */
	HR_WHEN_REQUEST,
	HR_WHEN_FOREVER,
};

#define HR_EVERY_MIN_NS 10000000ull		  /* 10 ms: shorter than a start takes */
#define HR_EVERY_MAX_NS (366ull * 86400000000000) /* a year */

struct hr_config_when {
	enum hr_when_kind kind;
	uint64_t every_ns;
	uint32_t at_minute;	/* of the day, local time */
	int32_t at_day;		/* 0: Sunday ... 6: Saturday; -1: each day */
	uint32_t after;		/* index in pipeline[] */
	uint32_t object_ssd;	/* index in ssd[]; the object's name is `text` */
	char text[HR_NAME_MAX]; /* name of the other pipeline, or of the object */
	bool skip;		/* missed = "skip" */
	unsigned line;		/* of the key; 0: none */
};

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
 * cycles (config/cycles.h), and sinks that a second start could not write.
 */
void hr_config_when_check(struct hr_config *config, struct hr_mistakes *mistakes);

/* True when a pipeline can start more than once. */
bool hr_config_repeats(const struct hr_config *config);

/* "every 10m", "at Sun 03:00", "after 'other'": for reports. Returns text. */
const char *hr_when_text(const struct hr_config_when *when, char *text, size_t bytes);

#endif
