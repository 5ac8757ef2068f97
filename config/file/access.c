/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <string.h>

#include "config/base/text.h"
#include "config/derived.h"

#define FRAMES_MAX UINT32_MAX /* pages have 32-bit numbers, so more frames are never filled */

/* `frames` is a number of pages, or memory as a string like "1G". */
static const struct hr_field cache_fields[] = {
	{ "frames", HR_FIELD_SIZE, .offset = offsetof(struct hr_config_cache, frames),
	  .min = HR_CACHE_FRAMES_MIN, .max = FRAMES_MAX },
	{ "page", HR_FIELD_SIZE32, .offset = offsetof(struct hr_config_cache, page_bytes),
	  .min = HR_CACHE_PAGE_MIN, .max = HR_CACHE_PAGE_MAX },
	{ "policy", HR_FIELD_CHOICE, .offset = offsetof(struct hr_config_cache, policy),
	  .choices = hr_config_policies },
};

static const struct hr_field cache_fields_of_bytes[] = {
	{ "frames", HR_FIELD_SIZE, .offset = offsetof(struct hr_config_cache, frame_bytes),
	  .min = 1, .max = INT64_MAX },
	{ "page", HR_FIELD_SIZE32, .offset = offsetof(struct hr_config_cache, page_bytes),
	  .min = HR_CACHE_PAGE_MIN, .max = HR_CACHE_PAGE_MAX },
	{ "policy", HR_FIELD_CHOICE, .offset = offsetof(struct hr_config_cache, policy),
	  .choices = hr_config_policies },
};

static void read_cache(const struct hr_group *group, struct hr_config_cache *cache)
{
	struct hr_group member;
	const config_setting_t *frames;

	cache->page_bytes = HR_CACHE_PAGE_MIN;
	if (!hr_group_member(group, "cache", &member))
		return;
	frames = config_setting_get_member(member.setting, "frames");
	if (frames && config_setting_type(frames) == CONFIG_TYPE_STRING)
		hr_group_read(&member, cache_fields_of_bytes, HR_COUNT(cache_fields_of_bytes),
			      cache);
	else
		hr_group_read(&member, cache_fields, HR_COUNT(cache_fields), cache);
	if (cache->page_bytes & (cache->page_bytes - 1))
		hr_group_mistake(&member, "page", "is %u bytes, expected 4K, 8K, 16K, 32K or 64K",
				 cache->page_bytes);
}

/* Index of the operator's object with that name; -1 after a mistake was reported. */
static int find_object(const struct hr_group *objects, const struct hr_operator *op,
		       const char *name)
{
	const char *known[HR_OBJECTS_MAX], *near;
	char list[HR_MISTAKE_BYTES / 2] = "";
	size_t at = 0;

	for (uint32_t i = 0; i < op->objects; i++) {
		known[i] = op->object[i].name;
		if (strcmp(known[i], name) == 0)
			return (int)i;
		if (at < sizeof list)
			at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "",
					       known[i]);
	}
	near = hr_nearest(name, known, op->objects);
	if (near)
		hr_group_mistake(objects, name,
				 "operator %s has no such object; did you mean '%s'?", op->name,
				 near);
	else
		hr_group_mistake(objects, name,
				 "operator %s has no such object; expected one of: %s", op->name,
				 list);
	return -1;
}

static bool read_object(const struct hr_config *config, const struct hr_group *objects,
			const struct hr_operator *op, unsigned at,
			struct hr_config_pipeline *pipeline)
{
	const config_setting_t *setting = config_setting_get_elem(objects->setting, at);
	const char *name = config_setting_name(setting);
	const int i = find_object(objects, op, name);
	struct hr_config_object *object;
	struct hr_group group;
	bool good;

