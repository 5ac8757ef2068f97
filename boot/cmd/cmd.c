#include "boot/cmd/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/report/usage.h"
#include "config/base/log.h"
#include "config/base/nearest.h"

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
static const struct hr_option *find(const struct hr_option *option, const char *name)
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

static void take(const struct hr_option *option)
{
	if (option->flag)
		*option->flag = true;
	if (option->call)
		option->call();
	if (option->text)
		*option->text = optarg;
}

int hr_options(int argc, char **argv, const struct hr_option *option, const char *what,
	       const char **argument)
{
	const struct hr_option *quiet = find(option, "quiet");
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
		take(quiet && got == 'q' ? quiet : &option[which]);
	}
	if (argc - optind > 1)
		return hr_usage_error(argv[0], "%s expected, %d given", what, argc - optind);
	if (optind < argc)
		*argument = argv[optind];
	return 0;
}
