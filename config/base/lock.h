/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/base/lock.h - locks between the processes of this machine, by names.
 *
 * A lock is a lock of an open file description (fcntl(2), F_OFD_SETLK) on an empty file, which stays.
 * Only root can open the files of root, and only a user those of that user, so no other user can
 * hold a lock that root waits for. The folder is
 *
 * - /run/headrace-locks for root, whatever the environment says;
 * - $XDG_RUNTIME_DIR/headrace-locks, else /tmp/headrace-locks-USER, for another user. So these locks
 *   exclude the processes of one user only.
 */
#ifndef CONFIG_BASE_LOCK_H
#define CONFIG_BASE_LOCK_H

#include "config/base/error.h"

#define HR_LOCK_NAME 192u /* with its NUL */

/*
 * Take a lock. The name may have any characters. Closing the descriptor, and all copies of it in
 * child processes, releases the lock. Returns a descriptor; -EBUSY: another open file description
 * has the lock, and e is not filled; -EPERM: the folder is not that of this user alone; -errno. The
 * error names the folder or file.
 */
int hr_lock(const char *name, struct hr_error *e);

#endif
