/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/log.h"
#include "nvme/soft/soft.h"

#define DEFAULT_MDTS 8u
#define DEFAULT_CACHE (16ull << 20) /* for an image; memory is itself volatile */
#define CACHE_MAX (4ull << 30)
#define CACHE_UNSET UINT64_MAX
#define CPU_MAX 1023u /* maximum of a cpu_set_t */

/* Parse a number with an optional K, M, G or T. False: not a number, or above max. */
static bool parse_size(const char *text, uint64_t max, uint64_t *value)
{
	static const char unit[] = "KMGT";
	const char *found;
	char *end;
	unsigned shift = 0;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	if (errno)
		return false;
	if (*end) {
		found = strchr(unit, *end++);
		if (!found)
			return false;
		shift = 10 * (unsigned)(found - unit + 1);
	}
	if (*end || *value > max >> shift)
		return false;
	*value <<= shift;
	return true;
}

static bool is_block(uint64_t v)
{
	return v == 512 || v == 4096;
}

/* Parse "A-B", or "A" for one CPU. */
static int set_cpus(struct hr_soft_options *o, const char *text, struct hr_error *e)
{
	char first[16];
	const char *dash = strchr(text, '-');
	const size_t n = dash ? (size_t)(dash - text) : strlen(text);
	uint64_t from, to;

	snprintf(first, sizeof(first), "%.*s", (int)(n < sizeof(first) ? n : sizeof(first) - 1),
		 text);
	if (n >= sizeof(first) || !parse_size(first, CPU_MAX, &from) ||
	    !parse_size(dash ? dash + 1 : first, CPU_MAX, &to) || to < from)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft: cpus=%s: expected FIRST-LAST, from 0 to %u", text, CPU_MAX);
	o->first_cpu = (uint32_t)from;
	o->cpus = (uint32_t)(to - from) + 1;
	return 0;
}

static const char *const quirk_name[] = {
	"no-shutdown", "late-ready", "early-ready", "admin-64",	 "ones",      "medium-priority",
	"same-eui64",  "same-nguid", "same-serial", "sqhd-back", "list-end",  "few-queues",
	"no-compare",  "peer-ones",  "peer-drop",   "peer-swap", "peer-late", "peer-stray",
};
#define QUIRKS (sizeof(quirk_name) / sizeof(*quirk_name)) /* bits of enum hr_soft_quirk */

static int wrong_quirk(const char *name, struct hr_error *e)
{
	hr_fail(e, HR_ERROR_USAGE, -EINVAL,
		"soft: quirks=: '%s': expected some of these, with '+' between them:", name);
	for (size_t i = 0; i < QUIRKS; i++)
		hr_error_append(e, "%s%s", i ? ", " : " ", quirk_name[i]);
	return -EINVAL;
}

/* Parse "NAME+NAME". */
static int set_quirks(struct hr_soft_options *o, char *text, struct hr_error *e)
{
	const char *name;

	while ((name = strsep(&text, "+"))) {
		size_t i = 0;

		while (i < QUIRKS && strcmp(name, quirk_name[i]) != 0)
			i++;
		if (i == QUIRKS)
			return wrong_quirk(name, e);
		o->quirks |= 1u << i;
	}
	return 0;
}

/* Parse "VENDOR:DEVICE", four hexadecimal digits each, as lspci -nn prints them. */
static int set_id(struct hr_soft_options *o, const char *text, struct hr_error *e)
{
	static const char digits[] = "0123456789abcdefABCDEF";

	if (strlen(text) != 9 || strspn(text, digits) != 4 || text[4] != ':' ||
	    strspn(text + 5, digits) != 4)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft: id=%s: expected VENDOR:DEVICE, like 144d:a821", text);
	o->vendor = (uint16_t)strtoul(text, NULL, 16);
	o->device = (uint16_t)strtoul(text + 5, NULL, 16);
	return 0;
}

static int set_soft_option(struct hr_soft_options *o, const char *key, char *text,
			   struct hr_error *e)
{
	uint64_t v = 0;
	const bool size = strcmp(key, "size") == 0;

