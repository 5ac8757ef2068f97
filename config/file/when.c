/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "config/config.h"
#include "config/file/group.h"
#include "config/base/text.h"
#include "config/derived.h"
#include "config/base/files.h"

#define OBJECT "object "

const char *const hr_when_missed[] = { "run", "skip", NULL };

/* The keys of which a pipeline has at most one, in the order of enum hr_when_kind. */
static const struct {
	const char *key;
	enum hr_when_kind kind;
} starts[] = {
	{ "every", HR_WHEN_EVERY }, { "at", HR_WHEN_AT },	    { "after", HR_WHEN_AFTER },
	{ "on", HR_WHEN_OBJECT },   { "forever", HR_WHEN_FOREVER },
};

/* ---- one pipeline */

/* "03:00" or "Sun 03:00". */
static bool parse_at(const char *text, struct hr_config_when *when)
{
	unsigned hour, minute;
	int end = 0;

	when->at_day = -1;
	for (int day = 0; day < 7 && isalpha((unsigned char)text[0]); day++)
		if (strncasecmp(text, hr_when_days[day], 3) == 0 && text[3] == ' ')
			when->at_day = day;
	if (when->at_day >= 0)
		text += 4;
	if (strlen(text) != 5 || !isdigit((unsigned char)text[0]) ||
	    !isdigit((unsigned char)text[3]) ||
	    sscanf(text, "%2u:%2u%n", &hour, &minute, &end) != 2 || end != 5 || hour > 23 ||
	    minute > 59)
		return false;
	when->at_minute = hour * 60 + minute;
	return true;
}

static void read_at(struct hr_config_when *when, const char *at, const struct hr_group *group)
{
	const char *zone = getenv("TZ");

	if (at[0] && !parse_at(at, when))
		hr_group_mistake(group, "at",
				 "is \"%s\", expected a local time like \"03:00\", or with "
				 "a day like \"Sun 03:00\"",
				 at);
	if (zone && !hr_zone_is_known(zone))
		hr_group_mistake(group, "at",
				 "is a local time, and TZ in the environment is \"%.100s\", which "
				 "is no time zone of this machine; expected a name of "
				 "/usr/share/zoneinfo, or rules like CET-1CEST,M3.5.0,M10.5.0/3",
				 zone);
}

static void read_on(struct hr_config_when *when, const char *on, const struct hr_group *group)
{
	if (strcmp(on, "request") == 0) {
		when->kind = HR_WHEN_REQUEST;
	} else if (strncmp(on, OBJECT, strlen(OBJECT)) == 0 && on[strlen(OBJECT)] &&
		   strlen(on) - strlen(OBJECT) < sizeof when->text) {
		snprintf(when->text, sizeof when->text, "%s", on + strlen(OBJECT));
	} else if (on[0]) {
		hr_group_mistake(
			group, "on",
			"is \"%s\", expected \"request\" or \"object NAME\" with an object "
			"that the pipeline reads",
			on);
	}
}

/* A text that is not a duration has been reported. */
static void check_every(uint64_t ns, const struct hr_group *group)
{
	const char *text =
		config_setting_get_string(config_setting_get_member(group->setting, "every"));
	uint64_t parsed;

	if ((!text || hr_duration_parse(text, &parsed) == 0) &&
	    (ns < HR_EVERY_MIN_NS || ns > HR_EVERY_MAX_NS))
		hr_group_mistake(group, "every", "is %s, expected \"10ms\" to \"366d\"",
				 text ? text : "0");
}

static void read_value(struct hr_config_when *when, const struct hr_when_keys *keys,
		       const struct hr_group *group)
{
	if (when->kind == HR_WHEN_EVERY) {
		when->every_ns = keys->every_ns;
		check_every(keys->every_ns, group);
	} else if (when->kind == HR_WHEN_AT) {
		read_at(when, keys->at, group);
	} else if (when->kind == HR_WHEN_AFTER) {
		snprintf(when->text, sizeof when->text, "%s", keys->after);
	} else if (when->kind == HR_WHEN_OBJECT) {
		read_on(when, keys->on, group);
	} else if (!keys->forever) {
		when->kind = HR_WHEN_ONCE;
	}
}

