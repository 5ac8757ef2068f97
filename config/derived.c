/* SPDX-License-Identifier: Apache-2.0 */
#include "config/derived.h"

#include <stdio.h>
#include <string.h>

enum kind { READS, WRITES, CREATES };

bool hr_config_uses_gpu(const struct hr_config_pipeline *p, uint32_t g)
{
	bool uses = false;

	for (uint32_t k = 0; k < hr_config_gpus(p); k++)
		uses |= hr_config_gpu(p, k) == g;
	return uses;
}

const char *hr_config_gpu_names(const struct hr_config *config, const struct hr_config_pipeline *p,
				char *text, size_t bytes)
{
	size_t at = 0;

	for (uint32_t k = 0; k < hr_config_gpus(p) && at < bytes; k++)
		at += (size_t)snprintf(text + at, bytes - at, "%s%s", k ? ", " : "",
				       config->gpu[hr_config_gpu(p, k)].name);
	return text;
}

void hr_config_gpus_json(const struct hr_config *config, const struct hr_config_pipeline *p,
			 struct hr_json *out)
{
	hr_json_string(out, "gpu", config->gpu[p->gpu].name);
	hr_json_array(out, "gpus");
	for (uint32_t k = 0; k < hr_config_gpus(p); k++)
		hr_json_string(out, NULL, config->gpu[hr_config_gpu(p, k)].name);
	hr_json_close(out);
}

static bool is_of(const struct hr_config_object *object, enum kind kind)
{
	if (!object->object[0])
		return false;
	return kind == READS ? !object->bytes : object->writes && (kind == WRITES || object->bytes);
}

static const struct hr_config_object *find_config_object(const struct hr_config_pipeline *p,
							 uint32_t k, enum kind kind)
{
	if (!p->objects && kind == READS)
		return k < hr_config_source_objects(p) ? &p->source[k] : NULL;
	if (!p->objects)
		return k == 0 && p->has_sink ? &p->sink : NULL;
	for (uint32_t i = 0; i < p->objects; i++)
		if (is_of(&p->object[i], kind) && k-- == 0)
			return &p->object[i];
	return NULL;
}

const struct hr_config_object *hr_config_reads(const struct hr_config_pipeline *p, uint32_t k)
{
	return find_config_object(p, k, READS);
}

const struct hr_config_object *hr_config_writes(const struct hr_config_pipeline *p, uint32_t k)
{
	return find_config_object(p, k, WRITES);
}

const struct hr_config_object *hr_config_creates(const struct hr_config_pipeline *p, uint32_t k)
{
	return find_config_object(p, k, CREATES);
}

static const struct hr_config_object *first_on(const struct hr_config_pipeline *p, uint32_t ssd,
					       enum kind kind)
{
	const struct hr_config_object *object;
	uint32_t k = 0;

	do
		object = find_config_object(p, k++, kind);
	while (object && object->ssd != ssd);
	return object;
}

const struct hr_config_object *hr_config_writes_ssd(const struct hr_config_pipeline *p,
						    uint32_t ssd)
{
	return first_on(p, ssd, WRITES);
}

bool hr_config_uses_ssd(const struct hr_config_pipeline *p, uint32_t ssd)
{
	return first_on(p, ssd, READS) || first_on(p, ssd, WRITES);
}

bool hr_config_creates_name(const struct hr_config_pipeline *p, uint32_t ssd, const char *name)
{
	const struct hr_config_object *object;

	for (uint32_t k = 0; (object = find_config_object(p, k, CREATES)) != NULL; k++)
		if (object->ssd == ssd && strcmp(object->object, name) == 0)
			return true;
	return false;
}

bool hr_config_makes_version(const struct hr_config_pipeline *p, uint32_t ssd, const char *name)
{
	return hr_config_creates_name(p, ssd, name) ||
	       (p->has_sink && p->sink.ssd == ssd &&
		hr_config_version_of(name, p->sink.object, p->sink.keep));
}

uint32_t hr_config_version_of(const char *name, const char *object, uint32_t keep)
{
	const size_t length = strlen(object);
	uint32_t version = 0;
	int end = 0;

	if (strncmp(name, object, length) != 0 || name[length] != '.' || name[length + 1] < '1' ||
	    name[length + 1] > '9' || strlen(name + length) > 4 ||
	    sscanf(name + length, ".%u%n", &version, &end) != 1 || name[length + (size_t)end])
		return 0;
	return version < keep ? version : 0;
}

bool hr_config_repeats(const struct hr_config *config)
{
	for (uint32_t i = 0; i < config->pipelines; i++)
		if (config->pipeline[i].when.kind != HR_WHEN_ONCE)
			return true;
	return false;
}

const char *const hr_when_days[7] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };

static const char *every_text(uint64_t ns, char *text, size_t bytes)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} unit[] = { { "d", 86400000000000 },
		     { "h", 3600000000000 },
		     { "m", 60000000000 },
		     { "s", 1000000000 },
		     { "ms", 1000000 } };
	size_t u = 0;

	while (u + 1 < HR_COUNT(unit) && ns % unit[u].ns)
		u++;
	snprintf(text, bytes, "every %llu%s", (unsigned long long)(ns / unit[u].ns), unit[u].name);
	return text;
}

const char *hr_when_text(const struct hr_config_when *when, char *text, size_t bytes)
{
	switch (when->kind) {
	case HR_WHEN_EVERY:
		return every_text(when->every_ns, text, bytes);
	case HR_WHEN_AT:
		snprintf(text, bytes, "at %s%s%02u:%02u",
			 when->at_day < 0 ? "" : hr_when_days[when->at_day],
			 when->at_day < 0 ? "" : " ", when->at_minute / 60, when->at_minute % 60);
		return text;
	case HR_WHEN_AFTER:
		snprintf(text, bytes, "after '%s'", when->text);
		return text;
	case HR_WHEN_OBJECT:
		snprintf(text, bytes, "on object '%s'", when->text);
		return text;
	case HR_WHEN_REQUEST:
		return "on request";
	case HR_WHEN_FOREVER:
		return "forever";
	case HR_WHEN_ONCE:
		break;
	}
	return "once";
}

const char *const hr_config_policies[] = { "clock", "lru", "stream", "count", NULL };

enum hr_log_level hr_config_boot_log(const struct hr_config *config)
{
	return config->log_chosen ? config->log : HR_LOG_INFO;
}
