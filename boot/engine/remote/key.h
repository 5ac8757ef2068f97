/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/remote/key.h - the file with the pre-shared key of remote sinks and sources.
 */
#ifndef BOOT_ENGINE_REMOTE_KEY_H
#define BOOT_ENGINE_REMOTE_KEY_H

#include <stdint.h>

#include "config/base/error.h"
#include "boot/remote/link.h"

/*
 * Read the key. The file has exactly its bytes, and only its owner, root or the user of this process,
 * can access or replace it (config/base/files.h). 0; -EACCES: others can; -EMSGSIZE: another length;
 * -EINVAL, -EISDIR: no regular file; -errno. An error fills *e. The caller overwrites the key after
 * its use.
 */
int hr_remote_key_read(const char *file, uint8_t key[HR_LINK_KEY_BYTES], struct hr_error *e);

#endif
