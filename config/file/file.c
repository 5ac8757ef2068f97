/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/file/keys.h"
#include "config/file/file.h"
#include "config/file/group.h"
#include "config/base/files.h"
#include "config/file/scan.h"
#include "config/base/clock.h"

#define TIMEOUT_MS_MAX 600000u /* a command that takes ten minutes counts as lost */

static const char *const log_levels[] = { "error", "warn", "info", "debug", NULL };
static const char *const paths[] = { "auto", "direct", "bounce", NULL };
static const char *const queues[] = { "host", "gpu", NULL };

static const struct hr_field top_fields[] = {
	{ "appliance", .type = HR_FIELD_GROUP },
	{ "ssds", .type = HR_FIELD_LIST, .required = true, .max = HR_SSDS_MAX,
	  .example = "ssds = ( { name = \"ssd0\"; device = \"soft:ssd.img\"; } );" },
	{ "gpus", .type = HR_FIELD_LIST, .required = true, .max = HR_GPUS_MAX,
	  .example = "gpus = ( { name = \"gpu0\"; device = \"auto\"; } );" },
	{ "memory", .type = HR_FIELD_GROUP },
	{ "boot", .type = HR_FIELD_GROUP },
	{ "control", .type = HR_FIELD_GROUP },
	{ "health", .type = HR_FIELD_GROUP },
	{ "remote", .type = HR_FIELD_GROUP },
	{ "operators", .type = HR_FIELD_LIST, .max = HR_OPERATORS_MAX },
	{ "pipelines", .type = HR_FIELD_LIST, .max = HR_PIPELINES_MAX },
};

static const struct hr_field appliance_fields[] = {
	{ "name", HR_FIELD_NAME, .offset = offsetof(struct hr_config, name), .max = HR_NAME_MAX },
	{ "checkpoint", HR_FIELD_DURATION, .offset = offsetof(struct hr_config, checkpoint_ns) },
	{ "parallel", HR_FIELD_U32, .offset = offsetof(struct hr_config, parallel), .min = 1,
	  .max = HR_PIPELINES_MAX },
	{ "log", HR_FIELD_CHOICE, .offset = offsetof(struct hr_config, log),
	  .choices = log_levels },
};

static const struct hr_field memory_fields[] = {
	{ "host", HR_FIELD_SIZE, .offset = offsetof(struct hr_config, memory_host),
	  .max = INT64_MAX },
	{ "gpu", HR_FIELD_SIZE, .offset = offsetof(struct hr_config, memory_gpu),
	  .max = INT64_MAX },
	{ "path", HR_FIELD_CHOICE, .offset = offsetof(struct hr_config, path), .choices = paths },
	{ "queues", HR_FIELD_CHOICE, .offset = offsetof(struct hr_config, queues),
	  .choices = queues },
};

static const struct hr_field ssd_fields[] = {
	{ "name", HR_FIELD_NAME, .required = true, .offset = offsetof(struct hr_config_ssd, name),
	  .max = HR_NAME_MAX, .example = "name = \"ssd0\";" },
	{ "device", HR_FIELD_STRING, .required = true,
	  .offset = offsetof(struct hr_config_ssd, device), .max = HR_DEVICE_MAX,
	  .example = "device = \"soft:ssd.img\";" },
	{ "serial", HR_FIELD_STRING, .offset = offsetof(struct hr_config_ssd, serial),
	  .max = HR_SERIAL_MAX },
	{ "namespace", HR_FIELD_U32, .offset = offsetof(struct hr_config_ssd, nsid), .min = 1,
	  .max = 0xfffffffeu },
	{ "queue_entries", HR_FIELD_U32, .offset = offsetof(struct hr_config_ssd, queue_entries),
	  .min = HR_QUEUE_ENTRIES_MIN, .max = HR_QUEUE_ENTRIES_MAX },
	{ "timeout_ms", HR_FIELD_MS, .offset = offsetof(struct hr_config_ssd, timeout_ns), .min = 1,
	  .max = TIMEOUT_MS_MAX },
	{ "admin_timeout_ms", HR_FIELD_MS,
	  .offset = offsetof(struct hr_config_ssd, admin_timeout_ns), .min = 1,
	  .max = TIMEOUT_MS_MAX },
	{ "objects", .type = HR_FIELD_LIST, .max = HR_PREPARED_MAX },
};

