/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/derived.h - the gpus that a pipeline runs on, and the objects that it uses, whichever
 * the shape of its operator: sources and sink, or the objects of an access operator.
 */
#ifndef CONFIG_DERIVED_H
#define CONFIG_DERIVED_H

#include "config/config.h"
#include "config/base/json.h"

/* Number of gpus that the pipeline runs on, and the index of the k-th in hr_config.gpu. */
static inline uint32_t hr_config_gpus(const struct hr_config_pipeline *p)
{
	return 1 + p->other_gpus;
}
static inline uint32_t hr_config_gpu(const struct hr_config_pipeline *p, uint32_t k)
{
	return k ? p->other_gpu[k - 1] : p->gpu;
}

/* True when the results go to other processes. */
static inline bool hr_config_has_tap(const struct hr_config_pipeline *p)
{
	return p->tap.name[0];
}

/* True when another process fills the tiles of the only source. */
static inline bool hr_config_has_feed(const struct hr_config_pipeline *p)
{
	return p->feed.name[0];
}

/* True when the results go to another appliance, and when the tiles come from one. The tap or the feed
 * of such a pipeline has no socket: the engine itself is the consumer or the producer. */
static inline bool hr_config_sends(const struct hr_config_pipeline *p)
{
	return p->to.address[0];
}
static inline bool hr_config_receives(const struct hr_config_pipeline *p)
{
	return p->from.address[0];
}
static inline bool hr_config_is_remote(const struct hr_config_pipeline *p)
{
	return hr_config_sends(p) || hr_config_receives(p);
}

/* Number of sources that are objects: all of them, or none with a feed. */
static inline uint32_t hr_config_source_objects(const struct hr_config_pipeline *p)
{
	return hr_config_has_feed(p) ? 0 : p->sources;
}

/* True when a role takes the results: write-back, or the tap. */
static inline bool hr_config_has_output(const struct hr_config_pipeline *p)
{
	return p->has_sink || hr_config_has_tap(p);
}

/* True when the pipeline runs on gpu g. */
bool hr_config_uses_gpu(const struct hr_config_pipeline *p, uint32_t g);

/* The names of its gpus, "g0, g1", in text, which is returned. HR_GPUS_MAX * HR_NAME_MAX bytes hold
 * all. */
const char *hr_config_gpu_names(const struct hr_config *config, const struct hr_config_pipeline *p,
				char *text, size_t bytes);

/* Add "gpu", the first of them, and the array "gpus" of all. */
/* The name of the operator in the configuration. */
static inline const char *hr_config_operator_name(const struct hr_config *config,
						  const struct hr_config_pipeline *p)
{
	/* the supervisor has no descriptions of user operators */
	return p->user_op ? config->op[p->user_op - 1].name : p->op->name;
}

void hr_config_gpus_json(const struct hr_config *config, const struct hr_config_pipeline *p,
			 struct hr_json *out);

/* The k-th object that the pipeline reads (or may read), writes, or creates; NULL: there are no
 * more. The objects that it creates are among those that it writes. */
const struct hr_config_object *hr_config_reads(const struct hr_config_pipeline *p, uint32_t k);
const struct hr_config_object *hr_config_writes(const struct hr_config_pipeline *p, uint32_t k);
const struct hr_config_object *hr_config_creates(const struct hr_config_pipeline *p, uint32_t k);

/* True when an object that the pipeline uses is on that ssd. */
bool hr_config_uses_ssd(const struct hr_config_pipeline *p, uint32_t ssd);

/* The first object on that ssd that the pipeline writes, or NULL. */
const struct hr_config_object *hr_config_writes_ssd(const struct hr_config_pipeline *p,
						    uint32_t ssd);

/* True when the pipeline creates an object of that name on that ssd: a sink, or a new object. */
bool hr_config_creates_name(const struct hr_config_pipeline *p, uint32_t ssd, const char *name);

/* True when each start of the pipeline gives that name a new version: it creates the object, or the
 * name is that of an older version of its sink (keep). */
bool hr_config_makes_version(const struct hr_config_pipeline *p, uint32_t ssd, const char *name);

/*
 * Number of the version when `name` names an older one of `keep` versions of an object: "NAME.1" is
 * the newest of those, "NAME.<keep - 1>" the oldest. 0: it does not.
 */
uint32_t hr_config_version_of(const char *name, const char *object, uint32_t keep);

/* True when a pipeline can start more than once. */
bool hr_config_repeats(const struct hr_config *config);

/* The level of messages under `headrace boot`: that of the file, or HR_LOG_INFO. */
enum hr_log_level hr_config_boot_log(const struct hr_config *config);

/* "every 10m", "at Sun 03:00", "after 'other'": for reports. Returns text. */
const char *hr_when_text(const struct hr_config_when *when, char *text, size_t bytes);

/* "Sun" ... "Sat". */
extern const char *const hr_when_days[7];

/* Name of each policy, "clock", "lru", "stream", "count"; then NULL. */
extern const char *const hr_config_policies[];

#endif
