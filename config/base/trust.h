/*
 * config/base/trust.h - open files that this process obeys: code that it runs, keys.
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
#ifndef CONFIG_BASE_TRUST_H
#define CONFIG_BASE_TRUST_H

#include <stddef.h>

#include "config/base/error.h"

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