/* `missed` is for starts that belong to a time, or to the end of another pipeline. */
static void check_missed(const struct hr_config_when *when, const struct hr_group *group)
{
	if (!config_setting_get_member(group->setting, "missed") || when->kind == HR_WHEN_EVERY ||
	    when->kind == HR_WHEN_AT || when->kind == HR_WHEN_AFTER)
		return;
	hr_group_mistake(group, "missed",
			 "belongs to every, at or after, and this pipeline has none of them");
}

void hr_config_when_read(struct hr_config_when *when, const struct hr_when_keys *keys,
			 const struct hr_group *group)
{
	const char *first = NULL;

	*when = (struct hr_config_when){ .at_day = -1, .skip = keys->missed == 1 };
	for (size_t k = 0; k < HR_COUNT(starts); k++) {
		if (!config_setting_get_member(group->setting, starts[k].key))
			continue;
		if (first) {
			hr_group_mistake(group, starts[k].key,
					 "cannot be used together with '%s' on line %u", first,
					 when->line);
			continue;
		}
		first = starts[k].key;
		when->kind = starts[k].kind;
		when->line = hr_group_line(group, first);
	}
	if (first)
		read_value(when, keys, group);
	check_missed(when, group);
}

/* ---- all pipelines */

static void find_pipeline(struct hr_config *config, struct hr_mistakes *mistakes, uint32_t i)
{
	struct hr_config_when *when = &config->pipeline[i].when;
	const char *names[HR_PIPELINES_MAX] = { NULL }, *near;

	if (!when->text[0])
		return;
	for (uint32_t j = 0; j < config->pipelines; j++) {
		names[j] = config->pipeline[j].name;
		when->after = strcmp(names[j], when->text) == 0 ? j : when->after;
	}
	if (strcmp(config->pipeline[when->after].name, when->text) == 0)
		return;
	near = hr_nearest(when->text, names, config->pipelines);
	when->kind = HR_WHEN_ONCE;
	hr_mistake(mistakes, when->line, "pipelines[%u].after: there is no pipeline '%s'%s%s%s", i,
		   when->text, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static void find_object(struct hr_config *config, struct hr_mistakes *mistakes, uint32_t i)
{
	struct hr_config_when *when = &config->pipeline[i].when;
	const struct hr_config_object *object;
	const char *known = NULL;

	if (!when->text[0])
		return;
	for (uint32_t k = 0; (object = hr_config_reads(&config->pipeline[i], k)) != NULL; k++) {
		known = known ? known : object->object;
		when->object_ssd = object->ssd;
		if (strcmp(object->object, when->text) == 0)
			return;
	}
	hr_mistake(mistakes, when->line,
		   "pipelines[%u].on: the pipeline does not read object '%s'%s%s%s", i, when->text,
		   known ? ", it reads '" : "", known ? known : "", known ? "'" : "");
	when->text[0] = '\0'; /* the report is made: no other check follows that name */
}

/* A sink that exists blocks the second start. */
static void check_sinks(const struct hr_config *config, struct hr_mistakes *mistakes, uint32_t i)
{
	const struct hr_config_pipeline *p = &config->pipeline[i];
	const struct hr_config_object *made;

	if (p->when.kind == HR_WHEN_ONCE)
		return;
	for (uint32_t k = 0; (made = hr_config_creates(p, k)) != NULL; k++)
		if (!made->replace)
			hr_mistake(mistakes, made->line,
				   "pipelines[%u].%s: object '%s' is made at each start (line %u), "
				   "expected replace = true%s",
				   i, p->objects ? "objects" : "sink", made->object, p->when.line,
				   p->objects ? "" : ", or keep = N");
}

void hr_config_when_check(struct hr_config *config, struct hr_mistakes *mistakes)
{
	for (uint32_t i = 0; i < config->pipelines; i++) {
		if (config->pipeline[i].when.kind == HR_WHEN_AFTER)
			find_pipeline(config, mistakes, i);
		if (config->pipeline[i].when.kind == HR_WHEN_OBJECT)
			find_object(config, mistakes, i);
	}
	hr_config_cycles_check(config, mistakes);
	for (uint32_t i = 0; i < config->pipelines; i++)
		check_sinks(config, mistakes, i);
}

/* ---- time zones */

#define FOLDER "/usr/share/zoneinfo"
#define NAME_MIN 3
#define DAYS_OF_YEAR 365

static bool is_zone_file(const char *zone)
{
	const char *folder = getenv("TZDIR");
	char path[4096], magic[4] = "";
	const char *why;
	int fd;

	if (*zone == '/')
		folder = "";
	else if (!folder || !*folder)
		folder = FOLDER;
	if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, zone) >= sizeof path)
		return false;
	fd = hr_open(path, O_RDONLY, HR_OPEN_FILE, &why);
	if (fd < 0)
		return false;
	if (read(fd, magic, sizeof magic) != sizeof magic)
		magic[0] = '\0';
	close(fd);
	return memcmp(magic, "TZif", sizeof magic) == 0;
}

