/*
 * pci/custodian.h - what has to be written when this process dies, however it dies.
 *
 * A process that drives hardware leaves it in a state that somebody must undo: a controller that
 * still masters the bus, a driver that was unbound. hr_custodian_add() leaves a write with a child
 * process, which waits for the end of this one. It shares our open files, so that memory which
 * belongs to a file (huge pages, what an io_uring pins) is not given to others before the writes of
 * HR_CUSTODY_NOW have been made; then it closes them and makes those of HR_CUSTODY_LATER.
 *
 * The child lives from the first entry to the last. What was undone in order is dropped. One thread.
 */
#ifndef PCI_CUSTODIAN_H
#define PCI_CUSTODIAN_H

#include <stddef.h>
#include <stdint.h>

#define HR_CUSTODY_MAX 256u	  /* entries: a handful per function */
#define HR_CUSTODY_PATH_MAX 120u  /* with its NUL */
#define HR_CUSTODY_BYTES_MAX 104u /* of one write */

#define HR_CUSTODY_KEPT_MAX 64u /* descriptors: one per function */

enum hr_custody_when {
	HR_CUSTODY_NOW,	  /* while our files are still open */
	HR_CUSTODY_LATER, /* when they are closed */
};

/*
 * Write `bytes` at `offset` of the file at path, in the order of adding. Returns a number for
 * hr_custodian_drop(); -ENOSPC: HR_CUSTODY_MAX; -E2BIG: path or bytes too long; or why there is no
 * child.
 */
int hr_custodian_add(enum hr_custody_when when, const char *path, uint64_t offset,
		     const void *bytes, size_t size);

/* The write is not needed any more. A negative id is none. */
void hr_custodian_drop(int id);

/*
 * While there are entries: the child closes this descriptor of ours only at its end, so that a lock
 * keeps others away until the writes of HR_CUSTODY_LATER have been made, too. To be called after
 * hr_custodian_add(), and taken back before fd is closed. 0, or -ENOSPC: HR_CUSTODY_KEPT_MAX.
 */
int hr_custodian_keep(int fd);
void hr_custodian_unkeep(int fd);

#endif
