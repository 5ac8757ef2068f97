/*
 * boot/cmd/report/usage.h - mistakes on the command line.
 */
#ifndef BOOT_CMD_REPORT_USAGE_H
#define BOOT_CMD_REPORT_USAGE_H

/* "headrace: NAME: ..." and where help is, to stderr. Returns HR_EXIT_USAGE. */
int hr_usage_error(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
