/* SPDX-License-Identifier: Apache-2.0 */
#include "config/file/keys.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/derived.h"

struct written_remote {
	struct hr_config_remote remote;
	char name[HR_NAME_MAX];
	uint64_t bytes;
};

static const struct hr_field top_fields[] = {
	{ "key", HR_FIELD_STRING, .required = true,
	  .offset = offsetof(struct hr_config_remotes, key), .max = HR_FILE_MAX,
	  .example = "key = \"/etc/headrace/remote.key\";" },
	{ "device", HR_FIELD_NAME, .offset = offsetof(struct hr_config_remotes, device),
	  .max = HR_NAME_MAX },
	{ "call", HR_FIELD_DURATION, .offset = offsetof(struct hr_config_remotes, call_ns) },
	{ "peers", .type = HR_FIELD_NAMES, .max = HR_REMOTE_ALLOWED_MAX },
};

static const struct hr_field sink_fields[] = {
	{ "remote", HR_FIELD_STRING, .required = true,
	  .offset = offsetof(struct written_remote, remote.address), .max = HR_DEVICE_MAX,
	  .example = "remote = \"10.0.0.2:4791\";" },
	{ "name", HR_FIELD_NAME, .required = true, .offset = offsetof(struct written_remote, name),
	  .max = HR_NAME_MAX, .example = "name = \"tokens\";" },
	{ "depth", HR_FIELD_U32, .offset = offsetof(struct written_remote, remote.depth), .min = 1,
	  .max = HR_SLOTS_MAX },
};

static const struct hr_field source_fields[] = {
	{ "remote", HR_FIELD_STRING, .required = true,
	  .offset = offsetof(struct written_remote, remote.address), .max = HR_DEVICE_MAX,
	  .example = "remote = \"10.0.0.2:4791\";" },
	{ "name", HR_FIELD_NAME, .required = true, .offset = offsetof(struct written_remote, name),
	  .max = HR_NAME_MAX, .example = "name = \"tokens\";" },
	{ "bytes", HR_FIELD_SIZE, .required = true,
	  .offset = offsetof(struct written_remote, bytes), .min = 1, .max = INT64_MAX,
	  .example = "bytes = \"64M\";" },
};

/* A path starts at the folder of the configuration. */
static void find_key(const struct hr_config *config, const struct hr_group *group, char *key)
{
	char path[2 * HR_FILE_MAX];

	snprintf(path, sizeof path, "%.*s%s", *key == '/' ? 0 : (int)config->folder, config->file,
		 key);
	if (strlen(path) >= HR_FILE_MAX)
		hr_group_mistake(group, "key",
				 "'%s' is too long with the folder of the configuration, expected "
				 "under %u characters",
				 key, HR_FILE_MAX);
	else
		memcpy(key, path, strlen(path) + 1);
}

static void read_peers(struct hr_config_remotes *remotes, const struct hr_group *group)
{
	const config_setting_t *peers = config_setting_get_member(group->setting, "peers");
	const char *name;

	if (!peers || !hr_group_is_names(peers, HR_REMOTE_ALLOWED_MAX))
		return;
	for (uint32_t i = 0; (name = hr_group_string(group, "peers", i)) != NULL; i++) {
		struct in_addr address;

		if (inet_pton(AF_INET, name, &address) == 1)
			snprintf(remotes->allowed[remotes->allowed_count++], HR_NAME_MAX, "%s",
				 name);
		else
			hr_group_mistake(group, "peers", "has \"%s\", expected IPv4 addresses",
					 name);
	}
	if (!remotes->allowed_count && !hr_group_string(group, "peers", 0))
		hr_group_mistake(group, "peers", "is empty, expected at least one address");
}

void hr_config_remotes_read(struct hr_config *config, const struct hr_group *group)
{
	struct hr_config_remotes *remotes = &config->remotes;

	remotes->line = hr_group_line(group, NULL);
	hr_group_read(group, top_fields, HR_COUNT(top_fields), remotes);
	if (remotes->key[0])
		find_key(config, group, remotes->key);
	read_peers(remotes, group);
}

/* True for a decimal number 1 .. 65535, without sign and spaces. */
static bool is_port(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) <= 5 &&
	       atol(text) >= 1 && atol(text) <= 65535;
}

/* "A.B.C.D:PORT": names are not resolved, because that may wait for another machine. */
static bool is_address(const char *text)
{
	const char *colon = strchr(text, ':');
	char host[INET_ADDRSTRLEN];
	struct in_addr address;

	if (!colon || (size_t)(colon - text) >= sizeof host || !is_port(colon + 1))
		return false;
	snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
	return inet_pton(AF_INET, host, &address) == 1;
}

static void check_address(const struct hr_group *group, const char *address)
{
	if (*address && !is_address(address))
		hr_group_mistake(group, "remote",
				 "is \"%s\", expected an IPv4 address and a port from 1 to 65535, "
				 "like \"10.0.0.2:4791\"",
				 address);
}

