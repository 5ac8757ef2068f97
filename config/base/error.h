/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/error.h - how an error passes from the function that fails to the user.
 *
 * A function that can fail returns 0, a negative errno or a positive NVMe status, and takes a
 * struct hr_error as its last parameter. The return value is for code, the error is for the user:
 *
 * - The function with the most details fills the error: hr_fail(). It also chooses the kind; the
 *   exit code follows from the kind. It does not log the text. A shortage of this moment is
 *   HR_ERROR_FAILED, whatever the function chooses: -EAGAIN, -EMFILE, -ENFILE, -ENOBUFS, and -ENOMEM
 *   in place of HR_ERROR_USAGE (a size that this machine does not have is HR_ERROR_MISSING).
 * - The first error wins: a filled error stays as it is, so clean-up may pass the same one.
 * - A function in between may put a context in front: hr_error_context().
 * - The last caller prints the error: hr_error_report(), or hr_error_log(). Both print
 *   an error once, however often they are called.
 * - A list of mistakes is one error with a line for each: hr_error_add().
 *
 * A text names object, what, value and limit: "0000:41:00.0: CSTS.RDY still 0 after 7500 ms (CAP.TO
 * 15)". Nothing here allocates. An error belongs to one thread. Every function takes NULL in place
 * of an error: the text is not wanted.
 */
#ifndef CONFIG_BASE_ERROR_H
#define CONFIG_BASE_ERROR_H

#include <stdbool.h>

#include "config/base/log.h"

#define HR_ERROR_BYTES 4096u /* of a text, with its NUL; a longer one ends in "..." */

/* The values are the exit codes of all commands but topo. */
enum hr_error_kind {
	HR_ERROR_NONE = 0,
	HR_ERROR_FAILED = 1,  /* not done: wrong data, no space, interrupted */
	HR_ERROR_USAGE = 2,   /* command line or configuration */
	HR_ERROR_MISSING = 3, /* a requirement or a device is missing, or not permitted */
	HR_ERROR_DEVICE = 4,  /* a device failed: NVMe status, lost command, gone */
};

/* All zero: no error. */
struct hr_error {
	enum hr_error_kind kind;
	bool printed;
	unsigned left_out;	   /* lines that the text has no room for */
	char text[HR_ERROR_BYTES]; /* lines are separated by '\n'; no other control character */
};

/*
 * Fill an empty error; a filled one stays as it is. Control characters of the text become '?'.
 * Returns code, which is not 0: `return hr_fail(e, HR_ERROR_MISSING, -ENODEV, "...", ...);`
 */
int hr_fail(struct hr_error *e, enum hr_error_kind kind, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * The same for a failure that follows from one that was reported, as a command to an ssd that is
 * known to have failed: hr_error_log() does not print the text.
 */
int hr_fail_known(struct hr_error *e, enum hr_error_kind kind, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Add a line to a filled error, whose kind stays, or fill an empty one. A line for which there is
 * no room is counted, and hr_error_log() prints the count. Returns code.
 */
int hr_error_add(struct hr_error *e, enum hr_error_kind kind, int code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Put "CONTEXT: " in front of the text, cutting its end where there is no room. No effect on an
 * empty error. */
void hr_error_context(struct hr_error *e, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Append to the text. No effect on an empty error. */
void hr_error_append(struct hr_error *e, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Empty the error before another attempt. */
void hr_error_clear(struct hr_error *e);

/* Log each line at that level, unless the error is empty or has been printed. */
void hr_error_log(struct hr_error *e, enum hr_log_level level);

/*
 * The exit code of a call that returned code: 0; the kind; HR_ERROR_FAILED for an empty error. Logs
 * the error, as an error. An empty error with another code than 0 and -EINTR is logged by its
 * number.
 */
int hr_error_report(struct hr_error *e, int code);

/* True for the errors of a shortage of this moment, see above. */
bool hr_error_is_shortage(int code);

/* The analyzer does not know the bodies: it sees here that all return `code`. */
#ifdef __clang_analyzer__
#define hr_fail(e, kind, code, ...) (hr_fail(e, kind, code, __VA_ARGS__), (code))
#define hr_fail_known(e, kind, code, ...) (hr_fail_known(e, kind, code, __VA_ARGS__), (code))
#define hr_error_add(e, kind, code, ...) (hr_error_add(e, kind, code, __VA_ARGS__), (code))
#endif

/* ---- exit codes of this process */

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