static const struct hr_field prepared_fields[] = {
	{ "name", HR_FIELD_NAME, .required = true,
	  .offset = offsetof(struct hr_config_prepared, object), .max = HR_NAME_MAX,
	  .example = "name = \"counting\";" },
	{ "bytes", HR_FIELD_SIZE, .required = true,
	  .offset = offsetof(struct hr_config_prepared, bytes), .max = INT64_MAX,
	  .example = "bytes = \"16M\";" },
};

static const struct hr_field gpu_fields[] = {
	{ "name", HR_FIELD_NAME, .required = true, .offset = offsetof(struct hr_config_gpu, name),
	  .max = HR_NAME_MAX, .example = "name = \"gpu0\";" },
	{ "device", HR_FIELD_STRING, .required = true,
	  .offset = offsetof(struct hr_config_gpu, device), .max = HR_DEVICE_MAX,
	  .example = "device = \"auto\";" },
	{ "blocks", HR_FIELD_U32, .offset = offsetof(struct hr_config_gpu, blocks), .min = 1,
	  .max = HR_GPU_BLOCKS_MAX },
};

static bool is_memory(const char *device)
{
	static const char prefix[] = "soft:memory";
	size_t length = sizeof prefix - 1;

	return strncmp(device, prefix, length) == 0 &&
	       (device[length] == '\0' || device[length] == ',');
}

static void read_prepared(struct hr_config_ssd *ssd, const struct hr_group *group)
{
	unsigned count = hr_group_list(group, "objects");

	if (count && ssd->device[0] && !ssd->in_memory)
		hr_group_mistake(
			group, "objects",
			"only an ssd \"soft:memory\" has objects made at bring-up; put them "
			"on others with 'headrace store put'");
	for (unsigned i = 0; i < count && i < HR_PREPARED_MAX; i++) {
		struct hr_config_prepared *object = &ssd->prepared[i];
		struct hr_group element;

		if (!hr_group_element(group, "objects", i, &element))
			continue;
		object->line = hr_group_line(&element, NULL);
		hr_group_read(&element, prepared_fields, HR_COUNT(prepared_fields), object);
		for (unsigned j = 0; j < i; j++)
			if (object->object[0] &&
			    strcmp(ssd->prepared[j].object, object->object) == 0)
				hr_group_mistake(&element, "name",
						 "'%s' is already the name of another object on "
						 "line %u",
						 object->object, ssd->prepared[j].line);
		ssd->prepared_count = i + 1;
	}
}

/* Resolve a path of a device string: a relative path starts at the folder of the configuration. */
static void put_path(const struct hr_config *config, const char *path, size_t length, char *out,
		     size_t bytes)
{
	const size_t at = strlen(out);

	snprintf(out + at, bytes - at, "%.*s%.*s", *path == '/' ? 0 : (int)config->folder,
		 config->file, (int)length, path);
}

static bool is_word(const char *text, size_t length, const char *word)
{
	return length == strlen(word) && strncmp(text, word, length) == 0;
}

/* Resolve the files of "soft:PATH[,...][,faults=FILE]" against the folder of the configuration. */
static void find_files(const struct hr_config *config, const struct hr_group *group, char *device)
{
	static const char soft[] = "soft:", faults[] = ",faults=";
	char found[2 * HR_FILE_MAX] = "soft:";
	const char *at = device + sizeof soft - 1, *file;
	const size_t image = strcspn(at, ",");

	if (strncmp(device, soft, sizeof soft - 1) != 0 || !config->folder || !image)
		return;
	if (is_word(at, image, "memory") || is_word(at, image, "null"))
		snprintf(found + strlen(found), sizeof found - strlen(found), "%.*s", (int)image,
			 at);
	else
		put_path(config, at, image, found, sizeof found);
	at += image;
	while ((file = strstr(at, faults)) && file[sizeof faults - 1]) {
		const size_t length = strcspn(file + sizeof faults - 1, ",");

		snprintf(found + strlen(found), sizeof found - strlen(found), "%.*s%s",
			 (int)(file - at), at, faults);
		put_path(config, file + sizeof faults - 1, length, found, sizeof found);
		at = file + sizeof faults - 1 + length;
	}
	snprintf(found + strlen(found), sizeof found - strlen(found), "%s", at);
	if (strlen(found) >= HR_DEVICE_MAX) {
		hr_group_mistake(group, "device",
				 "'%s' is too long with the folder of the configuration, expected "
				 "under %u characters",
				 device, HR_DEVICE_MAX);
		return;
	}
	memcpy(device, found, strlen(found) + 1);
}