/* A receiver listens on one address that is named: not on all of the machine. */
static void check_listens(const struct hr_group *group, const char *address)
{
	if (strncmp(address, "0.0.0.0:", strlen("0.0.0.0:")) == 0)
		hr_group_mistake(group, "remote",
				 "is \"%s\", expected one address of this machine: it is not "
				 "allowed to listen on all of them",
				 address);
}

void hr_config_remote_sink_read(struct hr_config_pipeline *pipeline, const struct hr_group *sink)
{
	struct written_remote written = { .remote.line = hr_group_line(sink, "remote") };

	hr_group_read(sink, sink_fields, HR_COUNT(sink_fields), &written);
	check_address(sink, written.remote.address);
	pipeline->to = written.remote;
	/* the tap role lends tiles to one consumer, which is the link */
	pipeline->tap = (struct hr_config_tap){ .consumers = 1,
						.tries = 1,
						.share = HR_SHARE_SLICE,
						.group = HR_CONTROL_NO_GROUP,
						.line = written.remote.line };
	memcpy(pipeline->tap.name, written.name, sizeof written.name);
}

bool hr_config_remote_is_source(const struct hr_group *pipeline)
{
	config_setting_t *source = config_setting_get_member(pipeline->setting, "source"), *first;

	if (!source || (!config_setting_is_group(source) && !config_setting_is_list(source)))
		return false;
	first = config_setting_is_list(source) ? config_setting_get_elem(source, 0) : source;
	return first && config_setting_is_group(first) &&
	       config_setting_get_member(first, "remote");
}

bool hr_config_remote_source_read(struct hr_config_pipeline *pipeline, const struct hr_group *group)
{
	const uint32_t before = group->mistakes->count;
	struct written_remote written = { 0 };
	struct hr_group source;

	if (hr_group_elements(group, "source") > 1) {
		hr_group_mistake(group, "source",
				 "has a remote source and others, expected the remote one alone");
		return false;
	}
	if (!hr_group_element(group, "source", 0, &source))
		return false;
	written.remote.line = hr_group_line(&source, "remote");
	hr_group_read(&source, source_fields, HR_COUNT(source_fields), &written);
	check_address(&source, written.remote.address);
	check_listens(&source, written.remote.address);
	pipeline->from = written.remote;
	/* the feed role takes tiles of one producer, which is the link */
	pipeline->feed = (struct hr_config_feed){ .bytes = written.bytes,
						  .group = HR_CONTROL_NO_GROUP,
						  .line = written.remote.line };
	memcpy(pipeline->feed.name, written.name, sizeof written.name);
	return group->mistakes->count == before;
}

/* ---- all pipelines */

static bool same_stream(const struct hr_config_pipeline *a, const struct hr_config_pipeline *b)
{
	return strcmp(a->to.address, b->to.address) == 0 && strcmp(a->tap.name, b->tap.name) == 0;
}

static void check_others(const struct hr_config *config, struct hr_mistakes *mistakes, unsigned i)
{
	const struct hr_config_pipeline *p = &config->pipeline[i];

	for (unsigned j = 0; j < i; j++) {
		const struct hr_config_pipeline *other = &config->pipeline[j];

		if (hr_config_sends(p) && hr_config_sends(other) && same_stream(p, other))
			hr_mistake(mistakes, p->to.line,
				   "pipelines[%u].sink: the stream '%s' to %s is already that of "
				   "pipelines[%u] on line %u",
				   i, p->tap.name, p->to.address, j, other->to.line);
		if (hr_config_receives(p) && strcmp(p->from.address, other->from.address) == 0)
			hr_mistake(mistakes, p->from.line,
				   "pipelines[%u].source: %s is already the address of "
				   "pipelines[%u] on line %u",
				   i, p->from.address, j, other->from.line);
	}
}

static void check_one(const struct hr_config *config, struct hr_mistakes *mistakes, unsigned i)
{
	const struct hr_config_pipeline *p = &config->pipeline[i];
	const unsigned line = hr_config_sends(p) ? p->to.line : p->from.line;

	if (!config->remotes.line)
		hr_mistake(mistakes, line,
			   "pipelines[%u]: a remote %s needs the group `remote`; expected for "
			   "example: remote = { key = \"/etc/headrace/remote.key\"; };",
			   i, hr_config_sends(p) ? "sink" : "source");
	for (unsigned j = 0; j < config->pipelines; j++)
		if (config->pipeline[j].when.kind != HR_WHEN_ONCE)
			hr_mistake(
				mistakes, line,
				"pipelines[%u]: a remote %s is not possible beside pipelines[%u], "
				"which runs again; expected a configuration without the keys "
				"every, at, after, on and forever",
				i, hr_config_sends(p) ? "sink" : "source", j);
	check_others(config, mistakes, i);
}

void hr_config_remotes_check(const struct hr_config *config, struct hr_mistakes *mistakes)
{
	for (unsigned i = 0; i < config->pipelines; i++)
		if (hr_config_is_remote(&config->pipeline[i]))
			check_one(config, mistakes, i);
}
