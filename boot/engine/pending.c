#include "boot/engine/pending.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "config/log.h"

void hr_pending_hint(const struct hr_store *store, const char *device, int err)
{
	struct hr_store_space space;

	if (err != -ENOSPC && err != -ENFILE)
		return;
	hr_store_space(store, &space);
	if (space.pending_objects)
		hr_error("%s: %u incomplete object%s hold%s %llu bytes: 'headrace store rm "
			 "--pending %s' removes what no run is to go on with",
			 store->blk->name, space.pending_objects,
			 space.pending_objects == 1 ? "" : "s",
			 space.pending_objects == 1 ? "s" : "", (unsigned long long)space.pending,
			 device);
}

struct choice {
	uint64_t before_ns; /* CLOCK_REALTIME */
	bool (*keep)(void *arg, const struct hr_object *object);
	void *arg;
};

static bool is_old(void *arg, const struct hr_object *object)
{
	const struct choice *choice = arg;

	return (object->flags & HR_OBJECT_PENDING) && object->created_ns <= choice->before_ns &&
	       !(choice->keep && choice->keep(choice->arg, object));
}

/* 0: the clock is before 1970, and no object is older than it. */
static uint64_t moment_before(uint64_t age_ns)
{
	struct timespec now;
	uint64_t now_ns = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec > 0)
		now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return now_ns > age_ns ? now_ns - age_ns : 0;
}

bool hr_pending_is_old(const struct hr_object *object, uint64_t age_ns)
{
	return object->created_ns < moment_before(age_ns);
}

int hr_pending_remove(struct hr_store *store, uint64_t age_ns,
		      bool (*keep)(void *arg, const struct hr_object *object), void *arg,
		      uint32_t *count, uint64_t *bytes)
{
	struct choice choice = { age_ns ? moment_before(age_ns) : UINT64_MAX, keep, arg };

	return hr_store_remove_some(store, is_old, &choice, count, bytes);
}

/* Which ssd is looked at. */
struct collection {
	const struct hr_appliance *app;
	uint32_t ssd;
};

/* Its sources are not known to be the same until the sinks are judged, so the name decides. */
static bool is_sink(void *arg, const struct hr_object *object)
{
	const struct collection *c = arg;

	for (uint32_t i = 0; i < c->app->config.pipelines; i++) {
		const struct hr_config_pipeline *p = &c->app->config.pipeline[i];

		if (p->has_sink && p->sink.ssd == c->ssd &&
		    strcmp(p->sink.object, object->name) == 0)
			return true;
	}
	return false;
}

int hr_pending_collect(struct hr_appliance *app)
{
	int err = 0;

	for (uint32_t d = 0; app->collect_ns && !err && d < app->config.ssds; d++) {
		struct collection c = { app, d };
		struct hr_ssd *ssd = &app->ssd[d];
		uint32_t count = 0;
		uint64_t bytes = 0;

		if (!ssd->has_store || ssd->blk->read_only)
			continue;
		err = hr_pending_remove(&ssd->store, app->collect_ns, is_sink, &c, &count, &bytes);
		if (!err && count)
			hr_warn("ssd '%s': %u incomplete object%s of %llu bytes older than "
				"boot.collect removed",
				app->config.ssd[d].name, count, count == 1 ? "" : "s",
				(unsigned long long)bytes);
	}
	return err;
}
