#include "config/uses.h"

#include <stdio.h>
#include <string.h>

#include "config/check.h"

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

static const struct hr_config_object *find(const struct hr_config_pipeline *p, uint32_t k,
					   enum kind kind)
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
	return find(p, k, READS);
}

const struct hr_config_object *hr_config_writes(const struct hr_config_pipeline *p, uint32_t k)
{
	return find(p, k, WRITES);
}

const struct hr_config_object *hr_config_creates(const struct hr_config_pipeline *p, uint32_t k)
{
	return find(p, k, CREATES);
}

static const struct hr_config_object *first_on(const struct hr_config_pipeline *p, uint32_t ssd,
					       enum kind kind)
{
	const struct hr_config_object *object;
	uint32_t k = 0;

	do
		object = find(p, k++, kind);
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

	for (uint32_t k = 0; (object = find(p, k, CREATES)) != NULL; k++)
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