static void read_ssd(struct hr_config *config, const struct hr_group *group, unsigned i)
{
	struct hr_config_ssd *ssd = &config->ssd[i];
	struct hr_error e = { 0 };

	ssd->nsid = 1;
	ssd->queue_entries = 256;
	ssd->timeout_ns = 5 * HR_NS_PER_S;
	ssd->admin_timeout_ns = HR_ADMIN_TIMEOUT_NS;
	ssd->line = hr_group_line(group, NULL);
	hr_group_read(group, ssd_fields, HR_COUNT(ssd_fields), ssd);
	hr_config_variables(config, group, ssd->device);
	ssd->in_memory = is_memory(ssd->device);
	read_prepared(ssd, group);
	if (ssd->device[0] && config->names->ssd_check(ssd->device, &e) != 0)
		hr_group_mistake(group, "device", "%s", e.text);
	else
		find_files(config, group, ssd->device);
	for (unsigned j = 0; j < i; j++) {
		if (ssd->name[0] && strcmp(config->ssd[j].name, ssd->name) == 0)
			hr_group_mistake(group, "name",
					 "'%s' is already the name of ssds[%u] on line %u",
					 ssd->name, j, config->ssd[j].line);
		if (ssd->device[0] && !ssd->in_memory &&
		    strcmp(config->ssd[j].device, ssd->device) == 0 &&
		    (config->ssd[j].nsid == ssd->nsid ||
		     config->names->ssd_namespaces(ssd->device) == 1))
			hr_group_mistake(group, "device",
					 "'%s' is already the device of ssds[%u] on line %u",
					 ssd->device, j, config->ssd[j].line);
	}
}

static void read_gpu(struct hr_config *config, const struct hr_group *group, unsigned i)
{
	struct hr_config_gpu *gpu = &config->gpu[i];
	struct hr_error e = { 0 };

	gpu->line = hr_group_line(group, NULL);
	hr_group_read(group, gpu_fields, HR_COUNT(gpu_fields), gpu);
	hr_config_variables(config, group, gpu->device);
	if (gpu->device[0] && config->names->gpu_check(gpu->device, &e) != 0)
		hr_group_mistake(group, "device", "%s", e.text);
	for (unsigned j = 0; j < i; j++)
		if (gpu->name[0] && strcmp(config->gpu[j].name, gpu->name) == 0)
			hr_group_mistake(group, "name",
					 "'%s' is already the name of gpus[%u] on line %u",
					 gpu->name, j, config->gpu[j].line);
}

static void expect_some(const struct hr_group *top, const char *key)
{
	const config_setting_t *setting = config_setting_get_member(top->setting, key);

	if (setting && config_setting_is_list(setting) && config_setting_length(setting) == 0)
		hr_group_mistake(top, key, "is empty, expected at least one");
}

static void read_devices(struct hr_config *config, const struct hr_group *top)
{
	unsigned ssds = hr_group_list(top, "ssds"), gpus = hr_group_list(top, "gpus");
	struct hr_group element;

	expect_some(top, "ssds");
	expect_some(top, "gpus");
	config->ssds = ssds < HR_SSDS_MAX ? ssds : HR_SSDS_MAX;
	config->gpus = gpus < HR_GPUS_MAX ? gpus : HR_GPUS_MAX;
	for (unsigned i = 0; i < config->ssds; i++)
		if (hr_group_element(top, "ssds", i, &element))
			read_ssd(config, &element, i);
	for (unsigned i = 0; i < config->gpus; i++)
		if (hr_group_element(top, "gpus", i, &element))
			read_gpu(config, &element, i);
}

