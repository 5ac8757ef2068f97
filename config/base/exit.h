/*
 * config/base/exit.h - exit codes of this process.
 */
#ifndef CONFIG_BASE_EXIT_H
#define CONFIG_BASE_EXIT_H

#include "config/base/error.h"

/* The same for every command (topo has its own, documented there): 0, or the kind of the error that
 * ended the command, which hr_error_report() returns. */
enum hr_exit {
	HR_EXIT_DONE = HR_ERROR_NONE,
	HR_EXIT_FAILED = HR_ERROR_FAILED,
	HR_EXIT_USAGE = HR_ERROR_USAGE,
	HR_EXIT_MISSING = HR_ERROR_MISSING,
	HR_EXIT_DEVICE = HR_ERROR_DEVICE,
};

#endif
