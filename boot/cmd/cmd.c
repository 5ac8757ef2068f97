/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/cmd.h"
#include "boot/cmd/report/output.h"
#include "config/base/log.h"
#include "config/base/text.h"
#include "boot/engine/devices/devices.h"
#include "boot/appliance/supervisor/reader.h"
#include "config/file/file.h"
#include "config/default.h"
#include "nvme/transport/transport.h"

bool hr_option_count(const char *text, unsigned long max, uint32_t *number)
{
	char *end;
	unsigned long value;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || value == 0 || value > max)
		return false;
	*number = (uint32_t)value;
	return true;
}

bool hr_option_part(const char *text, unsigned long max, uint32_t *index, uint32_t *count)
{
	const char *slash = strchr(text, '/');
	char number[12];

	if (!slash || (size_t)(slash - text) >= sizeof number ||
	    !hr_option_count(slash + 1, max, count))
		return false;
	memcpy(number, text, (size_t)(slash - text));
	number[slash - text] = '\0';
	*index = 0;
	if (strcmp(number, "0") != 0 && !hr_option_count(number, max, index))
		return false;
	return *index < *count;
}

int hr_option_unknown(const char *command, const char *given, const struct option *list)
{
	const char *known[HR_OPTIONS_KNOWN_MAX], *near;
	const char *name = given + strspn(given, "-");
	char word[HR_OPTION_NAME_MAX];
	size_t count = 0;

	for (; count < HR_OPTIONS_KNOWN_MAX && list[count].name; count++)
		known[count] = list[count].name;
	snprintf(word, sizeof word, "%.*s", (int)strcspn(name, "="), name);
	near = strlen(word) > 1 ? hr_nearest(word, known, count) : NULL;
	return hr_usage_error(command, "unknown option '%s'%s%s%s", given,
			      near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "");
}

/* The option of that name in the table; -q stands for --quiet. */
static const struct hr_option *find_option(const struct hr_option *option, const char *name)
{
	while (option->name && strcmp(option->name, name) != 0)
		option++;
	return option->name ? option : NULL;
}

int hr_option_log(const char *command, const char *form)
{
	if (!form || strcmp(form, "text") == 0)
		return 0;
	if (strcmp(form, "json") != 0)
		return hr_usage_error(command, "--log is '%.32s', expected text or json", form);
	hr_log_set_json();
	return 0;
}

static void apply_option(const struct hr_option *option)
{
	if (option->flag)
		*option->flag = true;
	if (option->call)
		option->call();
	if (option->text)
		*option->text = optarg;
}

int hr_options_parse(int argc, char **argv, const struct hr_option *option, const char *what,
		     const char **argument)
{
	const struct hr_option *quiet = find_option(option, "quiet");
	struct option list[HR_OPTIONS_MAX + 1] = { 0 };
	int which = 0, got;

	for (unsigned i = 0; i < HR_OPTIONS_MAX && option[i].name; i++)
		list[i] = (struct option){ .name = option[i].name,
					   .has_arg = option[i].text ? required_argument
								     : no_argument };
	opterr = 0;
	while ((got = getopt_long(argc, argv, quiet ? ":q" : ":", list, &which)) != -1) {
		if (got == ':')
			return hr_usage_error(argv[0], "option '%s' needs a value",
					      argv[optind - 1]);
		if (got != 0 && got != 'q')
			return hr_option_unknown(argv[0], argv[optind - 1], list);
		apply_option(quiet && got == 'q' ? quiet : &option[which]);
	}
	if (argc - optind > 1)
		return hr_usage_error(argv[0], "%s expected, %d given", what, argc - optind);
	if (optind < argc)
		*argument = argv[optind];
	return 0;
}

/* ---- loading the configuration */

/* Of this process; configurations refer to the first one. */
static struct hr_config_lookup names;
static const struct hr_config_rank *this_rank;

void hr_load_set_rank(const struct hr_config_rank *rank)
{
	this_rank = rank;
}

static void set_names(void)
{
	names = hr_lookup;
	names.rank = this_rank;
}

static int read_config(struct hr_config *config, const char *file, struct hr_error *e)
{
	int err;

	if (file)
		err = hr_config_read(config, &names, file, e);
	else
		err = hr_config_parse(config, &names, HR_CONFIG_DEFAULT_NAME, hr_config_default,
				      hr_config_default_bytes, e);
	hr_error_report(e, err);
	return err;
}

static int read_it(struct hr_config *config, void *file, struct hr_error *e)
{
	return read_config(config, file, e);
}

int hr_load_read(struct hr_config *config, void *file, struct hr_error *e)
{
	int err = read_config(config, file, e);
	struct hr_engine *engine;

	if (err)
		return err;
	engine = calloc(1, sizeof *engine);
	if (!engine)
		return hr_fail(e, HR_ERROR_MISSING, -ENOMEM, "out of memory for the appliance");
	engine->config = *config;
	err = hr_engine_init(engine, NULL);
	if (err)
		*e = engine->error;
	free(engine);
	return err;
}

/* apart: read the configuration in a separate process */
static struct hr_engine *load_engine(const char *file, const char *pipeline, bool apart,
				     enum hr_boot_end *last_resort, int *code)
{
	struct hr_engine *engine = calloc(1, sizeof *engine);
	char *const named = (char *)(uintptr_t)file;
	struct hr_error e = { 0 };
	int err;

	*last_resort = HR_BOOT_POWEROFF;
	set_names(); /* before another process reads: the configuration refers to them here, too */
	hr_open_mode_set(HR_OPEN_EXISTING); /* only 'store format' creates images */
	if (!engine) {
		hr_error("out of memory for the appliance: %zu bytes", sizeof *engine);
		*code = HR_EXIT_MISSING;
		return NULL;
	}
	err = apart ? hr_config_read_in_child(&engine->config, read_it, named, HR_CONFIG_READER_NS,
					      &e)
		    : read_config(&engine->config, file, &e);
	*code = hr_error_report(&e, err);
	*last_resort = engine->config.boot.last_resort;
	if (err == 0) {
		hr_log_set_level(engine->config.log);
		err = hr_engine_init(engine, pipeline);
		if (!err)
			return engine;
		*code = hr_error_report(&engine->error, err);
	}
	free(engine);
	return NULL;
}

struct hr_engine *hr_load(const char *file, const char *pipeline, int *code)
{
	enum hr_boot_end unused;

	return load_engine(file, pipeline, false, &unused, code);
}

struct hr_engine *hr_load_to_boot(const char *file, enum hr_boot_end *last_resort, int *code)
{
	return load_engine(file, NULL, true, last_resort, code);
}
