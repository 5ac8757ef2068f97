/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/undo.h - the undo helper: a child process that makes writes when this process dies.
 *
 * A process that drives hardware changes state that must be undone when the process dies: a
 * controller masters the bus, a driver is unbound. hr_undo_add() records an undo step, one write to
 * a file. The child process waits until this process ends for any reason, and then makes
 * the writes. The child shares the open files of this process. Memory that belongs to a file (huge
 * pages, buffers pinned by io_uring) is therefore not reused before the steps of
 * HR_UNDO_BEFORE_CLOSE are made. Then the child closes the files and makes the steps of
 * HR_UNDO_AFTER_CLOSE.
 *
 * The child exists while there is at least one undo step. A process that undoes its change itself
 * drops the step. Not thread safe.
 */
#ifndef PCI_UNDO_H
#define PCI_UNDO_H

#include <stddef.h>
#include <stdint.h>

#define HR_UNDO_MAX 256u	   /* undo steps: a handful per function */
#define HR_UNDO_FILE_NAME_MAX 120u /* with its NUL */
#define HR_UNDO_BYTES_MAX 104u	   /* of one write */

#define HR_UNDO_KEPT_MAX 64u /* descriptors to keep open: one per function */

enum hr_undo_when {
	HR_UNDO_BEFORE_CLOSE, /* made while the files of this process are still open */
	HR_UNDO_AFTER_CLOSE,  /* made after they are closed */
};

/*
 * Record an undo step: write `bytes` at `offset` of the file at path. Steps are made in the order
 * of their adding. Returns an identifier for hr_undo_drop(); -ENOSPC: HR_UNDO_MAX; -E2BIG: path or
 * bytes too long; or the error of starting the child.
 */
int hr_undo_add(enum hr_undo_when when, const char *path, uint64_t offset, const void *bytes,
		size_t size);

/* Remove an undo step. A negative identifier means no step. */
void hr_undo_drop(int id);

/*
 * Let the child keep this descriptor open until its end, so that a lock excludes other processes
 * until the steps of HR_UNDO_AFTER_CLOSE are made. Valid while there are undo steps: call it after
 * hr_undo_add(), and call hr_undo_release_fd() before fd is closed. 0, or -ENOSPC:
 * HR_UNDO_KEPT_MAX, or no undo step.
 */
int hr_undo_keep_fd(int fd);
void hr_undo_release_fd(int fd);

#endif