static void read_operators(struct hr_config *config, const struct hr_group *top)
{
	unsigned ops = hr_group_list(top, "operators");
	struct hr_group element;

	config->ops = ops < HR_OPERATORS_MAX ? ops : HR_OPERATORS_MAX;
	for (unsigned i = 0; i < config->ops; i++)
		if (hr_group_element(top, "operators", i, &element))
			hr_config_operator_read(config, &element, i);
}

static void read_appliance(struct hr_config *config, const struct hr_group *group)
{
	hr_group_read(group, appliance_fields, HR_COUNT(appliance_fields), config);
	config->log_chosen = config_setting_get_member(group->setting, "log") != NULL;
}

static void read_top(struct hr_config *config, const struct hr_group *top)
{
	unsigned pipelines = hr_group_list(top, "pipelines");
	struct hr_group group;

	hr_group_read(top, top_fields, HR_COUNT(top_fields), config);
	if (hr_group_member(top, "appliance", &group))
		read_appliance(config, &group);
	if (hr_group_member(top, "memory", &group))
		hr_group_read(&group, memory_fields, HR_COUNT(memory_fields), config);
	if (hr_group_member(top, "boot", &group))
		hr_config_boot_read(&config->boot, &group);
	if (hr_group_member(top, "control", &group))
		hr_config_control_read(&config->control, &group);
	if (hr_group_member(top, "health", &group))
		hr_config_health_read(&config->health, &group);
	if (hr_group_member(top, "remote", &group))
		hr_config_remotes_read(config, &group);
	read_devices(config, top);
	read_operators(config, top);
	config->pipelines = pipelines < HR_PIPELINES_MAX ? pipelines : HR_PIPELINES_MAX;
	for (unsigned i = 0; i < config->pipelines; i++)
		if (hr_group_element(top, "pipelines", i, &group) &&
		    hr_config_pipeline_read(config, &group, i))
			hr_config_pipeline_check(config, &config->pipeline[i], &group);
	hr_config_sinks_check(config, top->mistakes);
	hr_config_taps_check(config, top->mistakes);
	hr_config_feeds_check(config, top->mistakes);
	hr_config_remotes_check(config, top->mistakes);
	hr_config_when_check(config, top->mistakes);
}

/* Parse text, which ends in NUL, with libconfig. */
static void read_text(struct hr_config *config, const char *text, struct hr_mistakes *mistakes)
{
	struct hr_group top = { .mistakes = mistakes };
	config_t file;

	config_init(&file);
	if (config_read_string(&file, text) == CONFIG_TRUE) {
		top.setting = config_root_setting(&file);
		read_top(config, &top);
	} else {
		const char *what = config_error_text(&file);
		const bool mixed = what && strstr(what, "mismatched element type");

		hr_mistake(mistakes, (unsigned)config_error_line(&file),
			   mixed ? "an array [ ... ] has elements of several types; expected one "
				   "type, as in [ \"gpu0\", \"gpu1\" ]"
				 : "%s; expected KEY = VALUE; with every '{', '(', '[' and '\"' "
				   "closed",
			   what ? what : "syntax error");
	}
	config_destroy(&file);
}

static int parse_config_text(struct hr_config *config, const char *text, size_t bytes,
			     struct hr_mistakes *mistakes)
{
	char *copy = malloc(bytes + 1), *wide = malloc(HR_SCAN_OUT_BYTES(bytes));
	int err = copy && wide ? 0 : -ENOMEM;

	if (!err) {
		if (bytes)
			memcpy(copy, text, bytes);
		copy[bytes] = '\0';
		if (hr_scan(mistakes, copy, bytes, wide) == 0)
			read_text(config, wide, mistakes);
		err = mistakes->count ? -EINVAL : 0;
	} else {
		hr_mistake(mistakes, 0, "out of memory to read %zu bytes", bytes);
	}
	free(copy);
	free(wide);
	return err;
}

/*
 * Use the file's name without folder and ending as the appliance's name, when it is a valid name.
 */
static void name_appliance(struct hr_config *config)
{
	const char *base = config->file + config->folder, *dot = strrchr(base, '.');
	const size_t length = dot && dot > base ? (size_t)(dot - base) : strlen(base);

	snprintf(config->name, sizeof config->name, "headrace");
	if (length == 0 || length >= sizeof config->name)
		return;
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)base[i] <= ' ' || (unsigned char)base[i] > '~' || base[i] == '(')
			return;
	snprintf(config->name, sizeof config->name, "%.*s", (int)length, base);
}

