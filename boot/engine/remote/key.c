/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/remote/key.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "config/base/files.h"

static int read_key(int fd, uint8_t key[HR_LINK_KEY_BYTES], struct hr_error *e)
{
	uint8_t data[HR_LINK_KEY_BYTES + 1];
	const ssize_t n = read(fd, data, sizeof data);
	int err = 0;

	if (n < 0)
		err = hr_fail(e, HR_ERROR_USAGE, -errno, "%s", strerror(errno));
	else if (n != HR_LINK_KEY_BYTES)
		err = hr_fail(e, HR_ERROR_USAGE, -EMSGSIZE,
			      "expected exactly 32 bytes; 'head -c 32 /dev/urandom' makes a key");
	else
		memcpy(key, data, HR_LINK_KEY_BYTES);
	explicit_bzero(data, sizeof data);
	return err;
}

int hr_remote_key_read(const char *file, uint8_t key[HR_LINK_KEY_BYTES], struct hr_error *e)
{
	const int fd = hr_trust_open(file, HR_TRUST_SECRET, e);
	int err = fd < 0 ? fd : read_key(fd, key, e);

	if (fd >= 0)
		close(fd);
	if (err)
		hr_error_context(e, "key file %s", file);
	return err;
}
