/*
 * boot/cmd/report/usage.h - reports mistakes on the command line.
 */
#ifndef BOOT_CMD_REPORT_USAGE_H
#define BOOT_CMD_REPORT_USAGE_H

/* Print "headrace: NAME: ..." and a hint about --help to stderr. Returns HR_EXIT_USAGE. */
int hr_usage_error(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