static void set_defaults(struct hr_config *config, const char *file, size_t folder)
{
	memset(config, 0, sizeof *config);
	hr_config_boot_default(&config->boot);
	hr_config_control_default(&config->control);
	config->file = file;
	config->folder = (uint32_t)folder;
	config->log = HR_LOG_WARN;
	config->checkpoint_ns = 5 * HR_NS_PER_S;
	config->parallel = 1;
	name_appliance(config);
}

static int parse_file(struct hr_config *config, const char *text, size_t bytes, struct hr_error *e)
{
	struct hr_mistakes *mistakes = calloc(1, sizeof *mistakes);
	int err;

	if (!mistakes)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "%s: out of memory", config->file);
	mistakes->file = config->file;
	if (bytes > HR_CONFIG_BYTES_MAX) {
		hr_mistake(mistakes, 0, "%zu bytes long, expected at most %u", bytes,
			   HR_CONFIG_BYTES_MAX);
		err = -EFBIG;
	} else {
		err = parse_config_text(config, text, bytes, mistakes);
	}
	hr_mistakes_report(mistakes, e);
	free(mistakes);
	return err;
}

static size_t folder_of(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash ? (size_t)(slash - file) + 1 : 0;
}

int hr_config_parse(struct hr_config *config, const struct hr_config_lookup *names,
		    const char *file, const char *text, size_t bytes, struct hr_error *e)
{
	set_defaults(config, file, folder_of(file));
	config->names = names;
	return parse_file(config, text, bytes, e);
}

/* Read at most bytes; *got == bytes means that the file may be longer. */
static int read_all(int fd, char *text, size_t bytes, size_t *got)
{
	*got = 0;
	while (*got < bytes) {
		ssize_t n = read(fd, text + *got, bytes - *got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		*got += (size_t)n;
	}
	return 0;
}

/* A pipe has no folder, so its relative paths start at the working folder. */
static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/*
 * Read the text of a file, which the caller frees. Reading stops at the size limit, so that an
 * endless pipe ends, too. Reading a pipe waits for its writer.
 */
static int load_config_text(const char *file, char **text, size_t *bytes, bool *regular,
			    struct hr_error *e)
{
	const bool standard = strcmp(file, "-") == 0;
	const char *why;
	int fd = STDIN_FILENO, err;

	if (!standard)
		fd = hr_open(file, O_RDONLY, HR_OPEN_FILE | HR_OPEN_PIPE, &why);
	if (fd < 0)
		return hr_fail(e, HR_ERROR_USAGE, fd, "%s: %s", file, why);
	*regular = !standard && is_regular(fd);
	*text = malloc(HR_CONFIG_BYTES_MAX + 1);
	err = *text ? read_all(fd, *text, HR_CONFIG_BYTES_MAX + 1, bytes) : -ENOMEM;
	if (!standard)
		close(fd);
	if (!err)
		return 0;
	free(*text);
	*text = NULL;
	return hr_fail(e, HR_ERROR_USAGE, err, "%s: %s", standard ? "standard input" : file,
		       strerror(-err));
}

int hr_config_read(struct hr_config *config, const struct hr_config_lookup *names, const char *file,
		   struct hr_error *e)
{
	const char *name = strcmp(file, "-") == 0 ? "standard input" : file;
	char *text = NULL;
	bool regular = true;
	size_t bytes = 0;
	int err = load_config_text(file, &text, &bytes, &regular, e);

	set_defaults(config, name, regular ? folder_of(file) : 0);
	config->names = names;
	if (!regular)
		snprintf(config->name, sizeof config->name, "headrace");
	if (err)
		return err;
	if (bytes > HR_CONFIG_BYTES_MAX)
		err = hr_fail(e, HR_ERROR_USAGE, -EFBIG,
			      "%s: longer than the %u bytes of a configuration", name,
			      HR_CONFIG_BYTES_MAX);
	else
		err = parse_file(config, text, bytes, e);
	free(text);
	return err;
}
