/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/files.h - open files by names that a user, a configuration or another file gives.
 *
 * Such a name can lead to a FIFO, a terminal or a device: open(2) may then wait for ever, or act (a
 * watchdog starts). hr_open() looks at the type before it opens, never waits in open(2), and looks
 * at the type again afterwards, because the name may lead to another file meanwhile. Files of the
 * kernel at fixed paths (/proc, /sys, /dev) need none of this.
 */
#ifndef CONFIG_BASE_FILES_H
#define CONFIG_BASE_FILES_H

#include <stddef.h>

#include "config/base/error.h"

/* Types that a caller accepts. */
enum {
	HR_OPEN_FILE = 1,   /* a regular file */
	HR_OPEN_FOLDER = 2, /* a directory */
	HR_OPEN_PIPE = 4,   /* a FIFO that a process opens for writing within HR_OPEN_PIPE_NS */
	HR_OPEN_ANY = 8,    /* a file, FIFO or device, waited for as long as open(2) waits */
};

#define HR_OPEN_PIPE_NS 5000000000ull

/*
 * Open a file: `flags` as of open(2); O_CLOEXEC and O_NOCTTY are added. With O_CREAT a new file
 * belongs to its owner alone (mode 0600). Returns a descriptor that waits in read(2) as usual, or
 * an error, with its text in *why: -EISDIR, -EINVAL: another type than those accepted; -ETIMEDOUT:
 * no process writes to the FIFO; -errno of open(2). *why stays valid as long as the text of
 * strerror(3).
 */
int hr_open(const char *path, int flags, unsigned types, const char **why);

/* ---- open files that this process obeys: code that it runs, keys.
 *
 * Such a file must not be one that another user can change or replace. Trusted users are root, the
 * user as which the process runs, and the owners of the program and of the folders on the way to
 * it: these users can replace the program itself. The rules are those of sshd for its keys
 * ("StrictModes"), and a rule for folders such as /tmp:
 *
 * - The file is a regular one of a trusted user, and no group and no other user may write to it; a
 *   key, nor read it.
 * - The same holds for each folder from the file up to the root, after all symbolic links. A folder
 *   that others may write to is accepted when it is sticky: there they cannot replace files and
 *   folders of a trusted user. A folder on the way to the program is accepted.
 *
 * All checks look at the descriptor, which stays the same file whatever happens to the name.
 */

enum hr_trust {
	HR_TRUST_CODE = 0022,	/* permissions that no other user may have */
	HR_TRUST_SECRET = 0077, /* of a file; of its folders: 0022 */
};

/*
 * Open for reading. Returns a descriptor, which the caller closes; -EACCES: another user could
 * change the file, or read the secret; or an error of hr_open(). The error is the rest of a line
 * "FILE ...".
 */
int hr_trust_open(const char *path, enum hr_trust what, struct hr_error *e);

/*
 * The name by which this process can open fd again, for dlopen(3). The loader takes two files of one
 * name for the same, so fd stays open as long as the file is loaded. Returns name.
 */
#define HR_TRUST_NAME 32u
const char *hr_trust_name(int fd, char name[HR_TRUST_NAME]);

/*
 * Copy a file into memory that cannot be changed any more, not even by this process (memfd_create(2),
 * F_ADD_SEALS), and that may be executed. At most `limit` bytes. Returns a descriptor, with the
 * number of bytes in *bytes; -EFBIG; -errno. The error is the rest of a line "FILE ...".
 */
int hr_trust_copy(int fd, const char *name, size_t limit, size_t *bytes, struct hr_error *e);

#endif