	if (i < 0)
		return false;
	if (!hr_group_member(objects, name, &group)) {
		hr_group_mistake(objects, name,
				 "expected a group: %s = { ssd = \"ssd0\"; object = \"data\"; };",
				 name);
		return false;
	}
	object = &pipeline->object[i];
	good = hr_config_object_read(config, &group, HR_OBJECT_ACCESS, object);
	object->writes = op->object[i].writes;
	if (!object->writes && (object->bytes || object->replace)) {
		hr_group_mistake(&group, object->bytes ? "bytes" : "replace",
				 "operator %s only reads this object; expected an object that "
				 "exists, without 'bytes' and 'replace'",
				 op->name);
		return false;
	}
	if (!object->writes && config_setting_get_member(group.setting, "checksum")) {
		hr_group_mistake(&group, "checksum",
				 "operator %s only reads this object; expected 'verify' of the "
				 "pipeline, which compares it with its checksum",
				 op->name);
		return false;
	}
	if (object->replace && !object->bytes) {
		hr_group_mistake(&group, "replace",
				 "expected 'bytes' beside it: the length of the new object");
		return false;
	}
	return good;
}

bool hr_config_access_read(const struct hr_config *config, const struct hr_group *group,
			   struct hr_config_pipeline *pipeline)
{
	const struct hr_operator *op = pipeline->op;
	const uint32_t before = group->mistakes->count;
	struct hr_group objects;

	read_cache(group, &pipeline->cache);
	pipeline->objects = op->objects;
	if (!config_setting_get_member(group->setting, "objects"))
		hr_group_mistake(group, NULL,
				 "key 'objects' is missing; expected for example: objects = { %s = "
				 "{ ssd = \"ssd0\"; object = \"data\"; }; };",
				 op->object[0].name);
	if (!hr_group_member(group, "objects", &objects))
		return false;
	for (unsigned i = 0; i < (unsigned)config_setting_length(objects.setting); i++)
		read_object(config, &objects, op, i, pipeline);
	for (uint32_t i = 0; i < op->objects; i++)
		if (!op->object[i].optional &&
		    !config_setting_get_member(objects.setting, op->object[i].name))
			hr_group_mistake(&objects, NULL,
					 "object '%s' of operator %s is missing: %s; expected for "
					 "example: %s = { ssd = \"ssd0\"; object = \"data\"; };",
					 op->object[i].name, op->name, op->object[i].help,
					 op->object[i].name);
	return group->mistakes->count == before;
}

static bool same_object(const struct hr_config_object *a, const struct hr_config_object *b)
{
	return a->ssd == b->ssd && strcmp(a->object, b->object) == 0;
}

/* Each object has pages of its own in the cache, so a written object must not be there twice. */
static void check_objects(const struct hr_config_pipeline *p, const struct hr_group *group)
{
	for (uint32_t i = 0; i < p->objects; i++)
		for (uint32_t j = 0; j < i; j++)
			if (p->object[i].object[0] && same_object(&p->object[i], &p->object[j]) &&
			    (p->object[i].writes || p->object[j].writes))
				hr_mistake(
					group->mistakes, p->object[i].line,
					"%s.objects: '%s' is already object '%s' of the operator "
					"on line %u, and the operator writes one of them; "
					"expected another",
					group->path, p->object[i].object, p->op->object[j].name,
					p->object[j].line);
}

/* The largest memory that frames can have; the partition checks the sum of all parts. */
static uint64_t frame_limit(const struct hr_config *config)
{
	const uint64_t host = config->memory_host, gpu = config->memory_gpu;

	if (!host || !gpu)
		return 0;
	return host > gpu ? host : gpu;
}

void hr_config_access_check(const struct hr_config *config, const struct hr_config_pipeline *p,
			    const struct hr_group *group)
{
	const uint64_t limit = frame_limit(config);
	uint64_t bytes = p->cache.frame_bytes;
	struct hr_group cache;

	check_objects(p, group);
	if (p->threads % 32)
		hr_group_mistake(group, "threads", "is %u, expected a multiple of 32", p->threads);
	if (!hr_group_member(group, "cache", &cache))
		return;
	if (p->cache.frames)
		bytes = p->cache.frames * p->cache.page_bytes;
	else if (bytes && bytes < (uint64_t)HR_CACHE_FRAMES_MIN * p->cache.page_bytes)
		hr_group_mistake(
			&cache, "frames", "is %llu bytes, expected at least %u pages of %u bytes",
			(unsigned long long)bytes, HR_CACHE_FRAMES_MIN, p->cache.page_bytes);
	if (limit && bytes > limit)
		hr_group_mistake(&cache, "frames", "frames take %llu bytes, but memory allows %llu",
				 (unsigned long long)bytes, (unsigned long long)limit);
}
