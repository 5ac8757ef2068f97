/*
 * boot/cmd/options.h - options and the argument of a command, as a table of the variables that they
 * set.
 */
#ifndef BOOT_CMD_OPTIONS_H
#define BOOT_CMD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define HR_OPTIONS_MAX 8u

/* One of the three is not NULL. */
struct hr_option {
	const char *name;   /* without "--"; NULL ends the table */
	bool *flag;	    /* becomes true */
	void (*call)(void); /* is called */
	const char **text;  /* gets the value; the others have no value */
};

/* Report an option that is not in the list, with the one that was probably meant. Returns
 * HR_EXIT_USAGE. */
#define HR_OPTIONS_KNOWN_MAX 48u
#define HR_OPTION_NAME_MAX 64u
struct option;
int hr_option_unknown(const char *command, const char *given, const struct option *list);

/* A decimal number of 1..max. False: the text is none. */
bool hr_option_count(const char *text, unsigned long max, uint32_t *number);

/* Parse "I/N", part I of N: N up to max, I below N. */
bool hr_option_part(const char *text, unsigned long max, uint32_t *index, uint32_t *count);

/* Obey the value of --log: "text", which NULL means, too, or "json" (hr_log_set_json()). 0, or
 * HR_EXIT_USAGE, printed. */
int hr_option_log(const char *command, const char *form);

/* The option, for help texts. */
#define HR_LOG_HELP                                                                                  \
	"  --log FORM     form of messages on stderr: \"text\", or \"json\": one JSON object in a\n" \
	"                 line, with time, level, message, and the pipeline, ssd, gpu or device\n"   \
	"                 that the message names\n"

/*
 * Take the options of argv, whose first word is the name of the command, and at most one further
 * argument, which goes to *argument and is named `what` in errors. -q stands for an option "quiet".
 * 0, or HR_EXIT_USAGE, printed.
 */
int hr_options(int argc, char **argv, const struct hr_option *option, const char *what,
	       const char **argument);

#endif