/* ---- rules: "CET-1CEST,M3.5.0,M10.5.0/3". Each function returns the text behind its part, or NULL. */

/* "CET", "<+0330>" */
static const char *skip_name(const char *at)
{
	const bool quoted = *at == '<';
	const char *from = at + quoted;

	at = from;
	while (isalpha((unsigned char)*at) ||
	       (quoted && (isdigit((unsigned char)*at) || *at == '+' || *at == '-')))
		at++;
	if (at - from < NAME_MIN || (quoted && *at != '>'))
		return NULL;
	return at + quoted;
}

static const char *skip_number(const char *at, unsigned least, unsigned most)
{
	unsigned value = 0;

	if (!isdigit((unsigned char)*at))
		return NULL;
	for (; isdigit((unsigned char)*at) && value <= most; at++)
		value = value * 10 + (unsigned)(*at - '0');
	return value >= least && value <= most ? at : NULL;
}

/* "-1", "5:30", "02:00:00" */
static const char *skip_time(const char *at, unsigned hours)
{
	at = skip_number(at + (*at == '+' || *at == '-'), 0, hours);
	for (int part = 0; at && *at == ':' && part < 2; part++)
		at = skip_number(at + 1, 0, 59);
	return at;
}

/* ",M3.5.0", ",J60", ",59", each also with "/3" */
static const char *skip_change(const char *at)
{
	if (*at++ != ',')
		return NULL;
	if (*at == 'M') {
		at = skip_number(at + 1, 1, 12);
		at = at && *at == '.' ? skip_number(at + 1, 1, 5) : NULL;
		at = at && *at == '.' ? skip_number(at + 1, 0, 6) : NULL;
	} else {
		at = *at == 'J' ? skip_number(at + 1, 1, DAYS_OF_YEAR)
				: skip_number(at, 0, DAYS_OF_YEAR);
	}
	return at && *at == '/' ? skip_time(at + 1, 167) : at;
}

static bool is_rule(const char *at)
{
	at = skip_name(at);
	at = at ? skip_time(at, 24) : NULL;
	if (!at || !*at)
		return at != NULL;
	at = skip_name(at);
	if (at && *at && *at != ',')
		at = skip_time(at, 24);
	if (!at || !*at)
		return at != NULL;
	at = skip_change(at);
	at = at ? skip_change(at) : NULL;
	return at && !*at;
}

bool hr_zone_is_known(const char *zone)
{
	zone += *zone == ':';
	return !*zone || strcmp(zone, "UTC") == 0 || strcmp(zone, "GMT") == 0 || is_rule(zone) ||
	       is_zone_file(zone);
}