	if (strcmp(key, "faults") == 0) {
		if (!*text)
			return hr_fail(e, HR_ERROR_USAGE, -EINVAL, "soft: faults= names no file");
		snprintf(o->faults, sizeof(o->faults), "%s", text);
		return 0;
	}
	if (strcmp(key, "cpus") == 0)
		return set_cpus(o, text, e);
	if (strcmp(key, "quirks") == 0)
		return set_quirks(o, text, e);
	if (strcmp(key, "id") == 0)
		return set_id(o, text, e);
	if (!parse_size(text, INT64_MAX, &v))
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft: %s=%s: not a number (digits, then K, M, G or T)", key, text);
	if (size && v)
		o->bytes = v;
	else if (strcmp(key, "lba") == 0 && is_block(v))
		o->block_bytes = (uint32_t)v;
	else if (strcmp(key, "mdts") == 0 && v <= 15)
		o->mdts = (uint32_t)v;
	else if (strcmp(key, "dstrd") == 0 && v <= 8)
		o->dstrd = (uint32_t)v;
	else if (strcmp(key, "cache") == 0 && v <= CACHE_MAX)
		o->cache_bytes = v;
	else if (strcmp(key, "threads") == 0 && v >= 1 && v <= HR_SOFT_THREADS_MAX)
		o->threads = (uint32_t)v;
	else if (strcmp(key, "populate") == 0 && v <= 1)
		o->populate = v;
	else if (strcmp(key, "readonly") == 0 && v <= 1)
		o->read_only = v;
	else if (strcmp(key, "shared") == 0 && v <= 1)
		o->shared = v;
	else if (strcmp(key, "namespaces") == 0 && v >= 1 && v <= HR_SOFT_NAMESPACES_MAX)
		o->namespaces = (uint32_t)v;
	else if (strcmp(key, "zoned") == 0 && v <= 1)
		o->zoned = v;
	else if (strcmp(key, "reservations") == 0 && v <= HR_SOFT_RESERVED)
		o->reservations = (uint32_t)v;
	else if (strcmp(key, "kelvin") == 0 && v >= 1 && v <= UINT16_MAX)
		o->kelvin = (uint32_t)v;
	else if (strcmp(key, "spare") == 0 && v <= 100)
		o->spare_gone = 100 - (uint32_t)v;
	else if (strcmp(key, "used") == 0 && v <= UINT8_MAX)
		o->used = (uint32_t)v;
	else
		return hr_fail(
			e, HR_ERROR_USAGE, -EINVAL,
			"soft: %s=%s: expected size=1.., lba=512|4096, mdts=0..15, dstrd=0..8, "
			"cache=0..4G, threads=1..%u, cpus=FIRST-LAST, populate=0|1, readonly=0|1, "
			"shared=0|1, namespaces=1..%u, zoned=0|1, reservations=0|1|2, "
			"kelvin=1..65535, spare=0..100, used=0..255, quirks=NAME+NAME, "
			"id=VENDOR:DEVICE or faults=FILE",
			key, text, HR_SOFT_THREADS_MAX, HR_SOFT_NAMESPACES_MAX);
	return 0;
}

static int check_soft_options(const struct hr_soft_options *o, struct hr_error *e)
{
	if (!*o->path && o->bytes == 0)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft:%s needs size=, like soft:%s,size=1G",
			       o->null ? "null" : "memory", o->null ? "null" : "memory");
	if (o->null && (o->cache_bytes || o->populate))
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft:null keeps no data: it does not accept cache= and "
			       "populate=");
	if (o->bytes % o->block_bytes)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft: size=%llu is not whole blocks of %u",
			       (unsigned long long)o->bytes, o->block_bytes);
	if (o->cache_bytes % o->block_bytes)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft: cache=%llu is not whole blocks of %u",
			       (unsigned long long)o->cache_bytes, o->block_bytes);
	if (o->cpus && o->cpus < o->threads)
		return hr_fail(
			e, HR_ERROR_USAGE, -EINVAL,
			"soft: cpus= has %u CPUs for threads=%u; expected one CPU per thread",
			o->cpus, o->threads);
	if (o->shared && !*o->path)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft: shared=1 needs an image: memory has one controller");
	if (o->shared && o->cache_bytes)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft: shared=1 needs cache=0: a controller does not see data that "
			       "another controller caches");
	if (o->zoned && o->namespaces > 1)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft: zoned=1 has one namespace; expected namespaces=1");
	if (o->zoned && o->reservations)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft: zoned=1 has no reservations: leave reservations= out");
	if (o->populate && o->shared)
		return hr_fail(
			e, HR_ERROR_USAGE, -EINVAL,
			"soft: populate=1 and shared=1: a controller does not see what another "
			"one writes to an image that it holds in memory");
	return 0;
}

int hr_soft_parse(const char *text, struct hr_soft_options *options, struct hr_error *e)
{
	char copy[2 * HR_DEVICE_MAX], *rest = copy, *item, *value;
	int err = 0;

	memset(options, 0, sizeof(*options));
	options->block_bytes = 4096;
	options->mdts = DEFAULT_MDTS;
	options->threads = 1;
	options->namespaces = 1;
	if (strlen(text) >= HR_DEVICE_MAX)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL, "soft: longer than %u characters",
			       HR_DEVICE_MAX - 1);
	snprintf(copy, sizeof(copy), "%s", text);
	item = strsep(&rest, ",");
	if (!*item)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft: no path: expected soft:PATH, soft:memory or soft:null");
	options->null = strcmp(item, "null") == 0;
	if (!options->null && strcmp(item, "memory") != 0) {
		snprintf(options->path, sizeof(options->path), "%s", item);
		options->cache_bytes = CACHE_UNSET;
	}
	while (!err && (item = strsep(&rest, ","))) {
		value = strchr(item, '=');
		if (!value)
			return hr_fail(e, HR_ERROR_USAGE, -EINVAL, "soft: '%s': expected KEY=VALUE",
				       item);
		*value++ = '\0';
		err = set_soft_option(options, item, value, e);
	}
	if (options->cache_bytes == CACHE_UNSET)
		options->cache_bytes = options->shared || options->read_only ? 0 : DEFAULT_CACHE;
	return err ? err : check_soft_options(options, e);
}
