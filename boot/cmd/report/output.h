/*
 * boot/cmd/report/output.h - a file that a command writes for its user.
 *
 * A regular file is written under a temporary name in its folder and renamed when all of it is on
 * the disk. Whenever the command ends, FILE is either the old file or the complete new one. Pipes,
 * terminals and block devices are written in place. "-" is standard output.
 */
#ifndef BOOT_CMD_REPORT_OUTPUT_H
#define BOOT_CMD_REPORT_OUTPUT_H

#include <limits.h>
#include <stdbool.h>

struct hr_target {
	const char *name; /* for messages; the caller's */
	int fd;		  /* write to it; -1: not open */
	bool force;
	char path[PATH_MAX]; /* of a regular file, links resolved; "": written in place */
	char temporary[PATH_MAX];
};

/*
 * Open the file for writing. An error is logged:
 *   HR_EXIT_USAGE: this process has the file open, as the image of the store that it reads. Links to
 *   the file, block devices that hold it and loop devices over it are refused, too;
 *   HR_EXIT_FAILED: the file or block device exists and force is false; or the system refuses.
 * Returns 0 or that exit code. After an error there is nothing to end.
 */
int hr_target_open(struct hr_target *target, const char *file, bool force);

/*
 * Make the file durable and rename it. 0 or an exit code, with the error logged. Ends the target.
 */
int hr_target_commit(struct hr_target *target);

/* Remove the temporary file; data written in place stays. Ends the target; may be called again. */
void hr_target_discard(struct hr_target *target);

/*
 * True when this process has that file open, or the block device that holds it, or when an open
 * loop device shows it.
 */
struct stat;
bool hr_target_is_ours(int fd, const struct stat *file);

#endif
